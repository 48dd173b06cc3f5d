"""A table that has everything an export can hold, and the comparison of two tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import hashstream as hs
from hashstream.table import HashTable, Never

D = 6
FIELDS = {"tenant": str, "code": int, "price": float, "ok": bool, "taken": "datetime", "tags": list}
LABELS: dict[str, Any] = {
    "str": ["cat", "dog", "ä", None],
    "int": [0, 1, -5, None],
    "float": [0.5, 1.0, -2.5, None],
    "bool": [True, False, None, True],
    "json": ["cat", 1, 2.5, None],
    "matrix": [[1, 0, 1], [0, 1, 0], [0, 0, 0], [np.nan] * 3],
}


def everything(
    path: Path | None, *, ids: str = "int", labels: str = "str", keep_features: bool = True, n: int = 40
) -> HashTable:
    """Items of several versions, some removed or replaced, with labels of a kind, fields of each kind, payloads and
    sequence numbers; some without."""
    hasher = hs.FCOH(n_bits=20, random_state=3, batch_size=8)
    settings: dict[str, Any] = {"policy": Never()} if keep_features else {"keep_features": False}
    table = HashTable.open(path, hasher, fields=FIELDS, sample_size=16, **settings)
    rng = np.random.default_rng(5)
    for batch in range(3):
        numbers = range(n * batch, n * batch + n)
        X = rng.normal(size=(n, D)).astype(np.float32)
        table.ingest(
            [names(one, ids) for one in numbers],
            X,
            label_values(labels, n),
            fields={
                "tenant": ["a", "b ü", None, ""] * (n // 4),
                "code": [1, None, -(2**62), 0] * (n // 4),
                "price": [0.1, None, float("inf"), -1.0] * (n // 4),
                "ok": [True, False, None, True] * (n // 4),
                "taken": moments(batch, n),
                "tags": [["x", "y"], [], None, ["ä"]] * (n // 4),
            },
            payloads=[{"title": "ü", "n": [1, {"a": None}]}, None, {}, {"x": 1.5}] * (n // 4),
            sequence=None if batch == 0 else 7 + batch,
        )
    table.remove([names(one, ids) for one in (3, n + 5)])
    table.add([names(4, ids)], np.ones((1, D), np.float32))  # replaced, at the end, without anything
    table.refresh(5)
    return table


def names(number: int, kind: str) -> Any:
    return number if kind == "int" else f"item {number} ü"


def label_values(kind: str, n: int) -> np.ndarray:
    values = LABELS[kind] * (n // 4)
    if kind == "matrix":
        return np.array(values)
    out = np.empty(n, object)
    out[:] = values
    return out


def moments(batch: int, n: int) -> list[Any]:
    """Without a zone, with one, and both."""
    zoned = datetime(2024, 5, 1, 12, 30, 1, 5, tzinfo=UTC)
    kinds = [[datetime.min, None], [datetime.max, datetime(1969, 1, 1)], [zoned, None]]
    return kinds[batch] * (n // 2)


def contents(table: HashTable, *, features: bool = True) -> dict[str, Any]:
    """Everything about the items of a table, in the order of insertion, and how it compares versions."""
    held = table.get(table.ids(), features=features)
    assert held.sequences is not None
    learned = table.search(np.ones((1, D), np.float32), k=len(table), include=("labels",))
    return {
        "ids": held.ids.tolist(),
        "codes": held.codes.tolist(),
        "versions": held.versions.tolist(),
        "labels": [(type(one), one.tolist() if isinstance(one, np.ndarray) else one) for one in held.labels],
        "features": None if held.features is None else held.features.tolist(),
        "fields": held.fields,
        "payloads": held.payloads,
        "sequences": held.sequences.tolist(),
        "kinds": table.fields,
        "digest": table.digest(),
        "found": [array.tolist() for array in learned],
        "comparison": table.stats().comparison,
    }


def same_functions(one: HashTable, other: HashTable, labels: str = "str") -> bool:
    """Whether two tables encode alike, and learn alike."""
    X = np.random.default_rng(1).normal(size=(50, D)).astype(np.float32)
    a, b = one.hasher, other.hasher
    for hasher in (a, b):
        hasher.partial_fit(X, label_values(labels, 52)[:50])
    return bool((a.transform(X) == b.transform(X)).all()) and a.version_ == b.version_
