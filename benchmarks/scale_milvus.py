"""The same codes in a cluster and in a Milvus server on this machine (the package `milvus`, BIN_FLAT: exact), searched
in batches of 100, in turn."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from rich.progress import Progress
from tests.scale.milvus_server import VARIABLE, started

from benchmarks.harness import Ratio, console, in_turn
from benchmarks.scale_search import D
from benchmarks.scale_world import K, filled_cluster, queries
from hashstream.scale.milvus import MilvusExport
from hashstream.scale.milvus_reader import MilvusReader

BATCH = 100


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
        export = stack.enter_context(MilvusExport(uri, "perf", models=models))
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(f"Milvus, {n:,} items", total=n)
            export.move(cluster, lambda done: bar.update(task, completed=done))
        reader = stack.enter_context(MilvusReader(uri, "perf", models=models, consistency="Bounded"))
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
