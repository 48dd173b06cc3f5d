"""An engine without Ray: actors are objects of this process, and their arguments and results are copied."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hashstream.scale.engine import Outcome
from hashstream.scale.errors import ShardLost


def sent(value: Any) -> Any:
    """A copy, as Ray sends it: arrays are read-only."""
    buffers: list[Any] = []
    raw = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(raw, buffers=[bytes(one.raw()) for one in buffers])


class LocalActor:
    def __init__(
        self, engine: LocalEngine, kind: Callable[..., Any], args: tuple[Any, ...], name: str
    ) -> None:
        self.engine, self.kind, self.args, self.name = engine, kind, args, name
        self.object = kind(*args)
        self.lost = False

    def submit(self, method: str, *args: Any) -> Outcome:
        return self.engine.run(self, method, args)

    def stream(
        self, method: str, *args: Any, every: float, late: Callable[[int, float], None]
    ) -> Iterator[Any]:
        found, n, waited = getattr(self.object, method)(*args), 0, 0.0
        while True:
            while self.lost or (self.name, method) in self.engine.slow:
                waited += every
                late(n, waited)
            try:
                value = next(found)
            except StopIteration:
                return
            yield value
            n, waited = n + 1, 0.0

    def restart(self) -> None:
        """As after a kill; the table is closed, since its lock would stay with this process."""
        self.object.close()
        self.object = self.kind(*self.args)


class LocalEngine:
    """calls : (name of the actor, method) of all calls. before : called before each of them, and may raise. twice :
    name of an actor that restarts after each call, and does it once more. slow : (name of the actor, method) of calls
    that are not answered in time, and done by `deliver`."""

    def __init__(self) -> None:
        self.actors: dict[str, LocalActor] = {}
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] | None = None
        self.twice = ""
        self.slow: set[tuple[str, str]] = set()
        self._waiting: list[tuple[LocalActor, str, tuple[Any, ...]]] = []

    def actor(
        self, kind: Callable[..., Any], args: tuple[Any, ...], *, name: str, node: str | None, detached: bool
    ) -> LocalActor:
        found = self.actors[name] = LocalActor(self, kind, args, name)
        return found

    def run(self, actor: LocalActor, method: str, args: tuple[Any, ...]) -> Outcome:
        self.calls.append((actor.name, method))
        if self.before is not None:
            self.before(actor.name, method)
        if actor.lost:
            return Outcome(lost=True)
        if (actor.name, method) in self.slow:
            self._waiting.append((actor, method, sent(args)))
            return Outcome(lost=True)
        try:
            outcome = Outcome(sent(getattr(actor.object, method)(*sent(args))))
        except Exception as error:
            return Outcome(error=error, lost=isinstance(error, ShardLost))
        if actor.name == self.twice and method != "close":
            actor.restart()
            outcome = Outcome(getattr(actor.object, method)(*pickle.loads(pickle.dumps(args))))
        return outcome

    def deliver(self) -> list[Outcome]:
        """Do the calls that were not answered, as Ray does for an actor that is back; nobody waits for them."""
        self.slow, waiting, self._waiting = set(), self._waiting, []
        return [self.run(*call) for call in waiting]

    def share(self, value: Any, n_bytes: int) -> Any:
        return value

    def gather(self, calls: Sequence[Outcome], timeout: float | None) -> list[Outcome]:
        return list(calls)

    def stop(self, actor: Any) -> None:
        actor.object.close()

    def n_nodes(self) -> int:
        return 0
