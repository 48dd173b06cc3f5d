"""Searches of a cluster: compared with one table and with the bare kernel, alone, under many clients, and through the
kill of a shard."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Ratio, console, in_turn
from benchmarks.scale_world import K, filled_cluster, indexed, proportional_bytes, queries
from hashstream import hamming
from hashstream._machine import size
from hashstream.scale import Cluster
from hashstream.table import HashTable

D = 16  # few features: it is codes that are searched here
CLIENTS = 32


def equal(cluster: Cluster, table: HashTable, how: str = "") -> list[Ratio]:
    """Queries whose answers differ, of 1,000: distances, and ids with their ties; and whether the digests do."""
    Q = queries(1000, D)
    a, b = cluster.search(Q, K), table.search(Q, K)
    wrong = float((a.distances != b.distances).any(axis=1).sum())
    ids = float((a.ids != b.ids).any(axis=1).sum())
    digests = float(cluster.digest() != table.digest())
    names = ("distances", "ids and ties", "digest")
    return [
        Ratio(
            f"{how}cluster and one table: {name}",
            ("that differ", value),
            ("all", 1000.0),
            at_most=0.0,
            said=lambda n: f"{n:g}",
        )
        for name, value in zip(names, (wrong, ids, digests), strict=True)
    ]


def against_kernel(
    cluster: Cluster, scanning: Cluster, table: HashTable, codes: np.ndarray, quick: bool
) -> list[Ratio]:
    """One query and 100, against `hamming.topk` on one thread over the same codes in one array.

    scanning : a cluster that looks no codes up. The others do, once they were searched often.
    """
    ratios = []
    for q in (1, 100):
        Q = queries(q, D)
        packed = table.hasher.transform(Q)
        sides: dict[str, Callable[[], object]] = {
            "cluster": partial(cluster.search, Q, K),
            "table": partial(table.search, Q, K),
            "scanning": partial(scanning.search, Q, K),
            "topk": partial(hamming.topk, packed, codes, K, n_threads=1),
        }
        times = in_turn(sides, seconds=3 if quick else 10)
        work = f"{len(codes):,} codes, {q} {'query' if q == 1 else 'queries'}"
        most = None if quick else {1: 1.3, 100: 0.75}[q]
        kernel = ("topk, one thread", times["topk"])
        ratios += [
            Ratio(work, ("cluster", times["cluster"]), kernel, at_most=most),
            Ratio(f"{work}, codes scanned", ("cluster", times["scanning"]), kernel, at_most=most),
        ]
        if q == 1:
            above, bar = times["cluster"] - times["table"], None if quick else 1.0
            ratios.append(
                Ratio(f"{work}: above the table's own time", ("more", above), ("5 ms", 5e-3), at_most=bar)
            )
    return ratios


def clients(path: Path, n: int, quick: bool) -> list[Ratio]:
    """Searches per second of 32 threads, one query each: sent together, and one by one; in turn."""
    seconds = 2.0 if quick else 5.0
    rates: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(1 if quick else 3):
        for batched in (False, True):
            with Cluster.open(path, batched=batched) as cluster:
                indexed(cluster, queries(1000, D))  # built once per start, by both sides
                rates[batched].append(_rate(cluster, seconds))
    together, alone = (float(np.median(rates[batched])) for batched in (True, False))
    return [
        Ratio(
            f"{n:,} codes, {CLIENTS} clients, one query each", ("sent together", together), ("one by one", alone),
            at_least=None if quick else 5.0, said=lambda rate: f"{rate:,.0f}/s",
        )
    ]  # fmt: skip


def _rate(cluster: Cluster, seconds: float) -> float:
    Q = queries(CLIENTS, D)
    cluster.search(Q[:1], K)
    counts, end = [0] * CLIENTS, time.perf_counter() + seconds

    def client(at: int) -> None:
        while time.perf_counter() < end:
            cluster.search(Q[at : at + 1], K)
            counts[at] += 1

    begun = time.perf_counter()
    threads = [threading.Thread(target=client, args=(at,)) for at in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def killed(cluster: Cluster, quick: bool) -> list[Ratio]:
    """kill -9 of each shard in turn while four threads search: answers that are wrong, searches that fail, and the
    longest that one took."""
    Q = queries(64, D)
    wanted = cluster.search(Q, K)
    wrong, failed, slowest, answered = 0, 0, 0.0, 0
    stop, lock = threading.Event(), threading.Lock()

    def search(seed: int) -> None:
        nonlocal wrong, failed, slowest, answered
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            at = rng.integers(0, len(Q), 4)
            clock = time.perf_counter()
            try:
                hits = cluster.search(Q[at], K)
                right = np.array_equal(hits.ids, wanted.ids[at]) and np.array_equal(
                    hits.distances, wanted.distances[at]
                )
                bad = 0
            except Exception as error:
                console.print(f"a search failed: {error!r}")
                right, bad = True, 1
            taken = time.perf_counter() - clock
            with lock:
                wrong, failed, answered = wrong + (not right), failed + bad, answered + 1 - bad
                slowest = max(slowest, taken)

    threads = [threading.Thread(target=search, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for shard in range(1 if quick else 4):
        time.sleep(2)
        os.kill(cluster.shard_pids()[shard % cluster.config.shards], signal.SIGKILL)
        time.sleep(12)
    stop.set()
    for thread in threads:
        thread.join()
    kills = 1 if quick else 4
    count: Callable[[float], str] = lambda n: f"{n:,.0f}"  # noqa: E731
    total = ("answered", float(answered))
    return [
        Ratio(
            f"kill -9 of a shard, {kills} times: wrong",
            ("wrong", float(wrong)),
            total,
            at_most=0.0,
            said=count,
        ),
        Ratio(
            f"kill -9 of a shard, {kills} times: failed",
            ("failed", float(failed)),
            total,
            at_most=0.0,
            said=count,
        ),
        Ratio(
            "longest pause of a search", ("pause", slowest), ("second", 1.0), at_most=None if quick else 10.0
        ),
    ]


def memory(cluster: Cluster, table: HashTable) -> list[Ratio]:
    """Of each shard's process, compared with the arrays of its table; and of what runs beside them."""
    ratios = []
    stats = cluster.stats()
    for at, (pid, shard) in enumerate(zip(cluster.shard_pids(), stats.shards, strict=True)):
        top = (f"shard {at}'s process", float(proportional_bytes(pid)))
        ratios.append(Ratio("memory", top, ("its table's arrays", float(shard.memory_bytes)), said=size))
    own = float(table.stats().memory_bytes)
    ratios.append(
        Ratio("memory", ("all shards' arrays", float(stats.memory_bytes)), ("one table's", own), said=size)
    )
    rest = sum(proportional_bytes(pid) for pid in descendants(os.getpid()) if pid not in cluster.shard_pids())
    ratios.append(Ratio("memory", ("Ray and the learner", float(rest)), ("one table's", own), said=size))
    return ratios


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and those that these have."""
    found, waiting = [], [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            children = [int(one) for one in task.read_text().split()]
            found += children
            waiting += children
    return found


def ratios(folder: Path, n: int, table: HashTable, quick: bool) -> list[list[Ratio]]:
    """Equality, speed, and memory."""
    codes = np.concatenate([piece.codes for piece in table.codes()])
    with filled_cluster(folder / "cluster", n, D) as cluster:
        with filled_cluster(folder / "scanning", n, D, index="scan") as scanning:
            same = equal(scanning, table)
            for name, side in (("cluster", cluster), ("table", table)):
                console.print(f"{name}: {indexed(side, queries(1000, D)):.0%} of the codes are looked up")
            same += equal(cluster, table, "looked up: ")
            times = against_kernel(cluster, scanning, table, codes, quick)
        return [same, times, memory(cluster, table)]
