"""`MultiIndex` against the scan and against the indexes of others: a part of `hashstream perf hamming`.

Learned codes are those of FCOH after 20,000 rows of `datasets.Stream(n, 128, 205, spread=1.0)`; random ones, in which
nothing is near, are the hard case. Everything runs on one thread. Answers are compared with the scan's before anything
is timed; other engines are shown at the recall that they reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress
from rich.table import Table

import hashstream as hs
from benchmarks.harness import Ratio, console, duration, in_turn, show
from hashstream import datasets, hamming
from hashstream._machine import size
from hashstream.hamming import MultiIndex

D, CLASSES, TRAINED = 128, 205, 20_000
QUERIES, K = 1000, 10
PIECE = 50_000


def learned(n: int, n_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n, width) and queries (1000, width) of one stream."""
    stream = datasets.Stream(n + TRAINED + QUERIES, D, CLASSES, spread=1.0)
    hasher = hs.FCOH(n_bits, random_state=0)
    for X, y in stream.batches(1000, begin=0, end=TRAINED):
        hasher.partial_fit(X, y)
    codes = np.empty((n + QUERIES, -(-n_bits // 8)), np.uint8)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"{n:,} learned codes of {n_bits} bits", total=n)
        for start in range(0, len(codes), PIECE):
            stop = min(start + PIECE, len(codes))
            codes[start:stop] = hasher.transform(stream.rows(TRAINED + start, TRAINED + stop)[0])
            bar.update(task, completed=stop)
    return codes[:n], codes[n:]


def uniform(n: int, n_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Random codes and queries."""
    codes = np.random.default_rng(0).integers(0, 256, (n + QUERIES, n_bits // 8), np.uint8)
    return codes[:n], codes[n:]


def one_by_one(search: Callable[[np.ndarray], object], queries: np.ndarray) -> Callable[[], object]:
    """Search for one query after the other."""
    each = np.split(queries, len(queries))

    def run() -> None:
        for query in each:
            search(query)

    return run


class Measured:
    """The time per query of several ways to search the same codes."""

    def __init__(self, codes: np.ndarray, queries: np.ndarray, quick: bool) -> None:
        self.codes, self.queries, self.seconds = codes, queries, 1.0 if quick else 6.0
        clock = time.process_time()
        self.index = MultiIndex(codes)
        self.built = time.process_time() - clock
        self._agree()

    def _agree(self) -> None:
        some = self.queries[:100]
        found, wanted = self.index.topk(some, K), hamming.topk(some, self.codes, K)
        near, all_near = self.index.radius(some, 2), hamming.radius(some, self.codes, 2)
        for one, other in zip((*found, *near), (*wanted, *all_near), strict=True):
            np.testing.assert_array_equal(one, other)

    def scan(self, Q: np.ndarray) -> object:
        return hamming.topk(Q, self.codes, K, n_threads=1)

    def look_up(self, Q: np.ndarray) -> object:
        return self.index.topk(Q, K, n_threads=1)

    def single(self, others: dict[str, Callable[[np.ndarray], object]] | None = None) -> dict[str, float]:
        """Mean seconds per query, one at a time; the index over all queries, the others over a few."""
        few = self.queries[:: max(1, len(self.queries) // 20)]
        sides = {
            "scan": (one_by_one(self.scan, few), len(few)),
            "multi-index": (one_by_one(self.look_up, self.queries), len(self.queries)),
        }
        for name, search in (others or {}).items():
            sides[name] = (one_by_one(search, few), len(few))
        taken = in_turn({name: run for name, (run, _) in sides.items()}, seconds=self.seconds, long=20.0)
        return {name: taken[name] / count for name, (_, count) in sides.items()}

    def together(self) -> dict[str, float]:
        """Seconds per query of all of them at once."""
        few = self.queries[:200]
        sides: dict[str, Callable[[], object]] = {
            "scan": partial(self.scan, few),
            "multi-index": partial(self.look_up, self.queries),
        }
        taken = in_turn(sides, seconds=self.seconds, long=20.0)
        return {"scan": taken["scan"] / len(few), "multi-index": taken["multi-index"] / len(self.queries)}

    def within(self, radius: int) -> dict[str, float]:
        """Seconds per query, one at a time, of all codes within a radius."""
        few = self.queries[:20]
        scan = partial(hamming.radius, codes=self.codes, radius=radius, n_threads=1)
        look_up = partial(self.index.radius, radius=radius, n_threads=1)
        sides = {"scan": one_by_one(scan, few), "multi-index": one_by_one(look_up, self.queries)}
        taken = in_turn(sides, seconds=self.seconds, long=20.0)
        return {"scan": taken["scan"] / len(few), "multi-index": taken["multi-index"] / len(self.queries)}

    def slowest(self) -> float:
        """The time of the slowest query, each the fastest of three, over that of a scan."""
        times = []
        for query in np.split(self.queries, len(self.queries)):
            each = []
            for _ in range(3):
                clock = time.perf_counter()
                self.look_up(query)
                each.append(time.perf_counter() - clock)
            times.append(min(each))
        scans = in_turn({"scan": partial(self.scan, self.queries[:1])}, seconds=1.0)["scan"]
        return max(times) / scans


def ratio(work: str, times: dict[str, float], at_least: float | None, top: str = "scan") -> Ratio:
    return Ratio(work, (top, times[top]), ("multi-index", times["multi-index"]), at_least=at_least)


def report(quick: bool, picture: Path | None = None) -> bool:
    """Print the tables; True where every target was met. picture : where the plot of the growth is written."""
    import faiss

    faiss.omp_set_num_threads(1)
    scale = 100 if quick else 1
    met, growth = True, {}
    rows: list[Ratio] = []
    large = 10_000_000 // scale
    for make in (learned, uniform):
        for n in (100_000, 1_000_000, 10_000_000, 30_000_000):
            n //= scale
            m = Measured(*make(n, 64), quick)
            growth[make.__name__, n] = times = m.single(_faiss_flat(m) if n == large else None)
            name = f"{make.__name__}, {n:,} x 64 bits"
            wanted = not quick and n == large and make is learned
            rows.append(ratio(f"{name}, top-10, one query", times, 20.0 if wanted else None))
            if n == large:
                rows.append(ratio(f"{name}, top-10, one query", times, 60.0 if wanted else None, "faiss"))
                rows.append(ratio(f"{name}, top-10, 1,000 queries", m.together(), 7.0 if wanted else None))
                rows.append(ratio(f"{name}, radius 2", m.within(2), 100.0 if wanted else None))
            rows.append(_worst(name, m, quick))
            _say(name, m)
            del m
    for n_bits, n, at_least in ((32, 1_000_000, 5.0), (128, 10_000_000, 3.0)):
        m = Measured(*learned(n // scale, n_bits), quick)
        name = f"learned, {n // scale:,} x {n_bits} bits"
        rows.append(ratio(f"{name}, top-10, one query", m.single(), None if quick else at_least))
        rows.append(_worst(name, m, quick))
        _say(name, m)
        del m
    met &= show("Looking codes up, 1 thread", rows)
    others(quick)
    if picture is not None:
        growth_picture(growth, picture)
    return met


def _worst(name: str, m: Measured, quick: bool) -> Ratio:
    return Ratio(
        f"{name}: the slowest query",
        ("multi-index", m.slowest()),
        ("scan", 1.0),
        at_most=None if quick else 1.2,
        said=lambda value: f"{value:.2f}",
    )


def _say(name: str, m: Measured) -> None:
    substrings = ", ".join(str(len(one)) for one in m.index.substrings)
    per_item = m.index.nbytes / len(m.codes)
    console.print(
        f"{name}: {m.index.n_distinct:,} distinct, substrings of {substrings} bits, {size(m.index.nbytes)} "
        f"({per_item:.1f} bytes per item), built in {m.built:.2f} s of CPU time"
    )


def _faiss_flat(m: Measured) -> dict[str, Callable[[np.ndarray], object]]:
    import faiss

    flat = faiss.IndexBinaryFlat(8 * m.codes.shape[1])
    flat.add(m.codes)
    return {"faiss": lambda Q: flat.search(Q, K)}


def others(quick: bool) -> None:
    """Indexes of others at 1 million codes, each at the recall that it reaches, beside ours."""
    n = 20_000 if quick else 1_000_000
    for make in (learned, uniform):
        codes, queries = make(n, 64)
        wanted = hamming.topk(queries, codes, K).distances
        table = Table(title=f"{make.__name__}, {n:,} x 64 bits, top-10, one query", title_justify="left")
        for column in ("index", "time per query", "recall@10", "built in"):
            table.add_column(column, justify="left" if column == "index" else "right")
        for name, build in engines(codes).items():
            clock = time.perf_counter()
            search = build()
            built = time.perf_counter() - clock
            few = queries[:200]
            found = np.concatenate([search(query) for query in np.split(few, len(few))])
            # Ties may be broken in any way: a found code counts where it is no farther away than the true one.
            recall = float((found[:, :K] <= wanted[: len(few), -1:]).mean())
            times = in_turn({"it": one_by_one(search, few)}, seconds=0.5 if quick else 2.0, long=20.0)
            table.add_row(name, duration(times["it"] / len(few)), f"{recall:.3f}", duration(built))
        console.print(table)


def engines(codes: np.ndarray) -> dict[str, Callable[[], Callable[[np.ndarray], np.ndarray]]]:
    """Name -> a function that builds an index, and returns the one that searches it for distances (q, 10)."""
    import faiss

    d = 8 * codes.shape[1]

    def of_faiss(index: Any) -> Callable[[np.ndarray], np.ndarray]:
        index.add(codes)

        def search(Q: np.ndarray) -> np.ndarray:
            far, rows = index.search(Q, K)
            return np.where(rows < 0, 1 << 20, far)

        return search

    coarse = faiss.IndexBinaryFlat(d)  # has to outlive the index that uses it

    def ivf() -> Callable[[np.ndarray], np.ndarray]:
        index: Any = faiss.IndexBinaryIVF(coarse, d, 1024)
        index.nprobe = 16
        index.train(codes[:100_000])
        return of_faiss(index)

    def ours() -> Callable[[np.ndarray], np.ndarray]:
        index = MultiIndex(codes)
        return lambda Q: index.topk(Q, K, n_threads=1).distances

    found = {
        "hashstream MultiIndex": ours,
        "hashstream scan": lambda: lambda Q: hamming.topk(Q, codes, K, n_threads=1).distances,
        "faiss IndexBinaryFlat": lambda: of_faiss(faiss.IndexBinaryFlat(d)),
        "faiss IndexBinaryMultiHash, 3 x 20 bits": lambda: of_faiss(faiss.IndexBinaryMultiHash(d, 3, 20)),
        "faiss IndexBinaryHash, 20 bits": lambda: of_faiss(faiss.IndexBinaryHash(d, 20)),
        "faiss IndexBinaryIVF, 1,024 lists, 16 probed": ivf,
        "faiss IndexBinaryHNSW, 16 links": lambda: of_faiss(faiss.IndexBinaryHNSW(d, 16)),
    }
    return found | usearch_of(codes)


def usearch_of(codes: np.ndarray) -> dict[str, Callable[[], Callable[[np.ndarray], np.ndarray]]]:
    """usearch's HNSW, where it is installed."""
    try:
        from usearch.index import Index, MetricKind, ScalarKind
    except ImportError:
        console.print("usearch is not installed, and left out: pip install usearch")
        return {}

    def build() -> Callable[[np.ndarray], np.ndarray]:
        index = Index(ndim=8 * codes.shape[1], metric=MetricKind.Hamming, dtype=ScalarKind.B1)
        index.add(np.arange(len(codes)), codes, threads=1)

        def search(Q: np.ndarray) -> np.ndarray:
            found = index.search(Q, K, threads=1)
            far = np.full((len(Q), K), 1 << 20)
            distances = np.atleast_2d(found.distances)
            far[:, : distances.shape[1]] = distances
            return far

        return search

    return {"usearch, HNSW": build}


def growth_picture(growth: dict[tuple[str, int], dict[str, float]], path: Path) -> None:
    """Time per query against the number of codes, both axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    styles = {"learned": "-", "uniform": ":"}
    colours = {"scan": "#333333", "multi-index": "#0b5fa5"}
    for kind, line in styles.items():
        sizes = sorted(n for name, n in growth if name == kind)
        for side, colour in colours.items():
            times = [growth[kind, n][side] * 1e6 for n in sizes]
            name = {"learned": "learned codes", "uniform": "random codes"}[kind]
            axes.plot(sizes, times, line, color=colour, marker="o", markersize=4, label=f"{side}, {name}")
    axes.set(xscale="log", yscale="log", xlabel="codes of 64 bits", ylabel="µs per query, one thread")
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
