"""`hashstream perf posterior`: PosteriorHash compared with FCOH in cost, searches during a solve, merging, an ablation.

MNIST as in the paper, float32, one thread of BLAS. A *solve* computes the hash functions of a version from the sums; it
is done when they are first asked for, so learning is timed without solves, with all of them, and a solve alone. One
part of it: `--part speed`, `search`, `merge` or `ablation`. `posterior_search.py` and `posterior_ablation.py` say what
they measure.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks import posterior_ablation, posterior_search
from benchmarks.asymmetric import spread
from benchmarks.harness import Ratio, console, in_turn, machine, show
from hashstream import datasets
from hashstream.evaluate.protocols import Paper, PreparedDataset
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.posterior_functions import LateFunctions
from hashstream.hashers.serialization import encoder_to_bytes

BATCH, LEARNERS = 100, 4
LEARN_AT_MOST, ENCODE_AT_MOST, STATE_AT_MOST, MERGED_WITHIN = {32: 5.0, 128: 2.0}, 3.0, 14e6, 0.003


def main(quick: bool = False, part: str | None = None) -> bool:
    """Print the tables of one part, or of all; True where every target was met."""
    console.print(machine())
    console.print(hs.show_versions())
    started = time.perf_counter()
    data = PreparedDataset.of(datasets.load("mnist"))
    with threadpool_limits(1):
        met = [measure(data, quick) for name, measure in PARTS.items() if part in (None, name)]
    console.print(f"{time.perf_counter() - started:.0f} s in all")
    return all(met)


# ---- speed


def speed(data: PreparedDataset, quick: bool) -> bool:
    """Learning, solving, encoding and size, against FCOH in the same run."""
    rows = data.split(0).stream[: 2_000 if quick else 20_000]
    X, y = data.X[rows], data.y[rows]
    met = True
    for bits in (32,) if quick else (32, 128):
        ratios = [*learning(X, y, bits, 1 if quick else 3), *encoding(X, y, data.X[:20_000], bits, quick)]
        met &= show(f"{bits} bits, {len(X):,} rows learned, {BATCH} at a time", ratios)
    return met


def learned(hasher: OnlineHasher, X: np.ndarray, y: np.ndarray, *, solved: bool = False) -> OnlineHasher:
    """The hasher after the rows, batch by batch. solved: with the functions of each version, as a table asks for."""
    version = -1
    for start in range(0, len(X), BATCH):
        hasher.partial_fit(X[start : start + BATCH], y[start : start + BATCH])
        if solved and hasher.version_ != version:
            hasher.encoder()
            version = hasher.version_
    return hasher


def learning(X: np.ndarray, y: np.ndarray, bits: int, rounds: int) -> list[Ratio]:
    """A batch, without and with the solves of the stream, and one solve at its end."""
    hasher = hs.PosteriorHash(bits, random_state=0)
    snapshot = learned(hasher, X, y)._late.snapshot
    sides: dict[str, Callable[[], object]] = {
        "FCOH": lambda: learned(hs.FCOH(bits, random_state=0), X, y),
        "PosteriorHash": lambda: learned(hs.PosteriorHash(bits, random_state=0), X, y),
        "with solves": lambda: learned(hs.PosteriorHash(bits, random_state=0), X, y, solved=True),
    }
    times = {side: taken * BATCH / len(X) for side, taken in whole_turns(sides, rounds).items()}

    def solve() -> None:
        unsolved = hasher.copy()
        unsolved._late = LateFunctions(snapshot)
        unsolved.encoder()

    one = whole_turns({"solve": solve}, rounds)["solve"]
    fcoh = "FCOH", times["FCOH"]
    return [
        Ratio(
            f"learn {BATCH} rows",
            ("PosteriorHash", times["PosteriorHash"]),
            fcoh,
            at_most=LEARN_AT_MOST[bits],
        ),
        Ratio(
            f"learn {BATCH} rows, {hasher.version_} versions, all solved",
            ("PosteriorHash", times["with solves"]),
            fcoh,
        ),
        Ratio("one solve", ("solve", one), ("learn 100 rows", times["PosteriorHash"])),
    ]


def whole_turns(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """`in_turn` for calls that take seconds: so many rounds, however long a call takes, after one that warms up."""
    return in_turn(sides, seconds=0, least=rounds, long=inf)


def encoding(X: np.ndarray, y: np.ndarray, rows: np.ndarray, bits: int, quick: bool) -> list[Ratio]:
    """`transform` per row, and the bytes of the model and of its functions."""
    hashers = {
        "PosteriorHash": hs.PosteriorHash(bits, random_state=0),
        "PosteriorHash(width=0)": hs.PosteriorHash(bits, width=0, random_state=0),
        "FCOH": hs.FCOH(bits, random_state=0),
    }
    sides: dict[str, Callable[[], object]] = {}
    saved, functions = {}, {}
    for name, hasher in hashers.items():
        learned(hasher, X, y)
        sides[name] = lambda hasher=hasher: hasher.transform(rows)  # type: ignore[misc]
        with tempfile.TemporaryDirectory(prefix="hashstream-perf-") as folder:
            path = Path(folder) / "model"
            hs.save(hasher, path)
            saved[name] = float(path.stat().st_size)
        functions[name] = float(len(encoder_to_bytes(hasher.encoder())))
    times = in_turn(sides, seconds=0.5 if quick else 2.0)
    most = ("target", STATE_AT_MOST)
    found = [Ratio("saved model", ("PosteriorHash", saved["PosteriorHash"]), most, at_most=1.0, said=size)]
    for name in list(hashers)[:-1]:
        found += [
            Ratio(
                "encode a row",
                (name, times[name] / len(rows)),
                ("FCOH", times["FCOH"] / len(rows)),
                at_most=ENCODE_AT_MOST,
            ),
            Ratio("saved model", (name, saved[name]), ("FCOH", saved["FCOH"]), said=size),
            Ratio("its encoder", (name, functions[name]), ("FCOH", functions["FCOH"]), said=size),
        ]
    return found


def size(n: float) -> str:
    return f"{n / 1e6:.3g} MB"


# ---- merging


def merge(data: PreparedDataset, quick: bool) -> bool:
    """Learners of the parts of a stream, merged, against one learner of the whole; True where mAP is within 0.003.

    Merging ends with functions of all rows, while those of one learner are of the rows up to its last version. So that
    the age of the functions does not count, it is compared with one that is solved at the end, too.
    """
    runs, lengths, n = (1, (32,), 4_000) if quick else (3, (32, 128), Paper().points(data)[-1])
    seen: dict[int, list[list[float]]] = {bits: [] for bits in lengths}
    cases = [(run, bits) for run in range(runs) for bits in lengths]
    for run, bits in track(cases, "Merging", console=console, transient=True):
        task = Paper().task(data, run)
        X, y = task.X[:n], task.y[:n]
        one = alone(X, y, bits, run)
        hashers = one, up_to_date(one), merged(X, y, bits, run)
        seen[bits].append([task.judge(hasher, n)["mAP"] for hasher in hashers])
    title = f"{LEARNERS} learners merged, {n:,} rows in all, {runs} runs"
    table = Table(title=title, title_justify="left")
    for head in ("bits", "mAP, one learner", "solved at the end", "merged", "difference of\nthe last two"):
        table.add_column(head, justify="right")
    met = True
    for bits, scores in seen.items():
        sides = np.array(scores).T
        difference = sides[2] - sides[1]
        met &= float(np.abs(difference).mean()) < MERGED_WITHIN
        table.add_row(str(bits), *map(spread, sides), f"{difference.mean():+.4f}")
    console.print(table)
    return met


def alone(X: np.ndarray, y: np.ndarray, bits: int, run: int) -> hs.PosteriorHash:
    """One learner of the whole stream, with the map of the merged ones."""
    return hs.PosteriorHash(bits, sample=X[:1000], random_state=run).partial_fit(X, y)


def up_to_date(hasher: hs.PosteriorHash) -> hs.PosteriorHash:
    """The same learner with functions of all rows, as `merge` ends."""
    fresh = hasher._learner(hasher.rng_)
    fresh._sum()
    fresh._change_functions()
    return fresh


def merged(X: np.ndarray, y: np.ndarray, bits: int, run: int) -> hs.PosteriorHash:
    """Learners of equal parts of the stream, merged into the first."""
    learners = [
        hs.PosteriorHash(bits, sample=X[:1000], random_state=run).partial_fit(X[rows], y[rows])
        for rows in np.array_split(np.arange(len(X)), LEARNERS)
    ]
    for other in learners[1:]:
        learners[0].merge(other)
    return learners[0]


PARTS: dict[str, Callable[[PreparedDataset, bool], bool]] = {
    "speed": speed,
    "search": posterior_search.search,
    "merge": merge,
    "ablation": posterior_ablation.ablation,
}
