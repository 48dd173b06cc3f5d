"""The paper's protocol: how well do the codes retrieve along the stream?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hashstream.evaluate.auc import auc
from hashstream.evaluate.protocols.protocol import Curves, Protocol
from hashstream.evaluate.protocols.task import PreparedDataset, Streamed, Task, score
from hashstream.evaluate.scores import Ties

__all__ = ["Paper"]

AT, RADIUS, K = (1000,), (2,), (1, 5, *range(10, 101, 10))
"""The cut-offs of the paper's figures: mAP@N, precision@HR, precision@K."""


@dataclass(frozen=True)
class Paper(Protocol):
    """Random queries of each class against all other rows; a random part of these, in random order, is the stream.

    ties="paper" gives figures that can be compared with the paper's, "aware" figures that do not depend on the order of
    the database (see `retrieval`).
    """

    kind = "paper"
    question = "How well do the codes retrieve along a stream that does not change?"
    free_points = True

    def metrics(self) -> tuple[str, ...]:
        """The metrics of each checkpoint.

        >>> Paper().metrics()[:4]
        ('mAP', 'mAP@1000', 'precision@H2', 'precision@1')
        """
        cut = (
            *(f"mAP@{n}" for n in AT),
            *(f"precision@H{r}" for r in RADIUS),
            *(f"precision@{k}" for k in K),
        )
        return ("mAP", *cut, "encode_seconds", "train_seconds")

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        split = data.split(seed)
        queries = data.X[split.queries], data.y[split.queries]
        database = data.X[split.retrieval], data.y[split.retrieval]

        def scores_at(hasher: Streamed, n_train: int) -> dict[str, float]:
            return score(hasher, queries, database, ties=ties, at=AT, radius=RADIUS, k=K)

        return Task(data.X[split.stream], data.y[split.stream], scores_at, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        first = [(points[0], "mAP")] * (len(points) > 1)
        return [*first, *((points[-1], metric) for metric in ("mAP", "precision@H2", "train_seconds"))]

    def run_metrics(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """The paper's areas under curves: mAP over the stream, and precision@K over K at its end."""
        return {
            "AUC of mAP": auc((n, curves["mAP"][n]) for n in points),
            "AUC of precision@K": auc((k, curves[f"precision@{k}"][points[-1]]) for k in K),
        }
