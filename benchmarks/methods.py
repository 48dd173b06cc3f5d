"""`hashstream perf methods`: the time of every method to learn a stream, over that of its own matrix products.

Seconds for 20,000 instances (2,000 with --quick) at the paper's three shapes, 32 and 128 bits, float32, one thread of
BLAS, validation and all. Each `methods_*.py` says what its floors contain; FCOH's is that of
`hashstream perf fcoh`, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks import methods_codewords, methods_matrix, methods_mutual, methods_pairs
from benchmarks.fcoh import stream
from benchmarks.harness import Ratio, console, in_turn, machine, show

SHAPES = {"CIFAR-10": (4096, 10), "MNIST": (784, 10), "Places205": (128, 205)}
Entry = tuple[Callable[[int], Any], Callable[[np.ndarray, int], Callable[[], Any]], float | None]


def fcoh_floor(X: np.ndarray, n_bits: int) -> Callable[[], object]:
    """Gram matrix, projection and rank-n update of every 100 rows."""
    W = np.ones((X.shape[1], n_bits), X.dtype)
    C = np.ones((100, n_bits), X.dtype)

    def floor() -> None:
        for start in range(0, len(X), 100):
            part = X[start : start + 100]
            _ = part @ part.T, part @ W, part.T @ C[: len(part)]

    return floor


def lsh_floor(X: np.ndarray, n_bits: int) -> Callable[[], object]:
    """Nothing is learned: the features are read once."""
    return lambda: float(np.dot(X.ravel(), X.ravel()))


METHODS: dict[str, Entry] = {
    "FCOH": (lambda n_bits: hs.FCOH(n_bits, random_state=0), fcoh_floor, None),
    **methods_pairs.METHODS,
    **methods_matrix.METHODS,
    **methods_codewords.METHODS,
    **methods_mutual.METHODS,
    "LSH": (lambda n_bits: hs.LSH(n_bits, random_state=0), lsh_floor, None),
}
"""Name -> how to make it, how to make its floor, and what the ratio should not exceed (None: no target)."""


def one(name: str, X: np.ndarray, y: np.ndarray, n_bits: int, work: str) -> Ratio:
    make_hasher, make_floor, at_most = METHODS[name]
    sides = {name: lambda: make_hasher(n_bits).partial_fit(X, y), "floor": make_floor(X, n_bits)}
    times = in_turn(sides, seconds=0.2, least=1)
    return Ratio(work, (name, times[name]), ("floor", times["floor"]), at_most=at_most)


def main(quick: bool = False) -> bool:
    """Print every ratio; True where every target was met."""
    missing = set(hs.methods()) - set(METHODS)
    if missing:
        raise AssertionError(f"no benchmark for {', '.join(sorted(missing))}")
    n = 2_000 if quick else 20_000
    console.print(machine())
    console.print(hs.show_versions())
    met = True
    with threadpool_limits(1):
        for shape, (d, classes) in SHAPES.items():
            X, y = stream(d, n, classes)
            for n_bits in (32, 128):
                work = f"{shape}: {n:,} x {d}, {n_bits} bits"
                met &= show(work, [one(name, X, y, n_bits, work) for name in hs.methods()])
    return met
