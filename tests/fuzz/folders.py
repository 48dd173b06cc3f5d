"""Fuzzes tables' folders: whatever they hold, a table raises TableError or works.

Rows of the database, the arrays and models in them, segments and notes are altered, most often with checksums that fit:
a checksum keeps out accidents, not people. A table that opens has to answer, and to take and re-encode items.

    python -m tests.fuzz.folders --count 1000 --seed 0
    python -m tests.fuzz.folders --case 17 --seed 0      one of them again, in this process
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz import runner
from tests.fuzz.model_mutations import mutated as mutated_model
from tests.fuzz.runner import Counts
from tests.table.fingerprints import OPERANDS
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Every, HashTable, Projected, TableError
from hashstream.table.storage.folder.records import checksum, pack, unpack

NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, -(2**63))
THINGS: tuple[Any, ...] = (*NUMBERS, None, True, "", "x", [], {}, 0.5, 1e300, 2**70)
TEXTS = ("", "x", "null", "NaN", "1e999", "-7", "1.5", '"class 1"', "[]", "[0, 1, 0]", "[[0]]", "[1, 2]", "{}", '{"a":',
         "true", '{"a": NaN}', "[" * 100_000, '{"a": ' * 5000 + "1" + "}" * 5000, "\ud800")  # fmt: skip
X, Y = rows(np.random.default_rng(5), 400)


def run(seconds: float | None = None, count: int | None = None, seed: int = 0) -> Counts:
    return runner.run("tests.fuzz.folders", seconds, count, seed)


# ---- folders to begin with


FIELDS: dict[str, Any] = {
    "tenant": str, "price": float, "count": int, "fresh": bool, "taken": "datetime", "tags": list,
}  # fmt: skip


def values_of(n: int) -> dict[str, list[Any]]:
    """Of all fields, some of them missing."""
    found: dict[str, list[Any]] = {
        "tenant": ["a", "b", "é"],
        "price": [0.5, -1.0],
        "count": [1, 2**40, -3],
        "fresh": [True, False],
        "taken": ["2024-01-01T00:00:00", "1950-02-03"],
        "tags": [["red"], [], ["red", "blue"]],
    }
    return {
        name: [None if i % 5 == 0 else some[i % len(some)] for i in range(n)] for name, some in found.items()
    }


@cache
def folders() -> list[Path]:
    """Some small tables: closed ones, and ones that were left as a killed process leaves them."""
    base = Path(tempfile.mkdtemp(prefix="fuzz-folders-"))
    paths = []
    for i, (hasher, ids, policy) in enumerate(
        [
            (hs.FCOH(n_bits=20, random_state=0), "int", Every(3)),
            (hs.RidgeHash(n_bits=12, random_state=0), "str", Every(2)),
            (hs.HCOH(n_bits=16, random_state=0), "int", Projected(k=2)),
            (hs.ClassifierHash(n_bits=16, random_state=0), "str", Every(100)),
        ]
    ):
        path = base / str(i)
        table = HashTable.open(
            path, hasher, fields=FIELDS, policy=policy, segment_bytes=3000, checkpoint_rows=50, sample_size=20
        )
        for start in range(0, 160, 40):
            names: list[Any] = list(range(start, start + 40))
            if ids == "str":
                names = [f"item {one} é" for one in names]
            y = Y[start : start + 40]
            labels: list[Any] = [f"class {one}" for one in y] if ids == "str" else y.tolist()
            labels[3] = None
            fields, payloads = values_of(40), [{"n": i} if i % 3 else None for i in range(40)]
            table.ingest(names, X[start : start + 40], labels, fields=fields, payloads=payloads)
        table.remove(names[:5])
        table.declare({"later": int})
        table.add(names[:2], X[:2], fields={"later": [1, None]})
        if policy.keeps_features:
            table.label(names[5:12], labels[12:19])
            table.label(names[10:12], labels[20:22])  # less than a checkpoint, so that it is learned again
        shutil.copytree(path, base / f"{i} killed")
        table.compact()
        table.ingest(names[:5], X[:5], labels[5:10])
        table.close()
        paths += [path, base / f"{i} killed"]
    return [*paths, adopted(base / "adopted")]


def adopted(path: Path) -> Path:
    """A table that has functions of another method than it was created with."""
    other = hs.FCOH(n_bits=12, random_state=0).partial_fit(X[:200], Y[:200])
    with HashTable.open(path, hs.RidgeHash(n_bits=12, random_state=0), sample_size=20) as table:
        table.ingest(range(40), X[:40], Y[:40])
        other.version_ = table.version + 1
        table.adopt(other)
        table.ingest(range(40, 60), X[40:60], Y[40:60])
    return path


# ---- alterations


def altered_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    how = rng.integers(7)
    out = np.array(array)
    if how == 0 and out.size:
        value = NUMBERS[rng.integers(len(NUMBERS))]
        flat = out.reshape(-1)
        at = rng.integers(out.size, size=1 + int(rng.integers(3)))
        if out.dtype.kind in "iu":
            flat[at] = np.array(value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(out.dtype)
        elif out.dtype.kind == "f":
            flat[at] = (np.nan, np.inf, 1e300, -1.0)[rng.integers(4)]
    elif how == 1 and out.ndim:
        out = out[: rng.integers(len(out) + 1)]
    elif how == 2 and out.ndim:
        out = np.concatenate([out, out[: rng.integers(1, 9)]])
    elif how == 3:
        kinds = ("<i8", "<u4", "|u1", "<f4", "<f8", "|b1", "<i2", "<U3")
        with np.errstate(all="ignore"):
            out = out.astype(kinds[rng.integers(len(kinds))])
    elif how == 4:
        out = out.reshape(-1) if rng.random() < 0.5 else out.reshape(*out.shape, 1)
    elif how == 5 and out.ndim and len(out):
        out = out[rng.permutation(len(out))]
    elif out.size and out.dtype.kind in "iu":
        out = out + np.array(NUMBERS[rng.integers(6)]).astype(out.dtype)
    return out


def altered_blob(raw: bytes, rng: np.random.Generator) -> bytes:
    """Named arrays, altered by name, or byte by byte."""
    if rng.random() < 0.2:
        return altered_bytes(raw, rng)
    if rng.random() < 0.2:  # the head that names dtypes and shapes
        size = int.from_bytes(raw[:4], "little")
        head = json.dumps(altered_json(json.loads(raw[4 : 4 + size]), rng)).encode()[:size].ljust(size)
        return raw[:4] + head + raw[4 + size :]
    arrays = dict(unpack(raw))
    name = list(arrays)[rng.integers(len(arrays))]
    how = rng.random()
    if how < 0.15:
        del arrays[name]
    elif how < 0.25:
        arrays[f"{name}x"] = arrays.pop(name)
    elif how < 0.35:
        arrays[name] = arrays[list(arrays)[rng.integers(len(arrays))]]
    elif name.endswith(("texts", "declared", "sample.labels", "json")) and rng.random() < 0.7:
        arrays[name] = altered_texts(arrays[name], rng)
    else:
        arrays[name] = altered_array(arrays[name], rng)
    return pack(arrays)


def altered_bytes(raw: bytes, rng: np.random.Generator) -> bytes:
    out = bytearray(raw)
    for _ in range(int(rng.integers(1, 6))):
        if out:
            out[rng.integers(len(out))] = int(rng.integers(256))
    return bytes(out[: rng.integers(len(out) + 1)] if rng.random() < 0.2 else out)


def altered_slots(raw: bytes, rng: np.random.Generator) -> bytes:
    array = altered_array(np.frombuffer(raw, np.uint32), rng)
    return altered_bytes(raw, rng) if array.dtype.hasobject or rng.random() < 0.2 else array.tobytes()


def altered_texts(raw: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Texts as JSON, of which one is another, such as a label that is none."""
    texts = json.loads(raw.tobytes())
    if isinstance(texts, list) and texts:
        at = int(rng.integers(len(texts)))
        sign = str(texts[at])[:1] if rng.random() < 0.9 else ""
        texts[at] = sign + TEXTS[rng.integers(len(TEXTS))]
    elif isinstance(texts, dict):
        texts = altered_json(texts, rng)
    return np.frombuffer(json.dumps(texts).encode(), np.uint8)


def altered_json(value: Any, rng: np.random.Generator) -> Any:
    """One entry of a tree is another, or is gone."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = list(value)[rng.integers(len(value))]
        out = dict(value)
        if rng.random() < 0.1:
            del out[name]
        else:
            out[name] = altered_json(value[name], rng)
        return out
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = int(rng.integers(len(value)))
        return [*value[:at], altered_json(value[at], rng), *value[at + 1 :]]
    if isinstance(value, int) and rng.random() < 0.5:
        return value + int(rng.integers(-3, 4))
    return THINGS[rng.integers(len(THINGS))]


KEYS = {
    "meta": ("key", "value"),
    "segments": ("number", "first_slot"),
    "batches": ("seq", "first_slot", "n_rows", "learned", "version", "features_crc", "model_crc", "y"),
    "log": ("seq", "change"),
    "items": ("name", "part", "bytes"),
    "models": ("kind", "version", "seq", "hasher"),
    "unsynced": ("first_slot", "features"),
    "feedback": ("seq", "version", "features_crc", "model_crc", "slots", "y", "old"),
    "payloads": ("generation", "slot", "json"),
}


def alter_row(db: sqlite3.Connection, rng: np.random.Generator) -> str:
    """Alter a field of a row, and seal it again."""
    table = list(KEYS)[rng.integers(len(KEYS))]
    columns = KEYS[table]
    found = db.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    if not found:
        return alter_schema(db, rng)
    row = list(found[rng.integers(len(found))])
    keys = 2 if table in ("items", "models", "payloads") else 1
    where = " AND ".join(f"{name} IS ?" for name in columns[:keys])
    key = row[:keys]
    if rng.random() < 0.08:
        db.execute(f"DELETE FROM {table} WHERE {where}", key)
        return f"{table}: row {key} deleted"
    at = int(rng.integers(len(columns))) if rng.random() < 0.5 else len(columns) - 1
    before = row[at]
    if isinstance(before, bytes) and table == "models":
        row[at] = mutated_model(before, rng)[0]
    elif isinstance(before, bytes) and (table == "unsynced" or columns[at] == "slots"):
        row[at] = altered_slots(before, rng) if columns[at] == "slots" else altered_bytes(before, rng)
    elif columns[at] == "json" and isinstance(before, str):
        row[at] = TEXTS[rng.integers(len(TEXTS))]
    elif isinstance(before, bytes):
        row[at] = altered_blob(before, rng)
    elif columns[at] == "value":
        row[at] = json.dumps(altered_json(json.loads(before), rng))
    else:
        value = altered_json(before, rng)
        row[at] = value if isinstance(value, (int, float, str, type(None))) else str(value)
        if isinstance(row[at], int) and abs(row[at]) >= 2**63:
            row[at] = 2**62
    sealed = [*row[:-1], checksum(row[-1])] if table == "unsynced" and isinstance(row[-1], bytes) else row
    values = [*row, checksum(*sealed)]
    names = ", ".join((*columns, "crc"))
    marks = ", ".join("?" * len(values))
    db.execute(f"DELETE FROM {table} WHERE {where}", key)
    db.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", values)
    return f"{table}.{columns[at]} of {key}: {str(before)[:80]!r} -> {str(row[at])[:80]!r}"


def alter_schema(db: sqlite3.Connection, rng: np.random.Generator) -> str:
    table = list(KEYS)[rng.integers(len(KEYS))]
    statements = (
        f"DROP TABLE {table}",
        f"ALTER TABLE {table} RENAME TO other",
        f"ALTER TABLE {table} ADD COLUMN more TEXT",
        f"DELETE FROM {table}",
        "PRAGMA user_version = 99",
        "PRAGMA application_id = 7",
        f"CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    statement = statements[rng.integers(len(statements))]
    db.execute(statement)
    return statement


def alter_files(path: Path, rng: np.random.Generator) -> str:
    """Bytes of a file, or the header of a segment with a checksum that fits."""
    files = sorted(one for one in path.iterdir() if one.name != "lock")
    file = files[rng.integers(len(files))]
    raw = file.read_bytes()
    if file.suffix == ".seg" and rng.random() < 0.5:
        head = bytearray(raw[:48])
        at = int(rng.integers(8, 48))
        head[at] = int(rng.integers(256))
        raw = bytes(head) + struct.pack("<I", checksum(bytes(head))) + raw[52:]
        file.write_bytes(raw)
        return f"{file.name}: header, byte {at}"
    file.write_bytes(altered_bytes(raw, rng))
    return f"{file.name}: bytes"


def alter(path: Path, rng: np.random.Generator) -> str:
    if rng.random() < 0.15:
        return alter_files(path, rng)
    db = sqlite3.connect(path / "table.sqlite", isolation_level=None)
    try:
        done = []
        for _ in range(1 if rng.random() < 0.7 else 3):
            try:
                done.append(alter_schema(db, rng) if rng.random() < 0.05 else alter_row(db, rng))
            except (sqlite3.Error, ArithmeticError, LookupError, TypeError, ValueError) as error:
                done.append(f"not done ({error})")
        return "; ".join(done)
    finally:
        db.close()


# ---- cases


def try_case(seed: int, case: int, folder: Path) -> str:
    """What became of one case: "worked", "refused", or "problem" and a sentence."""
    rng = np.random.default_rng([seed, case])
    whole = folders()
    path = folder / "table"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(whole[rng.integers(len(whole))], path)
    what = alter(path, rng)
    try:
        use(path, rng)
    except TableError as error:
        return "refused" if str(error) else f"problem {what}: an error without a word"
    except hs.DivergenceError:
        return "worked"
    except BaseException as error:
        return f"problem {what}: {error!r}: {traceback.format_exc()[-700:]!r}"
    return "worked"


def use(path: Path, rng: np.random.Generator) -> None:
    """Open a table, ask everything of it, and change it."""
    if rng.random() < 0.3:
        with HashTable.open(path, mode="read") as reader:
            ask(reader)
        return
    with HashTable.open(path) as table:
        ask(table)
        new: list[Any] = [7000, 7001, 7002]
        if table._state.view.column is not None and table._state.view.column.kind == "str":
            new = [f"new {one}" for one in new]
        labels: list[Any] = ["class 1", "class 2", "class 0"] if isinstance(new[0], str) else [1, 2, 0]
        steps: list[Callable[[], Any]] = [
            lambda: table.ingest(new, X[:3], labels, payloads=[{}, None, {"a": 1}]),
            lambda: table.label(table.ids()[:9], (labels * 3)[: len(table.ids()[:9])]),
            table.refresh,
            lambda: table.remove(new[:1]),
            table.compact,
        ]
        if not table.keeps_features:
            del steps[1]  # it needs features
        for step in steps:
            step()
        ask(table)
    with HashTable.open(path) as table:
        ask(table)


def ask(table: HashTable) -> None:
    n = max(1, len(table))
    _, ids = table.search(X[:3], n)
    table.search(X[:3], 5, asymmetric=True)
    table.search_radius(X[:3], 4)
    held = table.get(ids[0][:20])
    assert len(held.labels) == len(ids[0][:20])
    for name, kind in table.fields.items():
        table.count({name: {"$exists": True}})
        table.ids({name: OPERANDS[kind][0]})
    table.count({"label": {"$in": [1, "class 1"]}})
    table.search(X[:2], 3, where={"label": {"$exists": True}}, include=("labels", "fields", "payloads"))
    table.get(table.ids())
    table.stats()
    table.check()
    assert table.created_with.n_bits == table.hasher.n_bits


if __name__ == "__main__":
    runner.main("tests.fuzz.folders", __doc__, try_case, folders)
