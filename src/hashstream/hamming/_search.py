"""Distances, the k nearest codes, and all codes within a radius."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashstream.hamming._check import (
    check_codes,
    check_k,
    check_n_bits,
    check_n_threads,
    check_pair,
    check_subset,
)
from hashstream.hamming._engine import engine
from hashstream.hamming._types import TopK, WithinRadius


def pack(bits: ArrayLike) -> NDArray[np.uint8]:
    """Pack bits (n, n_bits) into codes (n, ceil(n_bits / 8)) uint8.

    A value above zero is a one, so 0/1, booleans, -1/+1 and real values all work.

    >>> pack(np.array([[1, -1, 1, 1, -1, -1, -1, -1, 1]]))
    array([[176, 128]], dtype=uint8)
    """
    bits = np.asarray(bits)
    if bits.ndim != 2:
        raise ValueError(f"bits must be 2-D, one code per row, got shape {bits.shape}")
    return np.packbits(bits > 0, axis=1)


def pack_signs(values: np.ndarray, codes: np.ndarray) -> bool:
    """Pack real values into an existing array, and check whether they are finite.

    Parameters
    ----------
    values : (n, n_bits) float32 or float64, C-contiguous
    codes : (n, ceil(n_bits / 8)) uint8, C-contiguous
        Overwritten.

    Returns
    -------
    bool
        Whether all values are finite. If not, the contents of `codes` are undefined.

    >>> codes = np.empty((1, 2), np.uint8)
    >>> pack_signs(np.array([[1, -1, 0.5, 2, -1, 0, -1, -1, 3]]), codes), codes
    (True, array([[176, 128]], dtype=uint8))
    """
    if values.ndim != 2 or values.dtype not in (np.float32, np.float64) or not values.flags.c_contiguous:
        raise ValueError(
            f"values must be a C-contiguous matrix of float32 or float64, got {values.dtype} {values.shape}"
        )
    shape = (len(values), -(-values.shape[1] // 8))
    if codes.dtype != np.uint8 or codes.shape != shape or not codes.flags.c_contiguous:
        raise ValueError(
            f"codes must be C-contiguous uint8 of shape {shape}, got {codes.dtype} {codes.shape}"
        )
    return engine.pack_signs(values, codes)


def unpack(codes: ArrayLike, n_bits: int | None = None) -> NDArray[np.uint8]:
    """Unpack codes (n, width) into bits (n, n_bits) uint8, 0 or 1; `n_bits` drops the padding of the last byte.

    >>> unpack(np.array([[176, 128]], np.uint8), n_bits=9)
    array([[1, 0, 1, 1, 0, 0, 0, 0, 1]], dtype=uint8)
    """
    codes = check_codes(codes, "codes")
    return np.unpackbits(codes, axis=1, count=check_n_bits(n_bits, codes.shape[1]))


def distances(A: ArrayLike, B: ArrayLike, *, n_threads: int | None = None) -> NDArray[np.uint16]:
    """Hamming distance of every row of A to every row of B.

    Parameters
    ----------
    A, B : (n, width) and (m, width) uint8
        Packed codes.
    n_threads : int, optional
        By default, all cores that the process may use.

    Returns
    -------
    (n, m) uint16

    >>> distances(np.array([[0b0000], [0b0011]], np.uint8), np.array([[0b0001], [0b1111]], np.uint8))
    array([[1, 4],
           [1, 2]], dtype=uint16)
    """
    A, B = check_pair(A, B)
    return engine.distances(A, B, check_n_threads(n_threads))


def topk(
    queries: ArrayLike,
    codes: ArrayLike,
    k: int,
    *,
    subset: ArrayLike | None = None,
    n_threads: int | None = None,
) -> TopK:
    """The k codes nearest to each query, exactly.

    Parameters
    ----------
    queries : (q, width) uint8
    codes : (n, width) uint8
        Packed codes.
    k : int, at least 1
    subset : (m,) int or (n,) bool, optional
        Rows of `codes` to search: row numbers in any order (repeated ones count once), or a mask.
    n_threads : int, optional
        By default, all cores that the process may use.

    Returns
    -------
    TopK
        `distances` (q, min(k, n)) uint16 and `indices` int64, rows of `codes`; n counts the rows of a subset, if given.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000], [0b0010]], np.uint8)
    >>> topk(np.array([[0b0000]], np.uint8), codes, 3)
    TopK(distances=array([[0, 1, 1]], dtype=uint16), indices=array([[2, 1, 3]]))
    >>> distances, indices = topk(np.array([[0b0000]], np.uint8), codes, 3, subset=[0, 3])
    >>> indices
    array([[3, 0]])
    """
    queries, codes = check_pair(queries, codes)
    rows = check_subset(subset, len(codes))
    return TopK(*engine.topk(queries, codes, check_k(k), rows, check_n_threads(n_threads)))


def radius(
    queries: ArrayLike,
    codes: ArrayLike,
    radius: int,
    *,
    subset: ArrayLike | None = None,
    n_threads: int | None = None,
) -> WithinRadius:
    """All codes at most `radius` away from each query.

    Parameters
    ----------
    queries, codes, subset, n_threads
        As in `topk`.
    radius : int, at least 0

    Returns
    -------
    WithinRadius
        `offsets` (q + 1,) int64, `distances` (found,) uint16, `indices` (found,) int64, rows of `codes`.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000], [0b0010]], np.uint8)
    >>> offsets, distances, indices = radius(np.array([[0b0000], [0b1110]], np.uint8), codes, 1)
    >>> offsets, distances, indices
    (array([0, 3, 4]), array([0, 1, 1, 1], dtype=uint16), array([2, 1, 3, 0]))
    """
    queries, codes = check_pair(queries, codes)
    if radius < 0:
        raise ValueError(f"radius must be at least 0, got {radius}")
    rows = check_subset(subset, len(codes))
    most = min(int(radius), 8 * codes.shape[1])
    return WithinRadius(*engine.radius(queries, codes, most, rows, check_n_threads(n_threads)))
