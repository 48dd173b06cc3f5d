"""Kills services under load, by seeds, and judges what is left.

A service runs as a process of its own while clients write, with keys, and search. It is killed at any moment, while it
starts, or at a fail-point, and started again on the same folder and port; clients repeat what was not acknowledged. See
serve/serve_crash_story.py for what has to hold.

    python tests/run_serve_crash.py --kills 200
    python tests/run_serve_crash.py --first 17 --kills 10     one seed again
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serve.serve_crash_story import Kills, try_kills

KILLS = 10  # of each seed


def summary(total: Kills, seconds: float) -> str:
    done = total.done
    lines = [
        f"{total.seeds} services were killed {total.kills.total()} times in {seconds:.0f} s.",
        f"{done['acknowledged']:,} writes were acknowledged. Of those under way at a kill, {total.whole} were there",
        f"whole and {total.undone} not at all; {done['broken']} attempts were repeated with their key.",
        f"{done['searches']:,} searches, {done['looks']:,} reads of what was just written, {done['snapshot']}",
        f"snapshots, {done['compact']} compactions, {done['refresh']} refreshes, {done['check']} checks.",
        *(f"  {count:5d}  {name}" for name, count in total.kills.most_common()),
        f"{len(total.failures)} failures.",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="in all, 10 per seed (200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--workers", type=int, default=2, help="services at once (2)")
    parser.add_argument("--json", help="write the figures to this file")
    chosen = parser.parse_args(arguments)
    shares = [min(KILLS, chosen.kills - start) for start in range(0, chosen.kills, KILLS)]
    seeds = range(chosen.first, chosen.first + len(shares))
    total, begun = Kills(), time.monotonic()
    with ThreadPoolExecutor(chosen.workers) as pool:
        for found in pool.map(try_kills, seeds, shares):
            for failure in found.failures:
                print(f"FAILED {failure}", flush=True)
            total.add(found)
            spent = time.monotonic() - begun
            print(
                f"{total.seeds:3d} of {len(shares)} seeds, {total.kills.total()} kills, "
                f"{total.done['acknowledged']:,} writes, {spent:.0f} s",
                flush=True,
            )
    seconds = time.monotonic() - begun
    print(summary(total, seconds))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({**vars(total), "seconds": round(seconds, 1)}))
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
