"""Careless and hostile uses of a table that once broke it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Lazy, Never, TableError
from hashstream.table.storage import memory

HASHER = hs.FCOH(n_bits=16, batch_size=10, random_state=0)
X, Y = rows(np.random.default_rng(0), 400)


def ingest(table: HashTable, first: int, last: int) -> None:
    table.ingest(range(first, last), X[first:last], Y[first:last])


def wait_for(done: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    return done()


@pytest.mark.parametrize("sample_size", [0, 40])
@pytest.mark.parametrize("first", ["one per row", "matrix"])
def test_labels_of_another_kind_are_refused_and_the_folder_opens(
    tmp_path: Path, first: str, sample_size: int
) -> None:
    matrix = np.eye(4, dtype=int)[Y]
    y, others = (Y, [matrix, matrix[:, :2]]) if first == "one per row" else (matrix, [Y, matrix[:, :2]])
    with HashTable.open(tmp_path / "t", HASHER, sample_size=sample_size) as table:
        table.ingest(range(60), X[:60], y[:60])
        for other in others:
            for store in (table.add, table.ingest):
                with pytest.raises(ValueError, match=r"label|columns"):
                    store([100], X[100:101], other[100:101])
        table.add([101], X[101:102], y[101:102])
        assert table.stats().n_seen == 60
    with HashTable.open(tmp_path / "t") as table:
        assert len(table) == 61
        assert table.check()["rows"] == 61


def test_a_method_without_labels_takes_one_kind_too(tmp_path: Path) -> None:
    with HashTable.open(tmp_path / "t", hs.LSH(n_bits=16, random_state=0)) as table:
        table.ingest(range(20), X[:20])
        table.add(range(20, 40), X[20:40], Y[20:40])
        with pytest.raises(ValueError, match="one per row"):
            table.add([50], X[50:51], np.eye(4, dtype=int)[Y[50:51]])
    with HashTable.open(tmp_path / "t") as table:
        assert len(table) == 40


def test_a_snapshot_does_not_stop_the_writer(tmp_path: Path) -> None:
    with HashTable.open(tmp_path / "t", HASHER) as table:
        ingest(table, 0, 20)
        storage: Any = table._storage
        with storage._files:  # as a snapshot holds it while it copies
            writer = threading.Thread(target=ingest, args=(table, 20, 40))
            writer.start()
            writer.join(20)
            assert not writer.is_alive()
        assert len(table) == 40


def test_memory_that_runs_out_leaves_a_table_in_memory_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    with HashTable.open(None, HASHER) as table:
        ingest(table, 0, 20)
        with monkeypatch.context() as patch:
            patch.setattr(memory.MemorySegments, "append", fail)
            with pytest.raises(MemoryError):
                ingest(table, 20, 40)
        assert len(table) == 20
        ingest(table, 20, 40)
        features = table.get([30]).features
        assert features is not None
        assert features.tolist() == X[30:31].tolist()


def test_pauses_nest() -> None:
    with HashTable.open(None, HASHER, policy=Lazy(share=1)) as table:
        ingest(table, 0, 20)
        with table.paused():
            with table.paused():
                pass
            ingest(table, 20, 40)
            time.sleep(0.3)
            assert table.stats().n_stale == 20
        assert wait_for(lambda: not table.stats().n_stale)


def test_a_tiny_share_is_a_long_rest_and_no_error() -> None:
    with HashTable.open(None, HASHER, policy=Lazy(share=1e-13)) as table:
        for i in range(3):
            ingest(table, 20 * i, 20 * i + 20)
        time.sleep(0.3)
        assert table._refresher is not None
        assert table._refresher.is_alive()
        assert table.stats().background_error is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_of_a_table_in_memory_refreshes_in_the_background() -> None:
    table = HashTable.open(None, HASHER, policy=Lazy(share=1))
    ingest(table, 0, 20)
    child = os.fork()
    if not child:
        code = 1
        try:
            with table.paused():
                pass
            ingest(table, 20, 40)
            code = 0 if wait_for(lambda: not table.stats().n_stale) else 2
            table.close()
        finally:
            os._exit(code)
    ended: list[int] = []

    def has_ended() -> bool:
        if not ended:
            found, status = os.waitpid(child, os.WNOHANG)
            ended.extend([status] if found else [])
        return bool(ended)

    if not wait_for(has_ended, 60):
        os.kill(child, 9)
        os.waitpid(child, 0)
    table.close()
    assert ended == [0]


def test_a_snapshot_of_an_emptied_table_keeps_its_memory_and_the_kind_of_its_ids(tmp_path: Path) -> None:
    with HashTable.open(None, HASHER, policy="every:5") as table:
        for i in range(2):
            part = slice(20 * i, 20 * i + 20)
            table.ingest([f"item {j}" for j in range(part.start, part.stop)], X[part], Y[part])
        table.remove(table.ids())
        table.compact()
        table.snapshot(tmp_path / "copy")
        remembered = dict(table._state.memory)
    assert remembered["moves"] > 0
    with HashTable.open(tmp_path / "copy") as copied:
        assert dict(copied._state.memory) == remembered
        assert copied.stats().n_seen == 40
        with pytest.raises(ValueError, match="strings"):
            copied.ingest([1], X[:1], Y[:1])
        copied.ingest(["new"], X[:1], Y[:1])


@pytest.mark.parametrize("width", [1, 5])
def test_a_file_of_another_width_is_refused_by_name(tmp_path: Path, width: int) -> None:
    np.savez(tmp_path / "narrow.npz", x=np.zeros((60, width), np.float32), y=np.arange(60) % 4)
    with HashTable.open(None, HASHER) as table:
        ingest(table, 0, 60)
        with pytest.raises(
            ValueError, match=rf"narrow.npz has {width} features per row, but the table has 12"
        ):
            table.ingest_files([tmp_path / "narrow.npz"])


HANDLER = """
import signal, sys, threading
import numpy as np, hashstream as hs
from hashstream.table import HashTable, Lazy
X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
y = np.arange(400) % 4
table = HashTable.open(sys.argv[1] + "/t", hs.FCOH(n_bits=16, random_state=0), policy=Lazy(share=1))
table.ingest(range(200), X[:200], y[:200])
def write():
    while True:
        try:
            table.ingest(range(200, 400), X[200:], y[200:])
        except hs.TableError:
            return
writer = threading.Thread(target=write)
writer.start()
signal.signal(signal.SIGALRM, lambda *_: table.close())
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[3]))
calls = {
    "get": lambda i: table.get(range(100)),
    "in": lambda i: 17 in table,
    "labels": lambda i: table.search(X[:2], 20, include=("labels",)),
    "stats": lambda i: table.stats(),
    "snapshot": lambda i: table.snapshot(sys.argv[1] + f"/copy{i}"),
}
try:
    for i in range(10**9):
        calls[sys.argv[2]](i)
except hs.TableError as error:
    assert "closed" in str(error), error
writer.join()
print("closed")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals by timer need POSIX")
@pytest.mark.parametrize("call", ["get", "in", "labels", "stats", "snapshot"])
def test_a_handler_may_close_while_this_thread_reads_and_another_writes(tmp_path: Path, call: str) -> None:
    for i, after in enumerate((0.03, 0.11)):
        folder = tmp_path / str(i)
        folder.mkdir()
        command = [sys.executable, "-c", HANDLER, str(folder), call, str(after)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stdout == "closed\n", done.stderr
        with HashTable.open(folder / "t", policy=Never()) as table:
            assert table.check()["codes"] == len(table)


def test_a_closed_table_says_so_everywhere(tmp_path: Path) -> None:
    table = HashTable.open(tmp_path / "t", HASHER)
    ingest(table, 0, 20)
    table.close()
    assert "closed" in repr(table)
    calls = (table.ids, lambda: list(table), table.stats, lambda: table.get([1]), lambda: 1 in table)
    for call in calls:
        with pytest.raises(TableError, match="closed"):
            call()
