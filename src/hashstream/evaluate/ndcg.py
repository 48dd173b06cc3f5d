"""nDCG: relevance graded by the number of labels that query and item share, counted tile by tile."""

from __future__ import annotations

import numpy as np

from hashstream import hamming
from hashstream.evaluate.ties import BLOCK, discount_sums, expected_dcg, ideal_dcg

_TILE_ROWS = 256  # queries of a tile
_MOST_SHARED = 1000  # 2^1000 times any number of items still fits into a float64


def gains(most: int) -> np.ndarray:
    """(most + 1,) float64: the gain 2^g - 1 of an item that shares g = 0, 1, ..., most labels with the query.

    >>> gains(3)
    array([0., 1., 3., 7.])
    """
    return np.exp2(np.arange(most + 1)) - 1


class GradedCounter:
    """A database whose items have several labels: counts pairs by distance and by number of shared labels.

    codes: (n, width) uint8, packed; labels: (n, L) uint8, 0/1; query_labels: (q, L), those of all queries to
    come. `most` is the largest number of labels that a pair can share. No array of q x n is formed: a tile of
    about a million pairs at a time.

    nDCG of the first N places is DCG / (DCG of the best order), DCG = sum of gain(g) / log2(1 + place), NaN
    where no item shares a label with the query.
    """

    def __init__(self, codes: np.ndarray, labels: np.ndarray, query_labels: np.ndarray, n_bits: int) -> None:
        self.codes, self.labels, self.n_bits = codes, labels, n_bits
        self.most = min(int(m.sum(axis=1, dtype=np.int64).max(initial=0)) for m in (labels, query_labels))
        if self.most > _MOST_SHARED:
            raise ValueError(
                f"items have up to {self.most} labels: the gain 2^g - 1 is limited to g = {_MOST_SHARED}"
            )
        self._gains = gains(self.most)
        self._discounts = discount_sums(len(codes))

    def counts(self, queries: np.ndarray, query_labels: np.ndarray, n_threads: int | None) -> np.ndarray:
        """(q, n_bits + 1, most + 1) int64: items at distance d from the query that share g labels with it."""
        bins, levels = self.n_bits + 1, self.most + 1
        result = np.zeros((len(queries), bins * levels), np.int64)
        columns = self._columns(min(_TILE_ROWS, len(queries)))
        for begin in range(0, len(queries), _TILE_ROWS):
            q = slice(begin, begin + _TILE_ROWS)
            offset = np.arange(len(queries[q]))[:, None] * (bins * levels)
            for left in range(0, len(self.codes), columns):
                d = slice(left, left + columns)
                distance = hamming.distances(queries[q], self.codes[d], n_threads=n_threads).astype(np.int64)
                key = distance * levels + _shared(query_labels[q], self.labels[d]) + offset
                tile = np.bincount(key.ravel(), minlength=len(offset) * bins * levels)
                result[q] += tile.reshape(len(offset), -1)
        return result.reshape(len(queries), bins, levels)

    def expected_ndcg(self, counts: np.ndarray, at: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Each query's nDCG and nDCG@N, every order of tied items equally likely, from its `counts`."""
        total, gain = counts.sum(axis=2), counts @ self._gains
        dcg = [expected_dcg(total, gain, self._discounts, cut) for cut in self._cuts(at)]
        return self._normalised(dcg, counts.sum(axis=1), at)

    def stable_ndcg(
        self, queries: np.ndarray, query_labels: np.ndarray, at: tuple[int, ...], n_threads: int | None
    ) -> dict[str, np.ndarray]:
        """Each query's nDCG and nDCG@N, ties in the order of the database."""
        n, steps = len(self.codes), np.diff(self._discounts)
        dcg = np.empty((1 + len(at), len(queries)))
        levels = np.zeros((len(queries), self.most + 1), np.int64)
        rows = max(1, BLOCK // n)
        for begin in range(0, len(queries), rows):
            q = slice(begin, begin + rows)
            shared = np.empty((len(queries[q]), n), np.int16)
            columns = self._columns(len(shared))
            for left in range(0, n, columns):
                d = slice(left, left + columns)
                shared[:, d] = _shared(query_labels[q], self.labels[d])
            levels[q] = [np.bincount(row, minlength=self.most + 1) for row in shared]
            order = hamming.rank(queries[q], self.codes, n_threads=n_threads)
            ranked = self._gains[np.take_along_axis(shared, order, axis=1)]
            for i, cut in enumerate(self._cuts(at)):
                dcg[i, q] = ranked[:, :cut] @ steps[:cut]
        return self._normalised(list(dcg), levels, at)

    def _columns(self, rows: int) -> int:
        """Items of a tile: so many that neither the pairs nor the labels of the items pass a block."""
        return max(1, BLOCK // max(rows, int(self.labels.shape[1]), 1))

    def _cuts(self, at: tuple[int, ...]) -> list[int]:
        n = len(self.codes)
        return [n, *(min(cut, n) for cut in at)]

    def _normalised(
        self, dcg: list[np.ndarray], levels: np.ndarray, at: tuple[int, ...]
    ) -> dict[str, np.ndarray]:
        names = ["nDCG", *(f"nDCG@{cut}" for cut in at)]
        values = {}
        for name, of_order, cut in zip(names, dcg, self._cuts(at), strict=True):
            best = ideal_dcg(levels, self._gains, self._discounts, cut)
            values[name] = np.where(best > 0, of_order / np.where(best > 0, best, 1), np.nan)
        return values


def _shared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(q, n) int64: labels that each pair shares. float32 takes BLAS and is exact: ones are added."""
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.int64)
