"""Unseen classes: do the codes serve classes that nobody has shown them?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.course import Course, PreparedDataset, Streamed, ask, encode
from hashstream.evaluate.protocols.protocol import Protocol

__all__ = ["UnseenClasses"]

AT, RADIUS, K = (1000,), (2,), (10,)


@dataclass(frozen=True)
class UnseenClasses(Protocol):
    """A share of the classes (rounded up; which ones, by the seed) never comes in the stream, but is searched.

    Queries of seen and of unseen classes are judged apart, both against the whole database.
    """

    kind = "unseen-classes"
    question = "Do the codes also retrieve classes that were never learned from?"
    number = "the share of classes that never come in the stream"
    free_points = True

    share: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(
                f"{self.kind}: the share of unseen classes is between 0 and 1, not {self.share:g}"
            )

    def metrics(self) -> tuple[str, ...]:
        """
        >>> UnseenClasses().metrics()[:2]
        ('seen mAP', 'seen mAP@1000')
        """
        cut = ("mAP", "mAP@1000", "precision@H2", "precision@10")
        apart = (f"{who} {name}" for who in ("seen", "unseen") for name in cut)
        return (*apart, "encode_seconds", "train_seconds")

    def points(self, field: PreparedDataset) -> tuple[int, ...]:
        """The setting's, as far as the stream reaches if the largest classes are the ones that are left out."""
        sizes = np.sort(np.unique(field.y, return_counts=True)[1]) - field.setting.per_class
        rows = int(sizes[: len(sizes) - self._unseen(field, len(sizes))].sum())
        return tuple(n for n in field.setting.checkpoints if n <= rows) or (min(rows, field.setting.stream),)

    def course(self, field: PreparedDataset, seed: int, *, ties: str = "paper") -> Course:
        split, classes = field.split(seed), np.unique(field.y)
        order = np.random.default_rng([seed, 1]).permutation(classes)
        unseen = order[: self._unseen(field, len(classes))]
        asked = np.isin(field.y[split.queries], unseen)
        groups = {
            who: (field.X[rows], field.y[rows])
            for who, rows in (("seen", split.queries[~asked]), ("unseen", split.queries[asked]))
        }
        stream = split.retrieval[~np.isin(field.y[split.retrieval], unseen)][: field.setting.stream]
        X, y = field.X[split.retrieval], field.y[split.retrieval]

        def look(hasher: Streamed, n_train: int) -> dict[str, float]:
            codes, seconds = encode(hasher, X)
            scores = {
                f"{who} {name}": value
                for who, queries in groups.items()
                for name, value in ask(
                    hasher, queries, (codes, y), ties=ties, at=AT, radius=RADIUS, k=K
                ).items()
            }
            return {**scores, "encode_seconds": seconds}

        return Course(field.X[stream], field.y[stream], look, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        shown = ("seen mAP", "unseen mAP", "unseen precision@10", "train_seconds")
        return [(points[-1], metric) for metric in shown]

    def _unseen(self, field: PreparedDataset, classes: int) -> int:
        """How many classes are left out. A whisker less than the share, so that 0.3 of 10 are 3."""
        unseen = math.ceil(self.share * classes - 1e-9)
        if classes - unseen < 2:
            raise ValueError(
                f"{self.name}: {field.dataset} has {classes} classes, which leaves {classes - unseen} to learn: "
                "two are needed"
            )
        return unseen
