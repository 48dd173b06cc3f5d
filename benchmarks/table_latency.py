"""Latency of a search while another thread ingests and refreshes, compared with the same searches alone.

One query at a time, top-10, from one thread; the other thread ingests batches of 100 rows, durably, as fast as it can,
and refreshes all items after every 20. The two share Python's global lock: a search holds it for some tens of
microseconds and waits for it when the other thread has it, which is why the table works in pieces that let go of it
(kernels, products, writes and syncs all do). They also share the cores, with everything else that runs on the machine.
A third kind of phase shows that share of the wait: searches while a thread only multiplies matrices, without the lock.
Phases take turns; each percentile is the median of the phases of its kind. On a machine that is busy already the
figures say more about its scheduler than about the table.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.harness import Ratio, console
from benchmarks.table_stream import clustered, filled
from hashstream.table import HashTable

D, BITS = 128, 64
BATCH, REFRESH_EVERY = 100, 20


class Writer(threading.Thread):
    """Ingests and refreshes until it is told to stop."""

    def __init__(self, table: HashTable, first: int) -> None:
        super().__init__()
        self.table, self.first = table, first
        self.batches = self.refreshed = 0
        self.enough = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        rng = np.random.default_rng(self.first)
        try:
            while not self.enough.is_set():
                ids = np.arange(self.first, self.first + BATCH)
                self.table.ingest(ids, *clustered(rng, BATCH, D))
                self.first += BATCH
                self.batches += 1
                if self.batches % REFRESH_EVERY == 0:
                    self.refreshed += self.table.refresh()
        except BaseException as error:
            self.failed = error


class Multiplier(threading.Thread):
    """Multiplies blocks of rows, as a refresh does, until it is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.enough = threading.Event()

    def run(self) -> None:
        X, W = np.ones((2048, D), np.float32), np.ones((D, BITS), np.float32)
        while not self.enough.is_set():
            _ = X @ W


def ratios(folder: Path, n: int, quick: bool) -> list[Ratio]:
    Q = clustered(np.random.default_rng(5), 1000, D)[0]
    seconds, rounds = (1.0, 1) if quick else (2.5, 5)
    taken: dict[str, list[np.ndarray]] = {"alone": [], "while multiplying": [], "while writing": []}
    batches = refreshed = 0
    with filled(folder / "latency", n, D, BITS, 1) as table:
        latencies(table, Q, 0.5)
        first = n
        for _ in range(rounds):
            taken["alone"].append(latencies(table, Q, seconds))
            multiplier = Multiplier()
            taken["while multiplying"].append(during(multiplier, multiplier.enough, table, Q, seconds))
            writer = Writer(table, first)
            taken["while writing"].append(during(writer, writer.enough, table, Q, seconds))
            if writer.failed is not None:
                raise writer.failed
            first = writer.first
            batches, refreshed = batches + writer.batches, refreshed + writer.refreshed
    counts = ", ".join(f"{sum(map(len, some)):,} {kind}" for kind, some in taken.items())
    console.print(f"Searches: {counts}, with {batches:,} batches and {refreshed:,} items refreshed")
    found = []
    for percent, at_most in ((50, None), (99, 3.0), (99.9, None)):
        times = {
            kind: median(float(np.percentile(phase, percent)) for phase in phases)
            for kind, phases in taken.items()
        }
        work = f"{n:,} items of {BITS} bits, percentile {percent:g}"
        top = "while writing", times["while writing"]
        target = None if quick else at_most
        found.append(Ratio(work, top, ("alone", times["alone"]), at_most=target))
        found.append(Ratio(work, top, ("while multiplying", times["while multiplying"])))
    return found


def during(
    other: threading.Thread, enough: threading.Event, table: HashTable, Q: np.ndarray, seconds: float
) -> np.ndarray:
    """`latencies` while another thread is at work."""
    other.start()
    try:
        return latencies(table, Q, seconds)
    finally:
        enough.set()
        other.join()


def latencies(table: HashTable, Q: np.ndarray, seconds: float) -> np.ndarray:
    """Seconds of each search, for so long."""
    taken = []
    end = time.perf_counter() + seconds
    i = 0
    while (clock := time.perf_counter()) < end:
        table.search(Q[i % len(Q)][None], 10)
        taken.append(time.perf_counter() - clock)
        i += 1
    return np.array(taken)
