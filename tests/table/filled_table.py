"""A small table with a history, and the slow model of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never

HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)


def filled(path: Path, batches: int = 5, **settings: object) -> tuple[HashTable, SlowTable]:
    """A table with some batches, removals and a partial refresh, and the model of it."""
    settings = {"policy": Never(), "sample_size": 8, **settings}
    table, model = HashTable.open(path, HASHER, **settings), SlowTable(HASHER)  # type: ignore[arg-type]
    rng = np.random.default_rng(5)
    for i in range(batches):
        ids = list(range(10 * i, 10 * i + 12))
        X, y = rows(rng, 12)
        table.ingest(ids, X, y)
        model.ingest(ids, X, y)
    table.remove([4, 17])
    model.remove([4, 17])
    assert table.refresh(9) == model.refresh(9)
    return table, model


def queries() -> np.ndarray:
    return rows(np.random.default_rng(9), 3)[0]


def as_if_killed(table: HashTable, path: Path, copied: Path) -> Path:
    """The files as a process that is killed now leaves them; the table itself is closed."""
    shutil.copytree(path, copied)
    table.close()
    return copied
