"""Histograms of distances, full rankings, and scores of rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashstream.hamming._check import check_n_bits, check_n_threads, check_pair
from hashstream.hamming._engine import engine
from hashstream.hamming._labels import check_labels


class Histogram(NamedTuple):
    """Number of codes at each distance from each query."""

    total: np.ndarray
    """(q, n_bits + 1) int64: codes at distance 0, 1, ..., n_bits."""
    relevant: np.ndarray | None
    """(q, n_bits + 1) int64: those that share the query's label; None if no labels were given."""


class StableScores(NamedTuple):
    """Sums and counts along each query's full ranking; see `stable_scores`."""

    precision_sum: np.ndarray
    """(q,) float64: sum over the relevant codes of the precision at their rank; AP times `n_relevant`."""
    n_relevant: np.ndarray
    """(q,) int64: relevant codes."""
    at_precision_sum: np.ndarray
    """(q, len(at)) float64: the same sum within the first N ranks."""
    at_hits: np.ndarray
    """(q, len(at)) int64: relevant codes within the first N ranks."""
    k_hits: np.ndarray
    """(q, len(k)) int64: relevant codes within the first K ranks."""
    ball_hits: np.ndarray
    """(q, len(radius)) int64: relevant codes at most that far away."""
    ball_size: np.ndarray
    """(q, len(radius)) int64: codes at most that far away."""
    total: np.ndarray
    """(q, n_bits + 1) int64: codes at each distance, as `histogram` gives them."""
    relevant: np.ndarray
    """(q, n_bits + 1) int64: relevant codes at each distance, as `histogram` gives them."""


def histogram(
    queries: ArrayLike,
    codes: ArrayLike,
    *,
    labels: tuple[ArrayLike, ArrayLike] | None = None,
    n_bits: int | None = None,
    n_threads: int | None = None,
) -> Histogram:
    """Count the codes, and the relevant ones, at each distance from each query.

    Metrics that average over the orders of tied codes need nothing else. Apart from the result, memory does not grow
    with the number of queries or codes.

    Parameters
    ----------
    queries : (q, width) uint8
    codes : (n, width) uint8
        Packed codes.
    labels : (query_labels, code_labels), optional
        Which codes are relevant to a query. Either classes, (q,) and (n,) integers: relevant if equal. Or
        indicator matrices, (q, L) and (n, L), non-zero where an item has a label: relevant if one is shared.
        A uint64 matrix is taken as already packed by `pack_labels`, 64 labels per word.
    n_bits : int, optional
        Bits per code, which sets the number of distances; 8 * width by default.
    n_threads : int, optional
        By default, all cores that the process may use.

    Returns
    -------
    Histogram
        `total` (q, n_bits + 1) int64, and `relevant` likewise, or None without labels.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000], [0b0010]], np.uint8) << 4
    >>> histogram(np.array([[0]], np.uint8), codes, labels=([7], [7, 7, 8, 9]), n_bits=4)
    Histogram(total=array([[1, 2, 0, 0, 1]]), relevant=array([[0, 1, 0, 0, 1]]))
    """
    queries, codes = check_pair(queries, codes)
    bins = check_n_bits(n_bits, codes.shape[1]) + 1
    checked = None if labels is None else check_labels(labels, len(queries), len(codes))
    total, relevant = engine.histogram(queries, codes, checked, check_n_threads(n_threads))
    return Histogram(_trim(total, bins), None if relevant is None else _trim(relevant, bins))


def rank(queries: ArrayLike, codes: ArrayLike, *, n_threads: int | None = None) -> NDArray[np.int32]:
    """Rank all codes by their distance to each query, equally distant codes by ascending row.

    Parameters
    ----------
    queries, codes, n_threads
        As in `histogram`; fewer than 2**31 codes.

    Returns
    -------
    (q, n) int32
        Rows of `codes`, nearest first.

    >>> rank(np.array([[0b0000]], np.uint8), np.array([[0b1111], [0b0001], [0b0000], [0b0010]], np.uint8))
    array([[2, 1, 3, 0]], dtype=int32)
    """
    queries, codes = check_pair(queries, codes)
    if len(codes) >= 2**31:
        raise ValueError(f"rank takes fewer than 2**31 codes, got {len(codes)}")
    return engine.rank(queries, codes, check_n_threads(n_threads))


def stable_scores(
    queries: ArrayLike,
    codes: ArrayLike,
    labels: tuple[ArrayLike, ArrayLike],
    *,
    at: Sequence[int] = (),
    k: Sequence[int] = (),
    radius: Sequence[int] = (),
    n_bits: int | None = None,
    n_threads: int | None = None,
) -> StableScores:
    """Sum what metrics need along each query's full ranking, tied codes by ascending row.

    Neither the ranking nor a query x code matrix is formed. A first pass counts the codes at each distance, which gives
    the rank at which each distance begins; a second pass gives each code its rank.

    Parameters
    ----------
    queries, codes, labels, n_bits, n_threads
        As in `histogram`; fewer than 2**31 codes.
    at : sequence of int, at least 1
        The N of AP@N.
    k : sequence of int, at least 1
        The K of precision@K.
    radius : sequence of int, at least 0
        The radii of balls.

    Returns
    -------
    StableScores
        Sums and counts per query, not normalized.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000], [0b0010]], np.uint8)
    >>> scores = stable_scores(np.array([[0]], np.uint8), codes, ([7], [7, 7, 8, 9]), k=(1, 2), radius=(1,))
    >>> scores.precision_sum / scores.n_relevant  # relevant at ranks 2 and 4
    array([0.5])
    >>> scores.k_hits, scores.ball_hits, scores.ball_size
    (array([[0, 1]]), array([[1]]), array([[3]]))
    """
    queries, codes = check_pair(queries, codes)
    bins = check_n_bits(n_bits, codes.shape[1]) + 1
    if len(codes) >= 2**31:
        raise ValueError(f"stable_scores takes fewer than 2**31 codes, got {len(codes)}")
    for name, values, least in (("at", at, 1), ("k", k, 1), ("radius", radius, 0)):
        if any(value < least for value in values):
            raise ValueError(f"{name} must be at least {least}, got {list(values)}")
    cutoffs = np.array([min(cut, len(codes)) for cut in (*at, *k)], np.int64)
    total, relevant, precision, cut_precision, cut_hits = engine.stable_scores(
        queries, codes, check_labels(labels, len(queries), len(codes)), cutoffs, check_n_threads(n_threads)
    )
    total, relevant = _trim(total, bins), _trim(relevant, bins)
    inside = np.array([min(r, bins - 1) for r in radius], np.int64)
    return StableScores(
        precision_sum=precision,
        n_relevant=relevant.sum(axis=1),
        at_precision_sum=cut_precision[:, : len(at)],
        at_hits=cut_hits[:, : len(at)],
        k_hits=cut_hits[:, len(at) :],
        ball_hits=np.cumsum(relevant, axis=1)[:, inside],
        ball_size=np.cumsum(total, axis=1)[:, inside],
        total=total,
        relevant=relevant,
    )


def _trim(counts: np.ndarray, bins: int) -> np.ndarray:
    """Drop the distances that codes of n_bits cannot have."""
    if counts[:, bins:].any():
        raise ValueError(f"codes have ones after their {bins - 1} bits, in the padding of the last byte")
    return counts[:, :bins]
