"""Learning of parts: the wall time on two Ray workers compared with one process, and whether the bits are equal.

A part of `hashstream perf scale`. Parts are .npy files of float32 rows with labels, of equal size; Ray is running and
its workers have imported the package before the time is taken, as on a cluster that is used again. The sides take
turns, in five rounds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio, console, show
from hashstream.datasets import FilePart
from hashstream.hashers.serialization import to_bytes
from hashstream.scale.connection import connected
from hashstream.scale.training import ray_map

WORKERS = 2
AT_MOST = 0.6
METHODS: dict[str, tuple[dict[str, Any], int, int]] = {
    # method: parameters, rows per part, features
    "RidgeHash": ({"n_bits": 64, "n_classes": 100}, 50_000, 512),
    "PosteriorHash": ({"n_bits": 64}, 25_000, 128),
}
PARTS = 8


@dataclass(frozen=True)
class Measured:
    """Median seconds of a method, and whether the models of both sides have the same bytes.

    stream : of `partial_fit` of all rows in this process, part after part; `stream_equal`: whether it has the bytes.
    """

    method: str
    rows: int
    features: int
    one: float
    ray: float
    equal: bool
    stream: float
    stream_equal: bool
    codes_differ: float
    """Share of bits of the codes of one part that differ from those of `partial_fit`."""
    cpu: float
    """CPU seconds of the tasks on Ray, divided by those of the same tasks in one process: means more than the wall time
    on a machine that others use."""

    @property
    def ratio(self) -> Ratio:
        work = f"{self.method}, {self.rows:,} x {self.features}, {PARTS} parts"
        return Ratio(work, (f"{WORKERS} Ray workers", self.ray), ("one process", self.one), at_most=AT_MOST)


def write_parts(folder: Path, rows: int, features: int, classes: int = 100) -> list[FilePart]:
    """Files with `rows` rows each."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((classes, features), np.float32)
    for i in range(PARTS):
        y = rng.integers(0, classes, rows)
        np.save(folder / f"{i}.npy", means[y] + 2 * rng.standard_normal((rows, features), np.float32))
        np.save(folder / f"{i}.labels.npy", y)
    return [FilePart.of(folder / f"{i}.npy") for i in range(PARTS)]


def measure(quick: bool = False) -> list[Measured]:
    """Learn the same parts in one process and on two Ray workers, in turn."""
    found = []
    with connected(cpus=WORKERS):
        for method, (parameters, rows, features) in METHODS.items():
            with tempfile.TemporaryDirectory(prefix="hs-parts-") as folder:
                parts = write_parts(Path(folder), rows // (2 if quick else 1) // 1000 * 1000, features)
                found.append(_measure(method, parameters, parts, 1 if quick else 5))
    return found


def _measure(method: str, parameters: dict[str, Any], parts: list[FilePart], rounds: int) -> Measured:
    def new() -> Any:
        return hs.methods()[method](random_state=0, **parameters)

    def stream() -> Any:
        hasher = new()
        for part in parts:
            for rows in part().pieces(10_000):
                hasher.partial_fit(rows.X, rows.y)
        return hasher

    cpu: dict[str, float] = {"one": 0.0, "ray": 0.0}

    def counted(name: str, spread: Any) -> Any:
        def mapped(function: Any, tasks: Any) -> Iterator[Any]:
            for learned, seconds in spread(partial(_with_cpu, function), tasks):
                cpu[name] += seconds
                yield learned

        return mapped

    sides = {
        "one": lambda: hs.fit_parts(new(), parts, map=counted("one", map)),
        "ray": lambda: hs.fit_parts(new(), parts, map=counted("ray", ray_map)),
        "stream": stream,
    }
    os.sync()  # what was written before, by this and other parts of the benchmark, would be written meanwhile
    for _ in range(2):  # its workers import the package, and files are in the cache
        hs.fit_parts(hs.RidgeHash(8, random_state=0), parts[: 2 * WORKERS], map=ray_map)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    models: dict[str, Any] = {}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            models[name] = side()
            taken[name].append(time.perf_counter() - start)
    written = {name: to_bytes(model) for name, model in models.items()}
    first = next(parts[0]().pieces(10_000))
    differ = models["one"].transform(first.X) ^ models["stream"].transform(first.X)
    return Measured(
        method,
        models["one"].n_seen_,
        first.X.shape[1],
        median(taken["one"]),
        median(taken["ray"]),
        written["one"] == written["ray"],
        median(taken["stream"]),
        written["one"] == written["stream"],
        float(np.unpackbits(differ).mean()),
        cpu["ray"] / cpu["one"],
    )


def _with_cpu(function: Any, task: Any) -> tuple[Any, float]:
    start = time.process_time()
    return function(task), time.process_time() - start


def report(quick: bool = False) -> bool:
    """Print the ratios; True where they are met and the bits are equal."""
    found = measure(quick)
    met = show("Learning of parts, wall time", [one.ratio for one in found])
    for one in found:
        console.print(
            f"{one.method}: model on Ray {'equal' if one.equal else 'NOT EQUAL'} bit for bit, CPU of the tasks "
            f"{one.cpu:.2f} of one process; partial_fit of all rows takes {one.stream / one.one:.2f} of fit_parts in "
            "one process, model "
            f"{'equal bit for bit' if one.stream_equal else f'not equal, {one.codes_differ:.2%} of the bits differ'}"
        )
    return met and all(one.equal for one in found)
