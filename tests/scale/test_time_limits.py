"""A search that rescores has one time limit for both of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ShardLost, searching
from hashstream.scale.engine import Outcome


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
