"""Unseen classes: do the codes also retrieve classes that were never learned from?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.protocol import Protocol
from hashstream.evaluate.protocols.task import PreparedDataset, Streamed, Task, encode, score_codes
from hashstream.evaluate.scores import Ties

AT, RADIUS, K = (1000,), (2,), (10,)


@dataclass(frozen=True)
class UnseenClasses(Protocol):
    """A share of the classes (rounded up, drawn by the seed) is in the database but not in the stream.

    It is of those that are asked for; the others (`Setting.min_class`) are learned and searched.

    Queries of seen and of unseen classes are scored separately, both against the whole database.
    """

    kind = "unseen-classes"
    question = "Do the codes also retrieve classes that were never learned from?"
    number = "the share of classes that are not in the stream"
    free_points = True

    share: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(
                f"{self.kind}: the share of unseen classes has to be between 0 and 1, not {self.share:g}"
            )

    def metrics(self) -> tuple[str, ...]:
        """
        >>> UnseenClasses().metrics()[:2]
        ('seen mAP', 'seen mAP@1000')
        """
        cut = ("mAP", "mAP@1000", "precision@H2", "precision@10")
        apart = (f"{who} {name}" for who in ("seen", "unseen") for name in cut)
        return (*apart, "encode_seconds", "train_seconds")

    def points(self, data: PreparedDataset) -> tuple[int, ...]:
        """Those of the setting, up to the shortest stream: the one without the largest classes."""
        sizes, asked = data.available, np.isin(np.unique(data.y), data.asked)
        largest = np.sort(sizes[asked])[::-1][: self._unseen(data, int(asked.sum()))]
        rows = int(sizes.sum() - largest.sum())
        return tuple(n for n in data.setting.checkpoints if n <= rows) or (min(rows, data.setting.stream),)

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        split, classes = data.split(seed), data.asked
        order = np.random.default_rng([seed, 1]).permutation(classes)
        unseen = order[: self._unseen(data, len(classes))]
        asked = np.isin(data.y[split.queries], unseen)
        groups = {
            who: (data.X[rows], data.y[rows])
            for who, rows in (("seen", split.queries[~asked]), ("unseen", split.queries[asked]))
        }
        stream = split.retrieval[~np.isin(data.y[split.retrieval], unseen)][: data.setting.stream]
        X, y = data.X[split.retrieval], data.y[split.retrieval]

        def scores_at(hasher: Streamed, n_train: int) -> dict[str, float]:
            codes, seconds = encode(hasher, X)
            scores = {
                f"{who} {name}": value
                for who, queries in groups.items()
                for name, value in score_codes(
                    hasher, queries, (codes, y), ties=ties, at=AT, radius=RADIUS, k=K
                ).items()
            }
            return {**scores, "encode_seconds": seconds}

        return Task(data.X[stream], data.y[stream], scores_at, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        shown = ("seen mAP", "unseen mAP", "unseen precision@10", "train_seconds")
        return [(points[-1], metric) for metric in shown]

    def _unseen(self, data: PreparedDataset, classes: int) -> int:
        """The number of unseen classes, rounded so that 0.3 of 10 are 3."""
        unseen = math.ceil(self.share * classes - 1e-9)
        if classes - unseen < 2:
            raise ValueError(
                f"{self.name}: {data.dataset} has {classes} classes, which leaves {classes - unseen} to learn: "
                "two are needed"
            )
        return unseen
