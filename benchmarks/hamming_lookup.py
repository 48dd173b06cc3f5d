"""`MultiIndex` against the scan and against the indexes of others: a part of `hashstream perf hamming`.

Learned codes are those of FCOH after 20,000 rows of `datasets.Stream(n, 128, 205, spread=1.0)`; random ones, in which
nothing is near, are the hard case. Everything runs on one thread, unless it says otherwise. Answers are compared with
the scan's before anything is timed; other engines are shown at the recall that they reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import Progress
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.harness import Ratio, console, duration, in_turn, show
from hashstream import datasets, hamming
from hashstream._machine import cores, size
from hashstream.hamming import MultiIndex

D, CLASSES, TRAINED = 128, 205, 20_000
QUERIES, K = 1000, 10
PIECE = 50_000


class Codes(NamedTuple):
    """Codes (n, width), queries (1000, width), and the real values (1000, r) whose signs these are."""

    codes: np.ndarray
    queries: np.ndarray
    values: np.ndarray

    def first(self, n: int) -> Codes:
        """The same queries, of fewer codes."""
        return self._replace(codes=self.codes[:n])


def learned(sizes: dict[int, int]) -> dict[int, Codes]:
    """Codes of one stream: by their bits, so many."""
    most = max(sizes.values())
    stream = datasets.Stream(most + TRAINED + QUERIES, D, CLASSES, spread=1.0)
    hashers = {n_bits: hs.FCOH(n_bits, random_state=0) for n_bits in sizes}
    for X, y in stream.batches(1000, begin=0, end=TRAINED):
        for hasher in hashers.values():
            hasher.partial_fit(X, y)
    codes = {n_bits: np.empty((n, -(-n_bits // 8)), np.uint8) for n_bits, n in sizes.items()}

    def encode(start: int) -> int:
        X = stream.rows(TRAINED + start, TRAINED + min(start + PIECE, most))[0]
        for n_bits, some in codes.items():
            piece = some[start : start + PIECE]
            if len(piece):
                piece[:] = hashers[n_bits].transform(X[: len(piece)])
        return len(X)

    with (
        threadpool_limits(1),
        ThreadPoolExecutor(cores()) as pool,
        Progress(console=console, transient=True) as bar,
    ):
        task = bar.add_task(f"{most:,} learned codes", total=most)
        for n in pool.map(encode, range(0, most, PIECE)):
            bar.advance(task, n)
    Q = stream.rows(TRAINED + most, TRAINED + most + QUERIES)[0]
    found = {}
    for n_bits, hasher in hashers.items():
        values = hasher.decision_function(Q).astype(np.float64)
        values /= np.abs(values).mean(axis=1, keepdims=True)
        found[n_bits] = Codes(codes[n_bits], hasher.transform(Q), values)
    return found


def uniform(n: int, n_bits: int) -> Codes:
    """Random codes and queries."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, n_bits // 8), np.uint8)
    values = rng.standard_normal((QUERIES, n_bits))
    return Codes(codes, np.packbits(values > 0, axis=1), values)


Search = Callable[..., object]


def one_by_one(search: Search, queries: np.ndarray) -> Callable[[], object]:
    """Search for one query after the other."""
    each = np.split(queries, len(queries))

    def run() -> None:
        for query in each:
            search(query)

    return run


Times = dict[str, float]
Others = Mapping[str, Search]
NOBODY: Others = {}
ONE = (1,)


def on_threads(threads: Sequence[int], scan: Search, look_up: Search) -> dict[str, Search]:
    """Both searches on so many threads; by name, with the number of threads unless it is 1."""
    found: dict[str, Search] = {}
    for n in threads:
        with_threads = "" if n == 1 else f", {n} threads"
        found[f"scan{with_threads}"] = partial(scan, n_threads=n)
        found[f"multi-index{with_threads}"] = partial(look_up, n_threads=n)
    return found


class Measured:
    """The time per query of the ways to search the same codes, on so many threads."""

    def __init__(self, data: Codes, quick: bool) -> None:
        self.codes, self.queries, self.values = data
        self.seconds = 0.5 if quick else 3.0
        with threadpool_limits(1):
            clock = time.process_time()
            self.index = MultiIndex(self.codes)
            self.built = time.process_time() - clock
        self._agree()

    def _agree(self) -> None:
        """Compare everything that the index gives with what the scan gives."""
        some, values = self.queries[:100], self.values[:100]
        found, wanted = self.index.topk(some, K), hamming.topk(some, self.codes, K)
        near, all_near = self.index.radius(some, 2), hamming.radius(some, self.codes, 2)
        cheap, cheapest = self.index.weighted_topk(values, K), hamming.weighted_topk(values, self.codes, K)
        for one, other in zip((*found, *near, *cheap), (*wanted, *all_near, *cheapest), strict=True):
            np.testing.assert_array_equal(one, other)

    def _in_turn(self, sides: Mapping[str, Search], given: np.ndarray, *, alone: bool) -> Times:
        """Seconds per query. The index is asked for all queries, the others for some; alone : one by one."""
        some = given[:: max(1, len(given) // (20 if alone else 200))]
        asked = {name: given if name.startswith("multi-index") else some for name in sides}
        calls = {
            name: one_by_one(search, asked[name]) if alone else partial(search, asked[name])
            for name, search in sides.items()
        }
        taken = in_turn(calls, seconds=self.seconds, long=20.0)
        return {name: taken[name] / len(asked[name]) for name in sides}

    def topk(self, *, alone: bool = True, threads: Sequence[int] = ONE, others: Others = NOBODY) -> Times:
        scan = partial(hamming.topk, codes=self.codes, k=K)
        sides = on_threads(threads, scan, partial(self.index.topk, k=K))
        return self._in_turn({**sides, **others}, self.queries, alone=alone)

    def within(self, radius: int, *, alone: bool = True, threads: Sequence[int] = ONE) -> Times:
        scan = partial(hamming.radius, codes=self.codes, radius=radius)
        sides = on_threads(threads, scan, partial(self.index.radius, radius=radius))
        return self._in_turn(sides, self.queries, alone=alone)

    def weighted(self, *, alone: bool = True, threads: Sequence[int] = ONE) -> Times:
        scan = partial(hamming.weighted_topk, codes=self.codes, k=K)
        sides = on_threads(threads, scan, partial(self.index.weighted_topk, k=K))
        return self._in_turn(sides, self.values, alone=alone)

    def slowest(self, queries: np.ndarray, k: int = K) -> float:
        """The time of the slowest query over that of a scan for it, each the fastest of some calls, in turn. Where that
        is above the target, there are more calls: what others on the machine take is not the query's."""
        return max(self._compared(query, k) for query in np.split(queries, len(queries)))

    def _compared(self, query: np.ndarray, k: int) -> float:
        best = [np.inf, np.inf]
        sides: list[Callable[[], object]] = [
            partial(self.index.topk, query, k, n_threads=1),
            partial(hamming.topk, query, self.codes, k, n_threads=1),
        ]
        start, calls = time.perf_counter(), 0
        while calls < 5 or (best[0] > 1.2 * best[1] and (calls < 40 or time.perf_counter() - start < 0.2)):
            for i, search in enumerate(sides):
                clock = time.perf_counter()
                search()
                best[i] = min(best[i], time.perf_counter() - clock)
            calls += 1
        return best[0] / best[1]


def ratio(work: str, times: Times, at_least: float | None, top: str = "scan") -> Ratio:
    return Ratio(work, (top, times[top]), ("multi-index", times["multi-index"]), at_least=at_least)


def report(quick: bool, picture: Path | None = None) -> bool:
    """Print the tables; True where every target was met. picture : where the plot of the growth is written."""
    import faiss

    faiss.omp_set_num_threads(1)
    scale = 100 if quick else 1
    growth: dict[tuple[str, int], Times] = {}
    rows: list[Ratio] = []
    worst: list[Ratio] = []
    pairs: list[Ratio] = []
    sizes = [n // scale for n in (100_000, 1_000_000, 10_000_000, 30_000_000)]
    known = learned({64: sizes[3], 32: sizes[1], 128: sizes[2]})
    kinds = {"learned": known[64], "random": uniform(sizes[3], 64)}
    for kind, data in kinds.items():
        for n in sizes:
            m = Measured(data.first(n), quick)
            large = n == sizes[2]
            growth[kind, n] = times = m.topk(others=_faiss_flat(m) if large else {})
            name = f"{kind}, {n:,} x 64 bits"
            wanted = not quick and large and kind == "learned"
            rows.append(ratio(f"{name}, top-10, one query", times, 20.0 if wanted else None))
            if large:
                rows.append(ratio(f"{name}, top-10, one query", times, 60.0 if wanted else None, "faiss"))
                together = m.topk(alone=False)
                rows.append(ratio(f"{name}, top-10, 1,000 queries", together, 7.0 if wanted else None))
                rows.append(ratio(f"{name}, radius 2", m.within(2), 100.0 if wanted else None))
            if (
                large and kind == "learned"
            ):  # random values tell nothing apart, and every code has to be summed
                rows.append(ratio(f"{name}, real-valued queries, one", m.weighted(), None))
                rows.append(ratio(f"{name}, real-valued queries, 1,000", m.weighted(alone=False), None))
                pairs += two_threads(name, m, quick)
            worst.append(_worst(f"{name}, 200 queries", m.slowest(m.queries[:200]), quick))
            _say(name, m)
            del m
    for n_bits, at_least in ((32, 5.0), (128, 3.0)):
        m = Measured(known[n_bits], quick)
        name = f"learned, {len(m.codes):,} x {n_bits} bits"
        rows.append(ratio(f"{name}, top-10, one query", m.topk(), None if quick else at_least))
        worst.append(_worst(f"{name}, 200 queries", m.slowest(m.queries[:200]), quick))
        _say(name, m)
        del m
    worst += adversarial(sizes[1], quick)
    met = show("Looking codes up, 1 thread", rows)
    met &= show("The slowest query, 1 thread", worst)
    met &= show("Two threads", pairs)
    if picture is not None:
        growth_picture(growth, picture)
    return met


def adversarial(n: int, quick: bool) -> list[Ratio]:
    """Codes and queries that are as bad as can be for an index."""
    rng = np.random.default_rng(1)
    random = uniform(n, 64)
    two = random.codes[rng.integers(0, 2, n)]
    near = random.codes[:1] ^ np.packbits(rng.random((n, 64)) < 0.05, axis=1)
    found = []
    for name, codes in {
        "all codes equal": np.repeat(two[:1], n, axis=0),
        "two values": two,
        "one ball": near,
    }.items():
        m = Measured(Codes(codes, random.queries, random.values), quick)
        for where, Q in {
            "far away": ~codes[:20],
            "a code": codes[:20],
            "anywhere": random.queries[:20],
        }.items():
            for k in (K, n // 2):
                work = f"{name}, {n:,} x 64 bits, queries {where}, k = {k:,}"
                found.append(_worst(work, m.slowest(Q[: 20 if k == K else 3], k), quick))
    return found


def two_threads(name: str, m: Measured, quick: bool) -> list[Ratio]:
    """Two threads against one, of everything that is searched."""
    found = []
    for work, search in (
        ("top-10, one query", m.topk),
        ("top-10, 1,000 queries", partial(m.topk, alone=False)),
        ("radius 2", partial(m.within, 2)),
        ("real-valued queries, one", m.weighted),
        ("real-valued queries, 1,000", partial(m.weighted, alone=False)),
    ):
        times = search(threads=(1, 2))
        for side in ("scan", "multi-index"):
            sides = ("2 threads", times[f"{side}, 2 threads"]), ("1 thread", times[side])
            found.append(Ratio(f"{name}, {work}, {side}", *sides, at_most=None if quick else 1.1))
    return found


def _worst(work: str, value: float, quick: bool) -> Ratio:
    sides = ("multi-index", value), ("scan", 1.0)
    return Ratio(work, *sides, at_most=None if quick else 1.2, said=lambda value: f"{value:.2f}")


def _say(name: str, m: Measured) -> None:
    substrings = ", ".join(str(len(one)) for one in m.index.substrings)
    per_item = m.index.nbytes / len(m.codes)
    console.print(
        f"{name}: {m.index.n_distinct:,} distinct, substrings of {substrings} bits, {size(m.index.nbytes)} "
        f"({per_item:.1f} bytes per item), built in {m.built:.2f} s of CPU time"
    )


def _faiss_flat(m: Measured) -> dict[str, Search]:
    import faiss

    flat = faiss.IndexBinaryFlat(8 * m.codes.shape[1])
    flat.add(m.codes)
    return {"faiss": lambda Q: flat.search(Q, K)}


def compare(quick: bool) -> bool:
    """Print the indexes of others beside ours."""
    n = 20_000 if quick else 1_000_000
    for kind, data in {"learned": learned({64: n})[64], "random": uniform(n, 64)}.items():
        others(kind, data, quick)
    return True


def others(kind: str, data: Codes, quick: bool) -> None:
    """Indexes of others, each at the recall that it reaches, beside ours. Others are built by all cores."""
    codes, queries, _ = data
    wanted = hamming.topk(queries, codes, K).distances
    table = Table(title=f"{kind}, {len(codes):,} x 64 bits, top-10, one query", title_justify="left")
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
        faiss.omp_set_num_threads(cores())
        index.add(codes)
        faiss.omp_set_num_threads(1)

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
        index.add(np.arange(len(codes)), codes, threads=cores())

        def search(Q: np.ndarray) -> np.ndarray:
            found = index.search(Q, K, threads=1)
            far = np.full((len(Q), K), 1 << 20)
            distances = np.atleast_2d(found.distances)
            far[:, : distances.shape[1]] = distances
            return far

        return search

    return {"usearch, HNSW": build}


def growth_picture(growth: dict[tuple[str, int], Times], path: Path) -> None:
    """Time per query against the number of codes, both axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    styles = {"learned": "-", "random": ":"}
    colours = {"scan": "#333333", "multi-index": "#0b5fa5"}
    for kind, line in styles.items():
        sizes = sorted(n for name, n in growth if name == kind)
        for side, colour in colours.items():
            times = [growth[kind, n][side] * 1e6 for n in sizes]
            axes.plot(
                sizes, times, line, color=colour, marker="o", markersize=4, label=f"{side}, {kind} codes"
            )
    axes.set(xscale="log", yscale="log", xlabel="codes of 64 bits", ylabel="µs per query, one thread")
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
