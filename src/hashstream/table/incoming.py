"""Rows that are about to be stored, checked: ids, features, labels, fields and payloads of one call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import LabelsLike, OnlineHasher
from hashstream.hashers.labels import as_labels, labelled
from hashstream.hashers.validation import check_finite, check_rows, without_names
from hashstream.table.errors import TableError
from hashstream.table.state.columns import SEQUENCE, FieldColumn, read_values
from hashstream.table.state.ids import MAX_SLOTS, as_ids, kind_of, repeated
from hashstream.table.state.labels import plain_labels
from hashstream.table.state.number_columns import IntColumn
from hashstream.table.state.state import State

__all__ = [
    "ANY_NUMBER",
    "IdsLike",
    "Incoming",
    "PayloadsLike",
    "check_feedback",
    "check_incoming",
    "check_removal",
    "check_sequence",
    "field_columns",
    "payload_texts",
]

ANY_NUMBER = np.iinfo(np.int64).max
"""A guard that no item is newer than."""

MAX_PAYLOAD = 1 << 20  # characters of JSON
MAX_DEPTH = (
    100  # of objects and lists within one another: what is written has to be read again, in any thread
)

NO_ROWS = np.empty((0, 0))

IdsLike = ArrayLike | Sequence[int] | Sequence[str]
PayloadsLike = Sequence[Mapping[str, Any] | None]


@dataclass(frozen=True)
class Incoming:
    """Rows of one call, as the table takes them; for labels of stored items, only ids, y and guard count.

    ids : (n,) int64, or object holding str. X : (n, d) in the table's dtype. y : as `plain_labels` returns them, or
    None. fields : name -> values. payloads : JSON texts, None for a missing one; or None for none at all.
    A sequence number per row is the field `SEQUENCE`.
    guard : for labels, (n,) int64: an item that is stored with a higher sequence number is left as it is. None for no
    such limit.
    learner : the table's hasher, which has checked them. firm : whether they fit any later state of the table, too: ids
    and features have their kind once there are items.
    """

    ids: np.ndarray
    X: np.ndarray
    y: np.ndarray | None
    fields: Mapping[str, FieldColumn]
    payloads: list[str | None] | None
    learner: OnlineHasher
    firm: bool = False
    guard: np.ndarray | None = None

    @property
    def sequence(self) -> np.ndarray | None:
        """The sequence numbers of the rows, (n,) int64, -1 for none; None where no row has one."""
        column = self.fields.get(SEQUENCE)
        return column.counts(np.arange(len(self.ids))) if isinstance(column, IntColumn) else None

    def chosen(self, rows: np.ndarray) -> Incoming:
        """Some of the rows, by their numbers."""
        return replace(
            self,
            ids=self.ids[rows],
            X=self.X[rows],
            y=None if self.y is None else self.y[rows],
            fields={name: values.chosen(rows) for name, values in self.fields.items()},
            payloads=None if self.payloads is None else [self.payloads[row] for row in rows.tolist()],
            guard=None if self.guard is None else self.guard[rows],
        )


def check_incoming(
    state: State,
    ids: Any,
    X: Any,
    y: LabelsLike | None = None,
    fields: Mapping[str, Any] | None = None,
    payloads: PayloadsLike | None = None,
    sequence: Any = None,
    *,
    learn: bool,
) -> Incoming:
    """Check a call's arguments; ValueError or TypeError says what does not fit the table. learn : whether the rows are
    to be learned from, so that labels have to be such that the hasher can."""
    learner = state.model.hasher.copy()
    labels: np.ndarray | None = None
    if learn and (y is not None or not learner.needs_labels):
        X, labels = learner.check_batch(without_names(X), y)
    else:
        learner.check_parameters()
        X = check_finite(check_rows(learner, without_names(X), first=state.model.encoder is None))
        labels = None if y is None else as_labels(y)
    if labels is not None:
        labels = _check_labels(learner, plain_labels(labels), len(X), learned=learn)
    ids, X = _fitting(ids, X, state)
    kinds = {name: column.kind for name, column in state.view.user_fields.items()}
    columns = field_columns({} if fields is None else fields, kinds, len(ids))
    if sequence is not None:
        columns[SEQUENCE] = read_values("int", "sequence", check_sequence(sequence, len(ids)), len(ids))
    texts = None if payloads is None else payload_texts(payloads, len(ids))
    firm = state.view.column is not None and state.model.encoder is not None
    return Incoming(ids, X, labels, columns, texts, learner, firm)


def check_feedback(state: State, ids: Any, y: LabelsLike, sequence: Any = None) -> Incoming:
    """Check labels for stored items, apart from whether they are stored."""
    wanted = as_ids(ids)
    if twice := repeated(wanted):
        raise ValueError(f"ids occur more than once: {', '.join(map(repr, twice[:10]))}")
    given = as_labels(y)
    if not given.ndim or len(given) != len(wanted):
        raise ValueError(
            f"there are {len(wanted)} ids, but y has shape {given.shape}: one label for each is needed"
        )
    learner = state.model.hasher.copy()
    labels = _check_labels(learner, plain_labels(given), len(wanted))
    guard = None if sequence is None else check_sequence(sequence, len(wanted), least=-1)
    return Incoming(wanted, NO_ROWS, labels, {}, None, learner, firm=True, guard=guard)


def check_removal(ids: Any, where: Any, sequence: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Check a removal: the distinct ids, ascending, or None for a filter; and its guard, None for none: a number for
    each id, or one for the filter."""
    if (ids is None) == (where is None):
        raise ValueError("remove needs ids, or where=, and not both")
    if where is not None:
        if not where:
            raise ValueError("an empty filter would remove every item: to do so, ask that the id exists")
        return None, None if sequence is None else check_sequence(sequence, None, least=-1)
    given = as_ids(ids)
    wanted, at = np.unique(given, return_inverse=True)
    if sequence is None:
        return wanted, None
    guard = np.full(len(wanted), -1, np.int64)
    np.maximum.at(guard, at, check_sequence(sequence, len(given), least=-1))
    return wanted, guard


def _check_labels(learner: OnlineHasher, y: np.ndarray, n: int, *, learned: bool = False) -> np.ndarray:
    """y itself; a ValueError where a hasher could not learn such labels. n : rows. learned : whether it is about to,
    and finds out by itself."""
    learner.check_labels(y, n)
    known = labelled(y, y)[0]
    if not learned and hasattr(learner, "label_book_") and len(known):
        learner.label_book_.read(known)  # raises as learning would
    return y


def _fitting(ids: Any, X: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
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


def check_sequence(sequence: Any, n: int | None, *, least: int = 0) -> np.ndarray:
    """Sequence numbers, int64: of n rows, (n,), from one for all or one for each; or a single one, for n None.

    ValueError where they are not that. least : the smallest that there may be; -1 stands for an item without one.
    """
    given = np.asarray(sequence)
    whole = given.dtype.kind in "iu" and given.shape in ((), () if n is None else (n,))
    if not whole or (given < least).any() or (given > ANY_NUMBER).any():
        for_all = "one for all items that match" if n is None else f"or {n} of them, one per row"
        raise ValueError(
            f"sequence must be a whole number from {least} to 2^63 - 1, {for_all}, not {sequence!r:.100}"
        )
    return np.full(given.shape if n is None else n, given.astype(np.int64))


def field_columns(fields: Mapping[str, Any], kinds: Mapping[str, str], n: int) -> dict[str, FieldColumn]:
    """The values of n rows by field; ValueError or TypeError says what does not fit. kinds : of a table's fields."""
    if not isinstance(fields, Mapping):
        raise TypeError(
            f'fields are given by column, as in {{"tenant": [...]}}, not as {type(fields).__name__}'
        )
    for name in fields:
        if name not in kinds:
            declared = ", ".join(kinds) or "none"
            raise ValueError(
                f"unknown field {name!r}: the fields of this table are {declared}. Declare it with "
                "table.declare, or keep it in payloads="
            )
    return {name: read_values(kinds[name], name, values, n) for name, values in fields.items()}


def payload_texts(payloads: PayloadsLike, n: int) -> list[str | None]:
    """The payloads of n rows as JSON, None for a missing one; ValueError or TypeError says what is wrong."""
    if isinstance(payloads, (str, bytes, Mapping)) or not hasattr(payloads, "__len__"):
        raise TypeError(f"payloads must be a sequence of dicts, one per row, not {type(payloads).__name__}")
    if len(payloads) != n:
        raise ValueError(f"there are {len(payloads)} payloads, but {n} rows")
    texts: list[str | None] = []
    for row, payload in enumerate(payloads):
        if payload is None:
            texts.append(None)
            continue
        if not isinstance(payload, Mapping):
            raise TypeError(f"payloads[{row}] is a {type(payload).__name__}; a payload is a dict, or None")
        try:
            text = json.dumps(dict(payload), allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"payloads[{row}] cannot be written as JSON: {error}") from None
        if len(text) > MAX_PAYLOAD:
            raise ValueError(
                f"payloads[{row}] takes {len(text):,} characters of JSON, more than {MAX_PAYLOAD:,}"
            )
        if text.count("{") + text.count("[") > MAX_DEPTH and _depth(payload) > MAX_DEPTH:
            raise ValueError(f"payloads[{row}] is nested more than {MAX_DEPTH} deep")
        texts.append(text)
    return texts


def _depth(value: Any) -> int:
    """How many objects and lists lie within one another."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, (Mapping, list, tuple))]:
        depth += 1
        level = [part for one in level for part in (one.values() if isinstance(one, Mapping) else one)]
    return depth
