"""`hashstream perf imports`: CPU time of `import hashstream`, and of a shard that is started again.

A shard opens its table, adds some rows and searches: its imports are most of the time until it answers. Compared with
one estimator of scikit-learn, which took part in every import once, and is imported only when it is needed. Every side
is a fresh interpreter with compiled bytecode, the sides in turn; pandas, which scikit-learn imports where it is
installed, counts on its side.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

import hashstream as hs
from benchmarks.harness import Ratio, console, machine, show

SCIKIT_LEARN = "from sklearn.decomposition import IncrementalPCA"
SHARD = """
import numpy as np
from hashstream.table import HashTable

with HashTable.open({path!r}) as table:
    X = np.random.default_rng(1).standard_normal((100, 64)).astype(np.float32)
    table.add(np.arange(1000, 1100), X)
    table.search(X[:1], k=10)
    table.search(X, k=10)
"""
METHODS = ("PosteriorHash", "RidgeHash", "FCOH")


def cpu_seconds(code: str) -> float:
    """CPU time of one interpreter, from its start to its end."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tables(folder: Path) -> dict[str, str]:
    """Method -> the program of a shard that has a table of it."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1000, 64)).astype(np.float32), rng.integers(0, 10, 1000)
    programs = {}
    for name in METHODS:
        with hs.HashTable.open(folder / name, hasher=hs.methods()[name](n_bits=64, random_state=0)) as table:
            table.ingest(np.arange(1000), X, y)
        programs[name] = SHARD.format(path=str(folder / name))
    return programs


def main(quick: bool = False) -> bool:
    """Print the medians; True where importing, and opening and searching, take at most half of scikit-learn's time."""
    console.print(machine())
    console.print(hs.show_versions(), highlight=False)
    rounds = 5 if quick else 21
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "scikit-learn": SCIKIT_LEARN,
            "numpy": "import numpy",
            "import hashstream": "import hashstream",
            "import HashTable": "from hashstream.table import HashTable",
            **{f"{name}: open, add, search": code for name, code in tables(Path(folder)).items()},
        }
        taken: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(rounds + 1):
            for name, code in sides.items():
                elapsed = cpu_seconds(code)
                if turn:  # the first compiles, and fills the disk's cache
                    taken[name].append(elapsed)
    medians = {name: median(times) for name, times in taken.items()}
    bottom = "scikit-learn", medians.pop("scikit-learn")
    ratios = [
        Ratio(name, (name.split(":")[0], seconds), bottom, at_most=0.5) for name, seconds in medians.items()
    ]
    return show(f"CPU time of a fresh interpreter, median of {rounds} in turn", ratios)


if __name__ == "__main__":
    sys.exit(not main("--quick" in sys.argv))
