"""Ingest compared with learning alone plus a plain write of the same bytes, synced after every batch.

MNIST's shape: 784 features, ten classes, FCOH with 32 bits. The table writes features, ids, labels and codes with
checksums into a log that survives a power loss, keeps ids unique and searchable, and refreshes by its policy; the
other side learns, appends features, ids and labels to a file, and calls fsync. Batch by batch in turn, a whole stream,
the sums of which are compared: refreshes and checkpoints happen during the stream, and count.

How long a sync takes differs from disk to disk, and some lie; `sync_times` says what it was here.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from statistics import median

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio, duration
from benchmarks.table_stream import clustered
from hashstream.table import Every, HashTable, Never, Policy

D, BITS = 784, 32


def ratios(folder: Path, quick: bool) -> list[Ratio]:
    n = 10_000 if quick else 30_000
    X, y = clustered(np.random.default_rng(4), n, D)
    found = []
    for size in (100, 1000):
        for name, policy in {"Every(100), the default": Every(100), "never refreshed": Never()}.items():
            rounds = [stream(folder, X, y, size, policy) for _ in range(1 if quick else 3)]
            alone, table = (median(some) for some in zip(*rounds, strict=True))
            n_batches = -(-n // size)
            found.append(
                Ratio(
                    f"{n:,} x {D} in batches of {size}, {name}",
                    ("ingest", table / n_batches),
                    ("learn, write, fsync", alone / n_batches),
                    at_most=None if quick else 1.6,
                )
            )
    return found


def stream(folder: Path, X: np.ndarray, y: np.ndarray, size: int, policy: Policy) -> tuple[float, float]:
    """Seconds of the stream: learned, written and synced; ingested."""
    here = folder / "ingest"
    here.mkdir()
    hasher = hs.FCOH(BITS, random_state=0)
    alone = hs.FCOH(BITS, random_state=0)
    spent = [0.0, 0.0]
    with (
        (here / "plain").open("wb", buffering=0) as file,
        HashTable.open(here / "table", hasher, policy=policy) as table,
    ):
        for start in range(0, len(X), size):
            rows, labels = X[start : start + size], y[start : start + size]
            ids = np.arange(start, start + len(rows))
            clock = time.perf_counter()
            alone.partial_fit(rows, labels)
            file.write(rows.tobytes() + ids.tobytes() + labels.tobytes())
            os.fsync(file.fileno())
            between = time.perf_counter()
            table.ingest(ids, rows, labels)
            spent[1] += time.perf_counter() - between
            spent[0] += between - clock
        same = table.hasher.projection_.tobytes() == alone.projection_.tobytes()
    shutil.rmtree(here)
    if not same:
        raise AssertionError("the table has learned something else")
    return spent[0], spent[1]


def sync_times(folder: Path) -> str:
    """One line about what fsync takes here, after so many bytes were appended."""
    said = []
    for size in (4096, 100 * D * 4, 1000 * D * 4):
        taken = []
        with (folder / "sync").open("wb", buffering=0) as file:
            for _ in range(15):
                file.write(bytes(size))
                clock = time.perf_counter()
                os.fsync(file.fileno())
                taken.append(time.perf_counter() - clock)
        said.append(f"{duration(median(taken))} after {size:,} bytes")
    return f"fsync here: {', '.join(said)} (medians of 15)"
