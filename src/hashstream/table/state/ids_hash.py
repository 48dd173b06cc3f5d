"""Hashes of ids that nobody can predict: SipHash-1-3, keyed with a secret of the process.

An index whose hashes are known can be made as slow as a list by whoever chooses the ids. These hashes are never stored.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_int64, c_void_p

import numpy as np

from hashstream._native import lib

__all__ = ["hash_numbers", "hash_texts"]

SECRET = os.urandom(16)

KEY = np.frombuffer(SECRET, "<u8").astype(np.uint64)


def _declare(lib: ctypes.CDLL) -> None:
    lib.hs_ids_hash_numbers.restype = lib.hs_ids_hash_texts.restype = None
    lib.hs_ids_hash_numbers.argtypes = [c_void_p, c_void_p, c_int64, c_void_p]
    lib.hs_ids_hash_texts.argtypes = [c_void_p, c_void_p, c_void_p, c_int64, c_void_p]


if lib is not None:
    _declare(lib)


def hash_numbers(ids: np.ndarray) -> np.ndarray:
    """Of numbers (n,) int64, uint64."""
    if lib is None:
        return siphash_numbers(ids.view(np.uint64), KEY)
    ids = np.ascontiguousarray(ids, np.int64)
    out = np.empty(len(ids), np.uint64)
    lib.hs_ids_hash_numbers(KEY.ctypes.data, ids.ctypes.data, len(ids), out.ctypes.data)
    return out


def hash_texts(text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Of texts that follow one another in `text`, uint8; ends : (n,) int64, where each ends. uint64.

    Without a compiler it is the hash that Python has for bytes, which is the same function with another key.
    """
    if lib is None:
        raw, start, hashes = text.tobytes(), 0, []
        for end in ends.tolist():
            hashes.append(hash(SECRET + raw[start:end]))
            start = end
        return np.array(hashes, np.int64).view(np.uint64)
    text, ends = np.ascontiguousarray(text, np.uint8), np.ascontiguousarray(ends, np.int64)
    out = np.empty(len(ends), np.uint64)
    lib.hs_ids_hash_texts(KEY.ctypes.data, text.ctypes.data, ends.ctypes.data, len(ends), out.ctypes.data)
    return out


def siphash_numbers(ids: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The twin of the kernel: ids (n,) uint64, key (2,) uint64."""
    names = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [np.full(len(ids), np.uint64(name) ^ key[i % 2]) for i, name in enumerate(names)]
    for message in (ids, np.uint64(8 << 56)):  # the number, then how many bytes it has
        v[3] ^= message
        _round(v)
        v[0] ^= message
    v[2] ^= np.uint64(0xFF)
    for _ in range(3):
        _round(v)
    hashes: np.ndarray = v[0] ^ v[1] ^ v[2] ^ v[3]
    return hashes


def _round(v: list[np.ndarray]) -> None:
    for a, b, turn, half in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
        v[a] += v[b]
        v[b] = _rotated(v[b], turn) ^ v[a]
        if half:
            v[a] = _rotated(v[a], 32)


def _rotated(x: np.ndarray, by: int) -> np.ndarray:
    return x << np.uint64(by) | x >> np.uint64(64 - by)
