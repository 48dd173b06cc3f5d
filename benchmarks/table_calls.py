"""Small calls: batches with fields, feedback for one item, and many threads that write.

All on a folder that syncs. Fields: a stream in batches of 100, with a string, a number and a time for each item and
without. Feedback: `label` for one item, compared with learning one row and a plain write of it, synced. Writers:
threads that ingest 10 rows per call through `table.writer()`, compared with one thread that ingests 10 rows per call.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio
from benchmarks.table_stream import clustered
from hashstream.table import HashTable

D, BITS = 784, 32
FIELDS = {"tenant": str, "price": float, "taken": "datetime"}
THREADS, ROWS = 16, 10


def ratios(folder: Path, quick: bool) -> list[Ratio]:
    rounds = range(1 if quick else 3)
    n = 5_000 if quick else 20_000
    found = []
    for size in (100, 1000):
        plain, fields = (
            median(some) for some in zip(*(_fields(folder, n, size) for _ in rounds), strict=True)
        )
        found.append(
            Ratio(
                f"{n:,} x {D} in batches of {size}, three fields",
                ("with fields", fields),
                ("without", plain),
                at_most=None if quick else 1.3,
            )
        )
    alone, label = (median(some) for some in zip(*(_feedback(folder) for _ in rounds), strict=True))
    found.append(
        Ratio(
            "feedback for one item of 10,000",
            ("label", label),
            ("learn one row, write, fsync", alone),
            at_most=None if quick else 3,
        )
    )
    one, many = (median(some) for some in zip(*(_writers(folder) for _ in rounds), strict=True))
    found.append(
        Ratio(
            f"rows per second, {ROWS} rows per call",
            (f"{THREADS} threads", many),
            ("one thread", one),
            at_least=None if quick else 5,
            said=lambda value: f"{value:,.0f}",
        )
    )
    return found


def _opened(folder: Path, **more: Any) -> HashTable:
    shutil.rmtree(folder / "calls", ignore_errors=True)
    return HashTable.open(folder / "calls", hs.FCOH(BITS, random_state=0), **more)


def _fields(folder: Path, n: int, size: int) -> tuple[float, float]:
    """Seconds of a batch without fields and with them, batch by batch in turn."""
    X, y = clustered(np.random.default_rng(4), n, D)
    rng = np.random.default_rng(6)
    tenants = [f"tenant {i}" for i in rng.integers(0, 100, n)]
    prices = rng.random(n).tolist()
    taken = [datetime(2026, 1, 1) + timedelta(seconds=int(i)) for i in rng.integers(0, 10**7, n)]
    spent = [0.0, 0.0]
    shutil.rmtree(folder / "plain", ignore_errors=True)
    hasher = hs.FCOH(BITS, random_state=0)
    with _opened(folder, fields=FIELDS) as table, HashTable.open(folder / "plain", hasher) as plain:
        for start in range(0, n, size):
            part = slice(start, start + size)
            ids = np.arange(start, start + size)
            fields = {"tenant": tenants[part], "price": prices[part], "taken": taken[part]}
            clock = time.perf_counter()
            plain.ingest(ids, X[part], y[part])
            between = time.perf_counter()
            table.ingest(ids, X[part], y[part], fields=fields)
            spent[1] += time.perf_counter() - between
            spent[0] += between - clock
    return spent[0] * size / n, spent[1] * size / n


def _feedback(folder: Path) -> tuple[float, float]:
    """Seconds of learning and writing one row, and of a label for one stored item."""
    n, calls = 10_000, 200
    X, y = clustered(np.random.default_rng(4), n, D)
    alone = hs.FCOH(BITS, random_state=0)
    spent: list[list[float]] = [[], []]
    with _opened(folder) as table, (folder / "one").open("wb", buffering=0) as file:
        table.ingest(np.arange(1000), X[:1000], y[:1000])
        alone.partial_fit(X[:1000], y[:1000])
        table.add(np.arange(1000, n), X[1000:])
        for i in range(1000, 1000 + calls):
            clock = time.perf_counter()
            alone.partial_fit(X[i : i + 1], y[i : i + 1])
            file.write(X[i].tobytes() + y[i].tobytes())
            os.fsync(file.fileno())
            between = time.perf_counter()
            table.label([i], y[i : i + 1])
            spent[1].append(time.perf_counter() - between)
            spent[0].append(between - clock)
    return float(np.mean(spent[0])), float(np.mean(spent[1]))


def _writers(folder: Path) -> tuple[float, float]:
    """Rows per second of one thread that ingests, and of many that share a writer."""
    return _rate(folder, 1, 300, shared=False), _rate(folder, THREADS, 150, shared=True)


def _rate(folder: Path, threads: int, calls: int, *, shared: bool) -> float:
    X, y = clustered(np.random.default_rng(4), 10_000, D)
    with _opened(folder) as table:
        table.ingest(np.arange(1000), X[:1000], y[:1000])
        store = table.writer().ingest if shared else table.ingest

        def work(number: int) -> None:
            for call in range(number * calls, (number + 1) * calls):
                start = call * ROWS % (len(X) - ROWS)
                ids = 1000 + call * ROWS + np.arange(ROWS)
                store(ids, X[start : start + ROWS], y[start : start + ROWS])

        running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        clock = time.perf_counter()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        seconds = time.perf_counter() - clock
        if len(table) != 1000 + threads * calls * ROWS:
            raise AssertionError("rows are missing")
    return threads * calls * ROWS / seconds
