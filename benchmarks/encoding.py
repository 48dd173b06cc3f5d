"""`hashstream perf encoding`: what codes cost that do not depend on how rows are cut into blocks.

Two sides encode the same rows:

- encode: `Encoder.encode`;
- unsettled: the same loop of blocks without anything that makes signs independent of rounding.

**Time**: the sides encode in turn on one BLAS thread, and the ratio is that of their CPU times: of the medians over
chunks for the many rows, of the lowest times for other shapes. Where bits are the signs of a product, `plain` is shown,
too: a loop of blocks with `X @ W > 0` and `np.packbits`.

**Rows that differ**: each side encodes the same rows again in other cuts: one by one, in blocks of 1,777 rows, in
Fortran order, on one and on two BLAS threads. A row counts where not all of its codes are equal. Rows are

- natural: random rows of classes that overlap, and MNIST where it is found;
- built: pairs of natural rows with another bit, moved towards each other by halving the way 32 times. That bit is a
  matter of rounding. Such rows are rare in nature; they show what may happen to any row.

Rows are made chunk by chunk, so memory stays below a gigabyte.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

import numpy as np
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.harness import Ratio, console, in_turn, machine, show
from hashstream import datasets, hamming
from hashstream.hashers.encoder import Encoder, block_rows, let_others_run
from hashstream.hashers.threads import on_one_thread
from hashstream.hashers.validation import check_finite

D, BITS, CLASSES = 128, 64, 20
CHUNK = 100_000
CUT = 1_777
LIMIT = 1.1
SHAPES = [
    (d, bits, dtype)
    for dtype in ("float32", "float64")
    for d in (16, 128, 512, 1024)
    for bits in (32, 64, 128)
]

Encode = Callable[[np.ndarray], np.ndarray]
Sides = dict[str, Encode]


def rows_of_classes(n: int, d: int, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) float32 of classes that overlap, and their labels."""
    centres = np.random.default_rng(0).standard_normal((CLASSES, d), np.float32) / 3
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    return rng.standard_normal((n, d), np.float32) + centres[y], y


def natural(rows: int, seed: int = 2) -> Iterator[np.ndarray]:
    for start in range(0, rows, CHUNK):
        yield rows_of_classes(min(CHUNK, rows - start), D, [seed, start])[0]


def built(encoder: Encoder, rows: int) -> Iterator[np.ndarray]:
    """Pairs of rows on both sides of the change of a bit, and as near to it as rounding."""
    for X in natural(rows, 3):
        low, high = X[: len(X) // 2].copy(), X[len(X) // 2 :].copy()
        codes = encoder.encode(low)
        place = np.unpackbits(codes ^ encoder.encode(high), axis=1).argmax(axis=1)
        every, byte, bit = np.arange(len(low)), place // 8, np.uint8(7) - (place % 8).astype(np.uint8)
        for _ in range(32):
            middle = (low + high) / 2
            same = ((encoder.encode(middle) ^ codes)[every, byte] >> bit & 1 == 0)[:, None]
            np.copyto(low, middle, where=same)
            np.copyto(high, middle, where=~same)
        yield np.concatenate([low, high])


def learned(method: str, d: int = D, bits: int = BITS, dtype: str = "float32") -> Encoder:
    X, y = rows_of_classes(5000, d, [1])
    return hs.methods()[method](n_bits=bits, random_state=0).partial_fit(X.astype(dtype), y).encoder()


# ---- the sides


def unsettled(encoder: Encoder) -> Encode:
    """The loop of `Encoder.encode`, with signs as rounding leaves them."""

    def encode(X: np.ndarray) -> np.ndarray:
        codes, step = np.empty((len(X), encoder.width), np.uint8), block_rows(X)
        values = np.empty((min(step, len(X)), encoder.n_bits), X.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, len(X), step):
                block, some = X[start : start + step], codes[start : start + step]
                if encoder.product is None:
                    some[...] = np.packbits(encoder.project(check_finite(block)) > 0, axis=1)
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


def both(encoder: Encoder) -> Sides:
    return {"encode": encoder.encode, "unsettled": unsettled(encoder)}


def cpu_times(sides: Sides, X: np.ndarray, turn: int) -> dict[str, float]:
    """CPU seconds of each side on one BLAS thread; another side begins each turn."""
    names, taken = list(sides), {}
    with threadpool_limits(1, user_api="blas"):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.process_time()
            sides[name](X)
            taken[name] = time.process_time() - start
    return taken


# ---- rows that differ


def differing(encode: Encode, X: np.ndarray) -> int:
    """Rows of X whose code is not the same in every cut."""
    with threadpool_limits(1, user_api="blas"):
        codes = encode(X)
        wrong = (np.concatenate([encode(X[i : i + 1]) for i in range(len(X))]) != codes).any(axis=1)
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            cut = [encode(X[start : start + CUT]) for start in range(0, len(X), CUT)]
            for other in (np.concatenate(cut), encode(X), encode(np.asfortranarray(X))):
                wrong |= (other != codes).any(axis=1)
    return int(wrong.sum())


class Count(NamedTuple):
    """Rows that differ, by side."""

    what: str
    origin: str
    rows: int
    wrong: dict[str, int]


def count(what: str, origin: str, sides: Sides, chunks: Iterator[np.ndarray]) -> Count:
    rows, wrong = 0, dict.fromkeys(sides, 0)
    for X in chunks:
        rows += len(X)
        for name, encode in sides.items():
            wrong[name] += differing(encode, X)
    return Count(what, origin, rows, wrong)


def show_counts(counts: list[Count]) -> bool:
    """Print rows that differ; True where none does for `encode`, and some do for `unsettled`."""
    table = Table(title="Rows whose code is another in another cut", title_justify="left")
    for name in ("functions", "rows are", "rows", "unsettled", "encode"):
        table.add_column(name, justify="left" if name in ("functions", "rows are") else "right")
    for one in counts:
        wrong = (f"{one.wrong[name]:,}" for name in ("unsettled", "encode"))
        table.add_row(one.what, one.origin, f"{one.rows:,}", *wrong)
    console.print(table)
    provoked = all(one.wrong["unsettled"] for one in counts if one.origin.startswith("built"))
    if not provoked:
        console.print("MISSED: no row differs without settling, so that these cuts show nothing")
    return provoked and not any(one.wrong["encode"] for one in counts)


# ---- time


def many_rows(rows: int, sides: Sides, what: str) -> list[Ratio]:
    taken = [cpu_times(sides, X, turn) for turn, X in enumerate(natural(rows))]
    times = {name: median(some[name] for some in taken) for name in sides}
    pairs = [
        Ratio(what, ("encode", times["encode"]), (name, times[name])) for name in sides if name != "encode"
    ]
    pairs[0].at_most = LIMIT
    return pairs


def other_shapes(method: str, shapes: list[tuple[int, int, str]], mib: int, turns: int) -> list[Ratio]:
    """The lowest times for X of `mib` MiB."""
    ratios = []
    for d, bits, dtype in shapes:
        X = rows_of_classes((mib << 20) // (d * np.dtype(dtype).itemsize), d, [4])[0].astype(dtype)
        sides = both(learned(method, d, bits, dtype))
        taken = [cpu_times(sides, X, turn) for turn in range(turns)]
        top, bottom = ((name, min(some[name] for some in taken)) for name in sides)
        ratios.append(Ratio(f"{method}, {len(X):,} x {d} {dtype}, {bits} bits", top, bottom, at_most=LIMIT))
    return ratios


def one_row(method: str, encoder: Encoder, seconds: float) -> Ratio:
    query, bare = next(natural(1)), unsettled(encoder)
    sides: dict[str, Callable[[], object]] = {
        "encode": lambda: encoder.encode(query),
        "unsettled": lambda: on_one_thread(lambda: bare(query)),
    }
    top, bottom = in_turn(sides, seconds=seconds).items()
    return Ratio(f"{method}, one row", top, bottom)


def main(quick: bool = False) -> bool:
    """Print the ratios and the counts; True where every target is met and no row differs."""
    console.print(machine())
    console.print(hs.show_versions(), highlight=False)
    ridge, posterior = learned("RidgeHash"), learned("PosteriorHash")
    rows, fewer = (400_000, 20_000) if quick else (4_000_000, 200_000)
    ratios = many_rows(
        rows, {**both(ridge), "plain": plain(ridge)}, f"RidgeHash, {rows:,} x {D}, {BITS} bits"
    )
    ratios += many_rows(fewer, both(posterior), f"PosteriorHash, {fewer:,} x {D}, {BITS} bits")
    ratios += other_shapes("RidgeHash", SHAPES, mib=32, turns=9 if quick else 25)
    some = [shape for shape in SHAPES if shape[1] == BITS] if quick else SHAPES
    ratios += other_shapes("PosteriorHash", some, mib=4, turns=5 if quick else 15)
    for method, encoder in (("RidgeHash", ridge), ("PosteriorHash", posterior)):
        ratios.append(one_row(method, encoder, 0.5 if quick else 2.0))
    met = show("Encoding", ratios)

    counts = []
    for method, encoder, n in (("RidgeHash", ridge, rows), ("PosteriorHash", posterior, fewer)):
        counts.append(count(method, f"natural, {D} features", both(encoder), natural(n)))
        counts.append(count(method, f"built, {D} features", both(encoder), built(encoder, n)))
    if datasets.find("mnist"):
        data = datasets.load("mnist")
        X, y = data.X[:: 10 if quick else 1].astype(np.float32) / 255, data.y[:: 10 if quick else 1]
        encoder = hs.RidgeHash(n_bits=BITS, random_state=0).partial_fit(X[:5000], y[:5000]).encoder()
        counts.append(count("RidgeHash", "natural, MNIST", both(encoder), iter([X])))
    return show_counts(counts) and met


if __name__ == "__main__":
    sys.exit(not main("--quick" in sys.argv))
