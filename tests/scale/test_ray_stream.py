"""Values that an actor yields are of one run of it: never the first of one, and the rest of another."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from hashstream.scale import ShardLost
from hashstream.scale.engine import GROUPS, RayActor, RayEngine, Remote


def patiently(n: int, waited: float) -> None:
    """Values may come late."""


def stream_of(actor: RayActor, method: str, *args: int) -> Iterator[int]:
    return actor.stream(method, *args, every=60.0, late=patiently)


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
        stream = stream_of(actor, "pids")
        first = next(stream)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ShardLost, match="endless was lost while it was read"):
            next(stream)
        (again,) = engine.gather([actor.submit("pid")], 60)
        assert again.value != first
        with pytest.raises(KeyError, match="nothing"):
            list(stream_of(actor, "wrong"))
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
        stream = stream_of(actor, "count", 50)
        assert next(stream) == 0
        assert value("ended", 2.0) is False
        assert list(stream) == list(range(1, 50))
        assert value("ended", 30.0) is True
        for _ in range(2 * GROUPS["stream"]):  # readers that give up do not keep the threads of the actor
            stream = stream_of(actor, "count", 50)
            assert next(stream) == 0
            stream.close()
            del stream
        assert isinstance(value("pid"), int)
    finally:
        engine.stop(actor)


def test_nobody_waits_for_slow_readers(engine: RayEngine) -> None:
    class Busy(Remote):
        reads = frozenset({"pid", "begun"})
        long = frozenset({"sleep"})

        def __init__(self) -> None:
            self.begins = 0
            self.end = threading.Event()

        def count(self, n: int) -> Iterator[int]:
            self.begins += 1
            yield from (i for i in range(n))

        def begun(self) -> int:
            return self.begins

        def sleep(self) -> bool:
            return self.end.wait(60)

        def wake(self) -> None:
            self.end.set()

        def pid(self) -> int:
            return os.getpid()

    def give_up(n: int, waited: float) -> None:
        assert (n, waited) == (0, 0.5)
        raise TimeoutError("too many")

    def value(call: object) -> object:
        (found,) = engine.gather([call], 30)  # type: ignore[list-item]
        assert not found.lost
        assert found.error is None
        return found.value

    actor = engine.actor(Busy, (), name="busy", node=None, detached=False)
    try:
        value(actor.submit("pid"))
        streams = [stream_of(actor, "count", 50) for _ in range(GROUPS["stream"])]
        assert [next(stream) for stream in streams] == [0] * len(streams)
        asleep = [actor.submit("sleep") for _ in range(GROUPS["long"])]
        more = actor.submit("sleep")  # waits for a thread, and nobody waits for it
        with pytest.raises(TimeoutError, match="too many") as error:
            next(actor.stream("count", 50, every=0.5, late=give_up))
        assert isinstance(value(actor.submit("pid")), int)
        value(actor.submit("wake"))
        assert all(value(call) is True for call in (*asleep, more))
        assert list(streams.pop()) == list(range(1, 50))
        assert list(stream_of(actor, "count", 50)) == list(range(50))
        assert value(actor.submit("begun")) == GROUPS["stream"] + 1  # the one that was given up never began
        del error
    finally:
        engine.stop(actor)
