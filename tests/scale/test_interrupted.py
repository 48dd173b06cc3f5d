"""Whatever is killed, and wherever: the same calls again give what they give undisturbed. Without Ray."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, assert_same_answers, hasher_of, pair, some_labels

from hashstream import HashTable
from hashstream.scale import Cluster, ClusterError, ShardLost
from hashstream.scale.shard import shard_folder


class Killed(BaseException):
    """The program ends here."""


BATCHES = [(np.arange(s, s + 40), X[s : s + 40], some_labels(slice(s, s + 40))) for s in (200, 240)]


def program(store: Any) -> None:
    """Calls that may be repeated, each with a key."""
    store.ingest(range(60), X[:60], some_labels(slice(0, 60)), key="first")
    store.ingest(range(30, 90), X[130:190], Y[130:190], key="second")
    store.label([0, 31, 3, 61], [1, 2, None, 4], key="labels")
    store.remove([2, 33, 40], key="removed")
    if isinstance(store, Cluster):
        store.feed(BATCHES, in_flight=2)
    else:
        for batch in BATCHES:
            store.ingest(*batch)
    store.refresh()


def opened(folder: Path, engine: LocalEngine) -> Cluster:
    return Cluster.open(folder, hasher_of("FCOH"), shards=2, publish_every=2, policy="never", engine=engine)


def kill_at(number: int) -> LocalEngine:
    """An engine whose driver is killed when it makes a call."""
    engine = LocalEngine()

    def before(name: str, method: str) -> None:
        if len(engine.calls) > number:
            raise Killed

    engine.before = before
    return engine


def n_calls(folder: Path) -> int:
    engine = LocalEngine()
    with opened(folder, engine) as cluster:
        program(cluster)
        return len(engine.calls)


@pytest.mark.parametrize("first", [0])
def test_a_driver_that_is_killed_at_any_call(tmp_path: Path, first: int) -> None:
    """At every ninth call: all of them take minutes."""
    with HashTable.open(None, hasher_of("FCOH"), policy="never") as table:
        program(table)
        total = n_calls(tmp_path / "whole")
        assert total > 50
        for number in range(first, total, 9):
            folder, engine = tmp_path / str(number), kill_at(number)
            with pytest.raises(Killed):
                program(opened(folder, engine))
            engine.before = None
            for actor in engine.actors.values():
                actor.object.close()
            with opened(folder, LocalEngine()) as cluster:
                program(cluster)
                assert cluster.digest() == table.digest(), number
                assert cluster.hasher.n_seen_ == table.hasher.n_seen_, number
                assert cluster.get(table.ids()).labels == table.get(table.ids()).labels, number
                if number % 10 == 0:
                    assert_same_answers(table, cluster)
            shutil.rmtree(folder)


@pytest.mark.parametrize("victim", ["shard 0", "shard 1", "the learner"])
def test_calls_that_are_done_twice(tmp_path: Path, victim: str) -> None:
    """As by Ray, where an actor dies between the end of a call and its answer."""
    engine = LocalEngine()
    with (
        HashTable.open(None, hasher_of("FCOH"), policy="never") as table,
        opened(tmp_path, engine) as cluster,
    ):
        engine.twice = victim
        program(table)
        program(cluster)
        assert_same_answers(table, cluster)
        assert table.get(table.ids()).labels == cluster.get(table.ids()).labels


def test_a_missing_shard_is_an_error_and_no_empty_table(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), shards=2) as (_, cluster):
        cluster.feed(BATCHES)
        whole = cluster.search(X[:5])
        cluster.close()
        shutil.rmtree(shard_folder(tmp_path / "cluster", 1))
        with Cluster.open(tmp_path / "cluster", engine=LocalEngine()) as again:
            for call in (
                lambda: again.search(X[:5]),
                lambda: again.count(),
                lambda: again.feed([(range(9), X[:9])]),
            ):
                with pytest.raises(ClusterError, match=r"shard 1 is missing.*Restore it"):
                    call()
            some = again.search(X[:5], partial=True)
            assert some.missing == 0.5
            assert set(some.ids[0].tolist()) < set(range(200, 280))
            assert whole.missing == 0


def test_a_lost_shard_is_named(tmp_path: Path) -> None:
    engine = LocalEngine()
    with pair(tmp_path, engine, shards=3) as (_, cluster):
        cluster.feed(BATCHES)
        whole = cluster.search(X[:5], k=80)
        engine.actors["shard 2"].lost = True
        for call in (
            lambda: cluster.search(X[:5]),
            lambda: cluster.search_radius(X[:5], 3),
            lambda: cluster.ids(),
            lambda: cluster.flush(),
        ):
            with pytest.raises(ShardLost, match="shard 2 did not answer") as caught:
                call()
            assert caught.value.shards == (2,)
        some = cluster.search(X[:5], k=80, partial=True)
        assert some.missing == pytest.approx(1 - some.ids.shape[1] / 80)
        assert 0 < some.missing < 1
        assert set(some.ids[0].tolist()) < set(whole.ids[0].tolist())
        assert cluster.search_radius(X[:5], 3, partial=True).missing == some.missing
        for actor in engine.actors.values():
            actor.lost = True
        with pytest.raises(ShardLost, match="shard 0, shard 1, shard 2"):
            cluster.search(X[:5], partial=True)
        for actor in engine.actors.values():
            actor.lost = False
        assert cluster.search(X[:5], k=80).ids.tolist() == whole.ids.tolist()


def test_snapshot_restored_as_a_whole_and_by_shard(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), publish_every=1) as (table, cluster):
        for store in (table, cluster):
            store.ingest(range(100), X[:100], Y[:100])
        cluster.feed(BATCHES[:1], name="a")
        cluster.snapshot(tmp_path / "copy")
        cluster.feed(BATCHES[1:], name="b")
        for batch in BATCHES:
            table.ingest(*batch)
        with pytest.raises(ClusterError, match="exists already"):
            cluster.snapshot(tmp_path / "copy")
        Cluster.restore(tmp_path / "copy", tmp_path / "restored")
        with Cluster.open(tmp_path / "restored", engine=LocalEngine()) as restored:
            assert len(restored) == 140
            fed = restored.feed(BATCHES[:1], name="a")
            assert fed.skipped == 1
            restored.feed(BATCHES[1:], name="b")
            restored.refresh()
            table.refresh()
            assert_same_answers(table, restored)
            assert restored.config.id != cluster.config.id
            with pytest.raises(ClusterError, match="not a snapshot of this cluster"):
                restored.restore_shard(1, tmp_path / "copy")
        cluster.close()
        shutil.rmtree(shard_folder(tmp_path / "cluster", 1))
        with Cluster.open(tmp_path / "cluster", engine=LocalEngine()) as again:
            assert again.restore_shard(1, tmp_path / "copy") == 1
            assert len(again) < 180
            assert again.feed(BATCHES[:1], name="a").skipped == 1
            assert again.feed(BATCHES[1:], name="b").parts == 1
            again.refresh()
            assert_same_answers(table, again)
            again.restore_shard(1, tmp_path / "copy")  # as a command that is given again
            assert_same_answers(table, again)
            with pytest.raises(ClusterError, match="shard 0 is there"):
                again.restore_shard(0, tmp_path / "copy")


def test_settings_are_fixed(tmp_path: Path) -> None:
    with pair(tmp_path, LocalEngine(), shards=2):
        pass
    folder = tmp_path / "cluster"
    with pytest.raises(ClusterError, match="created with shards 2"):
        Cluster.open(folder, shards=3, engine=LocalEngine())
    with pytest.raises(ClusterError, match="needs a hasher"):
        Cluster.open(tmp_path / "new", engine=LocalEngine())
    (folder / "cluster.json").write_text("{}")
    with pytest.raises(ClusterError, match=r"cluster\.json has format None"):
        Cluster.open(folder, engine=LocalEngine())
    with pytest.raises(ClusterError, match="holds something else"):
        Cluster.open(folder / "shards", hasher_of("FCOH"), engine=LocalEngine())
