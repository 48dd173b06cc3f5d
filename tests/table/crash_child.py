"""What a child process does to a table until it is killed: settings and operations, all of them given by a seed.

`live` is one life. It acknowledges every call that has returned, so that whoever kills it knows what was promised.
In some lives every call comes from another thread, and in some the process forks, and the fork tries to write too.
`read` is the life of a reader of the same folder.
The same operations, done to another folder by a process that nobody kills, say what has to be there.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.table.fingerprints import wrong_answers
from tests.table.table_worlds import CLASSES, rows

import hashstream as hs
from hashstream.hashers.features import RBFAnchors
from hashstream.table import (
    Call,
    Eager,
    Every,
    Gated,
    Grown,
    HashTable,
    Lazy,
    Never,
    Partial,
    Policy,
    Projected,
    TableError,
    comparing,
)
from hashstream.table.state import reencode
from hashstream.table.state import view as view_module
from hashstream.table.storage.folder import compact, database, failpoints
from hashstream.table.storage.folder import storage as storage_module

N_BITS = 20
RETRIES = 4  # operations of the last life that a life repeats
KEYED = ("ingest", "add", "label", "annotate", "remove", "remove where")  # operations that take a key

HASHERS: list[Callable[[], hs.OnlineHasher]] = [
    lambda: hs.FCOH(n_bits=N_BITS, random_state=3, batch_size=8),
    lambda: hs.LSH(n_bits=N_BITS, random_state=3),
    lambda: hs.HCOH(n_bits=N_BITS, random_state=3),
    lambda: hs.FCOH(n_bits=N_BITS, random_state=3, batch_size=8, feature_map=RBFAnchors(6)),
    lambda: hs.MIHash(n_bits=N_BITS, random_state=3, reservoir_size=10),
    lambda: hs.RidgeHash(n_bits=N_BITS, random_state=3, batch_size=8),
    lambda: hs.SketchHash(n_bits=8, random_state=np.random.default_rng(3), sketch_size=20, batch_size=10),
    lambda: hs.OSH(n_bits=N_BITS, random_state=3),
    lambda: hs.HMOH(n_bits=N_BITS, random_state=3),
    lambda: hs.BSODH(n_bits=N_BITS, random_state=3, batch_size=10),
    lambda: hs.ClassifierHash(n_bits=N_BITS, random_state=3),
    lambda: hs.PosteriorHash(n_bits=N_BITS, width=16, random_state=3),
]
POLICIES: list[Callable[[], Policy]] = [
    lambda: Every(2),
    Eager,
    Never,
    lambda: Gated(every=12, least=5),
    lambda: Grown(0.5),
    lambda: Projected(k=3),
    lambda: Partial(bits=5, k=2),
    lambda: Lazy(share=0.9, piece=3),
]

TENANTS = ("a", "b", "c é", "")
VALUES: dict[str, Callable[[np.random.Generator], Any]] = {
    "tenant": lambda rng: str(rng.choice(TENANTS)),
    "price": lambda rng: float(rng.random()),
    "count": lambda rng: int(rng.integers(-3, 9)),
    "fresh": lambda rng: bool(rng.random() < 0.5),
    "taken": lambda rng: datetime(2024, 1, 1) + timedelta(seconds=int(rng.integers(10**6))),
    "tags": lambda rng: rng.permutation(["red", "green", "blue"])[: rng.integers(4)].tolist(),
}
FIELDS: list[tuple[str, Any]] = [
    ("tenant", str), ("price", float), ("count", int), ("fresh", bool), ("taken", "datetime"), ("tags", list),
]  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """One call. `name` : a method of the table, "reopen", or "group" for calls that share a commit. ids, X, y, fields,
    payloads, argument, key, sequence : what it is given."""

    name: str
    ids: list[Any] | None = None
    X: np.ndarray | None = None
    y: np.ndarray | None = None
    argument: Any = None
    fields: dict[str, list[Any]] | None = None
    payloads: list[dict[str, Any] | None] | None = None
    calls: tuple[Operation, ...] = ()
    key: str | None = None
    sequence: list[int] | int | None = None

    @property
    def is_keyed(self) -> bool:
        return self.key is not None or any(call.key is not None for call in self.calls)

    def __str__(self) -> str:
        given = [] if self.ids is None else [f"{len(self.ids)} ids from {self.ids[0]!r}"]
        given += map(str, self.calls)
        return f"{self.name}({', '.join(given + ([] if self.argument is None else [str(self.argument)]))})"


class Held(NamedTuple):
    """An item that is stored. number : -1 for none."""

    tenant: str | None
    number: int


class World:
    """A table's settings and its operations, by a seed. Consecutive seeds pass through all methods and policies."""

    def __init__(self, seed: int, n_operations: int = 40, durability: str = "") -> None:
        self.seed = seed
        self.forks, self.threads = seed % 4 == 1, seed % 4 == 2
        self.numbered = seed % 5 < 2  # rows have sequence numbers, of which some come late
        rng = np.random.default_rng([seed, 1])
        self.lazy = isinstance(self.policy(), Lazy)
        self.text_ids = bool(rng.random() < 0.5)
        self.labels = str(
            rng.choice(["int", "str", "matrix"] if self.hasher().multilabel else ["int", "str"])
        )
        self.dtype = np.float32 if rng.random() < 0.7 else np.float64
        self.settings: dict[str, Any] = {
            "durability": ["full", "fast"][int(rng.random() < 0.2)],
            "max_versions": int(rng.choice([1, 2, 3, 16])),
            "checkpoint_rows": int(rng.choice([10, 25, 60, 100_000])),
            "segment_bytes": int(rng.choice([1, 1000, 5000, 1 << 30])),
            "sample_size": int(rng.choice([0, 8, 30])),
        }
        if durability:
            self.settings["durability"] = durability
        if isinstance(self.policy(), Partial | Projected):  # which learn from the sample
            self.settings["sample_size"] = max(8, self.settings["sample_size"])
        if isinstance(
            self.policy(), Partial
        ):  # which re-encodes all bits where there is place for one version only
            self.settings["max_versions"] = max(2, self.settings["max_versions"])
        self.limits = {
            "LOG_ROWS": int(rng.choice([3, 6, 12, 1000])),
            "WAL_PAGES": int(rng.choice([1, 20, 16384])),
            "PIECE": int(rng.choice([3, 7, 1 << 16])),
            "FEW_DEAD": int(rng.choice([2, 1024])),
            "MANY": int(rng.choice([5, 4096])),
            "LEAST_ROWS": int(rng.choice([10, 500])),
            "MOST_KEYS": 30 if seed % 2 else 100_000,
        }
        self.queries = rows(rng, 4)[0].astype(self.dtype)
        self.operations = self._operations(rng, n_operations)

    def hasher(self) -> hs.OnlineHasher:
        return HASHERS[self.seed % len(HASHERS)]()

    def policy(self) -> Policy:
        """In every fourth world one further on, so that each policy meets every method, forks and threads."""
        policy = POLICIES[(self.seed + self.seed // 4) % len(POLICIES)]()
        try:
            policy.check_hasher(self.hasher())
        except ValueError:
            return Every(2)
        return policy

    def __str__(self) -> str:
        kinds = f"{'str' if self.text_ids else 'int'} ids, {self.labels} labels, {np.dtype(self.dtype)}"
        return f"{self.hasher()}, {type(self.policy()).__name__}, {kinds}, {self.settings}, {self.limits}"

    def _operations(self, rng: np.random.Generator, n: int) -> list[Operation]:
        shares = {
            "ingest": 7, "add": 2, "group": 1.5, "label": 3, "annotate": 1, "remove": 2, "remove where": 1,
            "declare": 1, "refresh": 3, "adopt": 1.5, "flush": 1, "compact": 1.2, "snapshot": 1, "reopen": 1,
        }  # fmt: skip
        if not self.policy().keeps_features and self.hasher().needs_labels:
            del shares["label"]  # it needs features
        weights = np.array(list(shares.values()))
        declared = dict(FIELDS[: int(rng.integers(4))])
        self.first_fields = dict(declared)
        first = self._batch("ingest", rng, np.arange(24).tolist(), declared)
        if getattr(self.hasher(), "feature_map", None) is not None:  # which is warmed up on rows with a label
            first = replace(first, y=self._labels(rng, rng.integers(CLASSES, size=24)))
        if rng.random() < 0.25:
            first = replace(first, y=None)
        operations = [first]
        alive = self._stored({}, first)
        while len(operations) < n:
            name = str(rng.choice(list(shares), p=weights / weights.sum()))
            if name in ("ingest", "add"):
                size = 30 if rng.random() < 0.1 else int(rng.integers(1, 12))
                operation = self._batch(name, rng, rng.permutation(70)[:size].tolist(), declared)
            elif name == "group":
                pieces = np.array_split(
                    rng.permutation(70)[: int(rng.integers(4, 16))], int(rng.integers(1, 5))
                )
                kind = "ingest" if rng.random() < 0.7 else "add"
                calls = [self._batch(kind, rng, piece.tolist(), declared) for piece in pieces]
                if any(call.y is None for call in calls):  # or they may not share a commit
                    calls = [replace(call, y=None) for call in calls]
                operation = Operation(name, calls=tuple(calls))
            elif name == "remove where":
                tenant = str(rng.choice(TENANTS))
                if "tenant" not in declared:
                    continue
                operation = Operation(name, argument={"tenant": tenant}, sequence=self._guard(rng, None))
                gone = [one for one, held in alive.items() if held.tenant == tenant]
                alive = self._left(alive, gone, operation.sequence)
            elif name == "declare":
                operation = Operation(name, argument=dict([FIELDS[int(rng.integers(len(FIELDS)))]]))
                declared |= operation.argument
            elif name == "adopt":
                operation = self._batch(name, rng, np.arange(int(rng.integers(1, 12))).tolist(), {})
                budget = int(rng.integers(15)) if rng.random() < 0.6 else None
                y = self._labels(rng, rng.integers(CLASSES, size=len(operation.ids or [])))
                operation = replace(operation, y=y, argument=budget, payloads=None)
            elif name in ("remove", "label", "annotate"):
                if not alive:
                    continue
                ids = rng.permutation(np.array(sorted(alive), object))
                ids = ids[: int(rng.integers(1, 8)) if rng.random() < 0.95 else len(ids)].tolist()
                operation = Operation(name, ids, sequence=self._guard(rng, len(ids)))
                if name != "remove":
                    y = self._labels(rng, rng.integers(CLASSES, size=len(ids)))
                    if rng.random() < 0.3:  # some are taken back
                        y = y.astype(float if self.labels == "matrix" else object)
                        y[rng.random(len(y)) < 0.5] = np.nan if self.labels == "matrix" else None
                    operation = replace(operation, y=y)
                else:
                    alive = self._left(alive, ids, operation.sequence)
            else:
                budget = int(rng.integers(1, 15)) if name == "refresh" and rng.random() < 0.6 else None
                operation = Operation(name, argument=len(operations) if name == "snapshot" else budget)
            for call in operation.calls or (operation,):
                if call.X is not None and call.name != "adopt":
                    alive = self._stored(alive, call)
            operations.append(operation)
        return [self._keyed(i, one) for i, one in enumerate(operations)] if self.seed % 3 else operations

    def _keyed(self, index: int, operation: Operation) -> Operation:
        """The operation under a key, where it takes one."""
        if operation.name == "group":
            calls = [replace(call, key=f"call {index}.{i}") for i, call in enumerate(operation.calls)]
            return replace(operation, calls=tuple(calls))
        return replace(operation, key=f"call {index}") if operation.name in KEYED else operation

    @staticmethod
    def _stored(alive: dict[Any, Held], batch: Operation) -> dict[Any, Held]:
        """The items after a batch, of which rows are skipped that come late."""
        ids = batch.ids or []
        tenants = (batch.fields or {}).get("tenant", [None] * len(ids))
        numbers = [-1] * len(ids) if batch.sequence is None else batch.sequence
        assert isinstance(numbers, list)
        rows = {one: Held(*pair) for one, *pair in zip(ids, tenants, numbers, strict=True)}
        late = {one for one, row in rows.items() if one in alive and 0 <= row.number <= alive[one].number}
        return alive | {one: row for one, row in rows.items() if one not in late}

    def _guard(self, rng: np.random.Generator, n: int | None) -> list[int] | int | None:
        """Sequence numbers of a removal, or of labels, that leave newer items as they are."""
        kind = rng.random() if self.numbered else 1.0
        if kind > 0.7:
            return None
        return (
            int(rng.integers(-1, 110)) if n is None or kind < 0.2 else rng.integers(-1, 110, size=n).tolist()
        )

    @staticmethod
    def _left(alive: dict[Any, Held], gone: list[Any], sequence: list[int] | int | None) -> dict[Any, Held]:
        """The items after a removal."""
        if sequence is not None:
            limits = sequence if isinstance(sequence, list) else [sequence] * len(gone)
            gone = [one for one, limit in zip(gone, limits, strict=True) if alive[one].number <= limit]
        return {one: held for one, held in alive.items() if one not in set(gone)}

    def _labels(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        """Classes in the form that this world has for labels."""
        if self.labels == "matrix":
            others = np.eye(CLASSES, dtype=int)[rng.integers(CLASSES, size=len(y))]
            return np.asarray(np.eye(CLASSES, dtype=int)[y] | others)
        return y if self.labels == "int" else np.array([f"class {one}" for one in y], object)

    def _batch(
        self, name: str, rng: np.random.Generator, numbers: list[int], declared: dict[str, Any]
    ) -> Operation:
        ids: list[Any] = [f"item {one} é" for one in numbers] if self.text_ids else numbers
        X, y = rows(rng, len(ids))
        labels: np.ndarray | None = self._labels(rng, y)
        kind = rng.random()
        if kind < 0.1 or (name == "add" and kind < 0.6):
            labels = None
        elif kind > 0.7:  # some are missing
            assert labels is not None
            numeric = self.labels == "matrix" or (self.labels == "int" and kind > 0.85)
            labels = labels.astype(float if numeric else object)
            labels[rng.random(len(labels)) < 0.3] = np.nan if numeric else None
        fields = {
            field: [values(rng) if rng.random() < 0.8 else None for _ in ids]
            for field, values in VALUES.items()
            if field in declared and rng.random() < 0.8
        }
        payloads = [
            None if i % 3 == 0 else {"n": i, "text": "é" * int(rng.integers(9))} for i in range(len(ids))
        ]
        numbers = (np.arange(len(ids)) + 10 * rng.integers(10)).tolist()
        sequence = numbers if self.numbered and name != "adopt" and rng.random() < 0.8 else None
        return Operation(
            name,
            ids,
            X.astype(self.dtype),
            labels,
            fields=fields or None,
            payloads=payloads if rng.random() < 0.7 else None,
            sequence=sequence,
        )

    # ---- doing it

    def set_limits(self) -> None:
        """Small limits, so that a few rows pass through every path. For a process of its own, or `kept_limits`."""
        database.MOST_KEYS = self.limits["MOST_KEYS"]
        storage_module.LOG_ROWS = self.limits["LOG_ROWS"]
        database.WAL_PAGES = self.limits["WAL_PAGES"]
        reencode.PIECE = self.limits["PIECE"]
        compact.PIECE = self.limits["PIECE"]
        comparing.LEAST_ROWS, comparing.LEAST_ITEMS = self.limits["LEAST_ROWS"], 5
        view_module.FEW_DEAD, view_module.MANY = self.limits["FEW_DEAD"], self.limits["MANY"]

    def open(self, path: Path, **settings: Any) -> HashTable:
        """The table; a new one where there is none."""
        hasher = None if HashTable.exists(path) else self.hasher()
        fields = self.first_fields if hasher is not None else None
        return HashTable.open(
            path, hasher, fields=fields, policy=self.policy(), **{**self.settings, **settings}
        )

    def apply(self, table: HashTable, operation: Operation, snapshots: Path | None) -> tuple[HashTable, Any]:
        """Do one operation; the table to go on with, and what the call returned.

        snapshots : where copies go; None for a table that is never closed and copied.
        """
        name, ids = operation.name, operation.ids
        numbered: dict[str, Any] = {"sequence": operation.sequence, "key": operation.key}
        if name in ("ingest", "add"):
            store = table.ingest if name == "ingest" else table.add
            more = {"fields": operation.fields, "payloads": operation.payloads, **numbered}
            return table, store(ids, operation.X, operation.y, **more)
        if name == "group":
            return table, together(table, operation.calls)
        if name == "label":
            return table, table.label(ids, operation.y, **numbered)
        if name == "annotate":
            return table, table.label(ids, operation.y, learn=False, **numbered)
        if name == "adopt":
            learner = table.hasher
            learner.partial_fit(operation.X, operation.y)
            return table, table.adopt(learner, operation.argument)
        if name == "declare":
            return table, table.declare(operation.argument)
        if name == "remove where":
            return table, table.remove(where=operation.argument, **numbered)
        if name == "remove":
            return table, table.remove(ids, **numbered)
        if name == "refresh":
            return table, table.refresh(operation.argument)
        if name == "compact":
            return table, table.compact()
        if name == "flush":
            return table, table.flush()
        if snapshots is None:
            return table, None
        if name == "snapshot":
            target = snapshots / str(operation.argument)
            return table, None if target.exists() else table.snapshot(target)  # of a life that did not tell
        assert name == "reopen"
        path = table.path
        assert path is not None
        table.close()
        return self.open(path), None


def together(table: HashTable, operations: tuple[Operation, ...]) -> None:
    """Do calls of a writer in one commit; where they have keys, the first is given once more, and not done again."""
    calls = [
        Call(
            "ingest" if one.name == "ingest" else "add",
            (one.ids, one.X, one.y),
            {"fields": one.fields, "payloads": one.payloads, "sequence": one.sequence},
            one.key,
        )
        for one in (*operations, *(one for one in operations[:1] if one.key is not None))
    ]
    table.writer().do(calls)
    for call in calls:
        assert call.done
        if call.error is not None:
            raise call.error


def live(
    world: World,
    path: Path,
    snapshots: Path,
    start: int,
    acknowledge: Callable[[str], object],
    failpoint: str = "",
) -> None:
    """Open the table and do the operations from `start` on, each acknowledged as `index result`, or die of it.

    The last ones before `start` are repeated if they have keys, which must change nothing: `retried index result`.
    """
    world.set_limits()
    if failpoint:
        failpoints.kill_at(failpoint)
    table = world.open(path)
    acknowledge("open")
    for index in range(max(0, start - RETRIES), start):
        if (operation := world.operations[index]).is_keyed:
            acknowledge(f"retried {index} {json.dumps(world.apply(table, operation, None)[1])}")
    for index in range(start, len(world.operations)):
        operation = world.operations[index]
        if world.forks and index % 4 == 0:
            acknowledge(meddle(table, operation, world.queries))
        if world.threads:
            table, result = in_thread(partial(world.apply, table, operation, snapshots))
        else:
            table, result = world.apply(table, operation, snapshots)
        acknowledge(f"{index} {json.dumps(result)}")
        if world.lazy:
            time.sleep(0.001)  # for the other thread
    table.close()
    acknowledge("closed")


def in_thread(call: Callable[[], Any]) -> Any:
    """What a call returns, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def meddle(table: HashTable, operation: Operation, Q: np.ndarray) -> str:
    """A forked process searches, tries to write and closes its copy: "forked", or what went wrong with it."""

    def life(tell: Callable[[str], object]) -> None:
        table.search(Q, 3)
        try:
            if operation.X is not None:
                table.ingest(operation.ids, operation.X, operation.y)
            else:
                table.flush()
            tell("a fork was let in")
        except TableError as error:
            tell("forked" if "of which this one is a fork" in str(error) else str(error))
        table.close()

    child, pipe = fork(life)
    said = b""
    while piece := os.read(pipe, 1 << 16):
        said += piece
    os.close(pipe)
    os.waitpid(child, 0)
    line = said.decode().strip()
    return line if line == "forked" else f"error {json.dumps(line)}"


def read(path: Path, Q: np.ndarray, tell: Callable[[str], object]) -> None:
    """Read a table that another process writes, until somebody ends this one: every state has to be right in itself,
    and none older than the one before. Reports each read, and what was wrong."""
    reader, commits = None, -1
    while True:
        try:
            if reader is None:
                reader = HashTable.open(path, mode="read")
            else:
                reader.reload()
            before = reader.stats().commits
            if before < commits:
                tell(f"wrong: commit {before} after commit {commits}")
            commits = before
            try:
                wrong = wrong_answers(reader, Q)
            except KeyError as error:  # an id that is gone by then
                wrong = [str(error)]
            if reader.stats().commits == before:  # `get` and `check` may move it
                tell(f"wrong {wrong}" if wrong else "read")
        except TableError as error:
            if HashTable.exists(path) and "is not a table" not in str(error):
                tell(f"wrong {error}")
            reader = None
            time.sleep(0.002)


def fork(life: Callable[[Callable[[str], object]], None]) -> tuple[int, int]:
    """Run `life` in a child process; its id, and the reading end of the pipe to which it acknowledges.

    A fork, not a new interpreter: importing takes longer than a whole life. Nothing of this process may be open.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        life(lambda line: os.write(writing, line.encode() + b"\n"))
        os._exit(0)
    except BaseException:
        with suppress(OSError):
            os.write(writing, b"error " + json.dumps(traceback.format_exc()).encode() + b"\n")
        os._exit(1)
