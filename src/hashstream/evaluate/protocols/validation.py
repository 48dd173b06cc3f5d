"""Validation: which settings are good, judged by the stream alone?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.course import Course, PreparedDataset, Streamed, judge
from hashstream.evaluate.protocols.protocol import Protocol

__all__ = ["Validation"]

AT, RADIUS, K = (1000,), (2,), (10, 100)


@dataclass(frozen=True)
class Validation(Protocol):
    """A part of the stream asks, and the rest of the stream is learned from and searched.

    Neither the queries that methods are compared by nor the rest of the retrieval set is touched. Every class gives
    the same number of queries: a tenth of its share of the stream if classes are equally frequent, as many as the
    setting's queries of each class at most, and never more than half of its rows in the stream.
    """

    kind = "validation"
    question = "Which settings are good, judged by a part of the stream alone?"

    def metrics(self) -> tuple[str, ...]:
        cut = ("mAP", "mAP@1000", "precision@H2", "precision@10", "precision@100")
        return (*cut, "encode_seconds", "train_seconds")

    def points(self, field: PreparedDataset) -> tuple[int, ...]:
        """One look, at the end."""
        classes = len(np.unique(field.y))
        return (field.setting.stream - classes * self._queries(field, classes),)

    def course(self, field: PreparedDataset, seed: int, *, ties: str = "paper") -> Course:
        stream = field.split(seed).stream
        y = field.y[stream]
        classes = np.unique(field.y)
        most, rng = self._queries(field, len(classes)), np.random.default_rng([seed, 1])
        own = (np.flatnonzero(y == label) for label in classes)
        asked = np.concatenate([rng.permutation(rows)[: min(most, len(rows) // 2)] for rows in own])
        if not len(asked):
            raise ValueError(
                f"no class of {field.dataset} has two rows in the stream: there is nothing to ask"
            )
        rest = np.setdiff1d(np.arange(len(stream)), asked)[: self.points(field)[0]]  # in the stream's order
        queries = field.X[stream[asked]], y[asked]
        database = field.X[stream[rest]], y[rest]

        def look(hasher: Streamed, n_train: int) -> dict[str, float]:
            return judge(hasher, queries, database, ties=ties, at=AT, radius=RADIUS, k=K)

        return Course(*database, look, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        return [(points[-1], metric) for metric in ("mAP", "precision@H2", "train_seconds")]

    def _queries(self, field: PreparedDataset, classes: int) -> int:
        """Of each class."""
        return max(1, min(field.setting.per_class, field.setting.stream // (10 * classes)))
