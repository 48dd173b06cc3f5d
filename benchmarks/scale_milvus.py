"""The same codes in a cluster and in a Milvus server on this machine (the package `milvus`, BIN_FLAT: exact), searched
in batches of 100, in turn."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from rich.progress import Progress
from tests.scale.milvus_server import VARIABLE, started

from benchmarks.harness import Ratio, console, in_turn
from benchmarks.scale_search import D
from benchmarks.scale_world import K, filled_cluster, queries
from hashstream._extras import require
from hashstream.scale.milvus import MilvusExport
from hashstream.scale.milvus_reader import MilvusReader

BATCH = 100
NAME = "perf"
PATIENCE = 300.0  # seconds


def wait_until_indexed(uri: str, name: str, n: int) -> None:
    """Wait until all codes are in sealed segments that are indexed and loaded: others are searched row by row, and a
    comparison with them would not be fair. TimeoutError after some minutes."""
    client, start = require("pymilvus", "milvus").MilvusClient(uri), time.perf_counter()
    while True:
        sealed = sum(one.num_rows for one in client.list_loaded_segments(name) if one.state_name == "Sealed")
        indexed = client.describe_index(name, "code")["indexed_rows"]
        waited = time.perf_counter() - start
        if sealed == indexed == n:
            break
        if waited > PATIENCE:
            raise TimeoutError(
                f"after {waited:.0f} s, {sealed:,} codes of {n:,} are sealed, {indexed:,} indexed"
            )
        time.sleep(0.5)
    client.close()
    console.print(f"Milvus: {n:,} codes in sealed segments, indexed; waited {waited:.0f} s")


def ratios(folder: Path, n: int, quick: bool) -> list[Ratio]:
    """Times per batch, and how many distances differ, which must be none."""
    models = folder / "milvus-models"
    with ExitStack() as stack:
        cluster = stack.enter_context(filled_cluster(folder / "small", n, D))
        uri = os.environ.get(VARIABLE)
        if uri is None:
            data = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="hs-milvus-", ignore_cleanup_errors=True)
            )
            uri = stack.enter_context(started(Path(data)))
        export = stack.enter_context(MilvusExport(uri, NAME, models=models))
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(f"Milvus, {n:,} items", total=n)
            version = export.move(cluster, lambda done: bar.update(task, completed=done)).version
        wait_until_indexed(uri, f"{NAME}__v{version:012d}", n)
        reader = stack.enter_context(MilvusReader(uri, NAME, models=models, consistency="Bounded"))
        Q = queries(BATCH, D)
        differ = float((cluster.search(Q, K).distances != reader.search(Q, K).distances).sum())
        times = in_turn(
            {"milvus": lambda: reader.search(Q, K), "cluster": lambda: cluster.search(Q, K)},
            seconds=3 if quick else 10,
        )
    work = f"{n:,} codes, batches of {BATCH}"
    return [
        Ratio(work, ("Milvus", times["milvus"]), ("cluster", times["cluster"]), at_least=None if quick else 8.0),
        Ratio(f"{work}: distances", ("that differ", differ), ("all", float(np.size(Q[:, :1]) * K)), at_most=0.0,
              said=lambda count: f"{count:g}"),
    ]  # fmt: skip
