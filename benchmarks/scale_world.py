"""A cluster and one table with the same items, for the parts of `hashstream perf scale`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.progress import Progress

import hashstream as hs
from benchmarks.harness import console
from benchmarks.table_stream import PIECE, clustered
from hashstream.scale import Cluster
from hashstream.table import HashTable, Never

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
def filled_cluster(path: Path, n: int, d: int) -> Iterator[Cluster]:
    """A cluster of `SHARDS` shards with the same items, on a Ray of this process; opened again where it is there."""
    with Cluster.open(path, functions(d), shards=SHARDS, durability="fast", policy="never") as cluster:
        if len(cluster) != n:
            with Progress(console=console, transient=True) as bar:
                task = bar.add_task(f"a cluster of {n:,} items", total=n)
                cluster.feed(pieces(n, d), progress=lambda step: bar.update(task, completed=step.row))
        yield cluster


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def proportional_bytes(pid: int) -> int:
    """Memory of a process, with its share of pages that others map as well."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    return 0
