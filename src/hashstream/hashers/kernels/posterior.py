"""The bits of PosteriorHash: binding of `_native/posterior.c`, and twin. Section 4 of `posterior_steps.py`."""

from __future__ import annotations

import numpy as np

from hashstream.hashers.kernels.binding import POINTER, SIZE, bind, check_arrays, choice

# ---- binding

KERNEL = bind("posterior", *[POINTER] * 3, *[SIZE] * 2)


def compiled_diffuse(M: np.ndarray, u: np.ndarray, K: np.ndarray) -> np.ndarray:
    M = np.ascontiguousarray(M)
    K = np.ascontiguousarray(K, M.dtype)
    values = np.add(M, u, dtype=M.dtype)
    n, r = M.shape
    check_arrays(M.dtype, {"u": (values, (n, r)), "K": (K, (r, r))})
    if KERNEL[M.dtype.char](values.ctypes.data, M.ctypes.data, K.ctypes.data, n, r):
        raise MemoryError(f"no memory for codes of {r} bits")
    return values


# ---- twin


def twin_diffuse(M: np.ndarray, u: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The values whose signs are the bits: M + u, with the error of each bit taken from those after it.

    M, u : (n, r). K : (r, r), symmetric.
    """
    values = np.add(M, u, dtype=M.dtype)
    K = K.astype(M.dtype, copy=False)
    for k in range(M.shape[1] - 1):
        error = np.where(values[:, k] > 0, 1, -1).astype(M.dtype) - M[:, k]
        values[:, k + 1 :] -= error[:, None] * K[k, k + 1 :]
    return values


# ---- choice

diffuse = choice(lambda: KERNEL, compiled_diffuse, twin_diffuse)
