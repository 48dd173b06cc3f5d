"""Hash functions as they were at one version: a cheap copy that goes on encoding while the hasher learns."""

from __future__ import annotations

import os

import numpy as np

from hashstream import hamming
from hashstream.hashers import LSH, OnlineHasher
from hashstream.hashers.base import parameter_names, state
from hashstream.hashers.encoder import block_rows
from hashstream.hashers.serialization import from_bytes, to_bytes
from hashstream.hashers.threads import on_one_thread
from hashstream.hashers.validation import check_finite
from hashstream.table.packing import checksum

__all__ = ["encode", "encoder_checksum", "from_bytes", "frozen", "is_plain", "let_others_run", "to_bytes"]

let_others_run = getattr(os, "sched_yield", lambda: None)

NEEDED = (
    "feature_map_",
    "label_book_",
    "n_bits_",
    "n_seen_",
    "version_",
    "dtype_",
    "n_features_in_",
    "feature_names_in_",
)
"""What encoding looks at, and `load` asks for, beside the projection; the rest of the state is for learning."""


def frozen(hasher: OnlineHasher) -> OnlineHasher:
    """A hasher that encodes as `hasher` does now and shares its arrays.

    Learning replaces a hasher's arrays and never writes into them, so references are enough. Where the method is a
    plain projection, only that is kept, in the method that is nothing else: the copies of old versions must be small.
    """
    if type(hasher)._project is OnlineHasher._project:
        copy: OnlineHasher = LSH(n_bits=hasher.n_bits_)
        copy.projection_ = hasher.projection_
        names = [name for name in NEEDED if name in hasher.__dict__]
    else:
        copy = object.__new__(type(hasher))
        names = [*parameter_names(type(hasher)), *(name for name in state(hasher) if name != "rng_")]
    copy.__dict__.update({name: hasher.__dict__[name] for name in names})
    return copy


def is_plain(encoder: OnlineHasher) -> bool:
    """Whether codes are the signs of a product with the projection."""
    return encoder.feature_map_ is None and type(encoder)._project is OnlineHasher._project


def encode(encoder: OnlineHasher, X: np.ndarray) -> np.ndarray:
    """`encoder.transform(X)` for X (n, d) that `check_rows` has seen: the same codes, with less around the product.

    Products of the same blocks go into one buffer, and their signs from there into the codes. Between two blocks, a
    thread that waits for this core, as a search may, gets it: the system itself would let it wait for some ticks.
    """
    if not is_plain(encoder):
        return encoder.transform(X)
    codes = np.empty((len(X), -(-encoder.n_bits_ // 8)), np.uint8)
    if len(X) <= block_rows(X):
        on_one_thread(lambda: _encode_plain(encoder, X, codes))
    else:
        _encode_plain(encoder, X, codes)
    return codes


def _encode_plain(encoder: OnlineHasher, X: np.ndarray, codes: np.ndarray) -> None:
    n, dtype, step = len(X), encoder.dtype_, block_rows(X)
    values = np.empty((min(step, n), encoder.n_bits_), dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, n, step):
            block, some = X[start : start + step], codes[start : start + step]
            if block.dtype != dtype:
                block = block.astype(dtype)
            made = np.matmul(block, encoder.projection_, out=values[: len(block)])
            if not hamming.pack_signs(made, some):
                check_finite(block)
                some[...] = np.packbits(made > 0, axis=1)
            if n > step:
                let_others_run()


def encoder_checksum(encoder: OnlineHasher) -> int:
    """Of the arrays of a frozen hasher: equal where a model was learned again to the last bit."""
    learned = state(encoder)
    arrays = {name: value for name, value in learned.items() if isinstance(value, np.ndarray)}
    return checksum(
        int(learned["version_"]), *(arrays[name] for name in sorted(arrays) if arrays[name].dtype != object)
    )
