"""Calls that may take any time wait for a shard that works, and not for one that is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.scale.local_engine import LocalActor, LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ShardLost
from hashstream.scale.engine import GROUPS, Outcome, RayEngine


class SlowEngine(LocalEngine):
    """waits : how often long calls are waited for in vain. limits : seconds of all waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self.limits: list[float | None] = []
        self._long: list[Outcome] = []

    def run(self, actor: LocalActor, method: str, args: tuple[Any, ...]) -> Outcome:
        outcome = super().run(actor, method, args)
        if method in LONG:
            self._long.append(outcome)
        return outcome

    def gather(self, calls: Sequence[Outcome], timeout: float | None) -> list[Outcome]:
        self.limits.append(timeout)
        if self.waits and any(one is call for one in self._long for call in calls):
            self.waits -= 1
            return [Outcome(lost=True) for _ in calls]
        return list(calls)


LONG: dict[str, Callable[[Cluster, Path], Any]] = {
    "digest": lambda cluster, folder: cluster.digest(),
    "check": lambda cluster, folder: cluster.check(),
    "compact": lambda cluster, folder: cluster.compact(),
    "snapshot": lambda cluster, folder: cluster.snapshot(folder / "copy"),
}


@pytest.fixture
def slow() -> SlowEngine:
    return SlowEngine()


@pytest.fixture
def cluster(tmp_path: Path, slow: SlowEngine) -> Iterator[Cluster]:
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), engine=slow, timeout=7.0) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
        slow.limits.clear()
        yield cluster


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("lost", ["shard 1", "the learner"])
def test_a_shard_that_is_gone(
    cluster: Cluster, slow: SlowEngine, tmp_path: Path, name: str, lost: str
) -> None:
    if (name, lost) == ("digest", "the learner"):
        assert cluster.digest()
        return
    slow.actors[lost].lost = True
    with pytest.raises(ShardLost, match=f"{lost} did not answer within"):
        LONG[name](cluster, tmp_path)
    assert None not in slow.limits
    slow.actors[lost].lost = False
    LONG[name](cluster, tmp_path)


@pytest.mark.parametrize("name", LONG)
def test_a_shard_that_works_for_long(cluster: Cluster, slow: SlowEngine, tmp_path: Path, name: str) -> None:
    slow.waits = 5
    LONG[name](cluster, tmp_path)
    assert not slow.waits
    assert "pid" in {method for _, method in slow.calls}


def test_a_process_that_does_not_answer(engine: RayEngine, tmp_path: Path) -> None:
    """As if its machine were gone."""
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), engine=LocalEngine()) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
        digest = cluster.digest()
    with Cluster.open(tmp_path / "c", engine=engine, timeout=2.0) as cluster:
        cluster.flush()  # waits until all are there
        process = cluster.shard_pids()[1]
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(ShardLost, match="shard 1 did not answer within 2 s"):
                cluster.digest()
            hits = cluster.search(X[:1], 1, rescore=20, partial=True, timeout=1.0)
            assert 0 < hits.missing < 1
            assert hits.distances.shape == (1, 1)
        finally:
            os.kill(process, signal.SIGCONT)
        assert cluster.digest() == digest


def test_readers_of_codes(engine: RayEngine, tmp_path: Path) -> None:
    """As many as a shard serves, and one more: searches and long calls wait for none of them."""
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), engine=LocalEngine()) as cluster:
        cluster.ingest(range(40), X[:40], Y[:40])
        digest = cluster.digest()
    with Cluster.open(tmp_path / "c", engine=engine, timeout=3.0) as cluster:
        cluster.flush()  # waits until all are there
        readers = [cluster.codes(1) for _ in range(GROUPS["stream"])]
        for reader in readers:
            assert len(next(reader).ids) == 1
        assert cluster.search(X[:1], 1).ids.tolist() == [[0]]
        assert cluster.digest() == digest
        assert cluster.check()["rows"] >= 40
        with pytest.raises(ShardLost, match=r"shard 0 answers, .* codes within 3 s: .* \(8\)") as late:
            next(cluster.codes(1))
        assert late.value.shards == (0,)
        assert sum(len(piece.ids) for piece in readers.pop()) == 39
        assert sum(len(piece.ids) for piece in cluster.codes(1)) == 40
        process = cluster.shard_pids()[0]
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(ShardLost, match="shard 0 did not answer within 3 s"):
                list(readers.pop())
        finally:
            os.kill(process, signal.SIGCONT)


def test_codes_of_a_shard_that_is_lost(cluster: Cluster, slow: SlowEngine) -> None:
    reader = cluster.codes(1)
    next(reader)
    slow.actors["shard 0"].lost = True
    with pytest.raises(ShardLost, match="shard 0 did not answer within 7 s") as lost:
        list(reader)
    assert lost.value.shards == (0,)


def test_codes_that_come_slowly(cluster: Cluster, slow: SlowEngine) -> None:
    """They are waited for as long as the shard answers, but for the first piece."""
    reader = cluster.codes(1)
    next(reader)
    slow.slow.add(("shard 0", "codes"))
    slow.calls.clear()

    def recover(name: str, method: str) -> None:
        if len(slow.calls) == 5:
            slow.slow.clear()

    slow.before = recover
    assert sum(len(piece.ids) for piece in reader) == 19
    assert slow.calls[:5] == [("shard 0", "pid")] * 5
    slow.slow.add(("shard 1", "codes"))
    with pytest.raises(
        ShardLost, match="shard 1 answers, but has not begun to send codes within 10 s"
    ) as late:
        list(cluster.codes())
    assert late.value.shards == (1,)
