"""Calls that are done late, when a newer row is stored: they leave it as it is. Without Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream import HashTable
from hashstream.hashers.serialization import encoder_digest
from hashstream.scale import Cluster, ShardLost
from hashstream.scale.partition import shard_of
from hashstream.table import Call

IDS = np.arange(60)
MINE = IDS[shard_of(IDS, 2) == 1]  # the items of shard 1
OLD, NEW = (
    MINE[:3].tolist(),
    MINE[1:3].tolist(),
)  # items of a late call, and those of them that are stored again
CHANGED = [(one + 1) % 10 for one in Y[OLD].tolist()]


@pytest.fixture
def engine() -> LocalEngine:
    return LocalEngine()


@pytest.fixture
def cluster(tmp_path: Path, engine: LocalEngine) -> Iterator[Cluster]:
    fields = {"tenant": str}
    with Cluster.open(tmp_path, hasher_of("RidgeHash"), shards=2, fields=fields, engine=engine) as cluster:
        yield cluster


def fill(store: Any, **more: Any) -> None:
    fields = {"tenant": ["late" if one in OLD else "other" for one in IDS.tolist()]}
    store.ingest(IDS, X[IDS], Y[IDS], fields=fields, **more)


def store_again(store: Any, **more: Any) -> None:
    """Newer rows, with labels, that the same filter finds."""
    store.ingest(NEW, X[100:102], Y[100:102], fields={"tenant": ["late"] * 2}, **more)


def learned(store: Any) -> tuple[Any, int]:
    hasher = store.hasher
    return encoder_digest(hasher.encoder()), hasher.n_seen_


def seen(cluster: Cluster, engine: LocalEngine) -> list[Any]:
    """Everything that a late call could change: in the shards and in the learner."""
    learner = engine.actors["the learner"].object.table
    tables = [learner, *(engine.actors[f"shard {at}"].object.table for at in range(2))]
    items = [table.get(np.sort(table.ids())) for table in tables]
    found: list[Any] = [(one.ids.tolist(), one.labels, one.sequences.tolist()) for one in items]
    return [learned(cluster), *found]


LATE: dict[str, Callable[[Cluster], int]] = {
    "remove": lambda cluster: cluster.remove(NEW),
    "remove with a key": lambda cluster: cluster.remove(NEW, key="removal"),
    "remove where": lambda cluster: cluster.remove(where={"tenant": "late"}),
    "label": lambda cluster: cluster.label(NEW, CHANGED[1:]),
    "label with a key": lambda cluster: cluster.label(NEW, CHANGED[1:], key="labels"),
    "annotate": lambda cluster: cluster.label(NEW, CHANGED[1:], learn=False),
    "take back": lambda cluster: cluster.label(NEW, [None, None]),
}


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("own_numbers", [False, True])
@pytest.mark.parametrize("victim", ["shard 1", "the learner"])
@pytest.mark.parametrize("late", LATE)
def test_a_call_that_is_done_late_leaves_newer_rows(
    cluster: Cluster, engine: LocalEngine, late: str, victim: str, own_numbers: bool
) -> None:
    fill(cluster, **({"sequence": 1000 + IDS} if own_numbers else {}))
    if late == "remove where":
        cluster.remove(OLD[:1])  # the filter finds the same items as the ids do
    engine.slow = {(victim, late.split()[0] if late.startswith("remove") else "label")}
    with pytest.raises(ShardLost, match=victim):
        LATE[late](cluster)
    store_again(cluster, **({"sequence": [5000, 5001]} if own_numbers else {}))
    before = seen(cluster, engine)
    (outcome,) = engine.deliver()
    assert outcome.error is None
    assert seen(cluster, engine) == before
    items = cluster.get(NEW)
    assert items.labels == Y[100:102].tolist()
    np.testing.assert_array_equal(items.features, X[100:102])


@pytest.mark.parametrize("late", LATE)
def test_a_call_that_is_done_late_is_done_where_nothing_is_newer(
    cluster: Cluster, engine: LocalEngine, late: str
) -> None:
    fill(cluster)
    name = late.split()[0] if late.startswith("remove") else "label"
    engine.slow = {("shard 1", name)}
    with pytest.raises(ShardLost):
        LATE[late](cluster)
    cluster.ingest(NEW[1:], X[101:102], Y[101:102])
    (outcome,) = engine.deliver()
    assert outcome.value == (2 if late == "remove where" else 1)
    assert (NEW[0] in cluster) == (name == "label")
    assert cluster.get(NEW[1:]).labels == Y[101:102].tolist()
    if name == "label":
        assert cluster.get(NEW[:1]).labels == [None if late == "take back" else CHANGED[1]]


@pytest.mark.parametrize("late", LATE)
def test_a_late_call_that_comes_twice(cluster: Cluster, engine: LocalEngine, late: str) -> None:
    fill(cluster)
    engine.slow = {("shard 1", "remove"), ("shard 1", "label")}
    with pytest.raises(ShardLost):
        LATE[late](cluster)
    store_again(cluster)
    engine.twice = "shard 1"
    engine.deliver()
    engine.twice = ""
    assert cluster.get(NEW).labels == Y[100:102].tolist()


def test_a_late_removal_of_items_of_which_some_are_gone(cluster: Cluster, engine: LocalEngine) -> None:
    fill(cluster)
    engine.slow = {("shard 1", "remove")}
    with pytest.raises(ShardLost):
        cluster.remove(MINE[:4])
    engine.slow = set()
    cluster.remove(MINE[:1])
    store_again(cluster)
    (outcome,) = engine.deliver()
    assert (outcome.error, outcome.value) == (None, 1)
    assert np.isin(MINE[:4], cluster.ids()).tolist() == [False, True, True, False]


def test_a_filter_that_found_nothing_removes_nothing_late(cluster: Cluster, engine: LocalEngine) -> None:
    fill(cluster)
    engine.slow = {("shard 0", "remove"), ("shard 1", "remove")}
    with pytest.raises(ShardLost):
        cluster.remove(where={"tenant": "new"})
    cluster.add([1000, 1001, 1002], X[:3], fields={"tenant": ["new"] * 3})
    assert [one.value for one in engine.deliver()] == [0, 0]
    assert cluster.count({"tenant": "new"}) == 3


@pytest.mark.parametrize("call", ["remove", "remove where", "label"])
def test_a_call_with_a_key_is_completed_when_it_is_given_again(
    cluster: Cluster, engine: LocalEngine, call: str
) -> None:
    """Other numbers are read then, for items of the shard that has done it already."""
    fill(cluster)
    do: Callable[[], int] = {
        "remove": lambda: cluster.remove(range(10), key="k"),
        "remove where": lambda: cluster.remove(where={"tenant": "other", "id": {"$lt": 10}}, key="k"),
        "label": lambda: cluster.label(range(10), (Y[:10] + 1) % 10, key="k"),
    }[call]
    count = cluster.count({"tenant": "other", "id": {"$lt": 10}}) if call == "remove where" else 10
    engine.slow = {("shard 1", call.split()[0])}
    with pytest.raises(ShardLost):
        do()
    engine.slow = set()
    assert do() == count
    assert do() == count
    engine.deliver()
    assert do() == count
    assert len(cluster) == (60 if call == "label" else 60 - count)


def test_the_caller_s_own_limits(tmp_path: Path, cluster: Cluster) -> None:
    with HashTable.open(None, hasher_of("RidgeHash"), policy="never", fields={"tenant": str}) as table:
        for store in (table, cluster):
            fill(store, sequence=IDS)
            assert store.label([3, 10, 7], [1, 1, None], sequence=[3, 9, 8]) == 2
            assert store.label([4, 5], [None, None], learn=False, sequence=4) == 1
            assert store.remove([20, 30, 20], sequence=[19, 30, 18]) == 1
            assert store.remove(where={"id": {"$gte": 40}}, sequence=49) == 10
            calls = [Call("label", ([50, 51], [None, None]), {"sequence": 50}), Call("label", ([1], [8]), {})]
            store.writer().do(calls)
            assert [(call.result, call.error) for call in calls] == [(1, None), (1, None)]
            with pytest.raises(ValueError, match="sequence must be a whole number"):
                store.remove([1, 2], sequence=[1])
            with pytest.raises(ValueError, match="sequence must be a whole number"):
                store.label([1, 2], [0, 0], sequence=1.5)
            store.refresh()
        ids = np.sort(table.ids())
        assert np.sort(cluster.ids()).tolist() == ids.tolist()
        assert cluster.get(ids).labels == table.get(ids).labels
        assert learned(cluster) == learned(table)


def test_numbers_cost_no_call_more(cluster: Cluster, engine: LocalEngine) -> None:
    fill(cluster)
    engine.calls.clear()
    cluster.label(OLD, CHANGED)
    learner = "the learner"
    reads = [("shard 1", "sequences"), (learner, "begin"), (learner, "sequences")]
    assert engine.calls == [*reads, (learner, "label"), ("shard 1", "label")]
    engine.calls.clear()
    cluster.remove(OLD)
    assert engine.calls == [*reads[:2], (learner, "remove"), ("shard 1", "remove")]


# ---- rows that are overtaken


def meanwhile(engine: LocalEngine, method: str, do: Callable[[], Any]) -> None:
    """Have something done by another program before the next call of a method of the learner."""

    def before(actor: str, called: str) -> None:
        if (actor, called) == ("the learner", method):
            engine.before = None
            do()

    engine.before = before


def test_a_row_that_is_overtaken_before_it_is_learned(cluster: Cluster, engine: LocalEngine) -> None:
    """The newer one has no label, so only its shard knows it."""
    fill(cluster)
    with HashTable.open(None, hasher_of("RidgeHash"), policy="never") as table:
        table.ingest(IDS, X[IDS], Y[IDS])
        meanwhile(engine, "store", lambda: cluster.add([100], X[300:301]))
        cluster.ingest([100, 101], X[100:102], Y[100:102])
        assert engine.before is None
        table.ingest([101], X[101:102], Y[101:102])
        np.testing.assert_array_equal(cluster.get([100]).features, X[300:301])
        assert learned(cluster) == learned(table)  # nothing was learned that no shard has


def test_a_file_that_is_overtaken_between_its_pieces(
    cluster: Cluster, engine: LocalEngine, tmp_path: Path
) -> None:
    fill(cluster)
    file = tmp_path / "rows.npz"
    np.savez(file, ids=np.arange(100, 140), X=X[100:140], y=Y[100:140])
    pieces = 0

    def before(actor: str, called: str) -> None:
        nonlocal pieces
        pieces += called == "store"
        if pieces == 2:
            pieces += 1
            cluster.add([130], X[300:301])

    engine.before = before
    cluster.feed([file], id="ids", label="y", batch=10)
    engine.before = None
    with HashTable.open(None, hasher_of("RidgeHash"), policy="never") as table:
        table.ingest(IDS, X[IDS], Y[IDS])
        for start in (100, 110, 120, 130):
            ids = [one for one in range(start, start + 10) if one != 130]
            table.ingest(ids, X[ids], Y[ids])
        np.testing.assert_array_equal(cluster.get([130]).features, X[300:301])
        assert learned(cluster) == learned(table)


def test_a_row_that_is_overtaken_while_it_is_lent(cluster: Cluster, engine: LocalEngine) -> None:
    """The learner is left with a row that is older than the shard's; the next label is learned with the newer one."""
    fill(cluster)
    with HashTable.open(None, hasher_of("RidgeHash"), policy="never", fields={"tenant": str}) as table:
        fill(table)
        for store in (table, cluster):
            store.add([100], X[100:101])
        meanwhile(engine, "store", lambda: cluster.add([100], X[300:301]))
        cluster.label([100], [3])
        assert engine.before is None
        assert cluster.get([100]).labels == [None]
        table.label([100], [3])
        table.add([100], X[300:301])
        for store in (table, cluster):
            assert store.label([100], [3]) == 1
            assert store.get([100]).labels == [3]
        assert learned(cluster) == learned(table)


@pytest.mark.parametrize("learn", [True, False])
def test_a_repeated_label_leaves_out_items_that_are_gone(
    cluster: Cluster, engine: LocalEngine, learn: bool
) -> None:
    fill(cluster)
    engine.slow = {("shard 1", "label")}
    with pytest.raises(ShardLost):
        cluster.label(OLD, CHANGED, key="k", learn=learn)
    engine.slow = set()
    cluster.remove(OLD[:1])
    cluster.label(OLD, CHANGED, key="k", learn=learn)
    assert cluster.get(OLD[1:]).labels == CHANGED[1:]
    assert OLD[0] not in cluster
