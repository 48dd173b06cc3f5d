"""The NumPy twin of the C kernel: its oracle in the tests, and the fallback where there is no compiler.

Same functions, same checked arguments, same results as `_kernel`; `n_threads` is ignored. Queries are processed in
blocks, so that about `TILE` distances exist at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hashstream.hamming._labels import Labels
from hashstream.hamming._types import Part

TILE = 1 << 22
BLOCK = 1 << 15


def _words(codes: np.ndarray) -> np.ndarray:
    """(n, width) bytes as (ceil(width / 8), n) uint64 words, padded with zeros."""
    n, width = codes.shape
    padded = np.zeros((n, -(-width // 8) * 8), np.uint8)
    padded[:, :width] = codes
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _compare(queries: np.ndarray, words: np.ndarray) -> np.ndarray:
    """(q, n) uint16 distances of queries (q, width) and codes given as `_words`."""
    out = np.zeros((len(queries), words.shape[1]), np.uint16)
    for ours, theirs in zip(_words(queries), words, strict=True):
        out += np.bitwise_count(ours[:, None] ^ theirs[None, :])
    return out


def _blocks(queries: np.ndarray, codes: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Distances of all codes to one block of queries after another: (the block, (q, n) uint16)."""
    words = _words(codes)
    step = max(1, TILE // max(1, len(codes)))
    for start in range(0, len(queries), step):
        block = slice(start, min(start + step, len(queries)))
        yield block, _compare(queries[block], words)


def _relevance(labels: Labels, block: slice) -> np.ndarray:
    """(q, n) bool: whether a code shares a label with the query."""
    wanted = labels.queries[block]
    if wanted.ndim == 1:
        equal: np.ndarray = wanted[:, None] == labels.codes[None, :]
        return equal
    shared = np.zeros((len(wanted), len(labels.codes)), np.bool_)
    for word in range(wanted.shape[1]):
        shared |= (wanted[:, word, None] & labels.codes[None, :, word]) != 0
    return shared


def _count(distances: np.ndarray, bins: int, weights: np.ndarray | None = None) -> np.ndarray:
    """(q, bins): how often each distance occurs in each row, where the weight is True."""
    cells: np.ndarray = distances + np.arange(len(distances), dtype=np.int64)[:, None] * bins
    chosen = cells.ravel() if weights is None else cells[weights]
    counts = np.bincount(chosen, minlength=len(distances) * bins)
    return counts.reshape(len(distances), bins).astype(np.int64, copy=False)


def distances(a: np.ndarray, b: np.ndarray, n_threads: int) -> np.ndarray:
    out = np.empty((len(a), len(b)), np.uint16)
    for block, far in _blocks(a, b):
        out[block] = far
    return out


def topk(
    queries: np.ndarray, codes: np.ndarray, k: int, rows: np.ndarray | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    allowed = codes if rows is None else codes[rows]
    n = len(allowed)
    k = min(k, n)
    nearest = np.empty((len(queries), k), np.uint16)
    where = np.empty((len(queries), k), np.int64)
    for block, far in _blocks(queries, allowed):
        if k < n:
            # Distance and index in one number: the k smallest are the answer, ties and all.
            keys = far.astype(np.int64) * n + np.arange(n)
            best = np.sort(np.partition(keys, k - 1, axis=1)[:, :k], axis=1) % n if k else keys[:, :0]
        else:
            best = np.argsort(far, axis=1, kind="stable")
        nearest[block] = np.take_along_axis(far, best, axis=1)
        where[block] = best
    return nearest, where if rows is None else rows[where]


def parts(held: Sequence[Part]) -> Sequence[Part]:
    return held


def topk_parts(
    known: Sequence[Part], queries: np.ndarray, k: int, n_threads: int, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    words = []  # distance and slot in one word: sorting words sorts by (distance, slot)
    for which, codes, slots, dead in known:
        rows = np.delete(np.arange(len(codes)), dead)
        if mask is not None:
            rows = rows[slots[rows] < len(mask)]
            rows = rows[mask[slots[rows]] != 0]
        far, where = topk(queries[which], codes, k, rows, n_threads)
        words.append(far.astype(np.int64) << 32 | slots[where])
    best = np.sort(np.concatenate(words, axis=1), axis=1)[:, :k]
    return (best >> 32).astype(np.uint16), best & 0xFFFFFFFF


def topk_signs(
    known: Sequence[Part], values: np.ndarray, k: int, n_threads: int, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    if values.shape[1] and k and not np.isfinite(values).all():
        return None
    return topk_parts(known, np.packbits(values > 0, axis=2), k, n_threads, mask)


def marked(mask: np.ndarray, most: int) -> np.ndarray | None:
    slots = np.flatnonzero(mask).astype(np.uint32)
    return slots if len(slots) <= most else None


def weighted(
    values: np.ndarray, codes: np.ndarray, k: int, rows: np.ndarray | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    allowed = codes if rows is None else codes[rows]
    k = min(k, len(allowed))
    far, where = np.empty((len(values), k)), np.empty((len(values), k), np.int64)
    total = np.empty(len(allowed))
    for i in range(len(values)):
        costs = byte_costs(values[i])
        for start in range(0, len(allowed), BLOCK):  # so that the costs stay in the cache
            block, sums = allowed[start : start + BLOCK], total[start : start + BLOCK]
            np.take(costs[0], block[:, 0], out=sums)
            with np.errstate(over="ignore"):  # a cost may be infinite
                for j in range(1, block.shape[1]):
                    sums += costs[j][block[:, j]]
        within = np.arange(len(allowed))
        if k < len(allowed):
            within = np.flatnonzero(total <= np.partition(total, k - 1)[k - 1]) if k else within[:0]
        best = within[np.argsort(total[within], kind="stable")[:k]]
        far[i], where[i] = total[best], best
    return far, where if rows is None else rows[where]


def byte_costs(values: np.ndarray) -> np.ndarray:
    """Cost of every value of every byte of a code: (width, 256) float64 from values (n_bits,).

    Padding bits of the last byte cost nothing.
    """
    n_bits = len(values)
    width = -(-n_bits // 8)
    by_bit = np.zeros((8 * width, 2))
    by_bit[:n_bits, 0] = np.where(values > 0, values, 0)  # cost of a bit that is 0
    by_bit[:n_bits, 1] = np.where(values < 0, -values, 0)
    cost = by_bit.reshape(width, 8, 2)
    table: np.ndarray = cost[:, 0]
    with np.errstate(over="ignore"):
        for bit in range(1, 8):
            table = (table[..., None] + cost[:, bit, None]).reshape(width, -1)
    return table


def pack_signs(values: np.ndarray, codes: np.ndarray) -> bool:
    codes[...] = np.packbits(values > 0, axis=1)
    return bool(np.isfinite(values).all())


def radius(
    queries: np.ndarray, codes: np.ndarray, radius: int, rows: np.ndarray | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    allowed = codes if rows is None else codes[rows]
    offsets = np.zeros(len(queries) + 1, np.int64)
    found: list[np.ndarray] = [np.empty(0, np.int64)]
    nearest: list[np.ndarray] = [np.empty(0, np.uint16)]
    for block, far in _blocks(queries, allowed):
        query, where = np.nonzero(far <= radius)
        inside = far[query, where]
        order = np.lexsort((where, inside, query))
        offsets[1:][block] = np.bincount(query, minlength=len(far))
        nearest.append(inside[order])
        found.append(where[order])
    indices = np.concatenate(found)
    return np.cumsum(offsets), np.concatenate(nearest), indices if rows is None else rows[indices]


def histogram(
    queries: np.ndarray, codes: np.ndarray, labels: Labels | None, n_threads: int
) -> tuple[np.ndarray, np.ndarray | None]:
    bins = 8 * codes.shape[1] + 1
    total = np.zeros((len(queries), bins), np.int64)
    relevant = None if labels is None else np.zeros_like(total)
    for block, far in _blocks(queries, codes):
        total[block] = _count(far, bins)
        if labels is not None and relevant is not None:
            relevant[block] = _count(far, bins, _relevance(labels, block))
    return total, relevant


def rank(queries: np.ndarray, codes: np.ndarray, n_threads: int) -> np.ndarray:
    order = np.empty((len(queries), len(codes)), np.int32)
    for block, far in _blocks(queries, codes):
        order[block] = np.argsort(far, axis=1, kind="stable")
    return order


def stable_scores(
    queries: np.ndarray, codes: np.ndarray, labels: Labels, cutoffs: np.ndarray, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n, bins = len(queries), 8 * codes.shape[1] + 1
    total, relevant = np.zeros((2, n, bins), np.int64)
    precision, cut_precision = np.zeros(n), np.zeros((n, len(cutoffs)))
    cut_hits = np.zeros((n, len(cutoffs)), np.int64)
    ranks = np.arange(1, len(codes) + 1)
    for block, far in _blocks(queries, codes):
        hit = _relevance(labels, block)
        total[block], relevant[block] = _count(far, bins), _count(far, bins, hit)
        hit = np.take_along_axis(hit, np.argsort(far, axis=1, kind="stable"), axis=1)
        at_rank = np.where(hit, np.cumsum(hit, axis=1) / ranks, 0.0)
        precision[block] = at_rank.sum(axis=1)
        for column, cutoff in enumerate(cutoffs):
            cut_precision[block, column] = at_rank[:, :cutoff].sum(axis=1)
            cut_hits[block, column] = hit[:, :cutoff].sum(axis=1)
    return total, relevant, precision, cut_precision, cut_hits
