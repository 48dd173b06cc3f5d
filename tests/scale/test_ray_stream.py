"""Values that an actor yields are of one run of it: never the first of one, and the rest of another."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from hashstream.scale import ShardLost
from hashstream.scale.engine import GROUPS, RayEngine, Remote


def test_a_stream_ends_with_its_actor(engine: RayEngine) -> None:
    class Endless(Remote):
        reads = frozenset({"pids", "pid", "wrong"})

        def pids(self) -> Iterator[int]:
            yield os.getpid()
            threading.Event().wait()

        def pid(self) -> int:
            return os.getpid()

        def wrong(self) -> Iterator[int]:
            yield 1
            raise KeyError("nothing")

    actor = engine.actor(Endless, (), name="endless", node=None, detached=False)
    try:
        stream = actor.stream("pids")
        first = next(stream)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ShardLost, match="endless was lost while it was read"):
            next(stream)
        (again,) = engine.gather([actor.submit("pid")], 60)
        assert again.value != first
        with pytest.raises(KeyError, match="nothing"):
            list(actor.stream("wrong"))
    finally:
        engine.stop(actor)


def test_a_stream_is_read_as_it_is_asked_for(engine: RayEngine) -> None:
    """Otherwise the pieces of a large shard fill Ray's memory."""

    class Counting(Remote):
        reads = frozenset({"count", "ended", "pid"})

        def __init__(self) -> None:
            self.end = threading.Event()

        def count(self, n: int) -> Iterator[int]:
            yield from (i for i in range(n))  # Ray sends values to what it iterates over
            self.end.set()

        def ended(self, seconds: float) -> bool:
            return self.end.wait(seconds)

        def pid(self) -> int:
            return os.getpid()

    def value(method: str, *args: float) -> object:
        (found,) = engine.gather([actor.submit(method, *args)], 60)
        assert found.error is None
        return found.value

    actor = engine.actor(Counting, (), name="counting", node=None, detached=False)
    try:
        stream = actor.stream("count", 50)
        assert next(stream) == 0
        assert value("ended", 2.0) is False
        assert list(stream) == list(range(1, 50))
        assert value("ended", 30.0) is True
        for _ in range(2 * GROUPS["read"]):  # readers that give up do not keep the threads of the actor
            stream = actor.stream("count", 50)
            assert next(stream) == 0
            stream.close()
            del stream
        assert isinstance(value("pid"), int)
    finally:
        engine.stop(actor)
