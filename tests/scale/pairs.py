"""A cluster and one table that are told the same, and compared by everything that they answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from hashstream import FCOH, LSH, HashTable, OnlineHasher, PosteriorHash, RidgeHash, SketchHash
from hashstream.scale import Cluster
from hashstream.scale.engine import Engine

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)
QUERIES = X[1500:1520]

METHODS: dict[str, type[OnlineHasher]] = {
    "FCOH": FCOH,
    "RidgeHash": RidgeHash,
    "PosteriorHash": PosteriorHash,
    "SketchHash": SketchHash,
    "LSH": LSH,
}
FIELDS = {"tenant": str, "price": float, "taken": "datetime", "tags": list}


def hasher_of(name: str) -> Any:
    kind: Any = METHODS[name]
    return kind(n_bits=32, random_state=0)


def some_labels(rows: slice, every: int = 3) -> np.ndarray:
    """Labels of which every third is missing."""
    y = np.array(Y[rows], object)
    y[::every] = None
    return y


@contextmanager
def pair(
    folder: Path, engine: Engine, method: str = "FCOH", *, shards: int = 3, **more: Any
) -> Iterator[tuple[HashTable, Cluster]]:
    """A table in memory and a cluster, both empty."""
    with HashTable.open(None, hasher_of(method), policy="never", fields=more.get("fields")) as table:
        cluster = Cluster.open(folder / "cluster", hasher_of(method), shards=shards, engine=engine, **more)
        with cluster:
            yield table, cluster


def fill(store: Any, *, text: bool = False, batch: int = 100, n: int = 500) -> None:
    """Batches in which some rows have labels; with fields and payloads."""
    for start in range(0, n, batch):
        rows = slice(start, start + batch)
        ids: Any = [f"item {i}" for i in range(start, start + batch)] if text else range(start, start + batch)
        numbers = np.arange(start, start + batch)
        fields = {
            "tenant": ["abc"[i % 3] for i in numbers],
            "price": [None if i % 7 == 0 else i / 2 for i in numbers.tolist()],
            "taken": [f"2024-05-{1 + i % 30:02d}T12:00:00Z" for i in numbers],
            "tags": [["x", "y"][: i % 3] for i in numbers],
        }
        payloads = [None if i % 5 == 0 else {"row": i} for i in numbers.tolist()]
        store.ingest(ids, X[rows], some_labels(rows), fields=fields, payloads=payloads)


SEARCHES: list[dict[str, Any]] = [
    {},
    {"k": 25, "offset": 13},
    {"k": 3, "where": {"tenant": "b", "price": {"$lt": 100}}},
    {"k": 7, "where": {"tags": "y"}, "include": ("labels", "fields", "payloads")},
    {"k": 5, "rescore": 40},
    {"k": 5, "rescore": 40, "metric": "dot", "offset": 3, "include": ("labels", "payloads")},
    {"k": 5, "rescore": 40, "metric": "euclidean", "where": {"price": {"$gte": 20}}},
    {"k": 9, "asymmetric": True},
    {"k": 9, "compare": "current"},
    {"k": 2000, "include": ("labels",)},
    {"k": 4, "where": {"tenant": "nobody"}, "include": ("fields",)},
]


def assert_same_answers(table: HashTable, cluster: Cluster) -> None:
    """Every kind of question has the same answer, ids and ties included."""
    assert len(cluster) == len(table)
    assert cluster.ids().tolist() == table.ids().tolist()
    assert cluster.digest() == table.digest()
    for search in SEARCHES:
        if "where" in search and not table.fields:
            continue
        assert_same(table.search(QUERIES, **search), cluster.search(QUERIES, **search), str(search))
    for radius in (0, 3, 8):
        include: Any = ("labels", "fields", "payloads")
        one = table.search_radius(QUERIES, radius, include=include)
        assert_same(one, cluster.search_radius(QUERIES, radius, include=include), f"radius {radius}")


def assert_same(one: Any, other: Any, what: str) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype, what
        assert a.tolist() == b.tolist(), what
    for name in ("labels", "payloads"):
        assert_equal(getattr(one, name), getattr(other, name), what)
    assert (one.fields is None) == (other.fields is None), what
    for name in one.fields or {}:
        assert_equal(one.fields[name], other.fields[name], f"{what}, {name}")
    assert other.missing == 0


def assert_equal(a: Any, b: Any, what: str) -> None:
    """Arrays of objects, which may be arrays themselves."""
    assert repr(None if a is None else a.tolist()) == repr(None if b is None else b.tolist()), what
