"""The data of the demo, what both processes do with it, and how the table's answers are measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashstream import datasets
from hashstream.evaluate import average_precision, protocols, retrieval
from hashstream.hashers import FCOH
from hashstream.table import Every, HashTable

__all__ = ["BATCH", "CHECKPOINTS", "Checkpoint", "Setup"]

QUERIES = 200  # per checkpoint, so that measuring takes less time than learning
BATCH = 100  # images per ingest
CHECKPOINTS = (100, 200, 300, 500, 700, 1000, 1300, *range(2000, 20_001, 1000))  # numbers of stored images


@dataclass(frozen=True)
class Checkpoint:
    """mAP of the table's answers with `items` images stored, and what it would be with all codes re-encoded."""

    items: int
    stored: float
    fresh: float


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
        """Open the table for writing. It is re-encoded only twice, so that some codes are stale most of the time."""
        policy = Every(max(1, 2 * len(self.batches()) // 5))
        return HashTable.open(folder, FCOH(n_bits=self.n_bits, random_state=self.seed), policy=policy)

    def feed(self, table: HashTable, first: int = 0) -> Iterator[int]:
        """Ingest the stream from its row `first` on; yields the number of stored rows after each batch."""
        for i, rows in enumerate(self.batches()):
            if i * BATCH >= first:
                table.ingest(rows, self.X[rows], self.data.y[rows])
                yield i * BATCH + len(rows)

    def learn_alone(self) -> tuple[FCOH, float]:
        """A hasher that has learned the same batches without a table and without a kill, and the seconds it took."""
        hasher, clock = FCOH(n_bits=self.n_bits, random_state=self.seed), time.perf_counter()
        for rows in self.batches():
            hasher.partial_fit(self.X[rows], self.data.y[rows])
        return hasher, time.perf_counter() - clock

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
        hasher, rows = table.hasher, self.split.stream[:n]
        codes, queries = hasher.transform(self.X[rows]), hasher.transform(self.X[asked])
        scores = retrieval(queries, y[asked], codes, y[rows], n_bits=self.n_bits, ties="paper")
        return Checkpoint(n, stored, scores["mAP"])
