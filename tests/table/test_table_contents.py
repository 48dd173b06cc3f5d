"""Fields and payloads as somebody may give them: odd, huge, changed later, wrong; and what replaces them."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never, TableError

HASHER = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
X, Y = rows(np.random.default_rng(0), 40)
TEXTS = ["", "\0", "a\0", "é", "e\u0301", "\N{PILE OF POO}", "\ud800", "\r\n\t", '"\\', "x" * 100_000, "$in"]


def opened(path: Path | None, **settings: Any) -> HashTable:
    return HashTable.open(path, HASHER, **{"policy": Never(), **settings})


def contents(table: HashTable) -> tuple[Any, ...]:
    items = table.get(table.ids())
    held = items.ids.tolist(), items.fields, items.payloads, items.labels, table.fields
    return copy.deepcopy(held)


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_odd_texts_come_back_and_are_found(tmp_path: Path, place: str) -> None:
    n = len(TEXTS)
    names = {f"field {text[:9]}": list for text in TEXTS if text != "\ud800"}
    with opened(None if place == "memory" else tmp_path / "t", fields={"text": str, **names}) as table:
        fields = {"text": TEXTS, **{name: [[text, text] for text in TEXTS] for name in names}}
        payloads = [{text: [text, {text: text}]} for text in TEXTS]
        table.ingest(range(n), X[:n], Y[:n], fields=fields, payloads=payloads)
        before = contents(table)
        assert before[1] == fields
        assert before[2] == payloads
        for i, text in enumerate(TEXTS):
            assert table.ids({"text": text}).tolist() == [i]
            assert table.ids({next(iter(names)): text}).tolist() == [i]
            assert table.ids({"text": {"$in": [text, "other"]}}).tolist() == [i]
        table.remove([1])
        table.compact()
        after = contents(table)
        table.snapshot(tmp_path / "copy")
    with HashTable.open(tmp_path / "copy") as again:
        assert contents(again) == after
        assert again.ids({"text": TEXTS[3]}).tolist() == [3]


def test_payloads_are_limited_and_their_errors_are_named(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with opened(tmp_path / "t") as table:
        table.ingest([0], X[:1], Y[:1], payloads=[{"a": "x" * (2**20 - 100)}])
        assert len(table.get([0]).payloads[0]["a"]) == 2**20 - 100  # type: ignore[index]
        for wrong in (
            {"a": "x" * 2**20}, {"a": deep}, circle, {"a": np.int64(1)}, {"a": float("nan")}, {"a": {1, 2}},
            {"a": b"raw"}, {(1, 2): 3}, {"a": 10**5000},
        ):  # fmt: skip
            refused(
                table,
                ValueError,
                r"payloads\[1\]",
                lambda wrong=wrong: table.ingest([1, 2], X[:2], Y[:2], payloads=[None, wrong]),
            )
        for odd in ("text", 3, [("a", 1)], float("nan")):
            refused(
                table,
                TypeError,
                r"payloads\[0\]",
                lambda odd=odd: table.add([1], X[:1], payloads=[odd]),
            )
        for whole in ({"a": 1}, "text", ({} for _ in range(1)), 5):
            refused(
                table,
                TypeError,
                "payloads must be",
                lambda whole=whole: table.add([1], X[:1], payloads=whole),
            )
        refused(table, ValueError, "2 payloads, but 1 rows", lambda: table.add([1], X[:1], payloads=[{}, {}]))
        table.add([1], X[:1], payloads=[MappingProxyType({"a": (1, 2)})])
        assert table.get([1]).payloads == [{"a": [1, 2]}]
        table.get([1]).payloads[0]["a"] = 0  # type: ignore[index]
        found = table.search(X[:1], 1, where={"id": 1}, include=["payloads"]).payloads
        assert found is not None
        found[0, 0]["a"] = 0
        assert table.get([1]).payloads == [{"a": [1, 2]}]


def refused(table: HashTable, kind: type[Exception], match: str, call: Callable[[], Any]) -> None:
    before = fingerprint(table, X[:2]), contents(table)
    with pytest.raises(kind, match=match) as caught:
        call()
    assert len(str(caught.value)) < 600
    assert (fingerprint(table, X[:2]), contents(table)) == before


def test_wrong_fields_are_named_and_nothing_changes(tmp_path: Path) -> None:
    kinds = {"text": str, "number": int, "price": float, "open": bool, "taken": "datetime", "tags": list}
    with opened(tmp_path / "t", fields=kinds) as table:
        table.ingest([0], X[:1], Y[:1])

        def add(**fields: Any) -> Callable[[], None]:
            return lambda: table.ingest([1, 2], X[:2], Y[:2], fields=fields)

        refused(table, ValueError, "unknown field 'txt'.*text, number", add(txt=["a", "b"]))
        for name, wrong in {
            "text": 3, "number": 1.5, "price": "1", "open": 1, "taken": "yesterday", "tags": "red",
        }.items():  # fmt: skip
            refused(table, TypeError, f"'{name}', row 1", add(**{name: [None, wrong]}))
        refused(table, TypeError, "'number', row 0", add(number=[2**63, 1]))
        refused(table, TypeError, "'tags', row 0", add(tags=[["a", 1], []]))
        refused(table, ValueError, "'text' has 1 values, but there are 2 rows", add(text=["a"]))
        for odd in ("ab", {"a": 1, "b": 2}, {"a", "b"}, (one for one in "ab"), 5, None):
            refused(table, TypeError, "'text' needs a sequence", add(text=odd))
        refused(table, ValueError, "one value per row", add(number=np.zeros((2, 2), int)))
        for whole in ([], [{"text": "a"}], pd.DataFrame({"text": ["a", "b"]}), "text"):
            refused(
                table,
                TypeError,
                "fields are given by column",
                lambda whole=whole: table.ingest([1, 2], X[:2], Y[:2], fields=whole),
            )
        refused(
            table,
            ValueError,
            "0 sample",
            lambda: table.ingest([], X[:0], [], fields={"text": []}, payloads=[]),
        )


def test_arrays_series_and_values_that_change_later() -> None:
    kinds = {"text": str, "number": int, "price": float, "open": bool, "taken": "datetime", "tags": list}
    with opened(None, fields=kinds) as table:
        price, numbers, opens = np.array([1.5, np.nan]), np.array([1, 2], np.int8), np.array([True, False])
        tags, payload = [["a"], ["b"]], {"a": [1]}
        frame = pd.DataFrame(
            {"text": ["x", None], "taken": pd.to_datetime(["2024-01-01", None])}, index=[7, 8]
        )
        ids, features, labels = np.array([5, 6]), X[:2].copy(), Y[:2].copy()
        table.ingest(
            ids,
            features,
            labels,
            fields={
                "price": price,
                "number": numbers,
                "open": opens,
                "tags": tags,
                "text": frame["text"],
                "taken": frame["taken"],
            },
            payloads=[payload, None],
        )
        price[:], numbers[:], opens[:], ids[:], features[:], labels[:] = 9, 9, False, 9, 9, 9
        tags[0].append("c")
        payload["a"].append(2)
        items = table.get([5, 6])
        assert items.fields == {
            "text": ["x", None],
            "number": [1, 2],
            "price": [1.5, None],
            "open": [True, False],
            "taken": [datetime(2024, 1, 1), None],
            "tags": [["a"], ["b"]],
        }
        assert items.payloads == [{"a": [1]}, None]
        assert items.labels == Y[:2].tolist()
        assert items.features is not None
        assert items.features.tobytes() == X[:2].tobytes()
        table.ingest([7], X[:1], Y[:1], fields={"number": pd.array([None], dtype="Int64")})
        assert table.get([7]).fields["number"] == [None]


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_a_replaced_item_has_nothing_of_the_old_one(tmp_path: Path, place: str) -> None:
    path = None if place == "memory" else tmp_path / "t"
    with opened(path, fields={"a": str, "b": int}) as table:
        table.ingest(
            [1, 2], X[:2], Y[:2], fields={"a": ["x", "y"], "b": [1, 2]}, payloads=[{"p": 1}, {"p": 2}]
        )
        table.add([1], X[2:3], fields={"b": [3]})
        assert contents(table)[:4] == (
            [2, 1],
            {"a": ["y", None], "b": [2, 3]},
            [{"p": 2}, None],
            [Y[1], None],
        )
        assert table.count({"a": "x"}) == 0
        table.remove([2])
        table.ingest([2], X[3:4])
        assert contents(table)[1:4] == ({"a": [None, None], "b": [3, None]}, [None, None], [None, None])
        table.compact()
        assert table.ids({"b": None}).tolist() == [2]
        before = contents(table)
    if path is not None:
        with HashTable.open(path) as again:
            assert contents(again) == before


def test_declaring_fields(tmp_path: Path) -> None:
    with opened(tmp_path / "t", fields={"a": int}) as table:
        table.ingest([1], X[:1], Y[:1], fields={"a": [1]})
        commits = table.stats().commits
        table.declare({"a": int})
        table.declare({})
        assert table.stats().commits == commits
        refused(table, ValueError, "'a' is of type int", lambda: table.declare({"b": str, "a": str}))
        refused(table, ValueError, "'id'", lambda: table.declare({"id": int}))
        refused(table, ValueError, "'label'", lambda: table.declare({"label": int}))
        for name in ("", "$in", "x" * 201, 3, "\ud800"):
            refused(table, ValueError, "name of a field", lambda name=name: table.declare({name: int}))
        refused(table, ValueError, "types are str, int", lambda: table.declare({"c": complex}))
        refused(table, TypeError, "map names to types", lambda: table.declare(["c"]))  # type: ignore[arg-type]
        refused(
            table,
            ValueError,
            "takes 100 fields, not 101",
            lambda: table.declare({f"f{i}": int for i in range(100)}),
        )
        table.declare({"é \N{PILE OF POO}": list, "b": str})
        assert table.fields == {"a": "int", "é \N{PILE OF POO}": "list", "b": "str"}
        assert table.get([1]).fields == {"a": [1], "é \N{PILE OF POO}": [None], "b": [None]}
        table.add([2], X[1:2], fields={"b": ["x"]})
        assert table.ids({"b": None}).tolist() == [1]
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with HashTable.open(tmp_path / "killed", fields={"c": "datetime", "a": "int"}) as again:
            assert list(again.fields) == ["a", "é \N{PILE OF POO}", "b", "c"]
            assert again.get([1, 2]).fields["b"] == [None, "x"]
        with HashTable.open(tmp_path / "t", mode="read", fields={"a": int}) as reader:
            assert reader.fields == table.fields
            table.declare({"late": bool})
            assert reader.reload()
            assert reader.fields["late"] == "bool"
            with pytest.raises(TableError, match="read"):
                reader.declare({"d": int})
        with pytest.raises(TableError, match=r"'d'.*reader cannot declare"):
            HashTable.open(tmp_path / "t", mode="read", fields={"d": int})
        with pytest.raises(ValueError, match="'a' is of type int"):
            HashTable.open(tmp_path / "t", mode="read", fields={"a": str})
    for wrong, kind in (
        ({"a": str}, ValueError),
        ([], TypeError),
        ({f"g{i}": int for i in range(98)}, ValueError),
    ):
        with pytest.raises(kind):
            HashTable.open(tmp_path / "t", fields=wrong)  # type: ignore[arg-type]
    with HashTable.open(tmp_path / "t") as table:
        assert list(table.fields) == ["a", "é \N{PILE OF POO}", "b", "late"]


def test_pages_and_what_is_included_are_checked() -> None:
    with opened(None) as table:
        for calls in range(2):  # without items, too
            for name, wrong in (("limit", -1), ("limit", 1.5), ("offset", -1), ("limit", "3")):
                with pytest.raises(ValueError, match=name):
                    table.ids(**{name: wrong})  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="offset"):
                table.search(X[:1], 3, offset=-1)
            for include in ("labels", ["label"], ("labels", 3), (one for one in ["labels"]), 5, [["labels"]]):
                with pytest.raises(ValueError, match="include takes"):
                    table.search(X[:1], 3, include=include)  # type: ignore[arg-type]
                with pytest.raises(ValueError, match="include takes"):
                    table.search_radius(X[:1], 3, include=include)  # type: ignore[arg-type]
            assert table.ids(limit=0).shape == (0,)
            assert table.ids(offset=100, limit=3).shape == (0,)
            assert table.search(X[:1], 3, offset=100, include=("payloads",)).ids.shape == (1, 0)
            for both in ({}, {"ids": [1], "where": {}}):
                with pytest.raises(ValueError, match="ids, or where"):
                    table.remove(**both)
            if not calls:
                table.ingest(range(4), X[:4], Y[:4])
        assert table.remove(where={"id": 9}) == 0
        with pytest.raises(ValueError, match="an empty filter would remove every item"):
            table.remove(where={})
        assert table.remove(where={"id": {"$exists": True}}) == 4


def test_filters_by_numbers_that_no_float_holds() -> None:
    ids = [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    with opened(None) as table:
        table.ingest(ids, X[:4], Y[:4])
        for where, wanted in (
            ({"id": {"$gt": 2.0**53}}, [2**53 + 1, 2**63 - 1]),
            ({"id": {"$lte": 2.0**53}}, [2**53, -(2**63)]),
            ({"id": 2.0**53}, [2**53]),
            ({"id": -(2**63)}, [-(2**63)]),
            ({"id": {"$in": [-(2.0**63), 2.0**63, 2**70, 0.5]}}, [-(2**63)]),
            ({"id": {"$lt": 2.0**63}}, ids),
            ({"id": {"$gte": 2.0**63}}, []),
            ({"id": {"$gt": -(2.0**63)}}, [2**53, 2**53 + 1, 2**63 - 1]),
            ({"id": {"$lt": float("inf")}}, ids),
            ({"id": {"$gt": 0.5}}, [2**53, 2**53 + 1, 2**63 - 1]),
        ):
            assert table.ids(where).tolist() == wanted, where


def test_a_payload_may_not_be_too_deep() -> None:
    """It has to be read again from any depth of the stack."""
    deep: list[Any] = []
    for _ in range(150):
        deep = [deep]
    wide: dict[str, Any] = {"wide": [[]] * 500}
    with HashTable.open(None, hs.LSH(8, random_state=0)) as table:
        table.add([1], X[:1], payloads=[wide])
        with pytest.raises(ValueError, match=r"payloads\[1\] is nested more than 100 deep"):
            table.add([2, 3], X[:2], payloads=[wide, {"deep": deep}])
        assert (len(table), table.get([1]).payloads) == (1, [wide])
