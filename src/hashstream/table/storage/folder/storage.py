"""`FolderStorage`: a table in a folder that survives crashes.

table.sqlite           ids, labels, codes, versions, checkpoints (database.py)
features-000000.seg    rows of features (segments.py)
commit-marker          the last acknowledged commit (commit_marker.py)
lock                   who writes (lock.py)
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hashstream.hashers.serialization import encoder_to_bytes, to_bytes
from hashstream.table.errors import (
    Closed,
    Overtaken,
    SegmentMissing,
    TableError,
    forked,
    not_opened,
    not_written,
)
from hashstream.table.policies import Unregistered
from hashstream.table.settings import Settings
from hashstream.table.state.change import Batch, Change, Done, Feedback
from hashstream.table.state.ids import kind_of
from hashstream.table.state.state import State
from hashstream.table.stats import History
from hashstream.table.storage.base import Source, Storage, StoredBatch
from hashstream.table.storage.folder.checks import refuse_unless_file, refusing
from hashstream.table.storage.folder.commit_marker import CommitMarker, Marked
from hashstream.table.storage.folder.compact import Rewritten, rewrite
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.failpoints import reach
from hashstream.table.storage.folder.feature_files import FeatureFiles
from hashstream.table.storage.folder.load import Loader
from hashstream.table.storage.folder.lock import LOCK, WriterLock
from hashstream.table.storage.folder.names import DATABASE, MARKER, is_table
from hashstream.table.storage.folder.records import (
    FORMAT,
    OLDEST,
    BatchRow,
    FeedbackRow,
    Head,
    ModelRow,
    Shape,
    change_to_arrays,
    checksum,
    items_to_arrays,
    kinds_of,
    model_checksum,
    pack,
    pack_labels,
)
from hashstream.table.storage.folder.segments import FileSegments
from hashstream.table.storage.folder.snapshot import copy_folder

__all__ = ["FolderStorage"]

LOG_BYTES = 4 << 20  # of changes before the items are saved whole, and ...
LOG_ROWS = (
    16384  # ... of their number; a larger checkpoint waits until the changes are twice as large as it is
)

_open: weakref.WeakSet[FolderStorage] = weakref.WeakSet()  # those of this process
_inherited: set[tuple[int, int]] = (
    set()
)  # databases that were open when this process was forked, by device and inode


class FolderStorage(Storage):
    """A folder on disk, open for writing or reading."""

    survives = True

    def __init__(
        self, path: Path, *, mode: Literal["write", "read"], given: Mapping[str, Any] | None = None
    ) -> None:
        """given : settings, which a writer stores in place of those that are stored; None for one that stays."""
        self.path: Path = path
        self.write = mode == "write"
        self._given = dict(given or {})
        self._process = os.getpid()
        self._lock: WriterLock | None = None
        self._reading = threading.RLock()  # a signal's handler may close the table in the middle of a read
        self._files = threading.Lock()  # held while files are copied, or replaced by others
        self._reader: Database | None = None
        self._closed = False
        self._marker: CommitMarker | None = None
        self._since_checkpoint = 0  # rows learned
        self._inode = (-1, -1)
        _open.add(self)
        try:
            with refusing(path / DATABASE):
                self._open(mode)
        except OSError as error:
            self.close()
            raise not_opened(path, error, write=self.write) from error
        except BaseException:
            self.close()
            raise

    # ---- opening

    def _open(self, mode: Literal["write", "read"]) -> None:
        path = self.path
        self._refuse_if_inherited()
        if self.write:
            self._lock = WriterLock(path / LOCK)
        marked = CommitMarker.read(path / MARKER)
        if self.write:  # read first by a connection that cannot change a folder that is refused
            with closing(Database(path / DATABASE, mode="read")) as first, first.reading():
                self._compare(first, marked)
        self._database = Database(path / DATABASE, mode=mode, sync=self.write and self._synced)
        with self._database.reading(alone=self.write):
            self._compare(self._database, marked)
            if self.write:
                # Before files are deleted that its last commit does not name, and before a synced marker says that its
                # commits are there: a process that was killed may have left them to the system.
                self._database.sync_log()
            self._features = FeatureFiles(
                path, self.identity.table, write=self.write, sync=self._synced,
                segment_bytes=self.settings.segment_bytes,
            )  # fmt: skip
            self._read_head()  # files are cut to what it says
        if self.write:
            self._begin_writing()

    def _compare(self, database: Database, marked: Marked | None) -> None:
        """Read identity and settings. TableError where the database is not the marked one, or is older."""
        self.identity, seq = database.identity(), database.head().seq
        self.keep_features, self.uuid = self.identity.keep_features, self.identity.uuid
        self.settings = self._stored_settings(database).with_given(self._given)
        self._synced = self.settings.durability == "full"
        if marked is None:
            return
        if marked.table != self.identity.table:
            raise TableError(f"{self.path / MARKER} belongs to another table")
        if marked.seq > seq:
            raise TableError(
                f"{database.path} (or its -wal) is damaged: it ends with commit {seq}, but commit {marked.seq} was "
                f"acknowledged. Restore it from a copy, or delete {self.path / MARKER} to go on without the "
                f"{marked.seq - seq} lost. Nothing was changed."
            )

    def _stored_settings(self, database: Database) -> Settings:
        fields, policy = database.settings(), self._given.get("policy")
        try:
            return Settings.from_fields(fields, policy)
        except TableError:  # a policy that is not registered here, of which a reader needs only the name
            if self.write:
                raise
            return Settings.from_fields(fields, Unregistered(str(fields["policy"]["name"])))

    def _read_head(self) -> None:
        """Read the last commit, in a read transaction; for a reader, that may be a later one than before."""
        database, before = self._database, getattr(self, "head", None)
        head = database.head()
        database.watch_head()
        if self.keep_features:
            extend = before is not None and before.renumbered == head.renumbered
            again = [] if extend and self._features.segments is not None else list(database.unsynced())
            with self._reading:
                self._features.open(head, database.segments(), again, extend=extend)
        self.head = head

    def _begin_writing(self) -> None:
        with suppress(TableError, OSError):  # on a full disk, there is time
            self._flush()
        self._marker = CommitMarker(self.path / MARKER, self.identity.table, self.head.seq, self._synced)

    def store_settings(self) -> None:
        """Store the settings that were given, in place of the others; a full disk is no error."""
        fields = self.settings.to_fields()
        if fields != self._database.settings():
            with suppress(TableError), self._database.transaction("checkpoint"):
                self._database.put_settings(fields)

    def load(self) -> State:
        with refusing(self._database.path), self._database.reading(alone=self.write):
            self._read_head()
            loader = Loader(self._database, self._features.segments, self.identity, self.head)
            state = loader.load()
        self._since_checkpoint = loader.replayed
        if self.write and self._database.format < FORMAT:
            self._migrate(state)
        return state

    def _migrate(self, state: State) -> None:
        """Store a state that was read from a database of an older format in the format of today, in one transaction."""
        head, again = self.head, self._database.format == OLDEST  # whose items have no labels
        try:
            with self._database.transaction("migrate"):
                self._database.migrate()
                if again:
                    head = self._put_items(state)
        except OSError as error:
            raise not_written(self.path, error) from error
        self.head = head

    def reload(self, state: State) -> State | None:
        """A writer that compacts deletes files while they are being read; then there is a newer commit, which is read
        instead. Where this fails, everything is as it was."""
        if self.write:
            return None
        with self._database.reading():
            if self._database.head().seq == state.seq:
                return None
        held, missing = (self.head, self._features.segments), ""
        step_by_step = self.keep_features and state.model.encoder is not None
        while True:
            try:
                with refusing(self._database.path), self._database.reading():
                    self._read_head()
                    loader = Loader(self._database, self._features.segments, self.identity, self.head)
                    after = loader.catch_up(state) if step_by_step else None
                    return loader.load() if after is None else after
            except BaseException as error:
                self.head, self._features.segments = held
                if (
                    not isinstance(error, SegmentMissing) or str(error) == missing
                ):  # the same again: it is lost
                    raise
                missing, step_by_step = str(error), False

    # ---- writing

    def commit(
        self,
        change: Change,
        after: State,
        batch: Batch | None = None,
        feedback: Feedback | None = None,
        done: Sequence[Done] = (),
    ) -> None:
        database, head, added = self._database, self.head, change.added
        size, later = 0, True  # of the features, and whether they are synced later
        if batch is not None and added is not None:
            size = batch.X.nbytes if self.keep_features else 0
            later = self._features.syncs_later(size)
            shape = Shape(batch.X.shape[1], batch.X.dtype.str, kind_of(added.ids))
            head = replace(head, n_slots=added.first_slot + len(batch.X), shape=shape)
        learned = batch is not None and batch.learned
        whole = batch is not None and (not self._has_model or (learned and not self.keep_features))
        whole |= after.adopted == after.seq  # what cannot be learned again from what is stored
        self._features.refuse_if_broken()
        try:
            with database.transaction(settle=False):
                try:
                    if batch is not None and added is not None and self.keep_features:
                        # First of all: the system writes them to the disk while the rest is put together.
                        new = self._features.append(batch.X, head, added.first_slot, sync=not later)
                        if new is not None:
                            database.put_segment(new)
                            head = replace(head, next_segment=new.number + 1)
                    if batch is not None:
                        self._put_batch(batch, change, after, later=later and size > 0)
                    if feedback is not None:
                        database.put_feedback(_feedback_row(feedback, after))
                    if done:
                        head = database.put_done(done, head)
                    raw = pack(change_to_arrays(change, keep_features=self.keep_features))
                    database.put_change(after.seq, raw)
                    if self._features.unsynced and not later:
                        database.forget_unsynced()
                    if whole:
                        self._put_model(after)
                    head = replace(
                        head, seq=after.seq, live=len(after.view), sampled=len(after.sample),
                        memory=dict(after.memory), log_bytes=head.log_bytes + len(raw),
                        relabelled=after.relabelled, fields=kinds_of(after.view), comparison=after.comparison,
                        adopted=after.adopted,
                    )  # fmt: skip
                    database.put_head(head)
                    if size and not later:
                        self._features.sync()
                except BaseException:
                    self._undo(cut=True)  # while the transaction keeps others from writing
                    raise
        except OSError as error:
            self._undo(cut=False)
            raise not_written(self.path, error) from error
        except BaseException:
            self._undo(cut=False)
            raise
        self._features.committed(size, later=later)
        self.head = head
        if feedback is not None:
            self._since_checkpoint += len(feedback.slots)
        if batch is not None and learned:
            self._since_checkpoint += len(batch.X)
        if whole:
            self._since_checkpoint = 0
        self._acknowledge()

    def _put_batch(self, batch: Batch, change: Change, after: State, *, later: bool) -> None:
        """The rows of the database about a batch; in a transaction. later : whether its features are among them."""
        added = change.added
        assert added is not None
        crc = checksum(batch.X) if self.keep_features else 0
        row = BatchRow(
            after.seq, added.first_slot, len(batch.X), int(batch.learned), added.version, crc,
            model_checksum(after.model), pack_labels(batch.y),
        )  # fmt: skip
        self._database.put_batch(row)
        if batch.payloads is not None:
            self._database.put_payloads(self.head.renumbered, row.first_slot, batch.payloads)
        if later:
            self._database.put_unsynced(row.first_slot, batch.X.data.cast("B"), crc)

    @property
    def _has_model(self) -> bool:
        """Whether a model that encodes was saved: with the first batch, which nothing else can be learned from."""
        return self.head.shape is not None

    def _undo(self, *, cut: bool) -> None:
        """Forget rows that were appended; see `FeatureFiles.undo`."""
        if not self._database.in_doubt:  # if so, they may be committed: whoever opens the folder next decides
            self._features.undo(cut=cut)

    def _acknowledge(self) -> None:
        """Note the last commit outside the database."""
        assert self._marker is not None
        self._marker.note(self.head.seq, self._synced)

    def settled(self) -> None:
        self._database.settled()
        if self._features.replaced is not None:
            with self._files:  # not while `snapshot` copies them
                self._features.delete_replaced()

    @property
    def in_doubt(self) -> bool:
        return self._database.in_doubt or self._features.half_written

    def refuse_in_fork(self, process: int) -> None:
        raise TableError(forked(self.path, process))

    # ---- calls that were done

    def done(self, key: str) -> Done | None:
        with self._database.reading():
            return self._database.done(key)

    def all_done(self) -> Iterator[Done]:
        with self._reading, (second := self._second()).reading():
            found = second.all_done()
        yield from found

    def remember(self, calls: Sequence[Done]) -> None:
        """Store calls that another storage remembers, in this one, which is new."""
        if calls:
            with self._database.transaction("checkpoint"):
                head = self._database.put_done(calls, self.head)
                self._database.put_head(head)
            self.head = head

    # ---- checkpoints

    def checkpoint_due(self) -> bool:
        return self._since_checkpoint >= self.settings.checkpoint_rows or self._items_due()

    def _items_due(self, *, closing: bool = False) -> bool:
        # Whoever closes has the time, and whoever opens next has less to read.
        enough = self.head.items_bytes // 2 if closing else 2 * self.head.items_bytes
        return self.head.log_bytes > max(LOG_BYTES, enough) or self.head.seq - self.head.items_seq > LOG_ROWS

    def checkpoint(self, state: State, history: dict[str, Any] | None, *, closing: bool = False) -> None:
        try:
            if self._since_checkpoint:
                self._flush()
                with self._database.transaction("checkpoint"):
                    self._put_model(state)
                    if history is not None:
                        self._database.put_history(history)
                self._since_checkpoint = 0
            elif history is not None:
                with self._database.transaction("checkpoint"):
                    self._database.put_history(history)
            if self._items_due(closing=closing):
                with self._database.transaction("checkpoint"):
                    head = self._put_items(state)
                self.head = head
            self._flush()
        except OSError as error:
            raise not_written(self.path, error) from error

    def _put_items(self, state: State) -> Head:
        """All items, in the place of the changes so far; in a transaction, after which the head is what is returned."""
        arrays = items_to_arrays(state.view, state.sample, keep_features=self.keep_features)
        size = self._database.put_items(arrays)
        self._database.forget_changes()
        head = replace(self.head, items_seq=self.head.seq, items_bytes=size, log_bytes=0)
        self._database.put_head(head)
        return head

    def _put_model(self, state: State) -> None:
        """The model, and the encoders of older versions that are alive."""
        view, stored = state.view, self._database.encoder_versions()
        old = [version for version in view.encoders if version != view.newest]
        for version in old:
            if version not in stored:
                raw = encoder_to_bytes(view.encoders[version])
                self._database.put_encoder(ModelRow(version, state.seq, raw))
        self._database.forget_encoders(stored - set(old))
        self._database.put_checkpoint(ModelRow(view.newest, state.seq, to_bytes(state.model.hasher)))
        if state.created is not None:
            self._database.put_created(state.created)
        self._database.forget_feedback(state.seq)

    def _flush(self) -> None:
        """Sync features that have been left to the system so far."""
        if not self.write or self._features.segments is None:
            return
        self._features.segments.sync_rows()
        if self._features.unsynced:
            with self._database.transaction("checkpoint"):
                self._database.forget_unsynced()
            self._features.unsynced = 0

    def harden(self) -> None:
        if not self.write or self._synced:
            return
        with self._database.transaction("checkpoint", sync=True):
            self._database.put_head(self.head)
        if self._marker is not None:
            self._marker.note(self.head.seq, True)

    def history(self) -> dict[str, Any] | None:
        with self._reading, (second := self._second()).reading():
            found = second.history()
        with refusing(self._database.path):
            History.from_fields(found)
        return found

    # ---- compaction and copies

    def compact(self, state: State) -> tuple[State, Callable[[], None]]:
        self._features.refuse_if_broken()
        with self._database.reading(alone=True):
            self._database.refuse_if_overtaken()
            self._verify_all()  # what is copied gets a new checksum
        new = self._rewrite(self, state)
        return new.state, lambda: self._go_over(new)

    def fill(self, source: Source, state: State, history: dict[str, Any] | None) -> None:
        """Store all that another storage holds, in this one, which is empty."""
        self._go_over(self._rewrite(source, state))
        self._database.settled()
        if history is not None:
            with self._database.transaction("checkpoint"):
                self._database.put_history({**history, "seq": self.head.seq})

    def _rewrite(self, source: Source, state: State) -> Rewritten:
        with self._database.reading(alone=True):
            self._database.refuse_if_overtaken()
            self._features.delete_others()

        def begin(shape: Shape) -> FileSegments:
            return self._features.begin(shape, self.head.next_segment)

        with self._files:
            try:
                return rewrite(source, self._database, self.head, state, begin)
            except OSError as error:
                raise not_written(self.path, error) from error

    def _go_over(self, new: Rewritten) -> None:
        """Go on with the files of a compaction; the old ones are deleted when that is settled."""
        self.head = new.head  # before the files: who reads meanwhile notices that slots were renumbered
        self._features.replace(new.segments)
        self._since_checkpoint = 0
        self._acknowledge()

    def snapshot(self, path: Path, state: State, history: dict[str, Any] | None) -> None:
        if self.path.resolve() in path.resolve().parents:
            raise TableError(f"{path} is in the table's own folder: a snapshot needs one elsewhere")
        with self._files:
            copy_folder(self.path, path, self.identity.table, self._copy_database)

    def _copy_database(self, path: Path) -> None:
        with self._reading:
            self._second().copy_to(path)

    # ---- reading

    def payloads(self, slots: np.ndarray, generation: int) -> list[str | None]:
        with self._reading, (second := self._second()).reading():
            _refuse_if_renumbered(second, generation)
            return second.payloads(generation, slots.tolist())

    def _check_generation(self, generation: int) -> None:
        """`Overtaken` where slots have been renumbered since `generation`, in this process or another."""
        with self._reading, (second := self._second()).reading():
            _refuse_if_renumbered(second, generation)
        if generation != self.head.renumbered:
            raise Overtaken

    def read(self, slots: np.ndarray, generation: int) -> np.ndarray:
        try:
            X = self.features(slots)
        except TableError:
            self._check_generation(generation)  # a compaction deletes files: then this says that it was one
            raise
        self._check_generation(generation)
        return X

    def _second(self) -> Database:
        """A connection for reading while the other one writes, to be used while holding `_reading`."""
        if self._closed:
            raise Closed("the table is closed")
        if self._reader is None:
            self._reader = Database(self.path / DATABASE, mode="read")
        self._reader.check_files()
        return self._reader

    def batches(self) -> Iterator[StoredBatch]:
        for row in self._database.batches():
            yield StoredBatch(row.seq, row.first_slot, row.n_rows, row.version)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        yield from self._features.blocks(first, last, self._batches_below)
        reach("refresh.piece")

    def features(self, slots: np.ndarray) -> np.ndarray:
        return self._features.take(slots, self._batches_below)

    def _batches_below(self, slot: int) -> list[BatchRow]:
        with self._reading, (second := self._second()).reading():
            _refuse_if_renumbered(second, self.head.renumbered)
            return list(second.batches_below(slot))

    def verify(self, state: State) -> tuple[int, int]:
        database = self._database
        database.quick_check()
        try:
            with database.reading():
                if database.head().seq != state.seq:
                    raise Overtaken
                found = self._verify_all()
                database.verify_rows()
            return found
        except SegmentMissing:
            self._check_generation(state.generation)  # `Overtaken` where a compaction has deleted it
            raise

    def _verify_all(self) -> tuple[int, int]:
        """Compare all features with their checksums, also those that were compared before: how many batches and rows.
        In a block of `Database.reading`."""
        n_batches, n_rows = self._features.verify_all(self._database.batches())
        if n_rows != self.head.n_slots:
            raise TableError(f"{self._database.path} is damaged: it lacks the batch of slot {n_rows}")
        return n_batches, n_rows

    @property
    def feature_bytes(self) -> int:
        segments = self._features.segments
        return 0 if segments is None else segments.nbytes

    @property
    def where(self) -> str:
        return str(self._database.path)

    @property
    def disk_bytes(self) -> int:
        total = 0
        for path in self.path.iterdir():
            with suppress(FileNotFoundError):  # files come and go while others write
                total += path.stat().st_size
        return total

    # ---- closing, and forks

    def close(self) -> None:
        if os.getpid() != self._process:
            return  # see `_after_fork`
        with self._reading:  # SQLite, closed while another thread reads, takes the process with it
            self._closed = True
            features = getattr(self, "_features", None)
            segments = None if features is None else features.segments
            for thing in (segments, self._reader, getattr(self, "_database", None), self._marker):
                with suppress(sqlite3.Error):  # nothing is open any more that could be lost
                    if thing is not None:
                        thing.close()
        if self._lock is not None:
            self._lock.release()

    def _refuse_if_inherited(self) -> None:
        """TableError where SQLite has a connection to the same file that is not this process's: it would believe that
        it holds the locks of that one."""
        for name in (DATABASE, MARKER):
            refuse_unless_file(self.path / name)
        if is_table(self.path):
            found = os.stat(self.path / DATABASE)
            self._inode = (found.st_dev, found.st_ino)
        if self._inode in _inherited:
            raise TableError(
                f"{self.path} was open when this process was forked, so it cannot be opened here: fork before it is "
                'opened, or start processes afresh (multiprocessing\'s "spawn")'
            )

    def _leave_to_parent(self) -> None:
        """In a forked process: let go of the inherited handles. The lock stays the parent's, also when it ends."""
        if not self._closed:
            _inherited.add(self._inode)
        if self._lock is not None:
            self._lock.release()
        if self._marker is not None:
            self._marker.close()
        for database in (self._reader, getattr(self, "_database", None)):
            if database is not None:
                database.abandon()


def _feedback_row(feedback: Feedback, after: State) -> FeedbackRow:
    y, old = pack_labels(feedback.y), pack_labels(feedback.old)
    assert y is not None
    crc, slots = checksum(feedback.X), feedback.slots.astype(np.uint32).tobytes()
    return FeedbackRow(after.seq, after.model.version, crc, model_checksum(after.model), slots, y, old)


def _refuse_if_renumbered(database: Database, generation: int) -> None:
    """`Overtaken` where slots have been renumbered since `generation`; in a block of `Database.reading`."""
    if database.head().renumbered != generation:
        raise Overtaken


def _after_fork() -> None:
    for storage in list(_open):
        storage._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
