"""`hashstream perf fcoh`: the cost of one batch, compared with the literal equations and with matrix products alone.

- literal: the paper's matrix forms, class by class, in NumPy (`hashers/fcoh_literal.py`).
- floor: the batch's Gram matrix, one projection and one rank-n update, as plain matrix products.
- ours: `FCOH.partial_fit` at the same settings, validation and all; and with its default, learning_rate="auto".

float32 on all sides, one and two threads of BLAS.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.harness import Ratio, console, in_turn, machine, show
from hashstream.hashers.fcoh_literal import LiteralFCOH

SHAPES = {
    # name: d, n_t, classes, {bits: literal / ours at least}, ours / floor at most (32 bits)
    "CIFAR-10": (4096, 100, 10, {32: 8.0, 128: 5.0}, 3.0),
    "MNIST": (784, 100, 10, {32: 6.0, 128: 4.0}, 4.0),
    "Places205": (128, 1000, 205, {32: 10.0, 128: 10.0}, 10.0),
}
SETTINGS = {"lambda1": 0.1, "lambda2": 0.01, "mu": 1e-4}
"""Any setting that stays finite: the time does not depend on it."""


def stream(d: int, n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes with unit-length rows: X (n, d) float32, y (n,) int64."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d))[y] + 2 * rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float32), y


def same_codes(X: np.ndarray, y: np.ndarray, W0: np.ndarray, name: str) -> None:
    """Both sides give the same codes, or AssertionError.

    In double precision: where a projection is within rounding of zero the two orders of summation may differ in a bit,
    and in single precision over 205 class steps such bits are common enough (some in a thousand) to grow.
    """
    X, W0 = X.astype(np.float64), W0.astype(np.float64)
    mu, lambda1, lambda2 = SETTINGS["mu"], SETTINGS["lambda1"], SETTINGS["lambda2"]
    literal = LiteralFCOH(W0, mu, lambda1, lambda2)
    literal.partial_fit(X, y)
    ours = hs.FCOH(
        W0.shape[1], learning_rate=mu, lambda1=lambda1, lambda2=lambda2, batch_size=len(X), init=W0
    )
    if not np.array_equal(ours.partial_fit(X, y).transform(X), np.packbits(X @ literal.W > 0, axis=1)):
        raise AssertionError(f"{name}, {W0.shape[1]} bits: codes differ from those of the literal equations")


def one_shape(name: str, bits: int, threads: int, seconds: float) -> list[Ratio]:
    d, n_t, classes, at_least, at_most = SHAPES[name]
    X, y = stream(d, n_t, classes)
    W0 = np.random.default_rng(1).standard_normal((d, bits)).astype(np.float32)
    W0 /= np.linalg.norm(W0, axis=0)
    mu, lambda1, lambda2 = SETTINGS["mu"], SETTINGS["lambda1"], SETTINGS["lambda2"]
    literal = LiteralFCOH(W0, mu, lambda1, lambda2)
    ours = hs.FCOH(
        bits, learning_rate=mu, lambda1=lambda1, lambda2=lambda2, batch_size=n_t, init=W0, random_state=0
    )
    automatic = hs.FCOH(bits, batch_size=n_t, random_state=0)
    same_codes(X, y, W0, name)
    W, C = W0.copy(), np.ones((n_t, bits), np.float32)

    def floor() -> object:
        return X @ X.T, X @ W, X.T @ C

    with threadpool_limits(threads):
        times = in_turn(
            {
                "literal": lambda: literal.partial_fit(X, y),
                "ours": lambda: ours.partial_fit(X, y),
                "auto": lambda: automatic.partial_fit(X, y),
                "floor": floor,
            },
            seconds=seconds,
        )
    side = {key: (key, value) for key, value in times.items()}
    work = f"{name}, {bits} bits, {threads} thread{'s' * (threads > 1)}"
    return [
        Ratio(work, side["literal"], side["ours"], at_least=at_least[bits]),
        Ratio(work, side["ours"], side["floor"], at_most=at_most if bits == 32 else None),
        Ratio(work, side["auto"], side["floor"]),
    ]


def encoding(name: str, bits: int, threads: int, seconds: float) -> Ratio:
    """`transform` compared with the matrix product alone."""
    d, _, classes, _, _ = SHAPES[name]
    X, y = stream(d, 20_000 if d < 4096 else 5_000, classes)
    hasher = hs.FCOH(bits, random_state=0).partial_fit(X[:500], y[:500])
    W = hasher.projection_
    with threadpool_limits(threads):
        times = in_turn({"transform": lambda: hasher.transform(X), "X @ W": lambda: X @ W}, seconds=seconds)
    work = f"encode {len(X)} x {d}, {bits} bits, {threads} thread{'s' * (threads > 1)}"
    return Ratio(work, ("transform", times["transform"]), ("X @ W", times["X @ W"]), at_most=1.3)


def main(quick: bool = False) -> bool:
    """Print every ratio; True where every target was met."""
    seconds = 0.3 if quick else 1.5
    console.print(machine())
    console.print(hs.show_versions())
    met = True
    for threads in (1, 2):
        ratios = [r for name in SHAPES for bits in (32, 128) for r in one_shape(name, bits, threads, seconds)]
        met &= show(f"One batch, {threads} thread(s)", ratios)
        ratios = [encoding(name, bits, threads, seconds) for name in SHAPES for bits in (32, 128)]
        met &= show(f"Encoding, {threads} thread(s)", ratios)
    return met
