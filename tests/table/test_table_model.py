"""Random sequences of operations: the table and the slow model of it give the same answers after every step."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.plain_filters import FIELDS, matches, random_fields, random_filter, random_payloads
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import CLASSES, rows, same_answers, same_items, same_matches, same_model

import hashstream as hs
from hashstream.table import HashTable, Never
from hashstream.table.state import view
from hashstream.table.storage.folder import storage

SETTINGS: dict[str, Any] = {
    "policy": Never(), "max_versions": 1000, "checkpoint_rows": 30, "sample_size": 16, "segment_bytes": 2000,
}  # fmt: skip
STEPS = ["ingest", "ingest", "ingest", "add", "label", "label", "remove", "where", "refresh", "budget"]


class Walk:
    """A table and the model of it, changed by the same random steps. kind : of the ids."""

    def __init__(self, table: HashTable, model: SlowTable, rng: np.random.Generator, kind: str) -> None:
        self.table, self.model, self.rng, self.kind = table, model, rng, kind
        self.Q = rows(rng, 3)[0]
        self.keyed: list[
            tuple[str, tuple[Any, ...], dict[str, Any], Any]
        ] = []  # calls with a key, and their results

    def call(self, method: str, *args: Any, **more: Any) -> Any:
        """Call a method of the table, every other time with a key, under which it is done once."""
        if self.rng.random() < 0.5:
            return getattr(self.table, method)(*args, **more)
        more["key"] = f"key {len(self.keyed)}"
        result = getattr(self.table, method)(*args, **more)
        self.keyed.append((method, args, more, result))
        return result

    def repeat(self) -> None:
        """Repeat one of the calls with a key: nothing happens."""
        if self.keyed:
            method, args, more, result = self.keyed[int(self.rng.integers(len(self.keyed)))]
            before = self.table.stats().commits
            assert getattr(self.table, method)(*args, **more) == result
            assert self.table.stats().commits == before

    def name(self, number: int) -> Any:
        return number if self.kind == "int" else f"item {number} é"

    def names(self, y: np.ndarray) -> list[Any]:
        """Labels of the kind of the ids."""
        return [int(one) if self.kind == "int" else f"class {one} é" for one in y]

    def filter(self) -> dict[str, Any]:
        ids = [self.name(int(one)) for one in self.rng.integers(70, size=3)]
        return random_filter(self.rng, ids, self.names(np.arange(CLASSES)))

    def step(self) -> None:
        rng, table, model = self.rng, self.table, self.model
        what = rng.choice(STEPS)
        if what in ("ingest", "add"):
            self.store(str(what))
        elif what == "label" and model.items:
            ids = self.some()
            named = self.names(rng.integers(CLASSES, size=len(ids)))
            kept = [model.items[one].label for one in ids]
            y = [old if old is not None and rng.random() < 0.3 else named[i] for i, old in enumerate(kept)]
            y = [None if rng.random() < 0.2 else label for label in y]
            assert self.call("label", ids, y) == model.label(ids, y)
            if rng.random() < 0.5:
                seq = table.stats().commits
                assert table.label(ids[::-1], y[::-1]) == model.label(ids, y) == 0
                assert table.stats().commits == seq
        elif what == "remove" and model.items:
            ids = self.some()
            assert self.call("remove", ids) == len(ids)
            model.remove(ids)
        elif what == "where":
            where = self.filter()
            ids = model.ids(lambda item: matches(where, item))
            if len(ids) < 12:
                assert self.call("remove", where=where) == len(ids)
                model.remove(ids)
        elif what == "refresh":
            assert table.refresh() == model.refresh()
        elif what == "budget":
            budget = int(rng.integers(1, 15))
            assert table.refresh(budget) == model.refresh(budget)

    def store(self, what: str, n: int | None = None) -> None:
        """Some ids are new, some are there, some were."""
        rng = self.rng
        ids = [self.name(one) for one in rng.permutation(60)[: n or rng.integers(1, 12)].tolist()]
        X, y = rows(rng, len(ids))
        labels = None
        if rng.random() < 0.8:
            labels = [None if rng.random() < 0.3 else one for one in self.names(y)]
        more: dict[str, Any] = {}
        if rng.random() < 0.8:
            more["fields"] = random_fields(rng, len(ids))
        if rng.random() < 0.5:
            more["payloads"] = random_payloads(rng, len(ids))
        self.call(what, ids, X, labels, **more)
        getattr(self.model, what)(ids, X, labels, **more)

    def some(self) -> list[Any]:
        ids = self.rng.permutation(np.array(list(self.model.items), object))
        return list(ids[: self.rng.integers(1, 8)])

    def judge(self) -> None:
        if self.model.items:
            same_answers(self.table, self.model, self.Q)
        for _ in range(2):
            same_matches(self.table, self.model, self.Q, self.filter())

    def judge_all(self) -> None:
        self.judge()
        same_items(self.table, self.model)
        same_model(self.table, self.model)


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("place", ["memory", "folder"])
def test_every_answer_is_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, seed: int, kind: str
) -> None:
    """With dead rows dropped early, many checkpoints, and reopening: closed, or as it lies there (a crash)."""
    monkeypatch.setattr(view, "FEW_DEAD", 3)
    monkeypatch.setattr(view, "MANY", 5)
    monkeypatch.setattr(storage, "LOG_ROWS", 7)
    rng = np.random.default_rng([seed, kind == "int", place == "folder"])
    hasher = hs.FCOH(n_bits=20, random_state=seed, batch_size=8)
    if seed == 2:
        hasher = hs.RidgeHash(n_bits=20, random_state=seed)
    path = None if place == "memory" else tmp_path / "table"
    walk = Walk(HashTable.open(path, hasher, fields=FIELDS, **SETTINGS), SlowTable(hasher), rng, kind)
    walk.store("ingest" if seed else "add", 10)
    for at in range(24):
        walk.step()
        walk.repeat()
        walk.judge()
        table = walk.table
        if path is not None and at % 6 == 5:
            if rng.random() < 0.5:
                table.close()
            else:  # what a process that is killed now leaves
                copied = tmp_path / f"after {at}"
                shutil.copytree(path, copied)
                table.close()
                path = copied
            walk.table = table = HashTable.open(path, **SETTINGS)
            walk.judge_all()
        if path is not None and at % 10 == 9:
            table.check()
        if at % 12 == 11:
            assert table.compact() == walk.model.inserted - len(walk.model.items)
            walk.model.renumber()
            walk.judge_all()
    walk.judge_all()
    walk.table.snapshot(tmp_path / "copy")
    walk.table.close()
    with HashTable.open(tmp_path / "copy") as walk.table:
        walk.judge_all()
        walk.repeat()
        walk.step()
        walk.judge_all()
