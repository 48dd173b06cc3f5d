"""Bulk re-encoding: all items of a cluster by new functions, compared with one table in one process."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.harness import Ratio
from benchmarks.scale_world import cpu_seconds, filled_cluster, filled_table, functions

D = 128


def ratios(folder: Path, n: int, quick: bool) -> list[Ratio]:
    """Wall time and CPU of `adopt`, in turn; each round has newer functions."""
    wall: dict[str, list[float]] = {"cluster": [], "table": []}
    cpu: dict[str, list[float]] = {"cluster": [], "table": []}
    with (
        filled_table(folder / "recode", n, D) as table,
        filled_cluster(folder / "recode-cluster", n, D) as cluster,
    ):
        os.sync()  # gigabytes that filling has written, here and in earlier parts, would be written meanwhile
        for turn in range(2 if quick else 5):
            newer = functions(D, 4000 + 1000 * turn)
            pids = [*cluster.shard_pids(), os.getpid()]
            before, clock = sum(map(cpu_seconds, pids)), time.perf_counter()
            assert cluster.adopt(newer) == n
            wall["cluster"].append(time.perf_counter() - clock)
            cpu["cluster"].append(sum(map(cpu_seconds, pids)) - before)
            start, clock = time.process_time(), time.perf_counter()
            assert table.adopt(newer) == n
            wall["table"].append(time.perf_counter() - clock)
            cpu["table"].append(time.process_time() - start)
        assert cluster.digest() == table.digest()
    # The first round maps the files. The least of the others: a disk that is busy adds to both.
    best = {
        (name, side): min(taken[side][1:]) for name, taken in (("wall", wall), ("cpu", cpu)) for side in taken
    }
    work = f"re-encode {n:,} x {D}"
    return [
        Ratio(f"{work}: CPU", ("cluster", best["cpu", "cluster"]), ("one process", best["cpu", "table"]),
              at_most=None if quick else 1.35),
        Ratio(f"{work}: wall", ("2 workers", best["wall", "cluster"]), ("one process", best["wall", "table"]),
              at_most=None if quick else 0.7),
    ]  # fmt: skip
