"""Queries compared with codes of older versions: like with like, by the current functions, or as was measured."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.datasets import Stream
from hashstream.table import HashTable, Never
from hashstream.table.stats import measure_drift

D = 32


def streamed(hasher: Any, path: Path | None = None, *, drift: float, n: int = 3000, **more: Any) -> HashTable:
    stream = Stream(n, D, 6, drift=drift, seed=1)
    table = HashTable.open(path, hasher, **{"policy": Never(), "max_versions": 1000, **more})
    done = 0
    for X, y in stream.batches(100):
        table.ingest(range(done, done + len(X)), X, y)
        done += len(X)
    return table


def brute_force(table: HashTable, Q: np.ndarray, compare: str) -> list[list[tuple[int, int]]]:
    """(distance, id) of all items for each query, by the functions of the items' versions, or by the newest."""
    view = table._state.view
    ids = table.ids()
    items = table.get(ids)
    bits = np.unpackbits(items.codes, axis=1, count=table.stats().n_bits).astype(bool)
    found = []
    for q in Q:
        far = []
        for i, version in enumerate(items.versions.tolist()):
            encoder = view.encoders[view.newest if compare == "current" else version]
            far.append(int(((encoder.decision_function(q[None])[0] > 0) != bits[i]).sum()))
        order = np.argsort(far, kind="stable")
        found.append([(far[i], int(ids[i])) for i in order])
    return found


@pytest.mark.parametrize("method", [hs.FCOH, hs.SketchHash])
def test_both_ways_against_every_bit(method: Any) -> None:
    rng = np.random.default_rng(0)
    with HashTable.open(None, method(n_bits=12, random_state=0), policy=Never(), max_versions=99) as table:
        for first in range(0, 90, 30):
            X, y = rows(rng, 30)
            table.ingest(range(first, first + 30), X, y)
        table.remove(range(0, 90, 4))
        table.refresh(10)
        table.ingest([500], *rows(rng, 1))
        table.remove([500])  # the newest version has no items of its own
        assert len(table.stats().versions) > 1
        Q = rows(rng, 20)[0]
        for some in (Q[:3], Q):  # encoded with few calls, and with many
            for compare in ("like", "current"):
                wanted = brute_force(table, some, compare)
                found = table.search(some, 9, compare=compare)
                offsets, far, ids = table.search_radius(some, 4, compare=compare)
                weighted = table.search(some, 9, compare=compare, asymmetric=True)
                assert np.isfinite(weighted.distances).all()
                for i, ranking in enumerate(wanted):
                    pairs = list(zip(found.distances[i].tolist(), found.ids[i].tolist(), strict=True))
                    assert pairs == ranking[:9]
                    part = slice(offsets[i], offsets[i + 1])
                    near = list(zip(far[part].tolist(), ids[part].tolist(), strict=True))
                    assert near == [pair for pair in ranking if pair[0] <= 4]


def chosen_by(table: HashTable, Q: np.ndarray) -> str:
    """What "auto" does, by its answers."""
    auto = [part.tolist() for part in table.search(Q, 20)]
    radius = [part.tolist() for part in table.search_radius(Q, 8)]
    same = [
        compare
        for compare in ("like", "current")
        if auto == [part.tolist() for part in table.search(Q, 20, compare=compare)]
        and radius == [part.tolist() for part in table.search_radius(Q, 8, compare=compare)]
    ]
    assert len(same) == 1
    return same[0]


@pytest.mark.parametrize(
    ("hasher", "drift", "choice"),
    [
        (hs.FCOH(n_bits=32, random_state=0), 1.0, "current"),
        (hs.SketchHash(n_bits=16, random_state=0), 0.0, "like"),
    ],
    ids=["FCOH", "SketchHash"],
)
def test_the_table_chooses_what_is_better(tmp_path: Path, hasher: Any, drift: float, choice: str) -> None:
    table = streamed(hasher, tmp_path / "t", drift=drift)
    Q = Stream(3000, D, 6, drift=drift, seed=1).rows(2980, 3000)[0]
    found = table.stats().comparison
    assert found.choice == choice
    assert found.like is not None
    assert found.current is not None
    assert (found.current > found.like) == (choice == "current")
    assert 0 < found.rows <= 3000
    assert "mAP on the sample" in found.reason
    assert chosen_by(table, Q) == choice
    # What stats say of searches is measured in the same way.
    state, now = table._state, table.stats()
    ways = {how: measure_drift(state.view, state.sample, how) for how in ("like", "current")}
    assert now.drift == ways[choice]
    assert ways["like"].mean_average_precision != ways["current"].mean_average_precision
    assert now.map_history[-1][1] == now.drift.mean_average_precision
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        assert reader.stats().comparison == found
        assert chosen_by(reader, Q) == choice
    shutil.copytree(tmp_path / "t", tmp_path / "killed")
    table.snapshot(tmp_path / "copy")
    table.remove([0])
    table.compact()
    assert table.stats().comparison == found
    table.close()
    for name in ("t", "killed", "copy"):
        with HashTable.open(tmp_path / name) as again:
            assert again.stats().comparison == found
            assert chosen_by(again, Q) == choice


def test_a_reader_sees_what_is_measured_later(tmp_path: Path) -> None:
    X, y = Stream(1200, D, 6, drift=1.0, seed=1).rows(0, 1200)
    with HashTable.open(tmp_path / "t", hs.FCOH(n_bits=32, random_state=0), policy=Never()) as table:
        table.ingest(range(100), X[:100], y[:100])
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            assert reader.stats().comparison.like is None
            for first in range(100, 1200, 100):
                table.ingest(range(first, first + 100), X[first : first + 100], y[first : first + 100])
            assert reader.stats().comparison.like is None
            assert reader.reload()
            assert reader.stats().comparison == table.stats().comparison
            assert reader.stats().comparison.like is not None


def test_too_little_data_means_like_with_like() -> None:
    X, y = Stream(2000, D, 6, seed=1).rows(0, 2000)
    hasher = hs.FCOH(n_bits=16, random_state=0)
    with HashTable.open(None, hasher, policy=Never()) as table:
        assert (table.stats().comparison.choice, table.stats().comparison.rows) == ("like", 0)
        assert "not measured yet" in table.stats().comparison.reason
        table.ingest(range(400), X[:400], y[:400])
        table.ingest(range(400, 450), X[400:450], y[400:450])
        assert "not measured yet" in table.stats().comparison.reason
    with HashTable.open(None, hasher, policy=Never(), sample_size=49) as table:
        for first in range(0, 2000, 500):
            table.ingest(range(first, first + 500), X[first : first + 500], y[first : first + 500])
        found = table.stats().comparison
        assert (found.choice, found.like, found.current) == ("like", None, None)
        assert "too little data" in found.reason
    with HashTable.open(None, hs.LSH(n_bits=16, random_state=0)) as table:
        table.ingest(range(2000), X)
        assert table.stats().comparison.choice == "like"


def test_another_word_is_refused() -> None:
    X, y = rows(np.random.default_rng(0), 20)
    with HashTable.open(None, hs.FCOH(n_bits=8, random_state=0)) as table:
        for empty in (True, False):
            for wrong in ("newest", "", None, True, ["like"]):
                for call in (
                    lambda wrong=wrong: table.search(X[:1], 3, compare=wrong),
                    lambda wrong=wrong: table.search_radius(X[:1], 3, compare=wrong),
                ):
                    with pytest.raises(ValueError, match="compare must be"):
                        call()
            for right in ("auto", "like", "current"):
                assert table.search(X[:1], 3, compare=right).ids.shape == (1, 0 if empty else 3)  # type: ignore[arg-type]
                assert len(table.search_radius(X[:1], 8, compare=right).ids) == (0 if empty else 20)  # type: ignore[arg-type]
            if empty:
                table.ingest(range(20), X, y)


def test_labels_of_stored_items_are_measured_too() -> None:
    """All items have codes of the initial functions, and the current ones are others."""
    stream = hs.datasets.Stream(900, 24, 4, seed=0)
    X, y = stream.rows(0, 900)
    with HashTable.open(None, hs.FCOH(16, random_state=0), policy=Never()) as table:
        table.ingest(range(900), X)
        assert table.stats().comparison.like is None
        table.label(range(900), y)
        assert len(table.stats().versions) == 1
        assert table.stats().comparison.like is not None
        assert table.stats().comparison.current is not None
