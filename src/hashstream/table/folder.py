"""A table's folder: the manifest, segments of features, a lock and a witness. The only module that knows their names.

manifest.sqlite        ids, labels, codes, versions, checkpoints (manifest.py)
features-000000.seg    raw rows (file_segments.py)
witness                the last acknowledged commit (witness.py)
lock                   who writes (lock.py)
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.table.change import Added, Change
from hashstream.table.codes import View
from hashstream.table.encoders import to_bytes
from hashstream.table.errors import Overtaken, SegmentMissing, TableError, forked, not_opened, not_written
from hashstream.table.file_segments import FileSegments
from hashstream.table.image import image_of
from hashstream.table.integrity import (
    check_config,
    check_labels,
    check_state,
    refuse_unless_file,
    refusing,
)
from hashstream.table.ledger import Ledger
from hashstream.table.lock import LOCK, WriterLock
from hashstream.table.manifest import Manifest
from hashstream.table.packing import (
    checked,
    checksum,
    label_at,
    pack,
    pack_labels,
    same_checksum,
    unpack_labels,
)
from hashstream.table.reservoir import Reservoir, Seats
from hashstream.table.segments import Segments
from hashstream.table.store import Batch, Store
from hashstream.table.witness import Note, Witness

__all__ = ["FolderStore"]

MANIFEST, WITNESS = "manifest.sqlite", "witness"
LOG_BYTES = 4 << 20  # of changes before they are drawn together into an image, and ...
LOG_ROWS = 16384  # ... of their number; a larger image waits until the changes are twice as large as it is
SMALL_BATCH = 1 << 20  # bytes of features that may go into the manifest too and are not synced at once, ...
UNSYNCED_BYTES = 16 << 20  # ... and of all those, before their segment is synced
TWICE = 3e-9  # seconds that a byte takes in the manifest: where a sync takes longer, it is put off
FIRST_SYNC, FADING = 1e-3, 0.9  # seconds that a sync is thought to take at first; how that is forgotten

_open: weakref.WeakSet[FolderStore] = weakref.WeakSet()  # those of this process
_inherited: set[tuple[int, int]] = (
    set()
)  # manifests that were open when this process was forked, by device and number


class FolderStore(Store):
    """A folder on disk. Everything happens under the table's writer lock, except `labels` and `features`."""

    durable = True

    def __init__(
        self, path: Path, *, mode: str, durability: str = "full", segment_bytes: int = 1 << 30
    ) -> None:
        """mode : "write" or "read"."""
        self.path, self.write, self.sync = path, mode == "write", durability == "full"
        self._segment_bytes = segment_bytes
        self.process = os.getpid()
        self._lock: WriterLock | None = None
        self.reading = threading.RLock()  # a signal's handler may close the table in the middle of a read
        self.files = threading.Lock()  # held while files are copied, or replaced by others
        self._reader: Manifest | None = None
        self._closed = False
        self._witness: Witness | None = None
        self._unsynced = 0  # bytes of features that are in the manifest too
        self._syncs = deque([FIRST_SYNC], 4)  # seconds that features took which were synced at once
        self._half_written = False  # whether a segment may have rows that are neither committed nor undone
        self._opened = 0  # slots that were there when the segments were opened
        self._ledger: Ledger | None = None
        self.inode = (-1, -1)
        _open.add(self)
        try:
            self._refuse_if_inherited()
            if self.write:
                self._lock = WriterLock(path / LOCK)
            noted = Witness.read(path / WITNESS)
            if self.write:  # looked at first by a connection that cannot change a folder that is refused
                with closing(Manifest(path / MANIFEST, mode="read")) as first, first.reading():
                    self._compare(first, noted)
            self.manifest = Manifest(path / MANIFEST, mode=mode, sync=self.sync)
            with self.manifest.reading(alone=self.write):  # files are cut to what it says
                self._compare(self.manifest, noted)
                super().__init__(self.config["keep_features"])
                self.read_state()
            if self.write:
                self._begin_writing()
        except OSError as error:
            self.close()
            raise not_opened(path, error, write=self.write) from error
        except BaseException:
            self.close()
            raise

    @staticmethod
    def is_table(path: Path) -> bool:
        try:
            return (path / MANIFEST).exists()
        except PermissionError as error:
            raise not_opened(path / MANIFEST, error, write=False) from error

    def read_state(self) -> None:
        """Take note of the last commit, in a read transaction; for a reader, that may be one more than before."""
        self.state = self.manifest.get("state")
        check_state(self.state)
        self.manifest.watch_state()
        self.seq = int(self.state["seq"])
        same = self.generation == int(self.state["rewritten"])
        self.generation = int(self.state["rewritten"])
        shape = self.state["shape"]
        known = self.manifest.segments()
        if not self.keep_features or shape is None or not (known or self.state["n_slots"]):
            self.segments = None
            if self.write and not known:
                for path in self.path.glob("features-*.seg"):
                    path.unlink()
            return
        numbers, first_slots = [number for number, _ in known], [first for _, first in known]
        ends = [*first_slots[1:], self.state["n_slots"]]
        whole = known and numbers == list(range(numbers[0], numbers[0] + len(numbers))) and not first_slots[0]
        if not whole or any(first >= end for first, end in zip(first_slots, ends, strict=True)):
            raise TableError(f"{self.manifest.path} is damaged: it does not name all segments of features")
        if isinstance(self.segments, FileSegments) and same:
            self.segments.extend_to(first_slots, self.state["n_slots"])
            with self.reading:  # what others have added is not verified yet
                self._ledger, self._opened = None, int(self.state["n_slots"])
            return
        rows = (shape["d"], np.dtype(shape["dtype"]), numbers[0], first_slots, self.state["n_slots"])
        again = list(self.manifest.unsynced())
        if self.write:
            self._unsynced = sum(len(raw) for _, raw in again)
            self.segments = self.file_segments(*rows, again=again)
        else:
            self.segments = self._same_segments(rows, again)
        self._ledger, self._opened = None, int(self.state["n_slots"])

    def _same_segments(self, rows: tuple[Any, ...], again: list[tuple[int, bytes]]) -> FileSegments:
        """For a reader, which cannot write them again: segments in which no features are missing."""
        try:
            segments = self.file_segments(*rows)
            for first, raw in again:
                crc = segments.checksum(first, first + len(raw) // segments.stride)
                checked(f"{segments.path_of(first)} (features from slot {first})", crc, raw)
        except TableError as error:
            if isinstance(error, SegmentMissing) or not again:
                raise
            hint = 'The manifest may have what is missing: open with mode="write"'
            raise TableError(f"{error} {hint}") from error
        return segments

    def _compare(self, manifest: Manifest, noted: Note | None) -> None:
        """TableError where the manifest is not the one of which a commit was noted, or is older."""
        self.config = manifest.get("table")
        check_config(self.config)
        check_state(manifest.get("state"))
        self.table = bytes.fromhex(self.config["uuid"])
        if noted is None:
            return
        if noted.table != self.table:
            raise TableError(f"{self.path / WITNESS} belongs to another table")
        seq = int(manifest.get("state")["seq"])
        if noted.seq > seq:
            raise TableError(
                f"{manifest.path} (or its -wal) is damaged: it ends with commit {seq}, but commit {noted.seq} was "
                f"acknowledged. Restore it from a copy, or delete {self.path / WITNESS} to go on without the "
                f"{noted.seq - seq} lost. Nothing was changed."
            )

    def _begin_writing(self) -> None:
        with suppress(TableError, OSError):  # on a full disk, there is time
            self.flush()
        if self.sync:
            self.manifest.sync_log()  # before a note that is synced says that its commits are there
        self._witness = Witness(self.path / WITNESS, self.table, self.seq, self.sync)

    def file_segments(
        self,
        d: int,
        dtype: np.dtype,
        number: int,
        first_slots: list[int],
        n_rows: int,
        *,
        again: Iterable[tuple[int, bytes]] = (),
        tidy: bool = True,
    ) -> FileSegments:
        return FileSegments(
            self.path, self.table, d, dtype, first_slots, n_rows, first_number=number, again=again,
            tidy=self.write and tidy, exclusive=not tidy, segment_bytes=self._segment_bytes,
        )  # fmt: skip

    # ---- writing

    def delete_leftovers(self) -> None:
        """Delete segments that were never committed, as an interrupted compaction leaves them."""
        known = set(self.segments.paths) if isinstance(self.segments, FileSegments) else set()
        with self.manifest.reading(alone=True):
            self.manifest.refuse_if_overtaken()
            for path in self.path.glob("features-*.seg"):
                if path not in known:
                    path.unlink(missing_ok=True)

    def _segments_for(self, X: np.ndarray) -> Segments:
        if self.segments is None:
            number = self.state["next_segment"]  # never one that there was: a reader may have it open
            self.segments = self.file_segments(X.shape[1], X.dtype, number, [], 0)
        return self.segments

    def commit(
        self,
        change: Change,
        *,
        batch: Batch | None = None,
        seats: Seats | None = None,
        policy: dict[str, Any],
        live: int,
        model: OnlineHasher | None = None,
        old: dict[int, OnlineHasher] | None = None,
    ) -> None:
        seq = self.seq + 1
        raw = pack({**change.arrays(), **(seats.arrays() if seats is not None else {})})
        y = None if batch is None else pack_labels(batch.y)
        state = {**self.state, "seq": seq, "live": live, "policy": policy}
        state["log_bytes"] += len(raw)
        state["seated"] = state["seated"] if seats is None else seats.taken
        size = batch.X.nbytes if batch is not None and self.keep_features else 0
        later = size <= SMALL_BATCH and self._unsynced + size <= UNSYNCED_BYTES
        later = later and (not self.sync or min(self._syncs) > size * TWICE)
        crc = checksum(batch.X) if batch is not None and size else 0
        self.refuse_if_unsure()
        try:
            with self.manifest.transaction(settle=False):
                try:
                    if batch is not None and self.keep_features:
                        self._append(batch.X, sync=not later)
                    self.manifest.put_change(seq, raw)
                    if batch is not None and change.added is not None:
                        self._put_batch(seq, change.added, batch, crc, y, state)
                        if later and size:
                            self.manifest.put_unsynced(change.added.first_slot, batch.X.data.cast("B"), crc)
                    if self._unsynced and not later:
                        self.manifest.forget_unsynced()
                    if model is not None:
                        self._put_model(model, old or {}, seq)
                    self.manifest.put("state", state)
                except BaseException:
                    self._undo(cut=True)  # while the transaction keeps others from writing
                    raise
        except OSError as error:
            self._undo(cut=False)
            raise not_written(self.path, error) from error
        except BaseException:
            self._undo(cut=False)
            raise
        if self.segments is not None:
            self.segments.settle()
        self._half_written = False
        self.state, self.seq = state, seq
        self._unsynced = self._unsynced + size if later else 0
        self.acknowledge()

    def _append(self, X: np.ndarray, *, sync: bool) -> None:
        """Write rows to the segments, and remember how long a sync takes."""
        self._half_written = True
        clock = time.perf_counter()
        self._segments_for(X).append(X, sync=sync)
        self._syncs.append(time.perf_counter() - clock if sync else self._syncs[0] * FADING)

    @property
    def unsure(self) -> bool:
        return self.manifest.unsure or self._half_written

    def refuse_in_fork(self, process: int) -> None:
        raise TableError(forked(self.path, process))

    def settled(self) -> None:
        self.manifest.settled()

    def acknowledge(self) -> None:
        """Note the last commit outside the manifest."""
        assert self._witness is not None
        self._witness.note(self.seq, self.sync)

    def refuse_if_unsure(self) -> None:
        if isinstance(self.segments, FileSegments) and self.segments.broken:
            raise TableError(
                f"a sync of {self.segments.paths[-1]} has failed, so nobody knows what is on the disk: close the table "
                "and open it again"
            )

    def replace_segments(self, new: FileSegments | None) -> FileSegments | None:
        """Go on with other segments, which hold what the manifest says now; the old ones, to be deleted."""
        old = self.segments
        if new is not None:
            new.exclusive = False  # from now on, rows are appended in transactions
        self.generation = int(self.state["rewritten"])  # before the segments: see `HashTable.get`
        self.segments = new
        self._ledger, self._opened, self._unsynced = None, 0, 0
        return old if isinstance(old, FileSegments) else None

    def _undo(self, *, cut: bool) -> None:
        """Forget rows that were appended. cut : whether they may be cut off, since no other process can have written
        there."""
        if self.manifest.unsure:  # the rows may have been committed after all: whoever opens it anew decides
            return
        if self.segments is not None:
            self.segments.undo(cut=cut)
            if not self.segments.n_rows:
                self.segments = None
        self._half_written = False  # last: who is interrupted before is unsure

    def _put_batch(
        self, seq: int, added: Added, batch: Batch, crc: int, y: bytes | None, state: dict[str, Any]
    ) -> None:
        state["n_slots"] = added.first_slot + len(added.codes)
        state["shape"] = {
            "d": batch.X.shape[1],
            "dtype": batch.X.dtype.str,
            "ids": "str" if added.ids.dtype == object else "int",
        }
        self.manifest.put_batch(
            seq, added.first_slot, len(added.codes), int(batch.learned), added.version,
            crc, batch.model, y,
        )  # fmt: skip
        if isinstance(self.segments, FileSegments) and self.segments.first_slots[-1] == added.first_slot:
            number = self.segments.first_number + len(self.segments.first_slots) - 1
            self.manifest.put_segment(number, added.first_slot)
            state["next_segment"] = number + 1

    # ---- checkpoints

    def wants_image(self, *, closing: bool = False) -> bool:
        # Who closes has the time, and whoever opens next has less to read.
        enough = self.state["image_bytes"] // 2 if closing else 2 * self.state["image_bytes"]
        changed = self.state["log_bytes"] > max(LOG_BYTES, enough)
        return bool(changed or self.seq - self.state["image"] > LOG_ROWS)

    def write_image(self, view: View, reservoir: Reservoir) -> None:
        with self.manifest.transaction("checkpoint"):
            size = self.manifest.put_image(image_of(view, reservoir))
            self.manifest.forget_changes()
            state = {**self.state, "image": self.seq, "image_bytes": size, "log_bytes": 0}
            self.manifest.put("state", state)
        self.state = state

    def write_model(
        self, hasher: OnlineHasher, old: dict[int, OnlineHasher], history: dict[str, Any] | None = None
    ) -> None:
        self.flush()
        with self.manifest.transaction("checkpoint"):
            self._put_model(hasher, old, self.seq)
            if history is not None:
                self.manifest.put("history", history)

    def write_history(self, history: dict[str, Any]) -> None:
        with self.manifest.transaction("checkpoint"):
            self.manifest.put("history", history)

    def _put_model(self, hasher: OnlineHasher, old: dict[int, OnlineHasher], seq: int) -> None:
        stored = self.manifest.encoders()
        for version, encoder in old.items():
            if version not in stored:
                self.manifest.put_model("encoder", version, seq, to_bytes(encoder))
        self.manifest.forget_encoders(stored - set(old))
        self.manifest.put_model("checkpoint", int(hasher.version_), seq, to_bytes(hasher))

    def flush(self) -> None:
        if not self.write or not isinstance(self.segments, FileSegments):
            return
        self.segments.sync_rows()
        if self._unsynced:
            with self.manifest.transaction("checkpoint"):
                self.manifest.forget_unsynced()
            self._unsynced = 0

    def harden(self) -> None:
        """Make all commits so far durable, where they are not as a rule."""
        if not self.write or self.sync:
            return
        with self.manifest.transaction("checkpoint", sync=True):
            self.manifest.put("state", self.state)
        if self._witness is not None:
            self._witness.note(self.seq, True)

    # ---- reading

    def labels(self, slots: np.ndarray, generation: int) -> list[Any]:
        found: list[Any] = [None] * len(slots)
        with self.reading, (second := self.second()).reading():
            self.refuse_if_renumbered(second, generation)
            last, first, y = -1, 0, None
            for i in np.argsort(slots, kind="stable").tolist():
                slot = int(slots[i])
                if slot >= last:
                    first, last, y = self._batch_at(second, slot)
                found[i] = label_at(y, slot - first)
        return found

    def _batch_at(self, second: Manifest, slot: int) -> tuple[int, int, np.ndarray | None]:
        where = "first_slot = (SELECT max(first_slot) FROM batches WHERE first_slot <= ?)"
        for _, first, n_rows, *_, raw in second.batches(where, slot):
            if slot < first + n_rows:
                return first, first + n_rows, self._labels(raw, n_rows)
        raise TableError(f"{self.manifest.path} is damaged: it lacks the batch of slot {slot}")

    def _labels(self, raw: bytes | None, n_rows: int) -> np.ndarray | None:
        with refusing(self.manifest.path):
            return check_labels(unpack_labels(raw), n_rows)

    def second(self) -> Manifest:
        """A connection for reading while the other one writes, to be used while holding `reading`."""
        if self._closed:
            raise TableError("the table is closed")
        if self._reader is None:
            self._reader = Manifest(self.path / MANIFEST, mode="read")
        self._reader.check_files()
        return self._reader

    @staticmethod
    def refuse_if_renumbered(second: Manifest, generation: int) -> None:
        """Overtaken where slots have been renumbered since `generation`; in a block of `Manifest.reading`."""
        if second.get("state")["rewritten"] != generation:
            raise Overtaken

    def batches(self) -> Iterator[tuple[int, int, int, int, int, np.ndarray | None]]:
        for seq, first, n_rows, _, version, _, model, raw in self.manifest.batches("1"):
            yield seq, first, n_rows, version, model, self._labels(raw, n_rows)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        self.verify(np.array([first, last - 1]), between=True)
        yield from super().blocks(first, last)

    def features(self, slots: np.ndarray) -> np.ndarray:
        self.verify(slots)
        return super().features(slots)

    def verify(self, slots: np.ndarray, *, between: bool = False) -> int:
        """See `Ledger.verify`."""
        if not isinstance(self.segments, FileSegments):
            return 0
        ledger = self._ledger  # another thread may forget it meanwhile, as `reload` does
        if ledger is None:
            with self.reading, (second := self.second()).reading():
                self.refuse_if_renumbered(second, self.generation)
                found = second.batches("first_slot < ?", self._opened)
                self._ledger = ledger = Ledger([(batch[1], batch[2], batch[5]) for batch in found])
        return ledger.verify(self.segments, slots, between=between)

    def verify_all(self) -> tuple[int, int]:
        """Compare all features with their checksums, also those that were compared before; how many batches and rows
        there are. In a block of `Manifest.reading`."""
        n_batches = n_rows = 0
        for _, first, rows, _, _, crc, _, _ in self.manifest.batches("1"):
            if first != n_rows:
                break
            if isinstance(self.segments, FileSegments):
                where = f"{self.segments.path_of(first)} (slots {first} to {first + rows - 1})"
                same_checksum(where, crc, self.segments.checksum(first, first + rows))
            n_batches, n_rows = n_batches + 1, n_rows + rows
        if n_rows != self.state["n_slots"]:
            raise TableError(f"{self.manifest.path} is damaged: it lacks the batch of slot {n_rows}")
        return n_batches, n_rows

    def has_moved(self) -> bool:
        """For a reader: whether anything was committed since."""
        with self.manifest.reading():
            return bool(self.manifest.get("state")["seq"] != self.seq)

    def nbytes(self) -> int:
        total = 0
        for path in self.path.iterdir():
            with suppress(FileNotFoundError):  # files come and go while others write
                total += path.stat().st_size
        return total

    def close(self) -> None:
        """Let go of the folder. A call that was interrupted is called again."""
        if os.getpid() != self.process:
            return  # see `_after_fork`
        with self.reading:  # or SQLite, closed while another thread reads, takes the process with it
            self._closed = True
            held = (
                getattr(self, "segments", None),
                self._reader,
                getattr(self, "manifest", None),
                self._witness,
            )
            for thing in held:
                with suppress(sqlite3.Error):  # nothing is open any more that could be lost
                    if thing is not None:
                        thing.close()
        if self._lock is not None:
            self._lock.release()

    def _refuse_if_inherited(self) -> None:
        """TableError where SQLite has a connection to the same file that is not this process's: it would believe that
        it holds the locks of that one."""
        for name in (MANIFEST, WITNESS):
            refuse_unless_file(self.path / name)
        if (self.path / MANIFEST).exists():
            found = os.stat(self.path / MANIFEST)
            self.inode = (found.st_dev, found.st_ino)
        if self.inode in _inherited:
            raise TableError(
                f"{self.path} was open when this process was forked, so it cannot be opened here: fork before it is "
                'opened, or start processes afresh (multiprocessing\'s "spawn")'
            )

    def _leave_to_parent(self) -> None:
        """In a forked process: let go of the inherited handles. The lock stays the parent's, also when it ends."""
        if not self._closed:
            _inherited.add(self.inode)
        if self._lock is not None:
            self._lock.release()
        if self._witness is not None:
            self._witness.close()
        for manifest in (self._reader, getattr(self, "manifest", None)):
            if manifest is not None:
                manifest.abandon()


def _after_fork() -> None:
    for store in list(_open):
        store._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
