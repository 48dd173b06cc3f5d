"""Which stream a method is given, and when it is looked at.

A protocol is a generator: it feeds a hasher, stops at each checkpoint, and yields what it saw there. Learning
and judging are timed apart, and the queries are never learned from.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from hashstream.datasets.splits import Split
from hashstream.evaluate.scores import Scores, retrieval, row_name

__all__ = ["PAPER", "Checkpoint", "PaperSetting", "Streamed", "metric_names", "paper"]

AT, RADIUS, K = (1000,), (2,), (1, 5, *range(10, 101, 10))
"""The cut-offs of the paper's figures: mAP@N, precision@HR, precision@K."""

SECONDS = ("train_seconds", "encode_seconds")


class Streamed(Protocol):
    """What a protocol needs of a method; every hasher of this library has it."""

    n_bits: Any

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Learn from the rows of X (n, d) with labels y (n,)."""

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Packed codes, (n, ceil(n_bits / 8)) uint8."""


@dataclass(frozen=True)
class PaperSetting:
    """How the paper's protocol is applied to a data set: queries of each class, rows to learn from, and after
    how many of them each look is taken.

    >>> PAPER["mnist"].checkpoints
    (2000, 4000, 6000, 8000, 10000, 12000, 14000, 16000, 18000, 20000)
    """

    per_class: int
    stream: int
    every: int

    @property
    def checkpoints(self) -> tuple[int, ...]:
        return tuple(range(self.every, self.stream + 1, self.every))


PAPER = MappingProxyType(
    {
        "mnist": PaperSetting(per_class=100, stream=20_000, every=2_000),
        "cifar10": PaperSetting(per_class=100, stream=20_000, every=2_000),
        "tinyimagenet200": PaperSetting(per_class=20, stream=100_000, every=5_000),  # the paper's Places205
        "digits": PaperSetting(per_class=20, stream=1_500, every=100),  # ours: the paper has nothing so small
    }
)
"""The setting for each data set that has one."""


@dataclass(frozen=True)
class Checkpoint:
    """What was seen after `n_train` rows.

    scores: the metrics of `retrieval`, queries against the whole retrieval set.
    train_seconds: time in `partial_fit` so far, the paper's "hash function" time.
    encode_seconds: time to encode the whole retrieval set once with the functions of now: one rebuild of the
        hash table. The paper's "hash table" time is this times the number of rebuilds.
    """

    n_train: int
    scores: Scores
    train_seconds: float
    encode_seconds: float

    def rows(self, **columns: Any) -> list[dict[str, Any]]:
        """Rows of a results file: the given columns, then `n_train`, `metric`, `value`."""
        columns["n_train"] = self.n_train
        seconds = zip(SECONDS, (self.train_seconds, self.encode_seconds), strict=True)
        return self.scores.rows(**columns) + [
            {**columns, "metric": name, "value": value} for name, value in seconds
        ]


def metric_names(ties: str) -> tuple[str, ...]:
    """The metrics that each checkpoint of `paper` has, as they are called in its rows.

    >>> metric_names("paper")[:4]
    ('mAP[paper]', 'mAP@1000[paper]', 'precision@H2[paper]', 'precision@1[paper]')
    """
    names = [
        "mAP",
        *(f"mAP@{n}" for n in AT),
        *(f"precision@H{r}" for r in RADIUS),
        *(f"precision@{k}" for k in K),
    ]
    return (*(row_name(name, ties) for name in names), *SECONDS)


def paper(
    hasher: Streamed,
    X: np.ndarray,
    y: np.ndarray,
    split: Split,
    checkpoints: Sequence[int],
    *,
    ties: str = "paper",
    skip: Collection[int] = (),
    rows_at_once: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Checkpoint]:
    """The paper's protocol: stream `split.stream` through `hasher` once, judge it at each checkpoint.

    X: (n, d) features, y: (n,) labels, of all rows that `split` counts. checkpoints: numbers of learned rows,
    rising; the stream ends at the last. ties: "paper" for figures to hold against the paper's, "aware" for
    ones that do not depend on the order of the database (see `retrieval`).

    skip: checkpoints that nobody needs judged. The hasher is fed in the same pieces all the same, so that a
        continued measurement sees the same model as one in a single go.
    rows_at_once: rows for each call of `partial_fit`. By default the smallest multiple of the hasher's
        `batch_size` that is at least 100: so few that nobody can look ahead in the stream, so many that it is
        not the cost of a call that is timed. At least 1,000 where it has a feature map, which the first call
        warms up.
    progress: called with the number of rows after each call of `partial_fit`.

    >>> from hashstream import LSH, datasets
    >>> digits = datasets.load("digits")
    >>> setting = PAPER["digits"]
    >>> part = datasets.split(digits.y, per_class=setting.per_class, stream=setting.stream, seed=0)
    >>> X = datasets.centred_unit(digits.X)
    >>> for seen in paper(LSH(n_bits=32, random_state=0), X, digits.y, part, [500, 1500]):
    ...     print(seen.n_train, round(seen.scores["mAP"], 1))
    500 0.5
    1500 0.5
    """
    points = [0, *checkpoints]
    if len(points) < 2 or any(b <= a for a, b in itertools.pairwise(points)):
        raise ValueError(f"checkpoints are {list(checkpoints)}: they have to be whole numbers from 1, rising")
    if points[-1] > len(split.stream):
        raise ValueError(
            f"checkpoint {points[-1]} lies behind the end of the stream, {len(split.stream)} rows"
        )
    if rows_at_once is not None and rows_at_once < 1:
        raise ValueError(f"rows_at_once is {rows_at_once}: it has to be 1 or more")
    stream, labels = X[split.stream], y[split.stream]
    queries, database = X[split.queries], X[split.retrieval]
    if rows_at_once is None:
        batch = getattr(hasher, "batch_size", 1)
        batch = (
            batch if isinstance(batch, int) and batch >= 1 else 1
        )  # what is wrong with it, the hasher says
        least = 100 if getattr(hasher, "feature_map", None) is None else 1_000
        rows_at_once = batch * -(-least // batch)
    train_seconds = 0.0
    for start, stop in itertools.pairwise(points):
        for begin in range(start, stop, rows_at_once):
            rows = slice(begin, min(begin + rows_at_once, stop))
            clock = time.perf_counter()
            hasher.partial_fit(stream[rows], labels[rows])
            train_seconds += time.perf_counter() - clock
            if progress is not None:
                progress(rows.stop - begin)
        if stop in skip:
            continue
        clock = time.perf_counter()
        codes = hasher.transform(database)
        encode_seconds = time.perf_counter() - clock
        scores = retrieval(
            hasher.transform(queries),
            y[split.queries],
            codes,
            y[split.retrieval],
            at=AT,
            radius=RADIUS,
            k=K,
            ties=ties,
            n_bits=hasher.n_bits,
        )
        yield Checkpoint(stop, scores, train_seconds, encode_seconds)
