"""The demo's data, what is done with it in both processes, and how the table is judged."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from hashstream import datasets
from hashstream.evaluate import average_precision, protocols, retrieval
from hashstream.hashers import FCOH
from hashstream.table import Every, HashTable

__all__ = ["BATCH", "LOOKS", "Watch", "World", "bar"]

ASKED = 200  # queries at each look, so that looking takes less time than learning
BATCH = 100  # images in one ingest
LOOKS = (100, 200, 300, 500, 700, 1000, 1300, *range(2000, 20_001, 1000))  # rows stored, at which to look


@dataclass(frozen=True)
class World:
    """The data as the demo streams it. Both processes make the same one from the same name and seed."""

    data: datasets.Dataset
    X: np.ndarray
    split: datasets.Split
    n_bits: int
    seed: int

    @classmethod
    def of(cls, data: datasets.Dataset, n_bits: int, seed: int) -> World:
        field = protocols.PreparedDataset.of(data)
        return cls(data, field.X, field.split(seed), n_bits, seed)

    @property
    def asked(self) -> np.ndarray:
        """Rows of the queries for a look, of all classes."""
        queries = self.split.queries
        return queries[:: max(1, len(queries) // ASKED)]

    def batches(self) -> list[np.ndarray]:
        """The rows of each batch; an item's id is its row in the data set."""
        stream = self.split.stream
        return [stream[start : start + BATCH] for start in range(0, len(stream), BATCH)]

    def open(self, folder: Path) -> HashTable:
        """The table for writing. Codes are made anew twice on the way, so that some are stale whenever one looks."""
        policy = Every(max(1, 2 * len(self.batches()) // 5))
        return HashTable.open(folder, FCOH(n_bits=self.n_bits, random_state=self.seed), policy=policy)

    def feed(self, table: HashTable, first: int = 0) -> Iterator[int]:
        """Ingest the stream from its row `first` on; gives how many rows are stored after each batch."""
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


class Watch:
    """Looks at a table: mAP of its answers, and had all codes been made anew. A line for each."""

    def __init__(self, world: World, console: Console) -> None:
        self._world, self._console = world, console
        self.stored: list[tuple[int, float]] = []
        self.fresh: list[tuple[int, float]] = []

    def look(self, table: HashTable, *, silent: bool = False) -> None:
        y, asked, n = self._world.data.y, self._world.asked, len(table)
        ids, _ = table.search(self._world.X[asked], n)
        value = float(np.nan_to_num(average_precision(y[ids] == y[asked][:, None])).mean())
        hasher, rows = table.hasher, self._world.split.stream[:n]
        codes, queries = hasher.transform(self._world.X[rows]), hasher.transform(self._world.X[asked])
        best = retrieval(queries, y[asked], codes, y[rows], n_bits=self._world.n_bits, ties="paper")["mAP"]
        self.stored.append((n, value))
        self.fresh.append((n, best))
        if not silent:
            line = f"{f'{n:,} images stored':>22}   mAP {value:.3f}  [blue]{bar(value):<24}[/]  {best:.3f} made anew"
            self._console.print(line, highlight=False)

    def follow(self, table: HashTable, stored: Iterable[int]) -> None:
        """Look whenever one of LOOKS is reached, and at the end."""
        last = seen = len(table)
        for last in stored:
            if any(seen < point <= last for point in LOOKS):
                self.look(table)
                seen = last
        if last > seen:
            self.look(table)


def bar(share: float, width: int = 24) -> str:
    """A bar for a number from 0 to 1, in eighths of a character.

    >>> bar(0.5, 4), bar(0.3, 4)
    ('██', '█▎')
    """
    whole, eighths = divmod(round(share * width * 8), 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip()
