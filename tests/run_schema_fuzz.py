"""Asks a service for all that its OpenAPI document allows, and for what it forbids; checks each answer against it.

`make test` runs a few hundred cases (tests/serve/test_schema.py), this file as many as it is told to.

    python tests/run_schema_fuzz.py --cases 10000 --seed 0
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serve.running import running
from tests.serve.schema_cases import run
from tests.serve.worlds import fill

SHOWN = 30


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000, help="in all (10000)")
    parser.add_argument("--seed", type=int, default=0, help="others give other cases (0)")
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    clock = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as service:
        fill(service)
        tally = run(service, given.cases, given.seed)
    statuses: Counter[int] = Counter()
    for route, counts in sorted(tally.statuses.items()):
        statuses += counts
        print(f"{route:42} {tally.cases[route]:6,}  {_shown(counts)}")
    print(f"{'all':42} {tally.cases.total():6,}  {_shown(statuses)}  {time.perf_counter() - clock:.0f} s")
    for one in tally.wrong[:SHOWN]:
        print(f"\n{one}")
    print(f"\n{len(tally.wrong)} answers are not as they should be")
    return 1 if tally.wrong else 0


def _shown(counts: Counter[int]) -> str:
    return "  ".join(f"{status}: {count:,}" for status, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
