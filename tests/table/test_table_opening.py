"""Who may open a folder, with what, and what readers and copies see."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.table.filled_table import HASHER, filled, queries
from tests.table.table_worlds import rows, same_answers, same_items, same_model

import hashstream as hs
from hashstream.table import HashTable, Never, Projected, TableError, TableLocked


def test_one_writer_and_it_is_named(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    with pytest.raises(TableLocked, match=rf"process {os.getpid()} on .*, since .*mode=\"read\""):
        HashTable.open(tmp_path / "t")
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        same_answers(reader, model, queries())
        with pytest.raises(TableError, match='mode="read"'):
            reader.remove([1])
    table.close()
    HashTable.open(tmp_path / "t").close()


@pytest.mark.parametrize("policy", [Never, Projected])
def test_a_reader_sees_what_was_committed_when_it_reloads(tmp_path: Path, policy: type) -> None:
    rng = np.random.default_rng(8)
    X, y = rows(rng, 20)
    table = HashTable.open(tmp_path / "t", HASHER, policy=policy())
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        assert not reader.reload()
        for i in range(6):
            table.ingest(range(20 * i, 20 * i + 20), X + i, y)
            assert len(reader) == 20 * i
            if i == 2:
                table.remove([3])
                table.ingest([3], X[:1], y[:1])
                table.flush()
            if i == 4:
                table.refresh()
                table.compact()
            assert reader.reload()
            assert [a.tolist() for a in reader.search(X, 9)] == [a.tolist() for a in table.search(X, 9)]
            assert reader.get([3, 5]).codes.tolist() == table.get([3, 5]).codes.tolist()
            assert reader.stats().versions == table.stats().versions
        assert not reader.reload()
    table.close()


def test_a_snapshot_is_a_table_of_its_own(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", segment_bytes=1000)
    table.snapshot(tmp_path / "copy")
    with pytest.raises(TableError, match="exists already: a snapshot needs a new folder"):
        table.snapshot(tmp_path / "copy")
    X, y = rows(np.random.default_rng(1), 9)
    table.ingest(range(200, 209), X, y)
    with HashTable.open(tmp_path / "copy", policy=Never()) as copied:
        same_answers(copied, model, queries())
        same_items(copied, model)
        copied.check()
        copied.ingest(range(200, 209), X, y)
        assert [a.tolist() for a in copied.search(X, 9)] == [a.tolist() for a in table.search(X, 9)]
    table.close()


def test_a_table_in_memory_can_be_kept_by_a_snapshot(tmp_path: Path) -> None:
    table, model = filled(None)  # type: ignore[arg-type]
    table.snapshot(tmp_path / "t")
    with HashTable.open(tmp_path / "t", policy=Never()) as kept:
        for order, entry in enumerate(sorted(model.items.values(), key=lambda entry: entry.order)):
            entry.order = order
        same_answers(kept, model, queries())
        same_items(kept, model)
        same_model(kept, model)
        kept.check()


def test_a_folder_that_exists_needs_no_hasher_and_takes_no_other(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="needs a hasher="):
        HashTable.open(tmp_path / "t")
    with pytest.raises(TableError, match="not a table"):
        HashTable.open(tmp_path / "t", mode="read")
    filled(tmp_path / "t")[0].close()
    HashTable.open(tmp_path / "t", HASHER).close()
    with pytest.raises(TableError, match="n_bits=20, not with n_bits=21"):
        HashTable.open(tmp_path / "t", hs.FCOH(n_bits=21, random_state=3, batch_size=8))
    with pytest.raises(TableError, match="created with FCOH, not with LSH"):
        HashTable.open(tmp_path / "t", hs.LSH(n_bits=20))
    with pytest.raises(TableError, match="Projected does not suit .*, where features are stored"):
        HashTable.open(tmp_path / "t", policy=Projected())
    with pytest.raises(TableError, match="keep_features=True"):
        HashTable.open(tmp_path / "t", keep_features=False)
    HashTable.open(tmp_path / "t").close()
