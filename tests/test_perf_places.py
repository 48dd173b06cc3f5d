"""`hashstream perf places`: tables under policies, rows that are not measured twice, and the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import places, places_tables
from benchmarks.places_picture import PANELS, places_picture

import hashstream as hs
from hashstream.table import Eager, HashTable, Never

N, UPDATES = 100, 12  # three rows per update
REST = 3 * (UPDATES - 1)


@pytest.fixture(autouse=True)
def few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_tables, "UPDATES", UPDATES)


def test_eager_re_encodes_and_never_does_not(tmp_path: Path) -> None:
    y = places_tables.build(tmp_path / "base", hs.FCOH(16, random_state=0), N, Never())
    assert np.array_equal(y, places_tables.stream(N).rows(0, N)[1])
    with HashTable.open(tmp_path / "base") as table:
        assert len(table) == N - REST
    found = {}
    for policy in (Never(), Eager()):
        here = places_tables.copied(tmp_path / "base", tmp_path / "table")
        found[type(policy)] = places_tables.under_policy(here, policy, 1000, y)
        with HashTable.open(here) as table:
            assert len(table) == N
    assert found[Never]["recoded_rows"] == 0
    assert found[Never]["updates_behind"] > 5
    assert found[Never]["refresh_processor_seconds"] > 0
    assert (found[Eager]["updates_behind"], found[Eager]["versions"]) == (0, 1)
    _, refreshes = places_tables.eager(found[Never], N)
    assert found[Eager]["recoded_rows"] == round(refreshes * N)
    assert found[Eager]["precision@100"] == found[Never]["fresh precision@100"]


def test_a_small_table_is_scanned() -> None:
    with HashTable.open(None, hs.LSH(16, random_state=0)) as table:
        X = places_tables.stream(N).rows(0, N)[0]
        table.add(np.arange(N), X)
        assert not places_tables.indexed(table, X)


def test_a_run_continues_from_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "docs" / "results" / "perf-places"
    searched = {"open_seconds": 0.1, "feature_bytes": 512.0} | {
        f"scan_{name}": 0.5 for name in ("1_seconds", "100_seconds", "memory_bytes", "own_bytes")
    }
    for name, value in {
        "OUT": out,
        "SIZES": (N,),
        "LEARNED": 2000,
        "METHODS": {name: places.METHODS[name] for name in ("FCOH", "HCOH")},
        "POLICIES": {name: places.POLICIES[name] for name in ("Never", "Projected(10)")},
        "FEWER_POLICIES": {},
    }.items():
        monkeypatch.setattr(places, name, value)
    monkeypatch.setattr(places_tables, "searched", lambda folder: searched)
    drawn: list[tuple[Path, str]] = []
    monkeypatch.setattr(places.pictures, "save", lambda figure, *where: drawn.append(where))
    assert places.main()
    before = (out / "results.csv").read_text()
    assert {line.split(",")[2].strip('"') for line in before.splitlines()[1:]} >= {"FCOH", "HCOH"}

    def again(*_: object) -> None:
        raise AssertionError("measured twice")

    monkeypatch.setattr(places_tables, "build", again)
    monkeypatch.setattr(places, "METHODS", dict.fromkeys(places.METHODS, again))
    assert places.main()
    assert (out / "results.csv").read_text() == before
    assert drawn == [(out, "places")] * 2


def test_the_axes_of_the_picture_are_logarithmic() -> None:
    lines = {"Eager": {25_000: 1.0, 250_000: 10.0}, "HCOH": {25_000: 2.0}, "by stats()": {25_000: 3.0}}
    drawn = places_picture(dict.fromkeys(PANELS, lines))
    scales = {
        name: (axes.get_xscale(), axes.get_yscale()) for name, axes in zip(PANELS, drawn.axes, strict=True)
    }
    assert scales == {**dict.fromkeys(PANELS, ("log", "log")), "precision": ("log", "linear")}
    assert {text.get_text() for text in drawn.axes[1].get_legend().get_texts()} == set(lines)
