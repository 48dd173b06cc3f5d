"""`Writer`: calls from many threads, gathered into group commits.

A commit costs its sync, however many rows it has. Calls wait in a queue. One of their threads leads: it does all calls
that are waiting, while others come, and then one of those leads. Each call is checked by itself, and all that fit
together are stored in one commit.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import LabelsLike
from hashstream.table.errors import TableError
from hashstream.table.incoming import IdsLike, Incoming, PayloadsLike
from hashstream.table.state.columns import FieldColumn, field_column

__all__ = ["Call", "Writer", "do_calls"]

MOST_ROWS = 10_000  # of a commit
PATIENCE, LONGEST = 0.3, 3e-3  # share of the time of the last commit, and seconds, that others are waited for
NAP = 1e-4  # seconds between two looks
OF_ROWS = (ArithmeticError, LookupError, MemoryError, TableError, TypeError, ValueError)
"""Errors that the rows of one call may bring. Others, such as NumPy's in the place of an interrupt, concern all."""

Kind = Literal["ingest", "add", "label"]


@dataclass(eq=False)
class Call:
    """A call of a method of `HashTable`, which waits.

    rows : its arguments, checked. done : whether it has come to its end, with an error or not.
    """

    kind: Kind
    args: tuple[Any, ...]
    more: dict[str, Any]
    rows: Incoming | None = None
    done: bool = False
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._asleep = threading.Lock()  # an interrupt cannot leave it half-way, as it can an `Event`
        self._asleep.acquire()

    def end(self, error: BaseException | None = None) -> None:
        self.error, self.done = error, True

    def wait(self) -> None:
        """Until `wake` is called, or was."""
        self._asleep.acquire()

    def wake(self) -> None:
        with suppress(RuntimeError):  # it is awake
            self._asleep.release()


class Writer:
    """Writes to a table from any number of threads: calls that wait for one another share a commit.

    A call returns when its own rows are durable, and what it raises concerns its own rows only. Rows that share a
    commit are learned as one batch, in the order in which the calls came.
    """

    def __init__(self, check: Callable[[Call], Incoming], do: Callable[[list[Call]], None]) -> None:
        """check : checks the arguments of a call. do : does calls, whose errors they keep."""
        self._check, self._do_all = check, do
        self._waiting: deque[Call] = deque()
        self._leading: Any = threading.RLock()  # it knows who leads, whatever was interrupted
        self._led: list[Call] = []  # by the thread that leads
        self._last = (
            0,
            0.0,
        )  # calls that were done, or came meanwhile, the last time, and seconds that it took

    def ingest(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
    ) -> None:
        """As `HashTable.ingest`."""
        self._do(Call("ingest", (ids, X, y), {"fields": fields, "payloads": payloads}))

    def add(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        learn: bool = False,
    ) -> None:
        """As `HashTable.add`."""
        self._do(Call("ingest" if learn else "add", (ids, X, y), {"fields": fields, "payloads": payloads}))

    def label(self, ids: IdsLike, y: LabelsLike) -> None:
        """As `HashTable.label`, which also tells how many labels were new."""
        self._do(Call("label", (ids, y), {}))

    def _do(self, call: Call) -> None:
        if self._leading._is_owned():
            raise TableError(
                "a call of this writer is under way in this thread: on_commit and handlers of signals cannot write"
            )
        call.rows = self._check(call)  # here: while another thread syncs, this one has the time
        try:
            self._waiting.append(call)
            while not call.done:
                if self._leading.acquire(blocking=False):
                    self._lead(call)
                else:
                    call.wait()
        except BaseException as error:  # an interrupt, at any moment, or an error that concerns all calls
            call.done = True  # nobody waits for it any more
            self._step_down(error)
            raise
        if call.error is not None:
            raise call.error

    def _lead(self, mine: Call) -> None:
        """Do the calls that are waiting, and let one of those lead that have come meanwhile."""
        if not mine.done:
            self._gather()
            clock = time.perf_counter()
            while self._waiting:
                self._led.append(self._waiting[0])  # first: a call that was interrupted here is known
                self._waiting.popleft()
            self._led = [call for call in self._led if not call.done]
            self._do_all(self._led)
            self._last = len(self._led) + len(self._waiting), time.perf_counter() - clock
        self._step_down()

    def _gather(self) -> None:
        """Where several threads write, wait a moment for those whose calls have just been done: they are likely to be
        back soon, and a commit more would cost all of them more."""
        expected, seconds = self._last
        end = time.perf_counter() + min(PATIENCE * seconds, LONGEST)
        while len(self._waiting) < expected and expected > 1 and time.perf_counter() < end:
            time.sleep(NAP)

    def _step_down(self, error: BaseException | None = None) -> None:
        """Let another thread lead, if this one does. error : of all calls that are not done. Interrupted, it may be
        called again."""
        if self._leading._is_owned():
            if error is not None and not isinstance(error, Exception):
                error = TableError("the thread that wrote these rows was interrupted: they may be stored")
            for call in self._led:
                if not call.done:
                    call.end(error)
            for call in self._led:
                call.wake()
            self._led = []
            self._leading.release()
        for call in list(self._waiting):
            if not call.done:
                call.wake()
                break


def do_calls(
    calls: list[Call], check: Callable[[Call], Incoming], store: Callable[[Kind, Incoming], None]
) -> None:
    """Do calls in their order, as many at once as fit together; each keeps its own error.

    check : checks a call against the table as it is. store : makes checked rows durable.
    """
    group = _Group()
    for call in calls:
        rows = _checked(call, check)
        if rows is not None and not group.takes(call, rows):
            _store(group, check, store)
            group = _Group()
            rows = _checked(call, check)
            if rows is not None:
                group.takes(call, rows)
    _store(group, check, store)


class _Group:
    """Calls that share a commit."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.rows: list[Incoming] = []
        self._ids: set[Any] = set()
        self._labels: tuple[int, ...] | None = None  # shape of one

    def takes(self, call: Call, rows: Incoming) -> bool:
        """Take one more call, if it can share a commit with the others; whether it can."""
        ids = rows.ids.tolist()
        labels = self._labels if rows.y is None else rows.y.shape[1:]
        if self.calls:
            first, before = self.calls[0], self.rows[0]
            same = call.kind == first.kind and rows.ids.dtype == before.ids.dtype
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
        return True


def _checked(call: Call, check: Callable[[Call], Incoming]) -> Incoming | None:
    """The rows of a call; None for one that ends here."""
    try:
        if call.rows is None or not call.rows.firm:
            call.rows = check(call)
        return call.rows
    except Exception as error:
        call.end(error)
        return None


def _store(group: _Group, check: Callable[[Call], Incoming], store: Callable[[Kind, Incoming], None]) -> None:
    """Store the rows of a group at once; if that fails, one call after the other, so that each has its own error."""
    if len(group.calls) > 1:
        try:
            store(group.calls[0].kind, joined(group.rows))
        except OF_ROWS:
            for call in group.calls:
                one = _Group()
                if (rows := _checked(call, check)) is not None:
                    one.takes(call, rows)
                    _store(one, check, store)
            return
        for call in group.calls:
            call.end()
    elif group.calls:
        call, rows = group.calls[0], group.rows[0]
        try:
            store(call.kind, rows)
        except Exception as error:
            call.end(error)
        else:
            call.end()


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
    return replace(
        parts[-1],
        ids=np.concatenate([part.ids for part in parts]),
        X=np.concatenate([part.X for part in parts]),
        y=_joined_labels([part.y for part in parts], [len(part.ids) for part in parts]),
        fields=fields,
        payloads=payloads,
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
