"""A search that rescores has one time limit for both of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ShardLost, searching
from hashstream.scale.engine import Outcome
from hashstream.scale.partition import shard_of


class Clock(LocalEngine):
    """An engine whose calls take seconds of its own clock. limits : seconds that were waited at most, by method."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.takes = 100.0, dict[str, float]()
        self.limits: list[tuple[str, float | None]] = []

    def gather(self, calls: Sequence[Outcome], timeout: float | None) -> list[Outcome]:
        method = self.calls[-1][1]
        self.limits.append((method, timeout))
        self.now += self.takes.get(method, 0.0)
        return list(calls)


class Waiting(Clock):
    """An engine that waits for a lost shard as long as it may, and gets no answer in no time, as with Ray."""

    def gather(self, calls: Sequence[Outcome], timeout: float | None) -> list[Outcome]:
        found = super().gather(calls, timeout)
        if timeout == 0:
            return [Outcome(lost=True) for _ in calls]
        if timeout is not None and any(one.lost for one in found):
            self.now += timeout
        return found


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    waiting = Waiting()
    monkeypatch.setattr(searching, "monotonic", lambda: waiting.now)
    return waiting


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(searching, "monotonic", lambda: clock.now)
    return clock


@pytest.mark.parametrize(
    ("given", "limits"), [({"timeout": 10.0}, [10, 6]), ({}, [60, 56]), ({"timeout": 3}, [3, 0])]
)
def test_the_second_round_has_what_is_left(
    tmp_path: Path, clock: Clock, given: dict[str, float], limits: list[float]
) -> None:
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=2, engine=clock) as cluster:
        cluster.ingest(range(50), X[:50], Y[:50])
        clock.limits.clear()
        clock.takes = {"search": 4.0}
        assert cluster.search(X[:1], 5, rescore=20, **given).ids[0, 0] == 0
        assert clock.limits == [("search", limits[0]), ("score", limits[1])]


def test_a_shard_that_is_lost_between_the_rounds(tmp_path: Path, clock: Clock) -> None:
    """The others answer, each try with the whole time: the lost shard has used it up."""
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=2, engine=clock) as cluster:
        cluster.ingest(range(50), X[:50], Y[:50])

        def lose(name: str, method: str) -> None:
            clock.actors["shard 1"].lost |= method == "score"

        clock.before, clock.takes = lose, {"score": 9.0}
        clock.limits.clear()
        hits = cluster.search(X[:5], 5, rescore=20, partial=True, timeout=7.0)
        assert 0.3 < hits.missing < 0.7
        assert clock.limits == [("search", 7), ("score", 7)] * 2
        clock.actors["shard 1"].lost = False
        with pytest.raises(ShardLost, match="shard 1 did not answer within 7 s"):
            cluster.search(X[:5], 5, rescore=20, timeout=7.0)


def test_a_shard_that_is_lost_before_the_first_round(tmp_path: Path, waiting: Waiting) -> None:
    """The second round has a limit of its own, and does not ask the lost shard."""
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=2, engine=waiting) as cluster:
        cluster.ingest(range(50), X[:50], Y[:50])
        whole = cluster.search(X[:5], 50, rescore=50)
        waiting.actors["shard 1"].lost = True
        waiting.limits.clear()
        waiting.calls.clear()
        began = waiting.now
        hits = cluster.search(X[:5], 5, rescore=20, partial=True, timeout=7.0)
        assert waiting.now - began == 7
        assert waiting.limits == [("search", 7), ("score", 7)]
        assert waiting.calls == [("shard 0", "search"), ("shard 1", "search"), ("shard 0", "score")]
        there = np.flatnonzero(shard_of(np.arange(50), 2) == 0)
        assert hits.missing == 1 - len(there) / 50
        for row, ids in zip(whole.ids, hits.ids, strict=True):
            assert ids.tolist() == row[np.isin(row, there)][:5].tolist()


@pytest.mark.parametrize("losses", [3, 5])
def test_a_shard_that_is_lost_in_each_round(tmp_path: Path, waiting: Waiting, losses: int) -> None:
    """All tries have four times the limit, whatever is lost while the search runs."""
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=5, engine=waiting) as cluster:
        cluster.ingest(range(50), X[:50], Y[:50])
        rounds: set[int] = set()

        def lose(name: str, method: str) -> None:
            if method == "score" and len(waiting.limits) not in rounds and len(rounds) < losses:
                rounds.add(len(waiting.limits))
                waiting.actors[name].lost = True

        waiting.before, began = lose, waiting.now
        if losses == 3:
            hits = cluster.search(X[:5], 5, rescore=50, partial=True, timeout=7.0)
            assert 0.4 < hits.missing < 0.8
            assert waiting.now - began == 21
        else:
            with pytest.raises(ShardLost, match="search again"):
                cluster.search(X[:5], 5, rescore=50, partial=True, timeout=7.0)
            assert waiting.now - began == 28


@pytest.mark.parametrize(("partial", "seconds"), [(False, 6), (True, 10)])
def test_items_that_are_removed_again_and_again(
    tmp_path: Path, waiting: Waiting, partial: bool, seconds: float
) -> None:
    """A search stops trying when its time is over, and says why."""
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=2, engine=waiting) as cluster:
        cluster.ingest(range(50), X[:50], Y[:50])
        for number in range(2):
            waiting.actors[f"shard {number}"].object.score = lambda *_: None
        waiting.takes, began = {"score": 2.0}, waiting.now
        with pytest.raises(ShardLost, match="search again"):
            cluster.search(X[:1], 5, rescore=20, partial=partial, timeout=5.0)
        assert waiting.now - began == seconds
