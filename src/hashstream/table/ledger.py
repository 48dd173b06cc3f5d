"""Which stored features have been compared with their checksums: each batch once, when it is first read."""

from __future__ import annotations

import numpy as np

from hashstream.table.file_segments import FileSegments
from hashstream.table.packing import same_checksum

__all__ = ["Ledger"]


class Ledger:
    """The batches that were there when a folder was opened. What this process wrote itself it need not verify."""

    def __init__(self, batches: list[tuple[int, int, int]]) -> None:
        """batches : (first slot, rows, checksum) of each, by slot."""
        columns = np.array(batches, np.int64).reshape(-1, 3).T
        self._firsts, self._ends, self._crcs = columns[0], columns[0] + columns[1], columns[2]
        self._done = np.zeros(len(batches), bool)

    def verify(self, segments: FileSegments, slots: np.ndarray, *, between: bool = False) -> int:
        """Compare the features of the batches that hold the slots (or those `between` the first and the last) with
        their checksums. Returns how many were read; a TableError names what is damaged."""
        firsts, ends = self._firsts, self._ends
        if not len(firsts) or not len(slots):
            return 0
        at = np.unique(np.searchsorted(firsts, slots[slots < ends[-1]], side="right") - 1)
        if between and len(at):
            at = np.arange(at[0], (at[-1] if slots[-1] < ends[-1] else len(firsts) - 1) + 1)
        at = at[~self._done[at]]
        for i in at.tolist():
            first, end = int(firsts[i]), int(ends[i])
            where = f"{segments.path_of(first)} (slots {first} to {end - 1})"
            same_checksum(where, int(self._crcs[i]), segments.checksum(first, end))
            self._done[i] = True
        return len(at)
