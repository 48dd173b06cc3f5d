"""`hashstream perf scale`: a cluster of two shards on a Ray of this machine, compared with one table, the bare kernel,
one process, and Milvus, in the same run.

train    learning on two workers (scale_training.py)
same     a cluster gives the answers of one table, and search speed at 10 million codes against `hamming.topk`
clients  single queries of 32 threads, sent together and one by one
kill     kill -9 of a shard while others search
recode   all items re-encoded by new functions
milvus   the same codes in a Milvus server (scale_milvus.py)
"""

from __future__ import annotations

import time

import hashstream as hs
from benchmarks import scale_milvus, scale_recode, scale_search, scale_training
from benchmarks.harness import console, machine, show
from benchmarks.scale_world import BITS, SHARDS, filled_cluster, filled_table
from benchmarks.table import scratch

PARTS = ("train", "same", "clients", "kill", "recode", "milvus")


def main(quick: bool = False, part: str | None = None) -> bool:
    """Print every part; True where every target was met. `quick` takes a tenth of the items and has no targets."""
    console.print(machine())
    console.print(hs.show_versions())
    console.print(f"{SHARDS} shards, codes of {BITS} bits")
    started, met, scale = time.perf_counter(), True, 10 if quick else 1
    wanted = PARTS if part is None else (part,)
    if (
        "train" in wanted
    ):  # first: gigabytes that the other parts have written would be written to disk meanwhile
        met &= scale_training.report(quick)
    if "same" in wanted:
        n = 10_000_000 // scale
        with scratch() as folder, filled_table(folder / "table", n, scale_search.D) as table:
            for title, rows in zip(
                ("Answers", "Search", "Memory"), scale_search.ratios(folder, n, table, quick), strict=True
            ):
                met &= show(f"{title}, {n:,} codes", rows)
    with scratch() as folder:  # another one: files of ten million items would stay in memory
        n = 1_000_000 // scale
        if {"clients", "kill"} & set(wanted):
            with filled_cluster(folder / "small", n, scale_search.D) as cluster:
                if "kill" in wanted:
                    met &= show("A shard is killed", scale_search.killed(cluster, quick))
            if "clients" in wanted:
                met &= show("Many clients", scale_search.clients(folder / "small", n, quick))
        if "recode" in wanted:
            met &= show("Re-encode", scale_recode.ratios(folder, 4_000_000 // scale, quick))
        if "milvus" in wanted:
            met &= show("Milvus", scale_milvus.ratios(folder, n, quick))
    console.print(f"{time.perf_counter() - started:.0f} s in all")
    return met
