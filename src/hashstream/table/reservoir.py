"""A small sample of the stored items with their features and labels, by which the table watches itself.

The key of an item is a hash of its id, and the sample is all items whose key is below a limit, which is lowered
whenever they would be more than there are places: a uniform sample of what the table holds, whatever comes, goes or is
replaced. It needs no random generator, so a table that was opened again goes on with the very same one. Only where
fewer than half of the places are taken, since most items were removed, whoever comes gets in: from then on, items
that came later are in the sample more often than their share.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.table.packing import label_at, pack_label, unpack_label

__all__ = ["Reservoir", "Seats"]

MAX_SIZE = 1_000_000
NOBODY = np.empty(0, np.int64)
NO_KEYS, NO_ROWS = np.empty(0, np.uint64), np.empty((0, 0))
FREE = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class Seats:
    """What a change does to a reservoir: `left` places become free, then items sit down at `places`.

    left : (m,) int64. places, slots : (n,) int64, distinct. keys : (n,) uint64. rows : (n, d), the features.
    labels : n of them, None without. limit : who has a smaller key gets in from now on.
    taken : how many places are taken afterwards.
    """

    left: np.ndarray
    places: np.ndarray
    slots: np.ndarray
    keys: np.ndarray
    rows: np.ndarray
    labels: list[Any]
    limit: np.uint64
    taken: int

    def arrays(self) -> dict[str, np.ndarray]:
        """As named arrays, for the log and the image."""
        out = {"seats.limit": np.array([self.limit])}
        if len(self.left):
            out["seats.left"] = self.left
        if len(self.places):
            text = json.dumps([None if label is None else pack_label(label) for label in self.labels])
            out["seats.places"], out["seats.slots"], out["seats.keys"] = self.places, self.slots, self.keys
            out["seats.rows"], out["seats.labels"] = self.rows, np.frombuffer(text.encode(), np.uint8)
        return out

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Seats:
        """What `arrays` was made of, but for `taken`."""
        left, limits = arrays.get("seats.left", NOBODY), arrays["seats.limit"]
        if limits.dtype != np.uint64 or limits.shape != (1,) or left.dtype != np.int64 or left.ndim != 1:
            raise ValueError("the sample's limit is not a number")
        limit = limits[0]
        if "seats.places" not in arrays:
            return cls(left, NOBODY, NOBODY, NO_KEYS, NO_ROWS, [], limit, 0)
        places, slots, keys, rows = (arrays[f"seats.{name}"] for name in ("places", "slots", "keys", "rows"))
        if (
            places.dtype != np.int64
            or slots.dtype != np.int64
            or keys.dtype != np.uint64
            or (places < 0).any()
        ):
            raise ValueError("the sample's places are not numbers")
        texts = json.loads(arrays["seats.labels"].tobytes())
        labels = [None if text is None else unpack_label(text) for text in texts]
        return cls(left, places, slots, keys, rows, labels, limit, 0)


class Reservoir:
    """At most `size` items. `slots` (size,) int64, -1 for a free place; `keys` (size,) uint64, FREE for a free place;
    `rows`, the features (d,) of each place; `labels`, None without."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots = np.full(size, -1, np.int64)
        self.keys = np.full(size, FREE, np.uint64)
        self.limit = FREE
        self.rows: list[np.ndarray | None] = [None] * size
        self.labels: list[Any] = [None] * size

    def __len__(self) -> int:
        return int((self.slots >= 0).sum())

    def plan(
        self,
        removed: np.ndarray,
        first_slot: int = 0,
        keys: np.ndarray = NO_KEYS,
        X: np.ndarray | None = None,
        y: np.ndarray | None = None,
    ) -> Seats:
        """What happens when slots die and a batch X (n, d), with labels y perhaps, takes the slots from `first_slot`
        on. keys : (n,) uint64, the hashes of its ids."""
        left = np.flatnonzero(np.isin(self.slots, removed)) if len(removed) else NOBODY
        sitting, limit = self.keys, self.limit
        if len(left):
            sitting = sitting.copy()
            sitting[left] = FREE
        n = int(np.count_nonzero(sitting != FREE))
        rows = np.flatnonzero(keys < limit) if self.size else NOBODY
        if n + len(rows) < self.size // 2:
            limit = FREE
            rows = np.flatnonzero(keys < limit)
        if X is None or not len(rows):
            return Seats(left, NOBODY, NOBODY, NO_KEYS, NO_ROWS, [], limit, n)
        places = np.flatnonzero(sitting == FREE)
        if n + len(rows) > self.size:
            limit = np.partition(np.concatenate([sitting, keys[rows]]), self.size)[self.size]
            rows = rows[keys[rows] < limit]
            places = np.flatnonzero(sitting >= limit)
            left = np.union1d(
                left, places[len(rows) :]
            )  # those who have the same key as one for whom there is no place
            n = self.size - len(places)
        places = places[: len(rows)]
        labels = [label_at(y, row) for row in rows.tolist()]
        n += len(rows)
        return Seats(left, places, first_slot + rows, keys[rows], X[rows], labels, limit, n)

    def taken(self, seats: Seats) -> Reservoir:
        """The reservoir after a plan. This one stays as it is for who looks at it."""
        if not len(seats.places) and not len(seats.left) and seats.limit == self.limit:
            return self
        slots, keys, rows, labels = self.slots.copy(), self.keys.copy(), list(self.rows), list(self.labels)
        for place in seats.left.tolist():
            slots[place], keys[place], rows[place], labels[place] = -1, FREE, None, None
        slots[seats.places], keys[seats.places] = seats.slots, seats.keys
        for place, row, label in zip(seats.places.tolist(), seats.rows, seats.labels, strict=True):
            rows[place], labels[place] = row.copy(), label  # not a view, which would keep all others
        after = copy.copy(self)
        after.slots, after.keys, after.rows, after.labels = slots, keys, rows, labels
        after.limit = seats.limit
        return after

    def seats(self) -> Seats:
        """What makes this reservoir of an empty one."""
        places = np.flatnonzero(self.slots >= 0)
        chosen = [row for place in places.tolist() if (row := self.rows[place]) is not None]
        rows = np.stack(chosen) if chosen else NO_ROWS
        labels = [self.labels[place] for place in places.tolist()]
        return Seats(
            NOBODY, places, self.slots[places], self.keys[places], rows, labels, self.limit, len(places)
        )

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
