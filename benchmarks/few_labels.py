"""`hashstream perf few_labels`: searches after the first labels, with and without plain bits.

PosteriorHash, 64 bits. 10,000 rows are stored without labels, and labels come ten at a time, in random order. After
some numbers of labels all rows are encoded again, and 1,000 others are searched for: precision@10, and mAP over the
whole ranking. With all bits learned (`plain_bits=0`), and with half and three quarters of them plain. Then the same
where only four of the classes have labels, 100 each: precision@10 of queries of these, and of the others. Mean and
standard deviation over three runs (one, and fewer rows, labels and queries, with --quick).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.asymmetric import spread
from benchmarks.harness import console, machine
from hashstream import datasets

DATASETS = ("mnist", "cifar10")
BITS, AT_ONCE = 64, 10
PLAIN = (0, BITS // 2, 3 * BITS // 4)
METRICS = ("precision@10", "mAP")
SOME = 4
"""Classes that have labels in the second part."""
WORSE = 0.1
"""The first labels may make searches worse by this much, where three quarters of the bits are plain."""


@dataclass(frozen=True)
class Size:
    """Labels after which searches are measured, rows that are stored, queries per class, runs, and labels for each of
    some classes."""

    labels: tuple[int, ...] = (0, 10, 20, 50, 100, 200, 500, 1000, 2000)
    rows: int = 10_000
    queries: int = 100
    runs: int = 3
    each: int = 100


QUICK = Size((0, 10, 50), 2000, 20, 1, 10)


def started(X: np.ndarray, plain: int, seed: int) -> hs.PosteriorHash:
    return hs.PosteriorHash(BITS, plain_bits=plain, random_state=seed).started(X)


def scores_of(
    hasher: hs.PosteriorHash, X: np.ndarray, y: np.ndarray, rows: np.ndarray, queries: np.ndarray
) -> np.ndarray:
    """precision@10 and mAP."""
    codes, asked = hasher.transform(X[rows]), hasher.transform(X[queries])
    scores = hs.evaluate.retrieval(asked, y[queries], codes, y[rows])
    return np.array([scores[metric] for metric in METRICS])


def measure(X: np.ndarray, y: np.ndarray, seed: int, size: Size) -> dict[tuple[int, int], np.ndarray]:
    """(plain bits, labels) -> precision@10 and mAP; with no labels all bits are those of a random projection."""
    part = datasets.split(y, per_class=size.queries, stream=size.rows, seed=seed)
    rows = part.stream
    found: dict[tuple[int, int], np.ndarray] = {}
    for plain in PLAIN:
        hasher, given = started(X[rows], plain, seed), 0
        for n in size.labels:
            while given < n:
                some = rows[given : given + AT_ONCE]
                hasher.partial_fit(X[some], y[some])
                given += AT_ONCE
            found[plain, n] = scores_of(hasher, X, y, rows, part.queries)
    return found


def measure_some(X: np.ndarray, y: np.ndarray, seed: int, size: Size) -> dict[tuple[int, str], float]:
    """(plain bits, which queries, before or after the labels of some classes) -> precision@10."""
    part = datasets.split(y, per_class=size.queries, stream=size.rows, seed=seed)
    rows, queries = part.stream, part.queries
    chosen = np.random.default_rng(seed).permutation(np.unique(y))[:SOME]
    labelled = np.sort(np.concatenate([np.flatnonzero(y[rows] == c)[: size.each] for c in chosen]))
    known = np.isin(y[queries], chosen)
    found: dict[tuple[int, str], float] = {}
    for plain in PLAIN:
        hasher = started(X[rows], plain, seed)
        for when in ("before", "after"):
            if when == "after":
                hasher.partial_fit(X[rows[labelled]], y[rows[labelled]])
            for which, asked in (("labelled classes", queries[known]), ("the others", queries[~known])):
                found[plain, f"{which}, {when}"] = scores_of(hasher, X, y, rows, asked)[0]
    return found


def show(title: str, first: str, rows: dict[str, list[np.ndarray]]) -> None:
    """Print a table: a row's name -> for each number of plain bits, the figures of all runs."""
    table = Table(title=title, title_justify="left")
    for head in (first, *(f"plain_bits={plain}" for plain in PLAIN)):
        table.add_column(head, justify="right")
    for name, cells in rows.items():
        table.add_row(name, *map(spread, cells))
    console.print(table)


def main(quick: bool = False) -> bool:
    """Print the tables; True where the first labels make no search much worse, with three quarters of plain bits."""
    console.print(machine())
    console.print(hs.show_versions())
    size = QUICK if quick else Size()
    holds = True
    for name in DATASETS:
        data = datasets.load(name)
        X = (datasets.centred_unit(data.X) if name == "mnist" else data.X).astype(np.float32)
        with threadpool_limits(1):
            seen = [measure(X, data.y, run, size) for run in range(size.runs)]
            some = [measure_some(X, data.y, run, size) for run in range(size.runs)]
        for i, metric in enumerate(METRICS):
            rows = {
                f"{n:,}" if n else "none": [np.array([one[plain, n][i] for one in seen]) for plain in PLAIN]
                for n in size.labels
            }
            show(f"{name}, {metric}, {BITS} bits, {size.runs} runs", "labels", rows)
        rows = {
            group: [np.array([one[plain, group] for one in some]) for plain in PLAIN]
            for group in dict.fromkeys(group for _, group in some[0])
        }
        show(f"{name}, precision@10, {size.each} labels for each of {SOME} classes", "queries of", rows)
        before, *after = [np.mean([one[PLAIN[-1], n][0] for one in seen]) for n in size.labels]
        holds &= bool(min(after) > before - WORSE)
    return holds
