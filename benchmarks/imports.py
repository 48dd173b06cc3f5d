"""`hashstream perf imports`: how long `import hashstream` takes.

Compared with one estimator of scikit-learn, which hashstream needs anyway. Every import is in a fresh interpreter with
compiled bytecode, the two in turn; pandas, which scikit-learn imports where it is installed, counts on both sides.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from statistics import median

import hashstream as hs
from benchmarks.harness import console, duration, machine

SIDES = {
    "import hashstream": "import hashstream",
    "scikit-learn": "from sklearn.decomposition import IncrementalPCA",
    "HashTable, FCOH": "from hashstream import HashTable, FCOH",
}
AT_MOST = 0.050
"""Seconds that `import hashstream` may take more than scikit-learn."""


def seconds(code: str) -> float:
    """One interpreter from its start to its end."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - start


def main(quick: bool = False) -> bool:
    """Print the medians; True where the difference is within the target."""
    console.print(machine())
    console.print(hs.show_versions(), highlight=False)
    rounds = 5 if quick else 41
    taken: dict[str, list[float]] = {name: [] for name in SIDES}
    for turn in range(rounds + 1):
        for name, code in SIDES.items():
            elapsed = seconds(code)
            if turn:  # the first compiles, and fills the disk's cache
                taken[name].append(elapsed)
    console.print(f"\nSeconds of a fresh interpreter, median of {rounds} in turn", highlight=False)
    for name, code in SIDES.items():
        console.print(f"{duration(median(taken[name])):>8}  {code}", highlight=False)
    over = median(taken["import hashstream"]) - median(taken["scikit-learn"])
    met = over <= AT_MOST
    console.print(
        f"\nimport hashstream takes {1000 * over:+.0f} ms; target at most {1000 * AT_MOST:+.0f} ms: "
        f"{'met' if met else 'MISSED'}",
        highlight=False,
    )
    return met
