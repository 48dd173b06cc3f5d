"""The codes of the items that are alive, grouped by version, as views that never change.

A `View` is all that a search needs. The writer derives the next one from the last and puts it in its place by one
assignment, so a reader sees one state and never waits. Views share what did not change; buffers grow at the end only,
after the rows that earlier views look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from hashstream import hamming
from hashstream.hashers import Encoder
from hashstream.hashers.encoder import Product
from hashstream.table.state.change import Change, no_fields
from hashstream.table.state.columns import OWN, PAYLOAD, SEQUENCE, FieldColumn, field_column
from hashstream.table.state.ids import Column, column_of, grown, kind_of
from hashstream.table.state.labels import LabelColumn
from hashstream.table.state.lookup import Covering, Lookup
from hashstream.table.state.number_columns import IntColumn

__all__ = ["Part", "View", "in_order", "locate", "merged"]

MANY = 4096  # slots, from where on a mask over all slots is faster than looking for each
FEW_DEAD = 1024  # rows of a part that may be dead before it is copied without them, and ...
DEAD_SHARE = 256  # ... one in this many, where that is more
MAX_PARTS = 4  # of one version
BLOCK = 1 << 16  # ids that are copied at once

T = TypeVar("T")

NOTHING = np.empty(0, np.int64)
NO_SLOTS = np.empty(0, np.uint32)


class kept(Generic[T]):
    """A property that is computed once: `functools.cached_property` without its lock, which a thread may hold while
    the process is forked. Two threads may compute it at once; both get the same."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> T:
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


@dataclass(frozen=True, eq=False)
class Part:
    """Codes of one version in the order of their slots: rows `start` to `stop` of two buffers, except the dead ones.

    codes : (capacity, width) uint8. slots : (capacity,) uint32, ascending.
    dead : ascending rows of the buffers between start and stop, int64; always few (`FEW_DEAD`).
    lookup : the multi-index of rows of the buffers, which may come later.
    """

    version: int
    codes: np.ndarray
    slots: np.ndarray
    start: int
    stop: int
    dead: np.ndarray = field(default_factory=lambda: NOTHING)
    lookup: Lookup = field(default_factory=Lookup)

    def __len__(self) -> int:
        """Items alive."""
        return int(self.stop - self.start - len(self.dead))

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes and slots of the items alive; views of the buffers where nothing is dead."""
        codes, slots = self.codes[self.start : self.stop], self.slots[self.start : self.stop]
        if len(self.dead):
            gone = self.dead - self.start
            codes, slots = np.delete(codes, gone, axis=0), np.delete(slots, gone)
        return codes, slots

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes and slots of all items, dead ones among them, and the rows of the dead in these; no copies."""
        start, stop = self.start, self.stop
        dead = self.dead if not start or not len(self.dead) else self.dead - start
        return self.codes[start:stop], self.slots[start:stop], dead

    def find(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the slots are alive here, (n,) bool, and the buffer rows of those."""
        held = self.slots[self.start : self.stop]
        at = np.searchsorted(held, slots.astype(np.uint32, copy=False))
        there = at < len(held)
        there[there] = held[at[there]] == slots[there]
        rows = at[there] + self.start
        if len(self.dead) and len(rows):
            alive = ~np.isin(rows, self.dead)
            there[there] = alive
            rows = rows[alive]
        return there, rows

    def rows_in(self, mask: np.ndarray) -> np.ndarray:
        """The live buffer rows whose slots are marked in `mask`, (n_slots,) bool; slots beyond it are not."""
        held = self.slots[self.start : self.stop]
        rows = np.flatnonzero(mask[held[: np.searchsorted(held, len(mask))]]) + self.start
        return np.setdiff1d(rows, self.dead, assume_unique=True) if len(self.dead) else rows

    def rows_between(self, first: np.uint32, last: np.uint32) -> np.ndarray:
        """The live buffer rows of the slots from first to last."""
        held = self.slots[self.start : self.stop]
        low, high = np.searchsorted(held, first), np.searchsorted(held, last, side="right")
        rows = np.arange(low, high) + self.start
        return np.setdiff1d(rows, self.dead, assume_unique=True) if len(self.dead) else rows

    def without(self, rows: np.ndarray) -> Part | None:
        """The part after some of its live rows (of the buffers, ascending) have died; None where none is left."""
        if len(rows) == len(self):
            return None
        first = len(rows) and rows[0] == self.start and not len(self.dead)
        if first and rows[-1] - rows[0] + 1 == len(rows):
            return replace(self, start=self.start + len(rows))
        dead = np.union1d(self.dead, rows)
        part = replace(self, dead=dead)
        if len(dead) > max(FEW_DEAD, (self.stop - self.start) // DEAD_SHARE):
            codes, slots = part.rows()
            return Part(self.version, codes, slots, 0, len(slots))
        return part

    def extended(self, slots: np.ndarray, codes: np.ndarray) -> Part:
        """The part with more items at its end, whose slots are larger than all of its own."""
        return replace(
            self,
            codes=grown(self.codes, self.stop, codes),
            slots=grown(self.slots, self.stop, slots),
            stop=self.stop + len(slots),
        )

    def divided(self) -> tuple[Covered | None, Part | None]:
        """The rows that a multi-index covers, and those that have to be scanned; either may be None."""
        covering = self.lookup.covering
        if covering is None or not covering.first <= self.start < covering.last <= self.stop:
            return None, self  # it may be of a later view, with other items
        if covering.last == self.stop:
            return Covered(self, covering), None
        dead = self.dead[np.searchsorted(self.dead, covering.last) :]
        return Covered(self, covering), replace(self, start=covering.last, dead=dead)

    @property
    def nbytes(self) -> int:
        return int((self.stop - self.start) * (self.codes.shape[1] + 4) + self.dead.nbytes)


@dataclass(frozen=True, eq=False)
class Covered:
    """Rows of a part that a multi-index covers."""

    part: Part
    covering: Covering

    def __len__(self) -> int:
        """Items alive."""
        last = self.covering.last
        return int(last - self.part.start - np.searchsorted(self.part.dead, last))

    def index(self) -> hamming.MultiIndex:
        """The multi-index, told where the codes are: a buffer is copied when it grows."""
        covering, codes = self.covering, self.part.codes
        if covering.buffer is not codes:
            covering.index.codes = codes[covering.first : covering.last]
            covering.buffer = codes
        return covering.index

    def among(self, mask: np.ndarray | None) -> hamming.Among:
        """The rows that may be found. mask : by slot."""
        part, first, last = self.part, self.covering.first, self.covering.last
        dead = self.covering.dead(part.dead)
        return hamming.Among(mask, part.slots[first:last], dead, max(0, part.start - first))


@dataclass(frozen=True, eq=False)
class View:
    """One consistent state of a table.

    parts : every live item is in exactly one. column : the ids by slot; None before the first item.
    encoders : version -> the hash functions, for every version alive and the newest.
    newest : the version that new items get; -1 before anything was learned.
    labels, fields : by slot, for all slots.
    """

    width: int
    parts: tuple[Part, ...] = ()
    column: Column | None = None
    encoders: Mapping[int, Encoder] = field(default_factory=lambda: MappingProxyType({}))
    newest: int = -1
    labels: LabelColumn = field(default_factory=LabelColumn)
    fields: Mapping[str, FieldColumn] = field(default_factory=no_fields)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def n_slots(self) -> int:
        return 0 if self.column is None else len(self.column)

    def counts(self) -> dict[int, int]:
        """Version -> items alive, oldest first."""
        found: dict[int, int] = {}
        for part in self.parts:
            found[part.version] = found.get(part.version, 0) + len(part)
        return dict(sorted(found.items()))

    def live(self) -> np.ndarray:
        """The slots of all items alive, ascending, uint32."""
        return in_order([part.rows()[1] for part in self.parts])

    def ids(self, slots: np.ndarray) -> np.ndarray:
        """The ids of slots of any shape: int64, or object holding str."""
        return np.empty(slots.shape, np.int64) if self.column is None else self.column.take(slots)

    @kept
    def user_fields(self) -> Mapping[str, FieldColumn]:
        """The fields that users have declared."""
        return {name: values for name, values in self.fields.items() if name not in OWN}

    def has_payload(self, slots: np.ndarray) -> np.ndarray:
        """Which slots (n,) have a payload, bool."""
        column = self.fields.get(PAYLOAD)
        if column is None:
            return np.zeros(len(slots), bool)
        return np.array([one is True for one in column.take(slots)], bool)

    def sequences(self, slots: np.ndarray) -> np.ndarray:
        """The sequence numbers of slots of any shape, int64; -1 for none."""
        column = self.fields.get(SEQUENCE)
        return column.counts(slots) if isinstance(column, IntColumn) else np.full(slots.shape, -1, np.int64)

    @kept
    def versions(self) -> tuple[int, ...]:
        """Those of the items alive, oldest first."""
        return tuple(sorted({part.version for part in self.parts}))

    @kept
    def searchable(self) -> hamming.Parts:
        """The codes, each compared with the queries of its version, in the order of `versions`; not without parts."""
        return hamming.Parts([(self.versions.index(part.version), *part.arrays()) for part in self.parts])

    @kept
    def products(self) -> list[Product] | None:
        """The products of `versions`, where bits are signs of products and nothing else."""
        found = [self.encoders[version].product for version in self.versions]
        products = [product for product in found if product is not None]
        return products if len(products) == len(found) else None

    def after(self, change: Change) -> View:
        """The view after a change, with the same encoders."""
        gone = in_order([change.removed, *(piece.slots for piece in change.recoded)])
        parts = dropped(self.parts, gone) if len(gone) else self.parts
        column, added, labels, fields = self.column, change.added, self.labels, dict(self.fields)
        for name, kind in change.declared.items():
            fields[name] = field_column(kind).padded(self.n_slots)
        for piece in change.recoded:
            parts = joined(parts, piece.version, piece.slots, piece.codes)
        if change.relabelled is not None:
            labels = labels.replaced(change.relabelled.slots, change.relabelled.labels)
        if added is not None:
            column = (column or column_of(kind_of(added.ids))).extended(added.ids)
            slots = np.arange(added.first_slot, added.first_slot + len(added.codes), dtype=np.uint32)
            parts = joined(parts, added.version, slots, added.codes)
            labels = labels.extended(added.labels)
            for name, values in fields.items():
                given = added.fields.get(name)
                fields[name] = values.padded(len(column)) if given is None else values.extended(given)
        return replace(self, parts=parts, column=column, labels=labels, fields=MappingProxyType(fields))

    def without(self, slots: np.ndarray) -> View:
        """The view without the items at these slots (ascending)."""
        return replace(self, parts=dropped(self.parts, slots)) if len(slots) else self

    def with_encoders(self, known: Mapping[int, Encoder], newest: int) -> View:
        """The view with those of the encoders whose versions are alive, and the newest."""
        alive = {part.version for part in self.parts} | {newest}
        encoders = {version: known[version] for version in sorted(alive) if version in known}
        return replace(self, encoders=MappingProxyType(encoders), newest=newest)

    def renumbered(self) -> View:
        """The view with slots 0, 1, 2, ... for the items alive, in the order that they had."""
        assert self.column is not None
        live = self.live().astype(np.int64)
        column = column_of(self.column.kind)
        for start in range(0, len(live), BLOCK):
            column = column.extended(self.column.take(live[start : start + BLOCK]))
        parts = []
        for part in self.parts:
            codes, slots = part.rows()
            slots = np.searchsorted(live, slots).astype(np.uint32)
            parts.append(Part(part.version, codes, slots, 0, len(slots)))
        fields = {name: values.chosen(live) for name, values in self.fields.items()}
        return replace(
            self,
            parts=tuple(parts),
            column=column,
            labels=self.labels.chosen(live),
            fields=MappingProxyType(fields),
        )


def dropped(parts: Iterable[Part], slots: np.ndarray) -> tuple[Part, ...]:
    """The parts without the items at these slots (ascending, at least one)."""
    left = []
    mask = None
    whole = slots[-1] - slots[0] == len(slots) - 1  # every slot of a range
    if len(slots) > MANY and not whole:
        mask = np.zeros(int(slots[-1]) + 1, bool)
        mask[slots] = True
    for part in parts:
        if part.slots[part.stop - 1] < slots[0] or part.slots[part.start] > slots[-1]:
            left.append(part)
            continue
        if whole and part.slots[part.start] >= slots[0] and part.slots[part.stop - 1] <= slots[-1]:
            continue
        if whole:
            rows = part.rows_between(slots[0], slots[-1])
        else:
            rows = part.find(slots)[1] if mask is None else part.rows_in(mask)
        kept = part.without(rows) if len(rows) else part
        if kept is not None:
            left.append(kept)
    return tuple(left)


def joined(parts: tuple[Part, ...], version: int, slots: np.ndarray, codes: np.ndarray) -> tuple[Part, ...]:
    """The parts with more items of a version: at the end of one of its parts where that keeps the order of slots,
    merged with one that is not much larger, or else in a part of their own."""
    if not len(slots):
        return parts
    same = [part for part in parts if part.version == version]
    before = [part for part in same if part.slots[part.stop - 1] < slots[0]]
    new = Part(version, codes, slots, 0, len(slots))
    if before:
        old = max(before, key=lambda part: int(part.slots[part.stop - 1]))
        return tuple(part.extended(slots, codes) if part is old else part for part in parts)
    small = [part for part in same if len(part) <= 4 * len(slots)]
    gone = same if len(same) >= MAX_PARTS else small
    return (*(part for part in parts if part not in gone), merged(version, [*gone, new]))


def merged(version: int, parts: list[Part]) -> Part:
    """One part with the items of several of one version."""
    if len(parts) == 1:
        return parts[0]
    rows = sorted((part.rows() for part in parts), key=lambda pair: int(pair[1][0]))
    codes, slots = (np.concatenate([pair[i] for pair in rows]) for i in (0, 1))
    if any(before[1][-1] > after[1][0] for before, after in pairwise(rows)):
        order = np.argsort(slots, kind="stable")
        codes, slots = codes[order], slots[order]
    return Part(version, codes, slots, 0, len(slots))


def in_order(slots: list[np.ndarray]) -> np.ndarray:
    """Arrays of slots, each ascending and none in two, as one, uint32; the one itself where no other has any."""
    held = sorted((some for some in slots if len(some)), key=lambda some: int(some[0]))
    if len(held) == 1:
        return held[0]
    together = np.concatenate([NO_SLOTS, *held])
    if any(before[-1] > after[0] for before, after in pairwise(held)):
        together.sort()
    return together


def locate(parts: Iterable[Part], slots: np.ndarray) -> Iterator[tuple[Part, np.ndarray, np.ndarray]]:
    """For each part that holds any of the slots: the part, their positions among `slots`, and their buffer rows."""
    for part in parts:
        there, rows = part.find(slots)
        if len(rows):
            yield part, np.flatnonzero(there), rows
