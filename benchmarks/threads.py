"""`hashstream perf threads`: the cost of learning with the BLAS threads that a process has by default.

- default: a process without any setting. Learning limits itself to one BLAS thread.
- one: a process with OPENBLAS_NUM_THREADS=1, and the same for OpenMP and MKL.
- unlimited: the default threads without that limit, and so with other bits: what the limit saves or costs.

Each side is a process of its own, the sides take turns, and each ratio is that of medians. "busy" is with another
process that keeps a core busy, as on a server. CPU is that of the whole process, BLAS threads that wait included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio, console, machine, show
from hashstream.hashers import base, ridge

WORK: dict[str, tuple[str, dict[str, Any], int, int]] = {
    # name: method, parameters, rows, features
    "FCOH 10,000 x 384, 128 bits": ("FCOH", {"n_bits": 128}, 10_000, 384),
    "FCOH 4,000 x 384, 64 bits, batches of 2,000": (
        "FCOH",
        {"n_bits": 64, "learning_rate": 1e-7, "lambda2": 0.01, "batch_size": 2000},
        4_000,
        384,
    ),
    "RidgeHash 2,000 x 4,096, 64 bits, and its solution": ("RidgeHash", {"n_bits": 64}, 2_000, 4_096),
    "OSH 5,000 x 384, 64 bits": ("OSH", {"n_bits": 64}, 5_000, 384),
    "SketchHash 5,000 x 784, 64 bits": ("SketchHash", {"n_bits": 64, "sketch_size": 200}, 5_000, 784),
    "ClassifierHash 10,000 x 784, 64 bits": ("ClassifierHash", {"n_bits": 64}, 10_000, 784),
}
SMALL = "FCOH 10,000 x 384, 128 bits"
VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def learn(name: str, side: str) -> tuple[float, float]:
    """CPU and wall-clock seconds of one `fit`, in this process."""
    method, parameters, n, d = WORK[name]
    if side == "unlimited":
        for module in (base, ridge):
            module.__dict__["on_one_thread"] = lambda work: work()
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=n)
    X = (rng.standard_normal((10, d))[y] + 2 * rng.standard_normal((n, d))).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    hasher = hs.methods()[method](random_state=0, **parameters)
    hasher.partial_fit(X[:500], y[:500])  # warms up
    start = time.process_time(), time.perf_counter()
    hasher.fit(X, y)
    if method == "RidgeHash":
        _ = hasher.projection_
    return time.process_time() - start[0], time.perf_counter() - start[1]


def in_turn(name: str, sides: tuple[str, ...], rounds: int, busy: bool) -> dict[str, tuple[float, float]]:
    """Median CPU and wall-clock seconds of each side."""
    taken: dict[str, list[list[float]]] = {side: [] for side in sides}
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        for _ in range(rounds):
            for side in sides:
                env = {key: value for key, value in os.environ.items() if key not in VARIABLES}
                env |= dict.fromkeys(VARIABLES, "1") if side == "one" else {}
                command = [sys.executable, "-m", "benchmarks.threads", name, side]
                out = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout
                taken[side].append(json.loads(out))
    finally:
        if other is not None:
            other.kill()
            other.wait()
    return {side: (median(t[0] for t in times), median(t[1] for t in times)) for side, times in taken.items()}


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(quick: bool = False) -> bool:
    """Print every ratio; True where every target was met."""
    rounds = 3 if quick else 7
    console.print(machine())
    console.print(hs.show_versions())
    ratios = []
    for busy in (False, True):
        times = in_turn(SMALL, ("default", "one", "unlimited"), rounds, busy)
        work = f"{SMALL}, {'busy' if busy else 'quiet'}"
        for at, unit in enumerate(("CPU", "wall")):
            side = {key: (f"{key}, {unit}", value[at]) for key, value in times.items()}
            ratios.append(Ratio(work, side["default"], side["one"], at_most=1.25))
            ratios.append(Ratio(work, side["unlimited"], side["one"]))
    met = show("Small batches", ratios)
    ratios = []
    for name in WORK:
        if name != SMALL:
            times = in_turn(name, ("default", "unlimited"), rounds, False)
            for at, unit in ((1, "wall"), (0, "CPU")):
                side = {key: (f"{key}, {unit}", value[at]) for key, value in times.items()}
                ratios.append(Ratio(name, side["default"], side["unlimited"]))
    return show("What the limit costs", ratios) and met


if __name__ == "__main__":
    print(json.dumps(learn(sys.argv[1], sys.argv[2])))
