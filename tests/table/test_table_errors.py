"""The classes of errors that a program can tell apart; their sentences are tested where they come from."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import (
    Call,
    Closed,
    DiskFull,
    HashTable,
    KeyReused,
    Never,
    OutcomeUnknown,
    ReadOnly,
    TableError,
)
from hashstream.table.storage.folder import failpoints, open_files, segments

HASHER = hs.FCOH(n_bits=16, random_state=0)
X, Y = rows(np.random.default_rng(2), 40)

WRITES: list[Callable[[HashTable], Any]] = [
    lambda table: table.ingest([1], X[:1], [1]),
    lambda table: table.add([1], X[:1]),
    lambda table: table.label([2], [1]),
    lambda table: table.remove([2]),
    lambda table: table.remove(where={"label": 1}),
    lambda table: table.refresh(),
    lambda table: table.declare({"a": int}),
    lambda table: table.compact(),
    lambda table: table.flush(),
    lambda table: table.writer(),
]


def opened(path: Path) -> HashTable:
    table = HashTable.open(path, HASHER, policy=Never())
    table.ingest(range(20), X[:20], Y[:20])
    return table


def test_every_class_is_a_table_error() -> None:
    for kind in (Closed, DiskFull, OutcomeUnknown, ReadOnly):
        assert issubclass(kind, TableError)
    assert issubclass(KeyReused, ValueError)
    assert not issubclass(KeyReused, TableError)


def test_a_reader_is_read_only(tmp_path: Path) -> None:
    with opened(tmp_path / "t"), HashTable.open(tmp_path / "t", mode="read") as reader:
        for write in WRITES:
            with pytest.raises(ReadOnly, match='opened with mode="read"'):
                write(reader)


@pytest.mark.parametrize("mode", ["memory", "write", "read"])
def test_a_closed_table(tmp_path: Path, mode: str) -> None:
    opened(tmp_path / "t").close()
    if mode == "memory":
        table = HashTable.open(None, HASHER)
    else:
        table = HashTable.open(tmp_path / "t", mode=mode)
    writer = None if mode == "read" else table.writer()
    table.close()
    others: list[Callable[[HashTable], Any]] = [
        lambda table: table.search(X[:1], 1),
        lambda table: table.get([1]),
        lambda table: table.ids(),
        lambda table: table.stats(),
        lambda table: table.check(),
        lambda table: table.snapshot(tmp_path / "copy"),
    ]
    for call in [*WRITES, *others]:
        with pytest.raises(Closed, match="the table is closed"):
            call(table)
    if writer is not None:
        with pytest.raises(Closed):
            writer.add([1], X[:1])
        calls = [Call("add", ([1], X[:1]))]
        with pytest.raises(Closed):
            writer.do(calls)
        assert isinstance(calls[0].error, Closed)


def raising(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("point", ["commit.before", "segment.write", "checkpoint.before", "compact.written"])
def test_a_full_disk_or_quota_is_told_from_other_errors(tmp_path: Path, point: str, number: int) -> None:
    with opened(tmp_path / "t") as table:
        call: Callable[[], Any] = lambda: table.ingest([30], X[:1], [1])  # noqa: E731
        if point == "checkpoint.before":
            call = table.flush
        elif point == "compact.written":
            table.remove([1])
            call = table.compact
        with failpoints.on(point, raising(number)), pytest.raises(TableError) as told:
            call()
        assert isinstance(told.value, DiskFull) == (number != errno.EIO)
        call()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_table_that_cannot_be_created_for_lack_of_room(tmp_path: Path, number: int) -> None:
    with failpoints.on("create.before", raising(number)), pytest.raises(DiskFull, match="cannot be created"):
        HashTable.open(tmp_path / "t", HASHER)


def test_a_table_that_cannot_be_opened_for_lack_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path / "t").close()

    def full(*_: Any) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with monkeypatch.context() as patch:
        patch.setattr("hashstream.table.storage.folder.storage.CommitMarker.__init__", full)
        with pytest.raises(DiskFull, match="cannot be opened"):
            HashTable.open(tmp_path / "t")
    HashTable.open(tmp_path / "t").close()


class Failing:
    """A connection whose statement `sql` fails, after some that do not."""

    def __init__(self, db: sqlite3.Connection, sql: str, words: str, after: int = 0) -> None:
        self._db, self._sql, self._words, self._after = db, sql, words, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *values: Any) -> Any:
        self._after -= sql.startswith(self._sql)
        if sql.startswith(self._sql) and self._after < 0:
            raise sqlite3.OperationalError(self._words)
        return self._db.execute(sql, *values)


def test_a_commit_whose_outcome_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path / "t")
    database = table._storage._database  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(database, "_db", Failing(database._db, "COMMIT", "disk I/O error", after=1))
        with pytest.raises(OutcomeUnknown, match="disk I/O error"):
            table.ingest([30], X[:1], [1], key="k")
    for write in (*WRITES[:7], lambda table: table.ingest([30], X[:1], [1], key="k")):
        with pytest.raises(OutcomeUnknown, match="close and reopen"):
            write(table)
    calls = [Call("add", ([31], X[:1]), key="l"), Call("label", ([1], [2]))]
    table.writer().do(calls)
    assert all(isinstance(call.error, OutcomeUnknown) for call in calls)
    table.close()
    with HashTable.open(tmp_path / "t") as again:
        again.ingest([30], X[:1], [1], key="k")
        assert 30 in again


@pytest.mark.parametrize(("full", "kind"), [(True, DiskFull), (False, TableError)])
def test_a_quota_of_which_sqlite_only_says_that_there_was_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool, kind: type[TableError]
) -> None:
    def no_file(**_: Any) -> Any:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with opened(tmp_path / "t") as table:
        database = table._storage._database  # type: ignore[attr-defined]
        with monkeypatch.context() as patch:
            patch.setattr(database, "_db", Failing(database._db, "INSERT INTO batches", "disk I/O error"))
            if full:
                patch.setattr(open_files.tempfile, "TemporaryFile", no_file)
            with pytest.raises(TableError, match="cannot be read or written: disk I/O error") as told:
                table.ingest([30], X[:1], [1])
        assert type(told.value) is kind
        table.ingest([30], X[:1], [1])


def test_a_sync_of_features_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path / "t")

    def broken(_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    big = np.repeat(X, 1000, axis=0)
    monkeypatch.setattr(segments, "_sync", broken)
    with pytest.raises(TableError, match="could not be written"):
        table.add(range(100, 100 + len(big)), big)
    with pytest.raises(OutcomeUnknown, match=r"a sync of .* has failed"):
        table.add([30], X[:1])
    monkeypatch.undo()
    table.close()
    with HashTable.open(tmp_path / "t") as again:
        assert len(again) == 20
