"""mAP of a set of codes by itself: what `OnlineHasher.score` returns.

Here, since `hashstream.evaluate` is built on the hashers and not the other way round; the tests compare both.
"""

from __future__ import annotations

import numpy as np

from hashstream import hamming

__all__ = ["leave_one_out_map", "precision_sums"]


def precision_sums(n: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Expected sum of the precisions at the relevant items of each distance, tied items in random order; (q, r + 1).

    n, R : (q, r + 1), the items and the relevant ones at each distance 0 ... r from q queries. The sum of a row, by its
    relevant items, is the query's average precision. McSherry and Najork, ECIR 2008.

    >>> precision_sums(np.array([[2, 0, 2]]), np.array([[1, 0, 1]]))  # (1/1 + 1/2) / 2 and (2/3 + 2/4) / 2
    array([[0.75      , 0.        , 0.58333333]])
    """
    before, found = n.cumsum(axis=1) - n, R.cumsum(axis=1) - R
    harmonic = np.concatenate([[0], np.cumsum(1 / np.arange(1, int(n.sum(axis=1).max(initial=0)) + 1))])
    share = R / np.maximum(n, 1)
    slope = np.where(n > 1, (R - 1) / np.maximum(n - 1, 1), 0)
    sums: np.ndarray = share * (
        slope * n + (found + 1 - slope * (before + 1)) * (harmonic[before + n] - harmonic[before])
    )
    return sums


def leave_one_out_map(codes: np.ndarray, labels: np.ndarray, n_bits: int) -> float | None:
    """Mean average precision of ranking, for each code, all others by Hamming distance.

    codes : (n, ceil(n_bits / 8)) uint8. labels : (n,) class numbers, others are relevant if equal; or (n, C) bool,
    relevant if a label is shared. Queries without a relevant item are left out; None where all are.
    """
    counts = hamming.histogram(codes, codes, labels=(labels, labels), n_bits=n_bits)
    assert counts.relevant is not None
    total, relevant = counts.total.copy(), counts.relevant.copy()
    total[:, 0] -= 1  # the query itself
    relevant[:, 0] -= 1  # which makes -1 of a row without any label set: it is left out
    n_relevant = relevant.sum(axis=1)
    asked = n_relevant > 0
    if not asked.any():
        return None
    return float((precision_sums(total[asked], relevant[asked]).sum(axis=1) / n_relevant[asked]).mean())
