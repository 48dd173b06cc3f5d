"""What HTTP adds to a search: one client on one connection, compared with the library in one process.

The service and the library read the same folder. Both sides are called in turn, some searches at a time. The client's
time begins with a list of numbers and ends with the parsed answer, so that its own JSON counts too.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.harness import Ratio, console, duration, in_turn
from benchmarks.serve_running import BITS, NAME, D, K, query, serving
from benchmarks.table_stream import clustered
from hashstream.table import HashTable

ADDED = 1.5e-3  # seconds, at the median
TURN = 20  # searches of one side in a row
NPY_TO_NPZ = {"Content-Type": "application/x-npy", "Accept": "application/x-npz"}


def single(table: Path, n: int, quick: bool) -> list[Ratio]:
    """Searches for one query as JSON."""
    Q = clustered(np.random.default_rng(5), 1000, D)[0]
    taken: dict[str, list[float]] = {"service": [], "library": []}
    with serving(table.parent) as service, HashTable.open(table, mode="read") as library:
        connection = service.connect()
        path = f"/v1/tables/{NAME}/search"

        def by_http(i: int) -> list[int]:
            answer = json.loads(connection.search(path, json.dumps(query(Q[i].tolist())).encode()))
            found: list[int] = answer["ids"][0]
            return found

        def directly(i: int) -> list[int]:
            found: list[int] = library.search(Q[i][None], K).ids[0].tolist()
            return found

        sides: dict[str, Callable[[int], list[int]]] = {"service": by_http, "library": directly}
        if [by_http(i) for i in range(TURN)] != [directly(i) for i in range(TURN)]:
            raise AssertionError("the service finds other items than the library")
        for turn in range(20 if quick else 150):
            for side, search in sides.items():
                for i in range(turn * TURN, (turn + 1) * TURN):
                    clock = time.perf_counter()
                    search(i % len(Q))
                    taken[side].append(time.perf_counter() - clock)
        connection.close()
    times = {side: np.percentile(some, (50, 99)) for side, some in taken.items()}
    for side, (p50, p99) in times.items():
        console.print(f"{side}: p50 {duration(p50)}, p99 {duration(p99)}, {len(taken[side]):,} searches")
    work = f"one query as JSON, {n:,} codes of {BITS} bits"
    added = [service - library for service, library in zip(times["service"], times["library"], strict=True)]
    return [
        Ratio(f"{work}, p50", ("added", added[0]), ("allowed", ADDED), at_most=None if quick else 1),
        Ratio(f"{work}, p99", ("service", times["service"][1]), ("library", times["library"][1])),
    ]


def batch(table: Path, n: int, quick: bool) -> list[Ratio]:
    """A search for 1,000 queries, sent as .npy and answered as .npz."""
    Q = clustered(np.random.default_rng(6), 1000, D)[0]
    with serving(table.parent) as service, HashTable.open(table, mode="read") as library:
        connection = service.connect()

        def by_http() -> tuple[np.ndarray, np.ndarray]:
            file = io.BytesIO()
            np.save(file, Q)
            path = f"/v1/tables/{NAME}/search?k={K}"
            with np.load(io.BytesIO(connection.ask("POST", path, file.getvalue(), NPY_TO_NPZ))) as answer:
                return answer["distances"], answer["ids"]

        for found, known in zip(by_http(), library.search(Q, K)[:2], strict=True):
            np.testing.assert_array_equal(found, known)
        times = in_turn(
            {"library": lambda: library.search(Q, K), "service": by_http},
            seconds=1.0 if quick else 10.0,
            long=60.0,
        )
        connection.close()
    return [
        Ratio(
            f"1,000 queries, {n:,} codes of {BITS} bits",
            ("service", times["service"]),
            ("library", times["library"]),
            at_most=None if quick else 1.3,
        )
    ]
