"""A small uniform sample of the stored items with their features and labels, by which the table watches itself.

Item i has the key SplitMix64(slot of i), and the items with the smallest keys stay: a uniform sample that needs no
random generator, so a table that was opened again goes on with the very same one. A removed item leaves its place to
the next that comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.table.ids import mixed

__all__ = ["Reservoir", "Seats"]

FREE = np.iinfo(np.uint64).max


@dataclass(frozen=True)
class Seats:
    """What a change does to a reservoir: `left` places become free, then `rows` of the batch sit down at `places`.

    left : (m,) int64. places, rows : (n,) int64, distinct places.
    """

    left: np.ndarray
    places: np.ndarray
    rows: np.ndarray


class Reservoir:
    """At most `size` items. `slots` (size,) int64 with -1 for a free place; `X` (size, d); `labels`, None without."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots = np.full(size, -1, np.int64)
        self.X: np.ndarray | None = None
        self.labels: list[Any] = [None] * size

    def __len__(self) -> int:
        return int((self.slots >= 0).sum())

    def plan(self, removed: np.ndarray, first_slot: int, n: int) -> Seats:
        """What happens when slots die and a batch of n rows takes the slots from `first_slot` on."""
        left = np.flatnonzero(np.isin(self.slots, removed)) if len(removed) else np.empty(0, np.int64)
        if not self.size or not n:
            return Seats(left, np.empty(0, np.int64), np.empty(0, np.int64))
        slots = self.slots.copy()
        slots[left] = -1
        # Those who sit and those who come, by key; a free place has none, so whoever comes may take one.
        seated = np.flatnonzero(slots >= 0)
        new = first_slot + np.arange(n)
        keys = np.concatenate([mixed(slots[seated].astype(np.uint64)), mixed(new.astype(np.uint64))])
        stay = np.argsort(keys, kind="stable")[: self.size]
        rows = np.sort(stay[stay >= len(seated)] - len(seated))
        leaving = np.setdiff1d(np.arange(len(seated)), stay, assume_unique=True)
        free = np.concatenate([seated[leaving], np.flatnonzero(slots < 0)])
        return Seats(left, np.sort(free[: len(rows)]), rows)

    def take(self, seats: Seats, first_slot: int, X: np.ndarray | None, y: np.ndarray | None) -> None:
        """Carry a plan out; X (n, d) and y are the batch."""
        if not len(seats.places) and not len(seats.left):
            return
        # New objects, since who looks at the old ones must go on seeing them.
        slots, labels = self.slots.copy(), list(self.labels)
        for place in seats.left.tolist():
            slots[place], labels[place] = -1, None
        if X is None or not len(seats.places):
            self.slots, self.labels = slots, labels
            return
        kept = np.zeros((self.size, X.shape[1]), X.dtype) if self.X is None else self.X.copy()
        kept[seats.places] = X[seats.rows]
        slots[seats.places] = first_slot + seats.rows
        for place, row in zip(seats.places.tolist(), seats.rows.tolist(), strict=True):
            labels[place] = None if y is None else y[row]
        self.X, self.slots, self.labels = kept, slots, labels

    def sample(self) -> tuple[np.ndarray, np.ndarray, list[Any]]:
        """Slots (m,) int64, features (m, d) and labels of the places that are taken, in the order of places."""
        slots, X, labels = self.slots, self.X, self.labels
        taken = np.flatnonzero(slots >= 0)
        if X is None:
            return slots[taken], np.empty((0, 0)), []
        return slots[taken], X[taken], [labels[place] for place in taken.tolist()]

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
        return self.slots.nbytes + (0 if self.X is None else self.X.nbytes) + 8 * self.size
