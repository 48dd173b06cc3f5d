"""Plans: the change that an ingest or a refresh commits, from a state and its storage. Nothing is written here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.hashers.labels import labelled
from hashstream.hashers.validation import check_finite
from hashstream.table.errors import TableError
from hashstream.table.policies import Facts, Projected
from hashstream.table.state.change import Added, Batch, Change, Recoded
from hashstream.table.state.ids import MAX_SLOTS, as_ids, column_of, kind_of, repeated
from hashstream.table.state.reencode import recode_features, recode_projected, smallest_versions, stale_parts
from hashstream.table.state.state import Model, State
from hashstream.table.state.view import Part, View
from hashstream.table.storage.base import Storage

__all__ = ["Plan", "checked_batch", "plan_batch", "plan_refresh"]

NO_SLOTS = np.empty(0, np.uint32)


@dataclass(frozen=True)
class Plan:
    """A change to be committed; batch, model and memory where it brings others than there are.

    recode_seconds : that re-encoding took.
    """

    change: Change
    batch: Batch | None = None
    model: Model | None = None
    memory: Mapping[str, Any] | None = None
    recode_seconds: float = 0.0


def checked_batch(ids: Any, X: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
    """Ids that fit X and the table, and X in the table's dtype; a ValueError says what does not fit."""
    ids = as_ids(list(ids) if isinstance(ids, range) else ids)
    if twice := repeated(ids):
        raise ValueError(f"ids occur more than once in the batch: {', '.join(map(repr, twice[:10]))}")
    if len(ids) != len(X):
        raise ValueError(f"there are {len(ids)} ids, but X has {len(X)} rows")
    column, kind = state.view.column, kind_of(ids)
    if column is not None and column.kind != kind:
        names = {"str": "strings", "int": "whole numbers"}
        raise ValueError(f"the ids of this table are {names[column.kind]}, but these are {names[kind]}")
    if state.view.n_slots + len(ids) > MAX_SLOTS:
        raise TableError(f"a table takes {MAX_SLOTS} insertions: compact it to go on")
    encoder = state.model.encoder
    if encoder is not None and X.dtype != encoder.dtype:
        with np.errstate(over="ignore"):
            X = check_finite(X.astype(encoder.dtype))
    return ids, np.ascontiguousarray(X)


def plan_batch(
    state: State, storage: Storage, ids: np.ndarray, found: np.ndarray, batch: Batch, model: Model
) -> Plan:
    """Encode a batch, and re-encode with it what the policy wants, or what `max_versions` leaves no place for.

    found : the slots of ids that are stored already, -1 for the others. model : after the batch.
    """
    encoder, view, settings = model.encoder, state.view, storage.settings
    assert encoder is not None
    _check_kind(state, batch.y)
    removed = np.sort(found[found >= 0]).astype(np.uint32)
    left, memory, refresh = view.without(removed), state.memory, False
    if batch.learned:
        counts = left.counts()
        bulk = left.encoders[max(counts, key=lambda version: counts[version])] if counts else None
        moved = encoder.version != view.newest
        facts = Facts(moved, len(batch.X), encoder, bulk, state.sample, state.memory, sum(counts.values()))
        refresh, memory = settings.policy.decide(facts)
    going: list[Part] = []
    if refresh:
        going = stale_parts(left.parts, encoder.version)
    elif encoder.version != view.newest:
        going = smallest_versions(left.parts, encoder.version, settings.max_versions)
    clock = time.perf_counter()
    recoded = _recode(state, left, storage, model, going, None, batch.X)
    taken = time.perf_counter() - clock
    added = Added(view.n_slots, ids, encoder.version, encoder.encode(batch.X))
    keys = (view.column or column_of(kind_of(ids))).keys_of(ids)
    sample = state.sample.change(removed, added.first_slot, keys, batch.X, batch.y)
    return Plan(Change(sample, removed, tuple(recoded), added), batch, model, memory, taken)


def _check_kind(state: State, y: np.ndarray | None) -> None:
    """ValueError where labels are not of the kind of those in the sample: one per row, or rows of so many columns."""
    held = next((label for label in state.sample.labels if label is not None), None)
    if y is not None and held is not None and np.shape(held) != y.shape[1:] and len(labelled(y, y)[0]):
        shapes = (np.shape(held), y.shape[1:])
        kinds = [f"0/1 matrices of {shape[0]} columns" if shape else "one per row" for shape in shapes]
        raise ValueError(f"the labels of this table are {kinds[0]}, but these are {kinds[1]}")


def plan_refresh(state: State, storage: Storage, budget: int | None) -> Plan:
    """Re-encode the first `budget` stale items, the oldest versions first; all of them for None."""
    stale = stale_parts(state.view.parts, state.view.newest)
    clock = time.perf_counter()
    recoded = _recode(state, state.view, storage, state.model, stale, budget)
    change = Change(state.sample.change(NO_SLOTS), recoded=tuple(recoded))
    return Plan(change, recode_seconds=time.perf_counter() - clock)


def _recode(
    state: State,
    view: View,
    storage: Storage,
    model: Model,
    parts: list[Part],
    budget: int | None,
    batch: np.ndarray | None = None,
) -> list[Recoded]:
    """Parts of a view re-encoded by a model; batch : rows that come with it."""
    encoder, policy = model.encoder, storage.settings.policy
    if not parts or encoder is None:
        return []
    if storage.keep_features:
        return recode_features(storage, encoder, parts, budget)
    assert isinstance(policy, Projected)
    return recode_projected(policy.fit, view, encoder, parts, state.sample, budget, batch)
