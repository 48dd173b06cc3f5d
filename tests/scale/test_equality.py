"""A cluster answers as one table does that was told the same in the same order. The engine is one without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import (
    FIELDS,
    METHODS,
    QUERIES,
    SEARCHES,
    X,
    Y,
    assert_same_answers,
    fill,
    hasher_of,
    pair,
    some_labels,
)

from hashstream import HashTable
from hashstream.scale import Cluster
from hashstream.table import Call, KeyReused


@pytest.mark.parametrize("text", [False, True])
def test_everything_that_is_asked(tmp_path: Path, text: bool) -> None:
    with pair(tmp_path, LocalEngine(), fields=FIELDS, publish_every=2) as (table, cluster):
        for store in (table, cluster):
            fill(store, text=text)
            store.refresh()
        assert_same_answers(table, cluster)
        ids: Any = table.ids()[[400, 3, 77]]
        one, other = table.get(ids), cluster.get(ids)
        for name in ("ids", "codes", "versions", "features"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()
        assert (one.labels, one.fields, one.payloads) == (other.labels, other.fields, other.payloads)
        assert cluster.get(ids, features=False).features is None
        assert cluster.ids({"tenant": "a"}).tolist() == table.ids({"tenant": "a"}).tolist()
        assert cluster.ids(offset=17, limit=5).tolist() == table.ids(offset=17, limit=5).tolist()
        assert list(cluster) == list(table)
        assert cluster.count({"tags": "x"}) == table.count({"tags": "x"})
        assert (ids[0] in cluster, "nothing" in cluster, 1 << 70 in cluster) == (True, False, False)
        with pytest.raises(KeyError, match="4711"):
            cluster.get(np.array([4711]))
        assert cluster.fields == table.fields
        for name in ("version", "n_features", "dtype", "id_kind", "keeps_features", "in_doubt"):
            assert getattr(cluster, name) == getattr(table, name)
        assert sum(len(piece.ids) for piece in cluster.codes(rows=40)) == 500
        stats = cluster.stats()
        assert (stats.n_items, stats.n_stale, stats.versions) == (500, 0, table.stats().versions)
        assert stats.n_seen == table.stats().n_seen
        assert len(stats.shards) == 3
        assert cluster.check()["codes"] >= 500


@pytest.mark.parametrize("method", METHODS)
def test_learning(tmp_path: Path, method: str) -> None:
    """Labels that come late, are corrected, repeated and taken back; items that are replaced and removed."""
    with pair(tmp_path, LocalEngine(), method, publish_every=3) as (table, cluster):
        results: list[list[Any]] = []
        for store in (table, cluster):
            done: list[Any] = []
            for start in range(0, 400, 80):
                rows = slice(start, start + 80)
                store.ingest(range(start, start + 80), X[rows], some_labels(rows))
            store.ingest(range(400, 450), X[400:450])
            store.add(range(450, 500), X[450:500], Y[450:500])
            done.append(store.label([5, 300, 3, 460, 420, 0], [1, 2, 3, Y[460], 5, None]))
            done.append(store.label([5, 300, 3, 460, 420, 0], [1, 2, 3, Y[460], 5, None]))
            done.append(store.label(range(2, 60), (Y[2:60] + 1) % 10))
            done.append(store.label([7, 9, 455, 440], [None, None, None, None]))
            store.ingest(range(10, 30), X[600:620])  # without labels, in the place of items that were learned
            done.append(store.label(range(8, 33), Y[8:33]))
            store.add(range(100, 110), X[700:710], Y[100:110])
            done.append(store.remove(range(50, 70)))
            done.append(store.label([101, 71], [3, 4], learn=False))
            store.ingest(range(40, 60), X[640:660], Y[640:660])
            store.refresh()
            results.append(done)
        assert results[0] == results[1]
        assert_same_answers(table, cluster)
        assert cluster.hasher.n_seen_ == table.hasher.n_seen_
        assert table.get(table.ids()).labels == cluster.get(table.ids()).labels


def test_labels_before_anything_was_learned(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), "RidgeHash") as (table, cluster):
        for store in (table, cluster):
            store.ingest(range(200), X[:200])
            store.add(range(200, 300), X[200:300])
            store.label(range(299, 100, -3), Y[299:100:-3])
            store.refresh()
        assert_same_answers(table, cluster)


def test_feeding_equals_ingesting(tmp_path: Path) -> None:
    files = []
    for i in range(3):
        files.append(tmp_path / f"{i}.npz")
        rows = slice(150 * i, 150 * i + 150)
        np.savez(files[-1], X=X[rows], y=Y[rows], id=np.arange(150 * i, 150 * i + 150))
    with pair(tmp_path, LocalEngine()) as (table, cluster):
        table.ingest_files(files, id="id", label="y", features="X", batch=64)
        steps: list[Any] = []
        fed = cluster.feed(files, id="id", label="y", features="X", batch=64, progress=steps.append)
        assert (fed.parts, fed.rows, fed.skipped) == (3, 450, 0)
        assert [(step.row, step.total) for step in steps[:4]] == [(0, 150), (64, 150), (128, 150), (150, 150)]
        batches = [(np.arange(s, s + 50), X[s : s + 50], Y[s : s + 50]) for s in range(450, 600, 50)]
        for batch in batches:
            table.ingest(*batch)
        assert cluster.feed(iter(batches)).parts == 3
        table.refresh()
        cluster.refresh()
        assert_same_answers(table, cluster)
        tally = cluster.ingest_files(files, id="id", label="y", features="X", batch=64)
        assert (tally.new, tally.known) == (0, 450)
        again = cluster.feed([*files, *batches], id="id", label="y", features="X", batch=64)
        assert (again.parts, again.skipped) == (3, 3)  # batches are known by their place: these are others
        cluster.refresh()
        assert cluster.hasher.n_seen_ > table.hasher.n_seen_


def test_what_is_fed_twice_or_late_changes_nothing(tmp_path: Path) -> None:
    old = [(np.arange(s, s + 50), X[s : s + 50], Y[s : s + 50]) for s in (0, 50)]
    new = [(np.arange(25, 75), X[725:775], Y[725:775])]
    with pair(tmp_path, LocalEngine()) as (table, cluster):
        for batch in (*old, *new):
            table.ingest(*batch)
        cluster.feed(old, name="old")
        cluster.feed(new, name="new")
        fed = cluster.feed(old, name="old", force=True)
        assert fed.parts == 2
        table.refresh()
        cluster.refresh()
        assert_same_answers(table, cluster)


def test_adopted_functions_are_learned_on_from(tmp_path: Path) -> None:
    trained = hasher_of("FCOH").partial_fit(X[:300], Y[:300])
    with pair(tmp_path, LocalEngine(), policy="never") as (table, cluster):
        for store in (table, cluster):
            store.add(range(200), X[:200])
            assert store.adopt(trained) == 200
            assert store.adopt(trained) == 0
            store.ingest(range(300, 400), X[300:400], Y[300:400])
            store.label(range(20), Y[:20])
            store.refresh()
        assert_same_answers(table, cluster)
        with pytest.raises(ValueError, match="older"):
            cluster.adopt(trained)


def test_functions_adopted_before_the_first_item(tmp_path: Path) -> None:
    trained = hasher_of("RidgeHash").partial_fit(X[:300], Y[:300])
    with pair(tmp_path, LocalEngine(), "RidgeHash") as (table, cluster):
        for store in (table, cluster):
            assert store.adopt(trained) == 0
            store.ingest(range(100), X[:100])
            store.ingest(range(100, 200), X[100:200], some_labels(slice(100, 200)))
            store.refresh()
        assert_same_answers(table, cluster)
        with pytest.raises(ValueError, match="strings"):
            cluster.add(["a"], X[:1])


def test_a_writer_keeps_the_errors_of_calls_apart(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine()) as (table, cluster):
        for store in (table, cluster):
            writer = store.writer()
            writer.ingest(range(100), X[:100], Y[:100])
            calls = [
                Call("add", ([200, 201], X[:2]), {}, "a"),
                Call("add", ([300, 300], X[:2]), {}),
                Call("label", ([200, 3], [1, 2]), {}),
                Call("label", ([4711], [1]), {}),
            ]
            writer.do(calls)
            assert [type(call.error) for call in calls] == [type(None), ValueError, type(None), KeyError]
            assert calls[2].result == 2
            assert writer.label([5], [None]) == 1
            store.refresh()
        assert_same_answers(table, cluster)


def test_a_cluster_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), fields=FIELDS) as (table, cluster):
        fill(table)
        fill(cluster)
        cluster.declare({"more": int})
        cluster.close()
        assert Cluster.exists(tmp_path / "cluster")
        with Cluster.open(tmp_path / "cluster", engine=LocalEngine()) as again:
            assert again.fields["more"] == "int"
            again.ingest([9000], X[:1], Y[:1], fields={"more": [3]})
            table.declare({"more": int})
            table.ingest([9000], X[:1], Y[:1], fields={"more": [3]})
            again.refresh()
            table.refresh()
            assert_same_answers(table, again)


def test_filters_remove_everywhere(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), fields=FIELDS) as (table, cluster):
        for store in (table, cluster):
            fill(store)
            assert store.remove(where={"tenant": "b"}) == 167
            assert store.remove(where={"tenant": "b"}) == 0
            store.compact()
            store.refresh()
        assert_same_answers(table, cluster)
        with pytest.raises(KeyError, match="1,"):
            cluster.remove([0, 1, 4])
        assert 0 in cluster


def test_keys_do_a_call_once(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine()) as (table, cluster):
        for store in (table, cluster):
            store.ingest(range(100), X[:100], Y[:100], key="a")
            store.ingest(range(100), X[:100], Y[:100], key="a")
            assert [store.label([3], [7], key="b"), store.label([3], [7], key="b")] == [1, 1]
            assert [store.remove([5, 6], key="c"), store.remove([5, 6], key="c")] == [2, 2]
            with pytest.raises(KeyReused):
                store.ingest(range(50), X[:50], Y[:50], key="a")
            store.refresh()
        assert_same_answers(table, cluster)


MISTAKES: list[tuple[Any, ...]] = [
    ("ingest", [1, 1], X[:2], Y[:2]),
    ("ingest", [900, 901], X[:2, :5], Y[:2]),
    ("ingest", [900, 901], np.full((2, 64), np.nan), Y[:2]),
    ("ingest", [900, 901], X[:2], Y[:3]),
    ("ingest", ["a", "b"], X[:2], Y[:2]),
    ("add", ["a", "b"], X[:2]),
    ("add", [True, False], X[:2]),
    ("label", [0, 4711], [1, 2]),
    ("label", [0, 0], [1, 2]),
    ("remove", [0, 4711]),
    ("search", X[0]),
    ("search", X[:2, :7]),
    ("search", X[:2], 0),
]


@pytest.mark.parametrize("call", MISTAKES, ids=lambda call: call[0])
def test_mistakes_raise_what_a_table_raises_and_change_nothing(tmp_path: Path, call: tuple[Any, ...]) -> None:
    method, *args = call
    with pair(tmp_path, LocalEngine()) as (table, cluster):
        for store in (table, cluster):
            store.ingest(range(100), X[:100], Y[:100])
        before = cluster.digest(), cluster.hasher.n_seen_
        errors = []
        for store in (table, cluster):
            with pytest.raises((ValueError, KeyError)) as caught:
                getattr(store, method)(*args)
            errors.append(caught.type)
        assert errors[0] is errors[1]
        assert (cluster.digest(), cluster.hasher.n_seen_) == before


def test_an_empty_cluster(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine()) as (table, cluster):
        assert len(cluster) == 0
        assert cluster.version is None
        assert cluster.refresh() == 0
        for search in SEARCHES:
            if "where" not in search:
                one, other = table.search(QUERIES, **search), cluster.search(QUERIES, **search)
                assert one.ids.shape == other.ids.shape == (20, 0)
                assert one.distances.dtype == other.distances.dtype
        assert cluster.ids().tolist() == []
        assert cluster.digest() == 0


def test_a_hasher_that_has_learned_before(tmp_path: Path) -> None:
    trained = hasher_of("RidgeHash").partial_fit(X[:300], Y[:300])
    with (
        HashTable.open(None, trained, policy="never") as table,
        Cluster.open(tmp_path / "c", trained, shards=2, engine=LocalEngine()) as cluster,
    ):
        for store in (table, cluster):
            store.ingest(range(100), X[:100])
            store.ingest(range(100, 200), X[100:200], Y[100:200])
            store.refresh()
        assert_same_answers(table, cluster)


@pytest.mark.parametrize("method", ["FCOH", "PosteriorHash"])
def test_label_matrices(tmp_path: Path, method: str) -> None:
    matrix = np.eye(10)[Y] + np.eye(10)[(Y + (Y % 3 == 0)) % 10] > 0
    y = matrix.astype(float)
    y[::4] = np.nan
    with pair(tmp_path, LocalEngine(), method) as (table, cluster):
        for store in (table, cluster):
            for start in range(0, 300, 100):
                rows = slice(start, start + 100)
                store.ingest(range(start, start + 100), X[rows], y[rows])
            store.add(range(300, 320), X[300:320], y[300:320])
            assert store.label(range(290, 310), matrix[290:310]) > 0
            with pytest.raises(ValueError, match="one label per row"):
                store.label([2], [1])
            store.refresh()
        assert_same_answers(table, cluster)
        assert np.array_equal(table.get([291]).labels[0], cluster.get([291]).labels[0])


def test_a_method_that_needs_no_labels(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), "LSH") as (table, cluster):
        for store in (table, cluster):
            store.ingest(range(100), X[:100])
            store.ingest(range(100, 200), X[100:200], some_labels(slice(100, 200)))
            store.label([3, 150], [1, 2])
        assert_same_answers(table, cluster)


def test_auto_is_one_choice_for_all_shards(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), policy="never", publish_every=1) as (_, cluster):
        for start in range(0, 300, 100):
            rows = slice(start, start + 100)
            cluster.ingest(range(start, start + 100), X[rows], Y[rows])
        like, current = (
            cluster.search(QUERIES, compare=how).distances.tolist() for how in ("like", "current")
        )
        assert like != current  # several versions are alive
        assert cluster.search(QUERIES).distances.tolist() == like
        cluster.close()
        named = tmp_path / "cluster" / "current"
        named.write_text(named.read_text().replace('"like"', '"current"'))
        with Cluster.open(tmp_path / "cluster", engine=LocalEngine()) as again:
            assert again.search(QUERIES).distances.tolist() == current
            assert again.search(QUERIES, compare="like").distances.tolist() == like


def test_functions_are_published_every_few_batches(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), policy="never", publish_every=3) as (_, cluster):
        versions = []
        for start in range(0, 700, 100):
            rows = slice(start, start + 100)
            cluster.ingest(range(start, start + 100), X[rows], Y[rows])
            versions.append(cluster.version)
        assert len(set(versions)) == 3
        assert versions[0] == versions[1] == 1  # the first batch starts the functions
        assert len(cluster.stats().versions) == 3
        (model,) = (tmp_path / "cluster" / "models").iterdir()
        assert model.name.startswith(f"v{versions[-1]:012d}-")
