"""Tables of every released format are opened and give the answers of the day on which they were written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.crash_child import fork
from tests.table.table_worlds import rows
from tests.table.write_format import FORMATS, TABLES, answers

import hashstream as hs
from hashstream.table import HashTable, TableError
from hashstream.table.storage.folder import failpoints
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.records import FILE_FORMAT, FORMAT

STORED = sorted(FORMATS.glob("*/*.zip"))


def unpacked(stored: Path, to: Path) -> Path:
    with zipfile.ZipFile(stored) as archive:
        archive.extractall(to)
    return to


@pytest.mark.parametrize("stored", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.parametrize("mode", ["write", "read"])
def test_a_stored_table_answers_as_ever(tmp_path: Path, stored: Path, mode: str) -> None:
    wanted: dict[str, Any] = json.loads(stored.with_suffix(".json").read_text())
    Q = np.array(wanted.pop("queries"))
    assert wanted.pop("about")
    folder = unpacked(stored, tmp_path / "t")
    with warnings.catch_warnings():
        # Another machine may learn other last bits again, which is said; the answers stand all the same.
        warnings.filterwarnings("ignore", "(?s).*other bits than at first", UserWarning)
        with HashTable.open(folder, mode=mode) as table:
            found = answers(table, Q)
            assert {name: found[name] for name in wanted} == wanted  # older formats have fewer answers
            assert table.check(sample=1000)["codes"] == (0 if wanted["features"] is None else len(table))
        if mode == "read":
            return
        with HashTable.open(folder) as table:  # and it goes on
            kind = str if isinstance(wanted["ids"][0], str) else int
            ids: list[Any] = [kind(100_000 + i) for i in range(30)]
            X, y = rows(np.random.default_rng(1), 30)
            known = next((label for label in wanted["labels"] if label is not None), 0)
            labels: Any = [f"class {one}" for one in y] if isinstance(known, str) else y
            labels = np.eye(4)[y] if isinstance(known, list) else labels
            table.ingest(ids, X.astype(table.hasher.dtype_), labels)
            table.refresh()
            assert len(table.stats().versions) == 1
        with HashTable.open(folder) as table:
            assert len(table) == len(wanted["ids"]) + 30
            table.check()


# ---- tables of older formats, which a writer takes over

OLD = [path for path in STORED if path.parent.name == "2"]
OLDER = [path for path in STORED if path.parent.name < str(FORMAT)]
EVERY_OLD = pytest.mark.parametrize("stored", OLD, ids=lambda path: path.stem)
EVERY_OLDER = pytest.mark.parametrize("stored", OLDER, ids=lambda path: f"{path.parent.name}-{path.stem}")
KILLED = next(path for path in OLD if path.stem == "killed")


def content(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name != "lock"}


def format_of(folder: Path) -> int:
    db = sqlite3.connect(f"file:{folder / 'table.sqlite'}?mode=ro", uri=True)
    try:
        return int(db.execute("PRAGMA user_version").fetchone()[0])
    finally:
        db.close()


def wanted_of(stored: Path) -> tuple[dict[str, Any], np.ndarray]:
    """The answers that a table must give, and the queries."""
    wanted: dict[str, Any] = json.loads(stored.with_suffix(".json").read_text())
    wanted.pop("about")
    return wanted, np.array(wanted.pop("queries"))


def answers_as(table: HashTable, stored: Path) -> None:
    wanted, Q = wanted_of(stored)
    found = answers(table, Q)
    assert {name: found[name] for name in wanted} == wanted
    if stored.parent.name == "2":
        assert set(found["payloads"]) == {None}
        assert table.fields == {}


@pytest.fixture
def _other_machines() -> Any:
    """Another machine may learn other last bits again, which is said; the answers stand all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*other bits than at first", UserWarning)
        yield


@pytest.mark.usefixtures("_other_machines")
@EVERY_OLDER
def test_a_reader_leaves_an_older_format_as_it_is(tmp_path: Path, stored: Path) -> None:
    folder = unpacked(stored, tmp_path / "t")
    before = content(folder)
    with HashTable.open(folder, mode="read") as table:
        answers_as(table, stored)
        table.check()
        assert list(table._storage.all_done()) == []
        table.snapshot(tmp_path / "copy")
    after = content(folder)
    assert {name: after[name] for name in before} == before
    assert format_of(folder) == format_of(tmp_path / "copy") == int(stored.parent.name)
    with HashTable.open(tmp_path / "copy") as copied:
        answers_as(copied, stored)


@pytest.mark.usefixtures("_other_machines")
@EVERY_OLD
def test_a_writer_takes_an_older_format_over_while_others_read(tmp_path: Path, stored: Path) -> None:
    folder = unpacked(stored, tmp_path / "t")
    with HashTable.open(folder, mode="read") as reader:
        answers_as(reader, stored)
        with HashTable.open(folder) as table:
            assert format_of(folder) == FORMAT
            answers_as(table, stored)
            answers_as(reader, stored)
            assert not reader.reload()
            answers_as(reader, stored)
            extend(table)
            for _ in range(2):
                reader.reload()
                assert extended(reader) == extended(table)
                reader.check()
                table.compact()
        reader.reload()
        with HashTable.open(folder) as table:
            table.check()
            assert extended(table) == extended(reader)
            assert table.count({"later": 7}) == 1


@pytest.mark.usefixtures("_other_machines")
@EVERY_OLDER
def test_a_writer_remembers_keys_in_a_table_of_an_older_format(tmp_path: Path, stored: Path) -> None:
    folder = unpacked(stored, tmp_path / "t")
    with HashTable.open(folder, mode="read") as reader:
        before = reader.stats().commits
        with HashTable.open(folder) as table:
            answers_as(table, stored)
            assert table.stats().commits == before
            ids = table.ids()[:2]
            assert table.remove(ids, key="a key") == 2
            reader.check()
            reader.reload()
            assert reader.check() == table.check()
            assert [one.key for one in reader._storage.all_done()] == ["a key"]
        with HashTable.open(folder) as table:
            assert table.remove(ids, key="a key") == 2
            assert table.stats().commits == before + 1


def extend(table: HashTable) -> None:
    """Use what an older format could not hold: fields, payloads, labels given later."""
    ids = table.ids()
    labels = table.get(ids).labels
    new = ["new"] if isinstance(ids[0], str) else [12345]
    table.declare({"later": int})
    X = rows(np.random.default_rng(3), 1)[0].astype(table.hasher.dtype_)
    table.ingest(new, X, [labels[0]], fields={"later": [7]}, payloads=[{"of": "format 3"}])
    assert table.count({"label": {"$exists": True}}) == sum(label is not None for label in labels) + 1
    if not table.keeps_features and table.hasher.needs_labels:
        return
    missing = [one for one, label in zip(ids, labels, strict=True) if label is None][:2]
    assert table.label(missing, [labels[0]] * 2) == 2
    assert table.label(missing, [labels[0]] * 2) == 0
    assert table.label(ids[:1], [labels[1] if labels[1] != labels[0] else labels[2]]) in (0, 1)


def extended(table: HashTable) -> tuple[Any, ...]:
    ids = table.ids()
    items = table.get(ids)
    return (
        ids.tolist(),
        items.labels,
        items.fields,
        items.payloads,
        items.codes.tobytes(),
        table.count({"later": 7}),
    )


def test_labels_of_an_older_format_are_known_as_learned(tmp_path: Path) -> None:
    """So that giving them again teaches nothing twice."""
    folder = unpacked(next(path for path in OLD if path.stem == "plain"), tmp_path / "t")
    with HashTable.open(folder) as table:
        items = table.get([one for one in table.ids() if table.get([one]).labels[0] is not None])
        seen = table.stats().n_seen
        assert table.label(items.ids, items.labels) == 0
        assert table.stats().n_seen == seen


@pytest.mark.thinned("values")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the child is forked")
@pytest.mark.usefixtures("_other_machines")
@pytest.mark.parametrize("point", ["migrate.before", "migrate.after"])
@EVERY_OLDER
def test_a_killed_migration_has_happened_or_not(tmp_path: Path, stored: Path, point: str) -> None:
    left = int(stored.parent.name) if point == "migrate.before" else FORMAT
    folder = unpacked(stored, tmp_path / "t")

    def life(_: object) -> None:
        failpoints.kill_at(point)
        HashTable.open(folder)

    child, pipe = fork(life)
    os.close(pipe)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert format_of(folder) == left
    for mode in ("read", "write", "read"):
        with HashTable.open(folder, mode=mode) as table:
            answers_as(table, stored)
            table.check()
    assert format_of(folder) == FORMAT


@pytest.mark.usefixtures("_other_machines")
@pytest.mark.parametrize(("point", "left"), [("migrate.before", 2), ("migrate.after", FORMAT)])
def test_an_interrupted_migration_has_happened_or_not(tmp_path: Path, point: str, left: int) -> None:
    folder = unpacked(KILLED, tmp_path / "t")

    def stop() -> None:
        raise KeyboardInterrupt

    with failpoints.on(point, stop), pytest.raises(KeyboardInterrupt):
        HashTable.open(folder)
    assert format_of(folder) == left
    for mode in ("read", "write"):
        with HashTable.open(folder, mode=mode) as table:
            answers_as(table, KILLED)


@pytest.mark.usefixtures("_other_machines")
@pytest.mark.parametrize("how", ["pages", "disk"])
def test_a_migration_without_room_is_refused_and_readers_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder = unpacked(KILLED, tmp_path / "t")

    def no_room() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def no_page(database: Database) -> None:
        database._db.execute(f"PRAGMA max_page_count = {database._one('PRAGMA page_count')[0]}")
        migrate(database)

    migrate = Database.migrate
    for _ in range(2):
        with (
            monkeypatch.context() as patch,
            failpoints.on("migrate.before", no_room if how == "disk" else bool),
        ):
            if how == "pages":
                patch.setattr(Database, "migrate", no_page)
            with pytest.raises(TableError, match="full") as told:
                HashTable.open(folder)
        assert str(folder) in str(told.value)
        assert format_of(folder) == 2
        with HashTable.open(folder, mode="read") as reader:
            answers_as(reader, KILLED)
            reader.check()
    with HashTable.open(folder) as table:
        answers_as(table, KILLED)
    assert format_of(folder) == FORMAT


def test_the_present_format_is_stored_and_small() -> None:
    present = [path for path in STORED if path.parent.name == str(FORMAT)]
    assert {path.stem for path in present} == {make.__name__ for make in TABLES}, (
        "a new format needs its tables: python -m tests.table.write_format"
    )
    assert max(path.stat().st_size for path in present) < 50_000
    assert all(path.with_suffix(".json").stat().st_size < 50_000 for path in present)
    assert (FORMAT, FILE_FORMAT) == (4, 2)  # of the database; of features and the commit marker


@pytest.fixture
def table_folder(tmp_path: Path) -> Path:
    with HashTable.open(tmp_path / "t", hs.LSH(8, random_state=0)) as table:
        table.ingest(range(30), *rows(np.random.default_rng(0), 30))
    return tmp_path / "t"


def set_format(path: Path, number: int) -> None:
    """Write another number where a file of a table says of which format it is."""
    if path.name == "table.sqlite":
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA user_version = {number}")
        db.close()
    else:
        raw = bytearray(path.read_bytes())
        raw[8:12] = number.to_bytes(4, "little")
        path.write_bytes(raw)


def refused(folder: Path, mode: str, said: str) -> None:
    """Opening the folder raises a TableError that says so, and changes nothing."""
    before = {one.name: one.read_bytes() for one in folder.iterdir() if one.name != "lock"}
    with pytest.raises(TableError, match=said):
        HashTable.open(folder, mode=mode)
    after = {one.name: one.read_bytes() for one in folder.iterdir() if one.name != "lock"}
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("mode", ["write", "read"])
@pytest.mark.parametrize("name", ["table.sqlite", "features-000000.seg", "commit-marker"])
def test_a_newer_format_is_refused_with_a_sentence(table_folder: Path, name: str, mode: str) -> None:
    """In every file that has a number, and nothing is changed by the refusal."""
    newest = FORMAT if name == "table.sqlite" else FILE_FORMAT
    set_format(table_folder / name, newest + 1)
    said = rf"{name} has format {newest + 1}; this version of hashstream reads format {newest}: update hashstream"
    refused(table_folder, mode, said)


@pytest.mark.parametrize("mode", ["write", "read"])
@pytest.mark.parametrize("name", ["table.sqlite", "features-000000.seg"])
def test_format_1_is_refused_with_a_sentence(table_folder: Path, name: str, mode: str) -> None:
    """It was never released, so there is nothing that reads it."""
    set_format(table_folder / name, 1)
    newest = FORMAT if name == "table.sqlite" else FILE_FORMAT
    said = rf"{name} has format 1, .* never released; .* format {newest}: create the table again"
    refused(table_folder, mode, said)


@pytest.mark.parametrize("mode", ["write", "read"])
def test_a_format_that_no_table_has_is_called_damage(table_folder: Path, mode: str) -> None:
    set_format(table_folder / "table.sqlite", 0)
    refused(table_folder, mode, r"table\.sqlite is damaged: its format is 0")


def test_a_saved_hasher_of_a_newer_format_is_refused_with_a_sentence(
    table_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database holds hashers in the format of `hashstream.save`, which has a number of its own."""
    from hashstream.hashers import serialization

    with monkeypatch.context() as newer:
        newer.setattr(serialization, "FORMAT_VERSION", 2)
        shutil.rmtree(table_folder)
        HashTable.open(table_folder, hs.LSH(8, random_state=0)).close()
    with pytest.raises(TableError, match=r"table\.sqlite: a saved hasher .*format version 2"):
        HashTable.open(table_folder)
