"""Hash functions as they were at one version: a cheap copy that goes on encoding while the hasher learns."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from hashstream.hashers import LSH, OnlineHasher, load, save
from hashstream.hashers.base import parameter_names, state
from hashstream.table.packing import checksum

__all__ = ["encoder_checksum", "from_bytes", "frozen", "to_bytes"]

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


def encoder_checksum(encoder: OnlineHasher) -> int:
    """Of the arrays of a frozen hasher: equal where a model was learned again to the last bit."""
    learned = state(encoder)
    arrays = {name: value for name, value in learned.items() if isinstance(value, np.ndarray)}
    return checksum(
        int(learned["version_"]), *(arrays[name] for name in sorted(arrays) if arrays[name].dtype != object)
    )


def to_bytes(hasher: OnlineHasher) -> bytes:
    """A hasher as `hashstream.save` writes it."""
    with tempfile.TemporaryDirectory(prefix="hashstream-") as folder:
        path = Path(folder) / "hasher"
        save(hasher, path)
        return path.read_bytes()


def from_bytes(raw: bytes) -> OnlineHasher:
    """The hasher that `to_bytes` was given; FormatError where the bytes are not one."""
    with tempfile.TemporaryDirectory(prefix="hashstream-") as folder:
        path = Path(folder) / "hasher"
        path.write_bytes(raw)
        return load(path)
