"""Plans: the change that an ingest or a refresh commits, from a state and its storage. Nothing is written here."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.hashers import Encoder, OnlineHasher
from hashstream.hashers.labels import labelled, missing_rows
from hashstream.hashers.serialization import encoder_digest
from hashstream.table.errors import TableError
from hashstream.table.policies import Facts, Partial, Projected
from hashstream.table.state.change import Added, Batch, Change, Feedback, Recoded, Relabelled
from hashstream.table.state.columns import OWN, PAYLOAD, read_values
from hashstream.table.state.ids import column_of, kind_of
from hashstream.table.state.labels import LabelColumn
from hashstream.table.state.reencode import (
    mixed,
    recode_bits,
    recode_features,
    recode_projected,
    smallest_versions,
    stale_parts,
)
from hashstream.table.state.state import Model, State, taught
from hashstream.table.state.view import Part, View, in_order
from hashstream.table.storage.base import Storage

__all__ = ["Plan", "plan_adoption", "plan_batch", "plan_labels", "plan_refresh"]

log = logging.getLogger("hashstream.table")

NO_SLOTS = np.empty(0, np.uint32)


@dataclass(frozen=True)
class Plan:
    """A change to be committed; batch, feedback, model and memory where it brings others than there are.

    recode_seconds : that re-encoding took. adopts : whether the model was learned elsewhere. mixed : the functions of
    re-encoded items, where they are not the model's.
    """

    change: Change
    batch: Batch | None = None
    model: Model | None = None
    memory: Mapping[str, Any] | None = None
    recode_seconds: float = 0.0
    feedback: Feedback | None = None
    adopts: bool = False
    mixed: Encoder | None = None

    @property
    def relabelled(self) -> np.ndarray:
        """The slots (n,) of items that get another label."""
        return NO_SLOTS if self.change.relabelled is None else self.change.relabelled.slots

    @property
    def n_learned(self) -> int:
        """Rows that the model learned from."""
        batch = self.batch if self.batch is not None and self.batch.learned else None
        total = 0
        for lesson in (batch, self.feedback):
            if lesson is not None:
                missing = None if lesson.y is None else missing_rows(lesson.y)
                total += len(lesson.X) - (0 if missing is None else int(missing.sum()))
        return total


def plan_batch(
    state: State, storage: Storage, ids: np.ndarray, found: np.ndarray, batch: Batch, model: Model
) -> Plan:
    """Encode a batch, and re-encode with it what the policy wants, or what `max_versions` leaves no place for.

    found : the slots of ids that are stored already, -1 for the others. model : after the batch.
    """
    view, settings = state.view, storage.settings
    _check_kind(state, batch.y)
    removed = np.sort(found[found >= 0]).astype(np.uint32)
    left, memory, refresh = view.without(removed), state.memory, False
    if batch.learned:
        refresh, memory = _decide(state, left, storage, model, len(batch.X))
    clock = time.perf_counter()
    model, target = _target(state, left, storage, model) if refresh else (model, None)
    encoder = model.encoder
    assert encoder is not None
    going: list[Part] = []
    if refresh:
        going = stale_parts(left.parts, encoder.version)
    elif encoder.version not in view.versions:  # labels of stored items may have brought it before
        going = smallest_versions(left.parts, encoder.version, settings.max_versions)
    recoded = _recode(state, left, storage, model, going, None, batch.X, target)
    taken = time.perf_counter() - clock
    labels = LabelColumn.of(batch.y, len(ids), learned=batch.learned and model.hasher.needs_labels)
    fields = dict(batch.fields)
    if batch.payloads is not None and any(text is not None for text in batch.payloads):
        given = np.array([text is not None for text in batch.payloads])
        fields[PAYLOAD] = read_values("bool", PAYLOAD, given, len(ids))
    declared = {name: OWN[name] for name in fields if name in OWN and name not in view.fields}
    added = Added(view.n_slots, ids, encoder.version, encoder.encode(batch.X), labels, fields)
    keys = (view.column or column_of(kind_of(ids))).keys_of(ids)
    sample = state.sample.change(removed, added.first_slot, keys, batch.X, batch.y)
    change = Change(sample, removed, tuple(recoded), added, declared=declared)
    return Plan(change, batch, model, memory, taken, mixed=target)


def plan_labels(
    state: State, storage: Storage, slots: np.ndarray, y: np.ndarray, *, learn: bool = True
) -> Plan:
    """Give the items at slots (n,) the labels y, learn from them, and re-encode what the policy wants; where they have
    these labels, nothing changes. A missing label is taken back. `Overtaken` where slots were renumbered since the
    state.

    learn : whether they are learned from; where not, a label that was learned stays as it is if it is the same.
    """
    _check_kind(state, y)
    hasher, held = state.model.hasher, state.view.labels
    labels = LabelColumn.of(y, len(y), learned=learn and hasher.needs_labels)
    order = np.argsort(slots)
    same = labels.chosen(order).same(held.chosen(slots[order]))
    if not learn:
        same |= LabelColumn.of(y, len(y), learned=True).chosen(order).same(held.chosen(slots[order]))
    order = order[~same]
    if not len(order):
        return Plan(Change(state.sample.change(NO_SLOTS)))
    slots, y = slots[order], y[order]
    changed = Relabelled(slots.astype(np.uint32), labels.chosen(order))
    sample = state.sample.relabelled(slots, y)
    at = _lessons(hasher, held, slots, y)
    given = state.view.sequences(slots[at])  # items may have come in another order
    at = at[np.argsort(given, kind="stable")]
    if not learn or not len(at):
        return Plan(Change(sample, relabelled=changed))
    if not storage.keep_features:
        raise TableError("this table keeps no features (keep_features=False), so it cannot learn from labels")
    slots, y, old = slots[at], y[at], held.learned(slots[at])
    if old is not None and old.ndim != y.ndim:  # all are taken back: they are given as the old ones were
        y = np.full_like(old, np.nan if old.ndim == 2 else None)
    feedback = Feedback(changed.slots[at], storage.read(slots, state.generation), y, old)
    model = state.model.learned(taught(hasher.copy(), feedback))
    refresh, memory = _decide(state, state.view, storage, model, len(y))
    clock = time.perf_counter()
    model, target = _target(state, state.view, storage, model) if refresh else (model, None)
    going = stale_parts(state.view.parts, model.version) if refresh else []
    recoded = tuple(_recode(state, state.view, storage, model, going, None, mixed=target))
    taken = time.perf_counter() - clock
    change = Change(sample, recoded=recoded, relabelled=changed)
    return Plan(change, None, model, memory, taken, feedback, mixed=target)


def _lessons(hasher: OnlineHasher, held: LabelColumn, slots: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The rows of new labels y that the hasher learns from: those that are there, and, where it can take labels back,
    those that are missing in the place of one that it has learned."""
    if not hasher.needs_labels:
        return np.empty(0, np.intp)
    missing = missing_rows(y)
    if missing is None:
        return np.arange(len(y))
    old = held.learned(slots) if hasher.can_correct() else None
    if old is not None:
        never = missing_rows(old)
        missing &= False if never is None else never
    return np.flatnonzero(~missing)


def _decide(
    state: State, left: View, storage: Storage, model: Model, n: int
) -> tuple[bool, Mapping[str, Any]]:
    """Ask the policy whether the items that are left are re-encoded, after n rows were learned."""
    encoder = model.encoder
    assert encoder is not None
    moved = encoder.version != state.view.newest
    facts = Facts(moved, n, encoder, _bulk(left), state.sample, state.memory, len(left))
    policy = storage.settings.policy
    refresh, memory = policy.decide(facts)
    decision = "re-encode" if refresh else "do not re-encode"
    log.debug("%s: %r after %d rows: %s", storage.path or "in memory", policy, n, decision)
    return refresh, memory


def _bulk(view: View) -> Encoder | None:
    """The functions that encoded most of the items."""
    counts = view.counts()
    return view.encoders[max(counts, key=lambda version: counts[version])] if counts else None


def _target(state: State, left: View, storage: Storage, model: Model) -> tuple[Model, Encoder | None]:
    """The model of a refresh, and the functions that the items that are left are re-encoded by, where they are mixed:
    these have the next version, and those of the model the one after it. See `Partial`."""
    policy, new, old = storage.settings.policy, model.encoder, _bulk(left)
    if not isinstance(policy, Partial) or storage.settings.max_versions < 2 or old is None or new is None:
        return model, None
    products = old.product is not None and new.product is not None
    if not products or old.version == new.version or policy.bits >= new.n_bits or not len(state.sample):
        return model, None
    target = mixed(old, new, policy.choose(old, new, state.sample), new.version + 1)
    return model.renumbered(target.version + 1), target


def _check_kind(state: State, y: np.ndarray | None) -> None:
    """ValueError where labels are not of the kind of those in the table: one per row, or rows of so many columns."""
    held = None if y is None else state.view.labels.shape
    if y is not None and held is not None and held != y.shape[1:] and len(labelled(y, y)[0]):
        shapes = (held, y.shape[1:])
        kinds = [f"0/1 matrices of {shape[0]} columns" if shape else "one per row" for shape in shapes]
        raise ValueError(f"the labels of this table are {kinds[0]}, but these are {kinds[1]}")


def plan_refresh(state: State, storage: Storage, budget: int | None) -> Plan:
    """Re-encode the first `budget` stale items, the oldest versions first, and those of versions that `max_versions`
    leaves no place for; all of them for None."""
    stale = stale_parts(state.view.parts, state.view.newest)
    clock = time.perf_counter()
    recoded = _recode(state, state.view, storage, state.model, stale, budget)
    if budget is not None and state.view.newest not in state.view.versions:  # it came with labels
        recoded += _recode_beyond_limit(state, storage, state.model, recoded)
    change = Change(state.sample.change(NO_SLOTS), recoded=tuple(recoded))
    return Plan(change, recode_seconds=time.perf_counter() - clock)


def plan_adoption(state: State, storage: Storage, model: Model, budget: int | None) -> Plan:
    """Take over a model that was learned elsewhere, and re-encode the first `budget` stale items with it, the oldest
    versions first; all of them for None. What the functions before had learned from labels, these may not have.

    ValueError where the table cannot take it.
    """
    encoder, view, known = model.encoder, state.view, state.model.encoder
    assert encoder is not None
    _check_adopted(state, encoder)
    new = known is None or known.version != encoder.version
    if new and not hasattr(model.hasher, "rng_"):
        raise ValueError(
            "this hasher has the hash functions of one version only: a table needs one that can learn on"
        )
    clock = time.perf_counter()
    stale = stale_parts(view.parts, encoder.version)
    recoded = _recode(state, view, storage, model, stale, budget) if budget != 0 else []
    if new:
        recoded += _recode_beyond_limit(state, storage, model, recoded)
    taken = time.perf_counter() - clock
    unlearned = _unlearned(view) if new else None
    change = Change(state.sample.change(NO_SLOTS), recoded=tuple(recoded), relabelled=unlearned)
    return Plan(change, None, model if new else None, None, taken, adopts=new)


def _check_adopted(state: State, encoder: Encoder) -> None:
    known, width = state.model.encoder, state.view.width
    n_bits = int(state.model.hasher.n_bits)
    if encoder.n_bits != n_bits or encoder.width != width:
        raise ValueError(f"codes of this table have {n_bits} bits, but this hasher makes {encoder.n_bits}")
    if known is None:
        return
    for name in ("n_features", "dtype"):
        here, there = getattr(known, name), getattr(encoder, name)
        if here != there:
            raise ValueError(f"cannot adopt: {name} is {here} in this table and {there} in the hasher")
    if encoder.version < known.version:
        raise ValueError(
            f"cannot adopt: the functions of this table have version {known.version}, and these are older, version "
            f"{encoder.version}"
        )
    held = known if known.version == encoder.version else state.view.encoders.get(encoder.version)
    if held is not None and encoder_digest(held) != encoder_digest(encoder):
        raise ValueError(
            f"cannot adopt: this table has other functions of version {encoder.version} (digest "
            f"{encoder_digest(held)}, not {encoder_digest(encoder)}). Versions count the updates of one learner: learn "
            "on from a copy of the table's hasher"
        )


def _unlearned(view: View) -> Relabelled | None:
    """All labels that were learned, as labels that were not; None where there are none."""
    live = view.live()
    slots = live[view.labels.was_learned(live)]
    return Relabelled(slots, view.labels.chosen(slots).unlearned()) if len(slots) else None


def _recode_beyond_limit(
    state: State, storage: Storage, model: Model, recoded: list[Recoded]
) -> list[Recoded]:
    """Re-encode the items of versions that have no place beside the model's, which is one more, after some items were
    re-encoded: within `max_versions`, whatever the budget."""
    left = state.view.without(in_order([piece.slots for piece in recoded]))
    going = smallest_versions(left.parts, model.version, storage.settings.max_versions)
    return _recode(state, left, storage, model, going, None)


def _recode(
    state: State,
    view: View,
    storage: Storage,
    model: Model,
    parts: list[Part],
    budget: int | None,
    batch: np.ndarray | None = None,
    mixed: Encoder | None = None,
) -> list[Recoded]:
    """Parts of a view re-encoded by a model, or by mixed functions; batch : rows that come with it."""
    encoder, policy = model.encoder, storage.settings.policy
    if not parts or encoder is None:
        return []
    if mixed is not None:
        return recode_bits(storage, view.encoders, mixed, parts)
    if storage.keep_features:
        return recode_features(storage, encoder, parts, budget)
    assert isinstance(policy, Projected)
    return recode_projected(policy.fit, view, encoder, parts, state.sample, budget, batch)
