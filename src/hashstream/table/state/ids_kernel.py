"""The C kernel of the index from ids to slots; `index.py` has its twin and says what a cell is."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

import numpy as np

from hashstream._native import lib

__all__ = ["KERNEL", "kernel_find", "kernel_insert"]


def _declare(lib: ctypes.CDLL) -> None:
    lib.hs_ids_insert.restype = lib.hs_ids_find.restype = None
    lib.hs_ids_insert.argtypes = [c_void_p, c_int64, c_void_p, c_void_p, c_int64]
    lib.hs_ids_find.argtypes = [c_void_p, c_int64, c_void_p, c_void_p, c_int64, *3 * [c_void_p]]


if lib is not None:
    _declare(lib)

KERNEL = lib is not None


def kernel_insert(cells: np.ndarray, hashes: np.ndarray, slots: np.ndarray) -> None:
    """Enter slots (n,) int64 whose hashes (n,) uint64 are given; cells (m,) uint32 are written to."""
    assert lib is not None
    hashes, slots = np.ascontiguousarray(hashes, np.uint64), np.ascontiguousarray(slots, np.int64)
    lib.hs_ids_insert(cells.ctypes.data, len(cells), hashes.ctypes.data, slots.ctypes.data, len(slots))


def kernel_find(
    cells: np.ndarray, hashes: np.ndarray, ids: np.ndarray, column: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Slots and cells of ids (n,) int64, both (n,) int64 with -1 where an id is not there; column : the ids by slot."""
    assert lib is not None
    hashes, ids = np.ascontiguousarray(hashes, np.uint64), np.ascontiguousarray(ids, np.int64)
    slots, where = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    lib.hs_ids_find(
        cells.ctypes.data, len(cells), hashes.ctypes.data, ids.ctypes.data, len(ids), column.ctypes.data,
        slots.ctypes.data, where.ctypes.data,
    )  # fmt: skip
    return slots, where
