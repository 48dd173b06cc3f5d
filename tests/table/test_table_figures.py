"""Figures of commits, the sample, and the kinds of what a table holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Closed, Commit, Every, HashTable, Never

X, Y = rows(np.random.default_rng(4), 80)


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_commits_say_what_was_learned(tmp_path: Path, place: str) -> None:
    told: list[Commit] = []
    hasher = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
    path = None if place == "memory" else tmp_path / "t"
    with HashTable.open(path, hasher, policy=Never(), fields={"a": int}, on_commit=told.append) as table:
        assert (told, table.stats().commits) == ([], 0)
        table.declare({"b": int})
        assert (told[-1].learned, told[-1].version) == (0, None)
        table.add(range(10), X[:10], Y[:10])
        assert (told[-1].added, told[-1].learned, told[-1].version) == (10, 0, 0)
        table.ingest(range(10, 20), X[10:20], [None if i % 2 else int(Y[i]) for i in range(10, 20)])
        assert (told[-1].added, told[-1].learned) == (10, 5)
        assert told[-1].version == table.hasher.version_ > 0
        table.ingest(range(20, 24), X[20:24])
        assert (told[-1].learned, told[-1].version) == (0, table.hasher.version_)
        table.label([0, 1, 11], Y[[0, 1, 11]])
        assert (told[-1].labelled, told[-1].learned) == (3, 3)
        table.label([10, 11], [(Y[10] + 1) % 4, Y[11]])
        assert (told[-1].labelled, told[-1].learned) == (1, 1)
        seen = sum(commit.learned for commit in told)
        assert seen == table.stats().n_seen == 9
        table.remove([0])
        assert (told[-1].learned, told[-1].version) == (0, table.hasher.version_)
        table.compact()
        assert told[-1] == Commit(table.stats().commits, version=table.hasher.version_)
        table.remove(where={"a": 1}, key="k")
        assert told[-1] == Commit(table.stats().commits, version=table.hasher.version_)
        assert [commit.seq for commit in told] == list(range(1, len(told) + 1))


@pytest.mark.parametrize("labels", [True, False])
def test_a_method_without_labels_learns_all_rows(labels: bool) -> None:
    told: list[Commit] = []
    with HashTable.open(None, hs.SketchHash(n_bits=8, random_state=0), on_commit=told.append) as table:
        table.ingest(range(40), X[:40], Y[:40] if labels else None)
        table.label([0, 1], ["a", "b"])
        assert [commit.learned for commit in told] == [40, 0]


@pytest.mark.parametrize("place", ["memory", "folder"])
@pytest.mark.parametrize("kind", ["int", "str"])
def test_the_sample_by_ids(tmp_path: Path, place: str, kind: str) -> None:
    path = None if place == "memory" else tmp_path / "t"
    names = list(range(60)) if kind == "int" else [f"item {i}" for i in range(60)]
    table = HashTable.open(path, hs.LSH(8, random_state=0), sample_size=12, policy=Every(3))
    assert table.sample_ids().shape == (0,)
    table.ingest(names[:5], X[:5])
    assert table.sample_ids().tolist() == names[:5]
    table.ingest(names, X[:60])
    table.remove(names[:20])
    for _ in range(2):
        slots = np.sort(table._state.sample.items()[0])
        assert table.sample_ids().tolist() == table._state.view.ids(slots).tolist()
        assert 0 < len(table.sample_ids()) <= 12
        assert [
            one for one in table.ids().tolist() if one in set(table.sample_ids())
        ] == table.sample_ids().tolist()
        table.compact()
    held = table.sample_ids().tolist()
    table.close()
    with pytest.raises(Closed):
        table.sample_ids()
    if path is not None:
        with HashTable.open(path, mode="read") as reader:
            assert reader.sample_ids().tolist() == held


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kinds_of_ids_and_features(tmp_path: Path, dtype: type) -> None:
    with (
        HashTable.open(tmp_path / "t", hs.FCOH(8, random_state=0)) as table,
        HashTable.open(tmp_path / "t", mode="read") as reader,
    ):
        for one in (table, reader):
            assert (one.id_kind, one.n_features, one.dtype) == (None, None, None)
        table.add(["a"], X[:1].astype(dtype))
        table.remove(["a"])
        reader.reload()
        for one in (table, reader):
            assert (one.id_kind, one.n_features, one.dtype) == ("str", 12, np.dtype(dtype))
            assert isinstance(one.dtype, np.dtype)
    with HashTable.open(None, hs.LSH(8, random_state=0)) as table:
        table.add([1], X[:1, :5])
        assert (table.id_kind, table.n_features) == ("int", 5)
    known = hs.FCOH(8, random_state=0).partial_fit(X, Y)
    with HashTable.open(None, known) as table:
        assert (table.id_kind, table.n_features, table.dtype) == (None, 12, np.dtype(np.float32))
