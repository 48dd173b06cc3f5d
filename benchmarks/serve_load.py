"""Eight clients that search, one query per request, while another one ingests batches of 100 rows with labels.

The clients are processes. They are compared with the library in one process: eight threads that search and one that
ingests. Both work on a copy of one table; rounds take turns. All of them share the cores: a client of HTTP needs some
of the time itself, which threads of the library do not. Ingested rows replace a fixed set of ids.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import serve_clients
from benchmarks.harness import Ratio, console, duration
from benchmarks.serve_clients import BATCH, SLOTS, Clients
from benchmarks.serve_running import BITS, NAME, D, K, Serving, copied, query, serving
from benchmarks.table_stream import clustered
from hashstream.table import HashTable

SEARCHING = 8
PATH = f"/v1/tables/{NAME}"


@dataclass(frozen=True)
class Figures:
    """One round: rates per second, and latencies of a search in seconds."""

    queries: float
    p50: float
    p99: float
    rows: float

    def __str__(self) -> str:
        return (
            f"{self.queries:,.0f} queries/s, p50 {duration(self.p50)}, p99 {duration(self.p99)}, "
            f"{self.rows:,.0f} rows/s ingested"
        )


def figures(told: list[np.ndarray], seconds: float) -> Figures:
    """told : seconds of each call of one period, those of the client that ingests last."""
    searches = np.concatenate(told[:-1])
    p50, p99 = np.percentile(searches, (50, 99)) if len(searches) else (float("nan"),) * 2
    return Figures(len(searches) / seconds, float(p50), float(p99), len(told[-1]) * BATCH / seconds)


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Features and labels to ingest."""
    return clustered(np.random.default_rng(7), SLOTS * BATCH, D)


def start(clients: Clients, service: Serving, n: int) -> None:
    """The clients of the load. n : items of the table, whose ids are below n."""
    bodies = [
        json.dumps(query(row.tolist())).encode() for row in clustered(np.random.default_rng(8), 1000, D)[0]
    ]
    for number in range(SEARCHING):
        some = bodies[number * 100 :] + bodies[: number * 100]
        clients.start(serve_clients.search, service.port, f"{PATH}/search", some)
    clients.start(serve_clients.ingest, service.port, f"{PATH}/items", n, *rows())


def ratios(table: Path, scratch: Path, n: int, quick: bool) -> list[Ratio]:
    seconds, rounds = (5.0, 1) if quick else (20.0, 3)
    taken: dict[str, list[Figures]] = {"service": [], "library": []}
    copied(table, scratch / "service")
    other = copied(table, scratch / "library")
    with serving(scratch / "service") as service:
        for _ in range(rounds):
            with Clients() as clients:
                start(clients, service, n)
                begun = clients.begin(seconds)
                taken["service"].append(figures(clients.period(begun + seconds), seconds))
            with Clients() as clients:
                clients.start(library, other, n)
                begun = clients.begin(seconds)
                taken["library"].append(figures(_by_thread(clients.period(begun + seconds)[0]), seconds))
    found = {}
    for side, some in taken.items():
        names = vars(some[0])
        found[side] = Figures(*(median(getattr(one, name) for one in some) for name in names))
        console.print(f"{side}: {found[side]} (medians of {rounds} rounds of {seconds:g} s)")
    work = f"{SEARCHING} clients, {n:,} codes of {BITS} bits"

    def ratio(what: str, name: str, said: Callable[[float], str]) -> Ratio:
        top, bottom = (getattr(found[side], name) for side in ("service", "library"))
        return Ratio(f"{work}: {what}", ("service", top), ("library", bottom), said=said)

    return [
        ratio("queries per second", "queries", lambda value: f"{value:,.0f}"),
        ratio("p50", "p50", duration),
        ratio("p99", "p99", duration),
        ratio("rows per second", "rows", lambda value: f"{value:,.0f}"),
    ]


def _by_thread(told: np.ndarray) -> list[np.ndarray]:
    """Seconds of the calls of each thread, from rows of (thread, seconds)."""
    return [told[told[:, 0] == number, 1] for number in range(SEARCHING + 1)]


def library(table: Path, first: int, pipe: Pipe) -> None:
    """The same load by threads of one process; a client that `Clients` starts. Tells rows of (thread, seconds)."""
    try:
        with HashTable.open(table) as opened:
            Q, (X, y) = clustered(np.random.default_rng(8), 1000, D)[0], rows()
            opened.search(Q[:1], K)
            pipe.send("ready")
            begin, end, _ = pipe.recv()
            taken: list[list[tuple[int, float]]] = [[] for _ in range(SEARCHING + 1)]
            failed: list[BaseException] = []

            def call(number: int, i: int) -> None:
                if number < SEARCHING:
                    opened.search(Q[(number * 100 + i) % len(Q)][None], K)
                else:
                    opened.ingest(*serve_clients.batch(i, first, X, y))

            def work(number: int) -> None:
                try:
                    time.sleep(max(0.0, begin - time.monotonic()))
                    while (clock := time.monotonic()) < end:
                        call(number, len(taken[number]))
                        taken[number].append((number, time.monotonic() - clock))
                except BaseException as error:
                    failed.append(error)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(SEARCHING + 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failed:
                raise failed[0]
            pipe.send(np.array([pair for some in taken for pair in some]).reshape(-1, 2))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
    finally:
        pipe.close()
