"""Codes that change while they are exported to Milvus: none of them is switched to with an older one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.test_milvus import D, a_name, table_of, unsealed  # noqa: F401 (fixtures)

import hashstream as hs
from hashstream.scale import milvus_settling
from hashstream.scale.milvus import MilvusError, MilvusExport, MilvusReader
from hashstream.table import HashTable
from hashstream.table.results import Codes

RNG = np.random.default_rng(5)


class Meanwhile:
    """A table whose codes are read in small pieces. write : called after each piece, with the number of this reading
    and of the piece."""

    def __init__(self, table: HashTable, write: Callable[[int, int], None]) -> None:
        self._table, self._write, self._readings = table, write, 0

    @property
    def hasher(self) -> hs.OnlineHasher:
        return self._table.hasher

    def codes(self) -> Iterator[Codes]:
        self._readings += 1
        reading = self._readings
        for at, piece in enumerate(self._table.codes(rows=50)):
            yield piece
            self._write(reading, at)


def features(n: int = 1) -> np.ndarray:
    return RNG.normal(size=(n, D)).astype(np.float32)


def test_an_item_that_is_replaced_before_its_older_code_is_copied(
    milvus_uri: str,
    name: str,
    tmp_path: Path,
) -> None:
    with table_of(tmp_path, range(200)) as table, MilvusExport(milvus_uri, name, tmp_path / "m") as export:

        def write(reading: int, piece: int) -> None:
            if (reading, piece) == (1, 0):
                table.add([150], X)
                export.add([150], X)

        X = 1000 * features()
        assert export.move(Meanwhile(table, write)).digest == table.digest()
        export.verify(table)


@pytest.mark.parametrize("text", [False, True])
def test_what_changes_during_a_move_is_switched_to_as_it_is(
    milvus_uri: str,
    name: str,
    tmp_path: Path,
    text: bool,
) -> None:
    def known(*ids: int) -> Any:
        return [f"item {one}" for one in ids] if text else list(ids)

    with (
        table_of(tmp_path, known(*range(200))) as table,
        MilvusExport(milvus_uri, name, tmp_path / "m") as export,
    ):

        def write(reading: int, piece: int) -> None:
            """As another process does: first to the table, then to Milvus."""
            if reading > 3 or piece:
                return
            ids, X = known(3, 120 + reading, 500 + reading), features(3)
            table.add(ids, X)
            export.add(ids, X)
            table.remove(known(160 + reading))
            export.remove(known(160 + reading))

        filled = export.move(Meanwhile(table, write))
        assert (filled.count, filled.digest) == (len(table), table.digest())
        assert export.verify(table) == filled
        assert export.versions() == {filled.version: True}


def test_what_is_never_equal_is_not_switched_to(
    milvus_uri: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(milvus_settling, "ROUNDS", 3)
    with table_of(tmp_path, range(100)) as table, MilvusExport(milvus_uri, name, tmp_path / "m") as export:
        first = export.move(table)
        table.ingest(range(100, 150), features(50), np.arange(50) % 3)
        table.refresh()
        X = 1000 * features()

        def write(reading: int, piece: int) -> None:
            """To the table only, and to Milvus never."""
            if not piece:
                table.add([7], X * (-1) ** reading)

        with pytest.raises(MilvusError, match=r"1 items keep changing, such as 7\. Nothing was switched"):
            export.move(Meanwhile(table, write))
        assert export.versions() == {first.version: True, table.version: False}
        export.move(table)
        # An item that only Milvus has is nobody's to remove.
        export.add([999], features())
        with pytest.raises(MilvusError, match=r"1 items that the source does not have, such as 999"):
            export.move(table)
        export.remove([999])
        export.move(table)


def test_functions_that_change_during_a_move(milvus_uri: str, name: str, tmp_path: Path) -> None:
    with table_of(tmp_path, range(100)) as table, MilvusExport(milvus_uri, name, tmp_path / "m") as export:
        first = export.move(table)
        table.ingest(range(100, 150), features(50), np.arange(50) % 3)
        table.refresh()

        def learn(reading: int, piece: int) -> None:
            if (reading, piece) == (1, 0):
                table.ingest(range(200, 250), features(50), np.arange(50) % 3)
                table.refresh()

        with pytest.raises(MilvusError, match="the source has learned since"):
            export.move(Meanwhile(table, learn))
        with MilvusReader(milvus_uri, name, tmp_path / "m") as reader:
            assert reader.search(features(), 1).version == first.version
