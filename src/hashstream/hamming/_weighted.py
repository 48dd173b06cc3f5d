"""The nearest codes when some bits matter more than others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hamming._check import check_codes, check_k, check_n_threads, check_subset
from hashstream.hamming._engine import engine
from hashstream.hamming._types import TopK

BLOCK_BYTES = 16 << 20  # of cost tables that exist at once


def weighted_topk(
    values: ArrayLike,
    codes: ArrayLike,
    k: int,
    *,
    subset: ArrayLike | None = None,
    n_threads: int | None = None,
) -> TopK:
    """The k codes that agree best with real values: a bit that differs from a value's sign costs its magnitude.

    Parameters
    ----------
    values : (q, n_bits) float
        Real values of the queries, whose signs would be their codes. Finite.
    codes : (n, ceil(n_bits / 8)) uint8
        Packed codes.
    k, subset, n_threads
        As in `topk`.

    Returns
    -------
    TopK
        `distances` (q, min(k, n)) float64, the costs, and `indices` int64, rows of `codes`.

    >>> codes = np.array([[0b11000000], [0b01000000], [0b10000000]], np.uint8)
    >>> weighted_topk(np.array([[0.5, 2.0]]), codes, 2)
    TopK(distances=array([[0. , 0.5]]), indices=array([[0, 1]]))
    """
    values, codes = np.asarray(values), check_codes(codes, "codes")
    if values.ndim != 2 or -(-values.shape[1] // 8) != codes.shape[1]:
        raise ValueError(f"values of shape {values.shape} do not fit codes of {codes.shape[1]} bytes")
    values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        raise ValueError("values contain NaN or infinity")
    k, rows, threads = check_k(k), check_subset(subset, len(codes)), check_n_threads(n_threads)
    m = min(k, len(codes) if rows is None else len(rows))
    far, where = np.empty((len(values), m)), np.empty((len(values), m), np.int64)
    step = max(1, BLOCK_BYTES // (2048 * codes.shape[1]))
    for start in range(0, len(values), step):
        some = values[start : start + step]
        far[start : start + step], where[start : start + step] = engine.weighted(
            np.packbits(some > 0, axis=1), codes, byte_costs(some), *by_cost(some), k, rows, threads
        )
    return TopK(far, where)


def byte_costs(values: np.ndarray) -> np.ndarray:
    """Cost of every value of every byte of a code: (q, width, 256) float64 from values (q, n_bits).

    Padding bits of the last byte cost nothing.
    """
    q, n_bits = values.shape
    width = -(-n_bits // 8)
    cost = np.zeros((q, 8 * width, 2))
    cost[:, :n_bits, 0] = np.where(values > 0, values, 0)  # cost of a bit that is 0
    cost[:, :n_bits, 1] = np.where(values > 0, 0, -values)
    cost = cost.reshape(q, width, 8, 2)
    table = cost[:, :, 0]
    for bit in range(1, 8):
        table = (table[..., None] + cost[:, :, bit, None]).reshape(q, width, -1)
    return table


def by_cost(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bits of each query by ascending cost, (q, n_bits) int32, and the sums of the first 0, 1, 2, ... of these
    costs, (q, n_bits + 1) float64."""
    cost = np.abs(values)
    order = np.argsort(cost, axis=1, kind="stable")
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(np.take_along_axis(cost, order, axis=1), axis=1, out=sums[:, 1:])
    return order.astype(np.int32), sums
