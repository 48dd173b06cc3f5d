"""Labels given to stored items: learned, durable, replayed to the bit, corrected, and seen by everything that looks."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.checks import state_of
from hashstream.table import Every, HashTable, Lazy, Never, TableError

N = 60
FCOH = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
RIDGE = hs.RidgeHash(n_bits=16, random_state=0)
METHODS = {
    "FCOH": FCOH,
    "RidgeHash": RIDGE,
    "MIHash": hs.MIHash(n_bits=16, random_state=0),
    "PosteriorHash": hs.PosteriorHash(n_bits=16, random_state=0),
}


def data(n: int = N) -> tuple[np.ndarray, np.ndarray]:
    return rows(np.random.default_rng(1), n)


def opened(path: Path | None, hasher: Any = FCOH, **settings: Any) -> HashTable:
    return HashTable.open(path, hasher, **{"policy": Never(), **settings})


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("early", [True, False], ids=["rows before labels", "labels first"])
def test_a_killed_table_learns_the_same_bits_again(tmp_path: Path, name: str, early: bool) -> None:
    X, y = data()
    with opened(tmp_path / "t", METHODS[name]) as table:
        if early:
            table.add(range(30), X[:30])
        else:
            table.ingest(range(30), X[:30], y[:30])
        table.ingest(range(30, 50), X[30:50], [None if i % 3 else int(y[i]) for i in range(30, 50)])
        table.add(range(50, 60), X[50:], y[50:])
        assert table.label([3, 40, 55, 31], y[[3, 40, 55, 31]]) > 0
        table.label([3, 30, 7], (y[[3, 30, 7]] + 1) % 4)  # corrections, of which some were never learned
        table.refresh(13)
        table.remove([3])
        table.label([59, 8], ["other", 2])
        assert table._storage._since_checkpoint > 0, "there is nothing to replay"
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with opened(tmp_path / "killed", None) as again:
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])
            assert state_of(again.hasher) == state_of(table.hasher)
            for one in (again, table):  # and they go on alike
                one.label([8, 9], [1, 0])
                one.refresh()
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_a_repeated_call_learns_nothing(tmp_path: Path, place: str) -> None:
    X, y = data()
    with opened(None if place == "memory" else tmp_path / "t") as table:
        table.add(range(N), X)
        assert table.label([9, 3, 5], y[[9, 3, 5]]) == 3
        seen, commits = table.hasher.n_seen_, table.stats().commits
        assert seen == 3
        assert table.label([5, 9, 3], y[[5, 9, 3]]) == 0
        assert table.label([], []) == 0
        assert (table.hasher.n_seen_, table.stats().commits) == (seen, commits)
        assert table.label([5, 6], y[[5, 6]]) == 1
        assert table.hasher.n_seen_ == 4
        table.ingest([100], X[:1], [1])
        assert table.label([100], [1]) == 0, "it was learned with the batch"


def test_the_same_class_as_another_number_is_not_learned_again() -> None:
    X, y = data()
    with opened(None) as table:
        table.ingest(range(N), X, y.astype(float))
        assert table.label([0, 1], [int(y[0]), int(y[1])]) == 0
        assert table.label(range(N), y) == 0
        assert table.hasher.n_seen_ == N
        assert table.label([0], [(y[0] + 1) % 4]) == 1


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_corrected_labels_are_as_if_they_had_been_right(tmp_path: Path, place: str) -> None:
    X, y = data()
    wrong = y.copy()
    changed = np.arange(20, N, 5)[::-1]  # after rows of all classes, whose order then is the same
    wrong[changed] = (y[changed] + 1) % 4
    tables = [opened(None if place == "memory" else tmp_path / name, RIDGE) for name in ("a", "b")]
    for table, labels in zip(tables, (wrong, y), strict=True):
        table.ingest(range(20), X[:20], labels[:20])
        table.ingest(range(20, N), X[20:], labels[20:])
    assert tables[0].hasher.can_correct()
    assert tables[0].label(changed, y[changed]) == len(changed)
    assert tables[0].hasher.n_seen_ == N
    for table in tables:
        table.refresh()
    values = [table.hasher.decision_function(X) for table in tables]
    np.testing.assert_allclose(*values, rtol=1e-3, atol=1e-3)
    codes = [np.unpackbits(table.get(range(N)).codes, axis=1) for table in tables]
    sure = np.abs(values[0]) > 1e-3
    assert (codes[0] == codes[1])[sure].all()
    assert tables[0].get(range(N)).labels == y.tolist()
    for table in tables:
        table.close()


def test_a_method_that_cannot_correct_learns_in_addition() -> None:
    X, y = data()
    expected = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
    assert not expected.can_correct()
    with opened(None) as table:
        table.ingest(range(N), X, y)
        assert table.label([4, 2], [int(y[4] + 1) % 4, int(y[2] + 1) % 4]) == 2
        assert table.hasher.n_seen_ == N + 2
        expected.partial_fit(X, y)
        expected.partial_fit(X[[2, 4]], (y[[2, 4]] + 1) % 4)  # in the order of insertion
        assert table.hasher.projection_.tobytes() == expected.projection_.tobytes()


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_a_label_that_was_only_stored_is_learned(tmp_path: Path, place: str) -> None:
    """Also after a compaction, which numbers all items again."""
    X, y = data()
    with opened(None if place == "memory" else tmp_path / "t") as table:
        table.ingest(range(20), X[:20], y[:20])
        table.add(range(20, N), X[20:], y[20:])
        table.remove([0, 25])
        assert table.compact() == 2
        assert table.label(range(1, 20), y[1:20]) == 0
        assert table.label([30, 31], y[30:32]) == 2
        assert table.hasher.n_seen_ == 22
        table.remove([1])
        table.compact()
        assert table.label([30, 31, 2], y[[30, 31, 2]]) == 0
        assert table.label([32], y[[32]]) == 1
    if place == "folder":
        with HashTable.open(tmp_path / "t") as table:
            assert table.label([30, 31, 32, 2], y[[30, 31, 32, 2]]) == 0


@pytest.mark.parametrize("name", ["FCOH", "MIHash"])
def test_rows_of_label_matrices(tmp_path: Path, name: str) -> None:
    X, y = data()
    Y = np.eye(4, dtype=int)[y]
    Y[:, 0] = 1
    with opened(tmp_path / "t", METHODS[name]) as table:
        table.add(range(N), X)
        assert table.label(range(30), Y[:30]) == 30
        assert table.label(range(30), Y[:30].astype(bool)) == 0
        assert table.label([0], 1 - Y[:1]) == 1
        assert table.label([0, 40], np.vstack([1 - Y[:1], Y[40:41]])) == 1
        assert table.get([0]).labels[0].tolist() == (1 - Y[0]).astype(bool).tolist()
        assert table.count({"label": {"$exists": True}}) == 31
        assert table.count({"label": 2}) == int(Y[1:30, 2].sum() + (1 - Y[0, 2]) + Y[40, 2])
        refused(table, ValueError, "one per row|0/1 matri", lambda: table.label([50], [1]))
        refused(table, ValueError, "columns", lambda: table.label([50], np.eye(5)[:1]))
        refused(table, ValueError, "columns|one per row|0/1 matri", lambda: table.add([99], X[:1], [1]))
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with opened(tmp_path / "killed", None) as again:
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])


def refused(table: HashTable, kind: type[Exception], match: str, call: Any) -> None:
    """A call that raises and changes nothing."""
    Q = data(3)[0]
    before = fingerprint(table, Q)
    with pytest.raises(kind, match=match):
        call()
    assert fingerprint(table, Q) == before


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_calls_that_cannot_be_right_change_nothing(tmp_path: Path, place: str) -> None:
    X, y = data()
    with opened(None if place == "memory" else tmp_path / "t") as table:
        table.ingest(range(N), X, y)
        refused(table, KeyError, "not in the table: 99", lambda: table.label([1, 99], [None, None]))
        refused(table, KeyError, "not in the table: 99", lambda: table.label([1, 99], [0, 0]))
        refused(table, KeyError, "not in the table: 'a'", lambda: table.label(["a"], [0]))
        refused(table, ValueError, "more than once: 1", lambda: table.label([1, 2, 1], [0, 0, 0]))
        refused(table, ValueError, "matri", lambda: table.label([1, 2], np.eye(4)[:2]))
        refused(table, ValueError, "2 ids, but y has shape", lambda: table.label([1, 2], [0]))
        refused(table, ValueError, r"y has shape \(\)", lambda: table.label([1], 0))
        refused(table, ValueError, "infinity", lambda: table.label([1], [np.inf]))
        refused(table, TypeError, "tuple", lambda: table.label([1], [(1, 2)]))
        refused(table, ValueError, "ids must be", lambda: table.label([1.5], [0]))
        refused(table, ValueError, r"y has shape \(\)", lambda: table.label([1], None))
        table.remove([5])
        refused(table, KeyError, "not in the table: 5", lambda: table.label([5], [0]))
    with pytest.raises(TableError, match="closed"):
        table.label([1], [0])


def test_without_features_labels_cannot_be_learned() -> None:
    X, y = data()
    with HashTable.open(None, FCOH, keep_features=False, policy="projected") as table:
        table.ingest(range(N), X, y)
        refused(table, TableError, "keeps no features", lambda: table.label([1], [(y[1] + 1) % 4]))
        assert table.label([1], y[[1]]) == 0


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("method", [hs.LSH, hs.SketchHash])
def test_methods_without_labels_only_store_them(tmp_path: Path, method: Any, keep: bool) -> None:
    X, _ = data()
    policy = "never" if keep else "projected"
    with HashTable.open(tmp_path / "t", method(n_bits=8, random_state=0), policy=policy) as table:
        table.ingest(range(N), X)
        before, seen = fingerprint(table, X[:3]), table.hasher.n_seen_
        assert table.label([1, 2], [1, "b"]) == 2
        assert table.label([1, 2], [1, "c"]) == 1
        assert table.hasher.n_seen_ == seen
        assert fingerprint(table, X[:3])["codes"] == before["codes"]
        assert table.get([1, 2, 3]).labels == [1, "c", None]
        assert table.ids({"label": "c"}).tolist() == [2]
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with HashTable.open(tmp_path / "killed") as again:
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_filters_sample_and_figures_see_the_new_label(tmp_path: Path, place: str) -> None:
    X, _ = data()
    with opened(None if place == "memory" else tmp_path / "t") as table:
        table.add(range(N), X)
        assert table.stats().drift.n_labelled == 0
        for label in ("a", "b", "a"):
            assert table.count({"label": label}) == 0
            assert table.search(X[:1], 3, where={"label": label}).ids.shape == (1, 0)
            table.label(range(30), [label] * 30)
            assert table.count({"label": label}) == 30
            assert table.ids({"label": {"$ne": label}}).tolist() == list(range(30, N))
            assert set(table.search(X[:1], 50, where={"label": label}).ids[0]) == set(range(30))
            assert table.stats().drift.n_labelled == 30
            assert set(table._state.sample.labelled()[2]) == {label}
        assert table.remove(where={"label": "a"}) == 30
        assert table.count({"label": "a"}) == 0
        table.compact()
        table.label([30], ["a"])
        assert table.ids({"label": "a"}).tolist() == [30]


def test_policies_react_to_labels() -> None:
    X, y = data()
    with opened(None, policy=Every(2)) as table:
        table.add(range(N), X)
        table.label(range(9), y[:9])
        assert table.stats().n_stale == N
        table.label(range(9, 12), y[9:12])
        assert table.stats().n_stale == 0
    with opened(None, policy=Lazy()) as table:
        table.add(range(N), X)
        table.label(range(20), y[:20])
        deadline = time.monotonic() + 20
        while table.stats().n_stale and time.monotonic() < deadline:
            time.sleep(0.01)
        assert table.stats().n_stale == 0


def test_labels_do_not_bring_more_versions_than_there_may_be() -> None:
    """A label makes a new version that no item has; the next item that is added is the first of it."""
    X, y = data()
    with opened(None, max_versions=2) as table:
        table.ingest(range(8), X[:8], y[:8])
        table.ingest(range(8, 20), X[8:20], y[8:20])
        table.label([0, 9], [5, 6])
        assert len(table.stats().versions) == 2
        table.add([20], X[20:21])
        assert len(table.stats().versions) == 2
        table.label([20], [7])
        table.ingest([21], X[21:22], [None])
        assert len(table.stats().versions) == 2


def test_readers_see_labels_after_a_reload(tmp_path: Path) -> None:
    X, y = data()
    with opened(tmp_path / "t") as table:
        table.add(range(N), X)
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            table.label(range(10), y[:10])
            assert reader.count({"label": {"$exists": True}}) == 0
            with pytest.raises(TableError, match="read"):
                reader.label([1], [1])
            assert reader.reload()
            assert reader.get(range(10)).labels == y[:10].tolist()
            assert reader.count({"label": {"$exists": True}}) == 10
            assert fingerprint(reader, X[:3]) == fingerprint(table, X[:3])
            table.label(range(10), (y[:10] + 1) % 4)
            table.flush()
            table.remove([20])
            table.compact()
            table.label([0], [3])
            assert reader.reload()
            assert fingerprint(reader, X[:3]) == fingerprint(table, X[:3])
            assert reader.count({"label": 3}) == table.count({"label": 3})


def test_arrays_that_are_changed_after_the_call(tmp_path: Path) -> None:
    X, y = data()
    same = X.copy()
    ids, labels = np.arange(N), y.copy()
    with opened(tmp_path / "t") as table, opened(None) as other:
        for one in (table, other):
            one.add(ids, X)
            X[:], ids[:] = 0, 7
            X[:], ids[:] = same, np.arange(N)
            one.label(ids, labels)
            labels[:], ids[:], X[:] = 9, 7, 0
            labels[:], ids[:], X[:] = y, np.arange(N), same
        assert table.get(range(N)).labels == y.tolist()
        found = fingerprint(table, same[:3])
        assert found == fingerprint(other, same[:3])
    with opened(tmp_path / "t", None) as again:
        assert fingerprint(again, same[:3]) == found


def test_a_commit_that_failed_leaves_no_kind_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels of a table are of the kind of those that are stored."""
    X, y = rows(np.random.default_rng(0), 8)
    with HashTable.open(None, hs.LSH(8, random_state=0)) as table:
        table.add(range(4), X[:4])

        def full(*_: Any) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(table._storage, "commit", full)
            with pytest.raises(MemoryError):
                table.add(range(4, 8), X[4:], np.eye(4, dtype=int))
        table.add(range(4, 8), X[4:], y[4:])
        assert table.get([4]).labels == [int(y[4])]
