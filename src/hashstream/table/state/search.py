"""Exact search over the codes of a view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hashstream import hamming
from hashstream.hashers import Encoder
from hashstream.hashers.encoder import Product
from hashstream.table.errors import TableError
from hashstream.table.state.matching import Matching
from hashstream.table.state.view import Covered, Part, View

__all__ = ["Compare", "ExactScan", "IndexedSearch"]

FEW = 16  # queries that are encoded with as few calls as possible

Found = tuple[np.ndarray, np.ndarray]
Within = tuple[np.ndarray, np.ndarray, np.ndarray]

Compare = Literal["like", "current"]
"""By whose functions a query is encoded. "like": by those of every version in use, so that query and item are always
compared by codes of one version. "current": by the newest alone, whatever version the item's code is of."""


@dataclass(frozen=True)
class ExactScan:
    """The `CodeIndex` that reads every code: nothing to build, exact, ties by slot."""

    view: View

    def topk(
        self,
        Q: np.ndarray,
        k: int,
        n_threads: int | None = None,
        *,
        matching: Matching | None = None,
        compare: Compare = "like",
    ) -> Found:
        """The k items nearest to each query: distances (q, m) uint16, slots (q, m) int64, m = min(k, items).

        Equal to a sort of the codes of all items, or of all that match, by (Hamming distance to the query's code,
        slot).
        """
        view, left = self._among(matching)
        if not view.parts:
            return np.empty((len(Q), 0), np.uint16), np.empty((len(Q), 0), np.int64)
        return self._nearest(view, Q, k, None if left is None else left.mask, compare, n_threads)

    def _nearest(
        self,
        view: View,
        Q: np.ndarray,
        k: int,
        mask: np.ndarray | None,
        compare: Compare,
        n_threads: int | None,
    ) -> Found:
        """The k nearest items of a view with parts. mask : by slot."""
        values = few_values(view, Q, compare)
        found = None
        if values is not None:
            found = view.searchable.topk_signs(values, k, mask=mask, n_threads=n_threads)
        if found is None:
            codes = query_codes(view, Q, compare)
            found = view.searchable.topk(codes, k, mask=mask, n_threads=n_threads)
        return found

    def radius(
        self,
        Q: np.ndarray,
        radius: int,
        n_threads: int | None = None,
        *,
        matching: Matching | None = None,
        compare: Compare = "like",
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All items at most `radius` bits away: offsets (q + 1,) int64, distances uint16 and slots int64.

        Within a query by ascending distance, then by slot.
        """
        view, left = self._among(matching)
        query, word = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        queries = dict(zip(view.versions, query_codes(view, Q, compare), strict=True))
        mask = None if left is None else left.mask
        for offsets, far, slots in self._within(view, queries, radius, mask, n_threads):
            query.append(np.repeat(np.arange(len(Q)), np.diff(offsets)))
            word.append(far.astype(np.int64) << 32 | slots)
        owners, words = np.concatenate(query), np.concatenate(word)
        if len(word) > 2:
            order = np.lexsort((words, owners))
            owners, words = owners[order], words[order]
        offsets = np.zeros(len(Q) + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=len(Q)), out=offsets[1:])
        return offsets, (words >> 32).astype(np.uint16), words & 0xFFFFFFFF

    def _within(
        self,
        view: View,
        queries: dict[int, np.ndarray],
        radius: int,
        mask: np.ndarray | None,
        n_threads: int | None,
    ) -> Iterator[Within]:
        """Items within a radius, part by part. queries : their codes by version."""
        for part in view.parts:
            yield scanned_radius(part, queries[part.version], radius, mask, n_threads)

    def topk_asymmetric(
        self,
        Q: np.ndarray,
        k: int,
        n_threads: int | None = None,
        *,
        matching: Matching | None = None,
        compare: Compare = "like",
    ) -> Found:
        """As `topk`, by the costs of `query_values`: distances (q, m) float64, slots (q, m) int64."""
        view, left = self._among(matching)
        if not view.parts:
            return np.empty((len(Q), 0)), np.empty((len(Q), 0), np.int64)
        sources = {version: version if compare == "like" else view.newest for version in view.versions}
        values = {version: query_values(view.encoders[version], Q) for version in set(sources.values())}
        found = self._cheapest(view, {v: values[sources[v]] for v in sources}, k, left, n_threads)
        return nearest(list(found), k)

    def _cheapest(
        self,
        view: View,
        values: dict[int, np.ndarray],
        k: int,
        left: Matching | None,
        n_threads: int | None,
    ) -> Iterator[Found]:
        """The k items that cost each query least, part by part. values : of the queries, by version."""
        for part in view.parts:
            yield scanned_costs(part, values[part.version], k, left, n_threads)

    def _among(self, matching: Matching | None) -> tuple[View, Matching | None]:
        """The view to search, and the filter that it still has to pass, if any."""
        if matching is None:
            return self.view, None
        if matching.view is not self.view:
            raise ValueError("the items that match are those of another view")
        return (self.view, matching) if matching.few is None else (matching.few, None)


@dataclass(frozen=True)
class IndexedSearch(ExactScan):
    """The `CodeIndex` that looks up the codes of large parts, once there is a multi-index of them, and scans the rest.
    The answers are those of `ExactScan`."""

    def _nearest(
        self,
        view: View,
        Q: np.ndarray,
        k: int,
        mask: np.ndarray | None,
        compare: Compare,
        n_threads: int | None,
    ) -> Found:
        covered, rest = divided(view, len(Q))
        if not covered or not len(Q):
            return super()._nearest(view, Q, k, mask, compare, n_threads)
        codes = few_codes(view, Q, compare)
        queries = dict(zip(view.versions, codes, strict=True))
        found: list[Found] = []
        for one in covered:
            of_version = queries[one.part.version]
            found.append(one.index().topk(of_version, k, among=one.among(mask), n_threads=n_threads))
        if rest:
            numbers = {version: at for at, version in enumerate(view.versions)}
            scanned = hamming.Parts([(numbers[part.version], *part.arrays()) for part in rest])
            found.append(scanned.topk(codes, k, mask=mask, n_threads=n_threads))
        return nearest(found, k)

    def _within(
        self,
        view: View,
        queries: dict[int, np.ndarray],
        radius: int,
        mask: np.ndarray | None,
        n_threads: int | None,
    ) -> Iterator[Within]:
        covered, rest = divided(view, len(next(iter(queries.values()), ())))
        for one in covered:
            of_version, among = queries[one.part.version], one.among(mask)
            yield one.index().radius(of_version, radius, among=among, n_threads=n_threads)
        for part in rest:
            yield scanned_radius(part, queries[part.version], radius, mask, n_threads)

    def _cheapest(
        self,
        view: View,
        values: dict[int, np.ndarray],
        k: int,
        left: Matching | None,
        n_threads: int | None,
    ) -> Iterator[Found]:
        covered, rest = divided(view, len(next(iter(values.values()), ())))
        mask = None if left is None else left.mask
        for one in covered:
            of_version, among = values[one.part.version], one.among(mask)
            yield one.index().weighted_topk(of_version, k, among=among, n_threads=n_threads)
        for part in rest:
            yield scanned_costs(part, values[part.version], k, left, n_threads)


def divided(view: View, queries: int) -> tuple[list[Covered], list[Part]]:
    """The rows of a view that multi-indexes cover, and those that are scanned; so many queries ask for both."""
    covered, rest = [], []
    for part in view.parts:
        looked_up, scanned = part.divided()
        if looked_up is not None:
            covered.append(looked_up)
        if scanned is not None:
            rest.append(scanned)
            part.lookup.scanned(part.codes, part.start, part.stop, queries)
    return covered, rest


def nearest(found: Sequence[Found], k: int) -> Found:
    """The k nearest of several results, each by (distance, slot)."""
    if len(found) == 1:
        return found[0]
    far, slots = (np.concatenate([pair[i] for pair in found], axis=1) for i in (0, 1))
    order = np.lexsort((slots, far), axis=1)[:, :k]
    return np.take_along_axis(far, order, axis=1), np.take_along_axis(slots, order, axis=1)


def scanned_radius(
    part: Part, queries: np.ndarray, radius: int, mask: np.ndarray | None, n_threads: int | None
) -> Within:
    """The items of a part within a radius: offsets, distances and slots. mask : by slot."""
    codes, slots, dead = part.arrays()
    offsets, far, rows = hamming.radius(queries, codes, radius, n_threads=n_threads)
    found = slots[rows].astype(np.int64)
    if not len(dead) and mask is None:
        return offsets, far, found
    keep = ~np.isin(rows, dead) if len(dead) else np.ones(len(rows), bool)
    if mask is not None:
        keep &= found < len(mask)
        keep[keep] = mask[found[keep]]
    return np.concatenate([[0], np.cumsum(keep)])[offsets], far[keep], found[keep]


def scanned_costs(
    part: Part, values: np.ndarray, k: int, left: Matching | None, n_threads: int | None
) -> Found:
    """The items of a part that cost each query least: costs and slots. left : a filter that they have to pass."""
    codes, slots, dead = part.arrays()
    subset = None if not len(dead) else np.delete(np.arange(len(codes)), dead)
    if left is not None:
        subset = left.rows(part)
    far, rows = hamming.weighted_topk(values, codes, k, subset=subset, n_threads=n_threads)
    return far, slots[rows].astype(np.int64)


def few_codes(view: View, Q: np.ndarray, compare: Compare) -> np.ndarray:
    """`query_codes`, in fewer calls where there are few queries."""
    values = few_values(view, Q, compare)
    if values is not None:
        codes = np.empty((*values.shape[:2], view.width), np.uint8)
        rows = values.reshape(-1, values.shape[2])
        if hamming.pack_signs(rows, codes.reshape(len(rows), -1)):
            return codes
    return query_codes(view, Q, compare)


def few_values(view: View, Q: np.ndarray, compare: Compare) -> np.ndarray | None:
    """The real values (versions, q, r) whose signs are the bits of a few queries, with as few calls as possible, which
    would take longer than the products; None where that is not how bits are made."""
    products = view.products if compare == "like" else newest_product(view)
    if len(Q) > FEW or not products or Q.dtype != products[0].matrix.dtype:
        return None
    values = np.empty((len(view.versions), len(Q), products[0].matrix.shape[1]), Q.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for i, product in enumerate(products):
            product.multiply(Q, values[i])
    if len(products) < len(values):
        values[1:] = values[0]
    return values


def newest_product(view: View) -> list[Product] | None:
    """As `View.products`, of the newest version alone."""
    product = view.encoders[view.newest].product
    return None if product is None else [product]


def query_codes(view: View, Q: np.ndarray, compare: Compare) -> np.ndarray:
    """The codes of queries to compare with those of every version alive, (versions, q, width) uint8."""
    codes = np.empty((len(view.versions), len(Q), view.width), np.uint8)
    if compare == "current" and view.parts:
        codes[:] = view.encoders[view.newest].encode(Q)
        return codes
    for i, version in enumerate(view.versions):
        codes[i] = view.encoders[version].encode(Q)
    return codes


def query_values(encoder: Encoder, Q: np.ndarray) -> np.ndarray:
    """The real values of queries, (q, r) float64, scaled so that the mean magnitude of each query's values is 1.

    The magnitude is the cost of a differing bit: how sure the query is of it. Distances then have the scale of Hamming
    distances, and those of different versions are comparable. A query whose values are all zero has -1s.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        P = encoder.decision_function(Q).astype(np.float64)
    if not np.isfinite(P).all():
        raise TableError(f"the hash functions of version {encoder.version} give NaN or infinity for a query")
    mean = np.abs(P).mean(axis=1, keepdims=True)
    return np.where(mean > 0, P / np.where(mean > 0, mean, 1), -1.0)
