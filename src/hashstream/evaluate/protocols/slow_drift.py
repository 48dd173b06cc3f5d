"""Slow drift: the features turn during the whole stream. Do the codes follow?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.auc import auc
from hashstream.evaluate.protocols.protocol import Curves, Protocol
from hashstream.evaluate.protocols.task import PreparedDataset, Streamed, Task, score
from hashstream.evaluate.scores import Ties

RADIUS, K = (2,), (10, 100)
AT_ONCE = 4096  # rows that are turned at a time


@dataclass(frozen=True)
class SlowDrift(Protocol):
    """Features are paired at random, by the seed, and each pair is rotated by an angle that grows along the stream.

    The angle is the same for all pairs; it grows linearly from 0 at the first row to `turns` quarter turns at the last.
    Of an odd number of features, one stays. Distances between rows of one time do not change, so the task is always as
    difficult as without drift, and the loss is due to older rows, which no longer fit.

    Queries and database are rotated by the angle of the checkpoint: that of the last row learned.
    """

    kind = "slow-drift"
    question = "The features turn slowly during the whole stream: do the codes follow?"
    number = "the quarter turns from the first row to the last"
    free_points = True

    turns: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.turns < math.inf:
            raise ValueError(
                f"{self.kind}: the number of quarter turns has to be above 0, not {self.turns:g}"
            )

    def metrics(self) -> tuple[str, ...]:
        return ("mAP", "precision@H2", "precision@10", "precision@100", "encode_seconds", "train_seconds")

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        split = data.split(seed)
        pairs = pairs_of(data.X.shape[1], seed)
        angles = np.linspace(0, self.turns * math.pi / 2, len(split.stream))

        def scores_at(hasher: Streamed, n_train: int) -> dict[str, float]:
            now = angles[n_train - 1]
            queries, database = (
                (turned(data.X[rows], pairs, np.full(len(rows), now)), data.y[rows])
                for rows in (split.queries, split.retrieval)
            )
            return score(hasher, queries, database, ties=ties, radius=RADIUS, k=K)

        return Task(turned(data.X[split.stream], pairs, angles), data.y[split.stream], scores_at, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        first = [(points[0], "mAP")] * (len(points) > 1)
        return [*first, *((points[-1], metric) for metric in ("mAP", "precision@10", "train_seconds"))]

    def run_metrics(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """The area under the curve of mAP along the stream."""
        return {"AUC of mAP": auc((n, curves["mAP"][n]) for n in points)}


def pairs_of(features: int, seed: int) -> np.ndarray:
    """The features that turn into each other, (2, features // 2)."""
    order = np.random.default_rng([seed, 1]).permutation(features)
    return order[: features // 2 * 2].reshape(2, -1)


def turned(X: np.ndarray, pairs: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """X (n, d), changed in place: each pair of features rotated by the row's angle.

    >>> turned(np.array([[1.0, 5.0, 0.0]]), np.array([[0], [2]]), np.array([np.pi / 2])).round(6)
    array([[0., 5., 1.]])
    """
    a, b = pairs
    for begin in range(0, len(X), AT_ONCE):
        part, angle = X[begin : begin + AT_ONCE], angles[begin : begin + AT_ONCE, None]
        cos, sin = np.cos(angle).astype(X.dtype), np.sin(angle).astype(X.dtype)
        x, y = part[:, a], part[:, b]
        part[:, a] = cos * x - sin * y
        part[:, b] = sin * x + cos * y
    return X
