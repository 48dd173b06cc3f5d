"""Tables of 25,000 to 2.5 million items under every refresh policy: a part of `hashstream perf places`.

As in the paper, the table is full before learning goes on: the first batch is learned, all rows but those that are
still to be learned from are added, and 99 more batches are ingested. Every figure is of one folder with
durability="full", below the folder for temporary files; the folder is copied for each policy, and removed after it.

Times are of the processor, all threads of the process together: a table that re-encodes in the background is charged
for it, and other programs are not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hashstream as hs
from benchmarks.table_size import own_bytes
from hashstream._machine import share_cores
from hashstream.datasets import Stream
from hashstream.hashers import OnlineHasher
from hashstream.table import (
    Commit,
    Eager,
    Every,
    Gated,
    Grown,
    HashTable,
    Lazy,
    Never,
    Partial,
    Policy,
    Projected,
)

D, CLASSES, SPREAD, BITS = 128, 205, 1.0, 64
"""The shape of Places205. With the stream's usual spread of 1.5, codes of 205 classes are hardly better than chance."""
UPDATES, BATCH = 100, 1000
PIECE = 100_000
QUERIES, K = 2 * CLASSES, 100
LONG = 60.0  # seconds that an index may take to be built

Row = dict[str, float]
Advance = Callable[[], None]

POLICIES: dict[str, tuple[Callable[[], Policy], int]] = {
    "Never": (Never, 1000),
    "16 versions": (Never, 16),
    "Grown(0.2)": (Grown, 1000),
    "Every(10)": (lambda: Every(10), 1000),
    "Partial(32, 10)": (lambda: Partial(BITS // 2, 10), 1000),
    "Projected(10)": (lambda: Projected(10), 1000),
    "Lazy": (Lazy, 1000),
    "Gated": (Gated, 1000),
    "Eager": (Eager, 1000),
}
"""Name -> policy and `max_versions`: so large that only the policy counts, except in one entry, where only the default
limit of `HashTable.open` re-encodes anything."""


def stream(n: int) -> Stream:
    return Stream(n, D, CLASSES, spread=SPREAD)


def batch_rows(n: int) -> int:
    """Rows of a batch: the paper's 1,000, or fewer, so that at most 40 % of the items are learned from.

    >>> [batch_rows(n) for n in (25_000, 250_000, 2_500_000)]
    [100, 1000, 1000]
    """
    return max(1, min(BATCH, n // (5 * UPDATES // 2)))


def build(
    folder: Path, hasher: OnlineHasher, n: int, policy: Policy, advance: Advance = lambda: None
) -> np.ndarray:
    """A folder whose table has learned the first of 100 batches and holds all n items but those of the other 99.

    Ids are the rows of the stream. The labels (n,) of all rows.
    """
    source, size = stream(n), batch_rows(n)
    y = np.empty(n, np.int64)
    with HashTable.open(folder, hasher, policy=policy, durability="fast", max_versions=1000) as table:
        X, y[:size] = source.rows(0, size)
        table.ingest(np.arange(size), X, y[:size])
        y[size : UPDATES * size] = source.rows(size, UPDATES * size)[1]
        for start in range(UPDATES * size, n, PIECE):
            ids = np.arange(start, min(start + PIECE, n))
            X, y[ids] = source.rows(start, start + len(ids))
            table.add(ids, X)
            advance()
    return y


def under_policy(
    folder: Path, policy: Policy, versions: int, y: np.ndarray, advance: Advance = lambda: None
) -> Row:
    """Ingest the other 99 batches; figures of the table. With `Never`, also those of a refresh."""
    n, source = len(y), stream(len(y))
    size = batch_rows(n)
    commits: list[Commit] = []
    wall = processor = 0.0
    with HashTable.open(
        folder, policy=policy, durability="full", max_versions=versions, on_commit=commits.append
    ) as table:
        for start in range(size, UPDATES * size, size):
            X, labels = source.rows(start, start + size)
            clock = time.perf_counter(), time.process_time()
            table.ingest(np.arange(start, start + size), X, labels)
            wall += time.perf_counter() - clock[0]
            processor += time.process_time() - clock[1]
            advance()
        with table.paused():
            stats = table.stats()
            found = {
                "processor_seconds": processor,
                "seconds": wall,
                "recoded_rows": float(sum(commit.recoded for commit in commits)),
                "updates_behind": stats.updates_behind,
                "versions": float(len(stats.versions)),
                "precision@100": precision(table, source, y),
            }
            if type(policy) is Never:
                found |= refreshed(table, source, y)
    return found


def refreshed(table: HashTable, source: Stream, y: np.ndarray) -> Row:
    """Processor seconds of a refresh, the median of three, and precision@100 after the first. Between two of them the
    last batch is ingested once more, so that all other items are stale; where the functions do not move then, as those
    of PosteriorHash, only the first counts."""
    found: Row = {}
    taken: list[float] = []
    last = np.arange((UPDATES - 1) * (size := batch_rows(len(y))), UPDATES * size)
    X, labels = source.rows(int(last[0]), int(last[-1]) + 1)
    for turn in range(3):
        if turn:
            table.ingest(last, X, labels)
        clock = time.process_time()
        if table.refresh() >= len(y) // 2:
            taken.append(time.process_time() - clock)
        found.setdefault("fresh precision@100", precision(table, source, y))
    return found | {"refresh_processor_seconds": median(taken)}


def precision(table: HashTable, source: Stream, y: np.ndarray) -> float:
    """precision@100 of two queries per class; ids are rows of y."""
    Q, q = source.queries(QUERIES)
    return float((y[table.search(Q, min(K, len(y))).ids] == q[:, None]).mean())


def eager(never: Row, n: int) -> tuple[float, float]:
    """A refresh after each update that moved the functions, counted: processor seconds, and refreshes of all n items
    that this amounts to, since the table is smaller before the last update.

    never : what was measured without a refresh, when every move left a version, and then with one.
    """
    share = 1 - batch_rows(n) * UPDATES / (2 * n)  # mean over the updates
    refreshes = share * (never["versions"] - 1)
    return never["processor_seconds"] + refreshes * never["refresh_processor_seconds"], refreshes


def copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


# ---- searching, and memory, in a process of its own


def searched(folder: Path) -> Row:
    """The figures of `child`, from a fresh process."""
    code = f"from benchmarks.places_tables import child; child({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the process that searches {folder} failed: {done.stderr}")
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def child(folder: str) -> None:
    """Open a table, search it on one core, first scanned, then by the multi-index; print a line of JSON."""
    share_cores(os.cpu_count() or 1)
    with HashTable.open(None, hs.LSH(BITS, random_state=0)) as small:  # loads the modules
        small.add(np.arange(1000), stream(1000).rows(0, 1000)[0])
        small.search(stream(1000).queries(1)[0], 10)
    before = own_bytes() or 0
    found: dict[str, Any] = {}
    for index in ("scan", "auto"):
        clock = time.perf_counter()
        with HashTable.open(folder, index=index) as table:
            found.setdefault("open_seconds", time.perf_counter() - clock)
            n = len(table)
            Q = stream(n).queries(1000)[0]
            if index == "auto" and not indexed(table, Q):
                continue
            for queries in (1, 100):
                found[f"{index}_{queries}_seconds"] = seconds_of(table, Q, queries)
            held = (own_bytes() or before) - before
            found[f"{index}_own_bytes"] = held / n
            stats = table.stats()
            found[f"{index}_memory_bytes"] = stats.memory_bytes / n
            found["disk_bytes"] = (stats.disk_bytes - stats.feature_bytes) / n
            found["feature_bytes"] = stats.feature_bytes / n
            if index == "auto":
                found["index_bytes"] = stats.index_bytes / n
    print(json.dumps(found))


def indexed(table: HashTable, Q: np.ndarray) -> bool:
    """Search until the codes are indexed; False where that does not happen, since a scan is faster."""
    table.search(Q, 10)
    table.search(Q[:100], 10)
    end = time.perf_counter() + LONG
    while not (there := table.stats().n_indexed) and any_building() and time.perf_counter() < end:
        time.sleep(0.05)
    return bool(there or table.stats().n_indexed)


def any_building() -> bool:
    return any(thread.name == "hashstream-index" for thread in threading.enumerate())


def seconds_of(table: HashTable, Q: np.ndarray, queries: int, least: int = 10) -> float:
    """Median processor seconds of a search for so many of the queries at once, others each time."""
    taken: list[float] = []
    parts = np.split(Q, len(Q) // queries)
    end = time.perf_counter() + 2.0
    while len(taken) < least or time.perf_counter() < end:
        part = parts[len(taken) % len(parts)]
        clock = time.process_time()
        table.search(part, 10)
        taken.append(time.process_time() - clock)
    return median(taken)
