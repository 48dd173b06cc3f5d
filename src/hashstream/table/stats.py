"""Figures of a table, signs of drift among them, and mAP over time. What cannot be said yet is None, with a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hashstream import hamming
from hashstream.hashers import Encoder
from hashstream.table.state.comparison import Choice, Comparison
from hashstream.table.state.sample import Sample
from hashstream.table.state.state import State
from hashstream.table.state.view import View, locate

__all__ = ["Drift", "History", "TableStats", "measure_drift", "stored_map_of", "table_stats"]

MOST_ENTRIES = 200  # of the history
LEAST_ITEMS = 20  # of the sample, below which nothing is said
LEAST_OF_CLASS = 5
MOST_QUERIES = 200
NOT_THERE = 1 << 11  # more than any distance


@dataclass(frozen=True)
class Drift:
    """How far the functions and the data have moved, on the items of the table's sample.

    bit_flips : share of stored bits that the current functions would set otherwise.
    centre_shift : how far the class centres of the newer half of the items lie from those of the older half, in units
        of the typical distance of an item from its centre; the root of the mean square over classes, less what chance
        alone gives: about 0 where nothing moves.
    mean_average_precision : of the table's own answers: labelled items as queries, ranked against the others by stored
        codes, compared as `search` does by default (`comparison`).
    fresh_mean_average_precision : the same after a refresh.
    reasons : name -> why it is None.
    """

    bit_flips: float | None
    centre_shift: float | None
    mean_average_precision: float | None
    fresh_mean_average_precision: float | None
    n_items: int
    n_labelled: int
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableStats:
    """A table in figures.

    versions : version -> items that it encoded, oldest first. newest_version : of the current functions.
    updates_behind : by how many updates the mean code is behind; most_updates_behind : the oldest.
    stale, n_stale : share and number of items whose code is not of the newest version.
    memory_bytes : ids, codes, labels, fields and indexes. feature_bytes : stored features. disk_bytes : all files.
    map_history : (rows learned from, `drift.mean_average_precision`) at checkpoints, oldest first, and now; stored with
        the table, at most 200. Empty where there was too little data each time.
    comparison : what `compare="auto"` does in a search, and why.
    background_error : why the last refresh in the background failed, or the last reload of a reader that follows; None
        after one that did not.
    n_indexed, index_bytes : items whose codes are looked up by a multi-index, and its memory; the others are scanned.
    """

    n_items: int
    n_slots: int
    n_bits: int | None
    versions: dict[int, int]
    newest_version: int | None
    updates_behind: float
    most_updates_behind: int
    stale: float
    n_stale: int
    n_seen: int
    commits: int
    memory_bytes: int
    feature_bytes: int
    disk_bytes: int
    drift: Drift
    map_history: tuple[tuple[int, float], ...]
    comparison: Comparison
    background_error: str | None = None
    n_indexed: int = 0
    index_bytes: int = 0


@dataclass(frozen=True)
class History:
    """mAP of a table on its own sample as it went on learning, measured at checkpoints and stored with the table.

    An entry is added with a checkpoint of the model, once `checkpoint_rows` rows were learned since the last one, and
    by `flush` and `close`. When there are more than 200, every second one is dropped, so that old ones lie farther
    apart than new ones.

    entries : (rows learned from, mAP), oldest first.
    seq, rows : the commit and the rows learned from at the last measurement, which may have found too little data.
    """

    entries: tuple[tuple[int, float], ...] = ()
    seq: int = 0
    rows: int = 0

    def measured(self, state: State, value: float | None) -> History:
        """With one more entry, unless its value is None."""
        rows = state.model.n_seen
        entries = self.entries if value is None else (*self.entries, (rows, value))
        if len(entries) > MOST_ENTRIES:
            entries = entries[:-1][::2] + entries[-1:]
        return History(entries, state.seq, rows)

    def to_fields(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"entries": self.entries, "seq": self.seq, "rows": self.rows}

    @classmethod
    def from_fields(cls, stored: dict[str, Any] | None) -> History:
        """The inverse of `to_fields`; an empty history for None. ValueError where entries are not numbers."""
        if stored is None:
            return cls()
        numbers = [stored["seq"], stored["rows"], *(rows for rows, _ in stored["entries"])]
        if any(type(number) is not int for number in numbers) or not all(
            isinstance(value, float) for _, value in stored["entries"]
        ):
            raise ValueError("the history has entries that are not numbers")
        return cls(tuple((rows, value) for rows, value in stored["entries"]), stored["seq"], stored["rows"])


def table_stats(
    state: State,
    history: History,
    *,
    index_bytes: int,
    feature_bytes: int,
    disk_bytes: int,
    background_error: str | None,
) -> TableStats:
    """The figures of a state. history : as stored, which may be of an earlier or a later commit."""
    view, counts = state.view, state.view.counts()
    n, n_seen = len(view), state.model.n_seen
    behind = sum((view.newest - version) * count for version, count in counts.items())
    drift = measure_drift(view, state.sample, state.comparison.choice)
    if history.seq < state.seq:
        history = history.measured(state, drift.mean_average_precision)
    column_bytes = 0 if view.column is None else view.column.nbytes
    indexed = [one for part in view.parts if (one := part.divided()[0]) is not None]
    lookup_bytes = sum(one.covering.index.nbytes for one in indexed)
    value_bytes = sum(values.nbytes for values in (view.labels, *view.fields.values()))
    return TableStats(
        n_items=n,
        n_slots=view.n_slots,
        n_bits=None if state.model.encoder is None else state.model.encoder.n_bits,
        versions=counts,
        newest_version=None if view.newest < 0 else view.newest,
        updates_behind=behind / n if n else 0.0,
        most_updates_behind=view.newest - min(counts) if counts else 0,
        stale=1 - counts.get(view.newest, 0) / n if n else 0.0,
        n_stale=n - counts.get(view.newest, 0),
        n_seen=n_seen,
        commits=state.seq,
        memory_bytes=sum(part.nbytes for part in view.parts)
        + column_bytes
        + value_bytes
        + index_bytes
        + lookup_bytes,
        feature_bytes=feature_bytes,
        disk_bytes=disk_bytes,
        drift=drift,
        map_history=tuple(entry for entry in history.entries if entry[0] <= n_seen),
        comparison=state.comparison,
        background_error=background_error,
        n_indexed=sum(map(len, indexed)),
        index_bytes=lookup_bytes,
    )


def measure_drift(view: View, sample: Sample, compare: Choice = "like") -> Drift:
    """The signs, from the items of the sample that are alive in the view. compare : how a search does it."""
    slots, X, _ = sample.items()
    labelled_slots, labelled_X, labels = sample.labelled()
    reasons: dict[str, str] = {}
    n, n_labelled = len(slots), len(labelled_slots)
    flips = shift = stored = fresh = None
    if view.newest < 0 or not len(view):
        reasons["bit_flips"] = "too little data: the table is empty"
    elif n < LEAST_ITEMS:
        reasons["bit_flips"] = f"too little data: {n} items in the sample, {LEAST_ITEMS} are needed"
    else:
        flips = bit_flips(view, slots, X)
    if n_labelled < LEAST_ITEMS:
        why = f"too little data: {n_labelled} labelled items in the sample, {LEAST_ITEMS} are needed"
        reasons.update(
            dict.fromkeys(("centre_shift", "mean_average_precision", "fresh_mean_average_precision"), why)
        )
    else:
        shift = centre_shift(labelled_slots, labelled_X, labels)
        if shift is None:
            reasons["centre_shift"] = (
                f"too little data: no class has {LEAST_OF_CLASS} items in the older and in the newer half"
            )
        stored = stored_map(view, labelled_slots, labelled_X, labels, compare)
        fresh = (
            fresh_map(view.encoders[view.newest], labelled_slots, labelled_X, labels)
            if view.newest >= 0
            else None
        )
        for name, value in (("mean_average_precision", stored), ("fresh_mean_average_precision", fresh)):
            if value is None:
                reasons[name] = "too little data: no two items share a label"
    return Drift(flips, shift, stored, fresh, n, n_labelled, reasons)


def bit_flips(view: View, slots: np.ndarray, X: np.ndarray) -> float:
    newest = view.encoders[view.newest]
    codes = newest.encode(X)
    different = total = 0
    for part, at, rows in locate(view.parts, slots):
        different += int(np.bitwise_count(part.codes[rows] ^ codes[at]).sum())
        total += len(rows) * newest.n_bits
    return different / total if total else 0.0


def centre_shift(slots: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float | None:
    """Of classes with enough items in both halves of the sample's items, by slot; a column is a class in a label
    matrix."""
    order = np.argsort(slots)
    newer = np.zeros(len(slots), bool)
    newer[order[len(order) // 2 :]] = True
    squares = []
    for members in class_members(labels).T:
        old, new = X[members & ~newer].astype(np.float64), X[members & newer].astype(np.float64)
        n, m = len(old), len(new)
        if min(n, m) < LEAST_OF_CLASS:
            continue
        a, b = old.mean(axis=0), new.mean(axis=0)
        variance = float(((old - a) ** 2).sum() + ((new - b) ** 2).sum()) / (n + m - 2)
        # Means of n and m items differ by chance: their squared distance is variance * (1/n + 1/m) on average.
        apart = float(((a - b) ** 2).sum())
        squares.append(apart / variance - (1 / n + 1 / m) if variance > 0 else 0.0)
    return max(0.0, float(np.mean(squares))) ** 0.5 if squares else None


def class_members(labels: np.ndarray) -> np.ndarray:
    """Which items have which label, (n, classes) bool, classes in order of appearance; or a label matrix itself."""
    if labels.ndim == 2:
        return labels > 0
    number: dict[Any, int] = {}
    numbers = np.array([number.setdefault(label, len(number)) for label in labels.tolist()], np.intp)
    return np.asarray(numbers[:, None] == np.arange(len(number)))


def stored_map_of(state: State) -> float | None:
    """`Drift.mean_average_precision` alone."""
    slots, X, labels = state.sample.labelled()
    if len(slots) < LEAST_ITEMS or state.view.newest < 0:
        return None
    return stored_map(state.view, slots, X, labels, state.comparison.choice)


def stored_map(
    view: View, slots: np.ndarray, X: np.ndarray, labels: np.ndarray, compare: Choice
) -> float | None:
    """mAP with the codes as they are stored: each query is encoded for every version alive, or by the current
    functions alone."""
    queries = min(MOST_QUERIES, len(slots))
    far = np.full((queries, len(slots)), NOT_THERE, np.int64)
    for part, at, rows in locate(view.parts, slots):
        encoder = view.encoders[part.version if compare == "like" else view.newest]
        codes = encoder.encode(X[:queries])
        far[:, at] = hamming.distances(codes, np.ascontiguousarray(part.codes[rows]))
    return mean_average_precision(far, slots, labels)


def fresh_map(newest: Encoder, slots: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float | None:
    codes = newest.encode(X)
    far = hamming.distances(codes[: min(MOST_QUERIES, len(X))], codes).astype(np.int64)
    return mean_average_precision(far, slots, labels)


def mean_average_precision(far: np.ndarray, slots: np.ndarray, labels: np.ndarray) -> float | None:
    """Of rankings of all n items by (distance, slot) for the first q of them, each without itself; queries that
    nothing shares a label with are left out, and None where that is all of them.

    far : (q, n) int64, NOT_THERE for what is not there.
    """
    queries = np.arange(len(far))
    members = class_members(labels).astype(np.float32)
    related = (members[queries] @ members.T > 0) & (far < NOT_THERE)
    related[queries, queries] = False
    far = far.copy()
    far[queries, queries] = NOT_THERE  # itself comes last, and counts for nothing
    place = np.empty(len(slots), np.int64)
    place[np.argsort(slots)] = np.arange(len(slots))
    # Distance, place and whether it is a hit in one number: sorting those is much faster than an argsort, and fastest
    # where 32 bits are enough for them.
    size = 2 * len(slots)
    words = far * size + (place << 1) + related
    words = np.sort(words.astype(np.int32) if size * (NOT_THERE + 1) < 1 << 31 else words, axis=1)
    hits = (words & 1).astype(bool)
    found = np.cumsum(hits, axis=1)
    asked = found[:, -1] > 0
    if not asked.any():
        return None
    precision = np.where(hits, found / np.arange(1, len(slots) + 1), 0.0)
    return float((precision.sum(axis=1)[asked] / found[asked, -1]).mean())
