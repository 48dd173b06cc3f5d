"""A full disk: a change is refused whole, searches go on, and it works again when there is room."""

from __future__ import annotations

import errno
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.table import faulty_disk
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import DiskFull, Every, HashTable, Projected
from hashstream.table.storage.folder import failpoints

ROOT = Path(__file__).parents[2]
HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)


@pytest.mark.skipif(bool(faulty_disk.problem()), reason=faulty_disk.problem())
def test_every_operation_on_a_disk_that_fills_up_and_fails_to_sync(tmp_path: Path) -> None:
    """On a disk that says so at any byte that is written, of segments and of SQLite's files alike."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.table.full_disk_child", str(tmp_path), "5", "7"],
        env=faulty_disk.environment(tmp_path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout)
    for name in ("ingest refused", "add refused", "compact refused", "snapshot refused", "sync: noticed"):
        assert counts[name] > 0, counts
    assert sum(n for name, n in counts.items() if name.endswith("refused")) > 25
    assert counts["fitted"] > 10


def no_room() -> None:
    raise OSError(errno.ENOSPC, "no room")


def test_a_first_batch_that_is_refused_draws_no_numbers(tmp_path: Path) -> None:
    """Not even from a generator that was given."""
    X, y = rows(np.random.default_rng(0), 40)
    learned = []
    for refused in (True, False):
        hasher = hs.FCOH(n_bits=20, random_state=np.random.default_rng(3))
        with HashTable.open(tmp_path / str(refused), hasher) as table:
            if refused:
                with failpoints.on("commit.before", no_room), pytest.raises(DiskFull, match="disk is full"):
                    table.ingest(range(40), X, y)
            table.ingest(range(40), X, y)
            learned.append(table.hasher.projection_.tobytes())
    assert learned[0] == learned[1]


@pytest.mark.parametrize("name", ["create.before", "segment.write", "compact.written", "commit.before"])
def test_a_snapshot_of_a_table_in_memory_appears_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    with HashTable.open(None, HASHER) as table:
        table.ingest(range(40), *rows(np.random.default_rng(0), 40))
        with failpoints.on(name, no_room), pytest.raises(DiskFull, match=r"the disk is full|no room"):
            table.snapshot(tmp_path / "copy")
        assert list(tmp_path.iterdir()) == []
        table.snapshot(tmp_path / "copy")
    with HashTable.open(tmp_path / "copy") as copy:
        assert copy.check()["rows"] == 40


def test_a_snapshot_onto_a_full_disk_names_the_disk_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HashTable.open(tmp_path / "source", HASHER) as table:
        table.ingest(range(40), *rows(np.random.default_rng(0), 40))

        class Full:
            in_transaction = False

            def execute(self, sql: str, *_: object) -> None:
                raise sqlite3.OperationalError("database or disk is full")

        reader = table._storage._second()  # type: ignore[attr-defined]
        with monkeypatch.context() as patch:
            patch.setattr(reader, "_db", Full())
            with pytest.raises(DiskFull, match="the disk is full") as told:
                table.snapshot(tmp_path / "target")
        assert str(tmp_path / "target") in str(told.value)
        assert "source" not in str(told.value)
        assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("policy", [Every, Projected])
def test_a_database_that_cannot_grow(tmp_path: Path, policy: type[Every]) -> None:
    """SQLite's own limit on pages, which it reports as a full disk."""
    rng = np.random.default_rng(0)
    Q = rows(rng, 3)[0]
    table = HashTable.open(tmp_path / "t", HASHER, policy=policy(2), checkpoint_rows=50)
    table.ingest(range(40), *rows(rng, 40))
    sqlite = table._storage._database._db  # type: ignore[attr-defined]
    refused = 0
    for i in range(1, 12):
        before = fingerprint(table, Q)
        pages = sqlite.execute("PRAGMA page_count").fetchone()[0]
        sqlite.execute(f"PRAGMA max_page_count = {pages}")
        X, y = rows(rng, 60)
        ids = np.arange(30 * i, 30 * i + 60)  # half of them replace others
        said = ""
        try:
            table.ingest(ids, X, y)
        except DiskFull as error:
            said = str(error)
        if said:
            assert "the disk is full" in said
            assert str(tmp_path / "t") in said
            refused += 1
            assert fingerprint(table, Q) == before
            sqlite.execute(f"PRAGMA max_page_count = {pages + 1000}")
            table.ingest(ids, X, y)
        assert set(ids.tolist()) <= set(table.search(Q[:1], len(table)).ids[0].tolist())
    assert refused >= 2
    sqlite.execute(f"PRAGMA max_page_count = {pages + 1000}")
    table.flush()
    wanted = fingerprint(table, Q)
    table.close()
    with HashTable.open(tmp_path / "t", policy=policy(2)) as again:
        assert fingerprint(again, Q) == wanted
        again.check()
