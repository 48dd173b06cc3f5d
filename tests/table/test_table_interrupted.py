"""Ctrl-C anywhere in a change: it is stored whole or not at all, and a table that cannot tell does not go on."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.interrupts import Interrupts, try_interrupts
from tests.table.table_worlds import rows

from hashstream import FCOH
from hashstream.table import Every, HashTable, Lazy, Never, TableError
from hashstream.table.background import Refresher
from hashstream.table.state.index import Index
from hashstream.table.storage.folder import failpoints
from hashstream.table.storage.folder.database import Database

WRITE = ["segment.write", "segment.written", "segment.synced", "commit.before", "commit.after"]


def stop() -> None:
    raise KeyboardInterrupt


def opened(path: Path | None, policy: Any = None) -> HashTable:
    return HashTable.open(path, FCOH(16, random_state=0), policy=policy or Every(1000), checkpoint_rows=100)


def batch(first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = rows(np.random.default_rng(first), 60)
    return np.arange(first, first + 60), X, y


OPERATIONS: dict[str, Callable[[HashTable], Any]] = {
    "ingest": lambda table: table.ingest(*batch(120)),
    "replace": lambda table: table.ingest(*batch(30)),
    "add": lambda table: table.add(*batch(120)[:2]),
    "remove": lambda table: table.remove([3, 4, 70]),
    "refresh": lambda table: table.refresh(),
    "compact": lambda table: table.compact(),
    "flush": lambda table: table.flush(),
    "label": lambda table: table.label(np.arange(10, 20), [0] * 10),
    "writer": lambda table: table.writer().ingest(*batch(120), payloads=[{"n": 1}] * 60),
    "remove where": lambda table: table.remove(where={"label": 1}),
    "declare": lambda table: table.declare({"tenant": str}),
}

COMMIT, CHECKPOINT = ["commit.before", "commit.after"], ["checkpoint.before", "checkpoint.after"]
ON_THE_WAY = {
    "ingest": [*WRITE, *CHECKPOINT],
    "replace": COMMIT,
    "add": COMMIT,
    "remove": COMMIT,
    "refresh": ["refresh.piece", *COMMIT],
    "compact": [*WRITE, "compact.written", "compact.after"],
    "flush": CHECKPOINT,
    "label": COMMIT,
    "writer": [*WRITE, *CHECKPOINT],
    "remove where": COMMIT,
    "declare": COMMIT,
}
"""Where each may be interrupted."""


def state(table: HashTable) -> tuple[Any, ...]:
    """What anybody can see of a table."""
    ids = np.sort(table.search(np.zeros((1, 12)), 1000).ids[0])
    held = table.get(ids)
    assert held.features is not None
    return (
        ids.tolist(),
        held.codes.tobytes(),
        held.versions.tolist(),
        held.labels,
        held.fields,
        held.payloads,
        held.features.tobytes(),
        table.hasher.projection_.tobytes(),
    )


@pytest.mark.parametrize("durability", ["full", "fast"])
@pytest.mark.parametrize(
    ("name", "point"), [(name, point) for name in OPERATIONS for point in ON_THE_WAY[name]]
)
def test_interrupted_in_a_folder(tmp_path: Path, name: str, point: str, durability: str) -> None:
    path = tmp_path / "table"

    def prepare(where: Path) -> HashTable:
        table = HashTable.open(
            where, FCOH(16, random_state=0), policy=Every(1000), checkpoint_rows=100, durability=durability
        )
        table.ingest(*batch(0))
        table.ingest(*batch(60))
        table.remove([1, 2])
        return table

    with prepare(tmp_path / "whole") as whole:
        before = state(whole)
        OPERATIONS[name](whole)
        after = state(whole)

    table = prepare(path)
    came = False
    try:
        with failpoints.on(point, stop):
            OPERATIONS[name](table)
    except KeyboardInterrupt:
        came = True
        assert table.search(np.zeros((1, 12)), 1000)[0].shape in ((1, len(before[0])), (1, len(after[0])))
    torn = table._storage.in_doubt
    if torn:
        assert came
        with pytest.raises(TableError, match="close and reopen the table"):
            table.ingest(*batch(500))
        with pytest.raises(TableError, match="close and reopen the table"):
            table.check()
    else:
        assert state(table) in ((before, after) if came else (after,))
        table.ingest(*batch(500))
    table.close()
    with HashTable.open(path) as again:
        again.check()
        if torn:
            assert state(again) in (before, after)
        else:
            again.remove(np.arange(500, 560))
            assert state(again)[0] in (before[0], after[0])
        again.ingest(*batch(700))
        again.check()


def test_interrupted_after_the_commit_it_is_stored(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.ingest(*batch(0))
    with failpoints.on("commit.after", stop), pytest.raises(KeyboardInterrupt):
        table.ingest(*batch(60))
    assert len(table) == 60  # as it was before, for whoever reads here
    with pytest.raises(TableError, match="its outcome is unknown"):
        table.remove([1])
    table.close()
    with opened(tmp_path) as again:
        assert len(again) == 120
        assert again.stats().n_seen == 120


def test_interrupted_between_commit_and_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last moment at which an interrupt can do harm: all is stored, nothing is shown."""
    for path in (tmp_path / "table", None):
        table = opened(path)
        table.ingest(*batch(0))
        with monkeypatch.context() as patch:
            patch.setattr(table._current_index(), "enter", lambda *_: stop())
            with pytest.raises(KeyboardInterrupt):
                table.ingest(*batch(60))
        assert table.search(batch(0)[1], 1)[0].shape == (60, 1)
        with pytest.raises(TableError, match="its outcome is unknown"):
            table.ingest(*batch(120))
        table.close()
    with HashTable.open(tmp_path / "table") as again:
        assert len(again) == 120
        again.ingest(*batch(120))
        assert again.check()["rows"] == 180


@pytest.mark.parametrize("place", ["index", "checkpoint"])
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_nothing_fails_after_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, place: str
) -> None:
    """Memory that runs out then is no error of the call, whose batch is stored."""

    def no_memory(*_: Any, **__: Any) -> Any:
        raise MemoryError("Unable to allocate")

    table = opened(tmp_path / "t" if kind == "folder" else None)
    table.ingest(*batch(0))
    with monkeypatch.context() as patch:
        if place == "index":
            patch.setattr(Index, "enter", no_memory)
        else:
            patch.setattr(table._storage, "checkpoint", no_memory)
        table.ingest(*batch(60))
        table.remove([3])
        table.ingest(*batch(30))
    assert len(table) == 120 - 1
    assert 3 not in table
    assert table.hasher.n_seen_ == 180
    held = table.get(batch(30)[0]).features
    assert held is not None
    assert held.tobytes() == batch(30)[1].tobytes()
    table.ingest(*batch(200))
    table.close()
    if kind == "folder":
        with HashTable.open(tmp_path / "t") as again:
            assert len(again) == 179
            assert again.check()["rows"] == 240


def test_memory_that_runs_out_before_the_commit_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: Any, **__: Any) -> Any:
        raise MemoryError("Unable to allocate")

    with opened(tmp_path) as table:
        table.ingest(*batch(0))
        before = state(table)
        for name in ("__init__", "entries"):
            with monkeypatch.context() as patch:
                patch.setattr(Index, name, no_memory)
                patch.setattr(Index, "crowded", lambda *_, name=name: name == "__init__")
                with pytest.raises(MemoryError):
                    table.ingest(*batch(60))
            assert state(table) == before
        table.ingest(*batch(60))
        assert len(table) == 120


@pytest.mark.parametrize("policy", [Every(1000), Lazy()], ids=["Every", "Lazy"])
def test_an_interrupted_close_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any
) -> None:
    for n, where in enumerate(["checkpoint", "storage", "database", "lock"]):
        path = tmp_path / str(n)
        table = opened(path, policy)
        table.ingest(*batch(0))
        owner, name = {
            "checkpoint": (table._storage, "checkpoint"),
            "storage": (table._storage, "close"),
            "database": (table._storage._database, "close"),  # type: ignore[attr-defined]
            "lock": (table._storage._lock, "release"),  # type: ignore[attr-defined]
        }[where]
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, lambda *_, **__: stop())
            with pytest.raises(KeyboardInterrupt):
                table.close()
        table.close()
        reopened(path, 0)


def test_an_open_that_is_interrupted_stops_what_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread in the background: it would use a database that is closed, which ends the process."""
    with opened(tmp_path, Never()) as table:
        for first in range(0, 600, 60):
            table.ingest(*batch(first))
    begin = Refresher.start
    threads: list[Any] = []

    def then_interrupted(refresher: Refresher, table: HashTable) -> None:
        begin(refresher, table)
        threads.append(refresher._thread)
        time.sleep(0.002 * len(threads))
        stop()

    for _ in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(Refresher, "start", then_interrupted)
            with pytest.raises(KeyboardInterrupt) as held:  # with what was on the stack
                HashTable.open(tmp_path, policy=Lazy(share=1.0, piece=1))
        threads[-1].join(10)
        assert not threads[-1].is_alive()
        with HashTable.open(tmp_path, policy=Never()) as table:
            assert table.check()["rows"] == 600
        del held


def test_interrupts_by_a_timer(tmp_path: Path) -> None:
    """At any moment of any call, closing and opening among them: `make crash` has thousands."""
    found = Interrupts()
    for seed in (5, 8):  # the policies Lazy and Never
        found.add(try_interrupts(seed, tmp_path))
    assert found.failures == []
    assert found.interrupts > 40


def test_a_change_that_is_refused_leaves_the_table_usable(tmp_path: Path) -> None:
    """What is undone whole is no reason to stop, whatever was raised."""
    with opened(tmp_path) as table:
        table.ingest(*batch(0))
        for point in WRITE[:-1]:
            with failpoints.on(point, stop):
                try:
                    table.ingest(*batch(60))
                except KeyboardInterrupt:
                    assert len(table) == 60
                else:
                    table.remove(np.arange(60, 120))  # the point is not on this way
        table.ingest(*batch(60))
        assert len(table) == 120
        assert table.check()["codes"] == 120


def reopened(path: Path, *firsts: int) -> None:
    """The folder opens, holds these batches, is whole, and takes more."""
    with HashTable.open(path) as again:
        assert len(again) == 60 * len(firsts)
        for first in firsts:
            ids, X, y = batch(first)
            held = again.get(ids)
            assert held.features is not None
            assert held.features.tobytes() == X.tobytes()
            assert held.labels == y.tolist()
        again.ingest(*batch(300))
        assert again.check()["rows"] == 60 * len(firsts) + 60


@pytest.mark.parametrize("kind", ["folder", "memory"])
@pytest.mark.parametrize("first", [True, False])
def test_an_interrupted_learn_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, first: bool
) -> None:
    """Learning is done on a copy: wherever it stops, the table goes on, and learns the same as if nothing had been."""
    generator = np.random.default_rng(3)  # a first batch draws from it
    path = tmp_path / "t" if kind == "folder" else None
    hasher = FCOH(16, random_state=generator)
    with HashTable.open(path, hasher) as table, HashTable.open(None, hasher) as never_interrupted:
        if not first:
            table.ingest(*batch(0))
            never_interrupted.ingest(*batch(0))
            before = state(table)
        learn = FCOH._learn_rows

        def then_interrupted(learner: FCOH, *args: Any) -> None:
            learn(learner, *args)
            stop()

        with monkeypatch.context() as patch:
            patch.setattr(FCOH, "_learn_rows", then_interrupted)
            for _ in range(2):
                with pytest.raises(KeyboardInterrupt):
                    table.ingest(*batch(60))
        assert not table._storage.in_doubt
        if first:
            assert len(table) == 0
            assert not hasattr(table.hasher, "n_seen_")
        else:
            assert state(table) == before
        table.ingest(*batch(60))
        never_interrupted.ingest(*batch(60))
        assert state(table) == state(never_interrupted)


@pytest.mark.parametrize("where", ["undo", "roll back and undo"])
def test_a_second_interrupt_while_the_first_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Nothing is built on what may be half-way, and closing does not make it last."""
    table = opened(tmp_path)
    table.ingest(*batch(0))
    table.ingest(*batch(60))
    with monkeypatch.context() as patch, failpoints.on("segment.written", stop):
        patch.setattr(table._storage._features.segments, "undo", lambda *_, **__: stop())  # type: ignore[attr-defined]
        if where == "roll back and undo":
            patch.setattr(Database, "give_up", lambda *_: stop())
        with pytest.raises(KeyboardInterrupt):
            table.ingest(*batch(120))
    assert table.search(batch(0)[1], 1)[0].shape == (60, 1)
    for change in (lambda: table.ingest(*batch(180)), table.flush, lambda: table.remove([3])):
        with pytest.raises(TableError, match="its outcome is unknown"):
            change()
    table.close()
    reopened(tmp_path, 0, 60)


def test_closed_in_the_middle_of_an_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the handler of a signal may do."""
    table = opened(tmp_path)
    table.ingest(*batch(0))
    table.ingest(*batch(60))
    learned = FCOH.learned

    def then_closed(*args: Any) -> None:
        learned(*args)
        table.close()
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(FCOH, "learned", then_closed)
        with pytest.raises(SystemExit):
            table.ingest(*batch(120))
    reopened(tmp_path, 0, 60)


@pytest.mark.parametrize("policy", [Every(1000), Lazy()])
@pytest.mark.parametrize("call", ["ingest", "add"])
def test_closed_in_the_middle_of_a_change_which_goes_on(tmp_path: Path, policy: Any, call: str) -> None:
    """As the handler of a signal may do that returns: the change is made, and then the table is closed."""
    table = opened(tmp_path, policy)
    table.ingest(*batch(0))
    table.ingest(*batch(60))
    with failpoints.on("segment.write", table.close):
        if call == "ingest":
            table.ingest(*batch(120))
        else:
            table.add(*batch(120)[:2])
    with pytest.raises(TableError, match="closed"):
        table.search(batch(0)[1])
    with HashTable.open(tmp_path) as again:
        assert len(again) == 180
        held = again.get(batch(120)[0]).features
        assert held is not None
        assert held.tobytes() == batch(120)[1].tobytes()
        assert again.check()["rows"] == 180


@pytest.mark.parametrize("call", ["check", "reload", "refresh"])
def test_closed_by_a_handler_while_a_thread_waits_for_the_lock(tmp_path: Path, call: str) -> None:
    """The thread of `Lazy` waits for whoever is interrupted, and closing waits for the thread."""
    with opened(tmp_path, Never()) as table:
        for first in range(0, 300, 60):
            table.ingest(*batch(first))
    table = HashTable.open(tmp_path, policy=Lazy(share=1.0, piece=1))
    faulthandler.dump_traceback_later(60, exit=True)
    with table._lock:  # as `check` holds it when the signal comes
        assert table._refresher is not None
        table._refresher.wake(table)
        time.sleep(0.05)
        table.close()
    if call == "check":
        with suppress(TableError):
            table.check()
    elif call == "reload":
        assert not table.reload()
    else:
        with suppress(TableError):
            table.refresh()
    faulthandler.cancel_dump_traceback_later()
    with pytest.raises(TableError, match="closed"):
        table.search(batch(0)[1])
    HashTable.open(tmp_path).close()


def test_what_two_interrupts_leave_open_is_rolled_back(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.ingest(*batch(0))
    db = table._storage._database._db  # type: ignore[attr-defined]
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM batches")
    assert table.check()["rows"] == 60
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM batches")
    table.ingest(*batch(60))
    table.close()
    reopened(tmp_path, 0, 60)


def test_closed_in_the_middle_of_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path)
    table.ingest(*batch(0), payloads=[{"n": n} for n in range(60)])
    found = Database.payloads

    def closed_first(*args: Any) -> Any:
        table.close()
        return found(*args)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "payloads", closed_first)
        assert table.get([5]).ids.tolist() == [5]  # the read is finished first
    with pytest.raises(TableError, match="closed"):
        table.get([5])
    reopened(tmp_path, 0)


def test_interrupted_as_a_transaction_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path)
    table.ingest(*batch(0))
    database = table._storage._database  # type: ignore[attr-defined]

    class Interrupted:
        db = database._db

        def __getattr__(self, name: str) -> Any:
            return getattr(self.db, name)

        def execute(self, sql: str, *values: Any) -> Any:
            done = self.db.execute(sql, *values)
            return stop() if sql.startswith("BEGIN") else done

    with monkeypatch.context() as patch:
        patch.setattr(database, "_db", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            table.ingest(*batch(60))
    table.ingest(*batch(60))
    table.close()
    reopened(tmp_path, 0, 60)
