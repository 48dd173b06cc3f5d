"""Threads that search a cluster while something happens to it, and judge every answer."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.scale.fault_world import K, Wrong

from hashstream.scale import Cluster

SIZES = (K, 5000)  # of the answers, by thread: the nearest few, and all items, of which none may be missing
THREADS = len(SIZES)
LONGEST = 60.0  # seconds until a moment has to come


@dataclass
class Found:
    """What came of some rounds."""

    rounds: Counter[str] = field(default_factory=Counter)  # by story
    kills: Counter[str] = field(default_factory=Counter)  # by who was killed
    answered: int = 0  # searches while something happened
    wrong: int = 0
    failed: int = 0
    pause: float = 0.0  # seconds of the longest search
    shard_pause: float = 0.0  # ... while a shard restarted, and everything else was there
    failures: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.rounds.update(other.rounds)
        self.kills.update(other.kills)
        self.failures += other.failures
        self.count(other.figures())

    def figures(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("answered", "wrong", "failed", "pause", "shard_pause")}

    def count(self, figures: dict[str, Any]) -> None:
        """Add the figures of searches."""
        for name in ("answered", "wrong", "failed"):
            setattr(self, name, getattr(self, name) + figures[name])
        for name in ("pause", "shard_pause"):
            setattr(self, name, max(getattr(self, name), figures[name]))


class Moment:
    """A moment that comes after so many calls of `tell`."""

    def __init__(self, calls: int) -> None:
        self._left, self._come = calls, threading.Event()

    def tell(self, *_: Any) -> None:
        self._left -= 1
        if self._left < 0:
            self._come.set()

    def wait(self) -> None:
        self._come.wait(LONGEST)


class Searches:
    """Searches as long as the block is. judge : raises Wrong for an answer with k items that cannot be. rest : seconds
    between two searches of a thread."""

    def __init__(
        self, cluster: Cluster, Q: Any, judge: Callable[[Any, int], None], rest: float = 0.0
    ) -> None:
        self._cluster, self._judge, self._rest = cluster, judge, rest
        self.found, self._lock = Found(), threading.Lock()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(Q, i), daemon=True) for i in range(THREADS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def wait(self, n: int, timeout: float = 120.0) -> None:
        """Until so many more searches have begun and were answered, or failed."""
        target = self._ended() + n + THREADS
        end = time.monotonic() + timeout
        while self._ended() < target and time.monotonic() < end:
            time.sleep(0.01)

    def _ended(self) -> int:
        with self._lock:
            return self.found.answered + self.found.failed

    def _run(self, Q: Any, number: int) -> None:
        k = SIZES[number]
        while not self._end.is_set():
            begun, found, error = time.monotonic(), None, None
            try:
                found = self._cluster.search(Q, k, compare="like")
            except Exception as raised:
                error = raised
            pause, wrong = time.monotonic() - begun, ""
            if found is not None:
                try:
                    self._judge(found, k)
                except Wrong as raised:
                    wrong = f"a search during the fault: {raised}"
            with self._lock:
                self.found.pause = max(self.found.pause, pause)
                self.found.answered += found is not None
                self.found.failed += error is not None
                self.found.wrong += bool(wrong)
                if error is not None:
                    self.found.failures.append(f"a search failed: {type(error).__name__}: {error}")
                elif wrong:
                    self.found.failures.append(wrong)
            self._end.wait(0.2 if error is not None else self._rest)
