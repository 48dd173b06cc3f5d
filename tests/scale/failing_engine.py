"""An engine without Ray whose programs die and whose actors restart, at calls that a seed chooses."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.scale.local_engine import LocalActor, LocalEngine

from hashstream.scale.engine import Outcome

FAULTS = ("program before", "program after", "restart before", "restart after", "answer lost")
"""The program is killed before or after a call was done; the actor restarts before or after; or it restarts after the
call was done and before its answer was sent, so that the call is repeated."""


class Killed(BaseException):
    """The program was killed here."""


class FailingEngine(LocalEngine):
    """gap : calls between two faults, about; None for no faults. faults : those that were met."""

    def __init__(self, seed: int, gap: int | None = None) -> None:
        super().__init__()
        self._rng = random.Random(f"{seed} faults")
        self.gap, self.left = gap, 0
        self.faults: Counter[str] = Counter()
        self._wait()

    def actor(
        self, kind: Callable[..., Any], args: tuple[Any, ...], *, name: str, node: str | None, detached: bool
    ) -> LocalActor:
        """Detached actors outlive the program that started them."""
        if name in self.actors:
            return self.actors[name]
        return super().actor(kind, args, name=name, node=node, detached=detached)

    def run(self, actor: LocalActor, method: str, args: tuple[Any, ...]) -> Outcome:
        self.left -= 1
        if self.gap is None or self.left > 0 or method == "close":
            return super().run(actor, method, args)
        self._wait()
        fault = self._rng.choice(FAULTS)
        self.faults[fault] += 1
        if fault == "program before":
            raise Killed
        if fault == "restart before":
            actor.restart()
        outcome = super().run(actor, method, args)
        if fault == "program after":
            raise Killed
        if fault in ("restart after", "answer lost"):
            actor.restart()
        return super().run(actor, method, args) if fault == "answer lost" else outcome

    def survive(self, command: Callable[[], Any]) -> Any:
        """Give a command again until nobody kills it."""
        while True:
            try:
                return command()
            except Killed:
                continue

    def stop(self, actor: Any) -> None:
        super().stop(actor)
        self.actors.pop(actor.name, None)

    def close(self) -> None:
        for actor in list(self.actors.values()):
            self.stop(actor)

    def _wait(self) -> None:
        self.left = self._rng.randint(1, 2 * self.gap) if self.gap else 0
