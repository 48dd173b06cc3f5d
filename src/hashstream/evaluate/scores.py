"""Retrieval metrics of binary codes, with a stated rule for everything that is usually left open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from hashstream import hamming
from hashstream.evaluate.inputs import check_codes, check_cutoffs, match_labels
from hashstream.evaluate.ndcg import GradedCounter
from hashstream.evaluate.ties import BLOCK, TiedRanking

__all__ = ["Scores", "Ties", "average_precision", "retrieval", "row_name"]

Ties = Literal["aware", "paper"]
"""The order of items at the same distance; see `retrieval`."""

TIES = get_args(Ties)


def row_name(metric: str, ties: str) -> str:
    """The name of a metric in a results file, which may have values under both rules for ties.

    >>> row_name("mAP@1000", "paper")
    'mAP@1000[paper]'
    """
    if ties not in TIES:
        raise ValueError(f'ties is {ties!r}: it has to be "aware" or "paper"')
    return f"{metric}[{ties}]"


def average_precision(hits: np.ndarray) -> np.ndarray:
    """AP of given rankings, (q,): hits (q, n) bool says whether the item at each place is relevant; NaN if none is.

    >>> average_precision(np.array([[True, False, True], [False, False, False]])).round(3)
    array([0.833,   nan])
    """
    found = np.cumsum(hits, axis=1, dtype=np.int32)
    total = np.where(hits, found / np.arange(1, hits.shape[1] + 1), 0.0).sum(axis=1)
    return _over(total, found[:, -1], np.nan)


class Scores(dict[str, float]):
    """A dict of metrics, with the rule for ties.

    ties: "aware" or "paper".
    per_query: arrays (q,) by name if `retrieval` was called with per_query=True, otherwise empty.
    """

    def __init__(
        self, scores: dict[str, float], ties: Ties, per_query: dict[str, np.ndarray] | None = None
    ) -> None:
        super().__init__(scores)
        self.ties = ties
        self.per_query = per_query or {}

    def rows(self, **columns: Any) -> list[dict[str, Any]]:
        """One row of a results file per metric: the given columns, `metric` (with the rule for ties), `value`.

        >>> Scores({"mAP": 0.5}, "aware").rows(method="FCOH", bits=32)
        [{'method': 'FCOH', 'bits': 32, 'metric': 'mAP[aware]', 'value': 0.5}]
        """
        return [
            {**columns, "metric": row_name(name, self.ties), "value": value} for name, value in self.items()
        ]


def retrieval(
    query_codes: np.ndarray,
    query_labels: ArrayLike,
    db_codes: np.ndarray,
    db_labels: ArrayLike,
    *,
    at: int | Iterable[int] = (1000,),
    radius: int | Iterable[int] = (2,),
    k: int | Iterable[int] = (1, 10, 100),
    ties: Ties = "aware",
    n_bits: int | None = None,
    per_query: bool = False,
    n_threads: int | None = None,
) -> Scores:
    """Rank the database by Hamming distance for each query, and compute metrics of the rankings.

    Parameters
    ----------
    query_codes : (q, width) uint8
    db_codes : (n, width) uint8
        Packed codes, at least one on each side.
    query_labels, db_labels : (q,) and (n,), or (q, L) and (n, L)
        Class labels (numbers, strings, any hashable objects): an item is relevant if its label equals the
        query's. Or 0/1 indicator matrices, one column per label: an item is relevant if it shares at least one
        label. A missing label (None, NaN, NaT, pandas.NA; in a matrix, anywhere in its row) is equal to no label,
        another missing one included: such an item is never relevant, and such a query has no relevant item.
    at : int or several, at least 1
        N of mAP@N (and nDCG@N).
    radius : int or several, at least 0
        R of precision@HR.
    k : int or several, at least 1
        K of precision@K.
    ties : "aware" or "paper"
        The order of items at the same distance; see below.
    n_bits : int, optional
        Bits of a code; 8 * width by default.
    per_query : bool
        Keep each query's values in `.per_query` of the result.
    n_threads : int, optional
        Number of threads; by default one per core that the process may use.

    Returns
    -------
    Scores
        A dict of floats. A mean over no query at all is NaN.

        - mAP: mean of AP = (sum over the relevant items of the precision at their places) / (number of relevant
          items in the database). Queries without any relevant item have no AP and are left out of the mean.
        - mAP@N: the same over the first N places, divided by the number of relevant items *inside* the first N. A
          query without a hit there is left out, not counted as 0; so mAP@N can exceed mAP, and queries that
          find nothing do not lower it.
        - precision@HR: share of relevant items among those at distance R or less, 0 if there are none. Mean over
          all queries.
        - precision@K: relevant items in the first K places, divided by K (even if the database is smaller than
          K). Mean over all queries.
        - nDCG, nDCG@N: with indicator matrices only. DCG = sum over all (the first N) places i = 1, 2, ... of
          (2^g - 1) / log2(i + 1), g the number of labels that the item at place i shares with the query;
          nDCG is DCG divided by the DCG of the best order. Queries that share no label with any item are
          left out.

    Notes
    -----
    ties="aware": every order of tied items is equally likely, and each metric is its expected value, computed
    exactly from the counts at each distance (`hashstream.evaluate.ties`). It does not depend on the order of
    the database. AP@N is the expectation of the ratio: where place N falls among tied items, the number of
    hits to divide by is random too. If some of a query's orders have no hit in the first N places, it counts
    with the value E[AP@N | a hit] and the weight P(a hit). So mAP@N is the mean over all pairs of a query and
    an order of its ties, those without a hit left out: the rule above, for every order instead of one.

    ties="paper": tied items stay in the order of the database, as a stable sort leaves them. This is the rule
    of the public MATLAB evaluation of online hashing and of the tables made with it. The value depends on the
    order of the database; on one that is sorted by class it is meaningless.

    Both rules agree without ties, and always on precision@H. The keys are the same for both; `.ties` of the
    result names the rule, and so do the metrics in `.rows(...)`: "mAP[aware]".

    `.per_query` has arrays of shape (q,): "AP", "AP@N" (NaN for a query without), "hit@N" (the weight of
    AP@N, which is 0 or 1 with ties="paper"), "precision@HR", "precision@K", and "nDCG", "nDCG@N" where there
    are.

    Memory besides input and results: some arrays of a million elements, independent of q and n; with
    indicator matrices, also a few arrays of n elements.

    Examples
    --------
    >>> db = np.packbits([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1]], axis=1)
    >>> scores = retrieval(db[:1], ["cat"], db, ["cat", "dog", "cat", "cat"], at=2, radius=1, k=2, n_bits=4)
    >>> for name, value in scores.items():  # items 1 and 2 are tied
    ...     print(f"{name:13} {value:.4f}")
    mAP           0.8611
    mAP@2         1.0000
    precision@H1  0.6667
    precision@2   0.7500
    >>> stable = retrieval(db[:1], ["cat"], db, ["cat", "dog", "cat", "cat"], n_bits=4, ties="paper")
    >>> round(stable["mAP"], 4)
    0.8056
    >>> scores.rows(method="LSH", bits=4)[0]["metric"]
    'mAP[aware]'
    """
    if ties not in TIES:
        raise ValueError(f'ties is {ties!r}: it has to be "aware" or "paper"')
    at, radius, k = check_cutoffs(at, "at", 1), check_cutoffs(radius, "radius", 0), check_cutoffs(k, "k", 1)
    query_codes, _ = check_codes(query_codes, "query_codes", n_bits)
    db_codes, bits = check_codes(db_codes, "db_codes", n_bits)
    if query_codes.shape[1] != db_codes.shape[1]:
        raise ValueError(
            f"query_codes have {query_codes.shape[1]} bytes per code and db_codes {db_codes.shape[1]}: "
            "both have to come from the same hash functions"
        )
    labels = match_labels(query_labels, db_labels, len(query_codes), len(db_codes))
    database = _Database(db_codes, labels[1], bits, labels[0], (at, radius, k), n_threads)
    judge = database.aware if ties == "aware" else database.paper
    pieces = []
    for begin in range(0, len(query_codes), database.at_once):
        block = slice(begin, begin + database.at_once)
        pieces.append(judge(query_codes[block], labels[0][block]))
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return Scores(dict(_means(columns)), ties, columns if per_query else None)


class _Database:
    """The database that queries are ranked against. Each method returns the values of some queries, by name.

    cutoffs: `at`, `radius` and `k` of `retrieval`.
    """

    def __init__(
        self,
        codes: np.ndarray,
        labels: np.ndarray,
        n_bits: int,
        query_labels: np.ndarray,
        cutoffs: tuple[tuple[int, ...], ...],
        n_threads: int | None,
    ) -> None:
        self.codes, self.n_bits = np.ascontiguousarray(codes), n_bits
        self.cutoffs, self.n_threads = cutoffs, n_threads
        self.labels, self.graded, levels = labels, None, 1
        if labels.ndim == 2:
            self.labels = hamming.pack_labels(labels)  # once, not for each block of queries
            self.graded = GradedCounter(self.codes, labels, query_labels, n_bits)
            levels = self.graded.most + 1
        self.at_once = max(1, BLOCK // ((n_bits + 1) * levels))

    def aware(self, queries: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
        at, radius, k = self.cutoffs
        if self.graded is None:
            pair = (labels, self.labels)
            total, relevant = hamming.histogram(
                queries, self.codes, labels=pair, n_bits=self.n_bits, n_threads=self.n_threads
            )
        else:
            counts = self.graded.counts(queries, labels, self.n_threads)
            total, relevant = counts.sum(axis=2), counts[:, :, 1:].sum(axis=2)
        assert relevant is not None  # labels were given
        ranking = TiedRanking(total, relevant)
        values = {"AP": ranking.average_precision()}
        for n in at:
            values[f"AP@{n}"], values[f"hit@{n}"] = ranking.average_precision_at(n)
        values |= {f"precision@H{r}": ranking.precision_within(r) for r in radius}
        values |= {f"precision@{n}": ranking.precision_at(n) for n in k}
        if self.graded is not None:
            values |= self.graded.expected_ndcg(counts, at)
        return values

    def paper(self, queries: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
        at, radius, k = self.cutoffs
        pair = (labels if self.graded is None else hamming.pack_labels(labels), self.labels)
        met = hamming.stable_scores(
            queries, self.codes, pair, at=at, k=k, radius=radius, n_bits=self.n_bits, n_threads=self.n_threads
        )
        values = {"AP": _over(met.precision_sum, met.n_relevant, np.nan)}
        for i, n in enumerate(at):
            values[f"AP@{n}"] = _over(met.at_precision_sum[:, i], met.at_hits[:, i], np.nan)
            values[f"hit@{n}"] = (met.at_hits[:, i] > 0).astype(np.float64)
        values |= {
            f"precision@H{r}": _over(met.ball_hits[:, i], met.ball_size[:, i], 0)
            for i, r in enumerate(radius)
        }
        values |= {f"precision@{n}": met.k_hits[:, i] / n for i, n in enumerate(k)}
        if self.graded is not None:
            values |= self.graded.stable_ndcg(queries, labels, at, self.n_threads)
        return values


def _over(a: np.ndarray, b: np.ndarray, empty: float) -> np.ndarray:
    """a / b, and `empty` where b is 0."""
    return np.where(b > 0, a / np.maximum(b, 1), empty)


def _means(columns: dict[str, np.ndarray]) -> Iterator[tuple[str, float]]:
    """Means over queries, without NaN; AP@N is weighted by the probability of a hit."""
    for name, values in columns.items():
        if name.startswith("hit@"):
            continue
        weight = columns[f"hit@{name[3:]}"] if name.startswith("AP@") else np.ones(len(values))
        kept = ~np.isnan(values)
        mean = np.average(values[kept], weights=weight[kept]) if kept.any() else np.nan
        yield ("m" + name if name.startswith("AP") else name), float(mean)
