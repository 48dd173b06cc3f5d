"""A table that looks codes up gives the answers of one that scans them, whatever has happened to its items."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hashstream as hs
from hashstream.hamming import _multi
from hashstream.table import HashTable
from hashstream.table.state import lookup

D = 12


class AtOnce:
    """A thread that has ended when `start` returns."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], **_: Any) -> None:
        self._work = lambda: target(*args)

    def start(self) -> None:
        self._work()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index small parts after their first search, before the next one."""
    monkeypatch.setattr(lookup, "LEAST", 20)
    monkeypatch.setattr(lookup, "BUILDING", 0)
    monkeypatch.setattr(_multi, "LEAST_CODES", 20)
    monkeypatch.setattr(_multi, "SAMPLE", 5)
    monkeypatch.setattr(_multi, "IN_CACHE", 1e5)
    monkeypatch.setattr(_multi, "CALL", 0)
    monkeypatch.setattr(lookup.threading, "Thread", AtOnce)


def tables(n_bits: int = 24) -> tuple[HashTable, HashTable]:
    hasher = hs.RidgeHash(n_bits, random_state=0)
    kinds = {"colour": "str"}
    looked_up = HashTable.open(None, hasher, fields=kinds, policy="never")
    return looked_up, HashTable.open(None, hasher, fields=kinds, policy="never", index="scan")


def data(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n)
    X = np.eye(5)[y] @ np.random.default_rng(0).normal(size=(5, D)) + 0.3 * rng.normal(size=(n, D))
    return X, y, ["red" if one else "blue" for one in rng.random(n) < 0.4]


def agree(ours: HashTable, plain: HashTable, seed: int) -> None:
    Q = data(1000 + seed, 25)[0]
    for where in (None, {"colour": "red"}, {"colour": "green"}):
        for queries, k in ((Q, 7), (Q[:1], 1), (Q[:2], 300)):
            for compare, weighted in (("like", False), ("current", False), ("like", True), ("current", True)):
                how = {"where": where, "compare": compare, "asymmetric": weighted}
                found, wanted = ours.search(queries, k, **how), plain.search(queries, k, **how)
                np.testing.assert_array_equal(found.distances, wanted.distances)
                np.testing.assert_array_equal(found.ids, wanted.ids)
        near, all_near = (one.search_radius(Q, 3, where=where) for one in (ours, plain))
        for one, other in zip(near, all_near, strict=True):
            np.testing.assert_array_equal(one, other)


def changes(seed: int) -> Iterator[Callable[[HashTable], object]]:
    """Changes that may follow one another, drawn by a seed; the same for two tables."""
    rng = np.random.default_rng(seed)
    there: list[int] = []
    first = data(seed, 300)
    yield lambda table: table.ingest(range(300), first[0], first[1], fields={"colour": first[2]})
    there += range(300)
    for step in range(20):
        n = int(rng.integers(1, 80))
        X, y, colours = data(100 * seed + step, n)
        kind = rng.choice(["add", "learn", "replace", "remove", "refresh", "piece", "compact"])
        new = list(range(there[-1] + 1, there[-1] + 1 + n))
        if kind in ("add", "learn"):
            there += new
            yield lambda table, a=(new, X, y), c=colours, learn=kind == "learn": table.add(
                *a, fields={"colour": c}, learn=learn
            )
        elif kind == "replace":
            ids = rng.choice(there, min(n, len(there)), replace=False).tolist()
            few = len(ids)
            yield lambda table, a=(ids, X[:few], y[:few]), c=colours[:few]: table.add(
                *a, fields={"colour": c}
            )
        elif kind == "remove":
            ids = rng.choice(there[:-1], min(n, len(there) - 1), replace=False).tolist()
            there = [one for one in there if one not in set(ids)]
            yield lambda table, ids=ids: table.remove(ids)
        elif kind == "refresh":
            yield lambda table: table.refresh()
        elif kind == "piece":
            yield lambda table, n=n: table.refresh(n)
        else:
            yield lambda table: table.compact()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_a_scan_after_any_change(seed: int) -> None:
    ours, plain = tables()
    indexed = 0
    for change in changes(seed):
        change(ours)
        change(plain)
        agree(ours, plain, seed)
        indexed += ours.stats().n_indexed
        assert plain.stats().n_indexed == 0
    assert indexed > 0
    assert ours.stats().index_bytes > 0


@pytest.mark.usefixtures("eager")
def test_rows_that_came_later_are_scanned_until_they_are_many() -> None:
    ours, plain = tables()
    X, y, colours = data(1, 1000)
    for table in (ours, plain):
        table.ingest(range(400), X[:400], y[:400], fields={"colour": colours[:400]})
    agree(ours, plain, 1)
    assert ours.stats().n_indexed == 400
    for table in (ours, plain):
        table.add(range(400, 450), X[400:450], fields={"colour": colours[400:450]})
    agree(ours, plain, 1)
    assert ours.stats().n_indexed == 400  # the others are few
    for table in (ours, plain):
        table.add(range(450, 1000), X[450:], fields={"colour": colours[450:]})
    agree(ours, plain, 1)
    assert ours.stats().n_indexed == 1000


@pytest.mark.usefixtures("eager")
def test_a_view_from_before_does_not_see_what_came_later() -> None:
    ours, plain = tables()
    X, y, colours = data(1, 600)
    for table in (ours, plain):
        table.ingest(range(300), X[:300], y[:300], fields={"colour": colours[:300]})
    before = ours._state.view
    ours.remove(range(50))  # the first rows: the part begins later
    ours.add(range(300, 600), X[300:], fields={"colour": colours[300:]})
    ours.search(X[:5], 3)
    assert ours.stats().n_indexed == 550
    Q = np.asarray(X[:20], ours.dtype)
    found = ours._storage.index(before).topk(Q, 5, compare="like")
    wanted = plain._storage.index(plain._state.view).topk(Q, 5, compare="like")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_index_is_built_in_a_thread_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "LEAST", 5000)
    monkeypatch.setattr(_multi, "IN_CACHE", 1e5)  # so few codes would be scanned
    ours, plain = tables(64)
    X, y, _ = data(3, 6000)
    ours.ingest(range(6000), X, y)
    plain.ingest(range(6000), X, y)
    ours.search(X[:900], 3)
    assert ours.stats().n_indexed == 0  # scanning has cost less than an index would
    ours.search(X[:200], 3)
    for thread in threading.enumerate():
        if thread.name == "hashstream-index":
            thread.join()
    assert ours.stats().n_indexed == 6000
    for one, other in zip(ours.search(X[:50], 10), plain.search(X[:50], 10), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_that_are_gone_are_not_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "LEAST", 20)
    monkeypatch.setattr(lookup, "BUILDING", 0)
    built: list[int] = []
    monkeypatch.setattr(lookup.hamming, "MultiIndex", lambda codes: built.append(len(codes)))
    waiting: list[Callable[[], None]] = []
    monkeypatch.setattr(AtOnce, "start", lambda self: waiting.append(self._work))
    monkeypatch.setattr(lookup.threading, "Thread", AtOnce)
    for _ in range(3):
        codes = np.zeros((30, 8), np.uint8)
        lookup.Lookup().scanned(codes, 0, 30, 1)
    assert len(waiting) == 3
    del codes
    for work in waiting:
        work()
    assert built == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_can_build_while_its_parent_does() -> None:
    with lookup._one_at_a_time:
        child = os.fork()
        if not child:
            os._exit(0 if lookup._one_at_a_time.acquire(timeout=10) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_what_cannot_be_indexed_is_scanned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(codes: np.ndarray) -> None:
        raise MemoryError("too large")

    monkeypatch.setattr(lookup, "LEAST", 20)
    monkeypatch.setattr(lookup, "BUILDING", 0)
    monkeypatch.setattr(lookup.threading, "Thread", AtOnce)
    monkeypatch.setattr(lookup.hamming, "MultiIndex", fail)
    ours, plain = tables()
    X, y, _ = data(3, 500)
    for table in (ours, plain):
        table.ingest(range(500), X, y)
    for _ in range(3):
        np.testing.assert_array_equal(ours.search(X[:9], 3).ids, plain.search(X[:9], 3).ids)
    assert [record.message for record in caplog.records].count(
        "codes are scanned, since they could not be indexed: MemoryError('too large')"
    ) == 1


def test_the_setting_is_stored(tmp_path: Any) -> None:
    hasher = hs.RidgeHash(16, random_state=0)
    HashTable.open(tmp_path / "t", hasher).close()
    with HashTable.open(tmp_path / "t", index="scan") as table:
        assert table.settings.index == "scan"
    with HashTable.open(tmp_path / "t") as table:
        assert table.settings.index == "scan"
    with pytest.raises(ValueError, match='index must be "auto" or "scan", not \'tree\''):
        HashTable.open(tmp_path / "t", index="tree")  # type: ignore[arg-type]
