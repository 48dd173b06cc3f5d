"""Classes that arrive in turn: is what was learned first forgotten?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.course import Course, PreparedDataset, Streamed, ask, encode
from hashstream.evaluate.protocols.protocol import Curves, Protocol

__all__ = ["ClassIncremental"]


@dataclass(frozen=True)
class ClassIncremental(Protocol):
    """The stream is cut into stages, each of which brings new classes (in an order by the seed) and no others.

    There are as many stages as the setting has looks, but no more than classes; every class brings the same number of
    rows, and each stage ends with a look. "mAP" asks queries of all classes that have arrived against those rows of
    the database whose class has arrived, "new mAP" those of the last stage, "old mAP" (from the second stage on) those
    of the stages before it. "stage 1 mAP", ... are those of one stage against the whole database: the same question at
    each look, which forgetting is computed from.
    """

    kind = "class-incremental"
    question = "Classes arrive in turn: is what was learned first forgotten?"

    def metrics(self) -> tuple[str, ...]:
        return ("mAP", "new mAP", "stage 1 mAP", "encode_seconds", "train_seconds")

    def points(self, field: PreparedDataset) -> tuple[int, ...]:
        """Where each stage ends.

        >>> from hashstream import datasets
        >>> ClassIncremental().points(PreparedDataset.of(datasets.load("digits")))[:3]
        (150, 300, 450)
        """
        rows, stages = self._stages(field, np.unique(field.y))
        return tuple(rows * int(n) for n in np.cumsum([len(stage) for stage in stages]))

    def course(self, field: PreparedDataset, seed: int, *, ties: str = "paper") -> Course:
        split, classes = field.split(seed), np.unique(field.y)
        rows, stages = self._stages(field, np.random.default_rng([seed, 1]).permutation(classes))
        arrival = np.empty(len(classes), np.int64)  # the stage of each class
        for i, stage in enumerate(stages):
            arrival[np.searchsorted(classes, stage)] = i
        X, y = field.X[split.retrieval], field.y[split.retrieval]
        queries = field.X[split.queries], field.y[split.queries]
        searched, asked = (arrival[np.searchsorted(classes, labels)] for labels in (y, queries[1]))
        taken = np.sort(np.concatenate([np.flatnonzero(y == label)[:rows] for label in classes]))
        stream = split.retrieval[taken[np.argsort(searched[taken], kind="stable")]]
        ends = self.points(field)

        def look(hasher: Streamed, n_train: int) -> dict[str, float]:
            now = int(np.searchsorted(ends, n_train, side="right")) - 1
            if now < 0:
                raise ValueError(
                    f"the first stage ends after {ends[0]} rows: there is nothing to judge before"
                )
            codes, seconds = encode(hasher, X)
            come = asked <= now
            mine = queries[0][come], queries[1][come]
            here = searched <= now
            ap = ask(hasher, mine, (codes[here], y[here]), ties=ties, per_query=True).per_query["AP"]
            whole = ask(hasher, mine, (codes, y), ties=ties, per_query=True).per_query["AP"]
            stage = asked[come]
            old = {"old mAP": float(ap[stage < now].mean())} if now else {}
            return {
                "mAP": float(ap.mean()),
                **old,
                "new mAP": float(ap[stage == now].mean()),
                **{f"stage {i + 1} mAP": float(whole[stage == i].mean()) for i in range(now + 1)},
                "encode_seconds": seconds,
            }

        return Course(field.X[stream], field.y[stream], look, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        return [(points[-1], metric) for metric in ("mAP", "old mAP", "new mAP", "train_seconds")]

    def hindsight(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """Forgetting: how much each stage's mAP has fallen from its best to the end of the stream, on average.

        Over all stages but the last, as Chaudhry et al. (ECCV 2018) define it. Negative where codes got better.
        """
        *before, end = points
        if not before:
            return {}
        stages = [f"stage {i + 1} mAP" for i in range(len(before))]
        lost = [max(curves[s][n] for n in before if n in curves[s]) - curves[s][end] for s in stages]
        return {"forgetting": float(np.mean(lost))}

    def _stages(self, field: PreparedDataset, order: np.ndarray) -> tuple[int, list[np.ndarray]]:
        """Rows that each class brings, and the classes of each stage."""
        smallest = int(np.unique(field.y, return_counts=True)[1].min()) - field.setting.per_class
        rows = min(field.setting.stream // len(order), smallest)
        if rows < 1:
            raise ValueError(
                f"{self.kind}: a stream of {field.setting.stream} rows has none for each of {len(order)} classes"
            )
        return rows, np.array_split(order, min(len(field.setting.checkpoints), len(order)))
