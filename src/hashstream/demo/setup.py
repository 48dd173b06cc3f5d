"""The data of the demo, what both processes do with it, and how the table's answers are measured."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream import datasets
from hashstream.evaluate import average_precision, protocols, retrieval
from hashstream.hashers import FCOH, OnlineHasher, PosteriorHash
from hashstream.table import Every, HashTable

__all__ = ["BATCH", "CHECKPOINTS", "Checkpoint", "Comparison", "Setup"]

QUERIES = 200  # per checkpoint, so that measuring takes less time than learning
BATCH = 100  # images per ingest
CHANGES = 7  # of the hash functions, after which the table is re-encoded
CHECKPOINTS = (100, 200, 300, 500, 700, 1000, 1300, *range(2000, 20_001, 2000))  # numbers of stored images


@dataclass(frozen=True)
class Checkpoint:
    """mAP of the table's answers with `items` images stored, and what it would be with all codes re-encoded."""

    items: int
    stored: float
    fresh: float


@dataclass(frozen=True)
class Comparison:
    """The paper's method on the same stream, without a table. curve : (rows learned from, mAP with all codes
    re-encoded) at each checkpoint. scores : metrics at the end."""

    curve: list[tuple[int, float]]
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Setup:
    """The data as the demo streams it. Both processes derive the same from the name of the data set and the seed."""

    data: datasets.Dataset
    X: np.ndarray
    split: datasets.Split
    n_bits: int
    seed: int

    @classmethod
    def of(cls, data: datasets.Dataset, n_bits: int, seed: int) -> Setup:
        prepared = protocols.PreparedDataset.of(data)
        return cls(data, prepared.X, prepared.split(seed), n_bits, seed)

    @property
    def asked(self) -> np.ndarray:
        """The queries of a checkpoint, as rows of the data; of all classes."""
        queries = self.split.queries
        return queries[:: max(1, len(queries) // QUERIES)]

    def batches(self) -> list[np.ndarray]:
        """The rows of each batch; the id of an item is its row in the data set."""
        stream = self.split.stream
        return [stream[start : start + BATCH] for start in range(0, len(stream), BATCH)]

    def open(self, folder: Path) -> HashTable:
        """Open the table for writing. It is seldom re-encoded, so that some codes are stale most of the time."""
        return HashTable.open(folder, self.hasher(), policy=Every(CHANGES))

    def hasher(self) -> PosteriorHash:
        """The hasher that the table begins with."""
        return PosteriorHash(n_bits=self.n_bits, random_state=self.seed)

    def feed(self, table: HashTable, first: int = 0) -> Iterator[int]:
        """Ingest the stream from its row `first` on; yields the number of stored rows after each batch."""
        for i, rows in enumerate(self.batches()):
            if i * BATCH >= first:
                table.ingest(rows, self.X[rows], self.data.y[rows])
                yield i * BATCH + len(rows)

    def learn_alone(self) -> tuple[PosteriorHash, float, float]:
        """A hasher that has learned the same batches without a table and without a kill, the seconds it took, and
        those of computing its last hash functions."""
        hasher, clock = self.hasher(), time.perf_counter()
        for rows in self.batches():
            hasher.partial_fit(self.X[rows], self.data.y[rows])
        learned = time.perf_counter()
        hasher.encoder()
        return hasher, learned - clock, time.perf_counter() - learned

    def compare(self, points: Iterable[int]) -> Comparison:
        """Let FCOH learn the same batches, and measure it when it has learned each number of rows in `points`."""
        hasher, points, curve, n = FCOH(n_bits=self.n_bits, random_state=self.seed), set(points), [], 0
        for rows in self.batches():
            hasher.partial_fit(self.X[rows], self.data.y[rows])
            n += len(rows)
            if n in points:
                curve.append((n, self.fresh_map(hasher, n)))
        stream, queries = self.split.stream, self.split.queries
        return Comparison(
            curve, self.scores(hasher.transform(self.X[queries]), hasher.transform(self.X[stream]))
        )

    def scores(self, queries: np.ndarray, codes: np.ndarray) -> Mapping[str, float]:
        """Metrics of the codes of all queries against those of the stream."""
        labels = self.data.y[self.split.queries], self.data.y[self.split.stream]
        return retrieval(
            queries, labels[0], codes, labels[1], radius=(2,), k=(10,), n_bits=self.n_bits, ties="paper"
        )

    def checkpoint(self, table: HashTable) -> Checkpoint:
        """Ask the queries of a checkpoint."""
        y, asked, n = self.data.y, self.asked, len(table)
        _, ids = table.search(self.X[asked], n)
        stored = float(np.nan_to_num(average_precision(y[ids] == y[asked][:, None])).mean())
        return Checkpoint(n, stored, self.fresh_map(table.hasher, n))

    def fresh_map(self, hasher: OnlineHasher, n: int) -> float:
        """mAP of a checkpoint's queries against the first n rows of the stream, all encoded by `hasher`."""
        y, asked, rows = self.data.y, self.asked, self.split.stream[:n]
        codes, queries = hasher.transform(self.X[rows]), hasher.transform(self.X[asked])
        return retrieval(queries, y[asked], codes, y[rows], n_bits=self.n_bits, ties="paper")["mAP"]
