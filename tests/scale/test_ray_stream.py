"""Values that an actor yields are of one run of it: never the first of one, and the rest of another."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from hashstream.scale import ShardLost
from hashstream.scale.engine import RayEngine, Remote


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
