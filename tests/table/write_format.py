"""Writes the small tables that `test_table_formats.py` opens, with the answers that they must give for ever.

    python -m tests.table.write_format

Run once for each format that is released, before it is released, and never again: it writes to
`tests/table/formats/<format>/`, and refuses where there is such a folder (`--again` for a format that nobody has yet).
Every table is a zip of its folder; a JSON file of the same name has what was asked and what was answered.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.hashers.features import RBFAnchors
from hashstream.table import Every, HashTable, Never, Policy, Projected, comparing
from hashstream.table.storage.folder.records import FORMAT

FORMATS = Path(__file__).with_name("formats")
FIELDS: dict[str, Any] = {
    "tenant": str, "price": float, "count": int, "fresh": bool, "taken": "datetime", "tags": list,
}  # fmt: skip
FILTERS: list[dict[str, Any]] = [
    {"tenant": "a €"},
    {"price": {"$gte": -2.5}, "count": {"$lt": 20}},
    {"fresh": {"$ne": True}},
    {"taken": {"$lt": "2024-02-01T00:00:00"}},
    {"tags": {"$in": ["red", "blue"]}},
    {"later": {"$exists": True}},
    {"label": {"$exists": True}},
    {"label": {"$in": [1, "class 1"]}},
]
MARGIN = 0.02  # of a query's largest value: codes of queries are the same on any machine

Make = Callable[[Path], tuple[HashTable, bool]]


def answers(table: HashTable, Q: np.ndarray) -> dict[str, Any]:
    """Everything that a table says, as JSON has it."""
    ids = table.ids()
    items = table.get(ids)
    far, found = table.search(Q, 5)
    offsets, near_far, near = table.search_radius(Q, 4)
    whole = table.search(Q[:1], 4, include=("labels", "fields", "payloads"))
    assert whole.fields is not None and whole.labels is not None and whole.payloads is not None  # noqa: PT018
    filters = [one for one in FILTERS if set(one) - {"id", "label"} <= set(table.fields)]
    return {
        "ids": ids.tolist(),
        "codes": items.codes.tobytes().hex(),
        "versions": items.versions.tolist(),
        "labels": [_plain(label) for label in items.labels],
        "features": None if items.features is None else items.features.astype("<f8").tobytes().hex(),
        "search": [far.tolist(), found.tolist()],
        "radius": [offsets.tolist(), near_far.tolist(), near.tolist()],
        "newest": table.stats().newest_version,
        "seen": table.stats().n_seen,
        "sample": table._state.sample.items()[0].tolist(),
        "settings": table.settings.to_fields(),
        "kinds": table.fields,
        "fields": {name: [_plain(value) for value in values] for name, values in items.fields.items()},
        "payloads": items.payloads,
        "included": [
            [_plain(label) for label in whole.labels[0]],
            {name: [_plain(value) for value in values[0]] for name, values in whole.fields.items()},
            whole.payloads[0].tolist(),
        ],
        "filtered": [
            [
                table.count(one),
                table.ids(one).tolist(),
                [part.tolist() for part in table.search(Q, 3, where=one)],
            ]
            for one in filters
        ],
        "comparison": table._state.comparison.to_fields(),
        "keys": [list(call) for call in table._storage.all_done()],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value.isoformat() if isinstance(value, datetime) else value


def queries(table: HashTable, n: int = 4) -> np.ndarray:
    """(n, d) queries, none of whose values is near 0 under any functions of the table."""
    candidates = rows(np.random.default_rng(77), 4000)[0]
    clear = np.ones(len(candidates), bool)
    for encoder in table._state.view.encoders.values():
        values = np.abs(encoder.decision_function(candidates.astype(encoder.dtype)))
        clear &= values.min(axis=1) > MARGIN * values.max(axis=1)
    return candidates[clear][:n]


# ---- the tables: (still open, whether it is to be closed first)


def _fields(numbers: list[int]) -> dict[str, list[Any]]:
    """Values of all kinds, of which some are missing."""
    day = datetime(2024, 1, 1, tzinfo=UTC)
    all_of: dict[str, list[Any]] = {
        "tenant": [("a €", "b", "")[i % 3] for i in numbers],
        "price": [i / 4 - 3 for i in numbers],
        "count": [i * 10**15 if i % 9 == 8 else i for i in numbers],
        "fresh": [i % 2 == 0 for i in numbers],
        "taken": [day + timedelta(days=i, microseconds=i) for i in numbers],
        "tags": [["red", "blue", "green ä"][: i % 4] for i in numbers],
    }
    return {
        name: [None if (i + at) % 5 == 0 else value for i, value in zip(numbers, values, strict=True)]
        for at, (name, values) in enumerate(all_of.items())
    }


def _payload(i: int) -> dict[str, Any] | None:
    return None if i % 3 == 0 else {"title": f"no. {i} €", "pages": [i, None, 0.5]}


def _filled(path: Path, hasher: hs.OnlineHasher, policy: Policy, kind: str, **settings: Any) -> HashTable:
    rng = np.random.default_rng(11)
    named = {"int": lambda i: 7 * i - 40, "str": lambda i: f"item {i} ä€"}[kind]
    settings = {"sample_size": 6, "fields": FIELDS, **settings}
    table = HashTable.open(path, hasher, policy=policy, **settings)
    dtype = np.float64 if kind == "str" else np.float32
    for i in range(5):
        X, y = rows(rng, 24 if i == 0 else 7)
        numbers = list(range(9 * i, 9 * i + len(X)))
        ids = [named(j) for j in numbers]
        labels: list[Any] = [f"class {one}" for one in y] if kind == "str" else y.tolist()
        if i == 2:
            labels[3] = None
        fields, payloads = _fields(numbers), [_payload(j) for j in numbers]
        if i == 1:
            del fields["price"]
        if i == 3:
            table.add(ids, X.astype(dtype), fields=fields, payloads=payloads, key="a call €")
        else:
            table.ingest(ids, X.astype(dtype), labels, fields=fields, payloads=payloads)
    table.remove([named(4), named(11)], key="6c2f1e0a-5b0d-4c65-9a37-1f7b6f0c2d11")
    table.refresh(10)
    table.declare({"later": int})
    X, y = rows(rng, 3)
    ids = [named(j) for j in (100, 101, 102)]
    table.add(ids, X.astype(dtype), fields={"later": [5, None, -5]}, payloads=[None, {}, {"n": None}])
    return table


def _labelled(table: HashTable, kind: str) -> None:
    """Labels for items that had none, others for items that had some, and some taken back; learned where the method
    learns."""
    named = {"int": lambda i: 7 * i - 40, "str": lambda i: f"item {i} ä€"}[kind]
    for numbers in ([28, 29, 100, 2], [3, 29, 30]):
        y = [i % 4 for i in numbers]
        table.label([named(i) for i in numbers], [f"class {one}" for one in y] if kind == "str" else y)
    table.label([named(i) for i in (100, 2, 28)], [None, None, "class 3" if kind == "str" else 3])


def plain(path: Path) -> tuple[HashTable, bool]:
    """Several versions, two segments, items that were replaced and removed, labels given later."""
    table = _filled(path, hs.FCOH(8, random_state=1), Never(), "int", segment_bytes=1500)
    _labelled(table, "int")
    return table, True


def named(path: Path) -> tuple[HashTable, bool]:
    """Strings as ids and labels, in float64; compacted, so that a checkpoint holds all items."""
    table = _filled(path, hs.LSH(12, random_state=1), Every(2), "str")
    _labelled(table, "str")
    table.compact()
    return table, True


def mapped(path: Path) -> tuple[HashTable, bool]:
    """A method with a feature map before its projection, and a sample on which versions are compared."""
    hasher = hs.HCOH(8, random_state=1, feature_map=RBFAnchors(5))
    table = HashTable.open(path, hasher, policy=Never(), sample_size=70, fields={"tenant": str})
    with patch.object(comparing, "LEAST_ROWS", 50):
        for i in range(3):
            X, y = rows(np.random.default_rng(i), 40)
            table.ingest(range(40 * i, 40 * i + 40), X, y, fields={"tenant": ["a €", None] * 20})
    return table, True


def projected(path: Path) -> tuple[HashTable, bool]:
    """Without features."""
    return _filled(path, hs.FCOH(8, random_state=1), Projected(2), "str"), True


def killed(path: Path) -> tuple[HashTable, bool]:
    """As a process leaves it that is killed: with SQLite's log, and a model that has to learn again, batches as well as
    labels given later."""
    table = _filled(path, hs.FCOH(8, random_state=1), Never(), "int")
    _labelled(table, "int")
    return table, False


def corrected(path: Path) -> tuple[HashTable, bool]:
    """The same with a method that takes labels back."""
    table = _filled(path, hs.RidgeHash(8, random_state=1), Every(2), "str", checkpoint_rows=40)
    _labelled(table, "str")
    return table, False


def matrix(path: Path) -> tuple[HashTable, bool]:
    """Several classes per item, some of them given later, and a model that has to learn again."""
    table = HashTable.open(path, hs.FCOH(8, random_state=1), policy=Never(), sample_size=6)
    X, y = rows(np.random.default_rng(12), 30)
    Y = np.eye(4)[y]
    Y[::3, 0] = 1
    table.ingest(range(20), X[:20], Y[:20])
    Y[22:25] = np.nan
    table.ingest(range(20, 30), X[20:], Y[20:])
    table.label([5, 23], [[0, 1, 1, 0], [0, 0, 0, 1]])
    table.label([5, 6, 7], [None, None, [1, 0, 0, 1]])
    return table, False


def posterior(path: Path) -> tuple[HashTable, bool]:
    """A method with large tables of its own."""
    hasher = hs.PosteriorHash(8, width=8, random_state=1)
    table = _filled(path, hasher, Every(3), "int")
    _labelled(table, "int")
    return table, True


def started(path: Path) -> tuple[HashTable, bool]:
    """Before the first label."""
    table = HashTable.open(path, hs.FCOH(8, random_state=1), policy=Never(), sample_size=6, fields=FIELDS)
    X = rows(np.random.default_rng(13), 20)[0]
    numbers = list(range(20))
    table.ingest(numbers[:12], X[:12], fields=_fields(numbers[:12]))
    table.ingest(numbers[12:], X[12:], [None] * 8, payloads=[_payload(i) for i in numbers[12:]])
    table.remove(where={"tenant": "b"})
    return table, True


TABLES: list[Make] = [plain, named, mapped, projected, killed, corrected, matrix, posterior, started]


def write(make: Make, target: Path) -> None:
    name = make.__name__
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        table, closed = make(path)
        Q = queries(table)
        wanted = {"about": " ".join((make.__doc__ or "").split()), "queries": Q.tolist(), **answers(table, Q)}
        if closed:
            table.close()
        kept = Path(folder) / "kept"
        shutil.copytree(path, kept, ignore=shutil.ignore_patterns("*-shm", "lock"))
        table.close()
        with zipfile.ZipFile(target / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for file in sorted(kept.iterdir()):
                archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), zipfile.ZIP_DEFLATED)
    (target / f"{name}.json").write_text(json.dumps(wanted))


def main(arguments: list[str]) -> int:
    target = FORMATS / str(FORMAT)
    if target.exists() and "--again" not in arguments:
        print(f"{target} exists: tables of a released format are never written again")
        return 1
    target.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows to warm up on
        for make in TABLES:
            write(make, target)
            print(f"{target / make.__name__}.zip")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
