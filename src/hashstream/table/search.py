"""Exact search over a view whose codes are of several versions: like is compared with like, and ties go by slot."""

from __future__ import annotations

import os

import numpy as np

from hashstream import hamming
from hashstream.hashers import OnlineHasher
from hashstream.table.codes import View
from hashstream.table.encoders import encode
from hashstream.table.errors import TableError

__all__ = ["nearest", "nearest_asymmetric", "search_threads", "within"]

FEW = 16  # queries that are encoded with little ado

Found = tuple[np.ndarray, np.ndarray]


def search_threads(beside_a_writer: bool) -> int:
    """How many threads a search takes: as many as there are cores, but one for a writer who is at work. A thread that
    shares a core with it would be waited for longer than it helps."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - beside_a_writer)


def nearest(view: View, Q: np.ndarray, k: int, n_threads: int | None = None) -> Found:
    """The k items nearest to each query: distances (q, m) uint16 and slots (q, m) int64, m = min(k, items alive).

    Equal to a sort of all stored codes by (Hamming distance to the query's code of the same version, slot).
    """
    if not view.parts:
        return np.empty((len(Q), 0), np.uint16), np.empty((len(Q), 0), np.int64)
    projections = view.projections
    if len(Q) <= FEW and projections and Q.dtype == projections[0].dtype:
        # With as few calls as can be: for a query, they take longer than the products.
        values = np.empty((len(projections), len(Q), projections[0].shape[1]), Q.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            for i, projection in enumerate(projections):
                np.matmul(Q, projection, out=values[i])
        found = view.searchable.topk_signs(values, k, n_threads=n_threads)
        if found is not None:
            return found
    return view.searchable.topk(encoded(view, Q), k, n_threads=n_threads)


def encoded(view: View, Q: np.ndarray) -> np.ndarray:
    """The codes of the queries for every version alive, (versions, q, width) uint8."""
    codes = np.empty((len(view.versions), len(Q), view.width), np.uint8)
    for i, version in enumerate(view.versions):
        codes[i] = encode(view.encoders[version], Q)
    return codes


def within(
    view: View, Q: np.ndarray, radius: int, n_threads: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All items at most `radius` away: offsets (q + 1,) int64, distances uint16 and slots int64 of what was found.

    Within a query by ascending distance, then by slot.
    """
    query, word = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    queries = dict(zip(view.versions, encoded(view, Q), strict=True))
    for part in view.parts:
        codes, slots, dead = part.arrays()
        offsets, far, rows = hamming.radius(queries[part.version], codes, radius, n_threads=n_threads)
        owner = np.repeat(np.arange(len(Q)), np.diff(offsets))
        if len(dead):
            alive = ~np.isin(rows, dead)
            owner, far, rows = owner[alive], far[alive], rows[alive]
        query.append(owner)
        word.append(far.astype(np.int64) << 32 | slots[rows])
    owners, words = np.concatenate(query), np.concatenate(word)
    if len(view.parts) > 1:
        order = np.lexsort((words, owners))
        owners, words = owners[order], words[order]
    offsets = np.zeros(len(Q) + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=len(Q)), out=offsets[1:])
    return offsets, (words >> 32).astype(np.uint16), words & 0xFFFFFFFF


# ---- asymmetric: the query's real values against the stored bits


def query_values(encoder: OnlineHasher, Q: np.ndarray) -> np.ndarray:
    """The real values of queries, (q, r) float64, scaled so that the mean magnitude of each query's is 1.

    The magnitude is what a differing bit costs: how sure the query is of it. A distance then has the scale of a Hamming
    distance, and those of different versions can stand side by side. A query whose values are all zero has -1s.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        P = encoder.decision_function(Q).astype(np.float64)
    if not np.isfinite(P).all():
        raise TableError(f"the hash functions of version {encoder.version_} give NaN or infinity for a query")
    mean = np.abs(P).mean(axis=1, keepdims=True)
    return np.where(mean > 0, P / np.where(mean > 0, mean, 1), -1.0)


def nearest_asymmetric(view: View, Q: np.ndarray, k: int, n_threads: int | None = None) -> Found:
    """As `nearest`, by the costs of `query_values`: distances (q, m) float64, slots (q, m) int64."""
    if not view.parts:
        return np.empty((len(Q), 0)), np.empty((len(Q), 0), np.int64)
    values = {version: query_values(view.encoders[version], Q) for version in view.versions}
    found = []
    for part in view.parts:
        codes, slots, dead = part.arrays()
        alive = None if not len(dead) else np.delete(np.arange(len(codes)), dead)
        far, rows = hamming.weighted_topk(values[part.version], codes, k, subset=alive, n_threads=n_threads)
        found.append((far, slots[rows].astype(np.int64)))
    far, slots = (np.concatenate([pair[i] for pair in found], axis=1) for i in (0, 1))
    order = np.lexsort((slots, far), axis=1)[:, :k]
    return np.take_along_axis(far, order, axis=1), np.take_along_axis(slots, order, axis=1)
