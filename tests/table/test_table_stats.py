"""What `stats` says, against its definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Every, HashTable, Never

HASHER = hs.HCOH(n_bits=16, random_state=1)


def filled(path: Path | None = None) -> tuple[HashTable, SlowTable]:
    rng = np.random.default_rng(6)
    table, model = HashTable.open(path, HASHER, policy=Never(), max_versions=99), SlowTable(HASHER)
    for i in range(6):
        X, y = rows(rng, 20)
        ids = list(range(20 * i, 20 * i + 20))
        table.ingest(ids, X, y)
        model.ingest(ids, X, y)
    return table, model


def test_versions_and_staleness() -> None:
    table, model = filled()
    stats = table.stats()
    counts = model.counts()
    assert stats.versions == counts
    assert stats.newest_version == model.version
    assert (stats.n_items, stats.n_slots, stats.n_bits, stats.n_seen) == (120, 120, 16, 120)
    behind = [model.version - entry.version for entry in model.items.values()]
    assert stats.updates_behind == np.mean(behind)
    assert stats.most_updates_behind == max(behind)
    assert stats.stale == np.mean([b > 0 for b in behind])
    table.refresh()
    stats = table.stats()
    assert (stats.updates_behind, stats.most_updates_behind, stats.stale) == (0, 0, 0)
    assert stats.feature_bytes == 120 * 12 * 4


def test_bit_flips_are_those_of_the_stored_codes() -> None:
    table, model = filled()
    fresh = model.hasher.decision_function(np.array([e.x for e in model.items.values()])) > 0
    stored = np.array([e.bits for e in model.items.values()])
    assert table.stats().drift.bit_flips == (fresh != stored).mean()  # all items are in the sample
    assert (fresh != stored).any()
    table.refresh()
    assert table.stats().drift.bit_flips == 0


def test_map_is_of_the_tables_own_answers() -> None:
    table, model = filled()
    slots = table._state.sample.labelled()[0]
    scores = []
    for query in slots[:200].tolist():
        entry = model.items[query]
        ranking = [one for _, _, one in model.ranking(entry.x) if one != query]
        hits = [model.items[one].label == entry.label for one in ranking]
        ranks = np.flatnonzero(hits) + 1
        scores.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    drift = table.stats().drift
    np.testing.assert_allclose(drift.mean_average_precision, np.mean(scores), rtol=1e-12)
    table.refresh()
    after = table.stats()
    assert after.drift.mean_average_precision == after.drift.fresh_mean_average_precision
    assert after.drift.fresh_mean_average_precision == drift.fresh_mean_average_precision
    assert after.map_history == ((120, after.drift.mean_average_precision),)


def test_moving_classes_shift_their_centres() -> None:
    rng = np.random.default_rng(0)
    shifts = []
    for speed in (0.0, 3.0):
        with HashTable.open(None, HASHER) as table:
            for i in range(8):
                X, y = rows(rng, 40)
                table.ingest(np.arange(40) + 40 * i, X + np.float32(speed * (i > 3)), y)
            shift = table.stats().drift.centre_shift
            assert shift is not None
            shifts.append(shift)
    assert shifts[0] < 0.25  # what chance gives is taken off
    assert abs(shifts[1] - 3) < 0.3  # 3 in each of 12 features, against a spread of sqrt(12)


def test_too_little_data_is_said_as_such() -> None:
    rng = np.random.default_rng(0)
    with HashTable.open(None, hs.LSH(n_bits=8, random_state=0)) as table:
        X, y = rows(rng, 10)
        table.ingest(np.arange(10), X, y)
        drift = table.stats().drift
        assert drift.bit_flips is drift.centre_shift is drift.mean_average_precision is None
        assert drift.reasons["bit_flips"] == "too little data: 10 items in the sample, 20 are needed"
        assert "10 labelled items" in drift.reasons["mean_average_precision"]
        table.ingest(np.arange(10, 60), rows(rng, 50)[0])
        drift = table.stats().drift
        assert drift.bit_flips == 0
        assert drift.mean_average_precision is None
        assert table.stats().map_history == ()
        table.ingest(np.arange(100, 130), rows(rng, 30)[0], [f"class {i}" for i in range(30)])
        drift = table.stats().drift
        assert "no class has 5 items" in drift.reasons["centre_shift"]


def test_the_sample_survives(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    before = table.stats().drift
    table.close()
    with HashTable.open(tmp_path / "t", policy=Every(7)) as again:
        assert again.stats().drift == before
        assert again.stats().disk_bytes > 120 * 12 * 4
