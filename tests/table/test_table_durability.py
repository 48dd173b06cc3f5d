"""What a folder promises: it comes back bit for bit, and a write that fails or is killed changes nothing."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.filled_table import HASHER, as_if_killed, filled, queries
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows, same_answers, same_items, same_model

import hashstream as hs
from hashstream.table import Every, HashTable, TableError
from hashstream.table.storage.folder import failpoints
from hashstream.table.storage.folder.database import Database


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("durability", ["full", "fast"])
def test_opened_again_it_is_the_same_to_the_last_bit(tmp_path: Path, durability: str, closed: bool) -> None:
    table, model = filled(tmp_path / "t", durability=durability)
    path = tmp_path / "t"
    if closed:
        table.close()
    else:
        path = as_if_killed(table, path, tmp_path / "killed")
    with HashTable.open(path, durability=durability) as again:
        same_answers(again, model, queries())
        same_items(again, model)
        same_model(again, model)
        X, y = rows(np.random.default_rng(1), 9)  # and it goes on learning the same
        again.ingest(list(range(100, 109)), X, y)
        model.ingest(list(range(100, 109)), X, y)
        same_model(again, model)
        same_answers(again, model, queries())


@pytest.mark.parametrize("method", sorted(hs.methods()))
def test_every_method_comes_back(tmp_path: Path, method: str) -> None:
    """Without a seed of its own, from a crash before the first checkpoint beyond the first batch."""
    hasher = hs.methods()[method](n_bits=8)
    rng = np.random.default_rng(2)
    table = HashTable.open(tmp_path / "t", hasher, policy=Every(3))
    for i in range(5):
        X, y = rows(rng, 30)
        table.ingest(np.arange(30) + 30 * i, X, y)
    Q = queries()
    wanted, functions = table.search(Q, 20), table.hasher.decision_function(Q)
    held = table.get(np.arange(150))
    again = HashTable.open(as_if_killed(table, tmp_path / "t", tmp_path / "killed"), policy=Every(3))
    found = again.search(Q, 20)
    assert found[0].tolist() == wanted[0].tolist()
    assert found[1].tolist() == wanted[1].tolist()
    assert again.hasher.decision_function(Q).tobytes() == functions.tobytes()
    assert again.get(np.arange(150)).codes.tobytes() == held.codes.tobytes()
    assert again.get(np.arange(150)).versions.tolist() == held.versions.tolist()
    assert again.check()["rows"] == 150
    again.close()


def test_bytes_that_were_never_committed_are_cut_off(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    table.close()
    last = sorted((tmp_path / "t").glob("features-*.seg"))[-1]
    size = last.stat().st_size
    with last.open("ab") as file:
        file.write(b"half a batch")
    (tmp_path / "t" / "features-000009.seg").write_bytes(b"a segment that was begun")
    with HashTable.open(tmp_path / "t") as again:
        assert last.stat().st_size == size
        assert not (tmp_path / "t" / "features-000009.seg").exists()
        same_answers(again, model, queries())


# ---- failing writes


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_space_in_sqlite() -> None:
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("segment.create", no_space),
        ("segment.write", no_space),
        ("segment.written", no_space),
        ("segment.synced", no_space),
        ("commit.before", no_space_in_sqlite),
    ],
)
def test_a_full_disk_refuses_the_batch_whole(tmp_path: Path, name: str, fails: Callable[[], None]) -> None:
    table, model = filled(tmp_path / "t", policy=Every(2), segment_bytes=1)
    model = SlowTable(HASHER)  # refreshed by the policy: only compared with itself below
    before = table.search(queries(), 60), table.stats().versions, table.hasher.projection_.tobytes()
    X, y = rows(np.random.default_rng(1), 9)
    for write in (
        lambda: table.ingest(range(20, 29), X, y),
        lambda: table.add(range(20, 29), X),
        *([lambda: table.remove([1]), table.refresh] if name == "commit.before" else []),
    ):
        with failpoints.on(name, fails), pytest.raises(TableError, match="full"):
            write()
        after = table.search(queries(), 60), table.stats().versions, table.hasher.projection_.tobytes()
        assert [part.tolist() for part in before[0]] == [part.tolist() for part in after[0]]
        assert before[1:] == after[1:]
    table.ingest(range(20, 29), X, y)  # there is room again
    assert len(table) == len(before[0][0][0])
    table.close()
    with HashTable.open(tmp_path / "t") as again:
        assert again.check()["rows"] == 5 * 12 + 9
    assert model.items == {}


def test_a_failed_call_leaves_the_policy_where_it_was(tmp_path: Path) -> None:
    X, y = rows(np.random.default_rng(1), 9)
    table = HashTable.open(tmp_path / "t", HASHER, policy=Every(2))
    table.ingest(range(9), X, y)
    with failpoints.on("segment.write", no_space), pytest.raises(TableError, match="full"):
        table.ingest(range(9, 18), X, y)
    table.add(range(20, 29), X)
    assert len(table.stats().versions) == 1
    table.ingest(range(9, 18), X, y)  # the second that moved the functions
    assert list(table.stats().versions) == [table.hasher.version_]
    table.close()


STRANGE_LABELS: list[tuple[Any, str]] = [
    ([(1, 2), (1, 3), (1, 2)], r"y\[0\] is of type tuple"),
    ([b"a", b"b", b"a"], "y is of bytes8"),
    ([1j, 2.0, 1j], "y is of complex128"),
    (np.array(["2024-01-01"] * 3, "M8[D]"), r"y is of datetime64\[D\]"),
]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("labels", "says"), STRANGE_LABELS)
def test_labels_that_a_folder_cannot_hold_are_refused_whole(
    tmp_path: Path, labels: Any, says: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in memory: what a program does there, it must be able to do with a folder."""
    X, _ = rows(np.random.default_rng(1), 3)
    with HashTable.open(tmp_path / "t" if kept else None, HASHER) as table:
        with monkeypatch.context() as patch:
            patch.setattr(hs.FCOH, "learned", lambda *_: pytest.fail("it has begun to learn"))
            with pytest.raises(TypeError, match=f"{says}: a table takes labels that are strings"):
                table.ingest([1, 2, 3], X, labels)
        assert len(table) == 0
        assert not hasattr(table.hasher, "n_seen_")


def test_mixed_labels_come_back_as_python_has_them(tmp_path: Path) -> None:
    X, _ = rows(np.random.default_rng(1), 12)
    mixed = np.array([["b", np.int64(2), np.bool_(True), np.float32(0.5)][i % 4] for i in range(12)], object)
    matrix = np.array([[True, 0, 1.0], [0, 1, False]] * 6, object)
    for name, y, second in (("t", mixed, [2, "b"]), ("u", matrix, [[0, 1, 0], [1, 0, 1]])):
        with HashTable.open(None, HASHER) as table, HashTable.open(tmp_path / name, HASHER) as stored:
            for one in (table, stored):
                one.ingest(range(12), X, y)
                one.ingest(range(12, 18), X[:6], y[:6])
            shutil.copytree(tmp_path / name, tmp_path / f"{name} killed")
            with HashTable.open(tmp_path / f"{name} killed") as again:
                for one in (table, stored, again):
                    assert [
                        getattr(label, "tolist", lambda label=label: label)()
                        for label in one.get([1, 0]).labels
                    ] == second
                    assert one.hasher.transform(X).tobytes() == table.hasher.transform(X).tobytes()


# ---- killed at a fail-point


def operations(table: HashTable) -> Iterator[Callable[[], object]]:
    """What a child does by turns."""
    rng = np.random.default_rng(5)
    for i in range(8):
        X, y = rows(rng, 12)
        yield partial(table.ingest, range(10 * i, 10 * i + 12), X, y)
        yield partial(table.remove, [10 * i + 1])
        if i % 2:
            yield table.refresh
        if i == 5:
            yield table.compact
            yield table.flush


def child(path: Path, acknowledged: Path, name: str, count: int) -> None:
    failpoints.kill_at(f"{name}:{count}")
    table = HashTable.open(path, HASHER, policy=Every(2), checkpoint_rows=20, segment_bytes=1000)
    with acknowledged.open("ab", buffering=0) as file:
        for operation in operations(table):
            operation()
            file.write(b".")


def replayed(n: int, path: Path) -> HashTable:
    """A table in which the first n operations of the child have happened, and that was never killed."""
    table = HashTable.open(path, HASHER, policy=Every(2))
    for operation in islice(operations(table), n):
        operation()
    return table


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 1) for name in failpoints.NAMES if name != "snapshot.copied"),
        *((name, 3) for name in failpoints.NAMES if name.split(".")[0] in ("segment", "commit", "refresh")),
    ],
)
@pytest.mark.skipif("fork" not in get_all_start_methods(), reason="processes cannot be forked here")
def test_killed_at_a_fail_point_nothing_acknowledged_is_lost(tmp_path: Path, name: str, count: int) -> None:
    notes = tmp_path / "acknowledged"
    notes.touch()
    process = get_context("fork").Process(target=child, args=(tmp_path / "t", notes, name, count))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL, f"the child never passed {name} {count} times"
    done = notes.stat().st_size
    Q = queries()
    with HashTable.open(tmp_path / "t", HASHER, policy=Every(2)) as again:
        again.check()
        candidates = []
        for n in (done, done + 1):  # the last one may have happened, whole
            wanted = replayed(n, tmp_path / f"never killed {n}")
            same = len(wanted) == len(again)
            same = same and wanted.stats().versions == again.stats().versions
            same = same and [a.tolist() for a in wanted.search(Q, 99)] == [
                a.tolist() for a in again.search(Q, 99)
            ]
            if same and len(wanted):
                ids = wanted.search(Q[:1], 99).ids[0]
                same = wanted.get(ids).codes.tobytes() == again.get(ids).codes.tobytes()
                same = same and wanted.hasher.projection_.tobytes() == again.hasher.projection_.tobytes()
            candidates.append(same)
            wanted.close()
        assert any(candidates)


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_files_are_deleted_after_the_commit_that_replaced_them_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    """A process that is killed in `compact` leaves a commit that may not be on the disk, and the files before it."""
    X, y = rows(np.random.default_rng(0), 40)
    with HashTable.open(tmp_path / "t", hs.LSH(8, random_state=0), durability=durability) as table:
        table.ingest(range(40), X, y)
        table.remove([3])
        old = {path.name: path.read_bytes() for path in (tmp_path / "t").glob("features-*.seg")}
        table.compact()
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
    for name, raw in old.items():
        (tmp_path / "killed" / name).write_bytes(raw)
    done: list[str] = []
    sync, unlink = Database.sync_log, Path.unlink
    with monkeypatch.context() as patch:
        patch.setattr(Database, "sync_log", lambda database: done.append("sync") or sync(database))
        patch.setattr(Path, "unlink", lambda path, **more: done.append("delete") or unlink(path, **more))
        HashTable.open(tmp_path / "killed", durability=durability).close()
    assert done[:2] == ["sync", "delete"]
