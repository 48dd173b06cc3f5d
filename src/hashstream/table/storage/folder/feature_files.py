"""The features of a table in a folder: the files that hold them, what of them is synced, and what was verified."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from hashstream.table.errors import OutcomeUnknown, SegmentMissing, TableError
from hashstream.table.storage.folder.checks import VerifiedBatches
from hashstream.table.storage.folder.records import BatchRow, Head, SegmentRow, Shape, checked, same_checksum
from hashstream.table.storage.folder.segments import FileSegments

__all__ = ["FeatureFiles"]

SMALL_BATCH = 1 << 20  # bytes of features that may go into the database too and are not synced at once, ...
UNSYNCED_BYTES = 16 << 20  # ... and of all those, before their file is synced
TWICE = 3e-9  # seconds per byte in the database: where a sync takes longer, it is put off
FIRST_SYNC, FADING = 1e-3, 0.9  # seconds that a sync is assumed to take at first; how that is forgotten

Stored = Callable[[int], list[BatchRow]]
"""The batches of the database that begin below a slot, with their checksums; asked when they are first needed. It is no
attribute: a storage that refers to itself keeps its lock until the garbage collector comes by."""


class FeatureFiles:
    """Features by slot, in files of a folder.

    sync : whether commits are synced. half_written : whether there may be rows that are neither committed nor undone.
    unsynced : bytes of features that are in the database too.
    """

    def __init__(
        self,
        folder: Path,
        table: bytes,
        *,
        write: bool,
        sync: bool,
        segment_bytes: int,
    ) -> None:
        self.segments: FileSegments | None = None
        self.half_written = False
        self.unsynced = 0
        self._folder, self._table, self._write, self._sync = folder, table, write, sync
        self._segment_bytes = segment_bytes
        self.replaced: FileSegments | None = None  # by `replace`, and not deleted yet
        self._opened = 0  # slots that were there when the files were opened
        self._verified: VerifiedBatches | None = None
        self._syncs = deque([FIRST_SYNC], 4)  # seconds that features took which were synced at once

    # ---- opening

    def open(
        self, head: Head, rows: list[SegmentRow], again: list[tuple[int, bytes]], *, extend: bool
    ) -> None:
        """Open the files that the database names, or, for a reader, go on to what was committed since.

        again : (first slot, bytes) of rows that may not have reached the disk. extend : the files are the same.
        """
        if head.shape is None or not (rows or head.n_slots):
            self.segments = None
            if self._write and not rows:
                self.delete_others()
            return
        numbers, first_slots = [row.number for row in rows], [row.first_slot for row in rows]
        ends = [*first_slots[1:], head.n_slots]
        whole = rows and numbers == list(range(numbers[0], numbers[0] + len(numbers))) and not first_slots[0]
        if not whole or any(first >= end for first, end in zip(first_slots, ends, strict=True)):
            raise ValueError("it does not name all files of features")
        if self.segments is not None and extend:
            self.segments.extend_to(first_slots, head.n_slots)
            self._opened = (
                head.n_slots
            )  # what others have added is verified when it is read; the rest may be already
            return
        if self._write:
            self.unsynced = sum(len(raw) for _, raw in again)
            self.segments = self._files(head.shape, numbers[0], first_slots, head.n_slots, again)
        else:
            self.segments = self._complete(head, numbers[0], first_slots, again)
        self._verified, self._opened = None, head.n_slots  # what others have added is not verified yet

    def _complete(
        self, head: Head, number: int, first_slots: list[int], again: list[tuple[int, bytes]]
    ) -> FileSegments:
        """For a reader, which cannot write rows again: files in which none are missing."""
        assert head.shape is not None
        try:
            segments = self._files(head.shape, number, first_slots, head.n_slots)
            for first, raw in again:
                crc = segments.checksum(first, first + len(raw) // segments.stride)
                checked(f"{segments.path_of(first)} (features from slot {first})", crc, raw)
        except TableError as error:
            if isinstance(error, SegmentMissing) or not again:
                raise
            hint = 'The database may have what is missing: open with mode="write"'
            raise TableError(f"{error} {hint}") from error
        return segments

    def _files(
        self,
        shape: Shape,
        number: int,
        first_slots: Iterable[int] = (),
        n_rows: int = 0,
        again: Iterable[tuple[int, bytes]] = (),
        *,
        tidy: bool = True,
    ) -> FileSegments:
        return FileSegments(
            self._folder, self._table, shape.d, np.dtype(shape.dtype), list(first_slots), n_rows,
            first_number=number, again=again, tidy=self._write and tidy, exclusive=not tidy,
            segment_bytes=self._segment_bytes,
        )  # fmt: skip

    # ---- writing

    def syncs_later(self, size: int) -> bool:
        """Whether so many bytes of features are stored in the database too, and synced with others later."""
        if size > SMALL_BATCH or self.unsynced + size > UNSYNCED_BYTES:
            return False
        return not self._sync or min(self._syncs) > size * TWICE

    def append(self, X: np.ndarray, head: Head, first_slot: int, *, sync: bool) -> SegmentRow | None:
        """Write rows; the file that they begin, None where they begin none. sync : whether `sync` follows."""
        self.half_written = True
        if self.segments is None:
            assert head.shape is not None
            # Never a number that there was: a reader may have that file open.
            self.segments = self._files(head.shape, head.next_segment)
        self.segments.append(X, sync=False, soon=sync)
        if not sync:
            self._syncs.append(self._syncs[0] * FADING)
        last = self.segments.last_row
        return last if last.first_slot == first_slot else None

    def sync(self) -> None:
        """Make the rows durable that were appended, and remember how long that takes."""
        assert self.segments is not None
        clock = time.perf_counter()
        self.segments.sync_rows()
        self._syncs.append(time.perf_counter() - clock)

    def undo(self, *, cut: bool) -> None:
        """Forget rows that were appended. cut : whether files may be cut, since no other process can have written."""
        if self.segments is not None:
            self.segments.undo(cut=cut)
            if not self.segments.n_rows:
                self.segments = None
        self.half_written = False  # last: an interrupt before this leaves it half-written

    def committed(self, size: int, *, later: bool) -> None:
        """The rows that were appended, `size` bytes, are committed."""
        if self.segments is not None:
            self.segments.settle()
        self.half_written = False
        self.unsynced = self.unsynced + size if later else 0

    def refuse_if_broken(self) -> None:
        if self.segments is not None and self.segments.broken:
            raise OutcomeUnknown(
                f"a sync of {self.segments.paths[-1]} has failed, so it is unknown what is on the disk: close and "
                "reopen the table"
            )

    # ---- compaction

    def delete_others(self) -> None:
        """Delete files that the database does not name, as an interrupted compaction leaves them."""
        known = set(self.segments.paths) if self.segments is not None else set()
        for path in self._folder.glob("features-*.seg"):
            if path not in known:
                path.unlink(missing_ok=True)

    def begin(self, shape: Shape, number: int) -> FileSegments:
        """New, empty files, which are in use once they are handed to `replace`."""
        return self._files(shape, number, tidy=False)

    def replace(self, new: FileSegments | None) -> None:
        """Go on with other files; the old ones are deleted by `delete_replaced`."""
        if new is not None:
            new.exclusive = False  # from now on, rows are appended in transactions
        self.replaced, self.segments = self.segments, new
        self._verified, self._opened, self.unsynced = None, 0, 0

    def delete_replaced(self) -> None:
        if self.replaced is not None:
            self.replaced.delete()
            self.replaced = None

    # ---- reading

    def take(self, slots: np.ndarray, stored: Stored) -> np.ndarray:
        """The features of slots in any order, copied: (n, d). stored : see `Stored`."""
        segments = self.segments
        if segments is None:
            return np.empty((len(slots), 0), np.float32)
        self._verify(segments, slots, stored)
        return segments.take(slots)

    def blocks(self, first: int, last: int, stored: Stored) -> Iterator[tuple[int, np.ndarray]]:
        """The features of slots first to last in blocks, each until the next is asked for."""
        segments = self.segments
        if segments is not None:
            self._verify(segments, np.array([first, last - 1]), stored, between=True)
            yield from segments.blocks(first, last)

    def _verify(
        self, segments: FileSegments, slots: np.ndarray, stored: Stored, *, between: bool = False
    ) -> None:
        """Compare the batches that hold the slots with their checksums, each once."""
        verified, opened = (
            self._verified,
            self._opened,
        )  # another thread may change them meanwhile, as `open` does
        if verified is None or verified.end < opened:
            rows = [(row.first_slot, row.n_rows, row.features_crc) for row in stored(opened)]
            self._verified = verified = VerifiedBatches(rows, verified)
        verified.verify(segments, slots, between=between)

    def verify_all(self, batches: Iterable[BatchRow]) -> tuple[int, int]:
        """Compare the features of batches with their checksums: how many batches and rows, up to the first gap."""
        n_batches = n_rows = 0
        for row in batches:
            if row.first_slot != n_rows:
                break
            if self.segments is not None:
                where = f"{self.segments.path_of(n_rows)} (slots {n_rows} to {row.end - 1})"
                same_checksum(where, row.features_crc, self.segments.checksum(n_rows, row.end))
            n_batches, n_rows = n_batches + 1, row.end
        return n_batches, n_rows
