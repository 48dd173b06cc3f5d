"""Hash functions as they were at one version: a cheap copy that goes on encoding while the hasher learns."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from hashstream.hashers import OnlineHasher, load, save
from hashstream.hashers.base import parameter_names, state
from hashstream.table.packing import checksum

__all__ = ["encoder_checksum", "from_bytes", "frozen", "to_bytes"]

NEEDED = {
    "projection_",
    "feature_map_",
    "label_book_",
    "n_bits_",
    "n_seen_",
    "version_",
    "dtype_",
    "n_features_in_",
    "feature_names_in_",
}
"""What encoding with a plain projection looks at, and `load` asks for; the rest of the state is for learning."""


def frozen(hasher: OnlineHasher) -> OnlineHasher:
    """A hasher that encodes as `hasher` does now and shares its arrays.

    Learning replaces a hasher's arrays and never writes into them, so references are enough. Where the method is a
    plain projection, everything that only learning needs is left out: the copies of old versions must be small.
    """
    copy = object.__new__(type(hasher))
    names = set(state(hasher)) - {"rng_"}
    if type(hasher)._project is OnlineHasher._project:
        names &= NEEDED
    names |= set(parameter_names(type(hasher)))
    copy.__dict__ = {name: hasher.__dict__[name] for name in names if name in hasher.__dict__}
    return copy


def encoder_checksum(hasher: OnlineHasher) -> int:
    """Of the arrays that encoding looks at: equal where a model was learned again to the last bit."""
    learned = state(frozen(hasher))
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
