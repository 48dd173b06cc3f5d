"""What protocols are made of: a stream to learn, moments to look, and a way to judge.

A protocol lays a `Course` over a `PreparedDataset` (a data set and its setting) by a seed; `run_stream` takes a hasher
through it.
Learning and judging are timed apart, and what is asked is never learned from.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hashstream import datasets
from hashstream.evaluate.protocols.settings import Setting, setting_of
from hashstream.evaluate.scores import Scores, retrieval, row_name

__all__ = [
    "Checkpoint",
    "Course",
    "PreparedDataset",
    "Streamed",
    "ask",
    "encode",
    "judge",
    "metric_row",
    "run_stream",
]

UNRULED = ("_seconds", "_rows")
"""How metrics end whose value does not depend on the rule for ties."""


class Streamed(Protocol):
    """What a protocol needs of a method; every hasher of this library has it."""

    n_bits: Any

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Learn from the rows of X (n, d) with labels y (n,)."""

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Packed codes, (n, ceil(n_bits / 8)) uint8."""


@dataclass(frozen=True)
class PreparedDataset:
    """Where methods are compared: features (n, d) float32 and labels (n,) of a data set, and its setting.

    fingerprint: what tells the data from others of the same name; of X and y, where it is not given.
    """

    dataset: str
    X: np.ndarray
    y: np.ndarray
    setting: Setting
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", datasets.fingerprint(self.X, self.y))

    @classmethod
    def of(cls, data: datasets.Dataset) -> PreparedDataset:
        """The data set as the paper's experiments see it: centred, unit length.

        ValueError where it has one class, for every answer is right then; or rows without a label, which nobody can
        judge.
        """
        if data.y.dtype == object:
            row = next(row for row, label in enumerate(data.y) if label is None)
            raise ValueError(
                f"{data.name}: row {row} has no label, and an experiment needs one for every row"
            )
        if len(data.y) and (data.y == data.y[0]).all():
            raise ValueError(f"{data.name} has one class, {data.y[0]}: there is nothing to tell apart")
        X, mark = (
            datasets.centred_unit(data.X),
            datasets.fingerprint(data.X, data.y),
        )  # of the data as they came
        return cls(data.name, X, data.y, setting_of(data.name, data.y), mark)

    def split(self, seed: int) -> datasets.Split:
        """Queries, retrieval set and stream of run `seed`, as the setting says."""
        return datasets.split(self.y, per_class=self.setting.per_class, stream=self.setting.stream, seed=seed)


def metric_row(name: str, ties: str) -> str:
    """How a metric is called in a results file: with the rule for ties, where it depends on one.

    >>> metric_row("unseen mAP", "paper"), metric_row("train_seconds", "paper")
    ('unseen mAP[paper]', 'train_seconds')
    """
    return name if name.endswith(UNRULED) else row_name(name, ties)


@dataclass(frozen=True)
class Checkpoint:
    """What was seen after `n_train` rows.

    scores: by plain names ("mAP", "precision@H2", ...), with two times among them:
        train_seconds: time in `partial_fit` so far, the paper's "hash function" time.
        encode_seconds: time to encode the whole database once with the functions of now: one rebuild of the
            hash table. The paper's "hash table" time is this times the number of rebuilds.
    """

    n_train: int
    scores: Mapping[str, float]
    ties: str

    def rows(self, **columns: Any) -> list[dict[str, Any]]:
        """Rows of a results file: the given columns, then `n_train`, `metric`, `value`."""
        columns["n_train"] = self.n_train
        return [
            {**columns, "metric": metric_row(name, self.ties), "value": value}
            for name, value in self.scores.items()
        ]


@dataclass(frozen=True)
class Course:
    """A protocol on a field, for one seed.

    X, y: the stream, (m, d) and (m,), in the order in which it is learned.
    judge: given the hasher and the number of rows that it has learned, the scores of that moment. They depend on
        nothing else, so any look may be left out: what only several looks can tell is `Protocol.hindsight`'s.
    """

    X: np.ndarray
    y: np.ndarray
    judge: Callable[[Streamed, int], dict[str, float]]
    ties: str


def judge(
    hasher: Streamed,
    queries: tuple[np.ndarray, np.ndarray],
    database: tuple[np.ndarray, np.ndarray],
    *,
    ties: str,
    at: Sequence[int] = (),
    radius: Sequence[int] = (),
    k: Sequence[int] = (),
) -> dict[str, float]:
    """The metrics of `retrieval` for queries (X, y) against a database (X, y), and `encode_seconds` of the latter."""
    codes, encode_seconds = encode(hasher, database[0])
    scores = ask(hasher, queries, (codes, database[1]), ties=ties, at=at, radius=radius, k=k)
    return {**scores, "encode_seconds": encode_seconds}


def encode(hasher: Streamed, X: np.ndarray) -> tuple[np.ndarray, float]:
    """The codes of a database X (n, d), and how many seconds it took to make them."""
    clock = time.perf_counter()
    codes = hasher.transform(X)
    return codes, time.perf_counter() - clock


def ask(
    hasher: Streamed,
    queries: tuple[np.ndarray, np.ndarray],
    database: tuple[np.ndarray, np.ndarray],
    *,
    ties: str,
    at: Sequence[int] = (),
    radius: Sequence[int] = (),
    k: Sequence[int] = (),
    per_query: bool = False,
) -> Scores:
    """The metrics of `retrieval` for queries (X, y) against a database (codes, y).

    On one thread, as all that a protocol does: measurements run side by side, one on each core.
    """
    return retrieval(
        hasher.transform(queries[0]),
        queries[1],
        *database,
        at=at,
        radius=radius,
        k=k,
        ties=ties,
        n_bits=hasher.n_bits,
        per_query=per_query,
        n_threads=1,
    )


def run_stream(
    hasher: Streamed,
    course: Course,
    points: Sequence[int],
    *,
    cuts: Sequence[int] | None = None,
    rows_at_once: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Checkpoint]:
    """Stream the course through `hasher` once, and judge it at each of `points`.

    points: numbers of learned rows, rising; the stream ends at the last.
    cuts: numbers of learned rows, rising, at which a call of `partial_fit` ends in any case; `points`, if not given.
        With the same cuts the model after n rows is the same whatever the points are: a point within a piece is
        judged by a copy of the hasher, which learns the piece up to there.
    rows_at_once: rows for each call of `partial_fit`. By default the smallest multiple of the hasher's
        `batch_size` that is at least 100: so few that nobody can look ahead in the stream, so many that it is
        not the cost of a call that is timed. At least 1,000 where it has a feature map, which the first call
        warms up.
    progress: called with the number of rows after each call of `partial_fit`.

    >>> from hashstream import LSH, datasets
    >>> from hashstream.evaluate.protocols import Paper
    >>> course = Paper().course(PreparedDataset.of(datasets.load("digits")), seed=0)
    >>> for look in run_stream(LSH(n_bits=32, random_state=0), course, [500, 1500]):
    ...     print(look.n_train, round(look.scores["mAP"], 1))
    500 0.5
    1500 0.5
    """
    cuts = points if cuts is None else cuts
    for what, numbers in (("checkpoints", points), ("cuts", cuts)):
        if not len(numbers) or any(b <= a for a, b in itertools.pairwise([0, *numbers])):
            raise ValueError(f"{what} are {list(numbers)}: they have to be whole numbers from 1, rising")
    if points[-1] > len(course.X):
        raise ValueError(f"checkpoint {points[-1]} lies behind the end of the stream, {len(course.X)} rows")
    if rows_at_once is None:
        rows_at_once = _rows_at_once(hasher)
    elif rows_at_once < 1:
        raise ValueError(f"rows_at_once is {rows_at_once}: it has to be 1 or more")
    tell = progress or (lambda rows: None)
    train_seconds, waiting = 0.0, deque(points)
    for begin, end in _pieces(cuts, rows_at_once):
        while waiting and waiting[0] < end:
            n = waiting.popleft()
            aside = copy.deepcopy(hasher) if waiting else hasher
            spent = _learn(aside, course, begin, n)
            if not waiting:
                tell(n - begin)
            yield Checkpoint(
                n, {**course.judge(aside, n), "train_seconds": train_seconds + spent}, course.ties
            )
        if not waiting:
            return
        train_seconds += _learn(hasher, course, begin, end)
        tell(end - begin)
        if waiting[0] == end:
            waiting.popleft()
            yield Checkpoint(end, {**course.judge(hasher, end), "train_seconds": train_seconds}, course.ties)


def _pieces(cuts: Sequence[int], rows_at_once: int) -> Iterator[tuple[int, int]]:
    """Where pieces of the stream begin and end, without an end of their own.

    >>> list(itertools.islice(_pieces([5, 8], 4), 5))
    [(0, 4), (4, 5), (5, 8), (8, 12), (12, 16)]
    """
    start = 0
    for stop in cuts:
        for begin in range(start, stop, rows_at_once):
            yield begin, min(begin + rows_at_once, stop)
        start = stop
    for begin in itertools.count(start, rows_at_once):
        yield begin, begin + rows_at_once


def _learn(hasher: Streamed, course: Course, begin: int, end: int) -> float:
    """Learn from rows `begin` to `end`, and say how many seconds that took."""
    X, y = course.X[begin:end], course.y[begin:end]
    clock = time.perf_counter()
    hasher.partial_fit(X, y)
    return time.perf_counter() - clock


def _rows_at_once(hasher: Streamed) -> int:
    batch = getattr(hasher, "batch_size", 1)
    if not isinstance(batch, int) or batch < 1:
        batch = 1  # what is wrong with it, the hasher says
    least = 100 if getattr(hasher, "feature_map", None) is None else 1_000
    return batch * -(-least // batch)
