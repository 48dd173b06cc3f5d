"""Validation: which settings are good, measured on the stream alone?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.protocol import Protocol
from hashstream.evaluate.protocols.task import PreparedDataset, Streamed, Task, score
from hashstream.evaluate.scores import Ties

AT, RADIUS, K = (1000,), (2,), (10, 100)


@dataclass(frozen=True)
class Validation(Protocol):
    """A part of the stream is queries, and the rest of the stream is learned from and searched.

    Neither the queries with which methods are compared nor the rest of the retrieval set is used. Every class has the
    same number of queries: a tenth of its share of the stream if classes are equally frequent, at most the setting's
    queries per class, and never more than half of its rows in the stream.
    """

    kind = "validation"
    question = "Which settings are good, measured on a part of the stream alone?"

    def metrics(self) -> tuple[str, ...]:
        cut = ("mAP", "mAP@1000", "precision@H2", "precision@10", "precision@100")
        return (*cut, "encode_seconds", "train_seconds")

    def points(self, data: PreparedDataset) -> tuple[int, ...]:
        """One checkpoint, at the end."""
        classes = len(data.asked)
        return (data.setting.stream - classes * self._queries(data, classes),)

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        stream = data.split(seed).stream
        y = data.y[stream]
        classes = data.asked
        most, rng = self._queries(data, len(classes)), np.random.default_rng([seed, 1])
        own = (np.flatnonzero(y == label) for label in classes)
        asked = np.concatenate([rng.permutation(rows)[: min(most, len(rows) // 2)] for rows in own])
        if not len(asked):
            raise ValueError(f"no class of {data.dataset} has two rows in the stream: there are no queries")
        rest = np.setdiff1d(np.arange(len(stream)), asked)[: self.points(data)[0]]  # in the stream's order
        queries = data.X[stream[asked]], y[asked]
        database = data.X[stream[rest]], y[rest]

        def scores_at(hasher: Streamed, n_train: int) -> dict[str, float]:
            return score(hasher, queries, database, ties=ties, at=AT, radius=RADIUS, k=K)

        return Task(*database, scores_at, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        return [(points[-1], metric) for metric in ("mAP", "precision@H2", "train_seconds")]

    def _queries(self, data: PreparedDataset, classes: int) -> int:
        """Queries per class."""
        return max(1, min(data.setting.per_class, data.setting.stream // (10 * classes)))
