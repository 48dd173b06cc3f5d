"""The C kernel of MIHash's steps; `mihash.py` holds its twin and says what the fields mean."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from hashstream._native import lib

if TYPE_CHECKING:
    from hashstream.hashers.mihash import Piece

__all__ = ["KERNEL", "kernel_steps"]


class _CPiece(ctypes.Structure):
    _fields_ = (
        ("n", ctypes.c_int64),
        ("d", ctypes.c_int64),
        ("r", ctypes.c_int64),
        ("bins", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("seen", ctypes.c_int64),
        ("refresh", ctypes.c_int64),
        ("scale", ctypes.c_double),
        ("clip", ctypes.c_double),
        ("slot", ctypes.c_void_p),
        ("rate", ctypes.c_void_p),
        ("related", ctypes.c_void_p),
    )


def kernel_steps(piece: Piece, W: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`mihash.twin_steps` in C: the W (d, r) after the piece, and the projections (most, r) of its reservoir."""
    dtype = W.dtype
    X, reservoir = np.ascontiguousarray(piece.X, dtype), np.ascontiguousarray(piece.reservoir, dtype)
    slots = np.ascontiguousarray(piece.slots, np.int64)
    rates = np.ascontiguousarray(piece.rates, np.float64)
    related = np.ascontiguousarray(piece.related, np.uint8)
    (n, d), r, size = X.shape, W.shape[1], len(reservoir)
    if (
        related.shape != (n, size + n)
        or P.shape != (size, r)
        or W.shape[0] != d
        or reservoir.shape != (size, d)
        or slots.shape != (n,)
        or rates.shape != (n,)
    ):
        raise ValueError("the arrays of a piece do not fit together")
    # A row takes the place of an item, or the next free one: no place is ever left out.
    last = np.maximum.accumulate(np.append(size - 1, slots))
    if n and (slots.min() < -1 or (slots > last[:-1] + 1).any()):
        raise ValueError("slots must be -1, or a place that is taken, or the next one")
    if not (1 <= piece.bins < 2**31 and piece.refresh >= 1 and 0 <= piece.seen < 2**62):
        raise ValueError(f"bins {piece.bins}, refresh {piece.refresh} or seen {piece.seen} cannot be")
    most = max(size, int(slots.max(initial=-1)) + 1)
    moved, projections = np.array(W, order="C"), np.zeros((most, r), dtype)
    projections[:size] = P
    c_piece = _CPiece(
        n, d, r, piece.bins, size, most, piece.seen, piece.refresh, piece.scale, piece.clip,
        slots.ctypes.data, rates.ctypes.data, related.ctypes.data,
    )  # fmt: skip
    arrays = (reservoir, X, moved, projections)
    if KERNEL[dtype.char](ctypes.byref(c_piece), *(array.ctypes.data for array in arrays)):
        raise MemoryError("no memory for the steps of this piece")
    return moved, projections


KERNEL: dict[str, Any] = {}
"""dtype character -> the kernel; empty where there is none, and the twin serves."""

if lib is not None and hasattr(lib, "hs_mihash_f32"):
    KERNEL = {"f": lib.hs_mihash_f32, "d": lib.hs_mihash_f64}
    for _function in KERNEL.values():
        _function.argtypes = [ctypes.c_void_p] * 5
        _function.restype = ctypes.c_int
