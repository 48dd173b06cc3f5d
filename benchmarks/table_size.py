"""Bytes of memory per item, features not included, and seconds to open a large folder; each in a process of its own.

Memory is the growth of the process's anonymous pages (the mapped features are not among them) once a folder has been
opened, searched, written to and asked for an id, and the figure of `stats`. Opening is `HashTable.open` alone, for
writing, with the files in the page cache; the first search and the first lookup of an id come after it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio, console, duration
from benchmarks.table_stream import clustered
from hashstream.table import HashTable, Never

D, BITS, PIECE = 8, 64, 500_000


def ratios(folder: Path, quick: bool) -> list[Ratio]:
    found = []
    for n in (100_000, 500_000) if quick else (1_000_000, 10_000_000):
        path = folder / f"items-{n}"
        made = make(path, n)
        seen = in_child(path)
        shutil.rmtree(path)
        console.print(
            f"{n:,} items: created in {duration(made)}, opened in {duration(seen['open'])}, then the first search in "
            f"{duration(seen['search'])} and the first id in {duration(seen['lookup'])}"
        )
        if n <= 1_000_000:
            for what, name in (("own", "of the process"), ("stats", "by stats()")):
                if seen[what] is not None:
                    amount = f"bytes per item, {n:,} items of {BITS} bits, {name}"
                    limit = None if quick else 1.0
                    top, bottom = ("held", seen[what] / n), ("allowed", 32.0)
                    found.append(Ratio(amount, top, bottom, at_most=limit, said=in_bytes))
        else:
            top, bottom = ("open", seen["open"]), ("allowed", 5.0)
            found.append(Ratio(f"{n:,} items of {BITS} bits", top, bottom, at_most=None if quick else 1.0))
    return found


def in_bytes(amount: float) -> str:
    return f"{amount:.1f} B"


def make(path: Path, n: int) -> float:
    """Create a folder of n items; the seconds that it took."""
    start = time.perf_counter()
    rng = np.random.default_rng(6)
    hasher = hs.FCOH(BITS, random_state=0)
    with HashTable.open(path, hasher, policy=Never(), durability="fast") as table:
        table.ingest(np.arange(1000), *clustered(rng, 1000, D))
        for first in range(1000, n, PIECE):
            ids = np.arange(first, min(first + PIECE, n))
            table.add(ids, rng.standard_normal((len(ids), D), np.float32))
    return time.perf_counter() - start


def in_child(path: Path) -> dict[str, Any]:
    """The figures of `child`, from a fresh process."""
    code = f"from benchmarks.table_size import child; child({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the process that opens {path} failed: {done.stderr}")
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def child(path: str) -> None:
    """Open, search, look up an id, write; print a line of JSON. A small table first loads the modules."""
    rng = np.random.default_rng(7)
    with HashTable.open(None, hs.FCOH(BITS, random_state=0)) as small:
        small.ingest(np.arange(1000), *clustered(rng, 1000, D))
        use(small, rng, 5000)
    before = own_bytes()
    clock = time.perf_counter()
    table = HashTable.open(path, policy=Never())
    opened = time.perf_counter()
    table.search(rng.standard_normal((1, D), np.float32), 10)
    searched = time.perf_counter()
    assert 5 in table
    looked_up = time.perf_counter()
    n = len(table)
    use(table, rng, n)
    after = own_bytes()
    seen = {
        "open": opened - clock,
        "search": searched - opened,
        "lookup": looked_up - searched,
        "own": None if before is None or after is None else after - before,
        "stats": table.stats().memory_bytes,
    }
    table.close()
    print(json.dumps(seen))


def use(table: HashTable, rng: np.random.Generator, first: int) -> None:
    table.ingest(np.arange(first, first + 100), *clustered(rng, 100, D))
    table.search(rng.standard_normal((100, D), np.float32), 10)
    table.remove([first, first + 1])
    assert first + 2 in table


def own_bytes() -> int | None:
    """Anonymous memory of this process; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return None
