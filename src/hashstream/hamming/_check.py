"""Validation of arguments that several functions share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hashstream._machine import cores

MAX_WIDTH = 128
"""Widest code in bytes."""


def check_codes(codes: ArrayLike, name: str) -> np.ndarray:
    """Return the codes as a C-contiguous array, copied only if they are not one already."""
    codes = np.asarray(codes)
    if codes.dtype != np.uint8:
        raise ValueError(
            f"{name} must be packed codes of dtype uint8, got {codes.dtype}; see np.packbits(bits, axis=1)"
        )
    if codes.ndim != 2:
        raise ValueError(f"{name} must be 2-D, one packed code per row, got shape {codes.shape}")
    if not 1 <= codes.shape[1] <= MAX_WIDTH:
        raise ValueError(f"{name} must have 1 to {MAX_WIDTH} bytes per row, got {codes.shape[1]}")
    return np.ascontiguousarray(codes)


def check_pair(queries: ArrayLike, codes: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides of a comparison; their widths must be equal."""
    queries, codes = check_codes(queries, "queries"), check_codes(codes, "codes")
    if queries.shape[1] != codes.shape[1]:
        raise ValueError(f"queries have {queries.shape[1]} bytes per row but codes have {codes.shape[1]}")
    return queries, codes


def check_values(values: ArrayLike, width: int) -> np.ndarray:
    """Return real values of queries, for codes of so many bytes, as C-contiguous float64."""
    values = np.asarray(values)
    if values.ndim != 2 or -(-values.shape[1] // 8) != width:
        raise ValueError(f"values of shape {values.shape} do not fit codes of {width} bytes")
    values = np.ascontiguousarray(values, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("values contain NaN or infinity")
    return values


def check_subset(subset: ArrayLike | None, n_codes: int) -> np.ndarray | None:
    """Return the allowed rows as ascending, distinct int64 row numbers; None stays None."""
    if subset is None:
        return None
    subset = np.asarray(subset)
    if subset.ndim != 1:
        raise ValueError(f"subset must be 1-D, got shape {subset.shape}")
    if subset.dtype == np.bool_:
        if len(subset) != n_codes:
            raise ValueError(
                f"a boolean subset needs one entry per code: got {len(subset)} for {n_codes} codes"
            )
        return np.flatnonzero(subset).astype(np.int64, copy=False)
    if len(subset) == 0:
        return np.empty(0, np.int64)
    if not np.issubdtype(subset.dtype, np.integer):
        raise ValueError(f"subset must be row numbers or a boolean mask, got dtype {subset.dtype}")
    low, high = subset.min(), subset.max()
    if low < 0 or high >= n_codes:
        raise ValueError(f"subset has row {low if low < 0 else high}, but codes has rows 0 to {n_codes - 1}")
    rows = subset.astype(np.int64)
    return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)


def check_mask(mask: np.ndarray) -> np.ndarray:
    """Return the mask: 1-D, one byte per place, so that it can be read by address."""
    if not isinstance(mask, np.ndarray) or mask.dtype not in (np.bool_, np.uint8) or mask.ndim != 1:
        got = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise ValueError(f"mask must be a 1-D array of bool or uint8, got {got}")
    if not mask.flags.c_contiguous:
        raise ValueError("mask must be C-contiguous")
    return mask


def check_k(k: int) -> int:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return int(k)


def check_n_bits(n_bits: int | None, width: int) -> int:
    """Return the number of bits per code; by default, every bit of every byte."""
    if n_bits is None:
        return 8 * width
    least, most = 8 * width - 7, 8 * width
    if not least <= n_bits <= most:
        raise ValueError(f"n_bits must be {least} to {most} for codes of {width} bytes, got {n_bits}")
    return int(n_bits)


def check_n_threads(n_threads: int | None) -> int:
    """Return the number of threads; by default, every core that this process may use."""
    if n_threads is None:
        return cores()
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    return int(n_threads)
