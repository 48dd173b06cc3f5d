"""Hamming search against faiss and the memory's speed, evaluation against NumPy's stable argsort.

`hashstream perf hamming` runs `main`; its parts "lookup" and "others" are in hamming_lookup.py. Both sides of every
ratio are called in turn in one run, with the same number of threads, and their results are compared before anything is
timed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import hamming_lookup
from benchmarks.harness import Ratio, console, duration, in_turn, machine, show
from hashstream import _native, hamming
from hashstream.hamming import _kernel

Sides = dict[str, Callable[[], object]]


def random(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Every bit a coin toss: the distances of a query are all much alike."""
    return rng.integers(0, 256, (n, width), dtype=np.uint8)


def clustered(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """100 centres, one bit in eight flipped: some codes are far nearer than most, as with learned codes."""
    centres = np.random.default_rng(1).integers(0, 256, (100, width), dtype=np.uint8)
    flips = rng.integers(0, 256, (3, n, width), dtype=np.uint8)
    chosen: np.ndarray = centres[rng.integers(0, 100, n)] ^ (flips[0] & flips[1] & flips[2])
    return chosen


PICTURE = Path(__file__).parents[1] / "docs" / "results" / "perf-lookup.png"
PARTS = ("scan", "lookup", "others")


def main(quick: bool = False, part: str | None = None) -> bool:
    """Print every table; True where every target was met. `quick` takes fewer codes, queries and rounds."""
    import faiss

    console.print(
        f"{machine()}; numpy {np.__version__}, faiss {faiss.__version__}, kernels: {_native.status()}"
    )
    if not _kernel.available():
        console.print("The compiled kernels are not installed: there is nothing to measure.")
        return False
    met = []
    if part in (None, "scan"):
        met.append(_scan(quick))
    if part in (None, "lookup"):
        met.append(hamming_lookup.report(quick, None if quick else PICTURE))
    if part in (None, "others"):
        met.append(hamming_lookup.compare(quick))
    return all(met)


def _scan(quick: bool) -> bool:
    """Everything that reads all codes."""
    import faiss

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    met = []
    for threads in sorted({1, min(2, cores)}):
        faiss.omp_set_num_threads(threads)
        met.append(show(f"Search, {_threads(threads)}", _search(quick, threads)))
        met.append(show(f"One query, 64 bits, {_threads(threads)}", _bandwidth(quick, threads)))
        met.append(show(f"Evaluation, {_threads(threads)}", _evaluation(quick, threads)))
    met.append(
        show("Cost against the number of codes, 64 bits, top-100, 100 queries, 1 thread", _growth(quick))
    )
    return all(met)


def _threads(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _search(quick: bool, threads: int) -> list[Ratio]:
    """Top-k and radius against faiss."""
    import faiss

    n, n_queries = (100_000, 100) if quick else (1_000_000, 1000)
    ratios = []
    for make in (random, clustered):
        for width, at_least in ((8, 4.0), (4, 2.0), (16, 2.0), (32, 2.0)):
            rng = np.random.default_rng(width)
            codes, queries = make(rng, n, width), make(rng, n_queries, width)
            index = faiss.IndexBinaryFlat(8 * width)
            index.add(codes)
            _same_topk(hamming.topk(queries, codes, 100), index.search(queries, 100))
            sides: Sides = {
                "faiss": partial(index.search, queries, 100),
                "ours": partial(hamming.topk, queries, codes, 100, n_threads=threads),
            }
            name = f"{make.__name__} {n:,} x {8 * width} bit"
            ratios.append(_measure(f"{name}, top-100, {n_queries:,} queries", sides, at_least, quick))
            if width == 8:
                ratios += _search_64_bit(name, codes, queries, index, threads, quick)
    return ratios


def _search_64_bit(
    name: str, codes: np.ndarray, queries: np.ndarray, index: Any, threads: int, quick: bool
) -> list[Ratio]:
    """One query at a time, another one each time; and everything within a radius."""
    ours, theirs = cycle(np.split(queries, len(queries))), cycle(np.split(queries, len(queries)))
    one: Sides = {
        "faiss": lambda: index.search(next(theirs), 100),
        "ours": lambda: hamming.topk(next(ours), codes, 100, n_threads=threads),
    }
    _same_radius(hamming.radius(queries, codes, 2), index.range_search(queries, 3))
    within: Sides = {
        "faiss": partial(index.range_search, queries, 3),  # strictly below
        "ours": partial(hamming.radius, queries, codes, 2, n_threads=threads),
    }
    return [
        _measure(f"{name}, top-100, one query", one, 2.0, quick),
        _measure(f"{name}, radius 2, {len(queries):,} queries", within, 2.0, quick),
    ]


def _measure(work: str, sides: Sides, at_least: float | None, quick: bool) -> Ratio:
    """How many times faster the second side is than the first. Small sizes have no targets.

    Between the sides nothing happens for a moment: the threads that OpenMP keeps for faiss go on spinning
    after a call, and would take a core from whatever comes next.
    """
    (slow, slow_call), (fast, fast_call) = sides.items()
    pause = partial(time.sleep, 0.01)
    turns: Sides = {slow: slow_call, "pause": pause, fast: fast_call}
    times = in_turn(turns, seconds=0.3 if quick else 1.5, least=3)
    return Ratio(work, (slow, times[slow]), (fast, times[fast]), at_least=None if quick else at_least)


def _same_topk(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> None:
    """Equal distances, and equal rows below the k-th distance; at it, faiss may keep any of those tied."""
    if not np.array_equal(ours[0], theirs[0]):
        raise AssertionError("faiss finds other distances")
    for i in range(len(ours[0])):
        sure = ours[0][i] < ours[0][i, -1]
        if set(ours[1][i, sure]) != set(theirs[1][i, sure]):
            raise AssertionError(f"faiss finds other codes for query {i}")


def _same_radius(ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> None:
    if not np.array_equal(ours[0], theirs[0].astype(np.int64)):
        raise AssertionError("faiss finds another number of codes within the radius")
    for i in range(len(ours[0]) - 1):
        mine = slice(ours[0][i], ours[0][i + 1])
        if set(ours[2][mine]) != set(theirs[2][mine]):
            raise AssertionError(f"faiss finds other codes within the radius of query {i}")


def _bandwidth(quick: bool, threads: int) -> list[Ratio]:
    """Time to read the codes and no more, over the time of one query: the share of the memory's speed."""
    ratios = []
    for n, where, at_least in ((1_000_000, "in the cache", None), (10_000_000, "in memory", 0.7)):
        for make in (random, clustered):
            rng = np.random.default_rng(3)
            codes, queries = make(rng, n, 8), cycle(np.split(make(rng, 100, 8), 100))
            read = partial(_kernel.read, codes, threads)
            ratio = _measure("", {"read": read, "one query": _each(queries, codes, threads)}, at_least, quick)
            speeds = " / ".join(f"{codes.nbytes / side[1] / 1e9:.1f}" for side in (ratio.top, ratio.bottom))
            ratio.work = f"{make.__name__} {n:,} x 64 bit, {where}, top-100: {speeds} GB/s"
            ratios.append(ratio)
    return ratios


def _each(queries: Iterator[np.ndarray], codes: np.ndarray, threads: int) -> Callable[[], object]:
    return lambda: hamming.topk(next(queries), codes, 100, n_threads=threads)


def _evaluation(quick: bool, threads: int) -> list[Ratio]:
    """mAP under both tie rules, precision@H2 and precision@K, against a stable argsort."""
    n, n_queries = 69_000, 50 if quick else 1000
    ratios = []
    for make in (random, clustered):
        rng = np.random.default_rng(4)
        codes, queries = make(rng, n, 4), make(rng, n_queries, 4)
        labels = rng.integers(0, 10, n_queries), rng.integers(0, 10, n)
        sides = {
            "argsort": partial(_argsort_scores, queries, codes, labels),
            "ours": partial(_scores, queries, codes, labels, threads),
        }
        np.testing.assert_allclose(sides["ours"](), sides["argsort"](), rtol=1e-9)
        work = f"{make.__name__} {n:,} x 32 bit, {n_queries:,} queries: mAP (both tie rules), P@H2, P@K"
        ratios.append(_measure(work, {**sides}, 10.0, quick))
    return ratios


K = (1, 10, 100)


def _scores(
    queries: np.ndarray, codes: np.ndarray, labels: tuple[np.ndarray, np.ndarray], threads: int
) -> list[float]:
    scores = hamming.stable_scores(queries, codes, labels, k=K, radius=(2,), n_threads=threads)
    stable = scores.precision_sum / scores.n_relevant
    inside = scores.ball_hits[:, 0] / np.maximum(scores.ball_size[:, 0], 1)
    aware = _aware(scores.total, scores.relevant)
    return [float(stable.mean()), aware, float(inside.mean()), *(scores.k_hits.mean(axis=0) / K)]


def _argsort_scores(
    queries: np.ndarray, codes: np.ndarray, labels: tuple[np.ndarray, np.ndarray]
) -> list[float]:
    """The same with NumPy alone: distances of one byte each, of which the stable sort is a radix sort."""
    words, wanted = codes.view(np.uint32)[:, 0], queries.view(np.uint32)[:, 0]
    ranks = np.arange(1, len(codes) + 1)
    stable, inside, within = [], [], []
    total, relevant = np.zeros((2, len(queries), 33), np.int64)
    for i, (query, label) in enumerate(zip(wanted, labels[0], strict=True)):
        far = np.bitwise_count(words ^ query)
        hit = labels[1] == label
        ranked = hit[np.argsort(far, kind="stable")]
        hits = np.cumsum(ranked)
        stable.append((hits[ranked] / ranks[ranked]).mean())
        within.append([hits[k - 1] / k for k in K])
        total[i], relevant[i] = np.bincount(far, minlength=33), np.bincount(far[hit], minlength=33)
        inside.append(relevant[i, :3].sum() / max(total[i, :3].sum(), 1))
    return [float(np.mean(stable)), _aware(total, relevant), float(np.mean(inside)), *np.mean(within, axis=0)]


def _aware(total: np.ndarray, relevant: np.ndarray) -> float:
    """mAP expected over random orders of tied codes, from histograms (q, bins).

    Of n tied codes with r relevant ones, after N codes with R relevant ones, the j-th (from 0) is relevant
    with probability r / n, and R + 1 + j (r - 1) / (n - 1) codes up to it then are on average. The sum over j
    of that over N + 1 + j has a closed form with harmonic numbers.
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, total[0].sum() + 1))])
    before, hits_before = np.cumsum(total, axis=1) - total, np.cumsum(relevant, axis=1) - relevant
    slope = (relevant - 1) / np.maximum(total - 1, 1)
    spread = harmonic[before + total] - harmonic[before]
    sums = slope * total + (hits_before + 1 - slope * (before + 1)) * spread
    expected = (relevant / np.maximum(total, 1) * sums).sum(axis=1)
    return float((expected / relevant.sum(axis=1)).mean())


def _growth(quick: bool) -> list[Ratio]:
    """Ten times the codes, at most about ten times the time."""
    sizes = (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000)
    rng = np.random.default_rng(5)
    codes, queries = random(rng, sizes[-1], 8), random(rng, 100, 8)
    sides: Sides = {f"{n:,}": partial(hamming.topk, queries, codes[:n], 100, n_threads=1) for n in sizes}
    times = list(in_turn(sides, seconds=0.5, least=3).items())
    ratios = []
    for small, large in pairwise(times):
        each = large[1] / int(large[0].replace(",", "")) / len(queries)
        work = f"{large[0]} codes: {duration(each)} for a code and a query"
        ratios.append(Ratio(work, large, small, at_most=None if quick else 12.0))
    return ratios
