"""The nearest codes when some bits matter more than others."""

from __future__ import annotations

from numpy.typing import ArrayLike

from hashstream.hamming._check import check_codes, check_k, check_n_threads, check_subset, check_values
from hashstream.hamming._engine import engine
from hashstream.hamming._types import TopK


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

    >>> import numpy as np
    >>> codes = np.array([[0b11000000], [0b01000000], [0b10000000]], np.uint8)
    >>> weighted_topk(np.array([[0.5, 2.0]]), codes, 2)
    TopK(distances=array([[0. , 0.5]]), indices=array([[0, 1]]))
    """
    codes = check_codes(codes, "codes")
    values = check_values(values, codes.shape[1])
    k, rows, threads = check_k(k), check_subset(subset, len(codes)), check_n_threads(n_threads)
    return TopK(*engine.weighted(values, codes, k, rows, threads))
