"""Filters against a plain model: dicts, compared one by one."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hashstream.table.state.columns import FieldColumn, field_column, field_kinds, read_values
from hashstream.table.state.where import Filter, parse_where

FIELDS = field_kinds(
    {"tenant": str, "count": int, "price": float, "sold": bool, "taken": "datetime", "tags": list}
)
START = datetime(2024, 1, 1)
Item = dict[str, Any]

# ---- the model


def aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def compares(value: Any, op: str, operand: Any) -> bool:
    """One operator on one value, which may be missing."""
    if op == "$not":
        return not all(compares(value, one, other) for one, other in operand.items())
    if op == "$exists":
        return (value is not None) == operand
    if op == "$ne":
        return not compares(value, "$eq", operand)
    if op == "$nin":
        return not compares(value, "$in", operand)
    if op == "$in":
        return any(compares(value, "$eq", one) for one in operand)
    if operand is None:
        return value is None
    if value is None:
        return False
    if isinstance(value, list):
        return any(compares(one, op, operand) for one in value)
    value, operand = aware(value), aware(operand)
    if op == "$eq":
        return bool(value == operand)
    if op == "$lt":
        return bool(value < operand)
    if op == "$lte":
        return bool(value <= operand)
    if op == "$gt":
        return bool(value > operand)
    assert op == "$gte"
    return bool(value >= operand)


def keeps(where: dict[str, Any], item: Item) -> bool:
    for name, given in where.items():
        if name == "$and":
            holds = all(keeps(one, item) for one in given)
        elif name == "$or":
            holds = any(keeps(one, item) for one in given)
        elif name == "$not":
            holds = not keeps(given, item)
        elif isinstance(given, dict):
            holds = all(compares(item[name], op, operand) for op, operand in given.items())
        else:
            holds = compares(item[name], "$eq", given)
        if not holds:
            return False
    return True


# ---- random items and filters


class World:
    """Items, filters and columns by seed."""

    def __init__(self, seed: int, missing: float | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.missing = self.rng.choice([0.0, 0.2]) if missing is None else missing

    def pick(self, *some: Any) -> Any:
        return some[self.rng.integers(0, len(some))]

    def value(self, name: str) -> Any:
        rng = self.rng
        match FIELDS[name]:
            case "str":
                return self.pick("a", "b", "ab", "", "é", "\ud800", f"t{rng.integers(0, 400)}")
            case "int":
                return self.pick(0, 1, -1, 2**63 - 1, -(2**63) + 1, int(rng.integers(-5, 5)))
            case "float":
                return self.pick(0.0, -0.0, 1.0, math.inf, -math.inf, float(rng.normal()))
            case "bool":
                return self.pick(True, False)
            case "datetime":
                return self.pick(
                    START, START.replace(tzinfo=UTC), START + timedelta(hours=int(rng.integers(0, 9)))
                )
            case _:
                return [
                    self.pick("red", "blue", "", f"g{rng.integers(0, 30)}") for _ in range(rng.integers(0, 4))
                ]

    def item(self) -> Item:
        return {name: None if self.rng.random() < self.missing else self.value(name) for name in FIELDS}

    def operand(self, name: str) -> Any:
        if name == "tags":
            return self.pick("red", "blue", "", "g", f"g{self.rng.integers(0, 30)}", "nowhere")
        if name == "count" and self.rng.random() < 0.3:
            return self.pick(0.5, -1.5, 1.0, 1e30, 2**80, -math.inf)
        if name == "price" and self.rng.random() < 0.3:
            return self.pick(0, 1, -3)
        return self.value(name)

    def operands(self, name: str) -> Any:
        some = [self.operand(name) for _ in range(self.pick(0, 1, 2, 5, 40))]
        if self.rng.random() < 0.2:
            some.append(None)
        return self.pick(some, tuple(some), some if name in ("tags", "sold") else set(some))

    def operators(self, name: str, depth: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self.rng.integers(1, 3)):
            op = self.pick("$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in", "$nin", "$exists", "$not")
            if op == "$exists":
                found[op] = self.pick(True, False)
            elif op in ("$in", "$nin"):
                found[op] = self.operands(name)
            elif op != "$not":
                nothing = op in ("$eq", "$ne") and self.rng.random() < 0.2
                found[op] = None if nothing else self.operand(name)
            elif depth < 3:
                found[op] = self.operators(name, depth + 1)
        return found or {"$exists": True}

    def where(self, depth: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self.rng.integers(0, 3) if depth else self.rng.integers(1, 3)):
            key = self.pick(*FIELDS, *(("$and", "$or", "$not") if depth < 3 else ()))
            if key == "$not":
                found[key] = self.where(depth + 1)
            elif key in ("$and", "$or"):
                found[key] = [self.where(depth + 1) for _ in range(self.rng.integers(1, 4))]
            elif self.rng.random() < 0.3:
                found[key] = self.operand(key)
            else:
                found[key] = self.operators(key)
        return found

    def columns(self, items: list[Item]) -> dict[str, FieldColumn]:
        """Columns that were extended in pieces, padded, chosen and saved."""
        found = {}
        for name, kind in FIELDS.items():
            values = [item[name] for item in items]
            some = field_column(kind)
            while len(some) < len(values):
                if values[len(some)] is None:
                    some = some.padded(len(some) + 1)
                    continue
                end = min(len(values), len(some) + int(self.rng.integers(1, 120)))
                some = some.extended(read_values(kind, name, values[len(some) : end], end - len(some)))
                if self.rng.random() < 0.2:
                    some = field_column(kind, some.arrays())
                if self.rng.random() < 0.1:
                    some = some.chosen(np.arange(len(some)))
            found[name] = some
        return found


@pytest.mark.parametrize("seed", range(150))
def test_masks_are_those_of_the_model(seed: int) -> None:
    world = World(seed)
    items = [world.item() for _ in range(world.pick(0, 1, 40, 300))]
    columns = world.columns(items)
    for _ in range(15):
        where = world.where()
        before = copy.deepcopy(where)
        chosen = parse_where(where, columns)
        expected = [keeps(where, item) for item in items]
        mask = chosen.mask(columns, 0, len(items))
        assert mask.dtype == bool
        assert mask.tolist() == expected, where
        cuts = np.sort(world.rng.integers(0, len(items) + 1, 3)).tolist()
        pieces = [
            chosen.mask(columns, a, b).tolist() for a, b in zip([0, *cuts], [*cuts, len(items)], strict=True)
        ]
        assert list(chain(*pieces)) == expected
        assert where == before


def shuffled(where: Any, rng: np.random.Generator) -> Any:
    """A filter with its keys, and the parts of `$and`, `$or`, `$in` and `$nin`, in another order."""
    if isinstance(where, dict):
        keys = list(where)
        rng.shuffle(keys)
        return {key: shuffled(where[key], rng) for key in keys}
    if isinstance(where, (list, tuple)):
        return [shuffled(where[i], rng) for i in rng.permutation(len(where))]
    return where


@pytest.mark.parametrize("seed", range(20))
def test_equal_filters_have_equal_texts(seed: int) -> None:
    """And filters of equal texts keep the same."""
    world = World(seed, 0.2)
    items = [world.item() for _ in range(60)]
    columns = world.columns(items)
    masks: dict[str, list[bool]] = {}
    for _ in range(100):
        where = world.where()
        chosen = parse_where(where, columns)
        assert parse_where(shuffled(where, world.rng), columns).text == chosen.text
        mask = chosen.mask(columns, 0, 60).tolist()
        assert masks.setdefault(chosen.text, mask) == mask


# ---- the form


class Anything:
    """A column-like object with any operands: 7 is stored everywhere."""

    def operand(self, value: Any, name: str) -> Any:
        return value

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        holds = op == "exists" or (7 in operand if op == "in" else op == "eq" and operand == 7)
        return np.full(last - first, holds)


EMPTY: dict[str, Any] = {name: field_column(kind) for name, kind in FIELDS.items()}
WITH_IDS: dict[str, Any] = EMPTY | {"id": Anything(), "label": Anything()}


def parse(where: Any) -> Filter:
    return parse_where(where, WITH_IDS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tenant": "a"}, {"tenant": {"$eq": "a"}}),
        ({"tenant": "a", "count": 1}, {"$and": [{"count": 1}, {"tenant": "a"}]}),
        ({"tenant": None}, {"tenant": {"$exists": False}}),
        ({"tenant": {"$ne": "a"}}, {"$not": {"tenant": "a"}}),
        ({"tenant": {"$ne": "a"}}, {"tenant": {"$not": {"$eq": "a"}}}),
        ({"tenant": {"$in": ["a"]}}, {"tenant": "a"}),
        ({"tenant": {"$in": ["a", "b", "a"]}}, {"tenant": {"$in": {"b", "a"}}}),
        ({"$not": {"$not": {"tenant": "a"}}}, {"tenant": "a"}),
        ({"$or": [{"tenant": "a"}]}, {"tenant": "a"}),
        ({"price": 1}, {"price": 1.0}),
        ({"price": float("nan")}, {"price": None}),
        ({"taken": START}, {"taken": "2024-01-01"}),
        ({}, {"$and": [{}, {}]}),
    ],
)
def test_ways_to_say_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert parse(one).text == parse(other).text


def test_different_filters_have_different_texts() -> None:
    some: list[Any] = [
        {"label": 1}, {"label": 1.0}, {"label": True}, {"label": "1"}, {"label": "True"}, {"label": None},
        {"label": {"$in": [1, 2]}}, {"label": {"$in": [1.0, 2]}}, {"label": {"$in": [True, 2]}},
        {"label": {"$in": ["1, 2", "3"]}}, {"label": {"$in": ["1", "2, 3"]}},
        {"label": {"$in": [1, 2, None]}}, {"label": {"$in": []}}, {"label": {"$nin": []}},
        {"label": START}, {"label": START.replace(tzinfo=UTC)}, {"label": "2024-01-01"},
        {"label": np.zeros(2000)}, {"label": np.arange(2000) == 1000.0},
        {"label": np.where(np.arange(2000) == 1000, 1.0, 0)},
        {"id": 1}, {"tenant": "1"}, {"tenant": "1')"}, {"tenant": "\ud800"}, {"tenant": "\\ud800"},
        {"count": {"$lt": 1}}, {"count": {"$lte": 1}}, {"count": {"$lt": 1, "$gt": 0}},
        {"$or": [{"count": {"$lt": 1}}, {"count": {"$gt": 0}}]},
        {"$not": {"count": 1, "tenant": "a"}}, {"$not": {"count": 1}, "tenant": "a"},
        {"$or": [{"count": 1}, {"tenant": "a"}]}, {"count": 1, "tenant": "a"}, {},
        {"label": {"$in": list(range(1000))}}, {"label": {"$in": list(range(1001))}},
        {"label": {"$in": [float(i) for i in range(1000)]}}, {"label": {"$in": [str(i) for i in range(1000)]}},
    ]  # fmt: skip
    assert len({parse(where).text for where in some}) == len(some)


def test_the_text_of_many_values_is_short() -> None:
    assert len(parse({"count": {"$in": list(range(100_000))}}).text) < 200


def test_fields() -> None:
    assert parse({}).fields() == set()
    where = {
        "id": 5,
        "$or": [{"tags": "red"}, {"$not": {"label": {"$exists": True}}}],
        "price": {"$lt": 3, "$gt": 1},
    }
    assert parse(where).fields() == {"id", "tags", "label", "price"}
    assert parse({"tenant": {"$in": []}}).fields() == set()


def test_ids_and_labels_are_columns_like_others() -> None:
    for where, kept in [
        ({"id": 7}, True),
        ({"id": {"$in": [1, 7]}}, True),
        ({"id": {"$in": [1, 2]}}, False),
        ({"label": {"$nin": [7, 8]}}, False),
        ({"label": None}, False),
        ({"label": {"$exists": True}, "id": {"$ne": 3}}, True),
    ]:
        assert parse(where).mask(WITH_IDS, 0, 3).tolist() == [kept] * 3


@pytest.mark.parametrize(
    "missing", [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NA, pd.NaT]
)
@pytest.mark.parametrize("name", FIELDS)
def test_what_stands_for_a_missing_value(name: str, missing: Any) -> None:
    world = World(1, 0.0)
    column = read_values(FIELDS[name], name, [world.value(name), missing], 2)
    for where, kept in [
        (missing, [False, True]),
        ({"$eq": missing}, [False, True]),
        ({"$ne": missing}, [True, False]),
        ({"$in": [missing]}, [False, True]),
        ({"$nin": [missing]}, [True, False]),
        ({"$in": []}, [False, False]),
        ({"$nin": []}, [True, True]),
    ]:
        assert parse_where({name: where}, {name: column}).mask({name: column}, 0, 2).tolist() == kept
    for op in ("$lt", "$lte", "$gt", "$gte"):
        with pytest.raises(TypeError, match=rf"field '{name}': \{op} needs a value, not "):
            parse_where({name: {op: missing}}, {name: column})


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        set,
        frozenset,
        np.array,
        pd.Series,
        pd.Index,
        dict.fromkeys(range(1)).__class__.fromkeys,
        range,
    ],
    ids=["list", "tuple", "set", "frozenset", "array", "series", "index", "dict", "range"],
)
def test_collections_of_values(make: Callable[[Any], Any]) -> None:
    values = make(3) if make is range else make([0, 1, 2])
    columns = {"count": read_values("int", "count", [0, 5, None, 2], 4)}
    if isinstance(values, dict):
        values = values.keys()
    assert parse_where({"count": {"$in": values}}, columns).mask(columns, 0, 4).tolist() == [
        True,
        False,
        False,
        True,
    ]
    days = np.array(["2024-01-01", "NaT"], "datetime64[D]")
    columns = {"taken": read_values("datetime", "taken", [START, None, START + timedelta(1)], 3)}
    assert parse_where({"taken": {"$in": days}}, columns).mask(columns, 0, 3).tolist() == [True, True, False]


def test_100000_values() -> None:
    values = [f"t{i}" for i in range(100_000)]
    columns = {"tenant": read_values("str", "tenant", ["t5", None, "x", "t99999"], 4)}
    chosen = parse_where({"tenant": {"$in": values}}, columns)
    assert chosen.mask(columns, 0, 4).tolist() == [True, False, False, True]


# ---- errors

LISTED = (
    "the fields of this table are tenant, count, price, sold, taken, tags"
    '; "id" and "label" can be filtered, too'
)


def nested(depth: int) -> dict[str, Any]:
    where: dict[str, Any] = {"count": 1}
    for i in range(depth):
        where = {"$not": where} if i % 2 else {"$or": [where]}
    return where


def negations(depth: int) -> dict[str, Any]:
    where: dict[str, Any] = {"$lt": 1}
    for _ in range(depth):
        where = {"$not": where}
    return {"count": where}


def bushy() -> dict[str, Any]:
    """2**40 conditions in little memory."""
    where: dict[str, Any] = {"count": 1}
    for _ in range(40):
        where = {"$and": [where, where]}
    return where


def cyclic() -> dict[str, Any]:
    where: dict[str, Any] = {}
    where["$and"] = [where]
    return where


@pytest.mark.parametrize(
    ("where", "error", "says"),
    [
        ([], TypeError, "a filter is an object such as"),
        ("tenant = 'a'", TypeError, "a filter is an object such as"),
        (None, TypeError, "a filter is an object such as"),
        ({5: 1}, TypeError, "the names in a filter are strings, not 5"),
        ({"tenat": "a"}, ValueError, f"unknown field 'tenat': {LISTED}; did you mean 'tenant'?"),
        ({"$or": [{"zzz": 1}]}, ValueError, f"unknown field 'zzz': {LISTED}"),
        ({"": 1}, ValueError, "unknown field ''"),
        ({"$xor": []}, ValueError, "unknown operator '$xor': filters are joined by $and, $or, $not"),
        ({"$lt": 5}, ValueError, "operator '$lt' needs a field"),
        ({"price": {"$le": 5}}, ValueError, "unknown operator '$le' of field 'price': there are $eq,"),
        ({"price": {"lt": 5}}, ValueError, "unknown operator 'lt' of field 'price'"),
        ({"price": {"$and": [5]}}, ValueError, "unknown operator '$and' of field 'price'"),
        ({"price": {5: 5}}, ValueError, "unknown operator 5 of field 'price'"),
        ({"price": {(): 5}}, ValueError, "unknown operator () of field 'price'"),
        ({"price": {}}, ValueError, "field 'price' has an empty condition"),
        ({"price": {"$not": {}}}, ValueError, "field 'price' has an empty condition"),
        ({"price": {"$not": 5}}, TypeError, "field 'price': $not needs an object"),
        ({"$not": [{}]}, TypeError, "a filter is an object"),
        ({"$and": []}, ValueError, "$and needs a list of at least one filter"),
        ({"$or": {"price": 1}}, TypeError, "$or needs a list of filters"),
        ({"$or": ["price"]}, TypeError, "a filter is an object"),
        ({"price": {"$exists": 1}}, TypeError, "field 'price': $exists needs True or False, not 1"),
        ({"price": {"$exists": None}}, TypeError, "field 'price': $exists needs True or False, not None"),
        ({"price": "5"}, TypeError, "field 'price' holds a number, not '5'"),
        ({"price": True}, TypeError, "field 'price' holds a number, not True"),
        ({"price": {"$in": [1, "5"]}}, TypeError, "field 'price' holds a number, not '5'"),
        ({"price": {"$in": 5}}, TypeError, "field 'price': $in needs a list of values, not 5"),
        ({"tenant": {"$in": "abc"}}, TypeError, "field 'tenant': $in needs a list of values, not 'abc'"),
        ({"tenant": {"$nin": {"a": 1}}}, TypeError, "field 'tenant': $nin needs a list of values"),
        ({"tenant": {"$nin": np.array("a")}}, TypeError, "field 'tenant': $nin needs a list of values"),
        ({"tenant": {"$in": np.array([["a"]])}}, TypeError, "field 'tenant': $in needs a list of values"),
        ({"tenant": {"$in": (one for one in "a")}}, TypeError, "field 'tenant': $in needs a list of values"),
        ({"tenant": ["a", "b"]}, TypeError, "not ['a', 'b']; {\"$in\": [...]} looks for any of several"),
        ({"tags": ["a", "b"]}, TypeError, "field 'tags' holds lists of strings, which are compared with a string"),
        ({"tags": {"$in": [["a"]]}}, TypeError, "field 'tags' holds lists of strings"),
        ({"taken": {"$lt": "soon"}}, TypeError, "field 'taken' holds a date and time"),
        ({"sold": {"$in": [0]}}, TypeError, "field 'sold' holds True or False, not 0"),
        ({"count": np.array([float("nan")])}, TypeError, "field 'count' holds a whole number"),
        (nested(60), ValueError, "a filter is nested more than 50 deep"),
        (nested(5000), ValueError, "a filter is nested more than 50 deep"),
        (negations(60), ValueError, "a filter is nested more than 50 deep"),
        (cyclic(), ValueError, "a filter is nested more than 50 deep"),
        (bushy(), ValueError, "a filter has more than 1000 conditions"),
        ({"$or": [{"count": i} for i in range(1001)]}, ValueError, "a filter has more than 1000 conditions"),
    ],
)  # fmt: skip
def test_errors(where: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        parse(where)


def test_a_table_without_fields() -> None:
    with pytest.raises(ValueError, match=r'this table has no fields; "id" and "label" can be filtered$'):
        parse_where({"zzz": 1}, {"id": Anything(), "label": Anything()})
    with pytest.raises(ValueError, match=r"this table has no fields$"):
        parse_where({"price": 1}, {})


def test_large_filters_that_are_fine() -> None:
    assert parse(nested(45)).fields() == {"count"}
    assert parse(negations(45)).fields() == {"count"}
    many = parse({"$or": [{"count": i} for i in range(400)]})
    columns = {"count": read_values("int", "count", [399, 400, None], 3)}
    assert many.mask(columns, 0, 3).tolist() == [True, False, False]
