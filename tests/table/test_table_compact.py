"""Compacting, in a folder and in memory: dead rows go, nothing else changes, and who reads meanwhile is not misled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows, same_answers, same_items, same_model

import hashstream as hs
from hashstream.table import HashTable, Never, Projected
from hashstream.table.storage.folder.load import Loader

HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)


@pytest.fixture(params=["memory", "folder"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "t"


def worn(path: Path | None, **settings: Any) -> tuple[HashTable, SlowTable]:
    """A table of 90 rows, 30 of them removed or replaced, and the model of it."""
    table = HashTable.open(path, HASHER, sample_size=40, **{"policy": Never(), **settings})
    model = SlowTable(HASHER)
    rng = np.random.default_rng(5)
    for i in range(4):
        ids = list(range(20 * i, 20 * i + 20))
        X, y = rows(rng, 20)
        for one in (table, model):
            one.ingest(ids, X, y, payloads=[{"id": name} for name in ids])  # type: ignore[attr-defined]
    X, y = rows(rng, 10)
    for one in (table, model):
        one.ingest(list(range(5, 15)), X, y, payloads=[{"late": i} for i in range(10)])  # type: ignore[attr-defined]
        one.remove(list(range(30, 50)))  # type: ignore[attr-defined]
    return table, model


def test_dead_rows_go_and_nothing_else_changes(path: Path | None) -> None:
    table, model = worn(path)
    Q = rows(np.random.default_rng(9), 3)[0]
    before = table.stats()
    held = table._state.sample.items()
    assert table.compact() == 30
    for compacted in (True, False):
        same_answers(table, model, Q, 60)
        same_items(table, model)
        same_model(table, model)
        assert table.check()["codes"] == len(model.items)
        stats = table.stats()
        if compacted:
            assert (stats.n_items, stats.n_slots, before.n_slots) == (60, 60, 90)
            assert stats.feature_bytes == 60 * 12 * 4
            assert stats.memory_bytes < before.memory_bytes
            assert stats.drift.mean_average_precision == before.drift.mean_average_precision
            assert table._state.sample.items()[1].tobytes() == held[1].tobytes()
            assert table.compact() == 0
        X, y = rows(np.random.default_rng(1), 20)  # and it goes on
        ids = list(range(100, 120)) if compacted else list(range(40, 60))
        table.ingest(ids, X, y)
        model.ingest(ids, X, y)
        table.remove(ids[:3])
        model.remove(ids[:3])
        assert table.refresh() == model.refresh()
    table.close()


def test_all_may_be_dead(path: Path | None) -> None:
    table, _ = worn(path)
    X, y = rows(np.random.default_rng(1), 20)
    ids = table.search(X[:1], 99).ids[0]
    table.remove(ids)
    assert table.compact() == 90
    assert table.search(X[:2], 3)[0].shape == (2, 0)
    assert (len(table), table.stats().feature_bytes) == (0, 0)
    table.ingest(ids[:20], X, y)
    assert table.get(ids[:20]).features.tobytes() == X.tobytes()  # type: ignore[union-attr]
    assert table.get(ids[:20]).labels == y.tolist()
    table.close()


def test_without_features(path: Path | None) -> None:
    table, _ = worn(path, policy=Projected())
    ids = table.search(np.zeros((1, 12), np.float32), 99).ids[0]
    before = table.get(ids)
    assert table.compact() == 30
    after = table.get(ids)
    assert after.features is None
    assert after.codes.tobytes() == before.codes.tobytes()
    assert after.labels == before.labels
    table.close()


@pytest.mark.parametrize("late", ["read", "rows", "payloads"])
def test_who_reads_while_it_is_compacted_gets_what_was_asked_for(
    path: Path | None, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """The item has one of the last slots, which is not there any more when its features, or its payload, are read."""
    table, model = worn(path)
    storage: Any = table._storage
    rows_of = getattr(storage, "_features", None)
    owner: Any = storage
    if late == "rows":
        owner = storage._segments if rows_of is None else rows_of.segments
    name = "take" if late == "rows" else late
    read: Callable[..., Any] = getattr(owner, name)
    times: list[int] = []

    def compacted_first(*args: Any) -> Any:
        if not times:
            times.append(0)  # compacting reads features itself
            times[0] = table.compact()
        return read(*args)

    monkeypatch.setattr(owner, name, compacted_first)
    found = table.get([79, 6])
    assert times == [30]
    assert found.features is not None
    assert found.features.tolist() == [model.items[one].x.tolist() for one in (79, 6)]
    assert found.labels == [model.items[one].label for one in (79, 6)]
    assert found.payloads == [{"id": 79}, {"late": 1}]
    table.close()


def test_an_interrupted_compaction_in_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table, model = worn(None)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "searchsorted", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.compact()
    same_items(table, model)
    assert table.compact() == 30
    same_items(table, model)


def test_a_reader_asked_while_it_reloads_a_compacted_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots are renumbered: until the state is exchanged, an answer must not come from the new files."""
    rng = np.random.default_rng(0)
    X, y = rows(rng, 300)
    with HashTable.open(tmp_path / "t", HASHER) as writer:
        writer.ingest(np.arange(300), X, y)
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            assert reader.get([250]).labels == [y[250]]
            writer.remove(np.arange(100))
            writer.compact()
            answers: list[Any] = []
            items = Loader._items

            def asked_meanwhile(*args: Any) -> Any:
                thread = threading.Thread(target=lambda: answers.append(reader.get([150])))
                thread.start()
                thread.join(0.5)  # it may wait for the state
                threads.append(thread)
                return items(*args)

            threads: list[threading.Thread] = []
            monkeypatch.setattr(Loader, "_items", asked_meanwhile)
            assert reader.reload()
            for thread in threads:
                thread.join(30)
            assert len(answers) == len(threads) >= 1
            for found in answers:
                assert found.features[0].tolist() == X[150].tolist()
                assert found.labels == [y[150]]
