"""Searches in a table while an ingest solves, compared with searches while ingests only learn, and with no ingest.

A table in memory that never refreshes, PosteriorHash with 32 bits, batches of 100 rows. One thread ingests, another
searches, one query at a time, top-10. A search belongs to an ingest that solves where the two overlap at any time. An
ingest that solves takes a hundred times as long as one that does not, so there are more searches during them, and the
longest of these is the longest of more.
"""

from __future__ import annotations

import threading
import time

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio, console, duration, show
from hashstream.evaluate.protocols import PreparedDataset
from hashstream.table import HashTable, Never

BITS, BATCH, FIRST = 32, 100, 1_000


class Searcher(threading.Thread):
    """Searches until it is told to stop, and keeps the begin and the end of each search."""

    def __init__(self, table: HashTable, Q: np.ndarray) -> None:
        super().__init__()
        self.table, self.Q = table, Q
        self.times: list[tuple[float, float]] = []
        self.enough = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                query = self.Q[len(self.times) % len(self.Q)][None]
                begin = time.perf_counter()
                self.table.search(query, 10)
                self.times.append((begin, time.perf_counter()))
        except BaseException as error:
            self.failed = error


def search(data: PreparedDataset, quick: bool) -> bool:
    """Print how long searches took; True where none took as long as half an ingest that solves."""
    split = data.split(0)
    rows = split.stream[: 3_000 if quick else 20_000]
    with HashTable.open(
        None, hs.PosteriorHash(BITS, random_state=0), policy=Never(), max_versions=1000
    ) as table:
        for start in range(0, FIRST, BATCH):
            ingest(table, data, rows[start : start + BATCH])
        searcher = Searcher(table, data.X[split.queries])
        searcher.start()
        try:
            began = time.perf_counter()
            time.sleep(0.5 if quick else 3.0)
            phases = {"alone": [(began, time.perf_counter())], "learning": [], "solving": []}
            for start in range(FIRST, len(rows), BATCH):
                begin, version = time.perf_counter(), table.hasher.version_
                ingest(table, data, rows[start : start + BATCH])
                kind = "learning" if table.hasher.version_ == version else "solving"
                phases[kind].append((begin, time.perf_counter()))
        finally:
            searcher.enough.set()
            searcher.join()
    if searcher.failed is not None:
        raise searcher.failed
    taken = by_phase(searcher.times, phases)
    counts = ", ".join(f"{len(some):,} {kind}" for kind, some in taken.items())
    solve = float(np.median([end - begin for begin, end in phases["solving"]]))
    console.print(
        f"Searches: {counts}; {len(phases['solving'])} ingests solve, in {duration(solve)} (median), "
        f"{len(phases['learning'])} do not"
    )
    ratios = []
    for percent, name in ((50, "median"), (99, "percentile 99"), (100, "longest")):
        times = {kind: float(np.percentile(some, percent)) for kind, some in taken.items()}
        top = "solving", times["solving"]
        ratios += [Ratio(f"a search, {name}", top, (kind, times[kind])) for kind in ("learning", "alone")]
    longest = "search", float(max(taken["solving"]))
    ratios.append(
        Ratio("the longest search, and an ingest that solves", longest, ("ingest", solve), at_most=0.5)
    )
    return show(f"Searches during ingests, {BITS} bits", ratios)


def ingest(table: HashTable, data: PreparedDataset, rows: np.ndarray) -> None:
    table.ingest(rows, data.X[rows], data.y[rows])


def by_phase(
    searches: list[tuple[float, float]], phases: dict[str, list[tuple[float, float]]]
) -> dict[str, np.ndarray]:
    """Seconds of the searches that overlap a phase of each kind; those that overlap several kinds count for the last.

    Phases of one kind do not overlap one another, and come in order.
    """
    begin, end = np.array(searches).T
    kinds = np.full(len(begin), -1)
    for number, times in enumerate(phases.values()):
        starts, ends = np.array(times).T
        last = np.searchsorted(starts, end) - 1  # the last phase that began before the search ended
        kinds[(last >= 0) & (ends[last] > begin)] = number
    return {kind: (end - begin)[kinds == number] for number, kind in enumerate(phases)}
