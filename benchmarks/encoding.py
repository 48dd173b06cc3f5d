"""`hashstream perf encoding`: what codes cost that do not depend on how rows are cut into blocks.

Rows are random, drawn chunk by chunk, so that memory stays below a gigabyte. Each chunk is encoded in turn by

- encode: `Encoder.encode`;
- unsettled: the same loop of blocks without anything that makes signs independent of rounding;
- plain: a loop of blocks with `X @ W > 0` and `np.packbits`, where bits are the signs of a product;

on one BLAS thread, and the ratio is that of the median CPU times per chunk. Then the same rows are encoded in other
cuts: blocks of 1,777 rows, Fortran order, one and two BLAS threads, and some one by one. Rows whose code is another are
counted, for `encode` and for what it is compared with.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.harness import Ratio, console, in_turn, machine, show
from hashstream import hamming
from hashstream.hashers.encoder import Encoder, block_rows, let_others_run
from hashstream.hashers.threads import on_one_thread

D, BITS, CLASSES = 128, 64, 20
CHUNK = 100_000
CUT = 1_777
ALONE = 200
"""Rows of each chunk that are also encoded one by one."""

Encode = Callable[[np.ndarray], np.ndarray]


def chunks(rows: int, seed: int) -> Iterator[np.ndarray]:
    """Rows (n, 128) float32 of classes that overlap, chunk by chunk."""
    centres = np.random.default_rng(0).standard_normal((CLASSES, D), np.float32) / 3
    for start in range(0, rows, CHUNK):
        rng = np.random.default_rng([seed, start])
        n = min(CHUNK, rows - start)
        yield rng.standard_normal((n, D), np.float32) + centres[rng.integers(CLASSES, size=n)]


def learned(method: str) -> Encoder:
    centres = np.random.default_rng(0).standard_normal((CLASSES, D), np.float32) / 3
    rng = np.random.default_rng(1)
    y = rng.integers(CLASSES, size=5000)
    X = rng.standard_normal((len(y), D), np.float32) + centres[y]
    return hs.methods()[method](n_bits=BITS, random_state=0).partial_fit(X, y).encoder()


def unsettled(encoder: Encoder) -> Encode:
    """The loop of `Encoder.encode`, with signs as rounding leaves them."""

    def encode(X: np.ndarray) -> np.ndarray:
        codes, step = np.empty((len(X), encoder.width), np.uint8), block_rows(X)
        values = np.empty((min(step, len(X)), BITS), X.dtype)
        for start in range(0, len(X), step):
            block, some = X[start : start + step], codes[start : start + step]
            if encoder.product is None:
                some[...] = np.packbits(encoder.project(block) > 0, axis=1)
            else:
                np.matmul(block, encoder.product.matrix, out=values[: len(block)])
                hamming.pack_signs(values[: len(block)], some)
            let_others_run()
        return codes

    return encode


def plain(encoder: Encoder) -> Encode:
    """The loop that anybody would write."""

    def encode(X: np.ndarray) -> np.ndarray:
        step = block_rows(X)
        blocks = (X[start : start + step] for start in range(0, len(X), step))
        return np.concatenate([np.packbits(block @ encoder.projection > 0, axis=1) for block in blocks])

    return encode


def differing(encode: Encode, X: np.ndarray, codes: np.ndarray) -> int:
    """Rows of X whose code is not the same in every cut."""
    wrong = np.zeros(len(X), bool)
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            cut = [encode(X[start : start + CUT]) for start in range(0, len(X), CUT)]
            for other in (np.concatenate(cut), encode(X), encode(np.asfortranarray(X))):
                wrong |= (other != codes).any(axis=1)
    alone = np.concatenate([encode(x[None]) for x in X[:ALONE]])
    wrong[:ALONE] |= (alone != codes[:ALONE]).any(axis=1)
    return int(wrong.sum())


def compare(rows: int, sides: dict[str, Encode], what: str) -> list[Ratio]:
    """Encode `rows` rows by every side; prints the rows that differ between cuts."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    wrong = dict.fromkeys(sides, 0)
    for turn, X in enumerate(chunks(rows, 2)):
        names = list(sides)[turn % len(sides) :] + list(sides)[: turn % len(sides)]
        for name in names:
            with threadpool_limits(1, user_api="blas"):
                start = time.process_time()
                codes = sides[name](X)
                taken[name].append(time.process_time() - start)
            wrong[name] += differing(sides[name], X, codes)
    counts = ", ".join(f"{name} {n:,}" for name, n in wrong.items())
    console.print(f"{what}: rows of {rows:,} with another code in another cut: {counts}", highlight=False)
    times = {name: median(some) for name, some in taken.items()}
    others = [name for name in sides if name != "encode"]
    pairs = [Ratio(what, ("encode", times["encode"]), (name, times[name])) for name in others]
    pairs[0].at_most = 1.1
    if wrong["encode"]:
        count = ("rows that differ", float(wrong["encode"]))
        pairs.append(Ratio(what, count, ("rows", rows), at_most=0, said=lambda n: f"{n:,.0f}"))
    return pairs


def main(quick: bool = False) -> bool:
    """Print the ratios and the counts; True where every target is met and no row differs."""
    console.print(machine())
    console.print(hs.show_versions(), highlight=False)
    ridge, posterior = learned("RidgeHash"), learned("PosteriorHash")
    rows, fewer = (400_000, 20_000) if quick else (4_000_000, 200_000)
    ratios = compare(
        rows,
        {"encode": ridge.encode, "unsettled": unsettled(ridge), "plain": plain(ridge)},
        f"RidgeHash, {rows:,} x {D}, {BITS} bits",
    )
    sides = {"encode": posterior.encode, "unsettled": unsettled(posterior)}
    ratios += compare(fewer, sides, f"PosteriorHash, {fewer:,} x {D}, {BITS} bits")
    query = next(chunks(1, 3))
    for name, encoder in (("RidgeHash", ridge), ("PosteriorHash", posterior)):
        bare = unsettled(encoder)
        taken = in_turn(
            {
                "encode": lambda encoder=encoder: encoder.encode(query),  # type: ignore[misc]
                "unsettled": lambda bare=bare: on_one_thread(lambda: bare(query)),  # type: ignore[misc]
            },
            seconds=0.5 if quick else 2.0,
        )
        top, bottom = taken.items()
        ratios.append(Ratio(f"{name}, one row", top, bottom))
    return show("Encoding", ratios)


if __name__ == "__main__":
    sys.exit(not main("--quick" in sys.argv))
