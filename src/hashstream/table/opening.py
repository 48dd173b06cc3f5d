"""From a path and a hasher to a storage and its state: what must be true before a table is opened."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.validation import check_count
from hashstream.table.created import check_same_hasher
from hashstream.table.errors import SegmentMissing, TableError
from hashstream.table.following import await_table, check_wait, not_there
from hashstream.table.policies import Policy, parse
from hashstream.table.settings import Settings
from hashstream.table.state.columns import check_number_of_fields, field_kinds
from hashstream.table.state.sample import MAX_SIZE
from hashstream.table.state.state import State
from hashstream.table.storage.base import Storage
from hashstream.table.storage.folder.create import create_folder
from hashstream.table.storage.folder.names import is_table
from hashstream.table.storage.folder.storage import FolderStorage
from hashstream.table.storage.memory import MemoryStorage

__all__ = ["new_fields", "open_storage"]

SAMPLE_SIZE = 1000


def open_storage(
    path: str | os.PathLike[str] | None,
    hasher: OnlineHasher | None,
    *,
    fields: Mapping[str, Any] | None,
    mode: Literal["write", "read"],
    keep_features: bool | None,
    sample_size: int | None,
    given: Mapping[str, Any],
    wait: float = 0.0,
) -> tuple[Storage, State]:
    """The storage of a table and its last state; see `HashTable.open`. given : settings, None for one that is not."""
    if mode not in ("write", "read"):
        raise ValueError(f'mode must be "write" or "read", not {mode!r}')
    if hasher is not None and not isinstance(hasher, OnlineHasher):
        raise TypeError(f"hasher must be an OnlineHasher such as FCOH(n_bits=64), not {hasher!r}")
    if isinstance(given["policy"], str):
        given = {**given, "policy": parse(given["policy"])}
    Settings.default(OnlineHasher.refresh_policy, True).with_given(given)  # raises for what no table can have
    if sample_size is not None:
        sample_size = check_count("sample_size", sample_size, 0, MAX_SIZE)
    kinds = field_kinds({} if fields is None else fields)
    check_wait(wait, mode)
    folder = None if path is None else Path(path).resolve()  # a change of directory does not change it
    if folder is None or not (await_table(folder, wait) if wait else is_table(folder)):
        if mode == "read":
            raise TableError(not_there(path, wait))
        if folder is not None and (folder / "cluster.json").is_file():
            raise TableError(f"{path} is a cluster: open it with hashstream.scale.Cluster.open")
        if hasher is None:
            what = "a table in memory" if path is None else f"{path} is not a table yet; a new one"
            raise TableError(f"{what} needs a hasher=")
        keep = _keeps(given["policy"], keep_features)
        settings = Settings.default(hasher.refresh_policy, keep).with_given(given)
        settings.policy.check_hasher(hasher)
        state = _empty(hasher, SAMPLE_SIZE if sample_size is None else sample_size, keep, kinds)
        if folder is None:
            memory = MemoryStorage(state, settings, keep_features=keep)
            return memory, memory.load()
        if folder.exists() and not folder.is_dir():
            raise TableError(f"{folder} is a file, not the folder of a table")
        create_folder(folder, state, settings, keep_features=keep)
    storage, state = _open_folder(folder, mode, given)
    try:
        _compare(storage, state, hasher, keep_features, sample_size)
        new = new_fields(kinds, {name: values.kind for name, values in state.view.user_fields.items()})
        if new and mode == "read":
            raise TableError(f"{folder} has no field {next(iter(new))!r}, and a reader cannot declare one")
        if mode == "write":
            if given["policy"] is not None:
                given["policy"].check_hasher(state.model.hasher)
            storage.store_settings()
    except BaseException:
        storage.close()
        raise
    return storage, state


def _keeps(policy: Policy | None, keep_features: bool | None) -> bool:
    """Whether a new table keeps features: policy and keep_features have to agree where both are given."""
    if policy is None:
        return keep_features is not False
    if keep_features is not None and keep_features != policy.keeps_features:
        needs = "needs features" if policy.keeps_features else "keeps no features"
        raise ValueError(f"{type(policy).__name__} {needs}, but keep_features is {keep_features}")
    return policy.keeps_features


def _empty(hasher: OnlineHasher, sample_size: int, keep_features: bool, fields: Mapping[str, str]) -> State:
    """The state of a new table, with a hasher of its own."""
    if not keep_features and not sample_size:
        raise ValueError(
            "sample_size must be at least 1 where no features are kept: items are re-encoded by what the sample tells"
        )
    hasher = copy.deepcopy(hasher)
    hasher.__dict__.pop("feature_names_in_", None)  # columns count by their position here
    hasher.check_parameters()
    return State.empty(hasher, sample_size, fields)


def new_fields(given: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, str]:
    """Those of the fields that are not declared yet; ValueError where one is declared with another type."""
    for name, kind in given.items():
        if declared.get(name, kind) != kind:
            raise ValueError(f"field {name!r} is of type {declared[name]}, and cannot be declared as {kind}")
    new = {name: kind for name, kind in given.items() if name not in declared}
    check_number_of_fields(len(declared) + len(new))
    return new


def _open_folder(
    folder: Path, mode: Literal["write", "read"], given: Mapping[str, Any]
) -> tuple[FolderStorage, State]:
    """The folder and its state. A reader begins again where a writer has replaced files between two of its reads."""
    missing = ""
    while True:
        storage = None
        try:
            storage = FolderStorage(folder, mode=mode, given=given)
            return storage, storage.load()
        except BaseException as error:
            if storage is not None:
                storage.close()
            if mode == "write" or not isinstance(error, SegmentMissing) or str(error) == missing:
                raise
            missing = str(error)


def _compare(
    storage: FolderStorage,
    state: State,
    hasher: OnlineHasher | None,
    keep_features: bool | None,
    sample_size: int | None,
) -> None:
    """TableError where what was given is not what the table was created with."""
    folder, kept, stored = storage.path, storage.keep_features, state.model.hasher
    if hasher is not None:
        check_same_hasher(folder, hasher, stored, state.created)
        if hasattr(hasher, "n_seen_") and not _learned_the_same(hasher, stored):
            warnings.warn(
                f"what the given hasher has learned ({hasher.n_seen_:,} rows) is ignored: {folder} goes on from what "
                f"it has learned itself ({state.model.n_seen:,} rows). Leave hasher= out to open it",
                UserWarning,
                stacklevel=4,
            )
    for name, given, created in (
        ("keep_features", keep_features, kept),
        ("sample_size", sample_size, state.sample.size),
    ):
        if given is not None and given != created:
            raise TableError(f"{folder} was created with {name}={created}, which cannot be changed")
    policy = storage.settings.policy
    if storage.write and policy.keeps_features != kept:
        what = "features are stored" if kept else "no features are stored"
        raise TableError(f"{type(policy).__name__} does not suit {folder}, where {what}")


def _learned_the_same(given: OnlineHasher, stored: OnlineHasher) -> bool:
    if type(given) is not type(stored) or given.n_seen_ != getattr(stored, "n_seen_", 0):
        return False
    mine, other = given.encoder().arrays(), stored.encoder().arrays()
    return len(mine) == len(other) and all(map(np.array_equal, mine, other))
