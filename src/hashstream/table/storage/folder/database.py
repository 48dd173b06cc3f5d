"""The database: one SQLite file with everything but the features. Its transactions are the table's only commits.

All SQL of a table is here. Rows come back as the typed records of `records.py`.

It is in WAL mode: a commit is one append and one fsync (a rollback journal needs three), and readers of other processes
go on while it is written. With durability "full" (synchronous=FULL) every commit is synced before it returns; with
"fast" (synchronous=NORMAL) none is: the file stays whole after a power loss, but may be older than what was
acknowledged.

Where syncs take long, the features of a small batch are stored here too until their segment is synced, which is then
done once for many batches: a commit costs one sync, not two. After a power loss they are written to the segment again.

SQLite has no checksums of its own outside the log, so every row here has one, over all of its fields. What is read
is verified when it is read.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.table.errors import OutcomeUnknown, TableError, forked
from hashstream.table.state.change import Done
from hashstream.table.storage.base import MOST_KEYS
from hashstream.table.storage.folder.failpoints import reach
from hashstream.table.storage.folder.open_files import OpenFiles, explained
from hashstream.table.storage.folder.records import (
    FORMAT,
    OLDEST,
    BatchRow,
    FeedbackRow,
    Head,
    Identity,
    ModelRow,
    SegmentRow,
    check_format,
    checked,
    checksum,
    pack,
    unpack,
)
from hashstream.table.storage.folder.segments import sync_folder

__all__ = ["Database"]

APPLICATION = 0x48535442  # "HSTB"
PAGE_BYTES = 8192  # large blobs take half the time that they take in pages of the usual size
CACHE_KB = 512  # of pages that a connection keeps: nearly all that is read is read once
WAL_PAGES = (
    1024  # 8 MB of log before it is carried over into the file; then it is used again, which syncs quicker
)
WAIT = 30  # seconds for other processes that hold the database
BLOB_BYTES = 1 << 18  # of the items in one row

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
CREATE TABLE items (name TEXT, part INTEGER, bytes BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (name, part));
CREATE TABLE models (kind TEXT, version INTEGER, seq INTEGER NOT NULL, hasher BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (kind, version));
"""
SINCE_3 = """
CREATE TABLE feedback (
    seq INTEGER PRIMARY KEY, version INTEGER NOT NULL, features_crc INTEGER NOT NULL, model_crc INTEGER NOT NULL,
    slots BLOB NOT NULL, y BLOB NOT NULL, old BLOB, crc INTEGER NOT NULL);
CREATE TABLE payloads (generation INTEGER, slot INTEGER, json TEXT NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (generation, slot)) WITHOUT ROWID;
"""
SINCE_4 = """
CREATE TABLE keys (key TEXT PRIMARY KEY, number INTEGER NOT NULL, fingerprint INTEGER NOT NULL, result INTEGER,
    crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE UNIQUE INDEX key_numbers ON keys (number);
"""
MIGRATIONS = {3: SINCE_3, 4: SINCE_4}  # by the format that they lead to


class Database:
    """Rows of the database, checked. One connection that writes (or reads), used under the table's lock."""

    def __init__(self, path: Path, *, mode: str, sync: bool = True) -> None:
        """mode : "create", "write", "read", or "copied": as "write", but for a new copy, without a log."""
        self.path = path
        self._in_doubt, self._sync = False, sync
        self._process = os.getpid()
        self._head: str | None = None  # the head as it is if nobody else has written
        self._next_head: str | None = None
        self._files = OpenFiles(path)
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
            if mode in ("create", "write"):
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
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; {SCHEMA} "
            f"{' '.join(MIGRATIONS.values())} COMMIT;"
        )

    def _check_format(self) -> None:
        self._db.execute(f"PRAGMA cache_size = {-CACHE_KB}")
        application = self._one("PRAGMA application_id")[0]
        if application != APPLICATION:
            raise TableError(f"{self.path} is damaged, or not the database of a table")
        check_format(str(self.path), self.format, FORMAT)

    @property
    def format(self) -> int:
        """As it is stored: a reader may see it change."""
        return int(self._one("PRAGMA user_version")[0])

    def migrate(self) -> None:
        """In a transaction: add the tables that an older format lacks. From format 2, the caller stores the items
        again."""
        found = self.format
        for number, statements in MIGRATIONS.items():
            for statement in filter(str.strip, statements.split(";") if found < number else ()):
                self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def damaged(self, error: sqlite3.Error) -> TableError:
        """A sentence about an error of SQLite."""
        return explained(self.path, error, WAIT)

    def _one(self, sql: str, *values: Any) -> Any:
        return self._db.execute(sql, values).fetchone()

    def _all(self, sql: str, *values: Any) -> list[Any]:
        return self._db.execute(sql, values).fetchall()

    # ---- transactions

    @property
    def in_doubt(self) -> bool:
        """Whether a commit failed, or was interrupted, in a way that leaves open what is on the disk, or whether it is
        what is in memory: only opening it again tells."""
        return self._in_doubt

    def settled(self) -> None:
        """Note that the committed state is in memory, too: no longer in doubt."""
        self._in_doubt = False

    def watch_head(self) -> None:
        """From now on, refuse a transaction where the head is not what it is now, or what was written here last: then
        another process has written, whatever the locks say. In a block of `reading`."""
        self._head = self._one("SELECT value FROM meta WHERE key = 'head'")[0]

    def refuse_if_overtaken(self) -> None:
        """TableError where another process has written; in a transaction, or a block of `reading` alone."""
        found = self._one("SELECT value FROM meta WHERE key = 'head'")
        if self._head is not None and (found is None or found[0] != self._head):
            raise TableError(
                f"another process has written to {self.path.parent} since it was opened here: nothing was changed. "
                "Close this table and open it again, and let one process write at a time."
            )

    def _refuse_if_forked(self) -> None:
        if os.getpid() != self._process:
            raise TableError(forked(self.path.parent, self._process))

    def check_files(self) -> None:
        """TableError where a file was deleted, replaced or cut while it was open."""
        self._files.check()

    def transaction(
        self, name: str = "commit", *, sync: bool = False, settle: bool = True
    ) -> AbstractContextManager[None]:
        """All or nothing; passes the fail-points `name`.before and `name`.after.

        From its beginning on, no other process can commit, and the head is known to be the last one of this process.

        sync : make this commit, and all before it, durable even where none is as a rule.
        settle : whether nothing is left to do when it has happened; otherwise `settled` says when.
        """
        return _Transaction(self, name, sync and not self._sync, settle)

    def reading(self, *, alone: bool = False) -> AbstractContextManager[None]:
        """All reads within the block see one commit. alone : nobody can commit meanwhile, either."""
        return _Reading(self, alone)

    def begin(self, sql: str, *, sync: bool = False) -> None:
        self._refuse_if_forked()
        self._files.check()
        self._roll_back()  # what an interrupt may have left
        if sync:
            self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(sql)

    def begin_writing(self, *, sync: bool) -> None:
        if self._in_doubt:
            raise OutcomeUnknown(
                f"the last write to {self.path} was interrupted and its outcome is unknown: close and reopen the table"
            )
        self._next_head = self._head
        try:
            self.begin("BEGIN IMMEDIATE", sync=sync)
            self.refuse_if_overtaken()
        except BaseException as error:
            self.give_up(error)
            raise

    def commit(self, name: str) -> None:
        try:
            reach(f"{name}.before")
            self._files.check()
            self._in_doubt = True  # an interrupt (Ctrl-C) may come anywhere from here on
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._in_doubt = "full" not in str(error)
                raise
        except BaseException as error:
            self.give_up(error)
            raise
        self._head = self._next_head

    def give_up(self, error: BaseException) -> None:
        """Roll back what failed with an error; a TableError in the place of one of SQLite's."""
        if os.getpid() != self._process:
            return  # the transaction is the parent's
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    self._in_doubt = False
        except sqlite3.Error as second:
            raise self._given_up(second) from error
        if isinstance(error, sqlite3.Error):
            raise self._given_up(error) from error

    def _given_up(self, error: sqlite3.Error) -> TableError:
        told = self.damaged(error)
        return OutcomeUnknown(str(told)) if self._in_doubt else told

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

    # ---- rows: each ends with a checksum of its other fields, which is verified when it is read

    def _insert(self, table: str, *fields: Any, replace: bool = False) -> None:
        verb, marks = "INSERT OR REPLACE" if replace else "INSERT", ", ".join("?" * (len(fields) + 1))
        self._db.execute(f"{verb} INTO {table} VALUES ({marks})", (*fields, checksum(*fields)))

    def _select(self, what: str, types: tuple[Any, ...], sql: str, *values: Any) -> Iterator[list[Any]]:
        """The fields of rows; a TableError where a checksum does not match, or a field is of another type, since SQLite
        keeps whatever it was given. what : a row, in an error."""
        for *fields, crc in self._db.execute(sql, values):
            checked(f"{self.path} ({what} {fields[0]})", crc, *fields)
            for field, one in zip(fields, types, strict=True):
                if not isinstance(field, one):
                    found = type(field).__name__
                    raise TableError(f"{self.path} is damaged: a {what} has a field of type {found}")
            yield fields

    # ---- small facts, as JSON

    def _put(self, key: str, value: Any) -> None:
        text = json.dumps(value, sort_keys=True)
        if key == "head":
            self._next_head = text
        self._insert("meta", key, text, replace=True)

    def _find(self, key: str) -> Any:
        """None where it is not there."""
        sql = "SELECT key, value, crc FROM meta WHERE key = ?"
        for _, text in self._select("fact", (str, str), sql, key):
            return json.loads(text)
        return None

    def put_identity(self, identity: Identity) -> None:
        self._put("identity", identity.to_fields())

    def identity(self) -> Identity:
        return Identity.from_fields(self._find("identity"))

    def put_head(self, head: Head) -> None:
        self._put("head", head.to_fields())

    def head(self) -> Head:
        return Head.from_fields(self._find("head"))

    def put_settings(self, settings: dict[str, Any]) -> None:
        self._put("settings", settings)

    def settings(self) -> dict[str, Any]:
        found = self._find("settings")
        if not isinstance(found, dict):
            raise TableError(f"{self.path} is damaged: its settings are missing")
        return found

    def put_history(self, history: dict[str, Any]) -> None:
        self._put("history", history)

    def history(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._find("history")
        return found

    def put_source(self, mark: str) -> None:
        """The export that the table was restored from."""
        self._put("source", mark)

    def source(self) -> str | None:
        """None where it was not restored from one, or before this was noted."""
        found = self._find("source")
        return found if isinstance(found, str) else None

    def put_copied(self, line: str, seq: int) -> None:
        """Which commit this is a copy of. From here on it has a line of its own."""
        self._put("copied", {"of": [line, seq], "line": uuid.uuid4().hex})

    def copied(self) -> tuple[str, int] | None:
        """Line and number of the commit that this is a copy of; None where it is none, or before this was noted."""
        found = self._find("copied")
        match found:
            case {"of": [str(line), int(seq)]}:
                return line, seq
        return None

    def line(self) -> str:
        """A name for the commits of a table; those of its copies have others, though their numbers are the same."""
        found = self._find("copied")
        match found:
            case {"line": str(line)}:
                return line
        return self.identity().uuid

    # ---- files of features

    def put_segment(self, row: SegmentRow) -> None:
        self._insert("segments", *row)

    def segments(self) -> list[SegmentRow]:
        """In order."""
        sql = "SELECT number, first_slot, crc FROM segments ORDER BY number"
        return [SegmentRow(*fields) for fields in self._select("segment", (int, int), sql)]

    # ---- batches

    def put_batch(self, row: BatchRow) -> None:
        self._insert("batches", *row)

    def batches(self) -> Iterator[BatchRow]:
        """All of them, in order."""
        return self._batches("1")

    def batches_after(self, seq: int) -> Iterator[BatchRow]:
        return self._batches("seq > ?", seq)

    def batches_below(self, slot: int) -> Iterator[BatchRow]:
        """Those that begin below a slot."""
        return self._batches("first_slot < ?", slot)

    def last_batch(self, seq: int) -> BatchRow | None:
        """The last one up to commit `seq`."""
        return next(self._batches("seq = (SELECT max(seq) FROM batches WHERE seq <= ?)", seq), None)

    def _batches(self, where: str, *values: Any) -> Iterator[BatchRow]:
        sql = f"SELECT {BATCH} FROM batches WHERE {where} ORDER BY seq"
        for fields in self._select("batch", (*[int] * 7, bytes | None), sql, *values):
            yield BatchRow(*fields)

    # ---- labels that stored items were given

    def put_feedback(self, row: FeedbackRow) -> None:
        self._insert("feedback", *row)

    def feedback_after(self, seq: int) -> Iterator[FeedbackRow]:
        """In order."""
        if self.format == OLDEST:
            return
        sql = f"SELECT {', '.join(FeedbackRow._fields)}, crc FROM feedback WHERE seq > ? ORDER BY seq"
        for fields in self._select("feedback", (*[int] * 4, bytes, bytes, bytes | None), sql, seq):
            yield FeedbackRow(*fields)

    def forget_feedback(self, seq: int) -> None:
        """That of commits up to `seq`, which a checkpoint of the model has."""
        self._db.execute("DELETE FROM feedback WHERE seq <= ?", (seq,))

    # ---- calls that were done, by their keys

    def put_done(self, calls: Sequence[Done], head: Head) -> Head:
        """Add calls, and drop the oldest beyond `MOST_KEYS`; the head that says so, which the caller stores."""
        last = head.last_key + len(calls)
        for number, call in enumerate(calls, head.last_key + 1):
            self._insert("keys", call.key, number, call.fingerprint, call.result)
        first = max(head.first_key, last + 1 - MOST_KEYS)
        if first > head.first_key:
            self._db.execute("DELETE FROM keys WHERE number < ?", (first,))
        return replace(head, first_key=first, last_key=last)

    def done(self, key: str) -> Done | None:
        return next((call for _, call in self._done("WHERE key = ?", key)), None)

    def all_done(self) -> list[Done]:
        """In order; a TableError where one is lost."""
        if self.format < 4:
            return []
        found, head = sorted(self._done("NOT INDEXED")), self.head()
        numbers, first, last = [number for number, _ in found], head.first_key, head.last_key
        if len(numbers) != last - first + 1 or numbers != list(range(first, last + 1)):
            raise TableError(f"{self.path} is damaged: keys of calls are lost")
        return [call for _, call in found]

    def _done(self, which: str, *values: Any) -> Iterator[tuple[int, Done]]:
        """Numbers and calls."""
        sql = f"SELECT key, number, fingerprint, result, crc FROM keys {which}"
        for key, number, fingerprint, result in self._select(
            "key", (str, int, int, int | None), sql, *values
        ):
            yield number, Done(key, fingerprint, result)

    # ---- payloads, by the commit that numbered the slots, and slot

    def put_payloads(self, generation: int, first_slot: int, payloads: Sequence[str | None]) -> None:
        rows = [
            (generation, slot, text) for slot, text in enumerate(payloads, first_slot) if text is not None
        ]
        self._db.executemany(
            "INSERT INTO payloads VALUES (?, ?, ?, ?)", ((*row, checksum(*row)) for row in rows)
        )

    def payloads(self, generation: int, slots: Sequence[int]) -> list[str | None]:
        """None for a missing one."""
        if self.format == OLDEST:
            return [None] * len(slots)
        sql = "SELECT generation, slot, json, crc FROM payloads WHERE generation = ? AND slot = ?"
        found: list[str | None] = []
        for slot in slots:
            row = next(self._payloads(sql, generation, slot), None)
            found.append(None if row is None else row[2])
        return found

    def _payloads(self, sql: str, *values: Any) -> Iterator[list[Any]]:
        """Rows with payloads that are objects of JSON; TableError for any other."""
        for row in self._select("payload,", (int, int, str), sql, *values):
            try:
                sound = isinstance(json.loads(row[2]), dict)
            except (ValueError, RecursionError):
                sound = False
            if not sound:
                raise TableError(f"{self.path} is damaged: the payload of slot {row[1]} is not one")
            yield row

    def all_payloads(self) -> Iterator[Any]:
        if self.format > OLDEST:
            sql = "SELECT generation, slot, json, crc FROM payloads"
            yield from self._payloads(sql)

    def forget_payloads(self, generation: int) -> None:
        """Those of other generations."""
        self._db.execute("DELETE FROM payloads WHERE generation <> ?", (generation,))

    # ---- features of batches whose file has not been synced since

    def put_unsynced(self, first_slot: int, features: bytes | memoryview, crc: int) -> None:
        """crc : checksum of the features, which is known already."""
        crc = checksum(first_slot, crc)
        self._db.execute("INSERT INTO unsynced VALUES (?, ?, ?)", (first_slot, features, crc))

    def unsynced(self) -> Iterator[tuple[int, bytes]]:
        """(first slot, bytes of the rows) of each, ascending."""
        for first, features, crc in self._db.execute(
            "SELECT first_slot, features, crc FROM unsynced ORDER BY first_slot"
        ):
            if not isinstance(first, int) or not isinstance(features, bytes):
                raise TableError(f"{self.path} is damaged: features that were not synced are of another type")
            checked(f"{self.path} (features from slot {first})", crc, first, checksum(features))
            yield first, features

    def forget_unsynced(self) -> None:
        self._db.execute("DELETE FROM unsynced")

    # ---- changes since the checkpoint of the items

    def put_change(self, seq: int, raw: bytes) -> None:
        self._insert("log", seq, raw)

    def changes(self, after: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        sql = "SELECT seq, change, crc FROM log WHERE seq > ? ORDER BY seq"
        for seq, raw in self._select("change", (int, bytes), sql, after):
            yield seq, unpack(raw)

    def forget_changes(self) -> None:
        self._db.execute("DELETE FROM log")

    # ---- a checkpoint of the items, as of one commit

    def put_items(self, arrays: dict[str, np.ndarray]) -> int:
        """In place of the last one; returns its number of bytes."""
        self._db.execute("DELETE FROM items")
        total = 0
        for name, array in arrays.items():
            rows = max(1, BLOB_BYTES // max(1, array.itemsize * int(np.prod(array.shape[1:]))))
            for part, start in enumerate(range(0, max(1, len(array)), rows)):
                raw = pack({"": array[start : start + rows]})
                total += len(raw)
                self._insert("items", name, part, raw)
        return total

    def items(self) -> dict[str, np.ndarray]:
        # Parts are copied to where they belong one by one: little memory is needed meanwhile, and no holes are left.
        sizes = dict(self._all("SELECT name, sum(length(bytes)) FROM items GROUP BY name"))
        arrays: dict[str, np.ndarray] = {}
        used: dict[str, int] = {}
        sql = "SELECT name, part, bytes, crc FROM items ORDER BY name, part"
        for name, _, raw in self._select("items,", (str, int, bytes), sql):
            rows = unpack(raw)[""]
            if name not in arrays:
                room = sizes[name] // (rows.itemsize * int(np.prod(rows.shape[1:])))
                arrays[name], used[name] = np.empty((room, *rows.shape[1:]), rows.dtype), 0
            arrays[name][used[name] : used[name] + len(rows)] = rows
            used[name] += len(rows)
        return {name: array[: used[name]] for name, array in arrays.items()}

    # ---- hash functions

    def put_checkpoint(self, row: ModelRow) -> None:
        """The model, in place of the last one."""
        self._db.execute("DELETE FROM models WHERE kind = 'checkpoint'")
        self._insert("models", "checkpoint", *row)

    def put_encoder(self, row: ModelRow) -> None:
        """The hash functions of an old version that is alive."""
        self._insert("models", "encoder", *row, replace=True)

    def put_created(self, raw: bytes) -> None:
        """As `State.created`. Tables have none whose functions are their own, nor had those of before there was one."""
        self._insert("models", "created", 0, 0, raw, replace=True)

    def created(self) -> bytes | None:
        return next((row.raw for row in self._models("created")), None)

    def checkpoint(self) -> ModelRow | None:
        """The saved model."""
        return next(self._models("checkpoint"), None)

    def checkpoint_seq(self) -> int:
        """The commit of the saved model; 0 where there is none."""
        found = self._one("SELECT seq FROM models WHERE kind = 'checkpoint'")
        return found[0] if found is not None and isinstance(found[0], int) else 0

    def encoders(self) -> Iterator[ModelRow]:
        """The saved hash functions of old versions."""
        return self._models("encoder")

    def _models(self, kind: str) -> Iterator[ModelRow]:
        sql = "SELECT kind, version, seq, hasher, crc FROM models WHERE kind = ? ORDER BY version"
        for fields in self._select("model,", (str, int, int, bytes), sql, kind):
            yield ModelRow(*fields[1:])

    def encoder_versions(self) -> set[int]:
        return {version for (version,) in self._all("SELECT version FROM models WHERE kind = 'encoder'")}

    def forget_encoders(self, versions: set[int]) -> None:
        for version in versions:
            self._db.execute("DELETE FROM models WHERE kind = 'encoder' AND version = ?", (version,))

    # ---- whole files

    def forget_rows(self) -> None:
        """Delete all rows about items, before others take their place."""
        for name in ("batches", "feedback", "segments", "unsynced", "log", "items"):
            self._db.execute(f"DELETE FROM {name}")

    def verify_rows(self) -> None:
        """Compare every row but those of the batches with its checksum. In a block of `reading`."""
        self.items()
        self.history()
        self.checkpoint()
        self.created()
        self.segments()
        self.all_done()
        everything = (
            self.changes(0),
            self.encoders(),
            self.unsynced(),
            self.feedback_after(0),
            self.all_payloads(),
        )
        for rows in everything:
            for _ in rows:
                pass

    def quick_check(self) -> None:
        """SQLite's own check of its pages."""
        self._files.check()
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

        The database itself needs none, as SQLite syncs what it moves there before it uses the log again. Nor may it be
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
            self._files.check()
        self._db.close()


@dataclass(frozen=True)
class _Transaction(AbstractContextManager[None]):
    """A class, not a generator: a generator that an interrupt has left in the middle would end later, when it is
    collected, and then roll back whatever transaction there is."""

    database: Database
    name: str
    sync: bool
    settle: bool

    def __enter__(self) -> None:
        self.database.begin_writing(sync=self.sync)

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                self.database.commit(self.name)
            else:
                self.database.give_up(error)
        finally:
            if self.sync:
                self.database.end_sync()
        if error is None:
            reach(f"{self.name}.after")
            if self.settle:
                self.database.settled()


@dataclass(frozen=True)
class _Reading(AbstractContextManager[None]):
    database: Database
    alone: bool

    def __enter__(self) -> None:
        try:
            self.database.begin("BEGIN IMMEDIATE" if self.alone else "BEGIN")
        except BaseException as error:
            self.database.end_reading(error)
            raise

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self.database.end_reading(error)
