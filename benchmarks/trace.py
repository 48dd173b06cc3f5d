"""`hashstream perf trace`: how many files a reader walks through with one call.

Counted with sys.setprofile, in the thread of the call. A cross-file call is a line of one file of the package that
calls a function in another, counted once however often it runs, so that the size of a batch does not matter; the
call from outside counts as one. Where a library stands between the two, the nearest caller in the package counts.
"Events" are the same calls, each time that they run. Nothing is timed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from rich.table import Table

import hashstream as hs
from benchmarks.harness import console

SOURCE = f"{Path(hs.__file__).parent}{os.sep}"
BATCH, FEATURES = 100, 64


@dataclass
class Walk:
    """One traced call: (caller's file and line, called file, called function), and how often it ran."""

    name: str
    calls: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)

    def files(self) -> Counter[str]:
        """Cross-file calls into each file."""
        return Counter(file for _, _, file, _ in self.calls)


def walk(name: str, call: Callable[[], object]) -> Walk:
    """Trace one call."""
    seen = Walk(name)

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(SOURCE):
            caller = caller.f_back
        source, line = ("", 0) if caller is None else (caller.f_code.co_filename, caller.f_lineno)
        if source != code.co_filename:
            seen.calls[source, line, code.co_filename.removeprefix(SOURCE), code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def walks(folder: Path) -> list[Walk]:
    """An ingest into a folder and a search in it after twenty batches, and one batch of learning."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30 * BATCH, FEATURES)).astype(np.float32)
    y = rng.integers(10, size=len(X))
    hasher = hs.FCOH(n_bits=32, random_state=0)
    with hs.HashTable.open(folder, hs.FCOH(n_bits=32, random_state=0)) as table:
        for start in range(0, 20 * BATCH, BATCH):
            rows = np.arange(start, start + BATCH)
            table.ingest(rows, X[rows], y[rows])
            hasher.partial_fit(X[rows], y[rows])
        rows = np.arange(20 * BATCH, 21 * BATCH)
        return [
            walk("HashTable.ingest", lambda: table.ingest(rows, X[rows], y[rows])),
            walk("HashTable.search", lambda: table.search(X[-5:], k=10)),
            walk("FCOH.partial_fit", lambda: hasher.partial_fit(X[rows], y[rows])),
        ]


def main(quick: bool = False) -> bool:
    """Print the walks, and the files of each."""
    with tempfile.TemporaryDirectory() as folder:
        found = walks(Path(folder) / "table")
    console.print("One call after 20 batches of 100 rows, FCOH, a table in a folder", highlight=False)
    table = Table()
    for column in ("call", "files", "cross-file calls", "events"):
        table.add_column(column, justify="left" if column == "call" else "right")
    for one in found:
        counts = len(one.files()), len(one.calls), one.calls.total()
        table.add_row(one.name, *(str(count) for count in counts))
    console.print(table)
    for one in found:
        console.print(f"\n{one.name}: cross-file calls into each file", highlight=False)
        for file, count in one.files().most_common():
            console.print(f"{count:6d}  {file}", highlight=False)
    return True
