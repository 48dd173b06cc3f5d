"""Random sequences of operations: the table and the slow model of it give the same answers after every step."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows, same_answers, same_items, same_model

import hashstream as hs
from hashstream.table import HashTable, Never
from hashstream.table.state import view
from hashstream.table.storage.folder import storage


def new_ids(rng: np.random.Generator, n: int, kind: str, model: SlowTable) -> list[Any]:
    """Ids of a batch: some are new, some are there, some were."""
    pool = rng.permutation(60)[:n].tolist()
    return pool if kind == "int" else [f"item {one} é" for one in pool]


def step(rng: np.random.Generator, table: HashTable, model: SlowTable, kind: str) -> str:
    what = rng.choice(["ingest", "ingest", "ingest", "add", "remove", "refresh", "budget"])
    if what in ("ingest", "add"):
        ids = new_ids(rng, int(rng.integers(1, 12)), kind, model)
        X, y = rows(rng, len(ids))
        if what == "ingest":
            table.ingest(ids, X, y)
            model.ingest(ids, X, y)
        else:
            table.add(ids, X)
            model.add(ids, X)
    elif what == "remove" and model.items:
        ids = rng.permutation(np.array(list(model.items), object))[: rng.integers(1, 6)].tolist()
        table.remove(ids)
        model.remove(ids)
    elif what == "refresh":
        assert table.refresh() == model.refresh()
    elif what == "budget":
        budget = int(rng.integers(1, 15))
        assert table.refresh(budget) == model.refresh(budget)
    return str(what)


@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("where", ["memory", "folder"])
def test_every_answer_is_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, seed: int, kind: str
) -> None:
    """With dead rows dropped early, many checkpoints, and reopening: closed, or as it lies there (a crash)."""
    monkeypatch.setattr(view, "FEW_DEAD", 3)
    monkeypatch.setattr(view, "MANY", 5)
    monkeypatch.setattr(storage, "LOG_ROWS", 7)
    rng = np.random.default_rng([seed, kind == "int", where == "folder"])
    hasher = hs.FCOH(n_bits=20, random_state=seed, batch_size=8)
    settings: dict[str, Any] = {
        "policy": Never(),
        "max_versions": 1000,
        "checkpoint_rows": 30,
        "sample_size": 16,
    }
    path = None if where == "memory" else tmp_path / "table"
    table, model = HashTable.open(path, hasher, segment_bytes=2000, **settings), SlowTable(hasher)
    X, y = rows(rng, 10)
    ids = new_ids(rng, 10, kind, model)
    table.ingest(ids, X, y)
    model.ingest(ids, X, y)
    Q = rows(rng, 4)[0]
    for at in range(24):
        step(rng, table, model, kind)
        same_answers(table, model, Q)
        if path is not None and at % 6 == 5:
            if rng.random() < 0.5:
                table.close()
            else:  # what a process that is killed now leaves
                copied = tmp_path / f"after {at}"
                shutil.copytree(path, copied)
                table.close()
                path = copied
            table = HashTable.open(path, segment_bytes=2000, **settings)
            same_answers(table, model, Q)
            same_items(table, model)
            same_model(table, model)
        if path is not None and at % 10 == 9:
            table.check()
        if path is not None and at % 12 == 11:
            assert table.compact() == model.inserted - len(model.items)
            renumber(model)
            same_answers(table, model, Q)
            same_items(table, model)
    same_items(table, model)
    same_model(table, model)
    table.close()


def renumber(model: SlowTable) -> None:
    for order, entry in enumerate(sorted(model.items.values(), key=lambda entry: entry.order)):
        entry.order = order
    model.inserted = len(model.items)
