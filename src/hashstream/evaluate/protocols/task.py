"""The parts of a protocol: a prepared data set, a task on it, and checkpoints along the stream.

A protocol makes a `Task` (the stream to learn and a function that scores a hasher) from a `PreparedDataset` and a seed;
`run_stream` takes a hasher through it. Learning and scoring are timed separately, and queries are never learned from.
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
from hashstream.evaluate.protocols.settings import Setting, setting_named
from hashstream.evaluate.scores import Scores, Ties, retrieval, row_name

WITHOUT_TIES = ("_seconds", "_rows")
"""Endings of metrics whose value does not depend on the rule for ties."""


class Streamed(Protocol):
    """The methods of a hasher that a protocol uses; every hasher of this library has them."""

    n_bits: Any

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Learn from the rows of X (n, d) with labels y (n,)."""

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Packed codes, (n, ceil(n_bits / 8)) uint8."""


@dataclass(frozen=True)
class PreparedDataset:
    """A data set with its setting: features (n, d) float32 and labels (n,), as experiments use them.

    dataset: its name in results, with the setting in brackets where that is not the usual one.
    fingerprint: distinguishes the data from others of the same name; by default computed from X and y.
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
    def of(
        cls,
        data: datasets.Dataset,
        *,
        queries: int | None = None,
        stream: int | None = None,
        min_class: int | None = None,
    ) -> PreparedDataset:
        """Prepare a data set as in the paper's experiments: centred, rows of unit length.

        queries, stream, min_class: the number of queries, the rows to learn from, and the rows that a class needs to be
        asked for, where they are not to be the usual ones; see `setting_of`.

        ValueError if it has a single class, where every answer is right, or a row without a label, or if the data
        cannot have such a setting.

        >>> digits = PreparedDataset.of(datasets.load("digits"), queries=100, stream=1000)
        >>> digits.dataset
        'digits[queries=100,stream=1000]'
        >>> print(digits.described)
        100 queries, 10 of each of 10 classes; at most 1,000 rows learned; 1,697 rows searched
        """
        if data.y.dtype == object:
            row = next(row for row, label in enumerate(data.y) if label is None)
            raise ValueError(
                f"{data.name}: row {row} has no label, and an experiment needs one for every row"
            )
        if len(data.y) and (data.y == data.y[0]).all():
            raise ValueError(f"{data.name} has one class, {data.y[0]}: there is nothing to tell apart")
        name, setting = setting_named(data.name, data.y, queries=queries, stream=stream, min_class=min_class)
        fingerprint = datasets.fingerprint(data.X, data.y)  # before centring
        return cls(name, datasets.centred_unit(data.X), data.y, setting, fingerprint)

    @property
    def asked(self) -> np.ndarray:
        """The classes that are asked for, in ascending order."""
        classes, sizes = np.unique(self.y, return_counts=True)
        return classes[sizes >= self.setting.min_class]

    @property
    def available(self) -> np.ndarray:
        """(classes,) int64: the rows of each class that are not queries, in ascending order of the classes."""
        sizes = np.unique(self.y, return_counts=True)[1]
        return sizes - self.setting.per_class * (sizes >= self.setting.min_class)

    @property
    def described(self) -> str:
        """The setting in words."""
        per_class, asked = self.setting.per_class, len(self.asked)
        small = len(np.unique(self.y)) - asked
        texts = [
            f"{per_class * asked:,} queries, {per_class:,} of "
            + (f"each of {asked:,} classes" if asked > 1 else "one class"),
            f"at most {self.setting.stream:,} rows learned",
            f"{len(self.y) - per_class * asked:,} rows searched",
        ]
        if small:
            classes = "1 class" if small == 1 else f"{small:,} classes"
            have = "has" if small == 1 else "have"
            texts[0] += f" ({classes} of fewer than {self.setting.min_class:,} rows {have} none)"
        return "; ".join(texts)

    def split(self, seed: int) -> datasets.Split:
        """The queries, retrieval set and stream of run `seed`."""
        chosen = self.setting
        return datasets.split(
            self.y, per_class=chosen.per_class, stream=chosen.stream, min_class=chosen.min_class, seed=seed
        )


def metric_row(name: str, ties: str) -> str:
    """The name of a metric in a results file, with the rule for ties if it depends on one.

    >>> metric_row("unseen mAP", "paper"), metric_row("train_seconds", "paper")
    ('unseen mAP[paper]', 'train_seconds')
    """
    return name if name.endswith(WITHOUT_TIES) else row_name(name, ties)


@dataclass(frozen=True)
class Checkpoint:
    """The scores of a hasher after `n_train` rows.

    scores: by plain names ("mAP", "precision@H2", ...), with two times among them:
        train_seconds: time in `partial_fit` so far, the paper's "hash function" time.
        encode_seconds: time to encode the whole database once with the current hash functions, which is one rebuild
            of the hash table. The paper's "hash table" time is this times the number of rebuilds.
    """

    n_train: int
    scores: Mapping[str, float]
    ties: Ties

    def rows(self, **columns: Any) -> list[dict[str, Any]]:
        """Rows of a results file: the given columns, then `n_train`, `metric`, `value`."""
        columns["n_train"] = self.n_train
        return [
            {**columns, "metric": metric_row(name, self.ties), "value": value}
            for name, value in self.scores.items()
        ]


@dataclass(frozen=True)
class Task:
    """A protocol on a data set, for one seed.

    X, y: the stream, (m, d) and (m,), in the order in which it is learned.
    judge: returns the scores of a hasher after a number of rows. They depend on nothing else, so any checkpoint may be
        skipped: metrics of several checkpoints are in `Protocol.run_metrics`.
    """

    X: np.ndarray
    y: np.ndarray
    judge: Callable[[Streamed, int], dict[str, float]]
    ties: Ties


def score(
    hasher: Streamed,
    queries: tuple[np.ndarray, np.ndarray],
    database: tuple[np.ndarray, np.ndarray],
    *,
    ties: Ties,
    **cutoffs: Sequence[int],
) -> dict[str, float]:
    """`score_codes` for a database (X, y), and the `encode_seconds` of the latter."""
    codes, encode_seconds = encode(hasher, database[0])
    scores = score_codes(hasher, queries, (codes, database[1]), ties=ties, **cutoffs)
    return {**scores, "encode_seconds": encode_seconds}


def encode(hasher: Streamed, X: np.ndarray) -> tuple[np.ndarray, float]:
    """The codes of a database X (n, d), and the seconds that encoding took."""
    clock = time.perf_counter()
    codes = hasher.transform(X)
    return codes, time.perf_counter() - clock


def score_codes(
    hasher: Streamed,
    queries: tuple[np.ndarray, np.ndarray],
    database: tuple[np.ndarray, np.ndarray],
    *,
    ties: Ties,
    at: Sequence[int] = (),
    radius: Sequence[int] = (),
    k: Sequence[int] = (),
) -> Scores:
    """The metrics of `retrieval` for queries (X, y) against a database (codes, y), with those of each query.

    On one thread, since measurements run in parallel, one per core.
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
        per_query=True,
        n_threads=1,
    )


def run_stream(
    hasher: Streamed,
    task: Task,
    points: Sequence[int],
    *,
    cuts: Sequence[int] | None = None,
    rows_at_once: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Checkpoint]:
    """Stream the task through `hasher` once, and score it at each of `points`.

    points: numbers of learned rows, increasing; the stream ends at the last.
    cuts: numbers of learned rows, increasing, at which a call of `partial_fit` always ends; by default `points`. With
        the same cuts the model after n rows does not depend on the points: at a point within a piece, a copy of the
        hasher learns the piece up to there and is scored.
    rows_at_once: rows per call of `partial_fit`. By default the smallest multiple of the hasher's `batch_size` that is
        at least 100: few enough that no method can look ahead in the stream, enough that the overhead of a call does
        not dominate the time. At least 1,000 for a hasher with a feature map, which is fitted in the first call.
    progress: called with the number of rows after each call of `partial_fit`.

    >>> from hashstream import LSH, datasets
    >>> from hashstream.evaluate.protocols import Paper
    >>> task = Paper().task(PreparedDataset.of(datasets.load("digits")), seed=0)
    >>> for checkpoint in run_stream(LSH(n_bits=32, random_state=0), task, [500, 1500]):
    ...     print(checkpoint.n_train, round(checkpoint.scores["mAP"], 1))
    500 0.5
    1500 0.5
    """
    cuts = points if cuts is None else cuts
    for what, numbers in (("checkpoints", points), ("cuts", cuts)):
        if not len(numbers) or any(b <= a for a, b in itertools.pairwise([0, *numbers])):
            raise ValueError(f"{what} are {list(numbers)}: they have to be integers from 1, increasing")
    if points[-1] > len(task.X):
        raise ValueError(f"checkpoint {points[-1]} is past the end of the stream ({len(task.X):,} rows)")
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
            spent = _learn(aside, task, begin, n)
            if not waiting:
                tell(n - begin)
            yield Checkpoint(n, {**task.judge(aside, n), "train_seconds": train_seconds + spent}, task.ties)
        if not waiting:
            return
        train_seconds += _learn(hasher, task, begin, end)
        tell(end - begin)
        if waiting[0] == end:
            waiting.popleft()
            yield Checkpoint(end, {**task.judge(hasher, end), "train_seconds": train_seconds}, task.ties)


def _pieces(cuts: Sequence[int], rows_at_once: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each piece of an endless stream.

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


def _learn(hasher: Streamed, task: Task, begin: int, end: int) -> float:
    """Learn from rows `begin` to `end`, and return the seconds that it took."""
    X, y = task.X[begin:end], task.y[begin:end]
    clock = time.perf_counter()
    hasher.partial_fit(X, y)
    return time.perf_counter() - clock


def _rows_at_once(hasher: Streamed) -> int:
    batch = getattr(hasher, "batch_size", 1)
    if not isinstance(batch, int) or batch < 1:
        batch = 1  # the hasher will refuse it
    least = 100 if getattr(hasher, "feature_map", None) is None else 1_000
    return batch * -(-least // batch)
