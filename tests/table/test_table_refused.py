"""Files that are damaged, missing, newer or of another table are refused by name."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from tests.table.filled_table import as_if_killed, filled, queries
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import same_answers, same_items, same_model

from hashstream.table import HashTable, Never, TableError
from hashstream.table.storage.folder import feature_files, segments, storage


def corrupt(path: Path, at: int, bit: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1 << bit
    path.write_bytes(raw)


def opened_or_refused(path: Path, model: SlowTable, damaged: str) -> bool:
    """Whether the folder was refused, with a sentence that names the file; if it was not, nothing may be wrong."""
    try:
        with HashTable.open(path, policy=Never()) as table:
            same_answers(table, model, queries())
            same_model(table, model)
            table.get(list(model.items))
            table.check()
            same_items(table, model)
    except TableError as error:
        sentence = str(error)
    else:
        return False
    assert damaged in sentence, f"{damaged} is damaged, but the error says: {sentence}"
    return True


@pytest.mark.parametrize("name", ["table.sqlite", "features-000000.seg", "commit-marker"])
def test_flipped_bits_are_refused_by_name(tmp_path: Path, name: str) -> None:
    table, model = filled(tmp_path / "t")
    table.close()
    size = (tmp_path / "t" / name).stat().st_size
    rng = np.random.default_rng(0)
    refused = 0
    tries = 20
    for i in range(tries):
        copied = tmp_path / str(i)
        shutil.copytree(tmp_path / "t", copied)
        corrupt(copied / name, int(rng.integers(size)), int(rng.integers(8)))
        refused += opened_or_refused(copied, model, name)
        shutil.rmtree(copied)
    # Much of a small database is free space; what is not is the next test's.
    assert refused == tries if name != "table.sqlite" else refused > 0


@pytest.mark.parametrize(
    ("table_name", "column"),
    [
        ("meta", "value"),
        ("batches", "y"),
        ("log", "change"),
        ("models", "hasher"),
        ("items", "bytes"),
    ],
)
def test_whatever_the_database_holds_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_name: str, column: str
) -> None:
    if table_name == "items":
        monkeypatch.setattr(storage, "LOG_ROWS", 1)
    table, model = filled(tmp_path / "t")
    table.close()
    path = tmp_path / "t" / "table.sqlite"
    db = sqlite3.connect(path)
    held = [value for (value,) in db.execute(f"SELECT {column} FROM {table_name}")]
    held = [value.encode() if isinstance(value, str) else value for value in held if value is not None]
    db.close()
    assert held
    raw = path.read_bytes()
    whole = max(held, key=len)
    start = whole[:48]
    at = raw.find(start)
    while at >= 0:  # rows that were deleted lie there too
        corrupt(path, at + len(start) // 2, 2)
        at = raw.find(start, at + 1)
    assert opened_or_refused(tmp_path / "t", model, "table.sqlite")


@pytest.mark.parametrize("mode", ["write", "read"])
def test_a_schema_that_is_not_text_is_refused_by_name(tmp_path: Path, mode: str) -> None:
    """SQLite quotes it in its error, which Python then cannot decode."""
    table, _ = filled(tmp_path / "t")
    table.close()
    path = tmp_path / "t" / "table.sqlite"
    raw = path.read_bytes()
    for at in (raw.find(b"CREATE TABLE batches") + i for i in range(40)):
        corrupt(path, at, 7)
        with pytest.raises(TableError, match=r"table\.sqlite is damaged"):
            HashTable.open(tmp_path / "t", mode=mode)
        path.write_bytes(raw)
    HashTable.open(tmp_path / "t", mode=mode).close()


def test_flipped_features_are_refused_by_whoever_reads_them(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    table.close()
    corrupt(tmp_path / "t" / "features-000000.seg", segments.START + 48 * 14, 3)
    with HashTable.open(tmp_path / "t", policy=Never()) as again:
        assert again.search(queries(), 3)[0].shape == (3, 3)  # which reads no features
        for read in (again.check, again.refresh, lambda: again.get([12])):
            with pytest.raises(TableError, match=r"features-000000\.seg .*damaged"):
                read()
        assert again.get([45]).features is not None


def test_flipped_features_of_the_log_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model would be learned from them again, and batches that are not small stand in a segment only."""
    monkeypatch.setattr(feature_files, "SMALL_BATCH", 0)
    table, _ = filled(tmp_path / "t")
    path = as_if_killed(table, tmp_path / "t", tmp_path / "killed")
    corrupt(path / "features-000000.seg", segments.START + 48 * 40, 3)
    with pytest.raises(TableError, match=r"features-000000\.seg .*damaged"):
        HashTable.open(path)


@pytest.mark.parametrize("name", ["table.sqlite", "features-000000.seg", "commit-marker"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_truncated_files_are_refused_by_name(tmp_path: Path, name: str, share: float) -> None:
    table, model = filled(tmp_path / "t")
    table.close()
    os.truncate(tmp_path / "t" / name, int(share * (tmp_path / "t" / name).stat().st_size))
    assert opened_or_refused(tmp_path / "t", model, name)


@pytest.mark.parametrize("name", ["features-000000.seg", "table.sqlite"])
def test_missing_files_are_refused_by_name(tmp_path: Path, name: str) -> None:
    table, _ = filled(tmp_path / "t")
    table.close()
    (tmp_path / "t" / name).unlink()
    with pytest.raises(TableError, match="is not a table yet" if name == "table.sqlite" else name):
        HashTable.open(tmp_path / "t")


@pytest.mark.parametrize("cut", [0.2, 0.6, 0.9])
def test_a_log_that_lost_acknowledged_commits_is_refused(tmp_path: Path, cut: float) -> None:
    """SQLite itself takes a log that ends early, or has a damaged frame, for a shorter one."""
    table, _ = filled(tmp_path / "t")
    path = as_if_killed(table, tmp_path / "t", tmp_path / "killed")
    log = path / "table.sqlite-wal"
    os.truncate(log, int(cut * log.stat().st_size))
    with pytest.raises(TableError, match=r"table\.sqlite .*damaged"):
        HashTable.open(path)


def test_a_newer_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    table.close()
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    with sqlite3.connect(tmp_path / "t" / "table.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(TableError, match=r"table\.sqlite has format 99.*update hashstream"):
        HashTable.open(tmp_path / "t")
    segment = tmp_path / "u" / "features-000000.seg"
    raw = bytearray(segment.read_bytes())
    raw[8:12] = (7).to_bytes(4, "little")
    segment.write_bytes(raw)
    with pytest.raises(TableError, match=r"features-000000\.seg has format 7.*update hashstream"):
        HashTable.open(tmp_path / "u")


def test_files_of_another_table_are_refused(tmp_path: Path) -> None:
    for name in ("t", "u"):
        filled(tmp_path / name)[0].close()
    for name in ("features-000000.seg", "commit-marker"):
        shutil.copytree(tmp_path / "t", tmp_path / name)
        shutil.copy(tmp_path / "u" / name, tmp_path / name / name)
        with pytest.raises(TableError, match=name):
            HashTable.open(tmp_path / name)
