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
from hashstream.scale.engine import Outcome, RayEngine


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
        finally:
            os.kill(process, signal.SIGCONT)
        assert cluster.digest() == digest
