"""A small sample of the stored items with their features and labels, by which the table watches itself.

Item i has the key SplitMix64(slot of i), and the items with the smallest keys stay: as long as items only come, a
uniform sample of them, which needs no random generator, so that a table that was opened again goes on with the very
same one. A removed or replaced item leaves its place to the next that comes, whatever its key, and those that had no
place are not asked again; after a compaction, slots and so keys are others. From then on, items that came later are
in the sample more often than their share.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.table.ids import mixed
from hashstream.table.packing import pack_label, unpack_label

__all__ = ["Reservoir", "Seats"]

NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Seats:
    """What a change does to a reservoir: `left` places become free, then items sit down at `places`.

    left : (m,) int64. places, slots : (n,) int64, distinct. rows : (n, d), the features; None where n is 0.
    labels : n of them, None without. taken : how many places are taken afterwards.
    """

    left: np.ndarray
    places: np.ndarray
    slots: np.ndarray
    rows: np.ndarray | None
    labels: list[Any]
    taken: int

    def arrays(self) -> dict[str, np.ndarray]:
        """As named arrays, for the log and the image; none where nothing happens."""
        out = {"seats.left": self.left} if len(self.left) else {}
        if self.rows is not None:
            text = json.dumps([None if label is None else pack_label(label) for label in self.labels])
            out["seats.places"], out["seats.slots"], out["seats.rows"] = self.places, self.slots, self.rows
            out["seats.labels"] = np.frombuffer(text.encode(), np.uint8)
        return out

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Seats:
        """What `arrays` was made of, but for `taken`."""
        left = arrays.get("seats.left", NOBODY)
        if "seats.places" not in arrays:
            return cls(left, NOBODY, NOBODY, None, [], 0)
        texts = json.loads(arrays["seats.labels"].tobytes())
        labels = [None if text is None else unpack_label(text) for text in texts]
        return cls(left, arrays["seats.places"], arrays["seats.slots"], arrays["seats.rows"], labels, 0)


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

    def plan(
        self,
        removed: np.ndarray,
        first_slot: int = 0,
        X: np.ndarray | None = None,
        y: np.ndarray | None = None,
    ) -> Seats:
        """What happens when slots die and a batch X (n, d), with labels y perhaps, takes the slots from `first_slot`
        on."""
        left = np.flatnonzero(np.isin(self.slots, removed)) if len(removed) else NOBODY
        if not self.size or X is None or not len(X):
            return Seats(left, NOBODY, NOBODY, None, [], len(self) - len(left))
        coming = mixed(np.arange(first_slot, first_slot + len(X), dtype=np.uint64))
        slots = self.slots
        if len(left):
            slots = slots.copy()
            slots[left] = -1
        # Those who sit and those who come, by key; a free place has none, so whoever comes may take one.
        seated = np.flatnonzero(slots >= 0)
        sitting = mixed(slots[seated].astype(np.uint64))
        rows = np.arange(len(X))
        if len(seated) == self.size:
            rows = np.flatnonzero(coming < sitting.max())
        if not len(rows):
            return Seats(left, NOBODY, NOBODY, None, [], len(seated))
        keys = np.concatenate([sitting, coming[rows]])
        last = min(self.size, len(keys)) - 1
        stay = keys <= np.partition(keys, last)[last]  # no two are equal
        rows = rows[stay[len(seated) :]]
        if not len(rows):
            return Seats(left, NOBODY, NOBODY, None, [], len(seated))
        free = np.concatenate([seated[~stay[: len(seated)]], np.flatnonzero(slots < 0)])
        labels = [None] * len(rows) if y is None else [y[row] for row in rows.tolist()]
        return Seats(left, np.sort(free[: len(rows)]), first_slot + rows, X[rows], labels, int(stay.sum()))

    def taken(self, seats: Seats) -> Reservoir:
        """The reservoir after a plan. This one stays as it is for who looks at it."""
        if not len(seats.places) and not len(seats.left):
            return self
        slots, rows, labels = self.slots.copy(), list(self.rows), list(self.labels)
        for place in seats.left.tolist():
            slots[place], rows[place], labels[place] = -1, None, None
        slots[seats.places] = seats.slots
        if seats.rows is not None:
            for place, row, label in zip(seats.places.tolist(), seats.rows, seats.labels, strict=True):
                rows[place], labels[place] = row.copy(), label  # not a view, which would keep all others
        after = copy.copy(self)
        after.slots, after.rows, after.labels = slots, rows, labels
        return after

    def seats(self) -> Seats:
        """What makes this reservoir of an empty one."""
        places = np.flatnonzero(self.slots >= 0)
        chosen = [row for place in places.tolist() if (row := self.rows[place]) is not None]
        rows = np.stack(chosen) if chosen else None
        labels = [self.labels[place] for place in places.tolist()]
        return Seats(NOBODY, places, self.slots[places], rows, labels, len(places))

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
