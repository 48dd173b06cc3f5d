"""The methods that are made of matrix products over batches: BSODH, SketchHash, FROSH, RidgeHash and PosteriorHash.

`METHODS`: name -> (make_hasher, make_floor, at most). `make_hasher(n_bits)` gives a hasher, `make_floor(X, n_bits)` a
callable that does the method's own products and factorisations for all of X, and nothing else: the calls of BLAS and
LAPACK that the method cannot do without, on ready-made arrays of the same shapes and precision, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.harness import Ratio, console, in_turn, machine, show
from hashstream.hashers import posterior_steps
from hashstream.hashers.bsodh import BSODH
from hashstream.hashers.frosh import FROSH
from hashstream.hashers.posterior import PosteriorHash
from hashstream.hashers.posterior_state import BLOCK
from hashstream.hashers.ridge import RidgeHash
from hashstream.hashers.sketchhash import SketchHash

Floor = Callable[[], object]

SKETCH, CHUNK = 200, 1024
SHAPES = {4096: 10, 784: 10, 128: 205}
"""d -> classes."""


def batches(X: np.ndarray, rows: int) -> list[np.ndarray]:
    return [X[start : start + rows] for start in range(0, len(X), rows)]


def bsodh_floor(X: np.ndarray, n_bits: int) -> Floor:
    """For each batch of 2,000 X W; and for all but the first, which W is not fitted to, the smaller Gram matrix, X^T B,
    B^T B of the batch before, and the sweep's B M as one product (float64)."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((X.shape[1], n_bits)).astype(X.dtype)
    B = np.sign(rng.standard_normal((2000, n_bits)))
    M = rng.standard_normal((n_bits, n_bits))
    small, single = B.astype(X.dtype), B.astype(np.float32)

    def floor() -> None:
        for number, batch in enumerate(batches(X, 2000)):
            n, d = batch.shape
            _ = batch @ W
            if number:
                _ = batch.T @ batch if d <= n else batch @ batch.T, batch.T @ small[:n]
                _ = single.T @ single, B[:n] @ M

    return floor


def sketch_floor(X: np.ndarray, n_bits: int) -> Floor:
    """For each batch of 50: of l/2 + 51 rows the smaller Gram matrix, its eigenvectors, the rows turned by them where
    they are fewer than d; a rotation drawn (QR); V Q."""
    rng = np.random.default_rng(0)
    n, d = SKETCH // 2 + 51, X.shape[1]
    rows = rng.standard_normal((n, d)).astype(X.dtype)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0].astype(X.dtype)
    V, G = rows[:n_bits].T.copy(), rng.standard_normal((n_bits, n_bits)).astype(X.dtype)

    def floor() -> None:
        for _ in batches(X, 50):
            gram = rows @ rows.T if n <= d else rows.T @ rows
            _ = np.linalg.eigh(gram), U @ rows if n <= d else None, V @ np.linalg.qr(G)[0]

    return floor


def frosh_floor(X: np.ndarray, n_bits: int) -> Floor:
    """For each chunk of 1,024: the Hadamard matrices of order 32 on both axes, and a sketch of l rows as above."""
    rng = np.random.default_rng(0)
    d = X.shape[1]
    H = np.ones((32, 32), X.dtype)
    rows = rng.standard_normal((SKETCH, d)).astype(X.dtype)
    U = np.linalg.qr(rng.standard_normal((SKETCH, SKETCH)))[0].astype(X.dtype)
    V, G = rows[:n_bits].T.copy(), rng.standard_normal((n_bits, n_bits)).astype(X.dtype)
    chunk = np.zeros((CHUNK, d), X.dtype)

    def floor() -> None:
        for _ in batches(X, CHUNK):
            _ = H @ chunk.reshape(32, 32 * d), H @ chunk.reshape(32, 32, d)
            gram = rows @ rows.T if d >= SKETCH else rows.T @ rows
            _ = np.linalg.eigh(gram), U @ rows if d >= SKETCH else None, V @ np.linalg.qr(G)[0]

    return floor


def ridge_floor(X: np.ndarray, n_bits: int) -> Floor:
    """For each batch of 1,000: X^T X."""

    def floor() -> None:
        for batch in batches(X, 1000):
            _ = batch.T @ batch

    return floor


def posterior_floor(X: np.ndarray, n_bits: int) -> Floor:
    """For each block of 500: the reduction of long rows, the random features, Z^T Z. Without a solution, as learning
    has none."""
    d, width = X.shape[1], PosteriorHash().width
    linear = d if d <= posterior_steps.MOST_LINEAR else posterior_steps.REDUCED
    q = linear if linear <= posterior_steps.FEW_FEATURES else posterior_steps.PRINCIPAL
    reduction, basis, directions = (
        np.ones(shape, X.dtype) for shape in ((d, linear), (linear, q), (q, width))
    )
    Z = np.ones((BLOCK, linear + width), X.dtype)

    def floor() -> None:
        for batch in batches(X, BLOCK):
            Y = batch if linear == d else batch @ reduction
            S = Y if linear == q else Y @ basis
            part = Z[: len(batch)]
            _ = S @ directions, part.T @ part

    return floor


METHODS: dict[str, tuple[Callable[[int], Any], Callable[[np.ndarray, int], Floor], float | None]] = {
    "BSODH": (lambda n_bits: BSODH(n_bits, random_state=0), bsodh_floor, 3.0),
    "SketchHash": (
        lambda n_bits: SketchHash(n_bits, sketch_size=SKETCH, batch_size=50, random_state=0),
        sketch_floor,
        3.0,
    ),
    "FROSH": (
        lambda n_bits: FROSH(n_bits, sketch_size=SKETCH, batch_size=CHUNK, random_state=0),
        frosh_floor,
        None,
    ),
    "RidgeHash": (lambda n_bits: RidgeHash(n_bits, random_state=0), ridge_floor, None),
    "PosteriorHash": (lambda n_bits: PosteriorHash(n_bits, random_state=0), posterior_floor, None),
}


def stream(d: int, n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes with unit-length rows: X (n, d) float32, y (n,)."""
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d), np.float32)[y] + 2 * rng.standard_normal((n, d), np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y


def over_floor(name: str, X: np.ndarray, y: np.ndarray, bits: int, rounds: int) -> Ratio:
    make_hasher, make_floor, at_most = METHODS[name]
    sides: dict[str, Floor] = {
        name: lambda: make_hasher(bits).partial_fit(X, y),
        "floor": make_floor(X, bits),
    }
    times = in_turn(sides, seconds=0.1, least=rounds)
    work = f"{len(X):,} x {X.shape[1]}, {bits} bits"
    return Ratio(work, (name, times[name]), ("floor", times["floor"]), at_most=at_most)


def long_chunks(X: np.ndarray, rounds: int) -> Ratio:
    """The time saved by compressing chunks before they are sketched."""
    sides: dict[str, Floor] = {
        "SketchHash": lambda: SketchHash(
            32, sketch_size=SKETCH, batch_size=CHUNK, random_state=0
        ).partial_fit(X),
        "FROSH": lambda: FROSH(32, sketch_size=SKETCH, batch_size=CHUNK, random_state=0).partial_fit(X),
    }
    times = in_turn(sides, seconds=0.1, least=rounds)
    work = f"{len(X):,} x {X.shape[1]}, 32 bits, chunks of {CHUNK}"
    return Ratio(work, ("SketchHash", times["SketchHash"]), ("FROSH", times["FROSH"]), at_least=1.5)


def main(quick: bool = False) -> bool:
    """Print every ratio, and FROSH against SketchHash on chunks of one length; True where every target was met."""
    console.print(machine())
    console.print(hs.show_versions())
    n, rounds = (6_000, 1) if quick else (20_000, 3)
    ratios, chunks = [], []
    with threadpool_limits(1):
        for d, classes in SHAPES.items():
            X, y = stream(d, n, classes)
            ratios += [over_floor(name, X, y, bits, rounds) for bits in (32, 128) for name in METHODS]
            chunks.append(long_chunks(X, rounds))
    met = show(f"Learning {n:,} rows, 1 thread, compared with the method's own matrix products", ratios)
    return show("A chunk compressed first (FROSH), or row after row (SketchHash)", chunks) and met
