"""`hashstream perf twins`: what an install without a C compiler costs: each NumPy twin against its kernel, one thread.

The first use of a twin warns with figures of this benchmark (`hashstream._native.warn_if_slow`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.fcoh import stream
from benchmarks.harness import Ratio, console, in_turn, machine, show
from hashstream.hamming import _kernel, _twin
from hashstream.hashers.kernels import adapthash, codewords, fcoh, mihash, okh, posterior, settle

LEARNED = {"FCOH": 1000, "PosteriorHash": 1000, "OKH": 200, "AdaptHash": 200, "MIHash": 200, "HCOH": 200}
"""Rows of a batch by method."""


def without_kernels(work: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        with ExitStack() as stack:
            for module in (adapthash, codewords, fcoh, mihash, okh, posterior):
                stack.enter_context(mock.patch.object(module, "KERNEL", {}))
            for name in ("SQUARES", "SETTLE", "UNSURE"):
                stack.enter_context(mock.patch.object(settle, name, {}))
            work()

    return run


def searching(n_bits: int, n_queries: int, seconds: float) -> Ratio:
    """Top-10 of random codes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (100_000, n_bits // 8), np.uint8)
    queries = rng.integers(0, 256, (n_queries, n_bits // 8), np.uint8)
    times = in_turn(
        {
            "twin": lambda: _twin.topk(queries, codes, 10, None, 1),
            "kernel": lambda: _kernel.topk(queries, codes, 10, None, 1),
        },
        seconds=seconds,
    )
    work = f"top-10 of 100,000 x {n_bits} bits, {n_queries} quer{'y' if n_queries == 1 else 'ies'}"
    return Ratio(work, ("twin", times["twin"]), ("kernel", times["kernel"]))


def learning(method: str, seconds: float) -> Ratio:
    """One batch, to a model that has seen one."""
    n = LEARNED[method]
    X, y = stream(128, 2 * n, 10)
    first = hs.methods()[method](n_bits=32, random_state=0).partial_fit(X[:n], y[:n])

    def learn() -> None:
        copy.deepcopy(first).partial_fit(X[n:], y[n:])

    times = in_turn({"twin": without_kernels(learn), "kernel": learn}, seconds=seconds)
    return Ratio(
        f"{method}, a batch of {n} x 128, 32 bits", ("twin", times["twin"]), ("kernel", times["kernel"])
    )


def encoding(seconds: float) -> Ratio:
    X, y = stream(128, 20_000, 10)
    hasher = hs.FCOH(32, random_state=0).partial_fit(X[:500], y[:500])

    def encode() -> None:
        hasher.transform(X)

    times = in_turn({"twin": without_kernels(encode), "kernel": encode}, seconds=seconds)
    return Ratio("encode 20,000 x 128, 32 bits", ("twin", times["twin"]), ("kernel", times["kernel"]))


def main(quick: bool = False) -> bool:
    """Print every ratio. There is no target."""
    if not _kernel.available():
        console.print("There are no kernels here: the package was installed without a C compiler.")
        return False
    seconds = 0.3 if quick else 1.5
    console.print(machine())
    with threadpool_limits(1):
        rows = [searching(n_bits, q, seconds) for n_bits in (32, 64) for q in (1, 100)]
        rows += [encoding(seconds)] + [learning(method, seconds) for method in LEARNED]
    return show("Twins and kernels, 1 thread", rows)
