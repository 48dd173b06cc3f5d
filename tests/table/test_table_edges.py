"""Rare orders of events, each of which a table once got wrong."""

from __future__ import annotations

import enum
import gc
import os
import shutil
import sqlite3
import sys
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Every, HashTable, Lazy, Never, Projected, TableError
from hashstream.table.state.ids import as_ids
from hashstream.table.stats import measure_drift
from hashstream.table.storage.folder import database
from hashstream.table.storage.folder.commit_marker import CommitMarker

X, Y = rows(np.random.default_rng(0), 60)


def new(path: Path | None, **settings: Any) -> HashTable:
    settings.setdefault("policy", Never())
    return HashTable.open(path, hs.FCOH(n_bits=12, random_state=0), **settings)


def test_commits_of_a_killed_process_are_synced_before_they_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log of a process that is killed between the writing of a commit and its sync is in the system's memory only.
    # A synced note of that commit must not outlive it: the folder would be refused after a power loss.
    killed = tmp_path / "killed"
    with new(tmp_path / "t") as table:
        table.ingest(np.arange(60), X, Y)
        shutil.copytree(tmp_path / "t", killed)
    log = killed / "table.sqlite-wal"
    assert log.stat().st_size
    names = {path.stat().st_ino: path.name for path in (killed, log)}
    seen: list[str] = []
    sync, note = os.fsync, CommitMarker.note

    def watched_sync(handle: int) -> None:
        sync(handle)
        seen.append(names.get(os.fstat(handle).st_ino, "other"))

    def watched_note(self: CommitMarker, seq: int, synced: bool) -> None:
        seen.append("note")
        note(self, seq, synced)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(CommitMarker, "note", watched_note)
    with HashTable.open(killed) as table:
        assert len(table) == 60
        assert {log.name, killed.name} <= set(seen[: seen.index("note")])


def test_a_reader_verifies_what_was_added_after_it_had_opened(tmp_path: Path) -> None:
    with new(tmp_path / "t") as table, table_of_reader(table, tmp_path / "t") as reader:
        table.add(np.arange(40, 60), X[40:])
        assert reader.reload()
        segment = tmp_path / "t" / "features-000000.seg"
        with segment.open("r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\xff\x00\xff\x00")
        assert reader.get([3]).features is not None
        with pytest.raises(TableError, match=r"features-000000\.seg.* is damaged"):
            reader.get([59])


def table_of_reader(table: HashTable, path: Path) -> HashTable:
    """A reader of the table that has looked at its first 40 items."""
    table.ingest(np.arange(40), X[:40], Y[:40])
    reader = HashTable.open(path, mode="read")
    reader.get(np.arange(40))
    return reader


@pytest.mark.parametrize("labels", [Y.copy(), np.eye(4, dtype=int)[Y]])
def test_labels_are_the_tables_own(labels: np.ndarray) -> None:
    given = labels.copy()
    with new(None) as table:
        table.ingest(np.arange(60), X, given)
        before = table.stats().drift
        given[:] = 1 - given
        assert np.array_equal(np.array(table.get(np.arange(60)).labels), labels)
        assert table.stats().drift == before


def test_a_table_that_is_dropped_is_collected_though_it_refreshes_in_the_background() -> None:
    table = new(None, policy=Lazy(share=1.0))
    table.ingest(np.arange(60), X, Y)
    refresher, reference = table._refresher, weakref.ref(table)
    assert refresher is not None
    thread = refresher._thread
    assert thread is not None
    thread.join(1.2)  # it has waited in vain once
    assert thread.is_alive()
    del table
    gc.collect()
    thread.join(5)
    gc.collect()
    assert reference() is None
    assert not thread.is_alive()


def test_versions_stay_bounded_without_features_and_with_an_empty_sample(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"policy": Projected(k=1000), "max_versions": 2}
    with pytest.raises(ValueError, match="sample_size must be at least 1 where no features are kept"):
        new(tmp_path / "t", **settings, sample_size=0)
    assert not (tmp_path / "t").exists()
    with new(None, **settings, sample_size=2) as table:
        for i in range(6):
            some = slice(10 * i, 10 * i + 10)
            table.ingest(np.arange(60)[some], X[some], Y[some])
            slots = table._state.sample.items()[0]
            assert len(slots) == 2
            table.remove(slots)  # ids are slots here
            assert not len(table._state.sample)
            assert len(table.stats().versions) <= 2
        assert len(table) == 48


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_a_sample_is_exchanged_together_with_the_view(tmp_path: Path, kind: str) -> None:
    with new(None if kind == "memory" else tmp_path / "t", sample_size=30) as table:
        table.ingest(np.arange(40), X[:40], Y[:40])
        seen = table._state.view, table._state.sample
        before = measure_drift(*seen)
        slots, features, labels = table._state.sample.items()
        table.ingest(np.arange(20, 60), X[20:], Y[20:])
        table.remove(slots[:5])
        table.compact()
        assert table._state.sample.items()[0].tolist() != slots.tolist()
        assert seen[1].items()[0].tolist() == slots.tolist()
        assert seen[1].items()[1].tobytes() == features.tobytes()
        assert seen[1].items()[2] == labels
        assert measure_drift(*seen) == before  # whoever has begun to look at both goes on with both
        assert np.isin(table._state.sample.items()[0], table._state.view.live()).all()


def test_a_nul_at_the_end_of_an_id_stays(tmp_path: Path) -> None:
    names = ["a", "a\0", "a\0\0", "\0", ""]
    with new(tmp_path / "t") as table:
        table.ingest(names, X[:5], Y[:5])
    with HashTable.open(tmp_path / "t") as table:
        assert sorted(table.search(X[:1], 5).ids[0].tolist()) == sorted(names)
        assert table.get(names).features is not None
        table.remove(["a\0"])
        assert [one in table for one in names] == [True, False, True, True, True]
    assert [type(one) for one in as_ids([np.str_("b"), "c\0"])] == [str, str]


def test_tables_may_share_a_policy() -> None:
    def counts(table: HashTable, i: int) -> int:
        table.ingest([2 * i, 2 * i + 1], X[2 * i : 2 * i + 2], Y[2 * i : 2 * i + 2])
        return len(table.stats().versions)

    hasher = hs.FCOH(n_bits=12, random_state=0, batch_size=2)
    with HashTable.open(None, hasher, policy=Every(4)) as alone:
        wanted = [counts(alone, i) for i in range(12)]
    assert len(set(wanted)) > 1
    policy = Every(4)
    with (
        HashTable.open(None, hasher, policy=policy) as one,
        HashTable.open(None, hasher, policy=policy) as other,
    ):
        assert [(counts(one, i), counts(other, i)) for i in range(12)] == [(n, n) for n in wanted]
    lazy = Lazy(share=0.5, piece=9)
    with new(None, policy=lazy) as one, new(None, policy=lazy) as other:
        for table in (one, other):
            assert table.settings.policy == lazy
            refresher = table._refresher
            assert refresher is not None
            assert (refresher.share, refresher.piece) == (0.5, 9)
            assert refresher.is_alive()
        assert one._refresher is not other._refresher
    for table in (one, other):
        assert table._refresher is not None
        assert not table._refresher.is_alive()


def test_a_fitted_hasher_given_to_a_table_that_exists_is_not_learned_from(tmp_path: Path) -> None:
    with new(tmp_path / "t") as table:
        table.ingest(np.arange(30), X[:30], Y[:30])
        wanted = table.hasher.transform(X)
    other = hs.FCOH(n_bits=12, random_state=0).fit(X[30:] * 3, Y[30:])
    assert other.transform(X).tobytes() != wanted.tobytes()
    says = r"what the given hasher has learned \(30 rows\) is ignored: .* learned itself \(30 rows\)"
    with pytest.warns(UserWarning, match=says) as warned:
        table = HashTable.open(tmp_path / "t", other)
    with table:
        assert table.hasher.transform(X).tobytes() == wanted.tobytes()
        learned = table.hasher
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for same in (learned, hs.FCOH(n_bits=12, random_state=0)):
            HashTable.open(tmp_path / "t", same).close()
        HashTable.open(tmp_path / "u", other).close()  # a new table begins with what it has learned
        HashTable.open(tmp_path / "u", other).close()
    with HashTable.open(tmp_path / "u") as table:
        assert table.hasher.transform(X).tobytes() == other.transform(X).tobytes()


def test_a_snapshot_is_not_put_into_the_table_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with HashTable.open(tmp_path / "t", hs.FCOH(n_bits=8, random_state=0)) as table:
        table.ingest(range(20), *rows(rng, 20))
        with pytest.raises(TableError, match="own folder"):
            table.snapshot(tmp_path / "t" / "copy")
        assert not (tmp_path / "t" / "copy").exists()
        table.snapshot(tmp_path / "copy")
    with HashTable.open(tmp_path / "copy") as copied:
        assert len(copied) == 20


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8 are refused here")
def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    try:
        (tmp_path / name).mkdir()
    except OSError as error:
        pytest.skip(f"this file system refuses such names: {error}")
    with new(tmp_path / name / "t") as table:
        table.ingest(np.arange(60), X, Y)
        table.snapshot(tmp_path / name / "copy")
    with HashTable.open(tmp_path / name / "copy") as copy:
        assert copy.check()["rows"] == 60


def test_ids_of_other_kinds_are_named() -> None:
    table = new(None)
    table.ingest(np.arange(60), X, Y)
    for wrong in ([True], [False, True], np.array([True])):
        with pytest.raises(
            ValueError, match=r"ids must be whole numbers, or all strings: ids\[0\] is (True|False)"
        ):
            table.get(wrong)
    with pytest.raises(ValueError, match="fit into 64 bits"):
        table.get([2**63])
    names = new(None)
    names.ingest(np.array([f"item {i}" for i in range(60)], np.dtypes.StringDType()), X, Y)
    assert "item 3" in names
    assert names.get(np.array(["item 7"], np.dtypes.StringDType())).labels == [Y[7]]
    assert type(names.search(X[:1], 1).ids[0, 0]) is str


def test_a_reader_that_meets_a_stopped_writer_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a writer holds the database while it closes it."""
    new(tmp_path / "t").close()
    holding = sqlite3.connect(tmp_path / "t" / "table.sqlite", isolation_level=None)
    holding.execute("PRAGMA locking_mode = EXCLUSIVE")
    holding.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(database, "WAIT", 0.05)
    with pytest.raises(
        TableError, match=r"has been locked for .* let it go on, or end it, and try again"
    ) as told:
        HashTable.open(tmp_path / "t", mode="read")
    assert f"process {os.getpid()} on" in str(told.value)
    holding.execute("ROLLBACK")
    holding.close()
    HashTable.open(tmp_path / "t", mode="read").close()


def test_a_table_stays_itself_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with new(tmp_path / name / "t") as table:
            table.ingest(np.arange(60), X if name == "a" else -X, Y if name == "a" else Y + 10)
    monkeypatch.chdir(tmp_path / "a")
    with HashTable.open("t") as table:
        monkeypatch.chdir(tmp_path / "b")
        held = table.get([1, 2])
        assert held.labels == Y[1:3].tolist()
        assert held.features is not None
        assert held.features.tobytes() == X[1:3].tobytes()
        table.snapshot(tmp_path / "copy")
        table.ingest([100], X[:1], Y[:1])
    with HashTable.open(tmp_path / "a" / "t") as table, HashTable.open(tmp_path / "copy") as copy:
        assert (len(table), len(copy)) == (61, 60)
        assert copy.get([1]).labels == [Y[1]]


@pytest.mark.parametrize("call", ["compact", "check"])
def test_features_that_were_altered_while_the_table_was_open_are_not_copied(
    tmp_path: Path, call: str
) -> None:
    """They would get a new checksum, and nobody could tell any more."""
    with new(tmp_path / "t") as table:
        table.ingest(np.arange(60), X, Y)
        table.get([5])
        with (tmp_path / "t" / "features-000000.seg").open("r+b") as file:
            file.seek(4096 + 5 * X[0].nbytes)
            file.write(b"\7" * X[0].nbytes)
        table.remove([0])
        with pytest.raises(TableError, match=r"features-000000\.seg .*its checksum does not match"):
            table.compact() if call == "compact" else table.check()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
@pytest.mark.parametrize("name", ["table.sqlite", "commit-marker", "features-000000.seg"])
@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path, name: str, mode: str) -> None:
    with new(tmp_path / "t") as table:
        table.ingest(np.arange(60), X, Y)
    (tmp_path / "t" / name).unlink()
    os.mkfifo(tmp_path / "t" / name)
    with pytest.raises(TableError, match=f"{name} is not a file"):
        HashTable.open(tmp_path / "t", mode=mode)


class Animal(str, enum.Enum):  # noqa: UP042 (StrEnum has another `str`)
    CAT = "cat"
    COW = "cow"


def test_enumerations_are_ids_and_labels_by_their_value(tmp_path: Path) -> None:
    with new(tmp_path / "t") as table:
        table.ingest([Animal.CAT, Animal.COW], X[:2], [Animal.CAT, Animal.COW])
        assert "cat" in table
        assert table.get(["cow", "cat"]).labels == ["cow", "cat"]
        assert table.hasher.classes_ == ["cat", "cow"]


def test_no_ids_are_items_of_the_same_shape() -> None:
    with HashTable.open(None, hs.LSH(8, random_state=0)) as table:
        assert table.get([]).features is None  # the table has no features yet
        table.add([1, 2], np.ones((2, 5), np.float32))
        found = table.get([])
        assert found.features is not None
        assert found.features.shape == (0, 5)


def test_ids_of_another_kind_are_named() -> None:
    with HashTable.open(None, hs.FCOH(8, random_state=0)) as table:
        table.add([1, 2], np.ones((2, 5), np.float32))
        with pytest.raises(KeyError, match=r"not in the table: '1' \(its ids are whole numbers\)"):
            table.get(["1"])
        with pytest.raises(ValueError, match="there are 2 ids, but y has shape"):
            table.label([1, 2], [0])
