"""The items of a view that a filter keeps, in the form that a search is fastest with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hashstream import hamming
from hashstream.table.state.view import Part, View, in_order, kept

__all__ = ["Matching"]

SHARE = 16  # one item in so many: where at most these match, their codes are copied and searched alone


@dataclass(frozen=True, eq=False)
class Matching:
    """The items of one view that a filter keeps. Worth keeping for as long as the view: a search with the same filter
    then costs the search alone.

    mask : (n_slots,) bool by slot, C-contiguous and not written to any more. Slots of removed items may be marked;
    slots beyond the mask are not kept.
    """

    view: View
    mask: np.ndarray

    @kept
    def few(self) -> View | None:
        """A view of copies of the matching items, where they are few, or of nothing; None where they are not few."""
        view = self.view
        most = len(view) // SHARE
        # Marks of removed items do not count. If there are so many marks that enough of them have to be of others,
        # nobody looks which.
        removed = max(view.n_slots, len(self.mask), len(view)) - len(view)
        slots = hamming.marked(self.mask, most + removed)
        if slots is None:
            return None
        found = [(part, *found_in(part, slots)) for part in view.parts]
        if sum(len(rows) for _, rows, _ in found) > most:
            return None
        parts = (
            Part(part.version, part.codes.take(rows, axis=0), own, 0, len(rows))
            for part, rows, own in found
            if len(rows)
        )
        return replace(view, parts=tuple(parts))

    @kept
    def count(self) -> int:
        """Matching items alive."""
        if self.few is not None:
            return len(self.few)
        count = 0
        for part in self.view.parts:
            marks, dead = self._marks(part), part.arrays()[2]
            count += int(np.count_nonzero(marks)) - int(np.count_nonzero(marks[dead[dead < len(marks)]]))
        return count

    def slots(self) -> np.ndarray:
        """The slots of the matching items alive, ascending, uint32."""
        if self.few is not None:
            return self.few.live()
        return in_order([part.arrays()[1][self.rows(part)] for part in self.view.parts])

    def rows(self, part: Part) -> np.ndarray:
        """The rows of `part.arrays()` that match and are not dead, ascending, int64."""
        rows, dead = np.flatnonzero(self._marks(part)), part.arrays()[2]
        return np.setdiff1d(rows, dead, assume_unique=True) if len(dead) else rows

    def keeps(self, slots: np.ndarray) -> np.ndarray:
        """Which of some slots (n,) are marked: (n,) bool."""
        marked: np.ndarray = slots < len(self.mask)
        marked[marked] = self.mask[slots[marked]]
        return marked

    def _marks(self, part: Part) -> np.ndarray:
        """Which rows of `part.arrays()` are marked, dead ones too: (m,) bool; rows from m on are not."""
        slots = part.arrays()[1]
        if has_every_slot(part):
            return self.mask[slots[0] : int(slots[-1]) + 1]
        marks: np.ndarray = self.mask[slots[: np.searchsorted(slots, len(self.mask))]]
        return marks


def has_every_slot(part: Part) -> bool:
    """Whether there is no gap in the slots of a part: row and slot then differ by the same number everywhere."""
    return int(part.slots[part.stop - 1]) - int(part.slots[part.start]) == part.stop - part.start - 1


def found_in(part: Part, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of the slots (ascending, uint32) that are alive in a part: their buffer rows, and themselves."""
    first, last = part.slots[part.start], part.slots[part.stop - 1]
    slots = slots[np.searchsorted(slots, first) : np.searchsorted(slots, last, side="right")]
    if not has_every_slot(part):
        there, rows = part.find(slots)
        return rows, slots[there]
    rows = slots.astype(np.int64)
    rows += part.start - int(first)
    if not len(part.dead):
        return rows, slots
    alive = ~np.isin(rows, part.dead)
    return rows[alive], slots[alive]
