"""mAP over time: measured at checkpoints, stored with the table, bounded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never, Projected, stats
from hashstream.table import table as table_module
from hashstream.table.stats import mean_average_precision

HASHER = hs.FCOH(n_bits=16, random_state=1)
X, Y = rows(np.random.default_rng(3), 200)


def batches(table: HashTable, first: int, last: int) -> list[float | None]:
    """Ingest batches of 20; mAP after each."""
    found = []
    for i in range(first, last):
        some = slice(20 * i, 20 * i + 20)
        table.ingest(np.arange(200)[some], X[some], Y[some])
        found.append(table.stats().drift.mean_average_precision)
    return found


@pytest.mark.parametrize("policy", [Never, Projected])
def test_it_is_what_stats_said_at_the_checkpoints_and_survives(tmp_path: Path, policy: type) -> None:
    settings: dict[str, Any] = {"policy": policy(), "checkpoint_rows": 60}
    with HashTable.open(tmp_path / "t", HASHER, **settings) as table:
        said = batches(table, 0, 7)
        assert table.stats().map_history[-1] == (140, said[6])
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
    # The first batch is a checkpoint by itself, and, where there are no features, every batch.
    at = [80, 140] if policy is Never else [140]
    wanted = tuple((rows, said[rows // 20 - 1]) for rows in at)
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        assert reader.stats().map_history == wanted
        with HashTable.open(tmp_path / "t", **settings) as table:
            assert table.stats().map_history == wanted
            said += batches(table, 7, 10)
            table.flush()
            assert reader.stats().map_history == wanted  # of the commit that it looks at
            reader.reload()
            assert reader.stats().map_history[len(wanted) :] == ((200, said[9]),)
            table.refresh()
        assert reader.reload()
        now = reader.stats()
        assert now.map_history[-2:] == ((200, said[9]), (200, now.drift.mean_average_precision))
    if policy is Never:
        with HashTable.open(tmp_path / "killed", mode="read") as killed:
            assert killed.stats().map_history == wanted


def test_opening_and_closing_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    measure = stats.stored_map_of
    monkeypatch.setattr(table_module, "stored_map_of", lambda *args: measured.append(1) or measure(*args))
    with HashTable.open(tmp_path / "t", HASHER, policy=Never(), checkpoint_rows=100) as table:
        for i in range(10):
            some = slice(20 * i, 20 * i + 20)
            table.ingest(np.arange(200)[some], X[some], Y[some])
        assert len(measured) == 1  # 100 rows after the first batch
    assert len(measured) == 2
    before = (tmp_path / "t" / "table.sqlite").read_bytes()
    for _ in range(3):
        HashTable.open(tmp_path / "t").close()
    assert len(measured) == 2
    assert (tmp_path / "t" / "table.sqlite").read_bytes() == before


def test_there_are_never_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "MOST_ENTRIES", 6)
    with HashTable.open(tmp_path / "t", HASHER, policy=Never(), checkpoint_rows=5) as table:
        table.ingest(np.arange(100, 125), X[100:125], Y[100:125])
        for i in range(20):
            table.ingest(np.arange(5 * i, 5 * i + 5), X[5 * i : 5 * i + 5], Y[5 * i : 5 * i + 5])
            at = [rows for rows, _ in table.stats().map_history]
            assert len(at) <= 6
            assert at == sorted(set(at))
            assert at[-1] == 30 + 5 * i
            assert at[0] in (25, 30)


def test_too_little_data_leaves_no_entry(tmp_path: Path) -> None:
    with HashTable.open(tmp_path / "t", HASHER) as table:
        table.ingest(np.arange(15), X[:15], Y[:15])
    with HashTable.open(tmp_path / "t") as table:
        assert table.stats().map_history == ()
        table.ingest(np.arange(15, 30), X[15:30], Y[15:30])
        assert [rows for rows, _ in table.stats().map_history] == [30]


def test_copies_have_it_and_compacting_keeps_it(tmp_path: Path) -> None:
    for name, path in (("memory", None), ("folder", tmp_path / "t")):
        with HashTable.open(path, HASHER, policy=Never(), checkpoint_rows=60) as table:
            batches(table, 0, 7)
            table.flush()
            wanted = table.stats().map_history
            assert [rows for rows, _ in wanted] == [80, 140]
            table.snapshot(tmp_path / name)
            table.remove(np.arange(40))
            table.compact()
            assert table.stats().map_history[:2] == wanted
        with HashTable.open(tmp_path / name, mode="read") as copied:
            assert copied.stats().map_history == wanted


def test_map_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    for labels in (
        np.array([f"class {i}" for i in rng.integers(4, size=30)], object),
        np.array([*range(25), 0, 1, 1, 2, 2], object),
        rng.integers(2, size=(30, 3)).astype(bool),
    ):
        far = rng.integers(5, size=(12, 30))
        far[:, 7] = stats.NOT_THERE
        slots = rng.permutation(100)[:30]
        scores = []
        for query in range(12):
            others = [i for i in range(30) if i not in (query, 7)]
            others.sort(key=lambda i: (far[query, i], slots[i]))
            hits = [
                bool((labels[i] & labels[query]).any()) if labels.ndim == 2 else labels[i] == labels[query]
                for i in others
            ]
            if any(hits):
                scores.append(np.mean([sum(hits[: k + 1]) / (k + 1) for k in range(len(hits)) if hits[k]]))
        np.testing.assert_allclose(mean_average_precision(far, slots, labels), np.mean(scores), rtol=1e-12)
    assert mean_average_precision(far, slots, np.arange(30).astype(object)) is None
