"""Kinds of folders that can be served: tables, and whatever has the methods of one and is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.table import Call, Commit, HashTable, Items, RadiusResult, SearchResult, Settings, TableStats

__all__ = ["TABLES", "Servable", "TableKind", "Writes", "kind_of"]


class Writes(Protocol):
    """Does calls that came together; each keeps its own outcome."""

    def do(self, calls: Sequence[Call]) -> None: ...


class Servable(Protocol):
    """The methods of `HashTable` that the service needs."""

    @property
    def path(self) -> Path | None: ...
    @property
    def hasher(self) -> OnlineHasher: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def keeps_features(self) -> bool: ...
    @property
    def in_doubt(self) -> bool: ...
    @property
    def n_features(self) -> int | None: ...
    @property
    def dtype(self) -> np.dtype[Any] | None: ...
    @property
    def id_kind(self) -> Literal["int", "str"] | None: ...
    @property
    def fields(self) -> dict[str, str]: ...
    @property
    def commits(self) -> int: ...
    @property
    def version(self) -> int | None: ...

    def __len__(self) -> int: ...
    def __contains__(self, one: Any) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...

    @property
    def search(self) -> Callable[..., SearchResult]: ...
    @property
    def search_radius(self) -> Callable[..., RadiusResult]: ...
    @property
    def get(self) -> Callable[..., Items]: ...
    @property
    def ids(self) -> Callable[..., np.ndarray]: ...
    @property
    def count(self) -> Callable[..., int]: ...
    @property
    def remove(self) -> Callable[..., int]: ...
    @property
    def refresh(self) -> Callable[..., int]: ...
    @property
    def declare(self) -> Callable[..., None]: ...
    @property
    def check(self) -> Callable[..., dict[str, int]]: ...
    @property
    def snapshot(self) -> Callable[..., None]: ...

    def sample_ids(self) -> np.ndarray: ...
    def stats(self) -> TableStats: ...
    def compact(self) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def writer(self) -> Writes: ...


@dataclass(frozen=True)
class TableKind:
    """A kind of folder that can be served.

    exists : whether a folder is of this kind.
    open : opens it. read_only : it shall follow what others write. told : is called after every commit.
    name : with an article, for sentences. removable : whether all of it is in the folder, so that it can be deleted.
    """

    name: str
    exists: Callable[[Path], bool]
    open: Callable[[Path, bool, Callable[[Commit], None]], Servable]
    removable: bool = True


def _open_table(path: Path, read_only: bool, told: Callable[[Commit], None]) -> HashTable:
    if read_only:
        return HashTable.open(path, mode="read", follow=True)
    return HashTable.open(path, on_commit=told)


TABLES = TableKind("a table", HashTable.exists, _open_table)


def kind_of(folder: Path, kinds: Sequence[TableKind]) -> TableKind | None:
    """The kind of a folder; None where it is none of them."""
    return next((kind for kind in kinds if kind.exists(folder)), None)
