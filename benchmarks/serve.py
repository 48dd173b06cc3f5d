"""`hashstream perf serve`: the service compared with the library called directly, in the same run.

The service is `hashstream serve` in a process of its own, on loopback; clients are other processes. BLAS has one
thread. `serve_latency.py` measures what HTTP adds to a search (single) and to a batch of 1,000 queries (batch),
`serve_load.py` searches while rows are ingested (load), and `serve_soak.py` memory, descriptors and threads over ten
minutes (soak).
"""

from __future__ import annotations

import os

from benchmarks.serve_running import ONE_THREAD

os.environ.update(ONE_THREAD)  # for the processes that are started

import time
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks import serve_latency, serve_load, serve_soak
from benchmarks.harness import console, machine, show
from benchmarks.serve_running import BITS, D, fill
from benchmarks.table import scratch

PARTS = ("single", "batch", "load", "soak")
LIBRARIES = ("fastapi", "starlette", "uvicorn", "pydantic", "uvloop", "httptools")


def main(quick: bool = False, part: str | None = None) -> bool:
    """Print every part; True where every target was met. `quick` takes a tenth of the items and has no targets."""
    console.print(machine())
    console.print(hs.show_versions())
    console.print(", ".join(f"{name} {_version(name)}" for name in LIBRARIES))
    started = time.perf_counter()
    n = 100_000 if quick else 1_000_000
    met = True
    with threadpool_limits(1), scratch() as folder:
        table = fill(folder / "tables", n)
        console.print(f"{n:,} items of {D} features, codes of {BITS} bits")
        if part in (None, "single"):
            met &= show("One query per request, one client", serve_latency.single(table, n, quick))
        if part in (None, "batch"):
            met &= show("Many queries per request, .npy to .npz", serve_latency.batch(table, n, quick))
        if part in (None, "load"):
            met &= show("Searches while rows are ingested", serve_load.ratios(table, folder, n, quick))
        if part in (None, "soak"):
            met &= show("Growth under load", serve_soak.ratios(table, folder, n, quick))
    console.print(f"{time.perf_counter() - started:.0f} s in all")
    return met


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
