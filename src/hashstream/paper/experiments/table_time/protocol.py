"""The protocol of table-time, which only measures times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hashstream.evaluate import Ties
from hashstream.evaluate.protocols import PreparedDataset, Protocol, Streamed, Task

__all__ = ["BITS", "NAME", "Times", "encoding_seconds"]

NAME = "table-time"
BITS = 32
REPEATS, LONG = 5, 0.2
"""How often the database is encoded at the end of the stream; more often where that took less than LONG seconds in all.
The median counts."""


@dataclass(frozen=True)
class Times(Protocol):
    """The paper's stream without queries: only times are measured."""

    kind = NAME
    question = "How long does it take to keep functions and table up to date?"
    free_points = True

    def metrics(self) -> tuple[str, ...]:
        return ("encode_seconds", "updates", "train_seconds")

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        return [(points[-1], metric) for metric in self.metrics()]

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        """encode_seconds: one rebuild of the table; at the end of the stream the median of several.
        updates: how often the functions changed (`version_`), NaN where a method does not count."""
        split = data.split(seed)
        database = data.X[split.retrieval]

        def judge(hasher: Streamed, n_train: int) -> dict[str, float]:
            enough = n_train < len(split.stream)  # before the end once is enough
            seconds = [encoding_seconds(hasher, database)]
            while not enough:
                seconds.append(encoding_seconds(hasher, database))
                enough = len(seconds) >= REPEATS and (sum(seconds) > LONG or len(seconds) == 20 * REPEATS)
            updates = float(getattr(hasher, "version_", np.nan))
            return {"encode_seconds": median(seconds), "updates": updates}

        return Task(data.X[split.stream], data.y[split.stream], judge, ties)


def encoding_seconds(hasher: Streamed, X: np.ndarray) -> float:
    """Seconds to encode the rows of X (n, d) once."""
    clock = time.perf_counter()
    hasher.transform(X)
    return time.perf_counter() - clock
