"""A table's folder: the manifest, segments of features, a lock and a witness. The only module that knows their names.

manifest.sqlite        ids, labels, codes, versions, checkpoints (manifest.py)
features-000000.seg    raw rows (segments.py)
witness                the last acknowledged commit (witness.py)
lock                   who writes (lock.py)
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.table.change import Change
from hashstream.table.codes import View
from hashstream.table.encoders import to_bytes
from hashstream.table.errors import TableError
from hashstream.table.ledger import Ledger
from hashstream.table.lock import WriterLock
from hashstream.table.manifest import Manifest
from hashstream.table.packing import checked, checksum, pack, pack_label, pack_labels, unpack_labels
from hashstream.table.reservoir import Seats
from hashstream.table.segments import FileSegments, Segments
from hashstream.table.store import Batch, Store, plain
from hashstream.table.witness import Witness

__all__ = ["FolderStore"]

MANIFEST, WITNESS, LOCK = "manifest.sqlite", "witness", "lock"
LOG_BYTES = 4 << 20  # of changes before they are drawn together into an image, and ...
LOG_ROWS = 16384  # ... of their number; a larger image waits until the changes are half as large as it is
SMALL_BATCH = 1 << 20  # bytes of features that go into the manifest too and are not synced at once, ...
UNSYNCED_BYTES = 8 << 20  # ... and of all those, before their segment is synced


class FolderStore(Store):
    """A folder on disk. Everything happens under the table's writer lock, except `labels` and `features`."""

    durable = True

    def __init__(
        self, path: Path, *, mode: str, durability: str = "full", segment_bytes: int = 1 << 30
    ) -> None:
        """mode : "write" or "read"."""
        self.path, self.write, self.sync = path, mode == "write", durability == "full"
        self._segment_bytes = segment_bytes
        self._lock = WriterLock(path / LOCK) if self.write else None
        self._reading = threading.Lock()
        self.files = threading.Lock()  # held while files are copied, or replaced by others
        self._reader: Manifest | None = None
        self._witness: Witness | None = None
        self._unsynced = 0  # bytes of features that are in the manifest too
        self._opened = 0  # slots that were there when the segments were opened
        self._ledger: Ledger | None = None
        try:
            noted = Witness.read(path / WITNESS)
            self.manifest = Manifest(path / MANIFEST, mode=mode, sync=self.sync)
            with self.manifest.reading():
                self.config = self.manifest.get("table")
                self.table = bytes.fromhex(self.config["uuid"])
                super().__init__(self.config["keep_features"])
                self.read_state()
            if noted is not None:
                self._compare(*noted)
            if self.write:
                self.flush()
                self._witness = Witness(path / WITNESS, self.table)
                self._witness.note(self.seq, self.sync)
                self._witness.sync()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def is_table(path: Path) -> bool:
        return (path / MANIFEST).exists()

    def read_state(self) -> None:
        """Take note of the last commit, in a read transaction; for a reader, that may be one more than before."""
        self.state = self.manifest.get("state")
        self.seq = int(self.state["seq"])
        shape = self.state["shape"]
        known = self.manifest.segments()
        if not self.keep_features or shape is None:
            if self.write and not known:
                for path in self.path.glob("features-*.seg"):
                    path.unlink()
            return
        numbers, first_slots = [number for number, _ in known], [first for _, first in known]
        if not known or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise TableError(f"{self.manifest.path} is damaged: it does not name all segments of features")
        if isinstance(self.segments, FileSegments) and self.segments.first_number == numbers[0]:
            self.segments.extend_to(first_slots, self.state["n_slots"])
            return
        self.generation += 1
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
                for _, X in segments.blocks(first, first + len(raw) // segments.stride):
                    checked(f"{self.path} (features from slot {first})", checksum(X), raw)
        except TableError as error:
            if not again:
                raise
            hint = 'The manifest may have what is missing: open with mode="write"'
            raise TableError(f"{error} {hint}") from error
        return segments

    def _compare(self, owner: bytes, noted: int) -> None:
        if owner != self.table:
            raise TableError(f"{self.path / WITNESS} belongs to another table")
        if noted > self.seq:
            raise TableError(
                f"{self.manifest.path} (or its -wal) is damaged: it ends with commit {self.seq}, but commit {noted} "
                f"was acknowledged. Restore it from a copy, or delete {self.path / WITNESS} to go on without the "
                f"{noted - self.seq} lost."
            )

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
            tidy=self.write and tidy, sync=self.sync, segment_bytes=self._segment_bytes,
        )  # fmt: skip

    # ---- writing

    def _segments_for(self, X: np.ndarray) -> Segments:
        if self.segments is None:
            self.segments = self.file_segments(X.shape[1], X.dtype, 0, [], 0)
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
        raw = pack(change.arrays())
        y = None if batch is None else pack_labels(batch.y)
        state = {**self.state, "seq": seq, "live": live, "policy": policy}
        state["log_bytes"] += len(raw)
        size = batch.X.nbytes if batch is not None and self.keep_features else 0
        later = self.sync and size <= SMALL_BATCH and self._unsynced + size <= UNSYNCED_BYTES
        crc = checksum(batch.X) if batch is not None and size else 0
        try:
            if batch is not None and self.keep_features:
                self._segments_for(batch.X).append(batch.X, sync=not later)
            with self.manifest.transaction():
                self.manifest.put_change(seq, raw)
                if batch is not None and change.added is not None:
                    self._put_batch(seq, change, batch, crc, y, seats, state)
                    if later and size:
                        self.manifest.put_unsynced(change.added.first_slot, batch.X.data.cast("B"), crc)
                elif seats is not None:
                    for place in seats.left.tolist():
                        self.manifest.free_seat(place)
                if self._unsynced and not later:
                    self.manifest.forget_unsynced()
                if model is not None:
                    self._put_model(model, old or {}, seq)
                self.manifest.put("state", state)
        except OSError as error:
            self._undo()
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise TableError(
                f"{'the disk is full' if full else error}: {self.path} could not be written. "
                "The table is as it was before the call."
            ) from error
        except BaseException:
            self._undo()
            raise
        if self.segments is not None:
            self.segments.settle()
        self.state, self.seq = state, seq
        self._unsynced = self._unsynced + size if later else 0
        self.acknowledge()

    def acknowledge(self) -> None:
        """Note the last commit outside the manifest."""
        assert self._witness is not None
        self._witness.note(self.seq, self.sync)

    def replace_segments(self, new: FileSegments | None) -> None:
        """Go on with other segments, which hold what the manifest says now; the files of the old ones go."""
        old = self.segments
        self.generation += 1
        self.segments = new
        self._ledger, self._opened, self._unsynced = None, 0, 0
        if isinstance(old, FileSegments):
            old.delete()

    def _undo(self) -> None:
        if self.segments is not None:
            self.segments.undo()
            if not self.segments.n_rows:
                self.segments = None

    def _put_batch(
        self,
        seq: int,
        change: Change,
        batch: Batch,
        crc: int,
        y: bytes | None,
        seats: Seats | None,
        state: dict[str, Any],
    ) -> None:
        added = change.added
        assert added is not None
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
        if seats is not None:
            for place in seats.left.tolist():
                self.manifest.free_seat(place)
            for place, row in zip(seats.places.tolist(), seats.rows.tolist(), strict=True):
                label = None if batch.y is None else pack_label(batch.y[row])
                self.manifest.put_seat(place, added.first_slot + row, batch.X[row].tobytes(), label)

    # ---- checkpoints

    def wants_image(self) -> bool:
        changed = self.state["log_bytes"] > max(LOG_BYTES, self.state["image_bytes"] // 2)
        return bool(changed or self.seq - self.state["image"] > LOG_ROWS)

    def write_image(self, view: View) -> None:
        with self.manifest.transaction("checkpoint"):
            size = self.manifest.put_image(image_of(view))
            self.manifest.forget_changes()
            state = {**self.state, "image": self.seq, "image_bytes": size, "log_bytes": 0}
            self.manifest.put("state", state)
        self.state = state

    def write_model(self, hasher: OnlineHasher, old: dict[int, OnlineHasher]) -> None:
        self.flush()
        with self.manifest.transaction("checkpoint"):
            self._put_model(hasher, old, self.seq)

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
        self.segments.sync_rows(force=True)
        if self._unsynced:
            with self.manifest.transaction("checkpoint"):
                self.manifest.forget_unsynced()
            self._unsynced = 0

    # ---- reading

    def labels(self, slots: np.ndarray) -> list[Any]:
        found: list[Any] = [None] * len(slots)
        with self.second() as second, second.reading():
            last, first, y = -1, 0, None
            for i in np.argsort(slots, kind="stable").tolist():
                slot = int(slots[i])
                if slot >= last:
                    first, last, y = self._batch_at(second, slot)
                found[i] = None if y is None else plain(y[slot - first])
        return found

    def _batch_at(self, second: Manifest, slot: int) -> tuple[int, int, np.ndarray | None]:
        where = "first_slot = (SELECT max(first_slot) FROM batches WHERE first_slot <= ?)"
        for _, first, n_rows, *_, raw in second.batches(where, slot):
            if slot < first + n_rows:
                return first, first + n_rows, unpack_labels(raw)
        raise TableError(f"{self.manifest.path} is damaged: it lacks the batch of slot {slot}")

    @contextmanager
    def second(self) -> Iterator[Manifest]:
        """A connection for reading while the other one writes; for one thread at a time."""
        with self._reading:
            if self._reader is None:
                self._reader = Manifest(self.path / MANIFEST, mode="read")
            yield self._reader

    def batches(self) -> Iterator[tuple[int, int, int, int, int, np.ndarray | None]]:
        for seq, first, n_rows, _, version, _, model, raw in self.manifest.batches("1"):
            yield seq, first, n_rows, version, model, unpack_labels(raw)

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
        if self._ledger is None:
            with self.second() as second, second.reading():
                found = second.batches("first_slot < ?", self._opened)
                self._ledger = Ledger([(batch[1], batch[2], batch[5]) for batch in found])
        return self._ledger.verify(self.segments, slots, between=between)

    def _segment_of(self, slot: int) -> Path:
        assert isinstance(self.segments, FileSegments)
        return self.segments.path_of(slot)

    def check(self) -> tuple[int, int]:
        """Verify every row of the manifest and every row of features; how many batches and rows there are."""
        self.manifest.quick_check()
        with self.manifest.reading():
            n_batches = n_rows = 0
            for _, first, rows, _, _, crc, _, _ in self.manifest.batches("1"):
                if first != n_rows:
                    raise TableError(f"{self.manifest.path} is damaged: it lacks the batch of slot {n_rows}")
                for start, X in (
                    self.segments.blocks(first, first + rows) if self.segments is not None else ()
                ):
                    checked(f"{self._segment_of(start)} (slots {first} to {first + rows - 1})", crc, X)
                n_batches, n_rows = n_batches + 1, n_rows + rows
            if n_rows != self.state["n_slots"]:
                raise TableError(f"{self.manifest.path} is damaged: it lacks the batch of slot {n_rows}")
            self.manifest.image()
            for rest in (
                self.manifest.changes(0),
                self.manifest.models("checkpoint"),
                self.manifest.models("encoder"),
                self.manifest.seats(),
                self.manifest.segments(),
                self.manifest.unsynced(),
            ):
                for _ in rest:
                    pass
        return n_batches, n_rows

    def has_moved(self) -> bool:
        """For a reader: whether anything was committed since."""
        with self.manifest.reading():
            return bool(self.manifest.get("state")["seq"] != self.seq)

    def nbytes(self) -> int:
        return sum(path.stat().st_size for path in self.path.iterdir() if path.is_file())

    def close(self) -> None:
        for thing in (
            getattr(self, "segments", None),
            self._reader,
            getattr(self, "manifest", None),
            self._witness,
        ):
            if thing is not None:
                try:
                    thing.close()
                except sqlite3.Error:  # nothing is open any more that could be lost
                    continue
        if self._lock is not None:
            self._lock.release()


def image_of(view: View) -> dict[str, np.ndarray]:
    """All items of a view as named arrays."""
    arrays = {} if view.column is None else {f"ids.{k}": v for k, v in view.column.arrays().items()}
    for i, part in enumerate(view.parts):
        arrays[f"part.{i}.codes"], arrays[f"part.{i}.slots"] = part.rows()
    arrays["versions"] = np.array([part.version for part in view.parts], np.int64)
    return arrays
