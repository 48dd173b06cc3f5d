"""Features in append-only segments: raw rows behind a short header, memory-mapped for reading.

Rows stand in the order of their slots, so the place of a row follows from its slot. What lies beyond the rows that
the manifest knows was never committed: it is cut off when the folder is next opened for writing, and never read.
"""

from __future__ import annotations

import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from hashstream.table.errors import SegmentMissing, TableError, not_opened
from hashstream.table.failpoints import reach
from hashstream.table.packing import checksum

__all__ = ["FileSegments", "MemorySegments", "Segments", "sync_folder"]

MAGIC = b"HSTRFEAT"
FORMAT = 1
HEADER = struct.Struct(
    "<8sII16s4sIQ"
)  # magic, format, header size, table, dtype, d, first slot; then a CRC-32
START = 4096  # of the rows: mapped pages begin there
MEMORY_ROWS_BYTES = 64 << 20


@dataclass
class _Segment:
    first_slot: int
    rows: int  # committed ones and those that are being written
    path: Path | None = None
    array: np.ndarray | None = None  # mapped, or in memory


class Segments(ABC):
    """What segments on disk and in memory share. d : width of a row. dtype : float32 or float64."""

    def __init__(self, d: int, dtype: np.dtype) -> None:
        self.d, self.dtype = d, dtype
        self.n_rows = 0  # committed
        self._segments: list[_Segment] = []
        self._pending = 0

    @property
    def stride(self) -> int:
        return self.d * self.dtype.itemsize

    @abstractmethod
    def append(self, X: np.ndarray, *, sync: bool = True) -> None:
        """Write rows behind the last one. They count once `settle` is called; `undo` forgets them.

        sync : whether they have to be on the disk when this returns; `sync_rows` does it later.
        """

    @abstractmethod
    def undo(self) -> None:
        """Forget the rows that were appended since the last `settle`."""

    @abstractmethod
    def _array(self, segment: _Segment, n: int) -> np.ndarray:
        """At least the first n rows of a segment, (rows, d)."""

    def settle(self) -> None:
        self.n_rows += self._pending
        self._pending = 0

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of slots first to last as views, none of which crosses a segment: (its first slot, (n, d))."""
        found = 0
        for segment in list(self._segments):
            low, high = max(first, segment.first_slot), min(last, segment.first_slot + segment.rows)
            if low < high:
                low, high = low - segment.first_slot, high - segment.first_slot
                found += high - low
                yield low + segment.first_slot, self._array(segment, high)[low:high]
        if found < last - first:
            raise TableError(
                f"features of {last - first - found} slots are not there: the table was closed meanwhile"
            )

    def take(self, slots: np.ndarray) -> np.ndarray:
        """The rows of slots in any order, copied: (n, d)."""
        out = np.empty((len(slots), self.d), self.dtype)
        found = 0
        for segment in list(self._segments):
            here = (slots >= segment.first_slot) & (slots < segment.first_slot + segment.rows)
            if here.any():
                rows = slots[here] - segment.first_slot
                out[here] = self._array(segment, int(rows.max()) + 1)[rows]
                found += len(rows)
        if found < len(slots):  # or what was in that memory before would be taken for them
            raise TableError(
                f"features of {len(slots) - found} slots are not there: the table was closed meanwhile"
            )
        return out

    @property
    def nbytes(self) -> int:
        return self.n_rows * self.stride

    def close(self) -> None:
        self._segments = []


class MemorySegments(Segments):
    """Rows in memory, in arrays that double until they reach 64 MB."""

    def append(self, X: np.ndarray, *, sync: bool = True) -> None:
        last = self._segments[-1] if self._segments else None
        if last is None or last.array is None or last.rows + len(X) > len(last.array):
            room = max(len(X), min(MEMORY_ROWS_BYTES // self.stride, max(256, self.n_rows)))
            last = _Segment(self.n_rows, 0, array=np.empty((room, self.d), self.dtype))
            self._segments.append(last)
        assert last.array is not None
        last.array[last.rows : last.rows + len(X)] = X
        last.rows += len(X)
        self._pending += len(X)

    def undo(self) -> None:
        if self._pending:
            self._segments[-1].rows -= self._pending
            self._pending = 0

    def _array(self, segment: _Segment, n: int) -> np.ndarray:
        assert segment.array is not None
        return segment.array


class FileSegments(Segments):
    """Rows in files `features-000000.seg`, ... of a folder.

    table : 16 bytes that name the table, so that a file of another one is not taken for one of this.
    first_slots : of the segments that the manifest knows. n_rows : committed rows in all.
    again : (first slot, bytes) of rows that may not have reached the disk, and are written once more.
    """

    def __init__(
        self,
        folder: Path,
        table: bytes,
        d: int,
        dtype: np.dtype,
        first_slots: list[int],
        n_rows: int,
        *,
        first_number: int = 0,
        again: Iterable[tuple[int, bytes]] = (),
        tidy: bool,
        segment_bytes: int,
    ) -> None:
        super().__init__(d, dtype)
        self.folder, self.table, self.segment_bytes = folder, table, segment_bytes
        self.first_number = first_number
        self.n_rows = n_rows
        self._file: IO[bytes] | None = None
        self._unsynced = False  # whether the last segment has rows that were not synced
        self._started = False  # whether anything was written since the last `settle`
        self.broken = False  # whether a sync has failed: what reached the disk before it, nobody knows
        ends = [*first_slots[1:], n_rows][: len(first_slots)]
        for i, (first, end) in enumerate(zip(first_slots, ends, strict=True)):
            self._segments.append(_Segment(first, end - first, self._path(i)))
        for first, raw in again:
            self._write_again(first, raw)
        for segment in self._segments:
            self._check(segment)
        if tidy:
            self._tidy()

    def _path(self, i: int) -> Path:
        return self.folder / f"features-{self.first_number + i:06d}.seg"

    @property
    def paths(self) -> list[Path]:
        return [segment.path for segment in self._segments if segment.path is not None]

    def path_of(self, slot: int) -> Path:
        """The file that holds a slot."""
        path = self._segments[int(np.searchsorted(self.first_slots, slot, side="right")) - 1].path
        assert path is not None
        return path

    @property
    def first_slots(self) -> list[int]:
        return [segment.first_slot for segment in self._segments]

    def _header(self, first_slot: int) -> bytes:
        fields = (MAGIC, FORMAT, START, self.table, self.dtype.str.encode(), self.d, first_slot)
        head = HEADER.pack(*fields)
        return (head + struct.pack("<I", checksum(head))).ljust(START, b"\0")

    def _check(self, segment: _Segment) -> None:
        """TableError unless the file is there, is a segment of this table, and is long enough."""
        path = segment.path
        assert path is not None
        try:
            with path.open("rb") as file:
                head = file.read(START)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError as error:
            raise SegmentMissing(f"{path} is missing: {segment.rows} rows were committed to it") from error
        except OSError as error:
            raise not_opened(path, error, write=False) from error
        if head[:8] != MAGIC:
            raise TableError(f"{path} is damaged: it does not begin as a segment of features does")
        version = int.from_bytes(head[8:12], "little")
        intact = head == self._header(segment.first_slot)
        if version > FORMAT and not intact:
            raise TableError(
                f"{path} has format {version}; this version of hashstream reads up to {FORMAT}: update hashstream"
            )
        if not intact:
            raise TableError(f"{path} is damaged: its header is not the one that the manifest asks for")
        if size < START + segment.rows * self.stride:
            raise TableError(
                f"{path} is truncated: {segment.rows} rows were committed to it, which take "
                f"{START + segment.rows * self.stride} bytes, but it has {size}"
            )

    def _tidy(self) -> None:
        """Cut off what was never committed."""
        known = set(self.paths)
        for path in self.folder.glob("features-*.seg"):
            if path not in known:
                path.unlink()
        if self._segments:
            last = self._segments[-1]
            assert last.path is not None
            committed = START + last.rows * self.stride
            if last.path.stat().st_size > committed:
                os.truncate(last.path, committed)

    def _write_again(self, first_slot: int, raw: bytes) -> None:
        segment = self._segments[int(np.searchsorted(self.first_slots, first_slot, side="right")) - 1]
        assert segment.path is not None
        self._check(_Segment(segment.first_slot, 0, segment.path))
        try:
            with segment.path.open("r+b") as file:
                file.seek(START + (first_slot - segment.first_slot) * self.stride)
                file.write(raw)
                file.flush()
                _sync(file)
        except OSError as error:
            raise TableError(f"{segment.path} cannot be written: {error.strerror}") from error

    def append(self, X: np.ndarray, *, sync: bool = True) -> None:
        if not self._segments and self.n_rows:  # a new first one would take the place of one that is full
            raise TableError("the table is closed")
        last = self._segments[-1] if self._segments else None
        if last is None or (last.rows * self.stride >= self.segment_bytes and last.rows):
            self._create()
        file = self._writer()
        segment = self._segments[-1]
        reach("segment.write")
        file.seek(START + segment.rows * self.stride)
        self._started = True
        view = np.ascontiguousarray(X, self.dtype).data.cast("B")
        while view:
            view = view[file.write(view) :]
        segment.rows += len(X)  # once they are there, since other threads map so many
        self._pending += len(X)
        self._unsynced = True
        reach("segment.written")
        if sync:
            self.sync_rows()

    def sync_rows(self) -> None:
        """Make all rows durable that were appended so far."""
        if not self._unsynced or not self._segments:
            return
        try:
            _sync(self._writer())
        except OSError:
            self.broken = True
            raise
        reach("segment.synced")
        self._unsynced = False

    def _create(self) -> None:
        reach("segment.create")
        self.sync_rows()  # later syncs are of the new one only
        self._close_file()
        segment = _Segment(self.n_rows, 0, self._path(len(self._segments)))
        assert segment.path is not None
        with segment.path.open("wb") as file:
            file.write(self._header(segment.first_slot))
            file.flush()
            _sync(file)
        sync_folder(self.folder)
        self._segments.append(segment)

    def _writer(self) -> IO[bytes]:
        if self._file is None:
            path = self._segments[-1].path
            assert path is not None
            self._file = path.open("r+b", buffering=0)
        return self._file

    def settle(self) -> None:
        super().settle()
        self._started = False

    def undo(self) -> None:
        gone = []
        while self._segments and self._segments[-1].first_slot >= self.n_rows:
            self._close_file()
            gone.append(self._segments.pop().path)
        last = self._segments[-1] if self._segments and self._started and not gone else None
        if last is not None:
            last.rows = self.n_rows - last.first_slot
        self._pending, self._started = 0, False
        with suppress(OSError):  # what is left of them is cut off later, or overwritten
            for path in gone:
                assert path is not None
                path.unlink(missing_ok=True)
            if last is not None:
                assert last.path is not None
                os.truncate(last.path, START + last.rows * self.stride)

    def _array(self, segment: _Segment, n: int) -> np.ndarray:
        array = segment.array
        if array is None or len(array) < n:  # mapping takes a while, so not for every row that is added
            assert segment.path is not None
            try:
                committed = min(segment.rows, self.n_rows - segment.first_slot)  # others may be cut off again
                shape = (max(n, committed), self.d)
                array = np.asarray(np.memmap(segment.path, self.dtype, "r", START, shape))
            except FileNotFoundError as error:
                raise SegmentMissing(f"{segment.path} is missing") from error
            except (OSError, ValueError) as error:  # a ValueError where it is shorter than when it was opened
                raise TableError(f"{segment.path} cannot be read: {error}") from error
            segment.array = array
        return array

    def extend_to(self, first_slots: list[int], n_rows: int) -> None:
        """For a reader: take note of what a writer has committed since."""
        for i, first in enumerate(first_slots):
            end = first_slots[i + 1] if i + 1 < len(first_slots) else n_rows
            if i == len(self._segments):
                self._segments.append(_Segment(first, 0, self._path(i)))
            self._segments[i].rows = end - first
            self._check(self._segments[i])
        self.n_rows = n_rows

    def delete(self) -> None:
        """Close, and take the files away."""
        paths = self.paths
        self.close()
        for path in paths:
            with suppress(OSError):  # or whoever opens the folder next does it
                path.unlink(missing_ok=True)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        self._close_file()
        super().close()


def _sync(file: IO[bytes]) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(file.fileno())  # the length of the file is synced with it
    else:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
