"""`hashstream perf rescoring`: precision gained, and time spent, by ranking candidates again by stored features.

PosteriorHash, 64 bits, in a folder. Six classes are taught, 20,000 rows; the rows of the other four, about which nobody
has said anything, are stored without labels. 500 queries of taught classes and 500 of the others are searched among all
items: by code, by `search(rescore=...)` with 50, 200 and 1,000 candidates, and by the cosine of all features, the
answer of a vector store without codes. Mean and standard deviation over three choices of classes (one, and fewer
queries, with --quick). Rows go to docs/results/table-rescoring (with --quick nowhere).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.asymmetric import spread
from benchmarks.harness import console, duration, machine
from hashstream import datasets
from hashstream.evaluate import Results
from hashstream.table import HashTable

OUT = Path(__file__).parents[1] / "docs" / "results" / "table-rescoring"
DATASETS = ("mnist", "cifar10")
BITS, K, TAUGHT, ROWS = 64, 10, 6, 20_000
CANDIDATES = (50, 200, 1000)
CODES, FLOATS = "codes", "all features"
WAYS = (CODES, *(f"rescore={n}" for n in CANDIDATES), FLOATS)


def measure(X: np.ndarray, y: np.ndarray, seed: int, asked: int) -> dict[str, dict[str, float]]:
    """Way of asking -> precision@10 of taught and of other classes, and seconds per query, one at a time."""
    part = datasets.split(y, seed=seed)
    taught = np.random.default_rng(seed).permutation(10)[:TAUGHT]
    known = np.isin(y, taught)
    stored = part.retrieval
    learned, other = stored[known[stored]][:ROWS], stored[~known[stored]]
    groups = {
        "taught": part.queries[known[part.queries]][:asked],
        "untaught": part.queries[~known[part.queries]][:asked],
    }
    found: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    with (
        tempfile.TemporaryDirectory(prefix="hashstream-perf-") as folder,
        HashTable.open(Path(folder) / "t", hs.PosteriorHash(BITS, random_state=seed)) as table,
    ):
        for rows in np.array_split(learned, 20):
            table.ingest(rows, X[rows], y[rows])
        table.refresh()
        table.add(other, X[other])
        every = np.concatenate([learned, other])
        units = X[every] / np.linalg.norm(X[every], axis=1, keepdims=True)
        for way in WAYS:
            rescore = int(way.partition("=")[2]) if "=" in way else None
            for group, queries in groups.items():
                if way == FLOATS:
                    near = np.argsort(-(X[queries] @ units.T), axis=1, kind="stable")[:, :K]
                    ids = every[near]
                else:
                    ids = table.search(X[queries], K, rescore=rescore).ids
                found[way][f"precision@{K}, {group}"] = float((y[ids] == y[queries][:, None]).mean())
            clock = time.perf_counter()
            for query in groups["taught"][:100]:
                if way == FLOATS:
                    np.argpartition(-(units @ X[query]), K)[:K]
                else:
                    table.search(X[query : query + 1], K, rescore=rescore)
            found[way]["search_seconds"] = (time.perf_counter() - clock) / len(groups["taught"][:100])
    return found


def main(quick: bool = False) -> bool:
    """Print the tables, write the rows; True where 200 candidates help untaught classes and harm no others."""
    console.print(machine())
    console.print(hs.show_versions())
    runs, asked = (1, 100) if quick else (3, 500)
    filed: list[dict[str, Any]] = []
    holds = True
    for name in DATASETS:
        data = datasets.load(name)
        X = (datasets.centred_unit(data.X) if name == "mnist" else data.X).astype(np.float32)
        with threadpool_limits(1):
            seen = [measure(X, data.y, run, asked) for run in range(runs)]
        title = f"{name}, PosteriorHash, {BITS} bits, {runs} runs"
        table = Table(title=title, title_justify="left")
        for head in ("", "precision@10, taught", "precision@10, untaught", "time of a query"):
            table.add_column(head, justify="right" if head else "left")
        for way in WAYS:
            values = {metric: np.array([one[way][metric] for one in seen]) for metric in seen[0][way]}
            seconds = float(np.median(values.pop("search_seconds")))
            table.add_row(way, *(spread(some) for some in values.values()), duration(seconds))
        console.print(table)
        means = {way: np.mean([list(one[way].values())[:2] for one in seen], axis=0) for way in WAYS}
        gained = means["rescore=200"] - means[CODES]
        holds &= bool(gained[1] > 0 and gained[0] > -0.01)
        for run, ways in enumerate(seen):
            fixed = {
                "dataset": name,
                "protocol": "table-rescoring",
                "bits": BITS,
                "run": run,
                "n_train": ROWS,
            }
            filed += [
                {**fixed, "method": way, "metric": metric, "value": value}
                for way, scores in ways.items()
                for metric, value in scores.items()
            ]
    if not quick:
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "results.csv").unlink(missing_ok=True)
        Results(OUT / "results.csv").append(filed)
        console.print(f"Rows: {OUT}")
    return holds
