"""Features in append-only segments: what segments in memory and in files share.

Rows are in the order of their slots, so the place of a row follows from its slot.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.table.errors import Closed

__all__ = ["Segment", "Segments"]

BLOCK_BYTES, BLOCK_ROWS = 1 << 20, 256  # of the rows read at once: so many bytes, and no fewer rows
NEAR_BYTES = 1 << 14  # rows no farther apart are read together


@dataclass
class Segment:
    """Consecutive rows in one file, or in one array."""

    first_slot: int
    rows: int  # committed ones and those that are being written
    path: Path | None = None
    array: np.ndarray | None = None  # in memory
    handle: Any = None  # of a file that is open for reading


class Segments(ABC):
    """Rows of features by slot. d : width of a row. dtype : float32 or float64."""

    def __init__(self, d: int, dtype: np.dtype) -> None:
        self.d, self.dtype = d, dtype
        self.stride = d * dtype.itemsize  # bytes per row
        self.n_rows = 0  # committed
        self._segments: list[Segment] = []
        self._pending = 0

    @abstractmethod
    def append(self, X: np.ndarray, *, sync: bool = True) -> None:
        """Write rows after the last one. They count once `settle` is called; `undo` forgets them.

        sync : whether they have to be on the disk when this returns; `sync_rows` does it later.
        """

    @abstractmethod
    def undo(self, *, cut: bool = True) -> None:
        """Forget the rows that were appended since the last `settle`. cut : whether files may be shortened."""

    @abstractmethod
    def _rows(self, segment: Segment, low: int, high: int, room: np.ndarray | None = None) -> np.ndarray:
        """Rows low to high of a segment, (high - low, d). room : (n, d), n at least high - low, to be used for them."""

    def settle(self) -> None:
        self.n_rows += self._pending
        self._pending = 0

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of slots first to last in blocks, none of which crosses a segment: (its first slot, (n, d)).

        A block may be overwritten when the next one is asked for.
        """
        step = max(BLOCK_ROWS, BLOCK_BYTES // self.stride)
        room = np.empty((min(step, max(0, last - first)), self.d), self.dtype)
        found = 0
        for segment in list(self._segments):
            low, high = max(first, segment.first_slot), min(last, segment.first_slot + segment.rows)
            for start in range(low, high, step):
                stop = min(start + step, high)
                at = segment.first_slot
                yield start, self._rows(segment, start - at, stop - at, room)
                found += stop - start
        self._all_found(last - first - found)

    def checksum(self, first: int, last: int) -> int:
        """Of the rows of slots first to last, as `zlib.crc32` gives it for all in one array."""
        crc = 0
        for _, X in self.blocks(first, last):
            crc = zlib.crc32(X.data.cast("B"), crc)
        return crc

    def take(self, slots: np.ndarray) -> np.ndarray:
        """The rows of slots in any order, copied: (n, d)."""
        out = np.empty((len(slots), self.d), self.dtype)
        found = 0
        for segment in list(self._segments):
            here = np.flatnonzero((slots >= segment.first_slot) & (slots < segment.first_slot + segment.rows))
            if len(here):
                self._take(segment, slots[here] - segment.first_slot, out, here)
                found += len(here)
        self._all_found(len(slots) - found)
        return out

    def _take(self, segment: Segment, rows: np.ndarray, out: np.ndarray, at: np.ndarray) -> None:
        """Copy rows of a segment to the places `at` of `out`; those that stand close together are read at once."""
        order = np.argsort(rows, kind="stable")
        rows, at = rows[order], at[order]
        near, most = max(1, NEAR_BYTES // self.stride), max(BLOCK_ROWS, BLOCK_BYTES // self.stride)
        places, lows = at.tolist(), rows.tolist()
        for first, last in _stretches(rows, near, most):
            low = lows[first]
            if last - first == 1:  # as nearly always where rows are far apart: straight to its place
                place = places[first]
                out[place] = self._rows(segment, low, low + 1, out[place : place + 1])[0]
                continue
            found = self._rows(segment, low, lows[last - 1] + 1)
            out[at[first:last]] = found[rows[first:last] - low]

    @staticmethod
    def _all_found(missing: int) -> None:
        if missing > 0:  # or what was in that memory before would be taken for them
            raise Closed(f"features of {missing} slots are not there: the table was closed meanwhile")

    @property
    def nbytes(self) -> int:
        return self.n_rows * self.stride

    def close(self) -> None:
        self._segments = []


def _stretches(rows: np.ndarray, near: int, most: int) -> Iterator[tuple[int, int]]:
    """Ascending rows in stretches, as positions from and to: none has a gap of more than `near` or is longer than
    `most`."""
    ends = np.flatnonzero(np.diff(rows) > near) + 1
    first = 0
    for end in (*ends.tolist(), len(rows)):
        while first < end:
            stop = end if end - first == 1 else min(end, int(np.searchsorted(rows, rows[first] + most)))
            yield first, stop
            first = stop
