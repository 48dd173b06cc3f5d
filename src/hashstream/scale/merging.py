"""Answers of shards, merged into those of one table.

Shards return their nearest items with sequence numbers: the order of insertion over all shards. Sorted by distance and
then by that, the merged answer has the ids and ties that one table has to which the same rows were given in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hashstream.table.results import Items, RadiusResult, SearchResult
from hashstream.table.stats import Drift, TableStats

__all__ = [
    "Candidates",
    "ClusterRadiusResult",
    "ClusterSearchResult",
    "ClusterStats",
    "Found",
    "FoundWithin",
    "Listed",
    "candidates",
    "columns_of",
    "merge_ids",
    "merge_items",
    "merge_radius",
    "merge_stats",
    "split_radius",
    "split_search",
]


Columns = dict[tuple[str, str], np.ndarray]
"""Values of items that were found, by kind and name: ("sequences", "") and, where included, ("labels", ""),
("payloads", "") and ("fields", name)."""

SEQUENCES = ("sequences", "")


class Found(NamedTuple):
    """The nearest items of one shard: distances, ids and columns (q, m).

    n_items : in the shard. published : version of its functions, and what "auto" means with them, if it knows.
    """

    distances: np.ndarray
    ids: np.ndarray
    columns: Columns
    n_items: int = 0
    published: tuple[int, str | None] = (-1, None)


class FoundWithin(NamedTuple):
    """The items of one shard within a radius: offsets (q + 1,), distances, ids and columns (found,). The rest as in
    `Found`."""

    offsets: np.ndarray
    distances: np.ndarray
    ids: np.ndarray
    columns: Columns
    n_items: int = 0
    published: tuple[int, str | None] = (-1, None)


class Listed(NamedTuple):
    """Ids of one shard in the order of insertion, and their sequence numbers."""

    ids: np.ndarray
    sequences: np.ndarray


class ClusterSearchResult(SearchResult):
    """`SearchResult`, with the share of the items that could not be searched: above 0 only with `partial=True`."""

    missing: float = 0.0


class ClusterRadiusResult(RadiusResult):
    """`RadiusResult`, with the share of the items that could not be searched: above 0 only with `partial=True`."""

    missing: float = 0.0


def columns_of(result: SearchResult | RadiusResult) -> Columns:
    """The values that a result of a table includes."""
    held = {"sequences": result.sequences, "labels": result.labels, "payloads": result.payloads}
    columns = {(name, ""): values for name, values in held.items() if values is not None}
    return columns | {("fields", name): values for name, values in (result.fields or {}).items()}


def _include(result: Any, columns: Columns, include: Sequence[str], missing: float) -> None:
    """Add what is to be included."""
    for name in ("labels", "payloads", "sequences"):
        if name in include:
            setattr(result, name, columns[name, ""])
    if "fields" in include:
        result.fields = {name: values for (kind, name), values in columns.items() if kind == "fields"}
    result.missing = missing


@dataclass(frozen=True)
class Candidates:
    """Items by query, (q, m) each, nearest first. shards : which one has the item."""

    distances: np.ndarray
    ids: np.ndarray
    shards: np.ndarray
    columns: Columns

    def chosen(self, order: np.ndarray, distances: np.ndarray | None = None) -> Candidates:
        """Those at places (q, m') of each row, in this order. distances : theirs, where they are others now."""

        def take(values: np.ndarray) -> np.ndarray:
            return np.take_along_axis(values, order, axis=1)

        return Candidates(
            take(self.distances) if distances is None else distances,
            take(self.ids),
            take(self.shards),
            {name: take(values) for name, values in self.columns.items()},
        )

    def result(self, offset: int, k: int, include: Sequence[str], missing: float) -> ClusterSearchResult:
        """k items of each query as a result, without the first ones."""
        page = slice(offset, offset + k)
        result = ClusterSearchResult(self.distances[:, page], self.ids[:, page])
        columns = {name: values[:, page] for name, values in self.columns.items()}
        _include(result, columns, include, missing)
        return result


def candidates(found: Sequence[Found], shards: Sequence[int], most: int) -> Candidates:
    """The `most` nearest of all shards by (distance, sequence number). shards : the number of each answer's shard."""

    def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts, axis=1)

    every = Candidates(
        joined([one.distances for one in found]),
        joined([one.ids for one in found]),
        joined([np.full(one.ids.shape, at, np.intp) for at, one in zip(shards, found, strict=True)]),
        {name: joined([one.columns[name] for one in found]) for name in found[0].columns},
    )
    order = np.lexsort((every.columns[SEQUENCES], every.distances), axis=1)
    return every.chosen(order[:, :most])


def merge_radius(found: Sequence[FoundWithin], include: Sequence[str], missing: float) -> ClusterRadiusResult:
    """The items of all shards within a radius, by query, then distance, then sequence number."""
    counts = [np.diff(one.offsets) for one in found]
    query = np.concatenate([np.repeat(np.arange(len(count)), count) for count in counts])
    columns = {name: np.concatenate([one.columns[name] for one in found]) for name in found[0].columns}
    distances = np.concatenate([one.distances for one in found])
    order = np.lexsort((columns[SEQUENCES], distances, query))
    offsets = np.concatenate([[0], np.cumsum(np.sum(counts, axis=0))]).astype(np.int64)
    ids = np.concatenate([one.ids for one in found])
    result = ClusterRadiusResult(offsets, distances[order], ids[order])
    _include(result, {name: values[order] for name, values in columns.items()}, include, missing)
    return result


def split_search(result: ClusterSearchResult, counts: list[int]) -> list[ClusterSearchResult]:
    """The parts of a result that belong to the first counts[0] queries, the next counts[1], and so on."""
    ends = np.cumsum(counts).tolist()
    return [
        _part(result, slice(end - count, end), ClusterSearchResult, ())
        for count, end in zip(counts, ends, strict=True)
    ]


def split_radius(result: ClusterRadiusResult, counts: list[int]) -> list[ClusterRadiusResult]:
    """As `split_search`."""
    parts, stop = [], 0
    for count in counts:
        start, stop = stop, stop + count
        offsets = result.offsets[start : stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        parts.append(_part(result, rows, ClusterRadiusResult, (offsets - offsets[0],)))
    return parts


def _part(result: Any, rows: slice, kind: Any, before: tuple[np.ndarray, ...]) -> Any:
    columns = {name: values[rows] for name, values in columns_of(result).items()}
    part = kind(*before, result.distances[rows], result.ids[rows])
    include = {name for name, _ in columns} | ({"fields"} if result.fields is not None else set())
    _include(part, columns, sorted(include), result.missing)
    return part


def merge_ids(listed: Sequence[Listed], offset: int, limit: int | None) -> np.ndarray:
    """Ids of all shards in the order of insertion."""
    order = np.argsort(np.concatenate([one.sequences for one in listed]), kind="stable")
    ids: np.ndarray = _joined_ids([one.ids for one in listed])[order]
    return ids[offset:] if limit is None else ids[offset : offset + limit]


def merge_items(n: int, parts: Sequence[tuple[np.ndarray, Items]], ids: np.ndarray) -> Items:
    """Items of several shards in the order in which they were asked for. parts : rows, and the items there."""
    first = parts[0][1]
    codes = np.empty((n, first.codes.shape[1]), np.uint8)
    versions, sequences = np.empty(n, np.int64), np.full(n, -1, np.int64)
    features = (
        None if first.features is None else np.empty((n, first.features.shape[1]), first.features.dtype)
    )
    labels: list[Any] = [None] * n
    payloads: list[Any] = [None] * n
    fields: dict[str, list[Any]] = {name: [None] * n for name in first.fields}
    for rows, items in parts:
        codes[rows], versions[rows] = items.codes, items.versions
        if items.sequences is not None:
            sequences[rows] = items.sequences
        if features is not None:
            features[rows] = items.features
        for at, row in enumerate(rows.tolist()):
            labels[row], payloads[row] = items.labels[at], items.payloads[at]
            for name, values in fields.items():
                values[row] = items.fields[name][at]
    return Items(ids, codes, versions, labels, features, fields, payloads, sequences)


def _joined_ids(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([part for part in parts if len(part)] or [np.empty(0, np.int64)])


@dataclass(frozen=True)
class ClusterStats(TableStats):
    """A cluster in figures: those of its shards added up, and each shard's own.

    Signs of drift are means over the shards, weighted by the items of their samples. n_seen, map_history and comparison
    are the learner's; `learner` has all of its figures.
    """

    shards: tuple[TableStats, ...] = ()
    learner: TableStats | None = field(default=None, repr=False)


def merge_stats(shards: Sequence[TableStats], learner: TableStats) -> ClusterStats:
    """The figures of a whole cluster."""

    def total(name: str) -> Any:
        return sum(getattr(one, name) for one in shards)

    versions: dict[int, int] = {}
    for one in shards:
        for version, count in one.versions.items():
            versions[version] = versions.get(version, 0) + count
    n = total("n_items")
    known = [one.newest_version for one in shards if one.newest_version is not None]
    newest = max(known) if known else None
    behind = {version: (newest or 0) - version for version in versions}
    n_stale = n - versions.get(-1 if newest is None else newest, 0)
    return ClusterStats(
        n_items=n,
        n_slots=total("n_slots"),
        n_bits=learner.n_bits,
        versions=dict(sorted(versions.items())),
        newest_version=newest,
        updates_behind=sum(behind[version] * count for version, count in versions.items()) / n if n else 0.0,
        most_updates_behind=max(behind.values(), default=0),
        stale=n_stale / n if n else 0.0,
        n_stale=n_stale,
        n_seen=learner.n_seen,
        commits=total("commits"),
        memory_bytes=total("memory_bytes") + learner.memory_bytes,
        feature_bytes=total("feature_bytes") + learner.feature_bytes,
        disk_bytes=total("disk_bytes") + learner.disk_bytes,
        drift=_mean_drift([one.drift for one in shards]),
        map_history=learner.map_history,
        comparison=learner.comparison,
        background_error=next((one.background_error for one in shards if one.background_error), None),
        n_indexed=total("n_indexed"),
        index_bytes=total("index_bytes"),
        shards=tuple(shards),
        learner=learner,
    )


def _mean_drift(drifts: Sequence[Drift]) -> Drift:
    means: list[float | None] = []
    reasons: dict[str, str] = {}
    for name in ("bit_flips", "centre_shift", "mean_average_precision", "fresh_mean_average_precision"):
        known = [(getattr(one, name), one.n_items) for one in drifts if getattr(one, name) is not None]
        weight = sum(items for _, items in known)
        means.append(sum(value * items for value, items in known) / weight if weight else None)
        if not weight:
            reasons[name] = next(
                (one.reasons[name] for one in drifts if name in one.reasons), "too little data"
            )
    n_items, n_labelled = sum(one.n_items for one in drifts), sum(one.n_labelled for one in drifts)
    return Drift(means[0], means[1], means[2], means[3], n_items, n_labelled, reasons)
