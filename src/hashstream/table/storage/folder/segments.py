"""Features in files: a short header, then raw rows.

What lies beyond the rows that the database knows was never committed: it is cut off when the folder is next opened for
writing, and never read.

Files are read, not mapped: a file that shrinks, or a disk that fails, is then an error and not a signal that ends the
process. Blocks are small enough to stay in the processor's cache, so the copy costs nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np

from hashstream.table.errors import REOPEN, Closed, SegmentMissing, TableError, failed, not_opened
from hashstream.table.storage.features import Segment, Segments
from hashstream.table.storage.folder.failpoints import reach
from hashstream.table.storage.folder.records import FILE_FORMAT, SegmentRow, check_format, checksum

__all__ = ["START", "FileSegments", "sync_folder"]

MAGIC = b"HSTRFEAT"
HEADER = struct.Struct(
    "<8sII16s4sIQ"
)  # magic, format, header size, table, dtype, d, first slot; then a CRC-32
START = 4096  # of the rows
BEGIN_WRITING = 2  # of sync_file_range: SYNC_FILE_RANGE_WRITE, which waits for nothing
MAX_HANDLES = 64  # files kept open for reading


class _Handle:
    """A file that is open for reading, until nobody refers to it: another thread may be reading from it."""

    def __init__(self, path: Path) -> None:
        self._number = -1
        self._number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def read(self, target: memoryview, offset: int) -> int:
        """Fill `target` from `offset` on; how many bytes there were."""
        done = 0
        while done < len(target):
            if hasattr(os, "preadv"):
                n = os.preadv(self._number, [target[done:]], offset + done)
            else:
                n = self._seek_and_read(target[done:], offset + done)
            if not n:
                break
            done += n
        return done

    def _seek_and_read(self, target: memoryview, offset: int) -> int:
        """Where the system cannot do both in one call."""
        with _seeking:
            os.lseek(self._number, offset, os.SEEK_SET)
            raw = os.read(self._number, len(target))
        target[: len(raw)] = raw
        return len(raw)

    def __del__(self) -> None:
        if self._number >= 0:
            os.close(self._number)


_seeking = threading.Lock()


class FileSegments(Segments):
    """Rows in files `features-000000.seg`, ... of a folder.

    table : 16 bytes that name the table, so that a file of another one is not taken for one of this.
    first_slots : of the segments that the database knows. n_rows : committed rows in all.
    again : (first slot, bytes) of rows that may not have reached the disk, and are written once more.
    tidy : cut off, and delete, what was never committed.
    exclusive : a new file never takes the place of another. It may only where a transaction keeps others from writing.
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
        exclusive: bool = False,
        segment_bytes: int,
    ) -> None:
        super().__init__(d, dtype)
        self.folder, self.table, self.segment_bytes = folder, table, segment_bytes
        self.exclusive = exclusive
        self.first_number = first_number
        self.n_rows = n_rows
        self._file: IO[bytes] | None = None
        self._unsynced = False  # whether the last segment has rows that were not synced
        self._started = False  # whether anything was written since the last `settle`
        self.broken = False  # whether a sync has failed: what reached the disk before it, nobody knows
        ends = [*first_slots[1:], n_rows][: len(first_slots)]
        for i, (first, end) in enumerate(zip(first_slots, ends, strict=True)):
            self._segments.append(Segment(first, end - first, self._path(i)))
        for first, raw in again:
            self._write_again(first, raw)
        for segment in self._segments:
            self._check(segment)
        if tidy:
            self._tidy()

    def _path(self, i: int) -> Path:
        return self.folder / f"features-{self.first_number + i:06d}.seg"

    @property
    def last_row(self) -> SegmentRow:
        """The last file, as the database knows it."""
        return SegmentRow(self.first_number + len(self._segments) - 1, self._segments[-1].first_slot)

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
        fields = (MAGIC, FILE_FORMAT, START, self.table, self.dtype.str.encode(), self.d, first_slot)
        head = HEADER.pack(*fields)
        return (head + struct.pack("<I", checksum(head))).ljust(START, b"\0")

    def _check(self, segment: Segment) -> None:
        """TableError unless the file is there, is a segment of this table, and is long enough."""
        path = segment.path
        assert path is not None
        try:
            if path.exists() and not path.is_file():
                raise TableError(f"{path} is not a file")
            with path.open("rb") as file:
                head = file.read(START)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError as error:
            raise SegmentMissing(f"{path} is missing: {segment.rows} rows were committed to it") from error
        except OSError as error:
            raise not_opened(path, error, write=False) from error
        if head[:8] != MAGIC:
            raise TableError(f"{path} is damaged: it does not begin as a segment of features does")
        if head != self._header(segment.first_slot):
            if 0 < (version := int.from_bytes(head[8:12], "little")) < 1000:
                check_format(str(path), version)
            raise TableError(f"{path} is damaged: its header is not the one that the database asks for")
        if size < START + segment.rows * self.stride:
            raise TableError(
                f"{path} is truncated: {segment.rows} rows were committed to it, which take "
                f"{START + segment.rows * self.stride} bytes, but it has {size}"
            )

    def check_files(self) -> None:
        """TableError unless all files are there, and whole."""
        for segment in self._segments:
            self._check(segment)

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
        self._check(Segment(segment.first_slot, 0, segment.path))
        try:
            with segment.path.open("r+b") as file:
                file.seek(START + (first_slot - segment.first_slot) * self.stride)
                file.write(raw)
                file.flush()
                _sync(file)
        except OSError as error:
            raise failed(error)(f"{segment.path} cannot be written: {error.strerror}") from error

    def append(self, X: np.ndarray, *, sync: bool = True, soon: bool = False) -> None:
        """soon : `sync_rows` will be called: the system may begin to write the rows."""
        if not self._segments and self.n_rows:  # a new first one would take the place of one that is full
            raise Closed("the table is closed")
        last = self._segments[-1] if self._segments else None
        if last is None or (last.rows * self.stride >= self.segment_bytes and last.rows):
            self._create()
        file = self._writer()
        segment = self._segments[-1]
        self._check_writer(file, segment)
        reach("segment.write")
        start = START + segment.rows * self.stride
        file.seek(start)
        self._started = True
        view = np.ascontiguousarray(X, self.dtype).data.cast("B")
        while view:
            view = view[file.write(view) :]
        segment.rows += len(X)  # once they are there, since other threads may read so many
        self._pending += len(X)
        self._unsynced = True
        reach("segment.written")
        if sync:
            self.sync_rows()
        elif soon and _write_out is not None:
            _write_out(file.fileno(), start, X.nbytes, BEGIN_WRITING)  # a hint: it may fail

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
        segment = Segment(self.n_rows, 0, self._path(len(self._segments)))
        assert segment.path is not None
        with segment.path.open("xb" if self.exclusive else "wb") as file:
            try:
                file.write(self._header(segment.first_slot))
                file.flush()
                _sync(file)
            except BaseException:
                segment.path.unlink(missing_ok=True)
                raise
        self._segments.append(segment)
        sync_folder(self.folder)

    def _writer(self) -> IO[bytes]:
        if self._file is None:
            path = self._segments[-1].path
            assert path is not None
            self._file = path.open("r+b", buffering=0)
        return self._file

    def _check_writer(self, file: IO[bytes], segment: Segment) -> None:
        """TableError where the file was deleted or cut since it was opened: rows in it would be lost."""
        assert segment.path is not None
        found = os.fstat(file.fileno())
        try:
            there = os.stat(segment.path)
        except FileNotFoundError:
            raise TableError(f"{segment.path} was deleted while the table was open: {REOPEN}") from None
        if (there.st_ino, there.st_dev) != (found.st_ino, found.st_dev):
            raise TableError(f"{segment.path} was replaced while the table was open: {REOPEN}")
        if found.st_size < START + segment.rows * self.stride:
            raise TableError(f"{segment.path} was cut while the table was open: {REOPEN}")

    def settle(self) -> None:
        super().settle()
        self._started = False

    def undo(self, *, cut: bool = True) -> None:
        gone = []
        while self._segments and self._segments[-1].first_slot >= self.n_rows:
            self._close_file()
            gone.append(self._segments.pop().path)
        last = self._segments[-1] if self._segments and self._started and not gone else None
        if last is not None:
            last.rows = self.n_rows - last.first_slot
        self._pending, self._started = 0, False
        if not cut:
            return  # the rows are beyond what was committed: they are overwritten, or cut off when it is next opened
        with suppress(OSError):
            for path in gone:
                assert path is not None
                path.unlink(missing_ok=True)
            if last is not None:
                assert last.path is not None
                os.truncate(last.path, START + last.rows * self.stride)

    def _rows(self, segment: Segment, low: int, high: int, room: np.ndarray | None = None) -> np.ndarray:
        out = np.empty((high - low, self.d), self.dtype) if room is None else room[: high - low]
        target = out.data.cast("B")
        try:
            found = self._handle(segment).read(target, START + low * self.stride)
        except FileNotFoundError as error:
            raise SegmentMissing(f"{segment.path} is missing") from error
        except OSError as error:
            raise TableError(f"{segment.path} cannot be read: {error.strerror}") from error
        if found < len(target):
            raise TableError(
                f"{segment.path} is truncated: it has {segment.rows} committed rows, but ends before row {high}: "
                "restore it from a copy"
            )
        return out

    def _handle(self, segment: Segment) -> _Handle:
        handle: _Handle | None = segment.handle
        if handle is None:
            assert segment.path is not None
            held = [one for one in list(self._segments) if one.handle is not None]
            for one in held[: max(0, len(held) + 1 - MAX_HANDLES)]:
                one.handle = None
            segment.handle = handle = _Handle(segment.path)
        return handle

    def extend_to(self, first_slots: list[int], n_rows: int) -> None:
        """For a reader: take note of what a writer has committed since."""
        for i, first in enumerate(first_slots):
            end = first_slots[i + 1] if i + 1 < len(first_slots) else n_rows
            if i == len(self._segments):
                self._segments.append(Segment(first, 0, self._path(i)))
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


_write_out = getattr(ctypes.CDLL(None), "sync_file_range", None) if sys.platform == "linux" else None
if _write_out is not None:
    _write_out.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


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
