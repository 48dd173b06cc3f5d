"""The kind of a cluster's ids follows from rows that are stored, not from calls that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ShardLost
from hashstream.table import KeyReused


@pytest.fixture(name="engine")
def an_engine() -> LocalEngine:
    return LocalEngine()


def opened(path: Path, engine: LocalEngine, *, learned: bool) -> Cluster:
    """learned : with functions, and no item."""
    hasher: Any = hasher_of("FCOH")
    return Cluster.open(
        path, hasher.partial_fit(X[:200], Y[:200]) if learned else hasher, shards=3, engine=engine
    )


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("method", ["store", "add"])
def test_a_call_that_fails_fixes_no_kind(
    tmp_path: Path, engine: LocalEngine, learned: bool, method: str
) -> None:
    def fail(name: str, called: str) -> None:
        if called == method and name in ("the learner", "shard 0"):
            raise ShardLost("the disk is full")

    with opened(tmp_path, engine, learned=learned) as cluster:
        engine.before = fail
        names = [f"item {i}" for i in range(50)]
        with pytest.raises(ShardLost):
            cluster.ingest(names, X[:50], Y[:50])
        engine.before = None
        if method == "store":  # nothing is stored
            cluster.ingest(range(50), X[:50], Y[:50])
            assert cluster.id_kind == "int"
        other: Any = names if method == "store" else range(50)
        with pytest.raises(ValueError, match="the ids of this cluster are"):
            cluster.add(other, X[:50])
        cluster.add(
            range(90) if method == "store" else [*names, "more"], X[: 90 if method == "store" else 51]
        )


def test_a_key_that_is_reused_fixes_no_kind(tmp_path: Path, engine: LocalEngine) -> None:
    with opened(tmp_path, engine, learned=True) as cluster:
        assert cluster.remove(where={"id": {"$exists": True}}, key="k") == 0
        with pytest.raises(KeyReused):
            cluster.add(["a"], X[:1], key="k")
        cluster.add([1], X[:1])


@pytest.mark.parametrize("learned", [False, True])
def test_first_calls_of_two_programs_at_once(tmp_path: Path, engine: LocalEngine, learned: bool) -> None:
    with opened(tmp_path, engine, learned=learned) as cluster:

        def meanwhile(name: str, method: str) -> None:
            if (name, method) == ("the learner", "store"):
                engine.before = None
                cluster.add([f"item {i}" for i in range(20)], X[:20])

        engine.before = meanwhile
        with pytest.raises(ValueError, match="ids"):
            cluster.add(np.arange(20), X[:20])
        assert engine.before is None
        assert cluster.id_kind == "str"
        assert len(cluster) == 20


def test_the_kind_stays_when_all_items_are_removed(tmp_path: Path, engine: LocalEngine) -> None:
    with opened(tmp_path, engine, learned=False) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
        cluster.remove(range(20))
        cluster.compact()
    with (
        Cluster.open(tmp_path, engine=LocalEngine()) as cluster,
        pytest.raises(ValueError, match="whole numbers, but these are strings"),
    ):
        cluster.add(["a"], X[:1])
