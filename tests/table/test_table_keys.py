"""Keys: a call that is repeated under its key is done once, and returns what it returned at first."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.table.crash_child import fork
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows
from tests.table.test_table_writer import together

import hashstream as hs
from hashstream.table import Call, HashTable, KeyReused, Never, TableError
from hashstream.table.storage import memory
from hashstream.table.storage.folder import database, failpoints
from hashstream.table.storage.folder import storage as storage_module

HASHER = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
FIELDS = {"tenant": str, "price": float}
X, Y = rows(np.random.default_rng(3), 60)
Q = X[:3]


def opened(path: Path | None, hasher: Any = HASHER, **settings: Any) -> HashTable:
    return HashTable.open(path, hasher, **{"policy": Never(), "fields": FIELDS, **settings})


@pytest.fixture(params=["memory", "folder"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HashTable]:
    with opened(None if request.param == "memory" else tmp_path / "t") as one:
        one.ingest(range(30), X[:30], Y[:30], fields={"tenant": ["a", "b"] * 15})
        yield one


def calls(table: Any) -> dict[str, Callable[[str], Any]]:
    """Calls of all kinds, by a key."""
    more: dict[str, Any] = {"fields": {"tenant": ["c"] * 5}, "payloads": [{"n": 1}, None] * 2 + [None]}
    return {
        "ingest": lambda key: table.ingest(range(100, 105), X[30:35], Y[30:35], **more, key=key),
        "add": lambda key: table.add([200, 3], X[35:37], key=key),
        "learn": lambda key: table.add([201, 4], X[37:39], Y[37:39], learn=True, key=key),
        "label": lambda key: table.label([1, 2, 5], [(Y[1] + 1) % 4, Y[2], (Y[5] + 1) % 4], key=key),
        "remove": lambda key: table.remove([7, 6, 7], key=key),
        "remove where": lambda key: table.remove(where={"tenant": "b"}, key=key),
        "remove nothing": lambda key: table.remove(where={"tenant": "nobody"}, key=key),
        "label nothing": lambda key: table.label([8, 9], Y[[8, 9]], key=key),
        "label no item": lambda key: table.label([], [], key=key),
    }


RESULTS = {"ingest": None, "add": None, "learn": None, "label": 2, "remove": 2, "remove where": 15}
KINDS = [*RESULTS, "remove nothing", "label nothing", "label no item"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_call_changes_nothing_and_returns_the_same(table: HashTable, kind: str) -> None:
    call, wanted = calls(table)[kind], RESULTS.get(kind, 0)
    commits = table.stats().commits
    assert call("a key") == wanted
    assert table.stats().commits == commits + 1, "the key is committed, with the change or alone"
    before = fingerprint(table, Q)
    for _ in range(2):
        assert call("a key") == wanted
        assert fingerprint(table, Q) == before
    table.check()


@pytest.mark.parametrize("kind", KINDS)
def test_the_outcome_stays_whatever_happens_to_the_items(table: HashTable, tmp_path: Path, kind: str) -> None:
    call, wanted = calls(table)[kind], RESULTS.get(kind, 0)
    call("a key")
    if len(table):
        table.remove(where={"id": {"$exists": True}})
    table.compact()
    table.add(range(500, 520), X[:20], fields={"tenant": ["nobody"] * 20})
    before = fingerprint(table, Q)
    assert call("a key") == wanted
    assert fingerprint(table, Q) == before
    table.snapshot(tmp_path / "copy")
    with HashTable.open(tmp_path / "copy") as copied:
        before = fingerprint(copied, Q)
        assert calls(copied)[kind]("a key") == wanted
        assert fingerprint(copied, Q) == before


@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_survive(tmp_path: Path, kind: str, how: str) -> None:
    table = opened(tmp_path / "t")
    table.ingest(range(30), X[:30], Y[:30], fields={"tenant": ["a", "b"] * 15})
    wanted = calls(table)[kind]("a key")
    path = tmp_path / "t"
    if how == "killed":
        path = tmp_path / "killed"
        shutil.copytree(tmp_path / "t", path)
    table.close()
    with HashTable.open(path) as again:
        before = fingerprint(again, Q)
        assert calls(again)[kind]("a key") == wanted
        assert fingerprint(again, Q) == before


def test_the_same_arguments_in_another_form(table: HashTable) -> None:
    table.ingest([70, 71], X[:2], [1, 2], fields={"price": [1, 2]}, key="a")
    frame = pd.DataFrame(X[:2].astype(np.float64))
    for ids, features, y, price in (
        (np.array([70, 71], np.int32), X[:2].tolist(), np.array([1, 2], np.int8), [1.0, 2.0]),
        (range(70, 72), frame, (1, 2), np.array([1, 2])),
    ):
        table.ingest(ids, features, y, fields={"price": price}, key="a")
        with pytest.raises(KeyReused):
            table.ingest(ids, features, y, fields={"price": price, "tenant": ["a", "b"]}, key="a")
    assert table.remove([71, 70], key="b") == table.remove(np.array([70, 71, 70]), key="b") == 2
    where: dict[str, Any] = {"tenant": "a", "price": {"$exists": False}}
    assert table.remove(where=where, key="c") == table.remove(where=dict(reversed(where.items())), key="c")


OTHERS: dict[str, Callable[[Any], Any]] = {
    "another id": lambda t: t.ingest([1, 3], X[:2], [0, 1], key="k"),
    "another order": lambda t: t.ingest([2, 1], X[:2], [0, 1], key="k"),
    "an id less": lambda t: t.ingest([1], X[:1], [0], key="k"),
    "another row": lambda t: t.ingest([1, 2], X[1:3], [0, 1], key="k"),
    "a bit of a row": lambda t: t.ingest([1, 2], np.nextafter(X[:2], np.float32(9)), [0, 1], key="k"),
    "another label": lambda t: t.ingest([1, 2], X[:2], [0, 2], key="k"),
    "a text as label": lambda t: t.ingest([1, 2], X[:2], ["0", "1"], key="k"),
    "no label": lambda t: t.ingest([1, 2], X[:2], [0, None], key="k"),
    "no labels": lambda t: t.ingest([1, 2], X[:2], key="k"),
    "a field": lambda t: t.ingest([1, 2], X[:2], [0, 1], fields={"tenant": ["a", "b"]}, key="k"),
    "a payload": lambda t: t.ingest([1, 2], X[:2], [0, 1], payloads=[{}, None], key="k"),
    "another method": lambda t: t.add([1, 2], X[:2], [0, 1], key="k"),
    "labels alone": lambda t: t.label([1, 2], [0, 1], key="k"),
    "removal": lambda t: t.remove([1, 2], key="k"),
    "removal by a filter": lambda t: t.remove(where={"tenant": "a"}, key="k"),
    "NaN": lambda t: t.ingest([1, 2], X[:2] * np.nan, [0, 1], key="k"),
    "other features": lambda t: t.ingest([1, 2], X[:2, :5], [0, 1], key="k"),
    "an item that is not there": lambda t: t.label([999], [0], key="k"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_arguments_are_refused(table: HashTable, other: str) -> None:
    table.ingest([1, 2], X[:2], [0, 1], key="k")
    before = fingerprint(table, Q)
    with pytest.raises(KeyReused, match="'k' names a call that was done with other arguments"):
        OTHERS[other](table)
    if "removal" not in other:
        with pytest.raises(KeyReused):
            OTHERS[other](table.writer())
    assert fingerprint(table, Q) == before


def test_other_removals_are_refused(table: HashTable) -> None:
    table.remove([1], key="k")
    table.remove(where={"tenant": "a"}, key="w")
    for call in (
        lambda: table.remove([2], key="k"),
        lambda: table.remove(where={"id": 1}, key="k"),
        lambda: table.remove(where={"tenant": "b"}, key="w"),
        lambda: table.remove([1], key="w"),
    ):
        with pytest.raises(KeyReused):
            call()


def test_a_call_that_raised_is_not_remembered(table: HashTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for call, error in (
        (lambda: table.ingest([100], X[:1] * np.nan, [0], key="k"), ValueError),
        (lambda: table.label([100], [0], key="k"), KeyError),
        (lambda: table.remove([100], key="k"), KeyError),
        (lambda: table.remove(where={"no such": 1}, key="k"), ValueError),
        (lambda: table.writer().add([100], X[:1], fields={"no": [1]}, key="k"), ValueError),
        (lambda: table.writer().label([100], [0], key="k"), KeyError),
    ):
        with pytest.raises(error):
            call()  # type: ignore[no-untyped-call]
    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            raise MemoryError

        patch.setattr(table._storage, "commit", full)
        with pytest.raises(MemoryError):
            table.ingest([100], X[:1], [0], key="k")
    assert table.ingest([100], X[:1], [1], key="k") is None
    assert 100 in table


def test_keys_that_cannot_be_one(table: HashTable) -> None:
    before = fingerprint(table, Q)
    for key, error in (
        ("", ValueError), ("x" * 201, ValueError), ("a\nb", ValueError), ("a\0", ValueError), ("\ud800", ValueError),
        (7, TypeError), (b"key", TypeError), (uuid.uuid4(), TypeError),
    ):  # fmt: skip
        for call in calls(table).values():
            with pytest.raises(error, match="key must"):
                call(key)  # type: ignore[arg-type]
        with pytest.raises(error, match="key must"):
            table.writer().ingest([1], X[:1], [0], key=key)  # type: ignore[arg-type]
    assert fingerprint(table, Q) == before
    for key in ("x", "x" * 200, "é € 中", str(uuid.uuid4()), "'; DROP TABLE keys"):
        assert table.remove(where={"tenant": "nobody"}, key=key) == 0


def test_only_the_last_keys_are_kept(table: HashTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory, database):
        monkeypatch.setattr(module, "MOST_KEYS", 10)
    for i in range(25):
        table.add([i], X[i : i + 1], key=f"key {i}")
    held = [f"key {i}" for i in range(15, 25)]
    assert [one.key for one in table._storage.all_done()] == held
    writer = table.writer()
    writer.do([Call("add", ([i], X[i : i + 1]), key=f"key {i}") for i in range(25, 40)])
    held = [f"key {i}" for i in range(30, 40)]
    assert [one.key for one in table._storage.all_done()] == held
    table.remove([39])
    table.compact()
    table.add([39], X[39:40], key="key 39")
    assert 39 not in table, "it is known"
    table.add([0], X[1:2], key="key 0")
    assert table.get([0]).features[0].tolist() == X[1].tolist(), "it is forgotten"  # type: ignore[index]
    table.check()


def test_a_table_without_items_remembers_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a checkpoint of its items, of which there are none."""
    monkeypatch.setattr(storage_module, "LOG_ROWS", 3)
    with opened(tmp_path / "t") as table, opened(None) as other:
        for one in (table, other):
            for i in range(9):
                assert one.remove(where={"tenant": "a"}, key=f"key {i}") == 0
        other.snapshot(tmp_path / "copy")
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
    for name in ("t", "killed", "copy"):
        with HashTable.open(tmp_path / name) as table:
            assert [one.key for one in table._storage.all_done()] == [f"key {i}" for i in range(9)]
            before = table.stats().commits
            assert table.remove(where={"tenant": "a"}, key="key 3") == 0
            assert table.stats().commits == before
            table.ingest(range(20), X[:20], Y[:20], fields={"tenant": ["a"] * 20}, key="first")
            assert table.remove(where={"tenant": "a"}, key="key 3") == 0
            table.check()
        with HashTable.open(tmp_path / name) as table:
            assert len(table) == 20
            table.check()


@pytest.mark.thinned("pairs")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the child is forked")
@pytest.mark.parametrize(("point", "there"), [("commit.before", False), ("commit.after", True)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_call_can_be_repeated(tmp_path: Path, kind: str, point: str, there: bool) -> None:
    """It is done once, whether it was killed before its commit or after it."""
    wanted = opened(tmp_path / "never killed")
    wanted.ingest(range(30), X[:30], Y[:30], fields={"tenant": ["a", "b"] * 15})
    result = calls(wanted)[kind]("a key")

    def life(_: object) -> None:
        table = opened(tmp_path / "t")
        table.ingest(range(30), X[:30], Y[:30], fields={"tenant": ["a", "b"] * 15})
        failpoints.kill_at(point)
        calls(table)[kind]("a key")

    child, pipe = fork(life)
    os.close(pipe)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    with HashTable.open(tmp_path / "t") as table:
        assert bool(list(table._storage.all_done())) == there
        for _ in range(2):
            assert calls(table)[kind]("a key") == result
            assert fingerprint(table, Q) == fingerprint(wanted, Q)
    wanted.close()


# ---- in a writer


def test_many_keys_in_one_commit(table: HashTable) -> None:
    writer = table.writer()
    commits, seen = table.stats().commits, table.hasher.n_seen_
    some = [lambda i=i: writer.ingest([i], X[i : i + 1], [1], key=f"key {i}") for i in range(30, 60)]
    for _ in range(2):
        assert together(table, some) == [None] * 30
        assert len(table) == 60
        assert table.hasher.n_seen_ == seen + 30
        assert table.stats().commits < commits + 10
    assert {one.key for one in table._storage.all_done()} == {f"key {i}" for i in range(30, 60)}


def test_two_waiting_calls_with_one_key_are_done_once(table: HashTable) -> None:
    writer = table.writer()
    seen, found = table.hasher.n_seen_, []
    once = threading.Lock()

    def label() -> None:
        changed = writer.label([1, 2], [(Y[1] + 1) % 4, Y[2]], key="label")
        with once:
            found.append(changed)

    same = [lambda: writer.ingest([99], X[:1], [1], key="k") for _ in range(8)]
    assert together(table, [*same, *[label] * 8]) == [None] * 16
    assert found == [1] * 8
    assert table.hasher.n_seen_ == seen + 2
    assert table.stats().n_slots == 31


def test_the_second_is_done_where_the_first_fails(table: HashTable, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = table.writer()
    fails = iter([True, False])
    commit = table._storage.commit

    def fail_first(*args: Any) -> None:
        if next(fails):
            raise TableError("it is full")
        commit(*args)

    monkeypatch.setattr(table._storage, "commit", fail_first)
    two = [Call("ingest", ([99], X[:1], [1]), key="k") for _ in range(2)]
    writer.do(two)
    assert [str(call.error) for call in two] == ["it is full", "None"]
    assert 99 in table
    monkeypatch.undo()
    bad, good = Call("label", ([99], [1, 2]), key="m"), Call("label", ([99], [2]), key="m")
    writer.do([bad, good])
    assert isinstance(bad.error, ValueError)
    assert (good.error, good.result) == (None, 1)
    other = Call("label", ([99], [3]), key="m")
    writer.do([other, good])
    assert isinstance(other.error, KeyReused)


def test_a_call_that_was_done_is_not_checked_again(table: HashTable) -> None:
    """Its items may be gone."""
    writer = table.writer()
    assert writer.label([1, 2], [(Y[1] + 1) % 4, (Y[2] + 1) % 4], key="k") == 2
    table.remove([1])
    assert writer.label([1, 2], [(Y[1] + 1) % 4, (Y[2] + 1) % 4], key="k") == 2
    with pytest.raises(KeyError):
        writer.label([1], [0], key="other")


# ---- stored


def damaged(path: Path, sql: str) -> None:
    db = sqlite3.connect(path / "table.sqlite")
    db.execute(sql)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE keys SET fingerprint = fingerprint + 1 WHERE key = 'k'",
        "UPDATE keys SET result = 3 WHERE key = 'k'",
        "UPDATE keys SET result = 'x' WHERE key = 'k'",
        "UPDATE keys SET number = 'x' WHERE key = 'k'",
    ],
)
def test_damage_is_found(tmp_path: Path, sql: str) -> None:
    with opened(tmp_path / "t") as table:
        table.ingest(range(10), X[:10], Y[:10], key="k")
    damaged(tmp_path / "t", sql)
    for mode in ("read", "write"):
        with HashTable.open(tmp_path / "t", mode=mode) as table, pytest.raises(TableError, match="key k"):
            table.check()
    with HashTable.open(tmp_path / "t") as table, pytest.raises(TableError, match=r"table\.sqlite.*key k"):
        table.ingest(range(10), X[:10], Y[:10], key="k")
    damaged(tmp_path / "t", "UPDATE keys SET key = 'l' WHERE key = 'k'")
    with HashTable.open(tmp_path / "t") as table, pytest.raises(TableError, match="key l"):
        table.check()


def test_without_a_key_the_storage_is_not_asked(table: HashTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(table._storage, "done", never)
    for kind in sorted(KINDS):
        calls(table)[kind](None)  # type: ignore[arg-type]
    table.writer().ingest([50], X[50:51], [1])
    assert not list(table._storage.all_done())


def test_readers_see_keys_and_take_none(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table, HashTable.open(tmp_path / "t", mode="read") as reader:
        table.ingest(range(10), X[:10], Y[:10], key="k")
        table.remove(where={"tenant": "x"}, key="l")
        reader.reload()
        assert fingerprint(reader, Q) == fingerprint(table, Q)
        with pytest.raises(TableError, match="read"):
            reader.ingest(range(10), X[:10], Y[:10], key="k")


@pytest.mark.parametrize("which", ["key 0", "key 5", "key 9"])
def test_a_lost_key_is_found(tmp_path: Path, which: str) -> None:
    with opened(tmp_path / "t") as table:
        for i in range(10):
            table.add([i], X[i : i + 1], key=f"key {i}")
    damaged(tmp_path / "t", f"DELETE FROM keys WHERE key = '{which}'")
    for mode in ("read", "write"):
        with (
            HashTable.open(tmp_path / "t", mode=mode) as table,
            pytest.raises(TableError, match="keys of calls"),
        ):
            table.check()
