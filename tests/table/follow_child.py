"""A writer in a process of its own that does what it is told, and a door to it.

    python -m tests.table.follow_child path durability

Commands come as lines of JSON, `[method, arguments...]`; each is acknowledged by a line with the number of commits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never

ROOT = Path(__file__).parents[2]
HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)


def batch(first: int, n: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids from `first` on, features and labels."""
    X, y = rows(np.random.default_rng(first), n)
    return np.arange(first, first + n), X, y


class Writer:
    """The process, started at once; the table is created by the first command."""

    def __init__(self, path: Path, durability: str = "full") -> None:
        paths = os.pathsep.join([str(Path(hs.__file__).parents[1]), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.table.follow_child", str(path), durability],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths},
            cwd=ROOT,
            text=True,
        )
        self.read()  # imports are done

    def ask(self, *command: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)

    def read(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def __call__(self, *command: Any) -> int:
        """Have something done; the number of commits when it was acknowledged."""
        self.ask(*command)
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def main(path: Path, durability: Any) -> None:
    print(0, flush=True)
    table: HashTable | None = None
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        if table is None:
            table = HashTable.open(path, HASHER, policy=Never(), durability=durability, segment_bytes=2000)
        if name == "ingest":
            table.ingest(*batch(*arguments))
        elif name != "open":
            getattr(table, name)(*arguments)
        print(-1 if name == "close" else table.stats().commits, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
