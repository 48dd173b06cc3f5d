"""Files that shrink, disappear or cannot be read while the table is open: a TableError that names them, no signal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, TableError
from hashstream.table.storage import features
from hashstream.table.storage.folder import segments

ROOT = Path(__file__).parents[2]
X, Y = rows(np.random.default_rng(0), 3000)

CHILD = """
import json, os, sys, shutil
import numpy as np, hashstream as hs
from pathlib import Path
from hashstream.table import Every, HashTable, TableError
from tests.table.table_worlds import rows

path, mode = Path(sys.argv[1]), sys.argv[2]
X, Y = rows(np.random.default_rng(0), 3000)
said = {}
for name, size in (("features-000000.seg", 4096 + 100), ("features-000000.seg", 10), ("features-000000.seg", 0),
                   ("table.sqlite-shm", 0), ("table.sqlite-wal", 0), ("table.sqlite", 0),
                   ("table.sqlite", 8192)):
    for call in ("get", "check", "refresh", "ingest", "search"):
        shutil.rmtree(path, ignore_errors=True)
        writer = HashTable.open(path, hs.FCOH(n_bits=20, random_state=0), policy=Every(1000))
        writer.ingest(range(1500), X[:1500], Y[:1500])
        writer.ingest(range(1500, 2900), X[1500:2900], Y[1500:2900])
        table = HashTable.open(path, mode="read") if mode == "read" else writer
        table.get([1])
        os.truncate(path / name, size)
        try:
            if call == "get":
                table.get([2500])
            elif call == "check":
                table.check()
            elif call == "refresh" and mode == "write":
                table.refresh()
            elif call == "ingest" and mode == "write":
                table.ingest(range(2900, 3000), X[2900:], Y[2900:])
            else:
                table.search(X[:3], 5)
            said[f"{name} {size} {call}"] = "fine"
        except TableError as error:
            said[f"{name} {size} {call}"] = str(error)
        table.close()
        writer.close()
print(json.dumps(said))
"""


@pytest.mark.parametrize("mode", ["write", "read"])
def test_a_file_that_shrinks_is_an_error_and_not_a_signal(tmp_path: Path, mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "t"), mode], capture_output=True, text=True, cwd=ROOT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for case, found in said.items():
        name, _, call = case.split()
        if call == "search" or (mode == "read" and call in ("refresh", "ingest")):
            assert found == "fine"  # codes are in memory
        elif name.endswith("-shm"):
            assert found == "fine"  # SQLite makes it again
        else:
            assert name in found, case
            assert "truncated" in found or "was cut" in found or "damaged" in found


def test_a_disk_that_fails_to_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HashTable.open(tmp_path / "t", hs.FCOH(n_bits=20, random_state=0)) as table:
        table.ingest(range(1500), X[:1500], Y[:1500])

        def fails(*_: Any) -> int:
            raise OSError(5, os.strerror(5))

        with monkeypatch.context() as patch:
            patch.setattr(segments._Handle, "read", fails)
            for call in (lambda: table.get([3]), table.check):
                with pytest.raises(
                    TableError, match=r"features-000000\.seg cannot be read: Input/output error"
                ):
                    call()
        assert table.check()["rows"] == 1500


def delete_all(path: Path) -> None:
    for one in path.iterdir():
        one.unlink()


VANISHED: dict[str, Callable[[Path], Any]] = {
    "all files": delete_all,
    "the database": lambda path: (path / "table.sqlite").unlink(),
    "the database's log": lambda path: (path / "table.sqlite-wal").unlink(),
    "the features": lambda path: (path / "features-000000.seg").unlink(),
    "the features, moved": lambda path: (path / "features-000000.seg").rename(path / "elsewhere.seg"),
    "the folder": lambda path: path.rename(path.with_name("elsewhere")),
    "the database, for another": lambda path: [
        (path / "table.sqlite").unlink(),
        (path / "table.sqlite").write_bytes(b"another"),
    ],
}


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be deleted here")
@pytest.mark.parametrize("what", VANISHED)
def test_nothing_is_acknowledged_that_goes_to_files_that_are_not_there(tmp_path: Path, what: str) -> None:
    table = HashTable.open(tmp_path / "t", hs.FCOH(n_bits=20, random_state=0))
    table.ingest(range(1500), X[:1500], Y[:1500])
    VANISHED[what](tmp_path / "t")
    seen = table.hasher.n_seen_
    with pytest.raises(TableError, match="while the table was open"):
        table.ingest(range(2900, 3000), X[2900:], Y[2900:])
    assert (len(table), table.hasher.n_seen_) == (1500, seen)
    assert table.search(X[:1], 1)[0].shape == (1, 1)
    table.close()


def test_rows_in_any_order_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several files, in blocks of a few rows, near and far apart, twice the same: against the array itself."""
    monkeypatch.setattr(features, "BLOCK_ROWS", 3)
    monkeypatch.setattr(features, "BLOCK_BYTES", 100)
    monkeypatch.setattr(features, "NEAR_BYTES", 150)
    monkeypatch.setattr(segments, "MAX_HANDLES", 2)
    rng = np.random.default_rng(1)
    with HashTable.open(tmp_path / "t", hs.LSH(n_bits=20, random_state=0), segment_bytes=3000) as table:
        for start in range(0, 500, 50):
            table.ingest(range(start, start + 50), X[start : start + 50], Y[start : start + 50])
        assert len(list((tmp_path / "t").glob("*.seg"))) > 4
        for n in (1, 2, 7, 100, 500):
            ids = rng.integers(500, size=n)
            ids = np.unique(ids)[rng.permutation(len(np.unique(ids)))]
            found = table.get(ids).features
            assert found is not None
            assert found.tobytes() == X[ids].tobytes()
        assert table.check()["rows"] == 500
