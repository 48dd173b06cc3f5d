"""Labels that are taken back: the item has none, and a method that can is as if it had never learned it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Call, Commit, Every, HashTable, Never, TableError

N = 60
X, Y = rows(np.random.default_rng(1), N)
RIDGE = hs.RidgeHash(n_bits=16, random_state=0)
FCOH = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
METHODS = {
    "FCOH": FCOH,
    "RidgeHash": RIDGE,
    "MIHash": hs.MIHash(n_bits=16, random_state=0),
    "PosteriorHash": hs.PosteriorHash(n_bits=16, random_state=0),
    "LSH": hs.LSH(16, random_state=0),
}


def opened(path: Path | None, hasher: Any = FCOH, **settings: Any) -> HashTable:
    return HashTable.open(path, hasher, **{"policy": Never(), **settings})


@pytest.fixture(params=["memory", "folder"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "t"


@pytest.mark.parametrize("name", METHODS)
def test_the_item_has_no_label_afterwards(path: Path | None, name: str) -> None:
    with opened(path, METHODS[name]) as table:
        table.ingest(range(30), X[:30], Y[:30])
        table.add(range(30, N), X[30:], Y[30:])
        assert table.count({"label": {"$exists": False}}) == 0
        labelled = table.stats().drift.n_labelled
        assert table.label([1, 40, 2, 3], [None, None, (Y[2] + 1) % 4, Y[3]]) == 3
        assert table.get([1, 40, 2, 3]).labels == [None, None, (Y[2] + 1) % 4, Y[3]]
        assert table.ids({"label": {"$exists": False}}).tolist() == [1, 40]
        assert table.search(X[:1], N, where={"label": {"$exists": False}}).ids.shape == (1, 2)
        assert table.stats().drift.n_labelled == labelled - 2
        commits = table.stats().commits
        assert table.label([40, 1], [None, None]) == 0
        assert table.stats().commits == commits
        table.remove([0])
        table.compact()
        assert table.ids({"label": None}).tolist() == [1, 40]
        assert table.label([1], [Y[1]]) == 1
        assert table.get([1]).labels == [Y[1]]
        table.check()


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA], ids=["None", "nan", "np.nan", "NA"])
def test_all_that_means_missing(missing: Any) -> None:
    with opened(None) as table:
        table.ingest(range(N), X, Y)
        assert table.label([1, 2], [missing, int(Y[2])]) == 1
        assert table.label([3, 4], [missing, missing]) == 2
        assert table.label([5], np.array([np.nan])) == 1
        assert table.label([6], pd.Series([missing], dtype=object)) == 1
        assert table.ids({"label": {"$exists": False}}).tolist() == [1, 3, 4, 5, 6]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("matrix", [False, True])
def test_a_killed_table_learns_the_same_bits_again(tmp_path: Path, name: str, matrix: bool) -> None:
    if matrix and not METHODS[name].multilabel:
        pytest.skip("it takes one label per row")
    y: Any = np.eye(4)[Y] if matrix else Y
    with opened(tmp_path / "t", METHODS[name]) as table:
        table.add(range(20), X[:20])
        table.ingest(range(20, 50), X[20:50], y[20:50])
        table.add(range(50, N), X[50:], y[50:])
        table.label([1, 2], y[[1, 2]])
        mixed = np.array(y[[20, 21, 1, 55, 3, 51]], float)
        mixed[[0, 2, 3, 4]] = np.nan
        assert table.label([20, 21, 1, 55, 3, 51], mixed) >= 3
        table.label([22, 23], [None, None])
        table.refresh(7)
        table.remove([22])
        table.label([20], y[[20]])
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with opened(tmp_path / "killed", None) as again:
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])
            for one in (again, table):  # and they go on alike
                one.label([23, 24], [None, None])
                one.ingest([N], X[:1], y[:1])
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            assert fingerprint(reader, X[:3]) == fingerprint(table, X[:3])
            table.label([24, 25], [y[24], None])
            table.flush()
            assert reader.reload()
            assert fingerprint(reader, X[:3]) == fingerprint(table, X[:3])


@pytest.mark.parametrize("name", ["RidgeHash", "PosteriorHash"])
def test_it_is_as_if_it_had_never_been_learned(path: Path | None, name: str) -> None:
    """Up to rounding: the rows that are taken back are the last ones of their classes."""
    told: list[Commit] = []
    with opened(path, METHODS[name], on_commit=told.append) as table:
        table.ingest(range(N), X, Y)
        assert table.hasher.can_correct()
        gone = [50, 53, 57]
        assert table.label(gone, [None] * 3) == 3
        assert table.hasher.n_seen_ == N - 3
        assert (told[-1].labelled, told[-1].learned) == (3, 0)
        left = np.setdiff1d(np.arange(N), gone)
        expected = METHODS[name].copy().partial_fit(X[left], Y[left])
        values, wanted = table.hasher.decision_function(X), expected.decision_function(X)
        if name == "RidgeHash":
            np.testing.assert_allclose(values, wanted, rtol=1e-3, atol=1e-3)
        table.label(gone, Y[gone])
        assert table.hasher.n_seen_ == N


def test_a_method_that_cannot_leaves_its_model_as_it_is(path: Path | None) -> None:
    told: list[Commit] = []
    with opened(path, on_commit=told.append) as table:
        table.ingest(range(N), X, Y)
        before = table.hasher
        assert not before.can_correct()
        assert table.label([1, 2], [None, None]) == 2
        assert table.hasher.projection_.tobytes() == before.projection_.tobytes()
        assert (table.hasher.n_seen_, table.hasher.version_) == (N, before.version_)
        assert (told[-1].labelled, told[-1].learned, told[-1].version) == (2, 0, before.version_)
        before.partial_fit(X[3:4], [(Y[3] + 1) % 4])
        table.label([1, 3, 4], [None, (Y[3] + 1) % 4, None])  # only the correction is learned
        assert table.hasher.projection_.tobytes() == before.projection_.tobytes()
        assert (told[-1].labelled, told[-1].learned) == (2, 1)


def test_all_labels_of_a_table(path: Path | None) -> None:
    """It begins again: with labels of another kind, where the method can."""
    with opened(path, RIDGE) as table:
        table.add(range(N), X)
        table.label(range(10), Y[:10])
        assert table.label(range(10), [None] * 10) == 10
        assert table.hasher.n_seen_ == 0
        assert table.count({"label": {"$exists": True}}) == 0
        table.search(X[:2], 3)
        table.add([N], X[:1])
        assert table.label(range(20), [f"class {one}" for one in Y[:20]]) == 20
        assert table.hasher.n_seen_ == 20
        wanted = fingerprint(table, X[:3])
    if path is not None:
        with HashTable.open(path) as again:
            assert fingerprint(again, X[:3]) == wanted


@pytest.mark.parametrize("name", ["FCOH", "MIHash"])
def test_rows_of_label_matrices(path: Path | None, name: str) -> None:
    Z = np.eye(4)[Y]
    with opened(path, METHODS[name]) as table:
        table.ingest(range(N), X, Z)
        some = Z[:3].copy()
        some[1, 2] = np.nan
        assert table.label([0, 1, 2], some) == 1
        assert table.label([3, 4], [None, Z[4].astype(int).tolist()]) == 1
        assert table.label([5, 6], [None, None]) == 2
        assert table.ids({"label": {"$exists": False}}).tolist() == [1, 3, 5, 6]
        assert table.get([2]).labels[0].tolist() == Z[2].astype(bool).tolist()


def test_without_features_a_label_can_be_taken_back_that_nothing_unlearns() -> None:
    for hasher, able in ((FCOH, True), (RIDGE, False)):
        with HashTable.open(None, hasher, keep_features=False, policy="projected") as table:
            table.ingest(range(30), X[:30], Y[:30])
            table.add(range(30, 40), X[30:40], Y[30:40])
            assert table.label([31, 32], [None, None]) == 2, "they were never learned"
            if able:
                assert table.label([1], [None]) == 1
                continue
            before = fingerprint(table, X[:3])
            with pytest.raises(TableError, match="keeps no features"):
                table.label([1], [None])
            assert fingerprint(table, X[:3]) == before


@pytest.mark.parametrize(("hasher", "asked"), [(RIDGE, True), (FCOH, False)])
def test_the_policy_is_asked_where_something_was_unlearned(hasher: Any, asked: bool) -> None:
    with opened(None, hasher, policy=Every(2)) as table:
        table.ingest(range(30), X[:30], Y[:30])
        before = dict(table._state.memory)
        table.label([3], [None])
        assert (dict(table._state.memory) != before) == asked
        assert table.stats().n_stale == 0


def test_calls_of_a_writer_with_keys(path: Path | None) -> None:
    with opened(path, RIDGE) as table:
        table.ingest(range(N), X, Y)
        calls = [
            Call("label", ([1, 2], [None, int(Y[2])]), key="a"),
            Call("label", ([3], [float("nan")]), key="b"),
            Call("label", ([4, 5], [(int(Y[4]) + 1) % 4, None]), key="c"),
            Call("label", ([1, 2], [None, int(Y[2])]), key="a"),
        ]
        commits = table.stats().commits
        table.writer().do(calls)
        assert [(call.error, call.result) for call in calls] == [(None, 1), (None, 1), (None, 2), (None, 1)]
        assert table.stats().commits == commits + 1
        assert table.hasher.n_seen_ == N - 3
        assert table.get([1, 2, 3, 4, 5]).labels == [None, Y[2], None, (Y[4] + 1) % 4, None]
        assert table.label([1, 2], [None, int(Y[2])], key="a") == 1
