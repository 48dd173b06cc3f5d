"""The manifest: one SQLite file with everything but the features. Its transactions are the table's only commits.

It is in WAL mode: a commit is one append and one fsync (a rollback journal needs three), and readers of other processes
go on while it is written. With durability "full" (synchronous=FULL) every commit is synced before it returns; with
"fast" (synchronous=NORMAL) none is: the file stays whole after a power loss, but may be older than what was
acknowledged.

Where syncs take long, the features of a small batch stand here too, until their segment is synced, which is then done
once for many batches: a commit costs one sync, not two. After a power loss they are written to the segment again.

SQLite has no checksums of its own outside the log, so every row here has one, over all of its fields. What is read
is verified when it is read.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.table.errors import REOPEN, TableError, forked
from hashstream.table.failpoints import reach
from hashstream.table.file_segments import sync_folder
from hashstream.table.lock import LOCK, holder
from hashstream.table.packing import checked, checksum, pack, unpack

__all__ = ["FORMAT", "Manifest"]

APPLICATION = 0x48535442  # "HSTB"
FORMAT = 1
PAGE_BYTES = 8192  # large blobs take half the time that they take in pages of the usual size
CACHE_KB = 512  # of pages that a connection keeps: nearly all that is read is read once
WAL_PAGES = (
    1024  # 8 MB of log before it is carried over into the file; then it is used again, which syncs quicker
)
WAIT = 30  # seconds for other processes that hold the database
BLOB_BYTES = 1 << 18  # of an image's part in one row

# Columns by name: where the stored schema is damaged, SQLite says so.
BATCH = "seq, first_slot, n_rows, learned, version, features_crc, model_crc, y, crc"

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE segments (number INTEGER PRIMARY KEY, first_slot INTEGER NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE batches (
    seq INTEGER PRIMARY KEY, first_slot INTEGER NOT NULL, n_rows INTEGER NOT NULL, learned INTEGER NOT NULL,
    version INTEGER NOT NULL, features_crc INTEGER NOT NULL, model_crc INTEGER NOT NULL, y BLOB, crc INTEGER NOT NULL);
CREATE UNIQUE INDEX batch_slots ON batches (first_slot);
CREATE TABLE unsynced (first_slot INTEGER PRIMARY KEY, features BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE log (seq INTEGER PRIMARY KEY, change BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE image (name TEXT, part INTEGER, bytes BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (name, part));
CREATE TABLE models (kind TEXT, version INTEGER, seq INTEGER NOT NULL, hasher BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (kind, version));
"""


class Manifest:
    """Rows of the manifest, checked. One connection that writes (or reads), used under the table's lock."""

    def __init__(self, path: Path, *, mode: str, sync: bool = True) -> None:
        """mode : "create", "write" or "read"."""
        self.path = path
        self._unsure, self._sync = False, sync
        self._process = os.getpid()
        self._state: str | None = None  # what the state is if nobody else has written
        self._next_state: str | None = None
        self._files: dict[str, os.stat_result] = {}
        if mode != "create" and not path.exists():
            raise TableError(f"{path} is not there: {path.parent} is not a table")
        uri = f"{path.absolute().as_uri()}?mode={'ro' if mode == 'read' else 'rwc' if mode == 'create' else 'rw'}"
        try:
            self._db = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=WAIT
            )
        except sqlite3.Error as error:
            raise self.damaged(error) from error
        try:
            if mode == "create":
                self._create()
            else:
                self._check_format()
            if mode != "read":
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
                self._db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
                self._db.execute("PRAGMA secure_delete = OFF")  # or what is deleted is written once more
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.Error):
                raise self.damaged(error) from error
            raise

    def _create(self) -> None:
        self._db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; {SCHEMA} COMMIT;"
        )

    def _check_format(self) -> None:
        self._db.execute(f"PRAGMA cache_size = {-CACHE_KB}")
        application = self._one("PRAGMA application_id")[0]
        version = self._one("PRAGMA user_version")[0]
        if application != APPLICATION:
            raise TableError(f"{self.path} is damaged, or not the manifest of a table")
        if version > FORMAT:
            raise TableError(
                f"{self.path} has format {version}; this version of hashstream reads up to {FORMAT}: update hashstream"
            )
        if version < 1:
            raise TableError(f"{self.path} is damaged: its format is {version}")

    def damaged(self, error: sqlite3.Error) -> TableError:
        text = str(error)
        if isinstance(
            error, sqlite3.ProgrammingError
        ):  # a connection that was closed, by another thread perhaps
            return TableError(f"{self.path} cannot be used: {text}")
        if "full" in text:
            return TableError(
                f"the disk is full: {self.path} could not be written. The table is as it was before."
            )
        if "readonly" in text:
            return TableError(
                f"{self.path} cannot be used: this user has no right to write to {self.path.parent}, which SQLite "
                "needs even to read. Change its rights, or copy it to where you may write."
            )
        if "unable to open" in text and self.path.exists() and not os.access(self.path, os.R_OK):
            text = "this user has no right to read it. Change its rights, or run this as its owner."
        if "locked" in text:
            return TableError(
                f"{self.path} has been locked for {WAIT} seconds by {holder(self.path.with_name(LOCK))}, which may "
                "have been stopped while it was closing the table: let it go on, or end it, and try again"
            )
        if any(words in text for words in ("no right", "unable to open", "disk I/O error")):
            return TableError(f"{self.path} cannot be read or written: {text}")
        return TableError(f"{self.path} is damaged: {text}. Restore it from a copy; nothing was changed.")

    def _one(self, sql: str, *values: Any) -> Any:
        return self._db.execute(sql, values).fetchone()

    def _all(self, sql: str, *values: Any) -> list[Any]:
        return self._db.execute(sql, values).fetchall()

    # ---- transactions

    @property
    def unsure(self) -> bool:
        """Whether a commit failed, or was interrupted, in a way that leaves open what is on the disk, or whether it is
        what is in memory: only opening it anew tells."""
        return self._unsure

    def settled(self) -> None:
        """What was committed is in memory, too."""
        self._unsure = False

    def watch_state(self) -> None:
        """From now on, refuse a transaction where the state is not what it is now, or what was written here last: then
        another process has written, whatever the locks say. In a block of `reading`."""
        self._state = self._one("SELECT value FROM meta WHERE key = 'state'")[0]

    def refuse_if_overtaken(self) -> None:
        """TableError where another process has written; in a transaction, or a block of `reading` alone."""
        found = self._one("SELECT value FROM meta WHERE key = 'state'")
        if self._state is not None and (found is None or found[0] != self._state):
            raise TableError(
                f"another process has written to {self.path.parent} since it was opened here: nothing was changed. "
                "Close this table and open it again, and let one process write at a time."
            )

    def _refuse_if_forked(self) -> None:
        if os.getpid() != self._process:
            raise TableError(forked(self.path.parent, self._process))

    def check_files(self) -> None:
        """TableError where a file of the database was deleted, replaced or cut while it was open: what is written to it
        would be lost.

        SQLite maps `-shm`, so to read what was cut off would end the process. It is an index of the log, which SQLite
        makes again where it finds zeros, so its length is restored.
        """
        for name in (str(self.path), f"{self.path}-wal", f"{self.path}-shm"):
            known = self._files.get(name)
            try:
                found = os.stat(name)
            except FileNotFoundError:
                if known is not None:
                    raise TableError(f"{name} was deleted while the table was open: {REOPEN}") from None
                continue
            if known is not None and (found.st_ino, found.st_dev) != (known.st_ino, known.st_dev):
                raise TableError(f"{name} was replaced while the table was open: {REOPEN}")
            if known is not None and found.st_size < known.st_size:
                if not name.endswith("-shm"):
                    raise TableError(f"{name} was cut while the table was open: {REOPEN}")
                os.truncate(name, known.st_size)
                continue
            self._files[name] = found

    def transaction(
        self, name: str = "commit", *, sync: bool = False, settle: bool = True
    ) -> AbstractContextManager[None]:
        """All or nothing; passes the fail-points `name`.before and `name`.after.

        From its beginning on, no other process can commit, and the state is known to be the last one of this process.

        sync : make this commit, and all before it, durable even where none is as a rule.
        settle : whether nothing is left to do when it has happened; otherwise `settled` says when.
        """
        return _Transaction(self, name, sync and not self._sync, settle)

    def reading(self, *, alone: bool = False) -> AbstractContextManager[None]:
        """All reads within the block see one commit. alone : nobody can commit meanwhile, either."""
        return _Reading(self, alone)

    def begin(self, sql: str, *, sync: bool = False) -> None:
        self._refuse_if_forked()
        self.check_files()
        self._roll_back()  # what an interrupt may have left
        if sync:
            self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(sql)

    def begin_writing(self, *, sync: bool) -> None:
        if self._unsure:
            raise TableError(
                f"the last commit to {self.path} failed half-way: close the table and open it again"
            )
        self._next_state = self._state
        try:
            self.begin("BEGIN IMMEDIATE", sync=sync)
            self.refuse_if_overtaken()
        except BaseException as error:
            self.give_up(error)
            raise

    def commit(self, name: str) -> None:
        try:
            reach(f"{name}.before")
            self.check_files()
            self._unsure = True  # an interrupt (Ctrl-C) may come anywhere from here on
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._unsure = "full" not in str(error)
                raise
        except BaseException as error:
            self.give_up(error)
            raise
        self._state = self._next_state

    def give_up(self, error: BaseException) -> None:
        """Roll back what failed with an error; a TableError in the place of one of SQLite's."""
        if os.getpid() != self._process:
            return  # the transaction is the parent's
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    self._unsure = False
        except sqlite3.Error as second:
            raise self.damaged(second) from error
        if isinstance(error, sqlite3.Error):
            raise self.damaged(error) from error

    def end_sync(self) -> None:
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA synchronous = NORMAL")

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def end_reading(self, error: BaseException | None) -> None:
        """A TableError in the place of errors that a damaged page brings."""
        if os.getpid() != self._process:
            return  # the transaction is the parent's
        try:
            if error is None and self._db.in_transaction:
                self._db.execute("COMMIT")
            elif error is not None:
                with suppress(
                    sqlite3.ProgrammingError
                ):  # closed meanwhile, by a signal's handler, which then raised
                    self._roll_back()
        except sqlite3.Error as second:
            raise self.damaged(second) from error
        if isinstance(error, sqlite3.Error):
            raise self.damaged(error) from error
        if isinstance(error, (UnicodeDecodeError, OverflowError)):  # text of a damaged page
            raise TableError(f"{self.path} is damaged: {error}") from error

    # ---- small facts

    def put(self, key: str, value: Any) -> None:
        text = json.dumps(value, sort_keys=True)
        if key == "state":
            self._next_state = text
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, text, checksum(key, text)))

    def get(self, key: str) -> Any:
        value = self.find(key)
        if value is None:
            raise TableError(f"{self.path} is damaged: it does not say {key!r}")
        return value

    def find(self, key: str) -> Any:
        """None where it is not there."""
        row = self._one("SELECT value, crc FROM meta WHERE key = ?", key)
        if row is None:
            return None
        checked(f"{self.path} ({key})", row[1], key, row[0])
        return json.loads(row[0])

    def put_segment(self, number: int, first_slot: int) -> None:
        self._db.execute(
            "INSERT INTO segments VALUES (?, ?, ?)", (number, first_slot, checksum(number, first_slot))
        )

    def segments(self) -> list[tuple[int, int]]:
        """(number, first slot) of each, ascending."""
        rows = self._all("SELECT number, first_slot, crc FROM segments ORDER BY number")
        for number, first_slot, crc in rows:
            checked(f"{self.path} (segment {number})", crc, number, first_slot)
            self._typed("segment", (number, first_slot), int, int)
        return [(number, first_slot) for number, first_slot, _ in rows]

    def _typed(self, what: str, fields: Sequence[Any], *types: Any) -> None:
        """TableError where a row has fields of other types: SQLite keeps whatever it was given."""
        for field, one in zip(fields, types, strict=True):
            if not isinstance(field, one):
                raise TableError(
                    f"{self.path} is damaged: a {what} has a field of type {type(field).__name__}"
                )

    # ---- batches

    def put_batch(self, *fields: Any) -> None:
        """seq, first_slot, n_rows, learned, version, features_crc, model_crc, y."""
        self._db.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*fields, checksum(*fields))
        )

    def batches(self, where: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The fields of `put_batch` for batches that fulfil a condition, in order."""
        for *fields, crc in self._db.execute(
            f"SELECT {BATCH} FROM batches WHERE {where} ORDER BY seq", values
        ):
            checked(f"{self.path} (batch {fields[0]})", crc, *fields)
            self._typed("batch", fields, *[int] * 7, bytes | None)
            yield tuple(fields)

    # ---- features of batches whose segment has not been synced since

    def put_unsynced(self, first_slot: int, features: bytes | memoryview, crc: int) -> None:
        """crc : checksum of the features, which is known already."""
        crc = checksum(first_slot, crc)
        self._db.execute("INSERT INTO unsynced VALUES (?, ?, ?)", (first_slot, features, crc))

    def unsynced(self) -> Iterator[tuple[int, bytes]]:
        """(first slot, bytes of the rows) of each, ascending."""
        for first, features, crc in self._db.execute(
            "SELECT first_slot, features, crc FROM unsynced ORDER BY first_slot"
        ):
            self._typed("features", (first, features), int, bytes)
            checked(f"{self.path} (features from slot {first})", crc, first, checksum(features))
            yield first, features

    def forget_unsynced(self) -> None:
        self._db.execute("DELETE FROM unsynced")

    # ---- changes since the image

    def put_change(self, seq: int, raw: bytes) -> None:
        self._db.execute("INSERT INTO log VALUES (?, ?, ?)", (seq, raw, checksum(seq, raw)))

    def changes(self, after: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        for seq, raw, crc in self._db.execute(
            "SELECT seq, change, crc FROM log WHERE seq > ? ORDER BY seq", (after,)
        ):
            checked(f"{self.path} (change {seq})", crc, seq, raw)
            self._typed("change", (seq, raw), int, bytes)
            yield seq, unpack(raw)

    def forget_changes(self) -> None:
        self._db.execute("DELETE FROM log")

    # ---- the image: all items as of one change

    def put_image(self, arrays: dict[str, np.ndarray]) -> int:
        """Instead of the last one; returns how many bytes it has."""
        self._db.execute("DELETE FROM image")
        total = 0
        for name, array in arrays.items():
            rows = max(1, BLOB_BYTES // max(1, array.itemsize * int(np.prod(array.shape[1:]))))
            for part, start in enumerate(range(0, max(1, len(array)), rows)):
                raw = pack({"": array[start : start + rows]})
                total += len(raw)
                self._db.execute(
                    "INSERT INTO image VALUES (?, ?, ?, ?)", (name, part, raw, checksum(name, part, raw))
                )
        return total

    def image(self) -> dict[str, np.ndarray]:
        # Parts are copied to where they belong one by one: what is needed for a while is small, and leaves no holes.
        sizes = dict(self._all("SELECT name, sum(length(bytes)) FROM image GROUP BY name"))
        arrays: dict[str, np.ndarray] = {}
        used: dict[str, int] = {}
        for name, part, raw, crc in self._db.execute(
            "SELECT name, part, bytes, crc FROM image ORDER BY name, part"
        ):
            checked(f"{self.path} (image, {name})", crc, name, part, raw)
            self._typed("image", (name, part, raw), str, int, bytes)
            rows = unpack(raw)[""]
            if name not in arrays:
                room = sizes[name] // (rows.itemsize * int(np.prod(rows.shape[1:])))
                arrays[name], used[name] = np.empty((room, *rows.shape[1:]), rows.dtype), 0
            arrays[name][used[name] : used[name] + len(rows)] = rows
            used[name] += len(rows)
        return {name: array[: used[name]] for name, array in arrays.items()}

    # ---- hash functions

    def put_model(self, kind: str, version: int, seq: int, raw: bytes) -> None:
        """kind : "checkpoint", of which there is one, or "encoder", one for each old version alive."""
        if kind == "checkpoint":
            self._db.execute("DELETE FROM models WHERE kind = 'checkpoint'")
        fields = (kind, version, seq, raw)
        self._db.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?, ?)", (*fields, checksum(*fields)))

    def models(self, kind: str) -> Iterator[tuple[int, int, bytes]]:
        """(version, seq, bytes) of each."""
        for fields in self._db.execute(
            "SELECT kind, version, seq, hasher, crc FROM models WHERE kind = ? ORDER BY version", (kind,)
        ):
            checked(f"{self.path} ({kind} {fields[1]})", fields[4], *fields[:4])
            self._typed(kind, fields[:4], str, int, int, bytes)
            yield fields[1], fields[2], fields[3]

    def encoders(self) -> set[int]:
        """The versions that have one."""
        return {version for (version,) in self._all("SELECT version FROM models WHERE kind = 'encoder'")}

    def forget_encoders(self, versions: set[int]) -> None:
        for version in versions:
            self._db.execute("DELETE FROM models WHERE kind = 'encoder' AND version = ?", (version,))

    # ---- whole files

    def forget_items(self) -> None:
        """All rows about items, before others take their place."""
        for name in ("batches", "segments", "unsynced", "log", "image"):
            self._db.execute(f"DELETE FROM {name}")

    def quick_check(self) -> None:
        """SQLite's own check of its pages."""
        self.check_files()
        try:
            found = self._all("PRAGMA quick_check(1)")
        except sqlite3.Error as error:
            raise self.damaged(error) from error
        if found != [("ok",)]:
            raise TableError(f"{self.path} is damaged: {found[0][0]}")

    def copy_to(self, path: Path) -> None:
        """A consistent copy, of one commit, while others write; OSError where there is no room for it."""
        try:
            self._db.execute("VACUUM INTO ?", (path.absolute().as_uri(),))  # the name need not be UTF-8
        except sqlite3.Error as error:
            if "full" in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
            raise self.damaged(error) from error

    def sync_log(self) -> None:
        """Make the commits in the log durable, whoever made them: a process that was killed between the writing of a
        commit and its sync has left it to the system.

        The manifest itself needs none, as SQLite syncs what it moves there before it uses the log again. Nor may it be
        opened here: with the file, its locks would be let go of.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        with suppress(FileNotFoundError), log.open("r+b") as file:
            os.fsync(file.fileno())
        sync_folder(self.path.parent)

    def abandon(self) -> None:
        """In a forked process: leave the connection to the parent. SQLite forbids its use here, closing it included. So
        the object is never collected."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._db))

    def close(self) -> None:
        if os.getpid() != self._process:
            return
        with suppress(TableError, OSError):
            self.check_files()
        self._db.close()


@dataclass(frozen=True)
class _Transaction(AbstractContextManager[None]):
    """A class, not a generator: a generator that an interrupt has left in the middle would end later, when it is
    collected, and then roll back whatever transaction there is."""

    manifest: Manifest
    name: str
    sync: bool
    settle: bool

    def __enter__(self) -> None:
        self.manifest.begin_writing(sync=self.sync)

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                self.manifest.commit(self.name)
            else:
                self.manifest.give_up(error)
        finally:
            if self.sync:
                self.manifest.end_sync()
        if error is None:
            reach(f"{self.name}.after")
            if self.settle:
                self.manifest.settled()


@dataclass(frozen=True)
class _Reading(AbstractContextManager[None]):
    manifest: Manifest
    alone: bool

    def __enter__(self) -> None:
        try:
            self.manifest.begin("BEGIN IMMEDIATE" if self.alone else "BEGIN")
        except BaseException as error:
            self.manifest.end_reading(error)
            raise

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self.manifest.end_reading(error)
