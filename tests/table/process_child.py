"""One process that writes by a seed, and others that read meanwhile: what each of them saw, as lines of JSON.

    python -m tests.table.process_child seed path readers

A reader opens the folder, observes it, reloads, observes again, takes snapshots, and sometimes opens it again; every
observation is `[commits, digest]`. The parent applies the same operations to know which ones are right.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from tests.table.crash_child import World, fork
from tests.table.fingerprints import digest, fingerprint

from hashstream.table import HashTable

LEAST = 12  # observations per reader
PAUSE = 0.005  # between two operations, for the others on few cores


def observe(table: HashTable, Q: np.ndarray) -> list[object] | None:
    """Commits so far, and a digest of everything; None where the table moved meanwhile, as `get` may make it."""
    commits = table.stats().commits
    try:
        found = fingerprint(table, Q)
    except KeyError:  # an id that is gone by then
        assert table.stats().commits > commits
        return None
    if table.stats().commits != commits:
        return None
    del found["keys"]  # read from the folder, which may have later ones
    return [commits, digest(json.dumps(found, sort_keys=True, default=str).encode())]


def write(world: World, path: Path, done: Path, say: Callable[[str], object]) -> None:
    world.set_limits()
    table = world.open(path)
    for operation in world.operations:
        table, _ = world.apply(table, operation, None)
        time.sleep(PAUSE)
    say(json.dumps({"commits": table.stats().commits}))
    table.close()
    done.touch()


def read(
    world: World, path: Path, done: Path, copies: Path, number: int, say: Callable[[str], object]
) -> None:
    """Until the writer is done; then once more."""
    rng = np.random.default_rng([world.seed, number])
    while not (path / "table.sqlite").exists():
        time.sleep(0.001)
    table, observed, last = HashTable.open(path, mode="read"), 0, -1
    while True:
        ended = done.exists()
        table.reload()
        seen = observe(table, world.queries)
        if seen is not None:
            assert isinstance(seen[0], int)
            assert seen[0] >= last, "it has gone back"
            last, observed = seen[0], observed + 1
            say(json.dumps({"seen": seen}))
        what = rng.random()
        if what < 0.15:
            table.check()
            say(json.dumps({"checked": table.stats().commits}))
        elif what < 0.3:
            copied = copies / f"{number}-{len(list(copies.iterdir()))}-{observed}"
            table.snapshot(copied)
            with HashTable.open(copied, mode="read") as copy:
                say(json.dumps({"copied": observe(copy, world.queries)}))
        elif what < 0.45:
            table.close()
            table = HashTable.open(path, mode="read")
        if ended and observed >= LEAST:
            break
    table.close()


def main(seed: int, path: Path, readers: int) -> int:
    world, done, copies = World(seed), path.with_name("done"), path.with_name("copies")
    copies.mkdir()
    lives = [partial(read, world, path, done, copies, number) for number in range(readers)]
    children = [fork(life) for life in [partial(write, world, path, done), *lives]]
    failed = 0
    for child, pipe in children:
        with os.fdopen(pipe) as lines:
            for line in lines:
                print(line, end="")
        failed += os.waitpid(child, 0)[1] != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
