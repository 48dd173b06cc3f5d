"""The same program on a table in a folder and on one of a service, and a comparison of all that they answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hashstream as hs
from hashstream.hashers.serialization import to_bytes
from hashstream.table import RadiusResult, SearchResult

Scenario = Callable[["World"], None]

_numbers = itertools.count()


class World:
    """A place for tables. answers : that were recorded, in their order."""

    def __init__(self, opened: Callable[..., Any], folder: Path) -> None:
        self._opened = opened
        self.folder = folder  # for files of its own
        self.answers: list[tuple[str, Any]] = []

    def open(self, method: str = "FCOH", n_bits: int = 32, **settings: Any) -> Any:
        """A new table, which learns the same in every world."""
        return self._opened(method, n_bits, **settings)

    def note(self, what: str, answer: Any) -> None:
        self.answers.append((what, answer))

    def fails(self, what: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Note the error of a call, its class and its sentence; that it has none is an answer as well."""
        found: tuple[str, Any]
        try:
            found = ("no error", call(*args, **kwargs))
        except Exception as error:
            found = (type(error).__name__, str(error).replace(str(self.folder), "FOLDER"))
        self.answers.append((what, found))


SETTINGS = (
    "fields",
    "policy",
    "durability",
    "keep_features",
    "max_versions",
    "sample_size",
    "checkpoint_rows",
)


@contextmanager
def local_world(folder: Path) -> Iterator[World]:
    tables: list[Any] = []

    def opened(method: str, n_bits: int, **settings: Any) -> Any:
        given = {name: settings.pop(name) for name in SETTINGS if name in settings}
        hasher = hs.methods()[method](n_bits=n_bits, **{"random_state": 0, **settings})
        tables.append(hs.HashTable.open(folder / f"t{len(tables)}", hasher, **given))
        return tables[-1]

    (folder / "files").mkdir(parents=True)
    try:
        yield World(opened, folder / "files")
    finally:
        for table in tables:
            table.close()


@contextmanager
def remote_world(client: hs.Client, folder: Path) -> Iterator[World]:
    names: list[str] = []

    def opened(method: str, n_bits: int, **settings: Any) -> Any:
        names.append(f"t{next(_numbers)}")
        return client.create(names[-1], method, n_bits, **{"random_state": 0, **settings})

    (folder / "files").mkdir(parents=True)
    try:
        yield World(opened, folder / "files")
    finally:
        for name in names:
            client.delete(name)


def differences(a: Any, b: Any, at: str = "") -> list[str]:
    """Where two answers differ: in type, dtype, shape, order, or a bit of a number."""
    if type(a) is not type(b):
        return [f"{at}: {type(a).__name__} {a!r:.200} and {type(b).__name__} {b!r:.200}"]
    if isinstance(a, np.ndarray):
        if (a.dtype, a.shape, a.flags.writeable) != (b.dtype, b.shape, b.flags.writeable):
            kinds = [f"{x.dtype} {x.shape}, writeable {x.flags.writeable}" for x in (a, b)]
            return [f"{at}: {kinds[0]} and {kinds[1]}"]
        if a.dtype != object:
            return [] if a.tobytes() == b.tobytes() else [f"{at}: {a!r:.300} and {b!r:.300}"]
        return _each(zip(a.ravel(), b.ravel(), strict=True), at)
    if isinstance(a, (SearchResult, RadiusResult)):
        found = _each(zip(a, b, strict=True), at)
        for name in ("labels", "fields", "payloads"):
            found += differences(getattr(a, name), getattr(b, name), f"{at}.{name}")
        return found
    if isinstance(a, hs.OnlineHasher):
        return [] if _digest(a) == _digest(b) else [f"{at}: {a!r} and {b!r} have learned different things"]
    if is_dataclass(a) and not isinstance(a, type):
        names = [one.name for one in fields(a) if one.name != "sequences"]  # which are not sent over HTTP
        return [d for name in names for d in differences(getattr(a, name), getattr(b, name), f"{at}.{name}")]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [f"{at}: keys {list(a)} and {list(b)}"]
        return [d for name in a for d in differences(a[name], b[name], f"{at}[{name!r}]")]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{at}: {a!r:.200} and {b!r:.200}"]
        return _each(zip(a, b, strict=True), at)
    return [] if repr(a) == repr(b) else [f"{at}: {a!r:.300} and {b!r:.300}"]


def _digest(hasher: hs.OnlineHasher) -> str:
    """The checksum over all that a hasher is: the bytes around it are in any order."""
    raw = to_bytes(hasher)
    head = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return str(head["__metadata__"]["sha256"])


def _each(pairs: Any, at: str) -> list[str]:
    return [found for i, (a, b) in enumerate(pairs) for found in differences(a, b, f"{at}[{i}]")]


def compared(scenario: Scenario, client: hs.Client, folder: Path) -> tuple[int, list[str]]:
    """Run a scenario in both worlds: how many answers were compared, and a sentence for each that differs."""
    with local_world(folder / "local") as local:
        scenario(local)
        with remote_world(client, folder / "remote") as remote:
            scenario(remote)
    assert [what for what, _ in local.answers] == [what for what, _ in remote.answers]
    pairs = zip(local.answers, remote.answers, strict=True)
    return len(local.answers), [text for (what, a), (_, b) in pairs for text in differences(a, b, what)]
