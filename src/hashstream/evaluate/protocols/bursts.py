"""Bursts: many classes, most of them rare, and rows that arrive topic after topic. Are all classes learned?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hashstream.evaluate.protocols.protocol import Protocol
from hashstream.evaluate.protocols.task import PreparedDataset, Streamed, Task, score
from hashstream.evaluate.scores import Ties

AT, RADIUS, K = (1000,), (2,), (10,)
EXPONENT, LEAST, VISITS = 0.7, 5, 2


@dataclass(frozen=True)
class Bursts(Protocol):
    """Class sizes fall as rank^-0.7, and the stream visits topics (groups of classes) one after the other, twice.

    The seed draws the rank and the topic of each class. The largest class has as many rows as make the stream as long
    as in the setting, but no more than a class of median size has; no class has fewer than 5 rows or more than there
    are. (Every seed has a stream of the same length: where classes differ in what they have, the largest give rows.)
    The rows are shuffled and cut in two halves, the visits. Each visit is sorted by topic, in the same order of
    topics, and shuffled within a topic. There are at most half as many topics as classes. With one topic the same rows
    come shuffled: the stationary stream to compare with.

    Queries are those of the setting, equally many of each class that is asked for. The database has the long tail, too:
    of each class the rows of the stream and, in the same proportion for all, as many more as the class with the fewest
    left allows. It is the same for every number of topics.
    """

    kind = "bursts"
    question = "Most classes are rare, and rows arrive topic after topic: are all classes learned?"
    number = "the number of topics"
    free_points = True

    topics: float = 10

    def __post_init__(self) -> None:
        if self.topics < 1 or not float(self.topics).is_integer():
            raise ValueError(
                f"{self.kind}: the number of topics has to be a whole number from 1, not {self.topics:g}"
            )

    def metrics(self) -> tuple[str, ...]:
        return ("mAP", "mAP@1000", "precision@H2", "precision@10", "encode_seconds", "train_seconds")

    def points(self, data: PreparedDataset) -> tuple[int, ...]:
        """The end of each visit.

        >>> from hashstream import datasets
        >>> Bursts().points(PreparedDataset.of(datasets.load("digits")))
        (315, 630)
        """
        available = data.available
        # The largest size is that of the smallest class: no order of the classes has fewer rows.
        rows = int(np.minimum(tail(available, data.setting.stream), np.sort(available)).sum())
        return tuple(rows * visit // VISITS for visit in range(1, VISITS + 1))

    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        split, rng, ends = data.split(seed), np.random.default_rng([seed, 1]), self.points(data)
        classes, of_row = np.unique(data.y[split.retrieval], return_inverse=True)
        available = np.bincount(of_row)
        sizes = np.empty_like(available)
        sizes[rng.permutation(len(classes))] = tail(available, data.setting.stream)
        sizes = np.minimum(sizes, available)
        for _ in range(int(sizes.sum()) - ends[-1]):  # as many rows for every seed
            sizes[sizes.argmax()] -= 1
        searched = np.floor(sizes * (available / sizes).min() + 1e-9)

        place = np.empty(len(of_row), np.int64)  # of each row among those of its class
        place[np.argsort(of_row, kind="stable")] = np.concatenate([np.arange(n) for n in available])
        # The first rows of a class stand early in the retrieval set, those of a rare class the more so: shuffle.
        stream = rng.permutation(np.flatnonzero(place < sizes[of_row]))
        database = split.retrieval[rng.permutation(np.flatnonzero(place < searched[of_row]))]

        topics = int(max(1, min(self.topics, len(classes) // 2)))
        topic = np.empty(len(classes), np.int64)
        for i, group in enumerate(np.array_split(rng.permutation(len(classes)), topics)):
            topic[group] = i
        visits = np.split(stream, ends[:-1])
        stream = np.concatenate([rows[np.argsort(topic[of_row[rows]], kind="stable")] for rows in visits])
        stream = split.retrieval[stream]

        def scores_at(hasher: Streamed, n_train: int) -> dict[str, float]:
            queries, against = ((data.X[rows], data.y[rows]) for rows in (split.queries, database))
            return score(hasher, queries, against, ties=ties, at=AT, radius=RADIUS, k=K)

        return Task(data.X[stream], data.y[stream], scores_at, ties)

    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        first = [(points[0], "mAP")] * (len(points) > 1)
        shown = ("mAP", "mAP@1000", "precision@10", "precision@H2", "train_seconds")
        return [*first, *((points[-1], metric) for metric in shown)]


def tail(available: np.ndarray, stream: int) -> np.ndarray:
    """Class sizes by rank for a stream of at most about `stream` rows; available: the rows that each class has.

    >>> tail(np.full(10, 150), stream=1500)
    array([150,  92,  70,  57,  49,  43,  38,  35,  32,  30])
    >>> tail(np.full(10, 150), stream=100)
    array([25, 16, 12, 10,  8,  7,  6,  6,  5,  5])
    """
    falling = np.arange(1, len(available) + 1) ** -EXPONENT
    largest = min(stream / falling.sum(), float(np.median(available)))
    sizes: np.ndarray = np.maximum(np.round(largest * falling), LEAST).astype(np.int64)
    return sizes
