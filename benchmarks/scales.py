"""`hashstream perf scales`: mAP of FCOH and RidgeHash where the scale of the features moves within the stream, or
single rows are far too long, against an untrained projection on the same data. Not a matter of speed.

Items and queries keep their own scale; only the stream that is learned from is distorted, in
batches of 100 rows. scikit-learn's digits, and MNIST where it is at hand; 32 bits, means over seeds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rich.table import Table

import hashstream as hs
from benchmarks.harness import console, machine
from hashstream import datasets

BATCH = 100
METHODS = ("FCOH", "RidgeHash", "LSH")

Spoil = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def rows_times(factor: float) -> Spoil:
    """Five rows per thousand, times `factor`."""

    def spoil(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = X.copy()
        X[rng.choice(len(X), max(1, len(X) // 200), replace=False)] *= np.float32(factor)
        return X

    return spoil


def drift(k: float) -> Spoil:
    """From 10^-k to 10^k over the stream."""
    return lambda X, rng: (X * 10.0 ** np.linspace(-k, k, len(X))[:, None]).astype(np.float32)


def per_batch(k: float) -> Spoil:
    """10^U(-k, k), drawn for each batch."""

    def spoil(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        scale = 10.0 ** rng.uniform(-k, k, -(-len(X) // BATCH)).repeat(BATCH)[: len(X), None]
        return (X * scale).astype(np.float32)

    return spoil


STREAMS: dict[str, Spoil] = {
    "as it is": lambda X, rng: X,
    "5 rows in 1,000 times 1e2": rows_times(1e2),
    "5 rows in 1,000 times 1e12": rows_times(1e12),
    "1e-1 to 1e1 over the stream": drift(1),
    "1e-5 to 1e5 over the stream": drift(5),
    "1e-2 to 1e2, drawn per batch": per_batch(2),
    "1e-5 to 1e5, drawn per batch": per_batch(5),
}


def score(method: str, X: np.ndarray, y: np.ndarray, spoil: Spoil, stream: int | None, seed: int) -> float:
    part = datasets.split(y, per_class=20, stream=stream, seed=seed)
    learned = spoil(X[part.stream], np.random.default_rng(seed))
    hasher = hs.methods()[method](n_bits=32, random_state=seed)
    for start in range(0, len(learned), BATCH):
        hasher.partial_fit(learned[start : start + BATCH], y[part.stream][start : start + BATCH])
    queries, items = hasher.transform(X[part.queries]), hasher.transform(X[part.retrieval])
    return float(hs.evaluate.retrieval(queries, y[part.queries], items, y[part.retrieval])["mAP"])


def main(quick: bool = False) -> bool:
    """Print every mean; True where none is below the untrained projection by more than 0.01."""
    console.print(machine())
    console.print(hs.show_versions())
    sets: dict[str, int | None] = {"digits": None}
    if datasets.find("mnist") is not None and not quick:
        sets["mnist"] = 10_000
    level = True
    for name, stream in sets.items():
        data = datasets.load(name)
        X, y = datasets.centred_unit(data.X), np.asarray(data.y)
        table = Table("stream", *METHODS, title=f"mAP, {name}, 32 bits")
        for title, spoil in STREAMS.items():
            means = [
                float(
                    np.mean([score(method, X, y, spoil, stream, seed) for seed in range(2 if quick else 4)])
                )
                for method in METHODS
            ]
            level &= min(means) >= means[-1] - 0.01
            table.add_row(title, *(f"{mean:.3f}" for mean in means))
        console.print(table)
    return level
