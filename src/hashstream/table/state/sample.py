"""A small sample of the stored items with their features and labels, on which a table measures itself.

The key of an item is a hash of its id. The sample is all items whose key is below a limit, which is lowered whenever
they would be more than there are places: a uniform sample of what the table holds, whatever is added, removed or
replaced. It needs no random generator, so a table that is opened again goes on with the same sample. Where fewer than
half of the places are taken, because most items were removed, every new item is taken: from then on, later items are in
the sample more often than their share.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.table.state.labels import label_at

__all__ = ["MAX_SIZE", "Sample", "SampleChange", "label_array"]

MAX_SIZE = 1_000_000
NO_PLACES = np.empty(0, np.int64)
NO_KEYS, NO_ROWS = np.empty(0, np.uint64), np.empty((0, 0))
FREE = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class SampleChange:
    """One commit's effect on a sample: the places `freed` become free, then items take `places`.

    freed : (m,) int64. places, slots : (n,) int64, distinct. keys : (n,) uint64. rows : (n, d), the features.
    labels : n of them, None for a missing one. limit : items with a smaller key are taken from now on.
    """

    freed: np.ndarray
    places: np.ndarray
    slots: np.ndarray
    keys: np.ndarray
    rows: np.ndarray
    labels: list[Any]
    limit: np.uint64


class Sample:
    """At most `size` items.

    slots : (size,) int64, -1 for a free place. keys : (size,) uint64, FREE for a free place.
    rows : the features (d,) of each place. labels : None for a missing one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots = np.full(size, -1, np.int64)
        self.keys = np.full(size, FREE, np.uint64)
        self.limit = FREE
        self.rows: list[np.ndarray | None] = [None] * size
        self.labels: list[Any] = [None] * size

    def __len__(self) -> int:
        return int((self.slots >= 0).sum())

    def change(
        self,
        removed: np.ndarray,
        first_slot: int = 0,
        keys: np.ndarray = NO_KEYS,
        X: np.ndarray | None = None,
        y: np.ndarray | None = None,
    ) -> SampleChange:
        """The change where slots are removed and a batch X (n, d), labels y if any, takes the slots from `first_slot`.

        keys : (n,) uint64, the hashes of its ids.
        """
        freed = np.flatnonzero(np.isin(self.slots, removed)) if len(removed) else NO_PLACES
        held, limit = self.keys, self.limit
        if len(freed):
            held = held.copy()
            held[freed] = FREE
        n = int(np.count_nonzero(held != FREE))
        rows = np.flatnonzero(keys < limit) if self.size else NO_PLACES
        if n + len(rows) < self.size // 2:
            limit = FREE
            rows = np.flatnonzero(keys < limit)
        if X is None or not len(rows):
            return SampleChange(freed, NO_PLACES, NO_PLACES, NO_KEYS, NO_ROWS, [], limit)
        places = np.flatnonzero(held == FREE)
        if n + len(rows) > self.size:
            limit = np.partition(np.concatenate([held, keys[rows]]), self.size)[self.size]
            rows = rows[keys[rows] < limit]
            places = np.flatnonzero(held >= limit)
            # Where several items have the key that is the limit now, more places become free than are taken.
            freed = np.union1d(freed, places[len(rows) :])
        places = places[: len(rows)]
        labels = [label_at(y, row) for row in rows.tolist()]
        return SampleChange(freed, places, first_slot + rows, keys[rows], X[rows], labels, limit)

    def relabelled(self, slots: np.ndarray, y: np.ndarray) -> SampleChange:
        """The change where the items at slots (n,), ascending, get the labels y."""
        places = np.flatnonzero(np.isin(self.slots, slots))
        at = np.searchsorted(slots, self.slots[places])
        rows = [row for place in places.tolist() if (row := self.rows[place]) is not None]
        labels = [label_at(y, row) for row in at.tolist()]
        X = np.stack(rows) if rows else NO_ROWS
        return SampleChange(NO_PLACES, places, self.slots[places], self.keys[places], X, labels, self.limit)

    def after(self, change: SampleChange) -> Sample:
        """The sample after a change; this one stays as it is."""
        if not len(change.places) and not len(change.freed) and change.limit == self.limit:
            return self
        slots, keys, rows, labels = self.slots.copy(), self.keys.copy(), list(self.rows), list(self.labels)
        for place in change.freed.tolist():
            slots[place], keys[place], rows[place], labels[place] = -1, FREE, None, None
        slots[change.places], keys[change.places] = change.slots, change.keys
        for place, row, label in zip(change.places.tolist(), change.rows, change.labels, strict=True):
            rows[place], labels[place] = row.copy(), label  # a view would keep the whole batch in memory
        after = copy.copy(self)
        after.slots, after.keys, after.rows, after.labels = slots, keys, rows, labels
        after.limit = change.limit
        return after

    def filled(self, rows: list[np.ndarray | None], labels: dict[int, Any]) -> Sample:
        """The same items with other rows, by place, and labels, by place; None for those that are not given."""
        after = copy.copy(self)
        after.rows, after.labels = rows, [labels.get(place) for place in range(self.size)]
        return after

    def as_change(self) -> SampleChange:
        """The change that leads from an empty sample to this one."""
        places = np.flatnonzero(self.slots >= 0)
        _, X, labels = self.items()
        return SampleChange(
            NO_PLACES,
            places,
            self.slots[places],
            self.keys[places],
            X if len(X) else NO_ROWS,
            labels,
            self.limit,
        )

    def renumbered(self, live: np.ndarray) -> Sample:
        """The same items, where only the slots `live`, ascending, stay and are counted from 0."""
        after = copy.copy(self)
        after.slots = self.slots.copy()
        taken = after.slots >= 0
        after.slots[taken] = np.searchsorted(live, after.slots[taken])
        return after

    def items(self) -> tuple[np.ndarray, np.ndarray, list[Any]]:
        """Slots (m,) int64, features (m, d) and labels of the places that are taken, in the order of places."""
        slots, rows, labels = self.slots, self.rows, self.labels
        taken = np.flatnonzero(slots >= 0)
        chosen = [row for place in taken.tolist() if (row := rows[place]) is not None]
        if not chosen:
            return slots[:0], np.empty((0, 0)), []
        return slots[taken], np.stack(chosen), [labels[place] for place in taken.tolist()]

    def labelled(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of the items that have a label; labels as an array, one per item or a matrix."""
        slots, X, labels = self.items()
        kept = [i for i, label in enumerate(labels) if label is not None]
        if not kept:
            return slots[:0], X[:0], np.empty(0, object)
        return slots[kept], X[kept], label_array([labels[i] for i in kept])

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + 16 * self.size + sum(row.nbytes for row in self.rows if row is not None)


def label_array(labels: list[Any]) -> np.ndarray:
    """Labels, none missing, as an array: one per item, or a matrix."""
    if isinstance(labels[0], np.ndarray):
        return np.stack(labels)
    values = np.empty(len(labels), object)
    values[:] = labels
    return values
