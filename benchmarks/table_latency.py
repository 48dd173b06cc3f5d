"""How long a search takes while another thread ingests and refreshes, against the same searches alone.

One query at a time, top-10, from one thread; the other thread ingests batches of 100 rows, durably, as fast as it can,
and refreshes all items after every 20. Both share the cores of the machine and Python's global lock: a search holds it
for some tens of microseconds and waits for it when the other thread has it, which is why the table does its work in
pieces that let go of it (the kernels, products, writes and syncs all do). Phases alone and with the writer alternate;
each percentile is the median of the phases.
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


def ratios(folder: Path, n: int, quick: bool) -> list[Ratio]:
    Q = clustered(np.random.default_rng(5), 1000, D)[0]
    seconds, rounds = (1.0, 1) if quick else (3.0, 4)
    alone: list[np.ndarray] = []
    busy: list[np.ndarray] = []
    batches = refreshed = 0
    with filled(folder / "latency", n, D, BITS, 1) as table:
        latencies(table, Q, 0.5)
        first = n
        for _ in range(rounds):
            alone.append(latencies(table, Q, seconds))
            writer = Writer(table, first)
            writer.start()
            busy.append(latencies(table, Q, seconds))
            writer.enough.set()
            writer.join()
            if writer.failed is not None:
                raise writer.failed
            first = writer.first
            batches, refreshed = batches + writer.batches, refreshed + writer.refreshed
    counts = sum(map(len, alone)), sum(map(len, busy))
    console.print(
        f"{counts[0]:,} searches alone, {counts[1]:,} while {batches:,} batches were ingested and {refreshed:,} items "
        "refreshed"
    )
    found = []
    for percent, at_most in ((50, None), (99, 3.0), (99.9, None)):
        times = [median(float(np.percentile(some, percent)) for some in side) for side in (busy, alone)]
        found.append(
            Ratio(
                f"{n:,} items of {BITS} bits, percentile {percent:g}",
                ("while writing", times[0]),
                ("alone", times[1]),
                at_most=None if quick else at_most,
            )
        )
    return found


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
