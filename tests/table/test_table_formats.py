"""Tables of every released format are opened and give the answers of the day on which they were written."""

from __future__ import annotations

import json
import shutil
import sqlite3
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows
from tests.table.write_format import FORMATS, TABLES, answers

import hashstream as hs
from hashstream.table import HashTable, TableError
from hashstream.table.storage.folder import commit_marker as witness
from hashstream.table.storage.folder import database as manifest
from hashstream.table.storage.folder import segments as file_segments

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
            assert found == wanted
            assert table.check(sample=1000)["codes"] == (0 if wanted["features"] is None else len(table))
        if mode == "read":
            return
        with HashTable.open(folder) as table:  # and it goes on
            kind = str if isinstance(wanted["ids"][0], str) else int
            ids: list[Any] = [kind(100_000 + i) for i in range(30)]
            X, y = rows(np.random.default_rng(1), 30)
            labels = y if isinstance(wanted["labels"][-1], int) else [f"class {one}" for one in y]
            table.ingest(ids, X.astype(table.hasher.dtype_), labels)
            table.refresh()
            assert len(table.stats().versions) == 1
        with HashTable.open(folder) as table:
            assert len(table) == len(wanted["ids"]) + 30
            table.check()


def test_the_present_format_is_stored_and_small() -> None:
    present = [path for path in STORED if path.parent.name == str(manifest.FORMAT)]
    assert {path.stem for path in present} == {make.__name__ for make in TABLES}, (
        "a new format needs its tables: python -m tests.table.write_format"
    )
    assert max(path.stat().st_size for path in present) < 50_000
    assert all(path.with_suffix(".json").stat().st_size < 50_000 for path in present)
    assert file_segments.FORMAT == witness.FORMAT == manifest.FORMAT == 1  # or say here which belong together


@pytest.fixture
def table_folder(tmp_path: Path) -> Path:
    with HashTable.open(tmp_path / "t", hs.LSH(8, random_state=0)) as table:
        table.ingest(range(30), *rows(np.random.default_rng(0), 30))
    return tmp_path / "t"


@pytest.mark.parametrize("mode", ["write", "read"])
@pytest.mark.parametrize("name", ["table.sqlite", "features-000000.seg", "commit-marker"])
def test_a_newer_format_is_refused_with_a_sentence(table_folder: Path, name: str, mode: str) -> None:
    """In every file that has a number, and nothing is changed by the refusal."""
    path = table_folder / name
    if name == "table.sqlite":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 2")
        db.close()
    else:
        raw = bytearray(path.read_bytes())
        raw[8:12] = (2).to_bytes(4, "little")
        path.write_bytes(raw)
    before = {one.name: one.read_bytes() for one in table_folder.iterdir() if one.name != "lock"}
    said = rf"{name} has format 2; this version of hashstream reads up to 1: update hashstream"
    with pytest.raises(TableError, match=said):
        HashTable.open(table_folder, mode=mode)
    after = {one.name: one.read_bytes() for one in table_folder.iterdir() if one.name != "lock"}
    assert {name: after[name] for name in before} == before


def test_a_saved_hasher_of_a_newer_format_is_refused_with_a_sentence(
    table_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest holds hashers in the format of `hashstream.save`, which has a number of its own."""
    from hashstream.hashers import serialization

    with monkeypatch.context() as newer:
        newer.setattr(serialization, "FORMAT_VERSION", 2)
        shutil.rmtree(table_folder)
        HashTable.open(table_folder, hs.LSH(8, random_state=0)).close()
    with pytest.raises(TableError, match=r"manifest\.sqlite: a saved hasher .*format version 2"):
        HashTable.open(table_folder)
