"""Kills tables, takes their power away and damages their files, by seeds, and judges what is left.

`make crash` runs this file; the test of the table runs some seeds of it.

kills    a child process writes and dies, at a fail-point or at any moment (table/crash_parent.py)
losses   its writes and syncs are written down, and folders rebuilt as a power loss leaves them (table/power_loss.py)
damage   files are cut and have bits flipped (table/damage.py)
interrupts   a timer raises KeyboardInterrupt in the middle of a call (table/interrupts.py)

    python tests/run_crash.py                                          all of it
    python tests/run_crash.py --first 17 --kills 1 --losses 0 --damage 0 --interrupts 0    one seed again
"""

from __future__ import annotations

import os

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # before NumPy is imported; children are forked from one thread

import argparse
import functools
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.table import faulty_disk
from tests.table.crash_child import World
from tests.table.crash_parent import Kills, try_kills
from tests.table.damage import Outcome, Victim, try_damage
from tests.table.interrupts import Interrupts, try_interrupts
from tests.table.power_loss import Losses, Recorder, try_power_losses

from hashstream.hashers import serialization
from hashstream.table.storage.folder import failpoints

Found = Kills | Losses | Outcome | Interrupts
Job = tuple[str, int, str]  # kind, seed, and the fail-point at which a first life has to end
LEAST_ROOM = 1 << 30
MORE = 10  # seeds for fail-points that nobody came to


def memory_folder() -> str:
    """Where folders are created: in memory where there is room, since a kill does not care and syncs cost nothing."""
    shared = Path("/dev/shm")
    if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > LEAST_ROOM:
        return str(shared)
    return tempfile.gettempdir()


# ---- one job, in a worker

_recorder: Recorder | None = None


_points = 12


def begin(folder: str, points: int) -> None:
    """A new worker: temporary files go to `folder`. points : moments at which each life loses power, about."""
    global _points
    _points = points
    tempfile.tempdir = folder
    cached = functools.cache(serialization.library_versions)  # or half of the time goes there
    serialization.library_versions = cached


def work(job: Job) -> Found:
    kind, seed, point = job
    if kind == "kills":
        return try_kills(seed, point)
    if kind == "damage":
        return try_all_damage(seed)
    if kind == "interrupts":
        return try_interrupts(seed)
    global _recorder
    if _recorder is None:
        _recorder = Recorder(Path(tempfile.mkdtemp(prefix="faulty-disk-")))
    return try_power_losses(seed, _recorder, durability="fast" if seed % 5 == 4 else "full", points=_points)


def try_all_damage(seed: int) -> Outcome:
    """The folder of a seed, closed or killed."""
    seed += seed // 5  # the sixth policy works in the background, so its folder has no one state
    world, outcome = World(seed), Outcome()
    world.set_limits()
    with tempfile.TemporaryDirectory(prefix=f"damage-{seed}-") as folder:
        try:
            victim = Victim(world, Path(folder), killed=seed % 2 == 0)
            rng = np.random.default_rng([seed, 4])
            outcome.add(try_damage(victim, rng, n_flips=120, n_cuts=20, modes=("write", "write", "read")))
        except Exception as error:
            outcome.failures.append(f"seed {seed} ({world}): {type(error).__name__}: {error}")
    return outcome


# ---- all of them


class Run:
    """All jobs, on some workers, with progress."""

    def __init__(self, pool: Pool) -> None:
        self.kills, self.losses, self.outcome = Kills(), Losses(), Outcome()
        self.interrupts = Interrupts()
        self._pool, self._start = pool, time.perf_counter()

    def do(self, jobs: list[Job]) -> None:
        for n, found in enumerate(self._pool.imap_unordered(work, jobs), 1):
            for failure in found.failures:
                print(f"FAILED {failure}", flush=True)
            totals: tuple[Any, ...] = (self.kills, self.losses, self.outcome, self.interrupts)
            next(total for total in totals if type(total) is type(found)).add(found)
            if n % 20 == 0 or n == len(jobs):
                figures = (
                    f"{self.kills.kills.total()} kills, {self.losses.losses.total()} power losses, "
                    f"{self.outcome.trials()} damaged folders, {self.interrupts.interrupts} interrupts"
                )
                spent = time.perf_counter() - self._start
                print(f"{n:4d} of {len(jobs)} seeds, {figures}, {spent:.0f} s", flush=True)

    def reach(self, seed: int) -> None:
        """Go on with seeds from `seed` on until every fail-point has killed: at which moment a child is when it is
        killed depends on the machine, and so does what is left for later lives."""
        for more in range(MORE):
            if unreached := self.kills.unreached():
                self.do([("kills", seed + more, name) for name in unreached])


def summary(kills: Kills, losses: Losses, outcome: Outcome, interrupts: Interrupts) -> None:
    print(
        f"\n{kills.seeds} tables lived {kills.lives} times and were killed {kills.kills.total()} times.\n"
        f"Besides {kills.acknowledged} operations that were acknowledged, {kills.whole} under way were there whole and "
        f"{kills.undone} not at all. {kills.snapshots} snapshots.\n"
        f"{kills.retries} calls with a key were repeated after a kill, and changed nothing.\n"
        f"{kills.threads} operations had a thread of their own, {kills.forks} forks were refused, and readers in other "
        f"processes read the table {kills.reads} times."
    )
    for name in ("any moment", *failpoints.NAMES):
        print(f"  {kills.kills[name]:5d}  {name}")
    print(
        f"{losses.seeds} tables lost power {losses.losses.total()} times: {losses.whole} operations under way "
        f"were there whole, {losses.undone} not at all; {losses.no_table} came before the table. {losses.snapshots} "
        f'snapshots. With durability="fast", {losses.older} tables were older. {losses.killed} lives followed a kill.'
    )
    print(
        f"{outcome.trials()} damaged folders: {outcome.refused.total()} refused by name, "
        f"{outcome.right.total()} with the right answers all the same."
    )
    print(
        f"{interrupts.interrupts} interrupts in {interrupts.seeds} tables, {interrupts.closes} of them in close and "
        f"{interrupts.opens} in open: {interrupts.whole} operations were there whole, {interrupts.undone} not at all; "
        f"{interrupts.reopened} tables asked to be opened again."
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="seeds (200)")
    parser.add_argument("--losses", type=int, default=20, help="seeds (20)")
    parser.add_argument("--points", type=int, default=12, help="moments of each life that loses power (12)")
    parser.add_argument("--damage", type=int, default=12, help="seeds (12)")
    parser.add_argument("--interrupts", type=int, default=80, help="seeds (80)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", default=memory_folder(), help="where folders are created (in memory)")
    parser.add_argument("--json", default="", help="a file for the figures")
    chosen = parser.parse_args(arguments)
    if not hasattr(os, "fork"):
        print("children are forked, which this system cannot do")
        return 2
    if chosen.losses and faulty_disk.problem():
        print(f"no power losses: {faulty_disk.problem()}")
        chosen.losses = 0
    counts = {
        "losses": chosen.losses,
        "damage": chosen.damage,
        "interrupts": chosen.interrupts,
        "kills": chosen.kills,
    }
    jobs = [(kind, chosen.first + i, "") for kind, n in counts.items() for i in range(n)]
    context = multiprocessing.get_context("forkserver")
    with (
        tempfile.TemporaryDirectory(prefix="hashstream-crash-", dir=chosen.folder) as folder,
        context.Pool(chosen.workers, initializer=begin, initargs=(folder, chosen.points)) as pool,
    ):
        everything = Run(pool)
        everything.do(jobs)
        if chosen.kills >= 20:
            everything.reach(chosen.first + chosen.kills)
        pool.close()
        pool.join()
    kills, losses, outcome, interrupts = (
        everything.kills, everything.losses, everything.outcome, everything.interrupts,
    )  # fmt: skip
    summary(kills, losses, outcome, interrupts)
    failures = kills.failures + losses.failures + outcome.failures + interrupts.failures
    unreached = kills.unreached() if chosen.kills >= 20 else []
    if unreached:
        print(f"Never reached: {', '.join(unreached)}.")
    print(f"{len(failures)} failures.")
    if chosen.json:
        found = {
            "kills": vars(kills),
            "losses": vars(losses),
            "damage": vars(outcome),
            "interrupts": vars(interrupts),
        }
        Path(chosen.json).write_text(json.dumps({**found, "unreached": unreached}))
    return 1 if failures or unreached else 0


if __name__ == "__main__":
    sys.exit(main())
