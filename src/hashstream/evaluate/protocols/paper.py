"""The paper's protocol: how well do the codes retrieve, as the stream goes by?"""

from __future__ import annotations

from dataclasses import dataclass

from hashstream.evaluate.protocols.course import Course, Field, Streamed, judge
from hashstream.evaluate.protocols.settings import Setting

__all__ = ["Paper"]

AT, RADIUS, K = (1000,), (2,), (1, 5, *range(10, 101, 10))
"""The cut-offs of the paper's figures: mAP@N, precision@HR, precision@K."""


@dataclass(frozen=True)
class Paper:
    """Random queries of each class against all other rows; a random part of these, in random order, is the stream.

    ties="paper" gives figures to hold against the paper's, "aware" ones that do not depend on the order of
    the database (see `retrieval`).
    """

    name = "paper"
    question = "How well do the codes retrieve after 2,000, 4,000, ... rows of a stationary stream?"

    def metrics(self) -> tuple[str, ...]:
        """The metrics of each look.

        >>> Paper().metrics()[:4]
        ('mAP', 'mAP@1000', 'precision@H2', 'precision@1')
        """
        cut = (
            *(f"mAP@{n}" for n in AT),
            *(f"precision@H{r}" for r in RADIUS),
            *(f"precision@{k}" for k in K),
        )
        return ("mAP", *cut, "encode_seconds", "train_seconds")

    def points(self, setting: Setting) -> tuple[int, ...]:
        return setting.checkpoints

    def course(self, field: Field, seed: int, *, ties: str = "paper") -> Course:
        split = field.split(seed)
        queries = field.X[split.queries], field.y[split.queries]
        database = field.X[split.retrieval], field.y[split.retrieval]

        def look(hasher: Streamed, n_train: int) -> dict[str, float]:
            return judge(hasher, queries, database, ties=ties, at=AT, radius=RADIUS, k=K)

        return Course(field.X[split.stream], field.y[split.stream], look, ties)
