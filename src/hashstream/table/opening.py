"""`HashTable.open`: what has to be true before a table is one."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.validation import check_count
from hashstream.table.codes import View
from hashstream.table.encoders import encoder_checksum, frozen
from hashstream.table.errors import SegmentMissing, TableError
from hashstream.table.folder import MANIFEST, FolderStore
from hashstream.table.integrity import refusing
from hashstream.table.making import make_folder
from hashstream.table.policies import Every, Policy, Projected
from hashstream.table.recovery import Recovered, recover
from hashstream.table.reservoir import MAX_SIZE, Reservoir
from hashstream.table.store import Store

if TYPE_CHECKING:
    from hashstream.table.table import HashTable

__all__ = ["config_of", "open_table"]


def open_table(
    cls: type[HashTable],
    path: Any,
    hasher: OnlineHasher | None,
    *,
    policy: Policy | None,
    durability: str,
    mode: str,
    keep_features: bool | None,
    max_versions: int,
    reservoir_size: int,
    checkpoint_rows: int,
    segment_bytes: int,
) -> HashTable:
    """See `HashTable.open`."""
    if durability not in ("full", "fast"):
        raise ValueError(f'durability is {durability!r}: it has to be "full" or "fast"')
    if mode not in ("write", "read"):
        raise ValueError(f'mode is {mode!r}: it has to be "write" or "read"')
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy must be a policy such as Every(100), not {policy!r}")
    if hasher is not None and not isinstance(hasher, OnlineHasher):
        raise TypeError(f"hasher must be an OnlineHasher such as FCOH(n_bits=64), not {hasher!r}")
    check_count("max_versions", max_versions, 1)
    check_count("reservoir_size", reservoir_size, 0, MAX_SIZE)
    check_count("checkpoint_rows", checkpoint_rows, 1)
    check_count("segment_bytes", segment_bytes, 1)
    settings: dict[str, Any] = {
        "write": mode == "write",
        "max_versions": max_versions,
        "checkpoint_rows": checkpoint_rows,
    }

    folder = None if path is None else Path(path).resolve()  # or another one, after a change of directory
    if folder is None or not FolderStore.is_table(folder):
        if mode == "read":
            raise TableError(f"{path} is not a table: there is no manifest in it")
        if hasher is None:
            what = "a table in memory" if path is None else f"{path} is not a table yet; a new one"
            raise TableError(f"{what} needs a hasher=")
        policy, keep = _agreed(policy, keep_features)
        if not keep and not reservoir_size:
            raise ValueError(
                "reservoir_size must be at least 1 where no features are kept: old codes are made anew by what its "
                "items tell"
            )
        hasher = copy.deepcopy(hasher)
        hasher.__dict__.pop("feature_names_in_", None)  # columns count by their position here
        hasher.check_parameters()
        if folder is None:
            fresh = Recovered(_empty(hasher), hasher, Reservoir(reservoir_size), 0)
            return cls(Store(keep), fresh, policy.for_one_table(), **settings)
        if folder.exists() and not folder.is_dir():
            raise TableError(f"{folder} is a file, not the folder of a table")
        make_folder(folder, hasher, config_of(hasher, keep), reservoir_size)
    assert folder is not None

    store, recovered = _recovered(folder, mode, durability, segment_bytes)
    own: Policy | None = None
    try:
        if hasher is not None:
            _same_hasher(folder, hasher, recovered.hasher)
            if hasattr(hasher, "n_seen_") and not _learned_the_same(hasher, recovered.hasher):
                warnings.warn(
                    f"what the given hasher has learned ({hasher.n_seen_:,} rows) is passed over: {folder} goes on "
                    f"from what it has learned itself ({getattr(recovered.hasher, 'n_seen_', 0):,} rows). Leave "
                    "hasher= out to open it",
                    UserWarning,
                    stacklevel=3,
                )
        if keep_features is not None and keep_features != store.keep_features:
            raise TableError(
                f"{folder} was made with keep_features={store.keep_features}, which cannot be changed afterwards"
            )
        if policy is None or mode == "read":
            policy = Every() if store.keep_features else Projected()
        elif policy.keeps_features != store.keep_features:
            kept = "features are kept" if store.keep_features else "no features are kept"
            raise TableError(f"{type(policy).__name__} does not suit {folder}, where {kept}")
        own = policy.for_one_table()
        return cls(store, recovered, own, **settings)
    except BaseException:
        if own is not None:
            own.closing()  # or a thread of it, begun already, would use what is closed
        store.close()
        raise


def _recovered(folder: Path, mode: str, durability: str, segment_bytes: int) -> tuple[FolderStore, Recovered]:
    """The folder and its state. A reader begins again where a writer has replaced files between two of its looks."""
    missing = ""
    while True:
        store = None
        try:
            with refusing(folder / MANIFEST):
                store = FolderStore(folder, mode=mode, durability=durability, segment_bytes=segment_bytes)
                return store, recover(store)
        except BaseException as error:
            if store is not None:
                store.close()
            if mode == "write" or not isinstance(error, SegmentMissing) or str(error) == missing:
                raise
            missing = str(error)


def _agreed(policy: Policy | None, keep_features: bool | None) -> tuple[Policy, bool]:
    """Policy and keep_features of a new table, each from the other where it was not given."""
    if policy is None:
        policy = Projected() if keep_features is False else Every()
    if keep_features is not None and keep_features != policy.keeps_features:
        needs = "needs features" if policy.keeps_features else "keeps no features"
        raise ValueError(f"{type(policy).__name__} {needs}, but keep_features is {keep_features}")
    return policy, policy.keeps_features


def config_of(hasher: OnlineHasher, keep_features: bool) -> dict[str, Any]:
    return {
        "method": type(hasher).__name__,
        "n_bits": int(hasher.n_bits),
        "width": -(-int(hasher.n_bits) // 8),
        "keep_features": keep_features,
    }


def _empty(hasher: OnlineHasher) -> View:
    view = View(-(-int(hasher.n_bits) // 8))
    if not hasattr(hasher, "version_"):
        return view
    version = int(hasher.version_)
    return view.with_encoders({version: frozen(hasher)}, version)


def _same_hasher(folder: Path, given: OnlineHasher, stored: OnlineHasher) -> None:
    """TableError where the parameters differ, apart from random generators, which are only a beginning."""
    if type(given) is not type(stored):
        raise TableError(
            f"{folder} was made with {type(stored).__name__}, not with {type(given).__name__}: leave hasher= out, "
            "or open another folder"
        )
    old = stored.get_params(deep=False)
    for name, value in given.get_params(deep=False).items():
        random = (np.random.Generator, np.random.RandomState, np.random.SeedSequence)
        if not isinstance(value, random) and not _equal(value, old[name]):
            raise TableError(
                f"{folder} was made with {name}={old[name]!r}, not with {name}={value!r}: leave hasher= out, or open "
                "another folder"
            )


def _learned_the_same(given: OnlineHasher, stored: OnlineHasher) -> bool:
    if given.n_seen_ != getattr(stored, "n_seen_", 0):
        return False
    return encoder_checksum(frozen(given)) == encoder_checksum(frozen(stored))


def _equal(a: Any, b: Any) -> bool:
    if hasattr(a, "get_params") and hasattr(b, "get_params"):
        mine, other = a.get_params(deep=False), b.get_params(deep=False)
        return type(a) is type(b) and all(_equal(mine[name], other[name]) for name in mine)
    if isinstance(a, (np.ndarray, list, tuple)) or isinstance(b, (np.ndarray, list, tuple)):
        try:
            return np.array_equal(np.asarray(a), np.asarray(b))
        except ValueError:  # ragged
            return bool(a == b)
    return bool(a == b)
