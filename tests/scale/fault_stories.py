"""One round: a cluster on Ray, something that is killed, the same command again, and one table that says what is right.

driver   the program that feeds is killed, once or twice
search   shards are killed while others search
adopt    a shard is killed while items are re-encoded, with functions learned here or elsewhere
writer   the learner, or a shard, is killed while parts are fed
disk     the folder of a shard is lost, and comes back from a snapshot and the feed
late     a part is numbered, its program is killed, and it comes after newer ones; then all parts come twice
engine   all processes are killed while items are re-encoded
node     all processes of a node are killed while parts are fed

In the first five, two threads search all the time, and every answer has to be explained.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.scale import ray_processes
from tests.scale.fault_child import at_each_slice
from tests.scale.fault_search import Found, Moment, Searches
from tests.scale.fault_world import K, Oracle, World, Wrong, demand
from tests.scale.ray_processes import Child

from hashstream.scale import Cluster, ClusterError
from hashstream.scale.shard import shard_folder

TOO_LATE = ", too late"
STEP = 300.0  # seconds within which whatever goes on has to end


def play(seed: int, base: str, address: str, rest: float = 0.0) -> Found:
    """The round of a seed. A failure is a sentence in what is returned. base : of short path. address : of a Ray.
    rest : seconds between two searches of a thread."""
    round_ = Round(seed, Path(tempfile.mkdtemp(prefix=f"{seed}-", dir=base)), address, rest)
    try:
        getattr(round_, round_.world.story)()
    except Exception as error:
        why = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        round_.found.failures.append(why)
    finally:
        round_.end()
    about = f"seed {seed}, {round_.world.story} ({round_.world})"
    round_.found.failures = [f"{about}: {why}" for why in round_.found.failures]
    return round_.found


class Round:
    """A cluster and its fate."""

    def __init__(self, seed: int, folder: Path, address: str, rest: float) -> None:
        self.world, self.folder, self.address, self.rest = World.of(seed), folder, address, rest
        self.rng = random.Random(f"{seed} kills")
        self.found = Found()
        self.found.rounds[self.world.story] += 1
        self.children: list[Child] = []
        self.cluster: Cluster | None = None
        for at in range(len(self.world.steps)) if self.world.way == "files" else ():
            self.world.file(folder, at)

    # ---- what stories are made of

    def open(self) -> Cluster:
        self.cluster = self.world.open(self.folder / "cluster", self.address)
        return self.cluster

    def child(self, command: str, *, alone: bool = False) -> Child:
        """Start a program. alone : with a Ray of its own."""
        ray_folder = tempfile.mkdtemp(prefix="r", dir=self.folder.parent)
        where = ("--ray", ray_folder) if alone else ("--address", self.address)
        child = Child(self.folder, self.world.seed, command, *where)
        self.children.append(child)
        return child

    def kill(self, who: str, process: Any, *, ended: bool = False) -> None:
        """Kill a process, and count that. ended : whether what it was doing had ended before."""
        ray_processes.kill(process)
        self.found.kills[who + (TOO_LATE if ended else "")] += 1

    def judge(self, oracle: Oracle, *, in_order: bool = True) -> None:
        assert self.cluster is not None
        oracle.judge(self.cluster, in_order=in_order)

    @contextmanager
    def searches(self, judge: Callable[[Any, int], None], *, shards_only: bool = False) -> Iterator[Searches]:
        """Search within the block. shards_only : whether nothing but shards is killed there."""
        assert self.cluster is not None
        searches = Searches(self.cluster, self.world.Q, judge, self.rest)
        try:
            with searches:
                searches.wait(1)
                yield searches
                searches.wait(2)
        finally:
            searches.found.shard_pause = searches.found.pause if shards_only else 0.0
            self.found.add(searches.found)

    def meanwhile(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Callable[[], bool]]:
        """Begin something in a thread. Returns a function that waits for its end, and raises what it raised; and one
        that says whether it has ended."""
        errors: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def join() -> None:
            thread.join(STEP)
            demand(not thread.is_alive(), f"a call does not return within {STEP:.0f} s")
            if errors:
                raise errors[0]

        return join, lambda: not thread.is_alive()

    def end(self) -> None:
        for child in self.children:
            child.kill()
        if self.cluster is not None:
            self.cluster.stop()
        if not self.found.failures:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- stories

    def driver(self) -> None:
        world, cluster, oracle = self.world, self.open(), Oracle(self.world)
        world.feed(cluster, self.folder, world.half)
        with self.searches(lambda hits, k: oracle.explain(hits, k, world.half, len(world.steps))):
            for _ in range(self.rng.choice((1, 1, 2))):
                child = self.child("feed")
                child.wait_for("open")
                for _ in range(world.moment):
                    if child.next_line() in (None, "right"):
                        break
                time.sleep(self.rng.random() * 0.1)
                self.kill("driver while feeding", child.process.pid, ended=child.has_ended())
            world.feed(cluster, self.folder)
        self.judge(oracle)

    def search(self) -> None:
        world, cluster, oracle = self.world, self.open(), Oracle(self.world)
        world.feed(cluster, self.folder)
        self.judge(oracle)

        def same(hits: Any, k: int) -> None:
            right = oracle.table.search(world.Q, k)
            demand(np.array_equal(hits.distances, right.distances), "other distances")
            demand(hits.ids.tolist() == right.ids.tolist(), "other ids")

        with self.searches(same, shards_only=True) as searches:
            for _ in range(self.rng.choice((1, 2))):
                time.sleep(self.rng.random() * 0.3)
                victims = self.rng.sample(cluster.shard_pids(), self.rng.randint(1, world.shards))
                for process in victims:
                    self.kill("shard while searching", process)
                searches.wait(4)
        self.judge(oracle)

    def adopt(self) -> None:
        world, cluster, oracle = self.world, self.open(), Oracle(self.world)
        world.feed(cluster, self.folder)
        elsewhere = self.rng.random() < 0.5
        if elsewhere:
            hasher = cluster.hasher
            hasher.partial_fit(world.steps[0].X, np.array([one or 0 for one in world.steps[0].y or ()], str))
            oracle.table.adopt(hasher)
            oracle.note()
        done = len(world.steps)
        victim = self.rng.choice(cluster.shard_pids())
        moment = Moment(self.rng.randrange(12))
        at_each_slice(cluster, moment.tell)
        with self.searches(lambda hits, k: oracle.explain(hits, k, done, done), shards_only=True):
            move = (lambda: cluster.adopt(hasher)) if elsewhere else cluster.refresh
            join, ended = self.meanwhile(move)
            moment.wait()
            self.kill("shard while adopting", victim, ended=ended())
            join()
        self.judge(oracle)

    def writer(self) -> None:
        world, cluster, oracle = self.world, self.open(), Oracle(self.world)
        world.feed(cluster, self.folder, world.half)
        learner = self.rng.random() < 0.7
        members = cluster._members
        victim = members.learn("pid") if learner else self.rng.choice(cluster.shard_pids())
        with self.searches(
            lambda hits, k: oracle.explain(hits, k, world.half, len(world.steps)), shards_only=True
        ):
            moment = Moment(world.moment)
            join, ended = self.meanwhile(lambda: world.feed(cluster, self.folder, tell=moment.tell))
            moment.wait()
            time.sleep(self.rng.random() * 0.02)
            self.kill(f"{'learner' if learner else 'shard'} while feeding", victim, ended=ended())
            join()
        self.judge(oracle)

    def disk(self) -> None:
        world, cluster, oracle = self.world, self.open(), Oracle(self.world)
        world.feed(cluster, self.folder, world.half)
        cluster.snapshot(self.folder / "copy")
        world.feed(cluster, self.folder)
        lost = self.rng.randrange(world.shards)
        process = cluster.shard_pids()[lost]
        shard_folder(self.folder / "cluster", lost).rename(self.folder / "lost")
        self.kill("shard with its disk", process)
        shutil.rmtree(self.folder / "lost")
        for partial in (False, True) if world.shards > 1 else (False,):
            while True:
                try:
                    missing = cluster.search(world.Q, K, partial=partial).missing
                except ClusterError:
                    demand(not partial, "a partial search fails although other shards are there")
                    break
                demand(partial and missing > 0, "a search is answered though a shard is lost")
                break
        forgotten = cluster.restore_shard(lost, self.folder / "copy")
        demand(
            forgotten == len(world.steps) - world.half,
            "other parts than those since the snapshot are fed again",
        )
        with self.searches(lambda hits, k: oracle.explain(hits, k, world.half, len(world.steps))):
            world.feed(cluster, self.folder)
        self.judge(oracle)

    def late(self) -> None:
        world, cluster, at = self.world, self.open(), self.world.late
        parts = [world.part(self.folder, one) for one in range(len(world.steps))]
        cluster.feed(parts[:at])
        child = self.child("late")
        child.wait_for("begun")
        demand(child.next_line() is None, "the program goes on after it was killed")
        self.found.kills["driver of a part that comes late"] += 1
        cluster.feed(parts[at + 1 :], name="others")
        cluster.feed([parts[at]], name="late")
        oracle = Oracle(world, at)
        for one in (*range(at + 1, len(parts)), at):
            step = world.steps[one]
            step.do(oracle.table, sequence=(one << 32) + np.arange(len(step.ids)))
        self.judge(oracle, in_order=False)
        for name, some in (("batch", parts[:at]), ("others", parts[at + 1 :]), ("late", [parts[at]])):
            cluster.feed(some, name=name, force=True)
        self.judge(oracle, in_order=False)

    def engine(self) -> None:
        for _ in range(self.rng.choice((1, 1, 2))):
            child = self.child("move", alone=True)
            child.wait_for("moving")
            for _ in range(self.rng.randint(1, 12)):
                if child.next_line() in (None, "right"):
                    break
            ended = child.has_ended()
            child.kill()
            self.found.kills["engine while re-encoding" + (TOO_LATE if ended else "")] += 1
        self.child("judge", alone=True).wait_for("right")

    def node(self) -> None:
        child = self.child("node", alone=True)
        ended = "too late" in child.wait_for("killed")
        self.found.kills["node while feeding" + (TOO_LATE if ended else "")] += 1
        self.found.count(json.loads(child.wait_for("found").removeprefix("found")))
        child.wait_for("right")
