"""Classes that arrive in turn: is what was learned first forgotten?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.protocol import Curves, Protocol
from hashstream.evaluate.protocols.task import PreparedDataset, Streamed, Task, encode, score_codes
from hashstream.evaluate.scores import Ties


@dataclass(frozen=True)
class ClassIncremental(Protocol):
    """The stream is cut into stages, each of which has new classes only, in an order that depends on the seed.

    There are as many stages as the setting has checkpoints, but no more than classes; every class has the same number
    of rows, and each stage ends with a checkpoint. "mAP" is of queries of all classes so far, against the rows of the
    database with such a class; "new mAP" of queries of the last stage; "old mAP" (from the second stage on) of the
    stages before it. "stage 1 mAP", ... are of queries of one stage against the whole database: the same question at
    each checkpoint, from which forgetting is computed. Classes that are not asked for (`Setting.min_class`) are in no
    stage, and only in the whole database.
    """

    kind = "class-incremental"
    question = "Classes arrive in turn: is what was learned first forgotten?"

    def metrics(self) -> tuple[str, ...]:
        return ("mAP", "new mAP", "stage 1 mAP", "encode_seconds", "train_seconds")

    def points(self, data: PreparedDataset) -> tuple[int, ...]:
        """The end of each stage.

        >>> from hashstream import datasets
        >>> ClassIncremental().points(PreparedDataset.of(datasets.load("digits")))[:3]
        (150, 300, 450)
        """
        rows, stages = self._stages(data, data.asked)
        return tuple(rows * int(n) for n in np.cumsum([len(stage) for stage in stages]))

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        split, classes = data.split(seed), np.unique(data.y)
        rows, stages = self._stages(data, np.random.default_rng([seed, 1]).permutation(data.asked))
        arrival = np.full(len(classes), len(stages))  # the stage of each class
        for i, stage in enumerate(stages):
            arrival[np.searchsorted(classes, stage)] = i
        X, y = data.X[split.retrieval], data.y[split.retrieval]
        queries = data.X[split.queries], data.y[split.queries]
        searched, asked = (arrival[np.searchsorted(classes, labels)] for labels in (y, queries[1]))
        taken = np.sort(np.concatenate([np.flatnonzero(y == label)[:rows] for label in data.asked]))
        stream = split.retrieval[taken[np.argsort(searched[taken], kind="stable")]]
        ends = self.points(data)

        def scores_at(hasher: Streamed, n_train: int) -> dict[str, float]:
            now = int(np.searchsorted(ends, n_train, side="right")) - 1
            if now < 0:
                raise ValueError(
                    f"the first stage ends after {ends[0]} rows: there is nothing to score before"
                )
            codes, seconds = encode(hasher, X)
            come = asked <= now
            mine = queries[0][come], queries[1][come]
            here = searched <= now
            ap = score_codes(hasher, mine, (codes[here], y[here]), ties=ties).per_query["AP"]
            whole = score_codes(hasher, mine, (codes, y), ties=ties).per_query["AP"]
            stage = asked[come]
            old = {"old mAP": float(ap[stage < now].mean())} if now else {}
            return {
                "mAP": float(ap.mean()),
                **old,
                "new mAP": float(ap[stage == now].mean()),
                **{f"stage {i + 1} mAP": float(whole[stage == i].mean()) for i in range(now + 1)},
                "encode_seconds": seconds,
            }

        return Task(data.X[stream], data.y[stream], scores_at, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        return [(points[-1], metric) for metric in ("mAP", "old mAP", "new mAP", "train_seconds")]

    def run_metrics(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """Forgetting: the drop of each stage's mAP from its best to the end of the stream, on average.

        Over all stages but the last, as Chaudhry et al. (ECCV 2018) define it. Negative where codes got better.
        """
        *before, end = points
        if not before:
            return {}
        stages = [f"stage {i + 1} mAP" for i in range(len(before))]
        lost = [max(curves[s][n] for n in before if n in curves[s]) - curves[s][end] for s in stages]
        return {"forgetting": float(np.mean(lost))}

    def _stages(self, data: PreparedDataset, order: np.ndarray) -> tuple[int, list[np.ndarray]]:
        """Rows per class, and the classes of each stage."""
        smallest = int(data.available[np.isin(np.unique(data.y), order)].min())
        rows = min(data.setting.stream // len(order), smallest)
        if rows < 1:
            raise ValueError(
                f"{self.kind}: a stream of {data.setting.stream} rows is too short for {len(order)} classes"
            )
        return rows, np.array_split(order, min(len(data.setting.checkpoints), len(order)))
