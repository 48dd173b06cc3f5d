"""Folders that this user may not read or write, and file systems without locks: sentences that name the file."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.table.filled_table import HASHER, filled, queries

from hashstream.table import HashTable, TableError, TableLocked
from hashstream.table.storage.folder import database, lock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    filled(tmp_path / "t")[0].close()
    return tmp_path / "t"


def forbid(monkeypatch: pytest.MonkeyPatch, name: str, number: int = errno.EACCES) -> None:
    """Let opening files of that name fail, as for a user without the right; root has every right."""
    opened, os_open, exists = Path.open, os.open, Path.exists

    def refuse(path: Any) -> None:
        if Path(os.fspath(path)).name == name:
            raise OSError(number, os.strerror(number), os.fspath(path))

    def path_open(self: Path, *args: Any, **kwargs: Any) -> Any:
        refuse(self)
        return opened(self, *args, **kwargs)

    def file_open(path: Any, *args: Any, **kwargs: Any) -> int:
        refuse(path)
        return os_open(path, *args, **kwargs)

    def path_exists(self: Path) -> bool:
        refuse(self)
        return exists(self)

    monkeypatch.setattr(Path, "open", path_open)
    monkeypatch.setattr(os, "open", file_open)
    if name == "table.sqlite":
        monkeypatch.setattr(Path, "exists", path_exists)


@pytest.mark.parametrize("name", ["lock", "commit-marker", "table.sqlite", "features-000000.seg"])
@pytest.mark.parametrize("mode", ["write", "read"])
def test_a_file_without_the_right_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    with monkeypatch.context() as patch:
        forbid(patch, name)
        if (name, mode) == ("lock", "read"):  # readers take no lock
            HashTable.open(path, mode=mode).close()
            return
        with pytest.raises(TableError) as refusal:
            HashTable.open(path, mode=mode)
    said = str(refusal.value)
    assert said.startswith(f"{path / name} cannot be ")
    assert "this user lacks permission to read" in said
    assert "Errno" not in said
    HashTable.open(path).close()  # nothing is held, nothing was changed


def test_a_disk_that_is_mounted_read_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, "lock", errno.EROFS)
    with pytest.raises(TableError, match=r'lock cannot be opened: Read-only file system\. .*mode="read"'):
        HashTable.open(path)


def test_a_new_folder_where_this_user_may_not_create_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdir(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(
        TableError, match=r"/t cannot be created: this user lacks permission to write to .*pytest"
    ) as refusal:
        HashTable.open(tmp_path / "t", HASHER)
    assert "Errno" not in str(refusal.value)


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.EAGAIN, TableLocked, "is open for writing by"),
        (errno.ENOLCK, TableError, r"lock cannot be locked: No locks available\. .*local disk"),
        (errno.EOPNOTSUPP, TableError, r"lock cannot be locked: Operation not supported\. .*local disk"),
    ],
)
def test_only_a_lock_that_somebody_holds_is_said_to_be_held(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[TableError], says: str
) -> None:
    def fails(_: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(lock, "lock", fails)
        with pytest.raises(TableError, match=says) as refusal:
            HashTable.open(path)
    assert type(refusal.value) is kind
    with HashTable.open(path) as table:
        assert table.search(queries(), 2)[0].shape == (3, 2)


def test_a_folder_that_sqlite_may_not_write_to_is_not_called_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers, too, need a file next to the database that SQLite coordinates them by."""

    def connect(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(database.sqlite3, "connect", connect)
    with pytest.raises(TableError) as refusal:
        HashTable.open(path, mode="read")
    assert str(refusal.value).startswith(
        f"{path / 'table.sqlite'} cannot be used: this user lacks permission to write"
    )
    assert "damaged" not in str(refusal.value)
