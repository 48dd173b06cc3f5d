"""Exact search over a view whose codes are of several versions: like is compared with like, and ties go by slot."""

from __future__ import annotations

import numpy as np

from hashstream import hamming
from hashstream.hashers import OnlineHasher
from hashstream.table.codes import Part, View

__all__ = ["nearest", "nearest_asymmetric", "within"]

SPARE = 16  # neighbours fetched beyond k where a part has dead rows, before all of those are
BLOCK_CODES = 1 << 15  # codes scored at once by `nearest_asymmetric`


def nearest(view: View, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k items nearest to each query: distances (q, m) uint16 and slots (q, m) int64, m = min(k, items alive).

    Equal to a sort of all stored codes by (Hamming distance to the query's code of the same version, slot).
    """
    queries = {version: view.encoders[version].transform(Q) for version in {p.version for p in view.parts}}
    found = [_nearest_in(part, queries[part.version], k) for part in view.parts]
    if len(found) == 1:
        return found[0]
    if not found:
        return np.empty((len(Q), 0), np.uint16), np.empty((len(Q), 0), np.int64)
    # A distance and a slot in one word: their order is the order of the words.
    words = np.concatenate([far.astype(np.int64) << 32 | slots for far, slots in found], axis=1)
    words.sort(axis=1)
    words = words[:, :k]
    return (words >> 32).astype(np.uint16), words & 0xFFFFFFFF


def _nearest_in(part: Part, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and slots within one part. Dead rows are found like any other, so some more are asked for."""
    codes, slots = part.codes[part.start : part.stop], part.slots[part.start : part.stop]
    n_dead, m = len(part.dead), min(k, len(part))
    if not n_dead:
        far, rows = hamming.topk(queries, codes, k)
        return far, slots[rows].astype(np.int64)
    far = np.empty((len(queries), m), np.uint16)
    rows = np.empty((len(queries), m), np.int64)
    todo = np.arange(len(queries))
    for spare in (min(SPARE, n_dead), n_dead):
        all_far, all_rows = hamming.topk(queries[todo], codes, k + spare)
        alive = ~np.isin(all_rows + part.start, part.dead)
        enough = alive.sum(axis=1) >= m
        order = np.argsort(~alive[enough], axis=1, kind="stable")[:, :m]
        far[todo[enough]] = np.take_along_axis(all_far[enough], order, axis=1)
        rows[todo[enough]] = np.take_along_axis(all_rows[enough], order, axis=1)
        todo = todo[~enough]
        if not len(todo):
            break
    return far, slots[rows].astype(np.int64)


def within(view: View, Q: np.ndarray, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All items at most `radius` away: offsets (q + 1,) int64, distances uint16 and slots int64 of what was found.

    Within a query by ascending distance, then by slot.
    """
    query, word = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    queries = {version: view.encoders[version].transform(Q) for version in {p.version for p in view.parts}}
    for part in view.parts:
        codes, slots = part.codes[part.start : part.stop], part.slots[part.start : part.stop]
        offsets, far, rows = hamming.radius(queries[part.version], codes, radius)
        owner = np.repeat(np.arange(len(Q)), np.diff(offsets))
        if len(part.dead):
            alive = ~np.isin(rows + part.start, part.dead)
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


def query_weights(encoder: OnlineHasher, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a differing bit costs each query, (q, r) float64, and the bits of the queries, (q, r) bool.

    The cost of bit k is |f_k(q)|: how sure the query is of it. Each query's costs are scaled so that their mean is 1;
    a distance then has the scale of a Hamming distance, and those of different versions can stand side by side.
    """
    P = encoder.decision_function(Q).astype(np.float64)
    cost = np.abs(P)
    mean = cost.mean(axis=1, keepdims=True)
    return np.where(mean > 0, cost / np.where(mean > 0, mean, 1), 1.0), P > 0


def byte_costs(cost: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The cost of every value of every byte of a code, for one query: (width, 256) float64 from its (r,) rows."""
    width = -(-len(cost) // 8)
    values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(bool)  # (256, 8)
    padded, wanted = np.zeros(8 * width), np.zeros(8 * width, bool)
    padded[: len(cost)], wanted[: len(cost)] = cost, bits  # bits that fill the last byte cost nothing
    differs = values[None] != wanted.reshape(width, 1, 8)
    costs: np.ndarray = (differs * padded.reshape(width, 1, 8)).sum(axis=2)
    return costs


def nearest_asymmetric(view: View, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """As `nearest`, by the weighted distance of `query_weights`: distances (q, m) float64, slots (q, m) int64."""
    m = min(k, len(view))
    far, slots = np.empty((len(Q), m)), np.empty((len(Q), m), np.int64)
    if not m:
        return far, slots
    versions = {part.version for part in view.parts}
    weights = {version: query_weights(view.encoders[version], Q) for version in versions}
    for i in range(len(Q)):
        best_far, best_slots = np.empty(0), np.empty(0, np.int64)
        costs = {v: byte_costs(cost[i], bits[i]) for v, (cost, bits) in weights.items()}
        for part in view.parts:
            found = _cheapest_in(part, costs[part.version], k)
            best_far, best_slots = (
                np.concatenate([best_far, found[0]]),
                np.concatenate([best_slots, found[1]]),
            )
        order = np.lexsort((best_slots, best_far))[:k]
        far[i], slots[i] = best_far[order], best_slots[order]
    return far, slots


def _cheapest_in(part: Part, costs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k cheapest items of a part, and what ties with the last of them; distances and slots in any order."""
    total = np.empty(part.stop - part.start)
    for start in range(part.start, part.stop, BLOCK_CODES):
        block = part.codes[start : min(start + BLOCK_CODES, part.stop)]
        sums = total[start - part.start : start - part.start + len(block)]
        np.take(costs[0], block[:, 0], out=sums)
        for j in range(1, block.shape[1]):
            sums += costs[j][block[:, j]]
    if len(part.dead):
        total[part.dead - part.start] = np.inf
    if len(part) > k:
        rows = np.flatnonzero(total <= np.partition(total, k - 1)[k - 1])
    else:
        rows = np.flatnonzero(np.isfinite(total))
    return total[rows], part.slots[part.start + rows].astype(np.int64)
