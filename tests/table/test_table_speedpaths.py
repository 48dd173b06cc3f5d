"""Fast paths of the table, compared with the plain way: one sync per commit, lean encoding, many parts per search."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from tests.table.slow_table import SlowTable
from tests.table.table_worlds import rows, same_answers, same_items, same_model

import hashstream as hs
from hashstream.table import HashTable, Never, TableError
from hashstream.table.state.reencode import smallest_versions
from hashstream.table.state.view import Part
from hashstream.table.storage.folder import failpoints, feature_files, segments

HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)
QUERIES = rows(np.random.default_rng(9), 3)[0]
STRIDE = QUERIES.shape[1] * 4


def ingest(table: HashTable, model: SlowTable, first: int, n: int = 12) -> None:
    X, y = rows(np.random.default_rng(first), n)
    ids = list(range(first, first + n))
    table.ingest(ids, X, y)
    model.ingest(ids, X, y)


def opened(path: Path | None, batches: int = 5) -> tuple[HashTable, SlowTable]:
    table, model = HashTable.open(path, HASHER, policy=Never(), sample_size=8), SlowTable(HASHER)
    for i in range(batches):
        ingest(table, model, 10 * i)  # two ids of the batch before are replaced
    return table, model


def unsynced(path: Path) -> int:
    """Batches whose features the database holds."""
    db = sqlite3.connect(path / "table.sqlite")
    (count,) = db.execute("SELECT count(*) FROM unsynced").fetchone()
    db.close()
    return int(count)


# ---- one sync a commit: features of small batches stand in the database until their segment is synced


@pytest.mark.parametrize("lost", ["a bit", "all", "half a row"])
def test_features_that_were_not_synced_are_written_again(tmp_path: Path, lost: str) -> None:
    """What a power loss may do to rows whose segment was not synced."""
    table, model = opened(tmp_path / "t")
    path = tmp_path / "killed"
    shutil.copytree(tmp_path / "t", path)
    table.close()
    segment = path / "features-000000.seg"
    if lost == "a bit":
        raw = bytearray(segment.read_bytes())
        raw[segments.START + STRIDE * 40] ^= 8
        segment.write_bytes(raw)
    else:
        os.truncate(segment, segments.START + (0 if lost == "all" else STRIDE * 30 + 7))
    with pytest.raises(TableError, match='open with mode="write"'):
        HashTable.open(path, mode="read")
    assert unsynced(path) == 5
    with HashTable.open(path) as again:
        assert unsynced(path) == 0
        same_answers(again, model, QUERIES)
        same_items(again, model)
        same_model(again, model)
        again.check()
    with HashTable.open(path, mode="read") as reader:
        same_items(reader, model)


def test_a_segment_is_synced_once_for_many_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_files, "UNSYNCED_BYTES", 3 * 12 * STRIDE)
    seen = []
    with failpoints.on("segment.synced", lambda: seen.append(len(counts))):
        counts: list[int] = []
        table, model = opened(tmp_path / "t", 0)
        for i in range(9):
            ingest(table, model, 10 * i)
            counts.append(unsynced(tmp_path / "t"))
        assert counts == [1, 2, 3, 0, 1, 2, 3, 0, 1]
        assert seen == [3, 7]
        monkeypatch.setattr(feature_files, "SMALL_BATCH", 0)  # a batch that is not small is synced at once
        ingest(table, model, 500)
        assert unsynced(tmp_path / "t") == 0
        assert seen == [3, 7, 9]
    table.compact()
    shutil.copytree(tmp_path / "t", tmp_path / "killed")
    table.close()
    with HashTable.open(tmp_path / "killed") as again:
        same_items(again, model)
        again.check()


def test_fast_durability_keeps_features_of_small_batches_twice_too(tmp_path: Path) -> None:
    """Or a commit might survive a power loss without its features, and the folder be refused."""
    table, model = HashTable.open(tmp_path / "t", HASHER, durability="fast"), SlowTable(HASHER)
    ingest(table, model, 0)
    assert unsynced(tmp_path / "t") == 1
    table.close()
    assert unsynced(tmp_path / "t") == 0
    with HashTable.open(tmp_path / "t") as again:
        same_items(again, model)


def test_a_closed_folder_keeps_features_once(tmp_path: Path) -> None:
    table, _ = opened(tmp_path / "t")
    assert unsynced(tmp_path / "t") == 5
    table.close()
    assert unsynced(tmp_path / "t") == 0


# ---- versions that have to go


@pytest.mark.parametrize("most", [1, 2, 5, 16])
def test_versions_go_in_groups_so_that_items_are_seldom_encoded_again(most: int) -> None:
    """At most `most` are alive after every batch, and an item is re-encoded about log2(batches) times, not n / most."""
    sizes: dict[int, int] = {}
    encoded = 0
    for version in range(1000):
        parts = [fake_part(old, n) for old, n in sizes.items()]
        going = {part.version for part in smallest_versions(parts, version, most)}
        again = sum(sizes.pop(old) for old in going)
        encoded += again
        sizes[version] = 3 + again
        assert len(sizes) <= most
    assert sum(sizes.values()) == 3000
    if most > 2:
        assert encoded <= 3000 * np.log2(1000)


def fake_part(version: int, n: int) -> Part:
    return Part(version, np.empty((n, 1), np.uint8), np.arange(n, dtype=np.uint32), 0, n)
