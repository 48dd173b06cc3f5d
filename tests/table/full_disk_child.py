"""Operations on a disk that is full, or that fails to sync, now and then. Runs on the faulty disk (faulty_disk.py).

    python -m tests.table.full_disk_child folder seed ...

Prints what happened, as JSON. Every operation is tried with little room first. If it is refused, nothing may have
changed, searches go on, and the same operation works when there is room.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from tests.table.crash_child import Operation, World
from tests.table.faulty_disk import FaultyDisk
from tests.table.fingerprints import differences, fingerprint, wrong_answers

from hashstream.table import DiskFull, HashTable, OutcomeUnknown, TableError

ROOM = 30_000


class Trial:
    """A table on the faulty disk, and the same one on a whole disk."""

    def __init__(self, disk: FaultyDisk, world: World, folder: Path) -> None:
        self.disk, self.world = disk, world
        self.path, self.snapshots = folder / "watched" / "table", folder / "watched" / "snapshots"
        self.snapshots.mkdir(parents=True)
        disk.watch(folder / "watched")
        self.rng = np.random.default_rng([world.seed, 5])
        self.counts: Counter[str] = Counter()
        self.table = world.open(self.path)
        self.reference = world.open(folder / "reference", durability="fast")

    def same(self, table: HashTable, when: str) -> None:
        found, wanted = (
            fingerprint(table, self.world.queries),
            fingerprint(self.reference, self.world.queries),
        )
        if wrong := differences(found, wanted):
            raise AssertionError(f"seed {self.world.seed}, {when}: {wrong} are others")

    def apply(self, operation: Operation) -> None:
        self.table, _ = self.world.apply(self.table, operation, self.snapshots)

    def fill(self, operation: Operation) -> None:
        """Try with little room, then with enough."""
        before = set(self.snapshots.iterdir())
        self.disk.room(int(self.rng.integers(ROOM)))
        try:
            self.apply(operation)
        except TableError as error:
            if isinstance(error, OutcomeUnknown):  # a sync of housekeeping had failed before
                self.disk.room(None)
                self.open_again()
                self.counts["sync: noticed by the next operation"] += 1
                self.fill(operation)
                return
            if not isinstance(error, DiskFull):
                raise AssertionError(f"{operation} on a full disk: {error}") from error
            self.counts[f"{operation.name} refused"] += 1
            assert self.table._open or operation.name == "reopen"
            if self.table._open:
                self.same(self.table, f"after {operation} was refused")
                assert set(self.snapshots.iterdir()) == before, "half a snapshot was left"
            self.disk.room(None)
            if not self.table._open:  # and there was no room to open it
                self.open_again()
            self.apply(operation)
        else:
            self.counts["fitted"] += 1
        self.disk.room(None)
        self.world.apply(self.reference, operation, None)

    def break_sync(self, operation: Operation) -> None:
        """A sync fails. Whoever opens the folder again finds the operation whole or not at all."""
        self.disk.break_sync(int(self.rng.integers(1, 4)))
        failed = False
        try:
            self.apply(operation)
        except TableError:
            failed = True
        self.disk.break_sync(0)
        if not failed:
            self.counts["sync: not noticed"] += 1
            self.world.apply(self.reference, operation, None)
            return
        self.counts["sync: noticed"] += 1
        self.open_again()
        if differences(*(fingerprint(table, self.world.queries) for table in (self.table, self.reference))):
            self.counts["sync: whole"] += 1
        else:
            self.apply(operation)
        self.world.apply(self.reference, operation, None)

    def open_again(self) -> None:
        self.table.close()
        self.table = self.world.open(self.path)

    def run(self) -> Counter[str]:
        # Of calls that share a commit, some may fit where not all do.
        alone = [
            (one,) if not one.calls else tuple(replace(one, calls=(call,)) for call in one.calls)
            for one in self.world.operations
        ]
        for number, operation in enumerate(chain.from_iterable(alone)):
            if number % 4 == 3:
                self.break_sync(operation)
            else:
                self.fill(operation)
            self.same(self.table, f"after {operation}")
        self.table.close()
        with self.world.open(self.path) as table:
            self.same(table, "opened again")
            if wrong := wrong_answers(table, self.world.queries):
                raise AssertionError(f"wrong in itself: {wrong}")
        self.reference.close()
        return self.counts


def main(folder: str, *seeds: str) -> None:
    disk, total = FaultyDisk(), Counter[str]()
    for seed in seeds:
        world = World(int(seed), durability="full")
        world.set_limits()
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            total += Trial(disk, world, Path(inside)).run()
    print(json.dumps(total))


if __name__ == "__main__":
    main(*sys.argv[1:])
