"""Average precision of rankings that are given, as a table's answers are."""

from __future__ import annotations

import numpy as np

__all__ = ["average_precision"]


def average_precision(hits: np.ndarray) -> np.ndarray:
    """The average precision of each ranking, (q,); NaN where nothing is relevant.

    hits: (q, n) bool, whether the item at each place of a query's ranking is relevant.

    >>> average_precision(np.array([[True, False, True], [False, False, False]])).round(3)
    array([0.833,   nan])
    """
    found = np.cumsum(hits, axis=1, dtype=np.int32)
    total = np.where(hits, found / np.arange(1, hits.shape[1] + 1), 0.0).sum(axis=1)
    relevant = found[:, -1]
    return np.where(relevant > 0, total / np.maximum(relevant, 1), np.nan)
