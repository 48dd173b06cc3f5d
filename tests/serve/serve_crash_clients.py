"""Clients of a service that is killed again and again: they repeat a request with its key until it is acknowledged.

Each `Writer` has ids of its own and knows what they hold: what was acknowledged, and what the request under way would
change. So it is known for every item what has to be there. All clients are threads of one process, and stop at a `Gate`
while the service is judged.
"""

from __future__ import annotations

import http.client
import io
import json
import random
import tarfile
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.serve.serve_crash_calls import RETRY, Caller, Gate, Wrong

from hashstream.table import HashTable

D, CLASSES = 8, 5
IDS = 30  # of each writer
TABLE = "/v1/tables/items"


@dataclass(frozen=True)
class Item:
    """An item as it has to be stored. learned : whether the model has learned its label."""

    features: list[float]
    label: Any
    fields: dict[str, Any]
    payload: Any
    learned: bool = False

    def shown(self) -> tuple[Any, ...]:
        """As the service shows it."""
        return self.features, self.label, self.fields, self.payload


@dataclass(frozen=True)
class Request:
    """A write: what it sends, what it leaves of the writer's items, and what has to be answered."""

    path: str
    body: dict[str, Any]
    key: str
    after: dict[Any, Item]
    learned: int  # rows that the model has learned from this writer afterwards
    answer: dict[str, int]
    as_arrays: bool = False

    def encoded(self) -> tuple[bytes, dict[str, str]]:
        """Bytes and headers."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": self.key}
        if not self.as_arrays:
            return json.dumps(self.body).encode(), headers
        rest = {name: value for name, value in self.body.items() if name not in ("ids", "vectors")}
        file = io.BytesIO()
        np.savez(
            file,
            ids=np.array(self.body["ids"]),
            vectors=np.array(self.body["vectors"], np.float32),
            json=np.array(json.dumps(rest)),
        )
        return file.getvalue(), {**headers, "Content-Type": "application/x-npz"}


class Client(threading.Thread, ABC):
    """A thread that makes requests until the gate says that it is to end. counts : of what it did."""

    def __init__(self, port: int, gate: Gate, counts: Counter[str], failures: list[str]) -> None:
        super().__init__(daemon=True)
        self.gate, self.counts, self.failures = gate, counts, failures
        self.caller = Caller(port, gate)

    def run(self) -> None:
        try:
            while not self.gate.ending:
                self.step()
            self.last()
        except Exception as error:
            self.failures.append(f"{type(self).__name__}: {type(error).__name__}: {error}")
        finally:
            self.caller.close()
            self.gate.leave()

    @abstractmethod
    def step(self) -> None:
        """Make one request."""

    def last(self) -> None:
        """After the last step."""


class Writer(Client):
    """Writes items with ids of its own, one request after the other, and knows what they hold.

    items, learned : what was acknowledged. pending : the request that is under way. turn : grows with every change of
    these. corrects : whether the method takes labels back.
    """

    def __init__(
        self,
        number: int,
        seed: int,
        corrects: bool,
        port: int,
        gate: Gate,
        counts: Counter[str],
        failures: list[str],
    ) -> None:
        super().__init__(port, gate, counts, failures)
        self.number, self.corrects = number, corrects
        self.prefix = f"{seed}-{number}"
        self.rng = random.Random(f"{seed} writer {number}")
        self.text_ids, self.text_labels = seed % 2 == 1, seed % 3 == 1
        self.ids: list[Any] = [self._id(i) for i in range(IDS)]
        self.items: dict[Any, Item] = {}
        self.learned = 0
        self.pending: Request | None = None
        self.keys: list[str] = []  # of acknowledged requests
        self.turn = 0

    def _id(self, i: int) -> Any:
        return f"item {self.number}/{i}" if self.text_ids else 1000 * self.number + i

    # ---- one request after the other

    def step(self) -> None:
        if self.pending is None:
            self.pending = self.plan()
            self.turn += 1
        self.settle(self.pending)
        if self.pending is None and self.rng.random() < 0.2:
            self.look()

    def last(self) -> None:
        while self.pending is not None:
            self.settle(self.pending)

    def settle(self, request: Request) -> None:
        """One attempt at the request that is under way."""
        body, headers = request.encoded()
        try:
            status, raw = self.caller.send(f"{TABLE}/{request.path}", body, headers)
        except (OSError, http.client.HTTPException):
            self.counts["broken"] += 1
            return
        if status in RETRY:
            self.counts["refused for now"] += 1
            time.sleep(0.05)
            return
        answer = json.loads(raw)
        if status != 200 or answer != request.answer:
            raise Wrong(
                f"{request.path} with the key {request.key} is answered with {status} {answer}, not {request.answer}"
            )
        self.items, self.learned, self.pending = request.after, request.learned, None
        self.keys.append(request.key)
        self.turn += 1
        self.counts["acknowledged"] += 1

    def look(self) -> None:
        """What was acknowledged can be read at once."""
        ids = [one for one in self.items if self.rng.random() < 0.5]
        if not ids:
            return
        try:
            found = shown(self.caller.ask(f"{TABLE}/items/get", {"ids": ids, "features": True}))
        except (OSError, http.client.HTTPException):
            return
        for one in ids:
            if found[one] != self.items[one].shown():
                raise Wrong(f"{one!r} was acknowledged as {self.items[one]}, but {found[one]} is read")
        self.counts["looks"] += 1

    # ---- requests

    def plan(self) -> Request:
        kinds = ["ingest"] * 5 + ["add"] * 2
        if self.items:
            kinds += ["label"] * 4 + ["remove"] * 2 + ["remove where"]
        kind = self.rng.choice(kinds)
        if kind in ("ingest", "add"):
            return self._rows(learn=kind == "ingest")
        if kind == "label":
            return self._labels()
        return self._removal(where=kind == "remove where")

    def _key(self) -> str:
        return f"{self.prefix}-{len(self.keys)}"

    def _label(self) -> Any:
        if self.rng.random() < 0.25:
            return None
        label = self.rng.randrange(CLASSES)
        return f"class {label}" if self.text_labels else label

    def _rows(self, learn: bool) -> Request:
        ids = self.rng.sample(self.ids, self.rng.randint(1, 10))
        new = {}
        for one in ids:
            features = np.array([self.rng.gauss(0, 1) for _ in range(D)], np.float32).tolist()
            label = self._label()
            fields = {
                "tenant": self.rng.choice([f"{self.number} a", f"{self.number} b", None]),
                "price": self.rng.choice([self.rng.random(), None]),
            }
            payload = self.rng.choice(
                [None, {"n": self.rng.randrange(99), "text": "é" * self.rng.randrange(9)}]
            )
            new[one] = Item(features, label, fields, payload, learn and label is not None)
        body = {
            "ids": ids,
            "vectors": [item.features for item in new.values()],
            "labels": [item.label for item in new.values()],
            "fields": {name: [item.fields[name] for item in new.values()] for name in ("tenant", "price")},
            "payloads": [item.payload for item in new.values()],
            "learn": learn,
        }
        learned = self.learned + sum(item.learned for item in new.values())
        answer = {"stored": len(ids)}
        arrays = self.rng.random() < 0.5
        return Request("items", body, self._key(), {**self.items, **new}, learned, answer, arrays)

    def _labels(self) -> Request:
        """Labels for stored items. One that was learned and is replaced is taken out of the model by some methods."""
        ids = self.rng.sample(sorted(self.items), self.rng.randint(1, min(6, len(self.items))))
        labels = [self._label() for _ in ids]
        after, learned, changed = dict(self.items), self.learned, 0
        for one, label in zip(ids, labels, strict=True):
            old = self.items[one]
            if old.label == label and (label is None or old.learned):
                continue
            changed += 1
            learned += (label is not None) - (self.corrects and old.learned)
            after[one] = replace(old, label=label, learned=label is not None)
        body = {"ids": ids, "labels": labels}
        return Request("labels", body, self._key(), after, learned, {"changed": changed})

    def _removal(self, where: bool) -> Request:
        if where:
            tenant = f"{self.number} {self.rng.choice('ab')}"
            body: dict[str, Any] = {"where": {"tenant": tenant}}
            ids = [one for one, item in self.items.items() if item.fields["tenant"] == tenant]
        else:
            ids = self.rng.sample(sorted(self.items), self.rng.randint(1, min(4, len(self.items))))
            body = {"ids": ids}
        after = {one: item for one, item in self.items.items() if one not in set(ids)}
        return Request("items/remove", body, self._key(), after, self.learned, {"removed": len(ids)})


def shown(answer: dict[str, Any]) -> dict[Any, tuple[Any, ...]]:
    """Items of an answer by their ids, as `Item.shown` has them."""
    return {
        one: (
            answer["features"][at],
            answer["labels"][at],
            {name: values[at] for name, values in answer["fields"].items()},
            answer["payloads"][at],
        )
        for at, one in enumerate(answer["ids"])
    }


class Searcher(Client):
    """Searches; an item that was acknowledged as removed, and not stored since, is never found."""

    def __init__(self, seed: str, writers: list[Writer], *given: Any) -> None:
        super().__init__(*given)
        self.rng, self.writers = random.Random(seed), writers
        self.owner = {one: writer for writer in writers for one in writer.ids}

    def step(self) -> None:
        turns = [writer.turn for writer in self.writers]
        query = [self.rng.gauss(0, 1) for _ in range(D)]
        try:
            found = self.caller.ask(f"{TABLE}/search", {"vectors": [query], "k": 20, "include": ["labels"]})
        except (OSError, http.client.HTTPException):
            return
        (distances,), (ids,) = found["distances"], found["ids"]
        if distances != sorted(distances) or len(set(ids)) != len(ids) or len(found["labels"][0]) != len(ids):
            raise Wrong(f"a search is answered with {found}")
        for one in ids:
            writer = self.owner[one]
            held, pending, turn = writer.items, writer.pending, writer.turn
            may_be = held.keys() | (pending.after.keys() if pending is not None else set())
            if turn == turns[writer.number] == writer.turn and one not in may_be:
                raise Wrong(f"a search finds {one!r}, which is not stored")
        self.counts["searches"] += 1


class Keeper(Client):
    """Compacts, checkpoints, re-encodes, checks and copies the table now and then."""

    def __init__(self, seed: str, folder: Path, *given: Any) -> None:
        super().__init__(*given)
        self.rng, self.folder = random.Random(seed), folder

    def step(self) -> None:
        what = self.rng.choice(["compact", "flush", "refresh", "check", "snapshot"])
        try:
            if what == "snapshot":
                self._snapshot()
            else:
                self.caller.ask(f"{TABLE}/{what}")
            self.counts[what] += 1
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(self.rng.random() * 0.2)

    def _snapshot(self) -> None:
        """A copy is a table that is right in itself."""
        status, raw = self.caller.send(f"{TABLE}/snapshot", method="GET")
        if status != 200:
            raise ConnectionResetError(f"a snapshot is answered with {status}")
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
                archive.extractall(folder, filter="data")
            with HashTable.open(Path(folder) / "items", mode="read") as table:
                table.check(sample=1000)
