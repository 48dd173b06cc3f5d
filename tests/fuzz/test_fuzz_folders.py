"""Some hundred altered folders of tables; `make fuzz` has as many as one has time for."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz import folders

from hashstream.table import HashTable, TableError
from hashstream.table.storage.folder.records import checksum, pack, unpack


@pytest.mark.skipif(sys.platform == "win32", reason="the fuzzer needs select and resource limits")
def test_altered_folders_are_refused_or_work() -> None:
    counts = folders.run(count=150, seed=11)
    assert counts.problems == []
    assert counts.refused > 50
    assert counts.worked > 10


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A folder that a killed process has left, with feedback that is learned again."""
    shutil.copytree(folders.folders()[1], tmp_path / "t")
    return tmp_path / "t"


def rewrite(folder: Path, table: str, column: str, value: Any) -> None:
    """Put a value, or what a function makes of it, into the first row, with a checksum that fits."""
    columns = folders.KEYS[table]
    db = sqlite3.connect(folder / "table.sqlite", isolation_level=None)
    where = " WHERE key = 'head'" if table == "meta" else ""
    number = "" if table in ("meta", "payloads") else "rowid, "
    first = db.execute(f"SELECT {number}{', '.join(columns)} FROM {table}{where} LIMIT 1").fetchone()
    row = list(first[1:] if number else first)
    key = row[:2]
    at = columns.index(column)
    row[at] = value(row[at]) if callable(value) else value
    which = (
        f"rowid = {first[0]}"
        if number
        else f"{columns[0]} = ?"
        if table == "meta"
        else "generation = ? AND slot = ?"
    )
    db.execute(
        f"UPDATE {table} SET {column} = ?, crc = ? WHERE {which}",
        (row[at], checksum(*row), *([] if number else key[: which.count("?")])),
    )
    db.close()


@pytest.mark.parametrize("text", ["", "x", "null", "7", "[]", "[" * 100_000, '{"a": ' * 90_000])
def test_a_payload_that_is_no_object_is_refused(left: Path, text: str) -> None:
    rewrite(left, "payloads", "json", text)
    with HashTable.open(left, mode="read") as table:
        for ask in (lambda: table.get(table.ids()), table.check):
            with pytest.raises(TableError, match="payload of slot"):
                ask()


@pytest.mark.parametrize(
    "slots",
    [
        b"",
        b"abc",
        np.array([2**32 - 1] * 7, np.uint32).tobytes(),
        np.arange(100_000, 100_007, dtype=np.uint32).tobytes(),
        np.arange(7, dtype=np.uint32)[::-1].tobytes(),
    ],
)
def test_feedback_of_slots_that_are_not_there_is_refused(left: Path, slots: bytes) -> None:
    rewrite(left, "feedback", "slots", slots)
    for mode in ("read", "write"):
        with pytest.raises(TableError):
            HashTable.open(left, mode=mode)


@pytest.mark.parametrize(
    "change", [{"like": float("nan")}, {"choice": "x"}, {"rows": -1}, {"rows": 1e300}, {"more": 1}]
)
def test_a_comparison_that_nobody_measured_is_refused(left: Path, change: dict[str, Any]) -> None:
    def altered(text: str) -> str:
        head = json.loads(text)
        head["comparison"] |= change
        return json.dumps(head)

    rewrite(left, "meta", "value", altered)
    with pytest.raises(TableError):
        HashTable.open(left)


def test_more_keys_than_memory_holds_are_lost(left: Path) -> None:
    rewrite(left, "meta", "value", lambda text: json.dumps(json.loads(text) | {"last_key": 2**40}))
    with (
        HashTable.open(left, mode="read") as table,
        pytest.raises(TableError, match="keys of calls are lost"),
    ):
        table.check()


@pytest.mark.parametrize("text", ["", "x1", "+", "+null", "+{}", "+[2]", "+[[0]]", "+" + "[" * 100_000])
def test_a_label_that_is_none_is_refused(left: Path, text: str) -> None:
    def altered(raw: bytes) -> bytes:
        arrays = dict(unpack(raw))
        texts = json.loads(arrays["label.texts"].tobytes())
        arrays["label.texts"] = np.frombuffer(json.dumps([text, *texts[1:]]).encode(), np.uint8)
        return pack(arrays)

    rewrite(left, "log", "change", altered)
    with pytest.raises(TableError):
        HashTable.open(left)
