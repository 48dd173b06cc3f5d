"""A service with a small table, for many tests of one file, and a check that a request has changed nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tests.serve.running import Running
from tests.table.fingerprints import differences, fingerprint

from hashstream.table import HashTable
from hashstream.table.storage.folder import failpoints

FIELDS = {"tenant": "str", "n": "int", "price": "float", "sold": "bool", "at": "datetime", "tags": "list"}
N, D = 60, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
LABELS = ["cat", "dog", None] * (N // 3)
COLUMNS: dict[str, list[Any]] = {
    "tenant": [["a", "b"][i % 2] for i in range(N)],
    "n": list(range(N)),
    "price": [i / 4 for i in range(N)],
    "sold": [i % 3 == 0 for i in range(N)],
    "at": [f"2024-01-{1 + i % 28:02}T00:00:00" for i in range(N)],
    "tags": [["x", f"t{i % 5}"] for i in range(N)],
}
PAYLOADS: list[Any] = [{"title": f"item {i}", "i": i} if i % 4 else None for i in range(N)]
ITEMS = {
    "ids": list(range(N)),
    "vectors": X.tolist(),
    "labels": LABELS,
    "fields": COLUMNS,
    "payloads": PAYLOADS,
}
CREATE = {"method": "FCOH", "n_bits": 16, "fields": FIELDS, "parameters": {"random_state": 0}}


def create(service: Running, name: str = "a", **more: Any) -> str:
    """Create an empty table; its address."""
    answer = service.post("/v1/tables", {"name": name, **CREATE, **more})
    assert answer.status == 201, answer.raw
    return f"/v1/tables/{name}"


def fill(service: Running, name: str = "a", **more: Any) -> str:
    """Create a table with 60 items; its address."""
    address = create(service, name, **more)
    answer = service.post(f"{address}/items", ITEMS)
    assert (answer.status, answer.body) == (200, {"stored": N}), answer.raw
    return address


def table_of(service: Running, name: str = "a") -> HashTable:
    return service.service.tables[name].table()


def contents(service: Running, name: str = "a") -> dict[str, Any]:
    """Everything that the table holds and answers."""
    return fingerprint(table_of(service, name), X[:5])


@contextmanager
def unchanged(service: Running, name: str = "a") -> Iterator[None]:
    """The block changes nothing in the table."""
    commits, before = table_of(service, name).commits, contents(service, name)
    yield
    assert table_of(service, name).commits == commits, "something was committed"
    assert not differences(contents(service, name), before)


class Errors(logging.Handler):
    """Records of the log that speak of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


@contextmanager
def no_errors_logged() -> Iterator[None]:
    """The block logs no error, in any thread, by any logger."""
    errors = Errors()
    logging.getLogger().addHandler(errors)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(errors)
    assert not errors.texts, "\n".join(errors.texts)


def item(number: int, **more: Any) -> dict[str, Any]:
    """A request to store one item."""
    return {"ids": [number], "vectors": [[1.0, 2.0, 3.0, 4.0]], **more}


def key(text: str) -> dict[str, str]:
    return {"Idempotency-Key": text}


def until(true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 90
    while not true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.01)


class Held:
    """Whoever comes by waits until `go` is set; `here` : one has come."""

    def __init__(self) -> None:
        self.here, self.go = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.here.set()
        assert self.go.wait(90)


@contextmanager
def writer_held() -> Iterator[Held]:
    """Hold the writer before its commit."""
    held = Held()
    with failpoints.on("commit.before", held):
        try:
            yield held
        finally:
            held.go.set()
