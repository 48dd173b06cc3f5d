"""Mistakes in the use of a table, whichever kind it is: each notes the error, and that nothing has changed."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from tests.serve.same_tables import World
from tests.serve.table_scenarios import CLASSES, KINDS, D, rows, some_fields

MATRIX = np.eye(CLASSES, dtype=int)


def filled(world: World, **settings: Any) -> Any:
    table = world.open(fields=KINDS, **settings)
    X, y = rows(40)
    table.ingest(range(40), X, y, fields=some_fields(40))
    return table


def unchanged(world: World, table: Any) -> None:
    world.note("the same", [table.ids(), table.commits, table.stats().n_seen])


def mistakes_in_rows(world: World) -> None:
    empty, table, words = world.open(), filled(world), world.open()
    X, y = rows(4)
    words.add(["a", "b"], X[:2])
    ids = [100, 101, 102, 103]
    for place in (empty, table):
        odd: list[tuple[Any, Any, Any]] = [
            ([1, 1, 2, 3], X, y),
            ([1, 2, 3], X, y),
            (ids, X[:3], y[:3]),
            (ids, X, y[:3]),
            ([1.5, 2, 3, 4], X, y),
            ([True, 2, 3, 4], X, y),
            (["a", 2, "b", "c"], X, y),
            ([2**63, 1, 2, 3], X, y),
            ([[1, 2], [3, 4]], X, y),
            (7, X, y),
            (None, X, y),
            (ids, X[0], y),
            (ids, 3.0, y),
            (ids, X[:, :, None], y),
            (ids, X[:0], y),
            ([], X[:0], y[:0]),
            (ids, X[:, :0], y),
            (ids, np.where(X[2, 1] == X, np.nan, X), y),
            (ids, np.where(X[2, 1] == X, np.inf, X), y),
            (ids, X.astype(complex), y),
            (ids, X.astype(str), y),
            (ids, np.full((4, D), "x"), y),
            (ids, np.full((4, D), None), y),
            (ids, np.full((4, D), object()), y),
            (ids, [[1.0], [1.0, 2.0]], y),
            (ids, scipy.sparse.eye(4, D), y),
            (ids, X.view(np.matrix), y),
            (ids, X.astype("datetime64[s]"), y),
            (ids, X.astype(np.float64) * 1e300, y),
            (ids, X, [(1, 2)] * 4),
            (ids, X, [{}] * 4),
            (ids, X, [1j] * 4),
            (ids, X, [np.inf, 1, 2, 3]),
            (ids, X, np.array(["2024-01-01"] * 4, "datetime64[s]")),
            (ids, X, [Decimal(1)] * 4),
            (ids, X, "cats"),
            (ids, X, 5),
            (ids, X, np.zeros((4, 2, 2))),
            (ids, X, [[1], [0], [1], [0]]),
            (ids, X, [[2, 0]] * 4),
        ]
        for number, (some, rows_, labels) in enumerate(odd):
            world.fails(f"ingest {number}", place.ingest, some, rows_, labels)
            if place is table:
                world.fails(f"add {number}", place.add, some, rows_, labels)
        unchanged(world, place)
    for more in (X[:, :3], np.ones((4, D + 1))):
        world.fails("another width", table.ingest, ids, more, y)
        world.fails("another width", table.search, more)
    world.fails("matrix", table.ingest, ids, X, MATRIX)
    world.fails("strings", table.ingest, ["a", "b", "c", "d"], X, y)
    world.fails("numbers", words.ingest, ids, X, y)
    unchanged(world, table)


def mistakes_in_fields(world: World) -> None:
    table = filled(world)
    X, y = rows(2)
    odd: list[Any] = [
        {"nothing": [1, 2]},
        {"shop": ["a"]},
        {"shop": "ab"},
        {"shop": {"a", "b"}},
        {"shop": [1, 2]},
        {"shop": None},
        {"stock": [1.5, 2]},
        {"stock": [2**63, 1]},
        {"stock": [True, 1]},
        {"stock": ["1", "2"]},
        {"stock": [[1], [2]]},
        {"stock": np.ones((2, 2))},
        {"price": ["1", 2]},
        {"price": [10**400, 2]},
        {"price": [datetime(2024, 1, 1), 2]},
        {"sold": [1, 0]},
        {"taken": ["yesterday", None]},
        {"taken": [3, None]},
        {"taken": [np.datetime64("99999-01-01"), None]},
        {"tags": ["a", "b"]},
        {"tags": [[1], ["b"]]},
        {"tags": [b"x", None]},
        ["shop"],
        "shop",
        7,
    ]
    for number, fields in enumerate(odd):
        world.fails(f"fields {number}", table.ingest, [1, 2], X, y, fields=fields)
    payloads: list[Any] = [
        [{}], {"a": 1}, "ab", 7, [1, 2], [{"a": {1}}, None], [{"a": float("nan")}, None], [{"a": b"x"}, None],
        [{"a": "x" * (1 << 21)}, None], [{(1, 2): 3}, None], ["x", None], [[], None],
    ]  # fmt: skip
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    for number, some in enumerate([*payloads, [deep, None]]):
        world.fails(f"payloads {number}", table.add, [1, 2], X, payloads=some)
    declared: list[Any] = [
        {"shop": int}, {"id": str}, {"label": str}, {"": str}, {"$x": str}, {"a": "colour"}, {"a": object}, {3: str},
        {"x" * 201: str}, {f"f{i}": str for i in range(101)}, ["a"], None, {"\ud800": str},
    ]  # fmt: skip
    for number, some in enumerate(declared):
        world.fails(f"declared {number}", table.declare, some)
    table.declare({})
    table.declare({"shop": "str"})
    unchanged(world, table)


def mistakes_in_searches(world: World) -> None:
    empty, table = world.open(fields=KINDS), filled(world)
    Q, _ = rows(3)
    odd: list[dict[str, Any]] = [
        {"k": 0}, {"k": -1}, {"k": 1.5}, {"k": "3"}, {"k": None}, {"k": True}, {"k": 2**70}, {"offset": -1},
        {"offset": 1.0}, {"rescore": 5}, {"rescore": 0}, {"rescore": "x"}, {"metric": "l2"}, {"metric": None},
        {"rescore": 20, "metric": "manhattan"}, {"rescore": 10, "offset": 5}, {"compare": "no"}, {"compare": None},
        {"include": ("codes",)}, {"include": "labels"}, {"include": ["labels", 3]}, {"include": {"labels": 1}},
    ]  # fmt: skip
    for place in (empty, table):
        for number, settings in enumerate(odd):
            world.fails(f"search {number}", place.search, Q, **settings)
        for radius in (-1, 1.5, "3", None, True):
            world.fails(f"radius {radius}", place.search_radius, Q, radius)
        world.fails("radius include", place.search_radius, Q, 3, include=("codes",))
        world.fails("radius compare", place.search_radius, Q, 3, compare="no")
        queries: list[Any] = [
            Q[0], 3.0, Q[:, :, None], Q[:0], [], [[]], Q.astype(complex), np.full((2, D), "x"), [[1.0], [1.0, 2.0]],
            np.full((2, D), None), scipy.sparse.eye(2, D), np.where(Q[1, 1] == Q, np.nan, Q), pd.DataFrame(Q[:0]),
        ]  # fmt: skip
        for number, some in enumerate(queries):
            world.fails(f"queries {number}", place.search, some)
            world.fails(f"queries of a radius {number}", place.search_radius, some, 2)
        world.fails("not finite", place.search, np.where(Q[1, 1] == Q, np.nan, Q), rescore=20)


FILTERS: list[Any] = [
    {"nothing": 3}, {"shopp": "a"}, {"shop": 3}, {"shop": {}}, {"shop": {"$like": "a"}}, {"shop": {"$lt": None}},
    {"shop": ["a", "b"]}, {"shop": ("a", "b")}, {"shop": {"$in": "ab"}}, {"shop": {"$in": 3}}, {"stock": "3"},
    {"stock": True}, {"stock": {"$exists": 1}}, {"stock": {"$not": 3}}, {"stock": {"$lt": float("nan")}},
    {"price": Decimal(3)}, {"price": b"x"}, {"taken": "yesterday"}, {"taken": object()}, {"tags": ["a"]},
    {"id": "x"}, {"id": 1.5}, {"label": ["a"]}, {"$or": []}, {"$or": {"a": 1}}, {"$not": 3}, {"$lt": 3}, {"$nor": []},
    {3: 4}, {("a",): 4}, "shop", ["shop"], 3, {"shop": {3: 4}}, {"stock": {1}}, {"stock": np.array([1, 2])},
    {"stock": {"$in": np.ones((2, 2))}}, {"taken": np.datetime64("NaT")}, {"stock": 1j},
]  # fmt: skip


def mistakes_in_filters(world: World) -> None:
    empty, table = world.open(), filled(world)
    deep: Any = {"stock": 1}
    for _ in range(80):
        deep = {"$not": deep}
    many = {"$or": [{"stock": i} for i in range(1001)]}
    Q, _ = rows(2)
    for place in (empty, table):
        for number, where in enumerate([*FILTERS, deep, many]):
            world.fails(f"count {number}", place.count, where)
        for number, where in enumerate(FILTERS[::5]):
            world.fails(f"ids {number}", place.ids, where)
            world.fails(f"search {number}", place.search, Q, where=where)
            world.fails(f"radius {number}", place.search_radius, Q, 3, where=where)
            world.fails(f"remove {number}", place.remove, where=where, key=f"key-{number}")
        unchanged(world, place)


def other_mistakes(world: World) -> None:
    empty, table, words = world.open(), filled(world), world.open()
    X, _ = rows(2)
    words.add(["a", "b"], X)
    for ids in (
        [99],
        [1, 99, 98],
        ["x"],
        [1, 1],
        [1.5],
        [None],
        3,
        None,
        [[1]],
        [2**70],
        list(range(1000, 1020)),
    ):
        for place in (empty, table, words):
            world.fails(f"get {ids!r:.20}", place.get, ids)
            world.fails(f"remove {ids!r:.20}", place.remove, ids)
            world.fails(f"label {ids!r:.20}", place.label, ids, ["x"])
    labels: list[Any] = [
        [1], [1, 2, 3], [[1]], "ab", None, 3, [(1,), (2,)], MATRIX[:2], [1j, 2j], [np.inf, 1], [{}, {}], MATRIX[0],
    ]  # fmt: skip
    for number, some in enumerate(labels):
        world.fails(f"labels {number}", table.label, [1, 2], some)
    world.fails("nothing", table.remove)
    world.fails("both", table.remove, [1], where={"shop": "a"})
    world.fails("everything", table.remove, where={})
    world.note("none", table.remove([], key="none"))
    for budget in (0, -1, 1.5, "x", True):
        world.fails(f"budget {budget}", table.refresh, budget)
    for more in ({"offset": -1}, {"limit": -1}, {"limit": 1.5}, {"offset": None}):
        world.fails(f"ids {more}", table.ids, **more)
    for key in (3, "", "x" * 201, "a\nb"):
        world.fails(f"key {key!r:.9}", table.add, [1], X[:1], key=key)
    table.add([70], X[:1], key="mine")
    table.add([70], X[:1], key="mine")
    world.fails("another call", table.add, [71], X[:1], key="mine")
    (world.folder / "taken").write_text("mine")
    world.fails("snapshot", table.snapshot, world.folder / "taken")
    unchanged(world, table)


def divergence(world: World) -> None:
    table = world.open("FCOH", 8, learning_rate=1e300, lambda2=0.1)
    X, y = rows(40)
    world.fails("a step that is too large", table.ingest, range(40), X.astype(np.float64), y)
    unchanged(world, table)


def a_closed_table(world: World) -> None:
    table = filled(world)
    X, y = rows(3)
    with table as same:
        world.note("itself", same is table)
    table.close()
    for call in (table.stats, table.check, table.flush, table.compact, table.refresh, table.ids, table.count):
        world.fails(call.__name__, call)
    world.fails("search", table.search, X)
    world.fails("radius", table.search_radius, X, 3)
    world.fails("get", table.get, [1])
    world.fails("in", table.__contains__, 1)
    world.fails("ingest", table.ingest, [1, 2, 3], X, y)
    world.fails("label", table.label, [1], [2])
    world.fails("remove", table.remove, [1])
    world.fails("declare", table.declare, {"new": str})
    world.fails("snapshot", table.snapshot, world.folder / "copy")


MISTAKES = [
    mistakes_in_rows, mistakes_in_fields, mistakes_in_searches, mistakes_in_filters, other_mistakes, divergence,
    a_closed_table,
]  # fmt: skip
