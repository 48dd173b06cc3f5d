"""Calls of a table as values: many of them are done in few commits, and each has its own outcome.

Each call is checked by itself, and all that fit together are stored in one commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from hashstream.table.errors import TableError
from hashstream.table.incoming import ANY_NUMBER, Incoming
from hashstream.table.keys import check_key
from hashstream.table.state.change import Done
from hashstream.table.state.columns import FieldColumn, field_column

__all__ = ["Call", "Doing", "do_calls", "done_by"]

MOST_ROWS = 10_000  # of a commit
OF_ROWS = (ArithmeticError, LookupError, MemoryError, TableError, TypeError, ValueError)
"""Errors that the rows of one call may bring. Others, such as NumPy's in the place of an interrupt, concern all."""

Kind = Literal["ingest", "add", "label", "annotate"]


@dataclass(eq=False)
class Call:
    """A call of a method of `HashTable`, to be done together with others by `Writer.do`.

    kind : the method: "ingest", "add" or "label"; "annotate" is `label` with learn=False.
    args, more : its arguments, by position and by name.
    key : as for `HashTable.ingest`.

    done : whether it has come to its end. Then `error` is what it raised, or None, and `result` what it returned: None,
    and for "label" and "annotate" the number of items whose label is new.
    rows, fingerprint : its arguments, once they are checked.
    """

    kind: Kind
    args: tuple[Any, ...] = field(repr=False)
    more: dict[str, Any] = field(default_factory=dict, repr=False)
    key: str | None = None
    done: bool = field(default=False, init=False)
    error: BaseException | None = field(default=None, init=False)
    result: int | None = field(default=None, init=False)
    rows: Incoming | None = field(default=None, init=False, repr=False)
    fingerprint: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(map(repr, get_args(Kind)))}, not {self.kind!r}")
        if self.key is not None:
            self.key = check_key(self.key)
        self._asleep = threading.Lock()  # an interrupt cannot leave it half-way, as it can an `Event`
        self._asleep.acquire()

    def end(self, error: BaseException | None = None, result: int | None = None) -> None:
        """Note how it ended."""
        self.error, self.result, self.done = error, result, True

    def wait(self) -> None:
        """Until `wake` is called, or was."""
        self._asleep.acquire()

    def wake(self) -> None:
        with suppress(RuntimeError):  # it is awake
            self._asleep.release()


def done_by(calls: Sequence[Call], results: Sequence[int | None]) -> tuple[Done, ...]:
    """The calls that have a key, with their results, as a storage remembers them."""
    pairs = zip(calls, results, strict=True)
    return tuple(Done(call.key, call.fingerprint, result) for call, result in pairs if call.key is not None)


@dataclass(frozen=True)
class Doing:
    """The part of a table that does calls, while holding the writer's lock.

    check : checks a call against the table as it is, and sets its rows and fingerprint.
    was_done : whether a call was done before, by its key; then it has ended.
    store : makes the joined rows of calls of one kind durable; returns the result of each.
    """

    check: Callable[[Call], Incoming]
    was_done: Callable[[Call], bool]
    store: Callable[[Kind, Incoming, Sequence[Call]], Sequence[int | None]]


def do_calls(calls: Iterable[Call], doing: Doing) -> None:
    """Do calls in their order, as many at once as fit together; each keeps its own error."""
    group = _Group()
    for call in calls:
        if not group.may_take(call):  # its arguments, or its key, may depend on what the group does
            _store(group, doing)
            group = _Group()
        rows = _rows(call, doing)
        if rows is not None and not group.takes(call, rows):
            _store(group, doing)
            group = _Group()
            rows = _rows(call, doing)
            if rows is not None:
                group.takes(call, rows)
    _store(group, doing)


class _Group:
    """Calls that share a commit."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.rows: list[Incoming] = []
        self._ids: set[Any] = set()
        self._labels: tuple[int, ...] | None = None  # shape of one
        self._keys: set[str | None] = set()

    def may_take(self, call: Call) -> bool:
        """Whether a call is of the same kind as the others, and has a key that none of them has."""
        return not self.calls or (call.kind == self.calls[0].kind and call.key not in self._keys)

    def takes(self, call: Call, rows: Incoming) -> bool:
        """Take one more call, if it can share a commit with the others; whether it can."""
        ids = rows.ids.tolist()
        labels = self._labels if rows.y is None else rows.y.shape[1:]
        if self.calls:
            before = self.rows[0]
            same = rows.ids.dtype == before.ids.dtype
            same &= rows.X.shape[1:] == before.X.shape[1:] and rows.X.dtype == before.X.dtype
            same &= self._labels in (None, labels) and len(self._ids) + len(ids) <= MOST_ROWS
            # A method that needs no labels learns rows of a call without any, and would not learn missing ones.
            same &= rows.learner.needs_labels or (rows.y is None) == (before.y is None)
            if not same or not self._ids.isdisjoint(ids):
                return False
        self.calls.append(call)
        self.rows.append(rows)
        self._ids.update(ids)
        self._labels = labels
        if call.key is not None:
            self._keys.add(call.key)
        return True


def _rows(call: Call, doing: Doing) -> Incoming | None:
    """The rows of a call; None for one that ends here."""
    try:
        if call.key is not None and doing.was_done(call):
            return None
        if call.rows is None or not call.rows.firm:
            doing.check(call)
        return call.rows
    except Exception as error:
        call.end(error)
        return None


def _store(group: _Group, doing: Doing) -> None:
    """Store the rows of a group at once; if that fails, one call after the other, so that each has its own error."""
    calls = group.calls
    if len(calls) > 1:
        try:
            results = doing.store(calls[0].kind, joined(group.rows), calls)
        except OF_ROWS:
            for call in calls:
                do_calls([call], doing)
            return
        for call, result in zip(calls, results, strict=True):
            call.end(result=result)
    elif calls:
        try:
            (result,) = doing.store(calls[0].kind, group.rows[0], calls)
        except Exception as error:
            calls[0].end(error)
        else:
            calls[0].end(result=result)


def joined(parts: list[Incoming]) -> Incoming:
    """The rows of several calls as those of one."""
    names = {name: values.kind for part in parts for name, values in part.fields.items()}
    fields: dict[str, FieldColumn] = {}
    for name, kind in names.items():
        column = field_column(kind)
        for part in parts:
            held = part.fields.get(name)
            n = len(column) + len(part.ids)
            column = column.padded(n) if held is None else column.extended(held)
        fields[name] = column
    payloads: list[str | None] | None = None
    if any(part.payloads is not None for part in parts):
        payloads = [text for part in parts for text in part.payloads or [None] * len(part.ids)]
    guard: np.ndarray | None = None
    if any(part.guard is not None for part in parts):
        each = [np.full(len(part.ids), ANY_NUMBER) if part.guard is None else part.guard for part in parts]
        guard = np.concatenate(each)
    return replace(
        parts[-1],
        ids=np.concatenate([part.ids for part in parts]),
        X=np.concatenate([part.X for part in parts]),
        y=_joined_labels([part.y for part in parts], [len(part.ids) for part in parts]),
        fields=fields,
        payloads=payloads,
        guard=guard,
    )


def _joined_labels(labels: list[np.ndarray | None], counts: list[int]) -> np.ndarray | None:
    """Labels of several calls, of which some may have none, as one array."""
    known = [y for y in labels if y is not None]
    if not known:
        return None
    if known[0].ndim == 2:
        shape = known[0].shape[1]
        return np.concatenate(
            [np.full((n, shape), np.nan) if y is None else y for y, n in zip(labels, counts, strict=True)]
        )
    if len(known) == len(labels) and len({y.dtype for y in known}) == 1:
        return np.concatenate(known)
    found = np.empty(sum(counts), object)
    found[:] = [
        label
        for y, n in zip(labels, counts, strict=True)
        for label in ([None] * n if y is None else _plain(y))
    ]
    return found


def _plain(y: np.ndarray) -> Iterable[Any]:
    """Labels as Python has them; NaN, in an array of floats, is a missing one."""
    return [None if label != label else label for label in y.tolist()]
