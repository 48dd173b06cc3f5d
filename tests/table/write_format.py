"""Writes the small tables that `test_table_formats.py` opens, with the answers that they must give for ever.

    python -m tests.table.write_format

Run once for each format that is released, before it is released, and never again: it writes to
`tests/table/formats/<format>/`, and refuses where there is such a folder (`--again` for a format that nobody has yet).
Every table is a zip of its folder; beside it, a JSON file has what was asked and what was answered.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.hashers.features import RBFAnchors
from hashstream.table import Every, HashTable, Never, Policy, Projected
from hashstream.table.storage.folder.records import FORMAT

FORMATS = Path(__file__).with_name("formats")
MARGIN = 0.02  # of a query's largest value: codes of queries are the same on any machine

Make = Callable[[Path], tuple[HashTable, bool]]


def answers(table: HashTable, Q: np.ndarray) -> dict[str, Any]:
    """Everything that a table says, as JSON has it."""
    slots = table._state.view.live()
    assert table._state.view.column is not None
    ids = table._state.view.column.take(slots)
    items = table.get(ids)
    far, found = table.search(Q, 5)
    offsets, near_far, near = table.search_radius(Q, 4)
    return {
        "ids": ids.tolist(),
        "codes": items.codes.tobytes().hex(),
        "versions": items.versions.tolist(),
        "labels": items.labels,
        "features": None if items.features is None else items.features.astype("<f8").tobytes().hex(),
        "search": [found.tolist(), far.tolist()],
        "radius": [offsets.tolist(), near_far.tolist(), near.tolist()],
        "newest": table.stats().newest_version,
        "seen": table.stats().n_seen,
    }


def queries(table: HashTable, n: int = 4) -> np.ndarray:
    """(n, d) queries, none of whose values is near 0 under any functions of the table."""
    candidates = rows(np.random.default_rng(77), 4000)[0]
    clear = np.ones(len(candidates), bool)
    for encoder in table._state.view.encoders.values():
        values = np.abs(encoder.decision_function(candidates.astype(encoder.dtype_)))
        clear &= values.min(axis=1) > MARGIN * values.max(axis=1)
    return candidates[clear][:n]


# ---- the tables: (still open, whether it is to be closed first)


def _filled(path: Path, hasher: hs.OnlineHasher, policy: Policy, kind: str, **settings: Any) -> HashTable:
    rng = np.random.default_rng(11)
    named = {"int": lambda i: 7 * i - 40, "str": lambda i: f"item {i} ä€"}[kind]
    table = HashTable.open(path, hasher, policy=policy, sample_size=6, **settings)
    dtype = np.float64 if kind == "str" else np.float32
    for i in range(5):
        X, y = rows(rng, 24 if i == 0 else 7)
        ids = [named(j) for j in range(9 * i, 9 * i + len(X))]
        labels = [f"class {one}" for one in y] if kind == "str" else y
        if i == 3:
            table.add(ids, X.astype(dtype))
        else:
            table.ingest(ids, X.astype(dtype), labels)
    table.remove([named(4), named(11)])
    table.refresh(10)
    return table


def plain(path: Path) -> tuple[HashTable, bool]:
    """Several versions, two segments, items that were replaced and removed."""
    return _filled(path, hs.FCOH(8, random_state=1), Never(), "int", segment_bytes=1500), True


def named(path: Path) -> tuple[HashTable, bool]:
    """Strings as ids and labels, in float64; drawn together into an image by a compaction."""
    table = _filled(path, hs.LSH(12, random_state=1), Every(2), "str")
    table.compact()
    return table, True


def mapped(path: Path) -> tuple[HashTable, bool]:
    """A method with a feature map before its projection."""
    return _filled(path, hs.HCOH(8, random_state=1, feature_map=RBFAnchors(5)), Every(2), "int"), True


def projected(path: Path) -> tuple[HashTable, bool]:
    """Without features."""
    return _filled(path, hs.FCOH(8, random_state=1), Projected(2), "str"), True


def killed(path: Path) -> tuple[HashTable, bool]:
    """As a process leaves it that is killed: with SQLite's log, and a model that has to learn again."""
    return _filled(path, hs.FCOH(8, random_state=1), Never(), "int"), False


TABLES: list[Make] = [plain, named, mapped, projected, killed]


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
        print(f"{target} is there: tables of a released format are never written again")
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
