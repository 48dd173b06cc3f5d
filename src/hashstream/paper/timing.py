"""How table-time is measured: the protocol that only takes times, and what MIHash's gate would let through."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from hashstream.evaluate import Ties
from hashstream.evaluate.protocols import PreparedDataset, Protocol, Streamed, Task
from hashstream.hashers.mutual_information import gate, has_moved, reservoir_mutual_information

__all__ = ["BITS", "NAME", "Times", "encoding_seconds", "gated_rebuilds"]

NAME = "table-time"
BITS = 32
REPEATS, LONG = 5, 0.2
"""How often the database is encoded at the end, and more often where that took less than so many seconds together; the
median counts."""


@dataclass(frozen=True)
class Times(Protocol):
    """The paper's stream, without questions: only how long things take."""

    kind = NAME
    question = "How long does it take to keep functions and table up to date?"
    free_points = True

    def metrics(self) -> tuple[str, ...]:
        return ("encode_seconds", "updates", "train_seconds")

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        return [(points[-1], metric) for metric in self.metrics()]

    def task(self, field: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        """encode_seconds: one rebuild of the table, the median of several at the end of the stream.
        updates: how often equal input may have got another code (`version_`), NaN where a method does not say."""
        split = field.split(seed)
        database = field.X[split.retrieval]

        def look(hasher: Streamed, n_train: int) -> dict[str, float]:
            enough = n_train < len(split.stream)  # on the way there once will do
            seconds = [encoding_seconds(hasher, database)]
            while not enough:
                seconds.append(encoding_seconds(hasher, database))
                enough = len(seconds) >= REPEATS and (sum(seconds) > LONG or len(seconds) == 20 * REPEATS)
            updates = float(getattr(hasher, "version_", np.nan))
            return {"encode_seconds": median(seconds), "updates": updates}

        return Task(field.X[split.stream], field.y[split.stream], look, ties)


def encoding_seconds(hasher: Streamed, X: np.ndarray) -> float:
    """Seconds to encode the rows of X (n, d) once."""
    clock = time.perf_counter()
    hasher.transform(X)
    return time.perf_counter() - clock


def gated_rebuilds(
    hasher: Any,
    X: np.ndarray,
    y: np.ndarray,
    *,
    every: int,
    theta: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> int:
    """How often a table would be rebuilt if MIHash's gate were asked after every `every` rows of the stream (X, y).

    hasher: a fresh `MIHash`. The first table is made with its W0, before the stream, and is not counted.
    progress: called with the number of rows after each question to the gate.
    """
    hasher.partial_fit(X[:1], y[:1])  # sits down in the reservoir: there is nothing yet to learn from
    table, rebuilds, start = hasher.projection_, 0, 1
    for stop in range(every, len(X) + 1, every):
        if stop > start:
            hasher.partial_fit(X[start:stop], y[start:stop])
        start = stop
        if has_moved(hasher.projection_, table):
            new, old = (
                reservoir_mutual_information(
                    np.packbits(hasher.reservoir_ @ W > 0, axis=1),
                    hasher.reservoir_labels_,
                    n_bits=hasher.n_bits,
                )
                for W in (hasher.projection_, table)
            )
            if gate(new, old, theta):
                table, rebuilds = hasher.projection_, rebuilds + 1
        if progress is not None:
            progress(every)
    return rebuilds
