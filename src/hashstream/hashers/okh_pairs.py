"""OKH's pairs: the steps of `okh.py` in NumPy, and the compiled loop that takes their place."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from hashstream._native import lib

__all__ = ["KERNEL", "learn_pairs"]


class _CSettings(ctypes.Structure):
    _fields_ = (
        ("d", ctypes.c_int64),
        ("r", ctypes.c_int64),
        ("allowed", ctypes.c_double),
        ("wanted", ctypes.c_double),
        ("C", ctypes.c_double),
    )


def learn_pairs(
    W: np.ndarray, X: np.ndarray, similar: np.ndarray, tolerances: tuple[float, float], C: float
) -> tuple[np.ndarray, int]:
    """The W after all pairs, and how many moved it.

    W : (d, r); X : (2n, d), C-contiguous, pairs; similar : (n,) bool. tolerances : t_s and t_d, the distance that a
    similar pair may have, and that a dissimilar pair must have.
    """
    if not KERNEL:
        return twin(W, X, similar, tolerances, C)
    W = W.copy()
    similar = np.ascontiguousarray(similar, np.uint8)
    d, pairs = len(W), len(similar)
    if X.shape != (2 * pairs, d) or X.dtype != W.dtype or not X.flags.c_contiguous:
        raise ValueError(
            f"X must be a C-contiguous array of {W.dtype} and shape {(2 * pairs, d)}, not {X.dtype} {X.shape}"
        )
    settings = _CSettings(*W.shape, *tolerances, C)
    call = KERNEL[X.dtype.char]
    moved = call(ctypes.byref(settings), W.ctypes.data, X.ctypes.data, similar.ctypes.data, len(similar))
    if moved < 0:
        raise MemoryError("no memory for the pairs of this batch")
    return W, int(moved)


def twin(
    W: np.ndarray, X: np.ndarray, similar: np.ndarray, tolerances: tuple[float, float], C: float
) -> tuple[np.ndarray, int]:
    """`learn_pairs` in NumPy: steps 1 to 4 of `okh.py`, pair by pair."""
    W = W.copy()
    moved = 0
    for t, alike in enumerate(similar):
        pair = X[2 * t : 2 * t + 2]
        P = pair @ W
        H = np.where(P > 0, 1, -1).astype(W.dtype)
        differ = H[0] != H[1]
        distance = int(np.count_nonzero(differ))
        R = distance - tolerances[0] if alike else tolerances[1] - distance
        if not R > 0:
            continue
        bits = np.flatnonzero(differ if alike else ~differ)
        nearest = np.abs(P).min(axis=0)[bits]
        bits = bits[np.argsort(nearest, kind="stable")][: int(np.ceil(R))]
        flipped = np.abs(P[:, bits]).argmin(axis=0)  # where both are equally near, the first of the pair
        change = np.zeros_like(H)  # g - h
        change[flipped, bits] = -2 * H[flipped, bits]
        # |Q|_F^2: no bit is flipped in both, so the columns of Q are multiples of x_i or of x_j.
        squared = float(np.einsum("ij,ij->i", change, change) @ np.einsum("ij,ij->i", pair, pair))
        if squared == 0:
            continue
        loss = -float(np.einsum("ij,ij->", change, P)) + np.sqrt(R)
        W += pair.T @ (W.dtype.type(min(C, loss / squared)) * change)
        moved += 1
    return W, moved


KERNEL: dict[str, Any] = {}
"""dtype character -> the kernel; empty where there is none, and the twin serves."""

if lib is not None and hasattr(lib, "hs_okh_f32"):
    KERNEL = {"f": lib.hs_okh_f32, "d": lib.hs_okh_f64}
    for _function in KERNEL.values():
        _function.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64]
        _function.restype = ctypes.c_int64
