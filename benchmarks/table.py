"""`hashstream perf table`: the live table compared with learning, writing, multiplying and searching alone.

Every ratio is of one run, both sides in turn, BLAS on one thread. Ingest, refresh and latency work on a folder that
syncs (durability="full"), below the folder for temporary files: on a disk, if the result is to mean anything. Files are
in the page cache. `table_ingest.py`, `table_filters.py`, `table_calls.py`, `table_size.py` and `table_latency.py` say
what they measure.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks import table_calls, table_filters, table_ingest, table_latency, table_size
from benchmarks.harness import Ratio, console, in_turn, machine, show
from benchmarks.table_stream import clustered, filled
from hashstream import hamming
from hashstream.table import HashTable

D, BITS = 128, 64
BLOCK_ROWS = 2048  # of the plain product: as many as the table takes at once


def main(quick: bool = False) -> bool:
    """Print every table; True where every target was met. `quick` takes a tenth of the items and has no targets."""
    console.print(machine())
    console.print(hs.show_versions())
    started = time.perf_counter()
    n = 100_000 if quick else 1_000_000
    met = True
    with threadpool_limits(1), scratch() as folder:
        met &= show("Ingest, durable", table_ingest.ratios(folder, quick))
        console.print(table_ingest.sync_times(folder))
        met &= show(f"Refresh, {n:,} x {D} float32, {BITS} bits", [refresh(folder, n, quick)])
        for versions in (1, 4):
            with filled(None, n, D, BITS, versions) as table:
                title = (
                    f"Search, {n:,} codes of {BITS} bits, top-10, {versions} version{'s' * (versions > 1)}"
                )
                met &= show(title, search(table, quick, versions))
        met &= show(f"Filters, {n:,} codes of {BITS} bits", table_filters.ratios(n, quick))
        met &= show("Fields, feedback, many writers", table_calls.ratios(folder, quick))
        met &= show("Latency of a search", table_latency.ratios(folder, n, quick))
        met &= show("Memory, and opening", table_size.ratios(folder, quick))
    console.print(f"{time.perf_counter() - started:.0f} s in all")
    return met


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hashstream-perf-") as folder:
        yield Path(folder)


def refresh(folder: Path, n: int, quick: bool) -> Ratio:
    """All codes re-encoded from the mapped file and committed, compared with the bare product over the same file.

    Between two rounds one item is ingested, so that all others are stale. The mean of all rounds: some of them
    checkpoint the items, which is part of the cost.
    """
    rng = np.random.default_rng(1)
    taken: dict[str, list[float]] = {"refresh": [], "X @ W": []}
    with filled(folder / "refresh", n, D, BITS, 1) as table:
        (segment,) = (folder / "refresh").glob("*.seg")
        X = np.memmap(segment, np.float32, "r", 4096, (n, D))
        W = np.asarray(table.hasher.projection_)
        for i in range(3 if quick else 9):
            table.ingest([n + i], *clustered(rng, 1, D))
            sides: dict[str, Callable[[], object]] = {
                "X @ W": partial(product, X, W),
                "refresh": table.refresh,
            }
            for side, call in sides.items():
                clock = time.perf_counter()
                call()
                if i:  # the first round maps the file
                    taken[side].append(time.perf_counter() - clock)
    times = {side: float(np.mean(some)) for side, some in taken.items()}
    work = f"of {n:,} items, {len(taken['refresh'])} times (median {median(taken['refresh']):.3g} s)"
    return Ratio(
        work, ("refresh", times["refresh"]), ("X @ W", times["X @ W"]), at_most=None if quick else 1.3
    )


def product(X: np.ndarray, W: np.ndarray) -> None:
    for start in range(0, len(X), BLOCK_ROWS):
        _ = X[start : start + BLOCK_ROWS] @ W


def search(table: HashTable, quick: bool, versions: int) -> list[Ratio]:
    """One query at a time, a different one each time, and 100 at once; compared with a search of the codes alone."""
    view = table._state.view
    assert view.column is not None
    assert len(view.counts()) == versions
    codes, slots = (np.concatenate([part.arrays()[i] for part in view.parts]) for i in (0, 1))
    Q = clustered(np.random.default_rng(2), 100, D)[0]
    queries = view.encoders[view.newest].encode(Q)
    if versions == 1:
        far, ids = table.search(Q, 10)
        plain = hamming.topk(queries, codes, 10)
        assert np.array_equal(far, plain[0])
        assert np.array_equal(ids, view.column.take(slots[plain[1]]))
    at_most = None if quick else 1.15 if versions == 1 else 1.5
    seconds = 0.5 if quick else 2.0
    ratios = []
    for n_queries in (1, 100):
        some, packed = (cycle(np.split(rows, len(rows) // n_queries)) for rows in (Q, queries))
        sides: dict[str, Callable[[], object]] = {
            "topk": lambda packed=packed: hamming.topk(next(packed), codes, 10),  # type: ignore[misc]
            "search": lambda some=some: table.search(next(some), 10),  # type: ignore[misc]
            "asymmetric": lambda some=some: table.search(next(some), 10, asymmetric=True),  # type: ignore[misc]
        }
        times = in_turn(sides, seconds=seconds)
        work = "one query" if n_queries == 1 else f"{n_queries} queries"
        bottom = "topk", times["topk"]
        ratios.append(Ratio(work, ("search", times["search"]), bottom, at_most=at_most))
        aim = 6.0 if versions == 1 and not quick else None
        ratios.append(Ratio(f"{work}, asymmetric", ("search", times["asymmetric"]), bottom, at_most=aim))
    return ratios
