"""Drift: the features change during the stream. How soon are the codes good again?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.protocol import Curves, Protocol
from hashstream.evaluate.protocols.task import PreparedDataset, Streamed, Task, score, score_codes
from hashstream.evaluate.scores import Ties

RADIUS, K = (2,), (10, 100)
AT_ONCE = 4096  # rows whose features are permuted at a time
RECOVERED = 0.95
"""The share of its former mAP at which a method has recovered."""
STEPS = 4
"""Steps from the change to the next checkpoint: methods that recover often do it there."""


@dataclass(frozen=True)
class Drift(Protocol):
    """Half-way through the stream, features are permuted.

    `share` of the features, drawn by the seed, are shifted cyclically. Distances between rows do not change, so the
    task is as difficult after the change as before, and the loss is due to the hash functions alone. (Exchanging the
    classes instead would not do: codes that separate the clusters would still separate them.)

    Queries and database always have the current features. The change comes at the middle checkpoint: "mAP" there is
    with the features before it, "moved mAP" with the features after it, both with the same hash functions. The way from
    there to the next checkpoint is measured in four steps, which cut no batch.
    """

    kind = "drift"
    question = "The features change all at once: how soon are the codes good again?"
    number = "the share of features that are permuted"

    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(
                f"{self.kind}: the share of features has to be above 0 and at most 1, not {self.share:g}"
            )

    def metrics(self) -> tuple[str, ...]:
        return ("mAP", "precision@H2", "precision@10", "precision@100", "encode_seconds", "train_seconds")

    def points(self, data: PreparedDataset) -> tuple[int, ...]:
        """The setting's checkpoints, and more of them after the change."""
        usual = data.setting.checkpoints
        if len(usual) < 2:
            raise ValueError(
                "drift needs at least two checkpoints: one before the features change, and one after"
            )
        change = change_of(usual)
        step = (usual[usual.index(change) + 1] - change) // STEPS
        soon = range(change + step, change + STEPS * step, step) if step else ()
        return tuple(sorted({*usual, *soon}))

    def cuts(self, data: PreparedDataset) -> tuple[int, ...]:
        return data.setting.checkpoints

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        split, change = data.split(seed), change_of(self.points(data))
        source = self._source(data.X.shape[1], seed)

        def part(rows: np.ndarray, *, moved: bool) -> tuple[np.ndarray, np.ndarray]:
            X = data.X[rows]
            if moved:
                for begin in range(0, len(X), AT_ONCE):
                    X[begin : begin + AT_ONCE] = X[begin : begin + AT_ONCE].take(source, axis=1)
            return X, data.y[rows]

        kept: dict[bool, list[tuple[np.ndarray, np.ndarray]]] = {}

        def world(*, moved: bool) -> list[tuple[np.ndarray, np.ndarray]]:
            """Queries and database. Only one version is kept: two may be too large."""
            if moved not in kept:
                kept.clear()
                kept[moved] = [part(rows, moved=moved) for rows in (split.queries, split.retrieval)]
            return kept[moved]

        def scores_at(hasher: Streamed, n_train: int) -> dict[str, float]:
            scores = score(hasher, *world(moved=n_train > change), ties=ties, radius=RADIUS, k=K)
            if n_train == change:
                queries, (searched, labels) = world(moved=True)
                scores["moved mAP"] = score_codes(
                    hasher, queries, (hasher.transform(searched), labels), ties=ties
                )["mAP"]
            return scores

        pieces = part(split.stream[:change], moved=False), part(split.stream[change:], moved=True)
        X, y = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        return Task(X, y, scores_at, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        change, end = change_of(points), points[-1]
        return [(change, "mAP"), (change, "moved mAP"), (end, "mAP"), (end, "train_seconds")]

    def run_metrics(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """Rows after the change until mAP is back at 95 % of its former value, interpolated between checkpoints."""
        ((change, moved),), curve = curves["moved mAP"].items(), curves["mAP"]
        path = [(change, moved), *((n, curve[n]) for n in points if n > change)]
        return {"recovery_rows": crossing(path, RECOVERED * curve[change]) - change}

    def _source(self, features: int, seed: int) -> np.ndarray:
        """For each feature, the index of the one whose values it has after the change."""
        moving = np.random.default_rng([seed, 1]).permutation(features)[
            : max(2, round(self.share * features))
        ]
        source = np.arange(features)
        source[moving] = np.roll(moving, 1)
        return source


def change_of(points: Sequence[int]) -> int:
    """The checkpoint after which the features change: the middle one of those at equal distances, the earlier of two.

    >>> change_of([2000, 4000, 6000, 8000]), change_of([2000, 4000, 4500, 5000, 5500, 6000, 8000])
    (4000, 4000)
    """
    usual = [n for n in points if n % points[0] == 0 or n == points[-1]]
    return usual[(len(usual) - 1) // 2]


def crossing(path: Sequence[tuple[int, float]], wanted: float) -> float:
    """The place where the line through the points first reaches `wanted`; NaN if it never does.

    >>> crossing([(0, 0.2), (100, 0.4), (200, 0.8)], 0.6)
    150.0
    >>> crossing([(0, 0.2), (100, 0.4)], 0.6)
    nan
    """
    last_n, last = path[0]
    if last >= wanted:
        return float(last_n)
    for n, value in path[1:]:
        if value >= wanted:
            return last_n + (n - last_n) * (wanted - last) / (value - last)
        last_n, last = n, value
    return math.nan
