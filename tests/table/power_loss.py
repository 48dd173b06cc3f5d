"""Power losses: a child's writes and syncs are written down, and the folder is rebuilt as a power loss at any moment
could leave it (faulty_disk.py). What is rebuilt is held against what had been acknowledged at that moment.

Run as a script on the faulty disk, this file is the child: it takes one job a line and writes each life down.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.table.crash_child import World, fork, live
from tests.table.faulty_disk import FaultyDisk, Replay, environment, read_log
from tests.table.fingerprints import differences, fingerprint, wrong_answers

from hashstream.table.storage.folder import commit_marker

KINDS = ("nothing", "all", "some", "some")
LIVES = 3


class Recorder:
    """A process on the faulty disk that lives lives."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.table.power_loss"],
            env=environment(folder),
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def record(self, **job: Any) -> None:
        """seed, durability, start: see `live`. The table is root/table, acknowledgements go to root/`acks`. log : where
        it is written down. temporary : for temporary files. machine : a number that grows when it starts again."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if answer != "done\n":
            raise AssertionError(f"the child of seed {job['seed']} failed: {answer}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Losses:
    """What came of some power losses."""

    seeds: int = 0
    losses: Counter[str] = field(default_factory=Counter)  # by kind
    whole: int = 0  # operations under way that were there
    undone: int = 0  # ... that were not
    no_table: int = 0  # before the table was created
    older: int = 0  # acknowledged operations were missing ("fast" only)
    killed: int = 0  # lives that began with what a kill left
    snapshots: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Losses) -> None:
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


class Reference:
    """The fingerprints after each number of operations, of a table that nothing happened to."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        table = world.open(path, durability="fast", checkpoint_rows=1 << 30, segment_bytes=1 << 30)
        self.after = [fingerprint(table, world.queries)]
        for operation in world.operations:
            table, _ = world.apply(table, operation, None)
            self.after.append(fingerprint(table, world.queries))
        table.close()

    def others(self, found: dict[str, Any], n: int) -> list[str]:
        """Under which names a table is another one than after n operations."""
        if n >= len(self.after):
            return ["more operations than there are"]
        return differences(found, self.after[n], lazy=self.world.lazy)


def try_power_losses(seed: int, recorder: Recorder, *, durability: str = "full", points: int = 12) -> Losses:
    """Lose power at some moments of some lives; each begins with what a loss or a kill left of the last one."""
    base = Path(tempfile.mkdtemp(prefix=f"power-{seed}-"))
    (base / "tmp").mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(base / "tmp")
    story = Story(seed, durability, base, recorder)
    try:
        story.tell(points)
    except Exception as error:
        story.found.failures.append(f"seed {seed} ({story.world}): {type(error).__name__}: {error}")
    finally:
        tempfile.tempdir = before
        shutil.rmtree(base, ignore_errors=True)
    return story.found


class Story:
    """One table by a seed, written down."""

    def __init__(self, seed: int, durability: str, base: Path, recorder: Recorder) -> None:
        self.world, self.base, self.recorder = World(seed, durability=durability), base, recorder
        self.full = durability == "full"
        self.rng = np.random.default_rng([seed, 3])
        self.found = Losses(seeds=1)
        self.root, self.left = base / "root", base / "left"
        self.start = self.promised = (
            0  # operations that are there when a life begins, and that were acknowledged
        )
        # Of the next life: its folder, these two figures, and, after a kill, what of the folder is durable.
        self.next: tuple[Path, int, int, Replay | None] | None = None

    def tell(self, points: int) -> None:
        self.world.set_limits()
        self.reference = Reference(self.world, self.base / "reference")
        self.root.mkdir()
        replay: Replay | None = None
        for life in range(LIVES):
            self.live_once(life, points, replay)
            if self.next is None:
                return
            shutil.rmtree(self.root)
            path, self.start, self.promised, replay = self.next
            path.rename(self.root)
            self.next = None

    def live_once(self, life: int, points: int, replay: Replay | None) -> None:
        """replay : what the last life left, where it was killed: not all of that is durable."""
        log = self.base / f"log {life}"
        if replay is None:
            replay = Replay(self.root)
        else:
            self.found.killed += 1
        self.recorder.record(
            seed=self.world.seed,
            durability=self.world.settings["durability"],
            root=str(self.root),
            log=str(log),
            start=self.start,
            acks=f"acks {life}",
            temporary=str(self.base / "tmp"),
            machine=life + 1,
        )
        records = list(read_log(log))
        # Any moments, those right after something was acknowledged, those right before and after a sync, and in a life
        # that follows another the first ones.
        told = [
            i + 1 for i, record in enumerate(records) if record.kind == "w" and record.fd == records[0].fd
        ]
        chosen = {*self.rng.integers(len(records) + 1, size=points).tolist()}
        chosen |= {*self.rng.choice(told, size=min(len(told), points // 2), replace=False).tolist(), told[-1]}
        syncs = [i for i, record in enumerate(records) if record.kind == "s"]
        chosen |= {i + int(self.rng.integers(2)) for i in self.rng.choice(syncs, size=points // 2).tolist()}
        if life:
            chosen |= {*self.rng.integers(syncs[min(8, len(syncs) - 1)], size=points // 3).tolist()}
        at = 0
        for point in sorted(chosen):
            for record in records[at:point]:
                replay.step(record)
            at = point
            lines = [line.split(" ", 1) for line in replay.content(f"acks {life}").decode().splitlines()]
            for kind in KINDS:
                where = (
                    f"seed {self.world.seed}, life {life}, {kind} of what was not synced at record {point}"
                )
                shutil.rmtree(self.left, ignore_errors=True)
                replay.folder.restore(self.left, kind, self.rng)
                self.found.losses[kind] += 1
                there = self.judge(where, lines, just_told=point in told)
                told_of = self.acknowledged(lines)
                likely = 0.6 if kind == "all" and there is not None and there > told_of else 0.04
                if there is not None and self.rng.random() < likely:
                    path = self.base / "next"
                    shutil.rmtree(path, ignore_errors=True)
                    self.left.rename(path)
                    # With all that was written, this is also what a process leaves that is killed.
                    killed = kind == "all"
                    self.next = (
                        path,
                        there,
                        told_of if killed else there,
                        copy.deepcopy(replay) if killed else None,
                    )

    def acknowledged(self, lines: list[list[str]]) -> int:
        """Operations that must be there. What a life has found is promised once opening has returned."""
        return self.start + sum(line[0].isdigit() for line in lines) if lines else self.promised

    def judge(self, where: str, lines: list[list[str]], just_told: bool) -> int | None:
        """After how many operations the table is that is left; None where there is none, or none to go on with."""
        done = [int(line[0]) for line in lines if line[0].isdigit()]
        acknowledged = self.acknowledged(lines)
        # What is not synced as a rule is so by these, if nothing was begun after them.
        last = lines[-1] if lines else [""]
        name = self.world.operations[int(last[0])].name if last[0].isdigit() else ""
        synced = last[0] == "closed" or name == "flush" or (name == "compact" and last[1] != "0")
        sure = self.full or (just_told and synced)
        if not (self.left / "table" / "table.sqlite").exists():
            if lines or self.start:
                self.found.failures.append(f"{where}: there is no table, but it was acknowledged")
            self.found.no_table += 1
            return None
        try:
            found = self.inspect(self.left / "table")
            for index in done:
                operation = self.world.operations[index]
                if operation.name == "snapshot" and self.rng.random() < 0.2:
                    copied = self.inspect(self.left / "snapshots" / str(operation.argument))
                    if wrong := self.reference.others(copied, index):
                        raise AssertionError(f"snapshot {operation.argument} is another table: {wrong}")
                    self.found.snapshots += 1
        except Exception as error:
            self.found.failures.append(f"{where}: {type(error).__name__}: {error}")
            return None
        if not (before := self.reference.others(found, acknowledged)):
            self.found.undone += 1
            return acknowledged
        if not (after := self.reference.others(found, acknowledged + 1)):
            self.found.whole += 1
            return acknowledged + 1
        for n in range(acknowledged if not sure else 0):
            if not self.reference.others(found, n):
                self.found.older += 1
                return n
        self.found.failures.append(
            f"{where}: neither after {acknowledged} operations, where {before} are others, nor after one more, where "
            f"{after} are"
        )
        return None

    def inspect(self, path: Path) -> dict[str, Any]:
        """The fingerprint of a folder after the machine has started again; the folder itself stays as it is."""
        copy = self.base / "inspected"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        with (
            warnings.catch_warnings(),
            patch.object(commit_marker, "start_of_machine", lambda: bytes([99] * 16)),
        ):
            warnings.simplefilter("error")
            table = self.world.open(copy)
            if table._refresher is not None:
                table._refresher.stop()
            with table:
                found = fingerprint(table, self.world.queries)
                if wrong := wrong_answers(table, self.world.queries):
                    raise AssertionError(f"wrong in itself: {wrong}")
        return found


def serve() -> None:
    """Live one life for each job, writing it down."""
    disk = FaultyDisk()
    for line in sys.stdin:
        job = json.loads(line)
        root = Path(job["root"])

        def life(_: object, job: dict[str, Any] = job, root: Path = root) -> None:
            tempfile.tempdir = job["temporary"]
            commit_marker.start_of_machine = lambda: bytes([job["machine"]] * 16)
            disk.watch(root, Path(job["log"]))
            acks = os.open(root / job["acks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            snapshots = root / "snapshots"
            snapshots.mkdir(exist_ok=True)
            world = World(job["seed"], durability=job["durability"])
            live(
                world,
                root / "table",
                snapshots,
                job["start"],
                lambda text: os.write(acks, text.encode() + b"\n"),
            )

        child, pipe = fork(life)
        said = b""
        while piece := os.read(pipe, 1 << 16):
            said += piece
        os.close(pipe)
        _, status = os.waitpid(child, 0)
        print("done" if status == 0 else json.dumps(said.decode()), flush=True)


if __name__ == "__main__":
    serve()
