"""A closed table says so, whatever it is asked; it never answers from what is not there any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import D, rows

import hashstream as hs
from hashstream.table import HashTable, TableError
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.memory import MemorySegments

X, Y = rows(np.random.default_rng(0), 40)

CALLS: dict[str, Callable[[HashTable, Path], Any]] = {
    "get": lambda table, _: table.get([3, 4]),
    "get without features": lambda table, _: table.get([3, 4], features=False),
    "in": lambda table, _: 3 in table,
    "stats": lambda table, _: table.stats(),
    "check": lambda table, _: table.check(),
    "snapshot": lambda table, path: table.snapshot(path / "copy"),
    "reload": lambda table, _: table.reload(),
    "search": lambda table, _: table.search(X[:1]),
    "search_radius": lambda table, _: table.search_radius(X[:1], 3),
    "ingest": lambda table, _: table.ingest([99], X[:1], Y[:1]),
    "refresh": lambda table, _: table.refresh(),
    "compact": lambda table, _: table.compact(),
}


def closed(path: Path, kind: str) -> HashTable:
    table = HashTable.open(None if kind == "memory" else path / "t", hs.FCOH(n_bits=12, random_state=0))
    table.ingest(np.arange(40), X, Y)
    table.close()
    if kind == "reader":
        table = HashTable.open(path / "t", mode="read")
        assert 3 in table
        table.close()
    return table


@pytest.mark.parametrize("kind", ["memory", "writer", "reader"])
@pytest.mark.parametrize("call", CALLS)
def test_a_closed_table_says_so(tmp_path: Path, kind: str, call: str) -> None:
    table = closed(tmp_path, kind)
    with pytest.raises(TableError, match=r"^the table is closed$"):
        CALLS[call](table, tmp_path)
    assert not (tmp_path / "copy").exists()
    assert len(table) == 40


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_a_table_closed_in_the_middle_of_a_call_gives_no_features(tmp_path: Path, kind: str) -> None:
    table = closed(tmp_path, kind)
    table._open = True  # as for a call that had begun before
    with pytest.raises(TableError, match="closed") as told:
        table.get([3, 4])
    assert "damaged" not in str(told.value)


def test_rows_that_are_not_there_are_an_error() -> None:
    segments = MemorySegments(D, X.dtype)
    segments.append(X)
    segments.settle()
    assert segments.take(np.array([39, 0])).tobytes() == X[[39, 0]].tobytes()
    with pytest.raises(TableError, match="features of 1 slots"):
        segments.take(np.array([39, 40]))
    with pytest.raises(TableError, match="features of 2 slots"):
        list(segments.blocks(30, 42))


def test_a_closed_database_is_not_called_damaged(tmp_path: Path) -> None:
    closed(tmp_path, "folder")
    database = Database(tmp_path / "t" / "table.sqlite", mode="read")
    database.close()
    with pytest.raises(TableError, match="closed") as told, database.reading():
        database.head()
    assert "damaged" not in str(told.value)


def test_closing_waits_for_who_reads(tmp_path: Path) -> None:
    """Threads that read when the table is closed get an answer, or are told; the process lives on."""
    for i in range(8):
        table = HashTable.open(tmp_path / str(i), hs.FCOH(n_bits=12, random_state=0))
        for start in range(0, 40, 2):
            table.ingest(np.arange(start, start + 2), X[start : start + 2], Y[start : start + 2])
        wrong: list[BaseException] = []

        def read(table: HashTable = table, wrong: list[BaseException] = wrong) -> None:
            try:
                while True:
                    assert table.get(np.arange(40)).labels == Y.tolist()
            except TableError as error:
                if "closed" not in str(error):
                    wrong.append(error)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        table.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not wrong
