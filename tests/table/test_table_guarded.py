"""Removals and labels with a sequence number: one that comes late leaves newer items as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.hashers.serialization import encoder_digest
from hashstream.table import Call, HashTable, KeyReused

X, Y = rows(np.random.default_rng(0), 300)


@pytest.fixture(params=["memory", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "t" if request.param == "folder" else None


def filled(place: Path | None, **more: Any) -> HashTable:
    """Items 0 to 9 with numbers 10 to 19, and items 10 to 14 without."""
    table = HashTable.open(place, hs.RidgeHash(n_bits=8, random_state=0), **more)
    table.ingest(range(10), X[:10], Y[:10], sequence=np.arange(10, 20))
    table.add(range(10, 15), X[10:15])
    return table


def functions(table: HashTable) -> Any:
    return encoder_digest(table.hasher.encoder())


# ---- removals


def test_a_removal_leaves_newer_items(place: Path | None) -> None:
    with filled(place) as table:
        assert table.remove([3, 4, 5, 6, 12], sequence=14) == 3
        assert table.ids().tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 13, 14]
        before = table.commits
        assert table.remove([5, 6], sequence=14) == 0
        assert table.commits == before
    if place is not None:
        with HashTable.open(place) as table:
            assert table.ids().tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 13, 14]


def test_a_number_for_each_item_that_is_removed(place: Path | None) -> None:
    with filled(place) as table:
        held = table.get([8, 2, 12, 5]).sequences
        assert held is not None
        assert held.tolist() == [18, 12, -1, 15]
        table.add([2, 12], X[50:52], sequence=30)
        assert table.remove([8, 2, 12, 5], sequence=held) == 2  # in another order than that of the ids
        assert {2, 12} < set(table.ids().tolist())
        assert 8 not in table
        assert 5 not in table
        assert table.remove([1, 7, 1, 7], sequence=[10, 17, 11, 16]) == 2  # as four removals would


def test_a_removal_by_a_filter(place: Path | None) -> None:
    with filled(place, fields={"tenant": str}) as table:
        table.add(range(20, 24), X[20:24], sequence=[5, 15, 25, 35], fields={"tenant": ["a"] * 4})
        table.add([24], X[24:25], fields={"tenant": ["a"]})
        assert table.remove(where={"tenant": "a"}, sequence=15) == 3
        assert table.ids({"tenant": "a"}).tolist() == [22, 23]
        assert table.remove(where={"tenant": "a"}, sequence=-1) == 0
        assert table.remove(where={"tenant": "a"}, sequence=np.int64(35)) == 2
        assert len(table) == 15


def test_items_that_are_not_stored_are_missing_all_the_same(place: Path | None) -> None:
    with filled(place) as table:
        with pytest.raises(KeyError):
            table.remove([1, 99], sequence=5)
        with pytest.raises(KeyError):
            table.label([1, 99], [0, 0], sequence=5)
        assert len(table) == 15


def test_a_key_is_known_with_other_numbers(place: Path | None) -> None:
    with filled(place) as table:
        assert table.remove([1, 2], sequence=11, key="removal") == 1
        assert table.remove([2, 1], sequence=[99, 99], key="removal") == 1
        assert table.remove([1, 2], key="removal") == 1
        assert 2 in table
        assert table.remove(where={"id": {"$in": [3, 4]}}, sequence=13, key="filter") == 1
        assert table.remove(where={"id": {"$in": [3, 4]}}, sequence=99, key="filter") == 1
        assert 4 in table
        assert table.label([5, 6], [0, None], sequence=[14, 16], key="labels") == 1
        assert table.label([5, 6], [0, None], key="labels") == 1
        assert table.label([5, 6], [0, None], sequence=99, key="labels") == 1
        assert table.get([5, 6]).labels == [Y[5], None]
        with pytest.raises(KeyReused):
            table.label([5, 6], [1, None], sequence=[14, 16], key="labels")
        with pytest.raises(KeyReused):
            table.remove([1], sequence=11, key="removal")


def test_a_key_is_remembered_though_everything_was_newer(place: Path | None) -> None:
    with filled(place) as table:
        assert table.remove([1], sequence=0, key="removal") == 0
        assert table.label([2], [None], sequence=0, key="label") == 0
        assert table.remove([1], key="removal") == 0
        assert table.label([2], [None], key="label") == 0
        assert table.get([1, 2]).labels == [Y[1], Y[2]]


# ---- labels


@pytest.mark.parametrize("learn", [True, False])
def test_a_label_leaves_newer_items(place: Path | None, learn: bool) -> None:
    with filled(place) as table, filled(None) as other:
        new = [(one + 1) % 3 for one in Y[:6].tolist()]
        ids = [5, 1, 2, 0, 4, 3]
        assert table.label(ids, [new[one] for one in ids], learn=learn, sequence=12) == 3
        assert other.label([0, 1, 2], new[:3], learn=learn) == 3
        assert table.get(range(6)).labels == [*new[:3], *Y[3:6].tolist()]
        assert functions(table) == functions(other)
        assert table.hasher.n_seen_ == other.hasher.n_seen_
        before = table.commits
        assert table.label([3, 4], new[3:5], learn=learn, sequence=[12, 13]) == 0
        assert table.commits == before
        assert (
            table.label([13, 3], [0, new[3]], learn=learn, sequence=[-1, 13]) == 2
        )  # without a number: never newer
    if place is not None:
        with HashTable.open(place) as table:
            assert table.get(range(6)).labels == [*new[:4], *Y[4:6].tolist()]


def test_calls_of_a_writer_share_a_commit(place: Path | None) -> None:
    with filled(place) as table, filled(None) as other:
        calls = [
            Call("label", ([1, 2], [0, None]), {"sequence": [10, 12]}),
            Call("label", ([3], [None]), {}),
            Call("label", ([4], [None]), {"sequence": 13}, "late"),
            Call("label", ([10, 5], [1, None]), {"sequence": 15}),
            Call("label", ([4], [None]), {"sequence": 14}, "late"),
        ]
        before = table.commits
        table.writer().do(calls[:4])
        assert [call.error for call in calls[:4]] == [None] * 4
        assert [call.result for call in calls[:4]] == [1, 1, 0, 2]
        assert table.commits == before + 1
        table.writer().do(calls[4:])
        assert calls[4].result == 0
        assert table.get([1, 2, 3, 4, 5, 10]).labels == [Y[1], None, None, Y[4], None, 1]
        other.label([2, 3, 10, 5], [None, None, 1, None])
        assert functions(table) == functions(other)


def test_label_matrices(place: Path | None) -> None:
    with HashTable.open(place, hs.FCOH(n_bits=8, random_state=0)) as table:
        eye = np.eye(3, dtype=int)
        table.ingest(range(6), X[:6], eye[[0, 1, 2, 0, 1, 2]], sequence=np.arange(6))
        assert table.label([0, 5], eye[[1, 1]], sequence=3) == 1
        assert [one.tolist() for one in table.get([0, 5]).labels] == [[0, 1, 0], [0, 0, 1]]


# ---- wrong numbers


WRONG = [-2, 1.5, "1", [1, 2, 3], 1 << 63, [[1, 2]], True, [], None.__class__]


@pytest.mark.parametrize("sequence", WRONG)
def test_what_is_no_sequence_number(place: Path | None, sequence: Any) -> None:
    with filled(place, fields={"tenant": str}) as table:
        before = table.commits, functions(table)
        for key in (None, "key"):
            with pytest.raises(ValueError, match="sequence must be a whole number from -1 to"):
                table.remove([1, 2], sequence=sequence, key=key)
            with pytest.raises(ValueError, match="sequence must be a whole number from -1 to"):
                table.label([1, 2], [0, 0], sequence=sequence, key=key)
            with pytest.raises(ValueError, match="sequence must be a whole number from -1 to"):
                table.remove(where={"id": 1}, sequence=sequence, key=key)
        call = Call("label", ([1, 2], [0, 0]), {"sequence": sequence})
        table.writer().do([call])
        assert isinstance(call.error, ValueError)
        assert (table.commits, functions(table)) == before


def test_a_filter_takes_one_number(place: Path | None) -> None:
    with filled(place) as table:
        with pytest.raises(ValueError, match=r"one for all items that match"):
            table.remove(where={"id": 1}, sequence=[5])
        assert len(table) == 15
