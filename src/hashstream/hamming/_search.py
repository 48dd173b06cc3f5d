"""Which codes are near: distances, the k nearest, everything within a radius."""

from __future__ import annotations

import numpy as np

from hashstream.hamming._check import check_codes, check_n_bits, check_n_threads, check_pair, check_subset
from hashstream.hamming._engine import engine

__all__ = ["distances", "pack", "pack_signs", "radius", "topk", "unpack"]


def pack(bits: np.ndarray) -> np.ndarray:
    """Bits (n, n_bits), where anything above zero is a one, as codes (n, ceil(n_bits / 8)) uint8.

    Takes 0/1, booleans, -1/+1 and real values alike.

    >>> pack(np.array([[1, -1, 1, 1, -1, -1, -1, -1, 1]]))
    array([[176, 128]], dtype=uint8)
    """
    bits = np.asarray(bits)
    if bits.ndim != 2:
        raise ValueError(f"bits must be 2-D, one code a row, got shape {bits.shape}")
    return np.packbits(bits > 0, axis=1)


def pack_signs(values: np.ndarray, codes: np.ndarray) -> bool:
    """`pack` of real values into an array that is there already, with a look at whether they are finite.

    Parameters
    ----------
    values : (n, n_bits) float32 or float64, C-contiguous
    codes : (n, ceil(n_bits / 8)) uint8, C-contiguous
        Is written to.

    Returns
    -------
    bool
        Whether all values are finite. Where they are not, what is in `codes` is of no use.

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


def unpack(codes: np.ndarray, n_bits: int | None = None) -> np.ndarray:
    """Codes (n, width) as bits (n, n_bits) uint8, 0 or 1; `n_bits` leaves out the fill of the last byte.

    >>> unpack(np.array([[176, 128]], np.uint8), n_bits=9)
    array([[1, 0, 1, 1, 0, 0, 0, 0, 1]], dtype=uint8)
    """
    codes = check_codes(codes, "codes")
    return np.unpackbits(codes, axis=1, count=check_n_bits(n_bits, codes.shape[1]))


def distances(A: np.ndarray, B: np.ndarray, *, n_threads: int | None = None) -> np.ndarray:
    """Hamming distance of every row of A to every row of B.

    Parameters
    ----------
    A, B : (n, width) and (m, width) uint8
        Packed codes.
    n_threads : int, optional
        Threads to use; all cores that the process may use by default.

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
    queries: np.ndarray,
    codes: np.ndarray,
    k: int,
    *,
    subset: np.ndarray | None = None,
    n_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The k codes nearest to each query, exactly.

    Parameters
    ----------
    queries : (q, width) uint8
    codes : (n, width) uint8
        Packed codes.
    k : int, at least 1
    subset : (m,) int or (n,) bool, optional
        Rows of `codes` that may be found: row numbers in any order (one given twice counts once), or a mask.
    n_threads : int, optional
        Threads to use; all cores that the process may use by default.

    Returns
    -------
    distances : (q, min(k, n)) uint16
        Ascending in each row. With a subset, n is the number of its rows.
    indices : (q, min(k, n)) int64
        Rows of `codes`; equally distant codes by ascending row.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000], [0b0010]], np.uint8)
    >>> topk(np.array([[0b0000]], np.uint8), codes, 3)
    (array([[0, 1, 1]], dtype=uint16), array([[2, 1, 3]]))
    >>> topk(np.array([[0b0000]], np.uint8), codes, 3, subset=[0, 3])
    (array([[1, 4]], dtype=uint16), array([[3, 0]]))
    """
    queries, codes = check_pair(queries, codes)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    rows = check_subset(subset, len(codes))
    return engine.topk(queries, codes, int(k), rows, check_n_threads(n_threads))


def radius(
    queries: np.ndarray,
    codes: np.ndarray,
    radius: int,
    *,
    subset: np.ndarray | None = None,
    n_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All codes at most `radius` away from each query.

    Parameters
    ----------
    queries, codes, subset, n_threads
        As in `topk`.
    radius : int, at least 0

    Returns
    -------
    offsets : (q + 1,) int64
        What was found for query i lies at `offsets[i]:offsets[i + 1]` of the other two.
    distances : (found,) uint16
    indices : (found,) int64
        Rows of `codes`; within a query by ascending distance, equally distant codes by ascending row.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000], [0b0010]], np.uint8)
    >>> radius(np.array([[0b0000], [0b1110]], np.uint8), codes, 1)
    (array([0, 3, 4]), array([0, 1, 1, 1], dtype=uint16), array([2, 1, 3, 0]))
    """
    queries, codes = check_pair(queries, codes)
    if radius < 0:
        raise ValueError(f"radius must be at least 0, got {radius}")
    rows = check_subset(subset, len(codes))
    most = min(int(radius), 8 * codes.shape[1])
    return engine.radius(queries, codes, most, rows, check_n_threads(n_threads))
