"""Checksums of items that depend neither on their order nor on how they are spread over tables.

The digest of a set of items is the sum, modulo 2^64, of a hash of each one's (id, version, code). So the digests of
parts add up to that of the whole, and one table, the shards of a cluster and an export can be compared by one number.
The hashes are the same on every machine, and not secret: they find mistakes, not forgeries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol

import numpy as np

__all__ = ["digest_of", "item_hashes", "stable_hashes", "sum_of"]

PIECE = 1 << 16  # items that are hashed at once, so that they stay in the cache
MASK = (1 << 64) - 1
STEP, FIRST, SECOND = (np.uint64(one) for one in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Piece(Protocol):
    """Items of one version, as `HashTable.codes` yields them."""

    @property
    def ids(self) -> np.ndarray: ...
    @property
    def codes(self) -> np.ndarray: ...
    @property
    def version(self) -> int: ...


def stable_hashes(ids: np.ndarray) -> np.ndarray:
    """Of ids (n,), int64 or object holding str: uint64, equal on every machine.

    >>> stable_hashes(np.array([1, 2])).tolist()
    [10451216379200822465, 10905525725756348110]
    >>> stable_hashes(np.array(["a"], object)).tolist()
    [3405396810240292928]
    """
    if ids.dtype.kind in "iu":
        return _mixed(ids.astype(np.int64).view(np.uint64))
    raw = b"".join(hashlib.blake2b(one.encode(), digest_size=8).digest() for one in ids.tolist())
    return np.frombuffer(raw, "<u8").astype(np.uint64)


def digest_of(ids: np.ndarray, codes: np.ndarray, version: int) -> int:
    """Of items of one version. ids : (n,) int64, or object holding str. codes : (n, width) uint8.

    >>> ids, codes = np.array([3, 1, 2]), np.eye(3, dtype=np.uint8)
    >>> digest_of(ids, codes, 7) == digest_of(ids[::-1], codes[::-1], 7)
    True
    >>> digest_of(ids, codes, 7) == digest_of(ids, codes, 8)
    False
    """
    if len(ids) != len(codes):
        raise ValueError(f"there are {len(ids)} ids, but {len(codes)} codes")
    total = 0
    for start in range(0, len(ids), PIECE):
        total += int(item_hashes(ids[start : start + PIECE], codes[start : start + PIECE], version).sum())
    return total & MASK


def sum_of(pieces: Iterable[Piece]) -> int:
    """The digest of pieces with distinct items."""
    return sum(digest_of(piece.ids, piece.codes, piece.version) for piece in pieces) & MASK


def item_hashes(ids: np.ndarray, codes: np.ndarray, version: int) -> np.ndarray:
    """The hashes (n,) uint64 of items of one version, whose sum is their digest."""
    n, width = codes.shape
    words = np.zeros((n, -(-width // 8) * 8), np.uint8)  # shorter codes end in zeros
    words[:, :width] = codes
    found = stable_hashes(ids)
    found ^= _mixed(np.full(1, version & MASK, np.uint64))
    for word in words.view("<u8").T:
        found = _mixed(found ^ word)
    return found


def _mixed(x: np.ndarray) -> np.ndarray:
    """SplitMix64: a bijection in which every bit of the input changes half of the output."""
    x = x + STEP
    x ^= x >> np.uint64(30)
    x *= FIRST
    x ^= x >> np.uint64(27)
    x *= SECOND
    x ^= x >> np.uint64(31)
    return x
