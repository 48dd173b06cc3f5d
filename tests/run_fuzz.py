"""Alters model files, data files and tables' folders for a given time, and uses what is left of them.

`make fuzz` runs this file. Each kind has a third of the time, in child processes: an error that is not promised, a
crash, a hang or too much memory is a problem, named by its seed and case.

    python tests/run_fuzz.py --seconds 300
    python tests/run_fuzz.py --seconds 60 --only models --seed 7
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz import data_files, folders, models

FUZZERS = {"models": models.run, "data files": data_files.run, "folders": folders.run}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300, help="in all (300)")
    parser.add_argument("--seed", type=int, default=0, help="others give other cases (0)")
    parser.add_argument("--only", choices=FUZZERS, help="one kind")
    given = parser.parse_args()
    chosen = [given.only] if given.only else list(FUZZERS)
    problems = 0
    for name in chosen:
        print(f"{name}: {given.seconds / len(chosen):.0f} s ...", flush=True)
        counts = FUZZERS[name](seconds=given.seconds / len(chosen), seed=given.seed)
        print(
            f"{name}: {counts.cases:,} cases, {counts.refused:,} refused, {counts.worked:,} worked, "
            f"{len(counts.problems)} problems",
            *counts.problems,
            sep="\n  ",
            flush=True,
        )
        problems += len(counts.problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
