"""A cluster and one table with the same items, for the parts of `hashstream perf scale`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

import hashstream as hs
from benchmarks.harness import console
from benchmarks.table_stream import PIECE, clustered
from hashstream.scale import Cluster
from hashstream.table import HashTable, Never
from hashstream.table.settings import Indexing

SHARDS, BITS, K = 2, 64, 10


def functions(d: int, rows: int = 2000) -> hs.RidgeHash:
    """Hash functions of `rows` rows with labels. The more rows, the newer the version."""
    rng = np.random.default_rng(5)
    return hs.RidgeHash(BITS, random_state=0).partial_fit(*clustered(rng, rows, d))


def pieces(n: int, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids 0, 1, 2, ... and features of n items; the same in every call."""
    rng = np.random.default_rng(6)
    for start in range(0, n, PIECE):
        some = min(PIECE, n - start)
        yield np.arange(start, start + some), clustered(rng, some, d)[0]


def queries(q: int, d: int) -> np.ndarray:
    return clustered(np.random.default_rng(7), q, d)[0]


def filled_table(path: Path, n: int, d: int) -> HashTable:
    """One table of n items, encoded by `functions`."""
    table = HashTable.open(path, functions(d), policy=Never(), durability="fast")
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"one table of {n:,} items", total=n)
        for ids, X in pieces(n, d):
            table.add(ids, X)
            bar.advance(task, len(ids))
    return table


@contextmanager
def filled_cluster(path: Path, n: int, d: int, *, index: Indexing | None = None) -> Iterator[Cluster]:
    """A cluster of `SHARDS` shards with the same items, on a Ray of this process; opened again where it is there."""
    given: dict[str, Any] = {"shards": SHARDS, "durability": "fast", "policy": "never", "index": index}
    with Cluster.open(path, functions(d), **given) as cluster:
        if len(cluster) != n:
            with Progress(console=console, transient=True) as bar:
                task = bar.add_task(f"a cluster of {n:,} items", total=n)
                cluster.feed(pieces(n, d), progress=lambda step: bar.update(task, completed=step.row))
        yield cluster


def indexed(side: Cluster | HashTable, Q: np.ndarray) -> float:
    """Search until all codes are looked up, for a minute at most; the share of them that are."""
    end, share = time.monotonic() + 60, 0.0
    while share < 1 and time.monotonic() < end:
        side.search(Q, K)
        stats = side.stats()
        share = stats.n_indexed / stats.n_items
    return share


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def proportional_bytes(pid: int) -> int:
    """Memory of a process, with its share of pages that others map as well; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in lines:
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    return 0
