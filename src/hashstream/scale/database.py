"""`FeedLog`: numbers for everything that is stored, and which parts were. All SQL of a cluster is here.

A part is a file, a batch or a call that may be repeated. It gets a number when it is first seen, and its rows get their
sequence numbers from that, the same ones whenever it is repeated. The feed log only saves work: what it has not noted
as done is done again, and changes nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import NamedTuple

from hashstream.scale.errors import ClusterError
from hashstream.table.errors import KeyReused

__all__ = ["FEED_LOG", "FeedLog", "Part"]

FEED_LOG = "feed_log.sqlite"
"""Name of its file in the folder of a cluster, or of a snapshot."""

BLOCK = 1000  # numbers that are reserved at a time: a crash leaves a gap

SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS parts (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, fingerprint TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0,
    rows INTEGER NOT NULL DEFAULT 0, result INTEGER, UNIQUE (name, fingerprint)
);
"""


class Part(NamedTuple):
    """A part as the feed log knows it. number : of its place in the order of all. done : whether all shards have it.
    rows, result : of a part that is done."""

    number: int
    done: bool = False
    rows: int = 0
    result: int | None = None


class FeedLog:
    """A small SQLite database with one writer, for any number of its threads."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """create : whether it may be missing. One that was lost is not begun again: rows would get numbers that are
        smaller than those of stored rows, and be skipped as late."""
        self._lock = threading.Lock()
        if not create and not (path.is_file() and path.stat().st_size):
            raise ClusterError(
                f"{path} is missing or empty: bring it back, or restore the cluster from a snapshot"
            )
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(SCHEMA)
            self._get("next")
        except sqlite3.DatabaseError as error:
            self._database.close()
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk is full: not damaged
                raise
            raise ClusterError(f"{path} is damaged ({error}): restore the cluster from a snapshot") from error
        self._next = self._end = 0

    def number(self) -> int:
        """The next number, for a call without a name."""
        with self._lock:
            return self._take()

    def begin(self, name: str, fingerprint: str, *, key: bool = False) -> Part:
        """A part by its name and content; its number is new unless it was seen before.

        key : whether the name may stand for one content only; `KeyReused` where it has another.
        """
        with self._lock:
            execute = self._database.execute
            row = execute(
                "SELECT number, done, rows, result FROM parts WHERE name = ? AND fingerprint = ?",
                (name, fingerprint),
            ).fetchone()
            if row is not None:
                return Part(row[0], bool(row[1]), row[2], row[3])
            if key and execute("SELECT 1 FROM parts WHERE name = ?", (name,)).fetchone():
                raise KeyReused(
                    f"{name} names a call that was begun with other arguments: repeat a call with the same arguments, "
                    "and give every other call a key of its own"
                )
            number = self._take()
            execute(
                "INSERT INTO parts (number, name, fingerprint) VALUES (?, ?, ?)", (number, name, fingerprint)
            )
            return Part(number)

    def is_newest(self, number: int) -> bool:
        """Whether no number was given out after this one."""
        with self._lock:
            return number == self._next - 1

    def knows(self, name: str, fingerprint: str) -> bool:
        """Whether a part was begun before."""
        with self._lock:
            sql = "SELECT 1 FROM parts WHERE name = ? AND fingerprint = ?"
            return self._database.execute(sql, (name, fingerprint)).fetchone() is not None

    def finish(self, number: int, rows: int, result: int | None = None) -> None:
        """Note that all shards have a part."""
        with self._lock:
            self._database.execute(
                "UPDATE parts SET done = 1, rows = ?, result = ? WHERE number = ?", (rows, result, number)
            )

    def done(self) -> set[int]:
        """The numbers of all parts that are done."""
        with self._lock:
            return _done(self._database)

    def forget(self, kept: set[int]) -> int:
        """Note all parts as not done but those that are kept: they are to be fed again. Returns their number."""
        with self._lock:
            return _forget(self._database, kept)

    def fact(self, name: str) -> str | None:
        """A fact that was noted; None where none was."""
        with self._lock:
            return self._get(name)

    def note(self, name: str, value: str) -> None:
        """Note a fact, unless it is."""
        with self._lock:
            if self._get(name) != value:
                self._put(name, value)

    def copy(self, path: Path, kept: set[int] | None = None) -> None:
        """Write a copy of the feed log to a new file. kept : the parts that may count as done there; all by default."""
        target = sqlite3.connect(path, isolation_level=None)
        try:
            target.execute("PRAGMA journal_mode=MEMORY")  # no second file that a kill could leave
            with self._lock:
                self._database.backup(target)
            if kept is not None:
                _forget(target, kept)
        finally:
            target.close()

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _take(self) -> int:
        if self._next >= self._end:
            self._next = int(self._get("next") or 0)
            self._end = self._next + BLOCK
            self._put("next", str(self._end))
        self._next += 1
        return self._next - 1

    def _get(self, name: str) -> str | None:
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _put(self, name: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def _done(database: sqlite3.Connection) -> set[int]:
    return {row[0] for row in database.execute("SELECT number FROM parts WHERE done = 1")}


def _forget(database: sqlite3.Connection, kept: set[int]) -> int:
    lost = [(number,) for number in _done(database) - kept]
    database.execute("BEGIN IMMEDIATE")
    database.executemany("UPDATE parts SET done = 0 WHERE number = ?", lost)
    database.execute("COMMIT")
    return len(lost)
