"""From a folder to a table in memory: the image and the changes since, the last checkpoint and the batches since.

Codes are read, not made again. The model is: it starts from the last checkpoint and learns the later batches exactly
as they were ingested, which gives the same bits on the same machine with the same libraries, in any thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.hashers import FormatError, OnlineHasher
from hashstream.table.change import Change
from hashstream.table.codes import View
from hashstream.table.encoders import encoder_checksum, from_bytes, frozen
from hashstream.table.errors import SegmentMissing, TableError
from hashstream.table.file_segments import FileSegments
from hashstream.table.folder import FolderStore
from hashstream.table.ids import column_of
from hashstream.table.image import from_image
from hashstream.table.integrity import (
    check_change,
    check_labels,
    check_model,
    check_sample,
    check_view,
    refusing,
)
from hashstream.table.packing import checked, unpack_labels
from hashstream.table.reservoir import Reservoir, Seats

__all__ = ["Recovered", "recover", "reread"]


@dataclass(frozen=True)
class Recovered:
    """view : with all encoders. hasher : as of the last commit. replayed : rows that it has learned again."""

    view: View
    hasher: OnlineHasher
    reservoir: Reservoir
    replayed: int


def recover(store: FolderStore) -> Recovered:
    """The state of the last commit."""
    with store.manifest.reading(alone=store.write):
        store.read_state()
        checkpoint = list(store.manifest.models("checkpoint"))
        if len(checkpoint) != 1:
            raise TableError(f"{store.manifest.path} is damaged: it has no checkpoint of the hasher")
        version, seq, raw = checkpoint[0]
        hasher = _hasher(store, raw, version)
        view, reservoir = _items(store)
        check_view(view, store.state)
        return _with_model(store, view, hasher, seq, {}, reservoir)


def catch_up(store: FolderStore, before: Recovered, seq: int) -> Recovered | None:
    """For a reader that has seen the commits up to `seq`: the state of the last commit, from those since; None where
    they have been drawn together into an image meanwhile."""
    with store.manifest.reading():
        store.read_state()
        if store.state["image"] > seq:
            return None
        view, reservoir = _apply(store, before.view, before.reservoir, seq)
        return _with_model(store, view, before.hasher, seq, dict(before.view.encoders), reservoir)


def reread(store: FolderStore, before: Recovered) -> Recovered:
    """For a reader: the state of the last commit, from the one that was read before where that is possible.

    A writer that compacts takes files away while they are being read; then there is a newer state, which is read
    instead. Where this fails, store and hasher are as they were.
    """
    held, learner = (store.state, store.seq, store.generation, store.segments), before.hasher._remember()
    step_by_step = store.keep_features and hasattr(before.hasher, "n_seen_")
    missing = ""
    while True:
        try:
            with refusing(store.manifest.path):
                now = catch_up(store, before, held[1]) if step_by_step else None
                return recover(store) if now is None else now
        except BaseException as error:
            store.state, store.seq, store.generation, store.segments = held
            before.hasher._put_back(learner)
            if not isinstance(error, SegmentMissing) or str(error) == missing:  # the same again: it is lost
                raise
            missing, step_by_step = str(error), False


# ---- items


def _items(store: FolderStore) -> tuple[View, Reservoir]:
    arrays, state = store.manifest.image(), store.state
    width, size = int(store.config["width"]), int(store.config["reservoir_size"])
    view, reservoir = View(width), Reservoir(size)
    if state["image"]:
        try:
            view, reservoir = from_image(arrays, width, state["shape"]["ids"], size)
        except KeyError as error:
            raise TableError(f"{store.manifest.path} is damaged: its image lacks {error}") from error
    return _apply(store, view, reservoir, int(state["image"]))


def _apply(store: FolderStore, view: View, reservoir: Reservoir, seq: int) -> tuple[View, Reservoir]:
    """The view and the reservoir after the changes behind `seq`."""
    for at, arrays in store.manifest.changes(seq):
        if at != seq + 1:
            break
        seq = at
        change = Change.from_arrays(arrays)
        check_change(change, view)
        column = view.column
        if change.added is not None:
            kind = "str" if change.added.ids.dtype == object else "int"
            column = (column or column_of(kind)).extended(change.added.ids)
        view = view.applied(change, column)
        reservoir = reservoir.taken(Seats.from_arrays(arrays))
    if seq != store.seq:
        raise TableError(f"{store.manifest.path} is damaged: change {seq + 1} of {store.seq} is missing")
    if len(view) != store.state["live"] or view.n_slots != store.state["n_slots"]:
        raise TableError(
            f"{store.manifest.path} is damaged: it should hold {store.state['live']} items in "
            f"{store.state['n_slots']} slots, but has {len(view)} in {view.n_slots}"
        )
    if len(reservoir) != store.state["seated"]:
        raise TableError(f"{store.manifest.path} is damaged: the reservoir has lost items")
    check_sample(reservoir, store.state)
    return view, reservoir


# ---- the model


def _hasher(store: FolderStore, raw: bytes, version: int) -> OnlineHasher:
    try:
        hasher = from_bytes(raw, "a saved hasher")
    except FormatError as error:
        raise TableError(f"{store.manifest.path}: {error}") from error
    check_model(hasher, store.config, store.state, version)
    return hasher


def _with_model(
    store: FolderStore,
    view: View,
    hasher: OnlineHasher,
    seq: int,
    known: dict[int, OnlineHasher],
    reservoir: Reservoir,
) -> Recovered:
    """Learn the batches behind `seq`, and collect the encoders of all versions alive."""
    needed = set(view.counts())
    for version, _, raw in store.manifest.models("encoder"):
        if version in needed and version not in known:
            known[version] = _hasher(store, raw, version)
    if hasattr(hasher, "version_"):
        known.setdefault(int(hasher.version_), frozen(hasher))
    replayed = 0
    for batch in _batches_behind(store, seq):
        if not batch[3]:
            continue
        hasher = _learn_again(store, hasher, batch)
        replayed += batch[2]
        if int(hasher.version_) in needed:
            known.setdefault(int(hasher.version_), frozen(hasher))
    newest = int(hasher.version_) if hasattr(hasher, "version_") else -1
    if newest >= 0:
        known.setdefault(newest, frozen(hasher))
    if lost := needed - set(known):
        raise TableError(
            f"{store.manifest.path} is damaged: it lacks the hash functions of version {min(lost)}, which items have"
        )
    return Recovered(view.with_encoders(known, newest), hasher, reservoir, replayed)


def _batches_behind(store: FolderStore, seq: int) -> Iterator[tuple[Any, ...]]:
    """The batches after commit `seq`, of which none may be missing: they fill the slots up to the last."""
    before = list(store.manifest.batches("seq = (SELECT max(seq) FROM batches WHERE seq <= ?)", seq))
    end = before[0][1] + before[0][2] if before else 0
    for batch in store.manifest.batches("seq > ?", seq):
        if batch[1] != end:
            break
        end += batch[2]
        yield batch
    if end != store.state["n_slots"]:
        raise TableError(f"{store.manifest.path} is damaged: it lacks the batch of slot {end}")


def _learn_again(store: FolderStore, hasher: OnlineHasher, batch: tuple[object, ...]) -> OnlineHasher:
    _, first, n_rows, _, version, features_crc, model_crc, raw = batch
    assert isinstance(first, int)
    assert isinstance(n_rows, int)
    assert raw is None or isinstance(raw, bytes)
    if store.segments is None:
        raise TableError(
            f"{store.manifest.path} is damaged: a table without features needs no batches learned again"
        )
    X = store.segments.take(np.arange(first, first + n_rows))
    assert isinstance(features_crc, int)
    assert isinstance(store.segments, FileSegments)
    checked(f"{store.segments.path_of(first)} (slots {first} to {first + n_rows - 1})", features_crc, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they were given when the batch was ingested
        hasher.partial_fit(X, check_labels(unpack_labels(raw), n_rows))
    if hasher.version_ != version or encoder_checksum(frozen(hasher)) != model_crc:
        warnings.warn(
            f"{store.path}: learning slots {first} to {first + n_rows - 1} again gave other bits than at first, as "
            "another machine or library does; the model goes on from what was learned now",
            UserWarning,
            stacklevel=4,
        )
    return hasher
