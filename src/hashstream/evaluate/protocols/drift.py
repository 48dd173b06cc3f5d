"""Drift: the classes move. How soon are the codes good again?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.course import Course, Field, Streamed, ask, judge
from hashstream.evaluate.protocols.protocol import Curves, Protocol

__all__ = ["RECOVERED", "Drift"]

RADIUS, K = (2,), (10, 100)
RECOVERED = 0.95
"""The share of its former mAP at which a method has recovered."""


@dataclass(frozen=True)
class Drift(Protocol):
    """Half-way through the stream, all classes move at once: each goes to where its neighbour stood.

    A row x of class c becomes x + strength (m_next(c) - m_c), scaled to length 1, where m_c is the mean of the
    retrieval set's rows of class c and next is a ring through all classes, by the seed. Queries and database are
    always of the world of now. The change comes with the look in the middle: "mAP" there is of the world before it,
    "moved mAP" of the world after it, with the same functions.
    """

    kind = "drift"
    question = "All classes move (by 1.0 times the way to another class): how soon are the codes good again?"

    strength: float = 1.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.strength) or self.strength <= 0:
            raise ValueError(f"{self.kind}: the strength has to be more than 0, not {self.strength:g}")

    def metrics(self) -> tuple[str, ...]:
        return ("mAP", "precision@H2", "precision@10", "precision@100", "encode_seconds", "train_seconds")

    def course(self, field: Field, seed: int, *, ties: str = "paper") -> Course:
        split, change = field.split(seed), change_of(self.points(field))
        move = self._moves(field, split.retrieval, seed)

        def world(rows: np.ndarray, *, moved: bool) -> tuple[np.ndarray, np.ndarray]:
            X, y = (
                field.X[rows],
                field.y[rows],
            )  # a copy, made for each look: two worlds at once may be too large
            if moved:
                _shift(X, y, *move)
            return X, y

        before, after = split.stream[:change], split.stream[change:]
        pieces = world(before, moved=False), world(after, moved=True)
        X, y = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))

        def look(hasher: Streamed, n_train: int) -> dict[str, float]:
            moved = n_train > change
            scores = judge(
                hasher,
                world(split.queries, moved=moved),
                world(split.retrieval, moved=moved),
                ties=ties,
                radius=RADIUS,
                k=K,
            )
            if n_train == change:
                queries, (searched, labels) = (
                    world(rows, moved=True) for rows in (split.queries, split.retrieval)
                )
                scores["moved mAP"] = ask(hasher, queries, (hasher.transform(searched), labels), ties=ties)[
                    "mAP"
                ]
            return scores

        return Course(X, y, look, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        change, end = change_of(points), points[-1]
        return [(change, "mAP"), (change, "moved mAP"), (end, "mAP"), (end, "train_seconds")]

    def hindsight(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """Rows after the change until mAP is back at 95 % of what it was, along straight lines between looks."""
        change, curve = change_of(points), curves["mAP"]
        wanted = RECOVERED * curve[change]
        path = [(change, curves["moved mAP"][change]), *((n, curve[n]) for n in points if n > change)]
        return {"recovery_rows": crossing(path, wanted) - change}

    def _moves(self, field: Field, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Classes, and what is added to the rows of each, (C, d)."""
        classes, number = np.unique(field.y[rows], return_inverse=True)
        means = np.stack(
            [field.X[rows[number == c]].mean(axis=0, dtype=np.float64) for c in range(len(classes))]
        )
        ring = np.random.default_rng([seed, 1]).permutation(len(classes))
        following = np.empty_like(ring)
        following[ring] = np.roll(ring, -1)
        return classes, (self.strength * (means[following] - means)).astype(field.X.dtype)


def change_of(points: Sequence[int]) -> int:
    """The look after which the classes move: the middle one, the earlier of two."""
    if len(points) < 2:
        raise ValueError("drift needs two looks at least: one before the classes move, and one after")
    return points[(len(points) - 1) // 2]


def crossing(path: Sequence[tuple[int, float]], wanted: float) -> float:
    """Where straight lines between the points first reach `wanted`; NaN where they never do.

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


def _shift(X: np.ndarray, y: np.ndarray, classes: np.ndarray, moves: np.ndarray) -> None:
    """Put the rows of X where their classes stand after the change."""
    for label, move in zip(classes, moves, strict=True):
        rows = np.flatnonzero(y == label)
        shifted = X[rows] + move
        length = np.sqrt(np.einsum("ij,ij->i", shifted, shifted))[:, None]
        X[rows] = np.divide(shifted, length, out=shifted, where=length > 0)
