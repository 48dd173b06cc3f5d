"""Kills tables: a child process writes by a seed and dies, at a fail-point or at any moment; what is left is judged.

Every seed is one table with several lives. After each death the folder is opened again and held against the same
operations in a folder that was never killed: every call that had returned is there, the one under way is there whole or
not at all, and model, codes, versions, order and answers are the same to the last bit. The next life goes on from
what is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.table.crash_child import World, fork, live, read
from tests.table.fingerprints import differences, fingerprint, wrong_answers

from hashstream.table import HashTable
from hashstream.table.storage.folder import failpoints

LIVES = 4
ONCE = ("create", "compact", "snapshot")  # points that few operations pass


@dataclass
class Kills:
    """What came of some seeds."""

    seeds: int = 0
    lives: int = 0
    kills: Counter[str] = field(default_factory=Counter)  # "any moment", or the name of a fail-point
    acknowledged: int = 0  # operations
    whole: int = 0  # operations under way that were there
    undone: int = 0  # ... that were not
    snapshots: int = 0
    forks: int = 0  # that were refused
    threads: int = 0  # operations in a thread of their own
    retries: int = 0  # of calls with a key that were done before, which changed nothing
    reads: int = 0  # by readers in processes of their own, each consistent in itself
    failures: list[str] = field(default_factory=list)

    def add(self, other: Kills) -> None:
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def unreached(self) -> list[str]:
        return [name for name in failpoints.NAMES if not self.kills[name]]


class Unequal(AssertionError):
    """A table is not what it was promised to be."""


def try_kills(seed: int, point: str = "") -> Kills:
    """All lives of one table. A failure is a sentence in what is returned.

    point : a fail-point at which the first life has to end, if it comes there.
    """
    base = Path(tempfile.mkdtemp(prefix=f"crash-{seed}-"))
    (base / "tmp").mkdir()
    before, tempfile.tempdir = (
        tempfile.tempdir,
        str(base / "tmp"),
    )  # for what those who are killed leave there
    story = Story(seed, base, point)
    try:
        story.tell()
    except Exception as error:
        why = str(error) if isinstance(error, Unequal) else f"{type(error).__name__}: {error}"
        story.found.failures.append(f"seed {seed} ({story.world}): {why}")
    finally:
        tempfile.tempdir = before
        if story.reference is not None:
            story.reference.close()
        shutil.rmtree(base, ignore_errors=True)
    return story.found


class Story:
    """One table by a seed, and its reference, which is never killed."""

    def __init__(self, seed: int, base: Path, point: str) -> None:
        self.world, self.base, self.first_point = World(seed), base, point
        self.path, self.snapshots = base / "killed", base / "snapshots"
        self.snapshots.mkdir(parents=True)
        self.rng = np.random.default_rng([seed, 2])
        self.found = Kills(seeds=1)
        self.done = 0  # operations that are in the reference
        self.results: dict[int, str] = {}
        self.wanted: list[Any] = []  # results of the reference
        self.reference: HashTable | None = None

    def tell(self) -> None:
        self.world.set_limits()
        for number in range(LIVES):
            acknowledged, opened = self.live_once(number)
            if self.path.joinpath("table.sqlite").exists():
                self.judge(acknowledged)
            elif opened:
                raise Unequal("there is no table, but opening it was acknowledged")
        self.finish()

    # ---- dying

    def live_once(self, number: int) -> tuple[int, bool]:
        """One life: how many operations were acknowledged, over all lives, and whether opening was in this one."""
        point = self.death(number)
        until = -2  # operations until it is killed; -1 : while it is being opened
        if not point:
            opening = self.rng.random() < 0.25
            until = -1 if opening else int(self.rng.integers(len(self.world.operations) - self.done + 1))
        job = partial(live, self.world, self.path, self.snapshots, self.done, failpoint=point)
        reader = self.begin_reading() if number % 2 else None
        child, pipe = fork(job)
        opened, acknowledged, failed = False, self.done, ""
        if until == -1:
            kill_after(child, float(self.rng.random()) * 0.02)
        for line in read_lines(pipe):
            if line.startswith("error"):
                failed = json.loads(line[6:])
                break
            opened = True
            self.found.forks += line == "forked"
            if line.startswith("retried"):
                _, index, result = line.split(" ", 2)
                if json.loads(result) != self.wanted[int(index)]:
                    raise Unequal(f"operation {index} returned {result} when it was repeated")
                self.found.retries += 1
            if line.split()[0].isdigit():
                index, result = line.split(" ", 1)
                if int(index) != acknowledged:
                    raise Unequal(f"operation {index} was acknowledged instead of {acknowledged}")
                self.results[acknowledged] = result
                acknowledged += 1
                self.found.threads += self.world.threads
            if acknowledged - self.done == until:
                kill_after(child, float(self.rng.random()) * 0.008)
                until = -2
        os.close(pipe)
        _, status = os.waitpid(child, 0)
        if reader is not None:
            self.end_reading(*reader)
        self.found.lives += 1
        self.found.acknowledged += acknowledged - self.done
        if os.WIFSIGNALED(status):
            self.found.kills[point.split(":")[0] or "any moment"] += 1
        elif os.WEXITSTATUS(status):
            raise Unequal(f"the child failed: {failed or 'without a word'}")
        return acknowledged, opened

    def begin_reading(self) -> tuple[int, int]:
        """A reader of what the writer writes; the process, and the pipe to which it tells what it saw."""
        return fork(partial(read, self.path, self.world.queries))

    def end_reading(self, reader: int, pipe: int) -> None:
        """It tells nothing more than a pipe holds, or it waits to be ended."""
        os.kill(reader, signal.SIGKILL)
        for line in read_lines(pipe):
            if line.startswith(("wrong", "error")):
                raise Unequal(f"a reader: {line}")
            self.found.reads += 1
        os.close(pipe)
        os.waitpid(reader, 0)

    def death(self, number: int) -> str:
        """A fail-point that may be passed, all of them in turn over the seeds, or "" for any moment."""
        if self.first_point and not number:
            return f"{self.first_point}:1"
        if (self.world.seed + number) % 3 == 2:
            return ""
        coming = {operation.name for operation in self.world.operations[self.done :]}
        missing = {"compact", "snapshot"} - coming | ({"create"} if number else set())
        if not self.world.policy().keeps_features:
            missing.add("segment")
        for step in range(len(failpoints.NAMES)):
            name = failpoints.NAMES[(5 * self.world.seed + 3 * number + step) % len(failpoints.NAMES)]
            if name.split(".")[0] not in missing:
                break
        return f"{name}:{1 if name.startswith(ONCE) else int(self.rng.integers(1, 7))}"

    # ---- judging

    def judge(self, acknowledged: int) -> None:
        """What is left is the state after `acknowledged` operations, or one more. `done` is that many afterwards."""
        copy = self.base / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.path, copy)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as: learning again gave other bits
            found = self.inspect(copy)
            if self.rng.random() < 0.3:
                reader = self.inspect(self.path, mode="read")
                if wrong := differences(reader, found, lazy=self.world.lazy):
                    raise Unequal(f"a reader sees another table than a writer: {wrong}")
        kept = ("table.sqlite", "commit-marker", "lock")
        if strange := [one.name for one in copy.iterdir() if one.name not in kept and one.suffix != ".seg"]:
            raise Unequal(f"files are left after closing: {strange}")

        self.advance(max(acknowledged, self.done))
        wrong = self.compared(found)
        if not wrong:
            self.found.undone += 1
            return
        if self.done < len(self.world.operations):
            before, last = wrong, self.world.operations[self.done]
            self.advance(self.done + 1)
            wrong = self.compared(found)
            if wrong:
                raise Unequal(
                    f"it is neither after {self.done - 1} operations, where {before} are others, nor after {self.done} "
                    f"({last}), where {wrong} are"
                )
            self.found.whole += 1
            return
        raise Unequal(f"after all operations {wrong} are others")

    def compared(self, found: dict[str, Any]) -> list[str]:
        """Under which names the reference is another table."""
        assert self.reference is not None
        return differences(found, fingerprint(self.reference, self.world.queries), lazy=self.world.lazy)

    def inspect(self, path: Path, mode: str = "write") -> dict[str, Any]:
        """The fingerprint of a folder, which must also be right in itself."""
        if mode == "read":
            table = HashTable.open(path, mode="read")
        else:
            table = self.world.open(path)
            if table._refresher is not None:
                table._refresher.stop()  # it would go on meanwhile
        with table:
            found = fingerprint(table, self.world.queries)
            if wrong := wrong_answers(table, self.world.queries):
                raise Unequal(f"wrong in itself: {wrong}")
        return found

    def advance(self, n: int) -> None:
        """Bring the reference to n operations; what calls returned, and the snapshots on the way, must be the same."""
        if self.reference is None:
            settings = {"durability": "fast", "checkpoint_rows": 1 << 30, "segment_bytes": 1 << 30}
            self.reference = self.world.open(self.base / "never killed", **settings)
        while self.done < n:
            operation = self.world.operations[self.done]
            if operation.name == "snapshot":
                self.judge_snapshot(self.snapshots / str(operation.argument))
            self.reference, result = self.world.apply(self.reference, operation, None)
            self.wanted.append(result)
            told = self.results.get(self.done)
            if told is not None and not self.world.lazy and json.loads(told) != result:
                raise Unequal(f"{operation} returned {told}, but {result} where nobody is killed")
            self.done += 1

    def judge_snapshot(self, path: Path) -> None:
        if path.exists():
            if wrong := self.compared(self.inspect(path)):
                raise Unequal(f"snapshot {path.name} is another table: {wrong}")
            self.found.snapshots += 1
        elif self.done in self.results:
            raise Unequal(f"snapshot {path.name} was acknowledged, but is not there")

    def finish(self) -> None:
        """The rest of the operations, in this process, and a last comparison."""
        table = self.world.open(self.path)
        for operation in self.world.operations[self.done :]:
            table, _ = self.world.apply(table, operation, self.snapshots)
        table.close()
        self.advance(len(self.world.operations))
        if wrong := self.compared(self.inspect(self.path)):
            raise Unequal(f"at the end {wrong} are others")


def kill_after(child: int, seconds: float) -> None:
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # it is not reaped yet, so the id is still its own


def read_lines(pipe: int) -> Iterator[str]:
    """Whole lines, until the other side is gone."""
    rest = b""
    while piece := os.read(pipe, 1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode()
