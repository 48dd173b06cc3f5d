"""From id to slot: the index of the items that are alive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hashstream.table.state.ids import MAX_SLOTS, Column, IntColumn
from hashstream.table.state.ids_kernel import KERNEL, kernel_find, kernel_insert

__all__ = ["Entries", "Index"]

EMPTY = np.uint32(0xFFFFFFFF)
GONE = np.uint32(MAX_SLOTS)
FULLEST = 0.7  # share of cells that may be taken
EMPTIEST = 0.55  # share that is taken after the cells were laid out again


@dataclass(frozen=True, eq=False)
class Entries:
    """One change of an index: cells that become free, then slots (n,) int64 with the hashes of their ids."""

    freed: np.ndarray
    hashes: np.ndarray
    slots: np.ndarray


class Index:
    """Id -> slot of the items that are alive: an open-addressing table of 4-byte cells over a column.

    It holds no ids of its own: a cell is a slot, and the column says whose it is. It is the one part of a state that
    is written into, by one thread and while nobody looks up: whoever owns it sees to that.
    """

    def __init__(self, column: Column, live: np.ndarray) -> None:
        """`live` : the slots that are alive, ascending, of any integer dtype."""
        self._cells = np.full(64 + int(len(live) / EMPTIEST), EMPTY, np.uint32)
        self._taken = 0
        step = 1 << 14  # what is needed for a while stays with the process
        for start in range(0, len(live), step):
            slots = np.asarray(live[start : start + step], np.int64)
            low, high = (int(slots[0]), int(slots[-1]) + 1) if len(slots) else (0, 0)
            if high - low == len(slots):
                hashes = column.hashes(low, high)
            else:
                hashes = column.hash_of(column.take(slots))
            self._insert(hashes, slots)

    @property
    def nbytes(self) -> int:
        return self._cells.nbytes

    def find(self, column: Column, ids: np.ndarray) -> np.ndarray:
        """The slots of ids, int64, -1 where an id is not stored."""
        return self._find(column, ids)[0]

    def _find(self, column: Column, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if KERNEL and isinstance(column, IntColumn):
            return kernel_find(self._cells, column.hash_of(ids), ids, column.arrays()["ids"])
        at = self._home(column.hash_of(ids))
        found = np.full(len(ids), -1, np.int64)
        where = np.full(len(ids), -1, np.int64)
        open_ = np.arange(len(ids))
        while len(open_):
            cells = self._cells[at[open_]]
            held = cells < GONE
            slots = cells[held].astype(np.int64)
            mine = open_[held]
            same = column.take(slots) == ids[mine]
            found[mine[same]], where[mine[same]] = slots[same], at[mine[same]]
            open_ = open_[(cells != EMPTY) & (found[open_] < 0)]
            at[open_] = (at[open_] + 1) % len(self._cells)
        return found, where

    def _home(self, hashes: np.ndarray) -> np.ndarray:
        """The cell where the search for a hash begins: its upper half, scaled to the number of cells."""
        return ((hashes >> np.uint64(32)) * np.uint64(len(self._cells)) >> np.uint64(32)).astype(np.int64)

    def entries(self, column: Column, gone: np.ndarray, ids: np.ndarray, first_slot: int) -> Entries:
        """The entries for `enter` that take out the ids in `gone` and add `ids` at the slots from `first_slot` on."""
        cells = self._find(column, gone)[1] if len(gone) else np.empty(0, np.int64)
        slots = first_slot + np.arange(len(ids), dtype=np.int64)
        return Entries(cells[cells >= 0], column.hashes(first_slot, first_slot + len(ids)), slots)

    def enter(self, entries: Entries) -> None:
        """Change the index; there must be room."""
        self._cells[entries.freed] = GONE
        self._insert(entries.hashes, entries.slots)

    def crowded(self, more: int) -> bool:
        """Whether `more` ids need the cells to be laid out again."""
        return self._taken + more > FULLEST * len(self._cells)

    def _insert(self, hashes: np.ndarray, slots: np.ndarray) -> None:
        """Enter slots whose ids are not there. All try at once; where two want one cell, the loser goes on."""
        self._taken += len(slots)
        if KERNEL:
            kernel_insert(self._cells, hashes, slots)
            return
        at = self._home(hashes)
        cells = slots.astype(np.uint32)
        open_ = np.arange(len(slots))
        while len(open_):
            here = at[open_]
            free = self._cells[here] == EMPTY
            self._cells[here[free]] = cells[open_[free]]
            open_ = open_[self._cells[here] != cells[open_]]
            at[open_] = (at[open_] + 1) % len(self._cells)
