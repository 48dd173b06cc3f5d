"""Kills the programs, shards, learners, nodes and engines of clusters, by seeds, and judges what is left.

Each round has a cluster of its own, on one Ray that this process starts, or on its own where all of Ray is killed. See
scale/fault_stories.py for the stories and what has to hold.

    python tests/run_cluster_crash.py                          60 rounds
    python tests/run_cluster_crash.py --first 17 --rounds 1    one seed again
    python tests/run_cluster_crash.py --stories search,adopt --rounds 4
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.scale.fault_search import Found
from tests.scale.fault_stories import play
from tests.scale.fault_world import STORIES
from tests.scale.ray_processes import start_ray


def summary(total: Found, seconds: float) -> str:
    lines = [
        f"{total.rounds.total()} clusters in {seconds:.0f} s; after the same commands again, each was compared with",
        "one table: digest, searches, labels, fields, what was learned.",
        *(f"  {count:5d}  {name}" for name, count in sorted(total.rounds.items())),
        f"{total.kills.total()} kills:",
        *(f"  {count:5d}  {name}" for name, count in total.kills.most_common()),
        f"{total.answered:,} searches were answered during faults, {total.wrong} of them wrong; {total.failed} failed.",
        f"The longest took {total.pause:.1f} s, and {total.shard_pause:.1f} s where a shard or the learner was killed.",
        f"{len(total.failures)} failures.",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="seeds (60)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument(
        "--stories", default=",".join(sorted(set(STORIES))), help="only seeds with these (all)"
    )
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument(
        "--rest", type=float, default=0.0, help="seconds between two searches of a thread (0)"
    )
    chosen = parser.parse_args(arguments)
    wanted = set(chosen.stories.split(","))
    if unknown := wanted - set(STORIES):
        parser.error(f"no such story: {', '.join(sorted(unknown))}")
    seeds = (seed for seed in itertools.count(chosen.first) if STORIES[seed % len(STORIES)] in wanted)
    total, begun = Found(), time.monotonic()
    base = tempfile.mkdtemp(prefix="hs-")  # short: the paths of Ray's sockets have a limit
    try:
        address = start_ray(base)
        with Path(base, "ray.log").open("w") as log:
            for seed in itertools.islice(seeds, chosen.rounds):
                with contextlib.redirect_stdout(log):  # where Ray tells of every death
                    found = play(seed, base, address, chosen.rest)
                for failure in found.failures:
                    print(f"FAILED {failure}", flush=True)
                total.add(found)
                spent = time.monotonic() - begun
                print(
                    f"{total.rounds.total():3d} of {chosen.rounds} rounds, seed {seed}, "
                    f"{STORIES[seed % len(STORIES)]}, {total.kills.total()} kills, {total.answered:,} searches, "
                    f"{spent:.0f} s",
                    flush=True,
                )
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    finally:
        if not total.failures:
            shutil.rmtree(base, ignore_errors=True)
    seconds = time.monotonic() - begun
    print(summary(total, seconds))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({**vars(total), "seconds": round(seconds, 1)}))
    return 1 if total.failures or total.rounds.total() < chosen.rounds else 0


if __name__ == "__main__":
    sys.exit(main())
