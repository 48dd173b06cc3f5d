"""Damaged folders: exactly the right answers, or a TableError that names the file. Looking destroys nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.table.crash_child import World
from tests.table.damage import Victim, try_damage
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never, TableError
from hashstream.table.storage.folder import commit_marker

HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """So that the small limits of a world are of one test only."""
    from hashstream.table.state import reencode, view
    from hashstream.table.storage.folder import database, storage

    for module, name in (
        (storage, "LOG_ROWS"),
        (database, "WAL_PAGES"),
        (reencode, "PIECE"),
        (view, "FEW_DEAD"),
        (view, "MANY"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    return monkeypatch


@pytest.mark.thinned("values")
@pytest.mark.parametrize(("seed", "killed"), [(7, False), (7, True), (4, False), (9, True)])
def test_cut_and_flipped(tmp_path: Path, limits: pytest.MonkeyPatch, seed: int, killed: bool) -> None:
    """Every file at many places. Seeds : with features, without, and with many small segments."""
    world = World(seed, n_operations=25)
    assert world.policy().keeps_features is (seed != 4)
    world.set_limits()
    victim = Victim(world, tmp_path, killed=killed)
    outcome = try_damage(
        victim, np.random.default_rng(seed), n_flips=20, n_cuts=5, modes=("write", "write", "read")
    )
    assert outcome.failures == []
    names = {"features" if path.suffix == ".seg" else path.name for path in victim.files()}
    assert outcome.refused.keys() | outcome.right.keys() == names
    assert outcome.refused["commit-marker"] > 5
    assert outcome.refused["table.sqlite"] > (0 if killed else 5)
    assert outcome.right["lock"] > 5
    assert outcome.refused.total() > outcome.trials() // 4


def filled(path: Path, **settings: str) -> HashTable:
    rng = np.random.default_rng(5)
    table = HashTable.open(path, HASHER, policy=Never(), segment_bytes=1500, **settings)  # type: ignore[arg-type]
    for i in range(5):
        table.ingest(range(12 * i, 12 * i + 12), *rows(rng, 12))
    return table


def without_log(table: HashTable, path: Path, to: Path) -> bytes:
    """The folder as a killed process leaves it, with the end of SQLite's log cut off; the log as it was."""
    shutil.copytree(path, to, ignore=shutil.ignore_patterns("*-shm"))
    table.close()
    log = to / "table.sqlite-wal"
    raw = log.read_bytes()
    log.write_bytes(raw[: len(raw) * 2 // 3])
    return raw


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_a_refusal_destroys_nothing(tmp_path: Path, durability: str) -> None:
    """With its log brought back, the folder is whole: no rows were cut off that an older database does not know."""
    table = filled(tmp_path / "t", durability=durability)
    Q = rows(np.random.default_rng(9), 3)[0]
    wanted = fingerprint(table, Q)
    raw = without_log(table, tmp_path / "t", tmp_path / "cut")
    before = {path.name: path.read_bytes() for path in (tmp_path / "cut").iterdir()}
    for mode in ("write", "read"):
        with pytest.raises(
            TableError, match=r"table\.sqlite \(or its -wal\) is damaged: it ends with commit"
        ):
            HashTable.open(tmp_path / "cut", mode=mode)
    after = {path.name: path.read_bytes() for path in (tmp_path / "cut").iterdir() if path.suffix == ".seg"}
    assert after == {name: content for name, content in before.items() if name.endswith(".seg")}
    for path in (tmp_path / "cut").glob("table.sqlite*"):
        path.unlink()
    (tmp_path / "cut" / "table.sqlite").write_bytes(before["table.sqlite"])
    (tmp_path / "cut" / "table.sqlite-wal").write_bytes(raw)
    with HashTable.open(tmp_path / "cut", policy=Never()) as again:
        assert fingerprint(again, Q) == wanted
        again.check()


def test_commits_that_were_not_synced_may_be_gone_after_the_machine_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With durability="fast" a shorter log is damage while the machine runs, and a power loss once it has started
    again."""
    without_log(filled(tmp_path / "t", durability="fast"), tmp_path / "t", tmp_path / "cut")
    with pytest.raises(TableError, match="was acknowledged"):
        HashTable.open(tmp_path / "cut")
    monkeypatch.setattr(commit_marker, "start_of_machine", lambda: b"another start of")
    with HashTable.open(tmp_path / "cut", policy=Never()) as older:
        assert 0 < len(older) < 60
        assert len(older) % 12 == 0
        older.check()


@pytest.mark.parametrize("name", ["table.sqlite", "features-000001.seg", "commit-marker", "lock"])
def test_missing_files(tmp_path: Path, name: str) -> None:
    """A folder that has lost its database is not taken for a new one, even where a hasher is given."""
    filled(tmp_path / "t").close()
    (tmp_path / "t" / name).unlink()
    if name in ("commit-marker", "lock"):
        with HashTable.open(tmp_path / "t") as table:
            assert len(table) == 60
            table.check()
        return
    for mode in ("write", "write", "read"):
        with pytest.raises(TableError, match=name if mode == "write" else f"{name}|there is no database"):
            HashTable.open(tmp_path / "t", HASHER, mode=mode)
    assert (tmp_path / "t" / "features-000000.seg").exists()
    assert (tmp_path / "t" / "table.sqlite").exists() == (name != "table.sqlite")


def test_files_of_another_kind(tmp_path: Path) -> None:
    filled(tmp_path / "t").close()
    for name, content in (
        ("table.sqlite", b"not a database, but long enough to be read as one"),
        ("table.sqlite", b""),
        ("features-000001.seg", b"PK\3\4"),
        ("commit-marker", b"?" * 60),
    ):
        shutil.copytree(tmp_path / "t", tmp_path / "u")
        (tmp_path / "u" / name).write_bytes(content)
        with pytest.raises(TableError, match=name):
            HashTable.open(tmp_path / "u")
        shutil.rmtree(tmp_path / "u")
