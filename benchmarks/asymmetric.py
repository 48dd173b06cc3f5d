"""`hashstream perf asymmetric`: the accuracy gained by weighting each bit by how sure the query is of it.

MNIST as in the paper: FCOH learns from 20,000 rows, 69,000 are stored. Half of the 1,000 queries are asked of one
table, by `search(Q, k)` and by `search(Q, k, asymmetric=True)`; ties go by insertion, in a random order. Mean
and standard deviation over three splits (one split and fewer queries with --quick). Rows go to
docs/results/table-asymmetric (with --quick nowhere).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.harness import console, duration, machine
from hashstream import datasets
from hashstream.evaluate import Results
from hashstream.table import HashTable

OUT = Path(__file__).parents[1] / "docs" / "results" / "table-asymmetric"
BITS = (16, 32, 64)
METRICS = ("mAP", "precision@10", "precision@100")
WAYS = {"FCOH": False, "FCOH, asymmetric": True}


def measure(X: np.ndarray, y: np.ndarray, bits: int, seed: int, asked: int) -> dict[str, dict[str, float]]:
    """Way of asking -> metric -> value."""
    part = datasets.split(y, seed=seed)
    queries, rest = part.queries[:: len(part.queries) // asked], part.retrieval[len(part.stream) :]
    found: dict[str, dict[str, float]] = {}
    with HashTable.open(None, hs.FCOH(bits, random_state=seed)) as table:
        for rows in np.array_split(part.stream, 200):
            table.ingest(rows, X[rows], y[rows])
        table.refresh()
        table.add(rest, X[rest])
        for way, asymmetric in WAYS.items():
            clock = time.perf_counter()
            table.search(X[queries], 10, asymmetric=asymmetric)
            scores = {"search_seconds": (time.perf_counter() - clock) / len(queries)}
            precision = []
            hits_at: dict[int, list[float]] = {10: [], 100: []}
            for rows in np.array_split(queries, max(1, len(queries) // 100)):  # a whole ranking takes room
                _, ids = table.search(X[rows], len(table), asymmetric=asymmetric)
                hits = y[ids] == y[rows][:, None]
                good = np.cumsum(hits, axis=1)
                precision += (
                    (good / np.arange(1, hits.shape[1] + 1) * hits).sum(axis=1) / good[:, -1]
                ).tolist()
                for k, values in hits_at.items():
                    values += hits[:, :k].mean(axis=1).tolist()
            scores["mAP"] = float(np.mean(precision))
            scores |= {f"precision@{k}": float(np.mean(values)) for k, values in hits_at.items()}
            found[way] = scores
    return found


def main(quick: bool = False) -> bool:
    """Print the table, write the rows; True where the first 10 and 100 answers are better, at every length."""
    console.print(machine())
    console.print(hs.show_versions())
    data = datasets.load("mnist")
    X, y = datasets.centred_unit(data.X), data.y
    runs, asked = (1, 100) if quick else (3, 500)
    filed: list[dict[str, Any]] = []
    table = Table(title=f"MNIST, FCOH, {asked:,} queries, {runs} runs", title_justify="left")
    for head in ("bits", "metric", "symmetric", "asymmetric", "gain"):
        table.add_column(head, justify="right" if head != "metric" else "left")
    better = True
    with threadpool_limits(1):
        for bits in BITS:
            seen = [measure(X, y, bits, run, asked) for run in range(runs)]
            for run, ways in enumerate(seen):
                fixed = {
                    "dataset": "mnist",
                    "protocol": "table-asymmetric",
                    "bits": bits,
                    "run": run,
                    "n_train": 20_000,
                }
                filed += [
                    {**fixed, "method": way, "metric": metric, "value": value}
                    for way, scores in ways.items()
                    for metric, value in scores.items()
                ]
            for metric in METRICS:
                plain, soft = (np.array([ways[way][metric] for ways in seen]) for way in WAYS)
                better &= bool(soft.mean() > plain.mean()) or metric == "mAP"
                table.add_row(str(bits), metric, spread(plain), spread(soft), f"{(soft - plain).mean():+.3f}")
            plain, soft = (np.array([ways[way]["search_seconds"] for ways in seen]) for way in WAYS)
            table.add_row(
                str(bits),
                "time of a query, k = 10",
                duration(float(np.median(plain))),
                duration(float(np.median(soft))),
            )
    console.print(table)
    if not quick:
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "results.csv").unlink(missing_ok=True)
        Results(OUT / "results.csv").append(filed)
        console.print(f"Rows: {OUT}")
    return better


def spread(values: np.ndarray) -> str:
    deviation = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{deviation}"
