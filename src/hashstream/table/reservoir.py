"""A small sample of the stored items with their features and labels, by which the table watches itself.

Item i has the key SplitMix64(slot of i), and the items with the smallest keys stay: as long as items only come, a
uniform sample of them, which needs no random generator, so that a table that was opened again goes on with the very
same one. A removed or replaced item leaves its place to the next that comes, whatever its key, and those that had no
place are not asked again; after a compaction, slots and so keys are others. From then on, items that came later are
in the sample more often than their share.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.table.ids import mixed

__all__ = ["Reservoir", "Seats"]

NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True)
class Seats:
    """What a change does to a reservoir: `left` places become free, then `rows` of the batch sit down at `places`.

    left : (m,) int64. places, rows : (n,) int64, distinct places. taken : how many places are taken afterwards.
    """

    left: np.ndarray
    places: np.ndarray
    rows: np.ndarray
    taken: int


class Reservoir:
    """At most `size` items. `slots` (size,) int64 with -1 for a free place; `rows`, the features (d,) of each place;
    `labels`, None without."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots = np.full(size, -1, np.int64)
        self.rows: list[np.ndarray | None] = [None] * size
        self.labels: list[Any] = [None] * size

    def __len__(self) -> int:
        return int((self.slots >= 0).sum())

    def plan(self, removed: np.ndarray, first_slot: int, n: int) -> Seats:
        """What happens when slots die and a batch of n rows takes the slots from `first_slot` on."""
        left = np.flatnonzero(np.isin(self.slots, removed)) if len(removed) else NOBODY
        if not self.size or not n:
            return Seats(left, NOBODY, NOBODY, len(self) - len(left))
        slots = self.slots.copy()
        slots[left] = -1
        # Those who sit and those who come, by key; a free place has none, so whoever comes may take one.
        seated = np.flatnonzero(slots >= 0)
        sitting = mixed(slots[seated].astype(np.uint64))
        coming = mixed(np.arange(first_slot, first_slot + n, dtype=np.uint64))
        rows = np.arange(n)
        if len(seated) == self.size:
            rows = np.flatnonzero(coming < sitting.max())
        if not len(rows):
            return Seats(left, NOBODY, NOBODY, len(seated))
        keys = np.concatenate([sitting, coming[rows]])
        last = min(self.size, len(keys)) - 1
        stay = keys <= np.partition(keys, last)[last]  # no two are equal
        rows = rows[stay[len(seated) :]]
        free = np.concatenate([seated[~stay[: len(seated)]], np.flatnonzero(slots < 0)])
        return Seats(left, np.sort(free[: len(rows)]), rows, int(stay.sum()))

    def taken(self, seats: Seats, first_slot: int, X: np.ndarray | None, y: np.ndarray | None) -> Reservoir:
        """The reservoir after a plan; X (n, d) and y are the batch. This one stays as it is for who looks at it."""
        if not len(seats.places) and not len(seats.left):
            return self
        slots, rows, labels = self.slots.copy(), list(self.rows), list(self.labels)
        for place in seats.left.tolist():
            slots[place], rows[place], labels[place] = -1, None, None
        if X is not None and len(seats.places):
            slots[seats.places] = first_slot + seats.rows
            for place, row in zip(seats.places.tolist(), seats.rows.tolist(), strict=True):
                rows[place], labels[place] = X[row].copy(), None if y is None else y[row]
        after = copy.copy(self)
        after.slots, after.rows, after.labels = slots, rows, labels
        return after

    def renumbered(self, slots: np.ndarray) -> Reservoir:
        """The same items, whose slots have other numbers now."""
        after = copy.copy(self)
        after.slots = slots
        return after

    def sample(self) -> tuple[np.ndarray, np.ndarray, list[Any]]:
        """Slots (m,) int64, features (m, d) and labels of the places that are taken, in the order of places."""
        slots, rows, labels = self.slots, self.rows, self.labels
        taken = np.flatnonzero(slots >= 0)
        chosen = [row for place in taken.tolist() if (row := rows[place]) is not None]
        if not chosen:
            return slots[:0], np.empty((0, 0)), []
        return slots[taken], np.stack(chosen), [labels[place] for place in taken.tolist()]

    def labelled(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of the items that have a label; labels as an array, one a row or a matrix."""
        slots, X, labels = self.sample()
        kept = [i for i, label in enumerate(labels) if label is not None]
        if not kept:
            return slots[:0], X[:0], np.empty(0, object)
        chosen = [labels[i] for i in kept]
        if isinstance(chosen[0], np.ndarray):
            return slots[kept], X[kept], np.stack(chosen)
        values = np.empty(len(chosen), object)
        values[:] = chosen
        return slots[kept], X[kept], values

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + 16 * self.size + sum(row.nbytes for row in self.rows if row is not None)
