"""A service is told of writes to a cluster. That this fails is no error of a write, which is done by then."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import ShardLost
from hashstream.scale.serving import ServedCluster
from hashstream.table import Call, Commit


@pytest.fixture
def engine() -> LocalEngine:  # in place of the one with Ray
    return LocalEngine()


@pytest.fixture
def cluster(tmp_path: Path, engine: LocalEngine) -> Iterator[ServedCluster]:
    """A cluster with 20 items."""
    with ServedCluster.open(tmp_path / "c", hasher_of("FCOH"), shards=2, engine=engine) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
        yield cluster


def test_what_is_told(cluster: ServedCluster) -> None:
    told: list[Commit] = []
    cluster.told = told.append
    calls = [Call("ingest", (range(20, 30), X[20:30], Y[20:30])), Call("add", ([30], X[30:31]))]
    calls += [Call("label", ([30], Y[30:31])), Call("annotate", ([30], [5])), Call("label", ([99], [1]))]
    cluster.writer().do(calls)
    assert isinstance(calls.pop().error, KeyError)
    assert not any(call.error for call in calls)
    (one,) = told
    assert (one.added, one.learned, one.labelled) == (11, 11, 2)
    assert (one.seq, one.version) == (cluster.commits, cluster.version)
    assert cluster.remove([1, 2]) == 2
    assert told[1].removed == 2
    assert cluster.refresh() == told[2].recoded
    cluster.writer().do([Call("label", ([99], [1]))])  # nothing was written
    assert len(told) == 3


def test_telling_fails(cluster: ServedCluster, engine: LocalEngine, caplog: pytest.LogCaptureFixture) -> None:
    def lose(name: str, method: str) -> None:
        if method == "facts":
            raise ShardLost("shard 1 did not answer")

    def wrong(commit: Commit) -> None:
        raise OSError("nobody is there")

    for before, told, why in ((lose, lambda commit: None, "shard 1"), (None, wrong, "nobody is there")):
        engine.before, cluster.told = before, told
        caplog.clear()
        with caplog.at_level(logging.WARNING, "hashstream.scale"):
            added = Call("add", ([30], X[30:31]))
            cluster.writer().do([added])
            assert added.error is None
            assert cluster.remove([30]) == 1
            assert cluster.refresh() >= 0
        assert len(caplog.records) == 3
        assert why in caplog.text
    assert len(cluster) == 20


def test_telling_is_not_waited_for(cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that was lost meanwhile delays no write that is done for as long as a search waits."""
    limits: list[float | None] = []
    engine = cluster._members.engine
    gather = engine.gather
    monkeypatch.setattr(
        engine, "gather", lambda calls, timeout: limits.append(timeout) or gather(calls, timeout)
    )
    cluster.told = lambda commit: None
    assert cluster.remove([3]) == 1
    assert limits.pop() == 1.0
