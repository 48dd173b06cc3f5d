"""Programs that use a table, whichever kind it is. Each notes all answers."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
from tests.serve.same_tables import World

import hashstream as hs

D, CLASSES = 12, 4
KINDS = {"shop": str, "stock": int, "price": float, "sold": bool, "taken": "datetime", "tags": list}


class Shop(enum.StrEnum):
    NORTH = "north"


def rows(n: int, seed: int = 0, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((CLASSES, D)) * 2
    y = rng.integers(CLASSES, size=n)
    return (centres[y] + rng.standard_normal((n, D))).astype(dtype), y


def ask_everything(world: World, table: Any, Q: np.ndarray, where: Any = None) -> None:
    """All that can be asked without a change."""
    every = ("labels", "fields", "payloads")
    world.note("len", len(table))
    world.note("count", table.count())
    world.note("ids", table.ids())
    world.note("list", list(table))
    world.note("page", table.ids(offset=2, limit=5))
    world.note("beyond", table.ids(offset=10**6))
    world.note("nothing", table.ids(limit=0))
    for k in (1, 7, 10**4):
        world.note(f"search {k}", table.search(Q, k))
    world.note("one query", table.search(Q[:1]))
    world.note("included", table.search(Q, 5, include=every))
    world.note("labels", table.search(Q, 5, include=["labels"]))
    world.note("a set", table.search(Q, 5, include={"payloads", "fields"}))
    world.note("asymmetric", table.search(Q, 5, asymmetric=True))
    world.note("pages", table.search(Q, 3, offset=4, include=every))
    world.note("past the end", table.search(Q, 3, offset=9000))
    for compare in ("like", "current", "auto"):
        world.note(f"compare {compare}", table.search(Q, 5, compare=compare))
    for metric in ("cosine", "dot", "euclidean"):
        world.note(f"rescored {metric}", table.search(Q, 3, rescore=20, metric=metric))
    for radius in (0, 5, 12, 1000):
        world.note(f"radius {radius}", table.search_radius(Q, radius, include=every))
    world.note("radius plain", table.search_radius(Q[:2], 3, compare="like"))
    ids = table.ids()
    if len(ids):
        world.note("get", table.get(ids))
        world.note("get some", table.get(ids[[3, 1, 2]], features=False))
        world.note(
            "in", [one in table for one in (ids[0], ids.tolist()[1], -5, "no", 2.5, None, True, 2**70)]
        )
    world.note("get none", table.get([]))
    world.note("stats", figures(table))
    world.note("fields", table.fields)
    world.note("settings", table.settings)
    world.note("keeps", table.keeps_features)
    world.note("figures", [table.commits, table.version, table.n_features, table.dtype, table.id_kind])
    world.note("hasher", table.hasher)
    if where is not None:
        world.note("count where", table.count(where))
        world.note("ids where", table.ids(where))
        world.note("search where", table.search(Q, 4, where=where, include=every))
        world.note("radius where", table.search_radius(Q, 9, where=where, include=every))


def figures(table: Any) -> Any:
    """Statistics, without what a process has in memory at the moment."""
    found = table.stats()
    kept = {name: value for name, value in vars(found).items() if name not in ("memory_bytes", "disk_bytes")}
    return {**kept, "kinds": [type(found.memory_bytes), type(found.disk_bytes), type(found)]}


# ---- kinds of data


def _stream(world: World, ids: Any, dtype: Any, labels: Any, **settings: Any) -> None:
    """A stream with labels of some kind: `labels` makes them of class numbers."""
    table = world.open(**settings)
    Q, _ = rows(6, 99, dtype)
    ask_everything(world, table, Q)
    for batch in range(4):
        X, y = rows(60, batch, dtype)
        table.ingest(ids(batch * 50, 60), X, labels(y))
    X, y = rows(30, 5, dtype)
    table.add(ids(500, 30), X)
    table.add(ids(600, 30), X + 1, labels(y))
    table.add(ids(700, 30), X - 1, labels(y), learn=True)
    ask_everything(world, table, Q)
    world.note("labelled", table.label(ids(500, 10), labels(y[:10])))
    # With a key, which is committed even where nothing else changes: the client always has one.
    world.note("again", table.label(ids(500, 10), labels(y[:10]), key="again"))
    world.note("corrected", table.label(ids(500, 5), labels((y[:5] + 1) % CLASSES)))
    world.note("removed", table.remove(ids(10, 5)))
    world.note("some", table.refresh(budget=17))
    world.note("stale", figures(table))
    world.note("refreshed", table.refresh())
    world.note("flushed", table.flush())
    world.note("compacted", table.compact())
    world.note("nothing to compact", table.compact())
    world.note("checked", table.check(sample=50))
    ask_everything(world, table, Q)


def numbers(start: int, n: int) -> Any:
    return np.arange(start, start + n)


def words(start: int, n: int) -> Any:
    odd = ["", "a\0", "ü€😀", "x" * 300]
    return [odd[i] if i < len(odd) else f"item-{i}" for i in range(start, start + n)]


def int_ids_and_labels(world: World) -> None:
    _stream(world, numbers, np.float32, lambda y: y)


def str_ids_and_labels(world: World) -> None:
    _stream(world, words, np.float64, lambda y: [f"class {one}" for one in y])


def ranges_and_small_labels(world: World) -> None:
    _stream(
        world,
        lambda start, n: range(start, start + n),
        np.float64,
        lambda y: y.astype(np.int8),
        policy="eager",
    )


def mixed_labels(world: World) -> None:
    kinds = [1, 2.5, "three", True]
    _stream(
        world,
        numbers,
        np.float32,
        lambda y: np.array([kinds[one] for one in y], object),
        policy="never",
    )


def label_matrices(world: World) -> None:
    _stream(world, numbers, np.float32, lambda y: np.eye(CLASSES, dtype=int)[y], policy="every:3")


def a_method_that_corrects(world: World) -> None:
    _stream(world, numbers, np.float64, lambda y: y.tolist(), method="RidgeHash")


def a_method_without_labels(world: World) -> None:
    _stream(world, numbers, np.float32, lambda y: y, method="SketchHash", n_bits=8)


def missing_labels(world: World) -> None:
    table = world.open(n_bits=48)
    X, y = rows(120)
    table.ingest(range(40), X[:40], np.where(y[:40] == 1, np.nan, y[:40]))
    table.ingest(range(40, 80), X[40:80], [None if one == 2 else int(one) for one in y[40:80]])
    table.ingest(range(80, 120), X[80:], pd.array([pd.NA if one == 0 else one for one in y[80:]], "Int64"))
    ask_everything(world, table, X[:3], {"label": None})
    other = world.open()
    matrix = np.eye(CLASSES)[y]
    matrix[::3, 1] = np.nan
    other.ingest(range(120), X, matrix)
    ask_everything(world, other, X[:3], {"label": {"$in": [0, 2]}})


def rows_of_every_kind(world: World) -> None:
    table = world.open()
    X, y = rows(40)
    table.ingest(range(10), X[:10].tolist(), y[:10].tolist())
    table.ingest(range(10, 20), X[10:20].astype(np.float16), y[10:20])
    table.ingest(range(20, 25), np.round(X[20:25]).astype(np.int32), y[20:25])
    table.ingest(range(25, 30), pd.DataFrame(X[25:30]), pd.Series(y[25:30]))
    table.ingest(range(30, 35), np.asfortranarray(X[30:35]), y[30:35])
    table.ingest(np.arange(35, 40, dtype=np.uint8), X[35:].astype(">f8"), y[35:].astype(">i4"))
    table.add(np.array(range(40, 50), object), X[:10].astype(np.longdouble))
    ask_everything(world, table, X[:4])
    for Q in (
        X[:4].tolist(),
        X[:4].astype(np.float64),
        X[:4].astype(np.float16),
        X[:4].astype(ml_dtypes.bfloat16),
        pd.DataFrame(X[:4]),
        X[:8:2],
    ):
        world.note("queries", table.search(Q, 5))
        world.note("radius", table.search_radius(Q, 9))


# ---- fields, payloads and filters


def some_fields(n: int) -> dict[str, Any]:
    zone = timezone(timedelta(hours=2))
    start = datetime(2024, 5, 31, 12, 0, 0, 123456)
    return {
        "shop": [("north", "süd", "", None, "a\0", Shop.NORTH)[i % 6] for i in range(n)],
        "stock": [(0, -3, 2**62, None, 7, np.int16(5))[i % 6] for i in range(n)],
        "price": [(0.1, -0.0, np.inf, None, float("nan"), 1e300)[i % 6] for i in range(n)],
        "sold": [(True, False, None, np.True_)[i % 4] for i in range(n)],
        "taken": [
            (start, start.replace(tzinfo=UTC), start.replace(tzinfo=zone), None, "2024-06-01T00:00:00Z",
             date(2024, 1, 2), np.datetime64("2024-03-04T05:06:07.123456789"))[i % 7]
            for i in range(n)
        ],
        "tags": [(["a", "b"], [], None, {"z", "a"}, ("b",))[i % 5] for i in range(n)],
    }  # fmt: skip


PAYLOADS = [
    {"title": "first", "size": [1, 2.5, None], "more": {"deep": {"er": True}}, "ü": "\ud83d\ude00"},
    None,
    {},
    {"n": 2**80, "small": 5e-324, 7: "a number as a name"},
]

FILTERS: list[Any] = [
    {"shop": "north"},
    {"shop": {"$in": ("north", "süd", None)}},
    {"stock": {"$gte": np.int64(0), "$lt": 2**40}},
    {"stock": {"$ne": None}},
    {"price": {"$lte": float("inf")}},
    {"price": {"$lt": np.float32(0.5)}},
    {"price": {"$in": [0.1, float("nan")]}},
    {"sold": np.True_},
    {"taken": {"$gt": datetime(2024, 5, 31, 11, 0, tzinfo=UTC)}},
    {"taken": {"$gte": date(2024, 1, 2), "$lt": np.datetime64("2024-05-31")}},
    {"taken": "2024-05-31T12:00:00.123456"},
    {"tags": "a"},
    {"tags": {"$in": {"b", "z"}}},
    {"$or": [{"shop": Shop.NORTH}, {"$not": {"stock": {"$exists": True}}}]},
    {"id": {"$in": np.arange(0, 40, 3)}},
    {"id": {"$nin": list(range(5000))}},
    {"label": {"$in": [1, 3]}},
    {},
]


def fields_and_filters(world: World) -> None:
    table = world.open(fields=KINDS)
    X, y = rows(90)
    every = some_fields(60)
    payloads = [PAYLOADS[i % len(PAYLOADS)] for i in range(60)]
    table.ingest(range(60), X[:60], y[:60], fields=every, payloads=payloads)
    arrays = {
        "stock": np.arange(20, dtype=np.uint32),
        "price": np.linspace(0, 1, 20, dtype=np.float32),
        "sold": np.arange(20) % 2 == 0,
        "taken": np.datetime64("2024-01-01", "ns") + np.arange(20) * np.timedelta64(1, "D"),
        "shop": np.array([f"shop {i}" for i in range(20)]),
    }
    table.add(range(60, 80), X[60:80], fields=arrays, payloads=tuple({"i": i} for i in range(20)))
    table.declare({"colour": "str", "shop": str})
    table.ingest(range(80, 90), X[80:], y[80:], fields={"colour": pd.Series(["red", None] * 5)})
    for where in FILTERS:
        ask_everything(world, table, X[:3], where)
    world.note("removed", table.remove(where={"shop": {"$in": {"north"}}}))
    world.note("removed none", table.remove(where={"shop": "nowhere"}, key="none"))
    ask_everything(world, table, X[:3])


def no_features(world: World) -> None:
    table = world.open(
        policy="projected:2", keep_features=False, max_versions=3, sample_size=50, durability="fast"
    )
    for batch in range(4):
        table.ingest(numbers(batch * 50, 50), *rows(50, batch))
    X, _ = rows(3, 9)
    for what in (table.settings, table.keeps_features, table.get([3, 4]), table.search(X, 3)):
        world.note("an answer", what)
    world.fails("rescore", lambda: table.search(X, 3, rescore=10))


def a_writer(world: World) -> None:
    table = world.open(fields={"shop": str})
    writer = table.writer()
    X, y = rows(30)
    writer.ingest(range(10), X[:10], y[:10], fields={"shop": ["a"] * 10}, payloads=[None] * 10)
    writer.add(range(10, 20), X[10:20], y[10:20])
    writer.add(range(20, 30), X[20:], y[20:], learn=True)
    writer.label(range(10, 15), y[10:15])
    ask_everything(world, table, X[:3])


def a_snapshot(world: World) -> None:
    table = world.open(fields=KINDS)
    X, y = rows(60)
    table.ingest(range(60), X, y, fields=some_fields(60), payloads=[PAYLOADS[i % 4] for i in range(60)])
    table.snapshot(world.folder / "deep" / "copy")
    (world.folder / "empty").mkdir()
    table.snapshot(world.folder / "empty")
    table.remove(range(30))
    for name in ("deep/copy", "empty"):
        with hs.HashTable.open(world.folder / name) as copy:
            ask_everything(world, copy, X[:3])
            world.note("checked", copy.check())


SCENARIOS = [
    int_ids_and_labels, str_ids_and_labels, ranges_and_small_labels, mixed_labels, label_matrices,
    a_method_that_corrects, a_method_without_labels, missing_labels, rows_of_every_kind, fields_and_filters,
    no_features, a_writer, a_snapshot,
]  # fmt: skip
