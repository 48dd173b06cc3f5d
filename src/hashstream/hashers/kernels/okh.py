"""OKH's pairs: binding of `_native/okh.c`, and twin. The steps are numbered as in `okh.py`."""

from __future__ import annotations

import ctypes

import numpy as np

from hashstream.hashers.kernels.binding import POINTER, SIZE, bind, check_arrays, choice, structure

# ---- binding

KERNEL = bind("okh", *[POINTER] * 4, SIZE, result=SIZE)

_CSettings = structure("_CSettings", "size d r", "real allowed wanted C")


def compiled_learn_pairs(
    W: np.ndarray, X: np.ndarray, similar: np.ndarray, tolerances: tuple[float, float], C: float
) -> tuple[np.ndarray, int]:
    W = W.copy()
    similar = np.ascontiguousarray(similar, np.uint8)
    pairs = len(similar)
    check_arrays(W.dtype, {"X": (X, (2 * pairs, len(W)))})
    settings = _CSettings(*W.shape, *tolerances, C)
    moved = KERNEL[X.dtype.char](
        ctypes.byref(settings), W.ctypes.data, X.ctypes.data, similar.ctypes.data, pairs
    )
    if moved < 0:
        raise MemoryError("no memory for the pairs of this batch")
    return W, int(moved)


# ---- twin


def twin_learn_pairs(
    W: np.ndarray, X: np.ndarray, similar: np.ndarray, tolerances: tuple[float, float], C: float
) -> tuple[np.ndarray, int]:
    """Learn from pairs in turn: the W after all of them, and how many moved it.

    W : (d, r). X : (2n, d), C-contiguous, pairs. similar : (n,) bool.
    tolerances : t_s, the largest distance of a similar pair without loss, and t_d, the smallest of a dissimilar one.
    """
    W = W.copy()
    moved = 0
    for t, alike in enumerate(similar):
        pair = X[2 * t : 2 * t + 2]
        P = pair @ W
        H = np.where(P > 0, 1, -1).astype(W.dtype)
        differ = H[0] != H[1]
        distance = int(np.count_nonzero(differ))
        R = distance - tolerances[0] if alike else tolerances[1] - distance  # 1: similarity loss
        if not R > 0:
            continue
        bits = np.flatnonzero(differ if alike else ~differ)  # 2: zero-loss codes
        nearest = np.abs(P).min(axis=0)[bits]
        bits = bits[np.argsort(nearest, kind="stable")][: int(np.ceil(R))]
        flipped = np.abs(P[:, bits]).argmin(axis=0)  # where both are equally near, the first of the pair
        change = np.zeros_like(H)  # g - h
        change[flipped, bits] = -2 * H[flipped, bits]
        # |Q|_F^2: no bit is flipped in both, so the columns of Q are multiples of x_i or of x_j.
        squared = float(np.einsum("ij,ij->i", change, change) @ np.einsum("ij,ij->i", pair, pair))
        if squared == 0:
            continue
        loss = -float(np.einsum("ij,ij->", change, P)) + np.sqrt(R)  # 3: prediction loss
        W += pair.T @ (W.dtype.type(min(C, loss / squared)) * change)  # 4: passive-aggressive step
        moved += 1
    return W, moved


# ---- choice

learn_pairs = choice(lambda: KERNEL, compiled_learn_pairs, twin_learn_pairs)
