"""Writes of a cluster: checked here, learned by the learner, stored by the shards.

Each call has a number, and each of its rows the sequence number (number << 32) + row. All steps may be repeated with
these: a row that is stored with the same or a higher one is skipped, in the learner as in the shards. So after a kill
at any point the same call, with the same key, gives the same result.

Labels and removals are sent with the numbers that their items have when the call begins. Where one is done late, by a
retry, an item that has a higher number by then is left as it is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from hashstream.hashers import LabelsLike, OnlineHasher
from hashstream.hashers.labels import missing_rows
from hashstream.hashers.serialization import from_bytes
from hashstream.scale.engine import Actor
from hashstream.scale.learner import Begun, Stored
from hashstream.scale.members import Members
from hashstream.scale.merging import Listed, merge_items
from hashstream.scale.partition import route
from hashstream.table.calls import Call
from hashstream.table.incoming import (
    IdsLike,
    Incoming,
    PayloadsLike,
    check_feedback,
    check_incoming,
    check_removal,
    check_sequence,
)
from hashstream.table.keys import check_key, fingerprint, removal_fingerprint
from hashstream.table.reading import NOT_STORED, Where
from hashstream.table.results import Items
from hashstream.table.state.ids import as_ids, kind_of
from hashstream.table.state.state import State

__all__ = ["Storer", "numbers_of"]

Pending = list[tuple[Any, Actor]]


def numbers_of(number: int, first: int, n: int) -> np.ndarray:
    """The sequence numbers of n rows of a part, from its row `first` on."""
    return (number << 32) + np.arange(first, first + n, dtype=np.int64)


class Storer:
    """Stores, labels and removes items of a cluster."""

    def __init__(self, members: Members, fields: Mapping[str, str]) -> None:
        self._members, self._fields = members, dict(fields)
        self._lock = threading.Lock()
        self._empty: State | None = None

    # ---- what calls are checked by

    @property
    def hasher(self) -> OnlineHasher:
        """The learner's hasher, with everything that it has learned so far."""
        return from_bytes(self._members.learn("hasher"), "the learner's hasher")

    @property
    def template(self) -> State:
        """An empty table like those of the shards, by which calls are checked."""
        with self._lock:
            if self._empty is None:
                self._empty = State.empty(self.hasher, 0, self._fields)
            return self._empty

    @property
    def fields(self) -> dict[str, str]:
        """The declared fields, as this program knows them."""
        return self._fields

    def forget_template(self, fields: Mapping[str, str] | None = None) -> None:
        """Ask for the hasher again. fields : of the shards, where they are others now."""
        with self._lock:
            self._empty = None
            self._fields = self._fields if fields is None else dict(fields)

    def checked(
        self,
        ids: IdsLike,
        X: Any,
        y: LabelsLike | None = None,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        *,
        learn: bool,
    ) -> Incoming:
        """The rows of a call; ValueError or TypeError says what is wrong with them."""
        if (
            isinstance(fields, Mapping) and not fields.keys() <= self._fields.keys()
        ):  # declared by another program?
            self.forget_template(self._members.read_each("facts", {0: ()})[0]["fields"])
        return check_incoming(self.template, ids, X, y, fields, payloads, learn=learn)

    # ---- storing

    def store(
        self,
        ids: IdsLike,
        X: Any,
        y: LabelsLike | None = None,
        *,
        learn: bool,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        sequence: Any = None,
        key: str | None = None,
    ) -> None:
        """Store a batch, and learn from it where told so."""
        rows = self.checked(ids, X, y, fields, payloads, learn=learn)
        given = None if sequence is None else check_sequence(sequence, len(rows.ids))
        kind = "ingest" if learn else "add"
        begun = self.begin(_name(key), rows, kind)
        if begun.part.done:
            return
        numbers = numbers_of(begun.part.number, 0, len(rows.ids)) if given is None else given
        begun = begun if given is None else begun._replace(late=True)  # numbers that may come in any order
        self._members.finish(self.send(rows, numbers, learn=learn, begun=begun))
        if key is not None:
            self._members.learn("finish", begun.part.number, len(rows.ids), None)

    def begin(self, name: str | None, rows: Incoming, kind: str, *, key: bool = True) -> Begun:
        """Number a call or a part. name : None for a call that is not repeated."""
        mark = "" if name is None else f"{kind} {fingerprint(kind, rows):08x}"
        begun: Begun = self._members.learn("begin", name, mark, kind_of(rows.ids), key)
        self.see(begun)
        return begun

    def see(self, begun: Begun) -> None:
        """Take over what others have begun: functions that calls are checked by."""
        if begun.started and self.template.model.encoder is None:
            self.forget_template()

    def send(self, rows: Incoming, numbers: np.ndarray, *, learn: bool, begun: Begun) -> Pending:
        """Have rows learned, then begin to store them; `Members.finish` waits for that."""
        members = self._members
        lesson = self._lesson(rows, learn, begun.started)
        stored = Stored(None, late=True)
        if not begun.late:
            stored = self._teach(rows, numbers, lesson, learn, begun.part.number)
        if stored.late:  # the learner does not know newer rows without a label
            lesson = lesson[self._numbers(rows.ids[lesson]) <= numbers[lesson]]
            stored = self._teach(rows, numbers, lesson, learn, None)
        members.push(stored.publication or begun.publication)
        arguments = {}
        for shard, at in route(rows.ids, len(members.shards)):
            part = rows.chosen(at)
            every = np.arange(len(at))
            fields = {name: values.take(every).tolist() for name, values in part.fields.items()}
            payloads = part.payloads and [
                None if text is None else json.loads(text) for text in part.payloads
            ]
            arguments[shard] = (part.ids, part.X, part.y, fields, payloads, numbers[at])
        return members.submit_each("add", arguments)

    def _lesson(self, rows: Incoming, learn: bool, started: bool) -> np.ndarray:
        """The rows that the learner needs: those to learn from, and those that replace an item that it has.

        All of them where there are no functions yet, since they start with the first batch; and for a method that
        learns without labels.
        """
        n = len(rows.ids)
        wanted = np.zeros(n, bool)
        if not started or (learn and not self.template.model.hasher.needs_labels):
            wanted[:] = True
        elif learn and rows.y is not None:
            missing = missing_rows(rows.y)
            wanted[:] = True if missing is None else ~missing
        others = np.flatnonzero(~wanted)
        if len(others):
            wanted[others] = self._members.learn("held", rows.ids[others])
        return np.flatnonzero(wanted)

    def _teach(
        self, rows: Incoming, numbers: np.ndarray, lesson: np.ndarray, learn: bool, newest: int | None
    ) -> Stored:
        """Have the rows of a lesson stored by the learner. newest : as for `Learner.store`."""
        if not len(lesson):
            return Stored(None, late=False)
        y = None if rows.y is None else rows.y[lesson]
        args = rows.ids[lesson], rows.X[lesson], y, numbers[lesson], learn, newest
        stored: Stored = self._members.learn("store", *args)
        return stored

    def _numbers(self, ids: np.ndarray) -> np.ndarray:
        """The sequence numbers (n,) of items, as `HashTable.sequences` returns them."""
        routed = list(route(ids, len(self._members.shards)))
        parts = self._members.read_each("sequences", {at: (ids[rows],) for at, rows in routed})
        found = np.full(len(ids), NOT_STORED, np.int64)
        for (_, rows), numbers in zip(routed, parts, strict=True):
            found[rows] = numbers
        return found

    # ---- labels

    def label(
        self, ids: IdsLike, y: LabelsLike, *, learn: bool, sequence: Any = None, key: str | None = None
    ) -> int:
        """Label stored items; returns how many labels are new."""
        members, name = self._members, _name(key)
        rows = check_feedback(self.template, ids, y, sequence)
        assert rows.y is not None
        mark = f"label {learn} {fingerprint('label', rows):08x}"
        numbers = self._stored_numbers(rows.ids, name, mark)
        begun: Begun = members.learn("begin", name, mark, None, True)
        if begun.part.done:
            return begun.part.result or 0
        self.see(begun)
        call = f"label {begun.part.number}"
        learned = members.learn("sequences", rows.ids)
        held = learned >= numbers  # or the learner has none, or an older row
        if learn and not held.all():
            self._lend(rows.ids[~held])
            learned, held = np.maximum(learned, numbers), np.ones(len(rows.ids), bool)
        guard, taught = _limits(numbers, rows.guard), _limits(learned, rows.guard)
        count, publication = 0, begun.publication
        if held.any():
            args = rows.ids[held], rows.y[held], learn, taught[held], call if learn else None
            count, publication = members.learn("label", *args)
        routed = route(rows.ids, len(members.shards))
        arguments = {at: (rows.ids[r], rows.y[r], guard[r], call) for at, r in routed}
        stored = members.write_each("label", arguments)
        result = count if learn else sum(stored)
        if key is not None:
            members.learn("finish", begun.part.number, len(rows.ids), result)
        members.push(publication)
        return int(result)

    def _lend(self, ids: np.ndarray) -> None:
        """Give the learner items that it does not have, in the order of insertion."""
        items = self.get(ids, features=True)
        assert items.features is not None
        assert items.sequences is not None
        order = np.argsort(items.sequences)
        y = _labels_of([items.labels[at] for at in order.tolist()])
        numbers = np.maximum(items.sequences[order], 0)
        self._members.learn("store", items.ids[order], items.features[order], y, numbers, False)

    def get(self, ids: np.ndarray, *, features: bool) -> Items:
        """Stored data of items; KeyError where one is not stored."""
        members = self._members
        routed = list(route(ids, len(members.shards)))
        parts = members.read_each("get", {at: (ids[rows], features) for at, rows in routed})
        return merge_items(len(ids), list(zip((one.rows for one in routed), parts, strict=True)), ids)

    def has(self, ids: np.ndarray) -> np.ndarray:
        """Which ids are stored, (n,) bool."""
        routed = list(route(ids, len(self._members.shards)))
        found = self._members.read_each("contains", {at: (ids[rows],) for at, rows in routed})
        there = np.zeros(len(ids), bool)
        for (_, rows), mask in zip(routed, found, strict=True):
            there[rows] = mask
        return there

    # ---- calls of a writer

    def check(self, call: Call) -> Incoming:
        """The rows of a call."""
        if call.kind in ("label", "annotate"):
            return check_feedback(self.template, *call.args, **call.more)
        given: dict[str, Any] = {name: call.more.get(name) for name in ("fields", "payloads")}
        return self.checked(*call.args, **given, learn=call.kind == "ingest")

    def do(self, calls: list[Call]) -> None:
        """Do calls one after the other; each keeps its own error and result."""
        for call in calls:
            try:
                call.end(result=self._do(call))
            except Exception as error:
                call.end(error)

    def _do(self, call: Call) -> int | None:
        if call.kind in ("label", "annotate"):
            return self.label(*call.args, learn=call.kind == "label", key=call.key, **call.more)
        self.store(*call.args, learn=call.kind == "ingest", key=call.key, **call.more)
        return None

    def _stored_numbers(self, ids: np.ndarray, name: str | None, mark: str) -> np.ndarray:
        """The sequence numbers of items when a call begins, -1 for none. KeyError where items are not stored, unless
        the call was begun before: they may be gone since, and have the number NOT_STORED."""
        numbers = self._numbers(ids)
        gone = ids[numbers == NOT_STORED]
        if len(gone) and not (name is not None and self._members.learn("knows", name, mark)):
            raise KeyError(f"not in the cluster: {', '.join(map(repr, gone[:10].tolist()))}")
        return numbers

    # ---- removing

    def remove(self, ids: IdsLike | None, where: Where | None, sequence: Any, key: str | None) -> int:
        """Remove items by ids or by a filter; returns how many."""
        members, name = self._members, _name(key)
        wanted, given = check_removal(ids, where, sequence)
        mark = f"remove {removal_fingerprint(wanted, where):08x}"
        numbers = None if wanted is None else self._stored_numbers(wanted, name, mark)
        begun: Begun = members.learn("begin", name, mark, None, True)
        if begun.part.done:
            return begun.part.result or 0
        call = f"remove {begun.part.number}"
        arguments: dict[int, tuple[Any, ...]]
        if wanted is None or numbers is None:
            listed: list[Listed] = members.read("ids", where, None)
            some = [one for one in listed if len(one.ids)]
            if some:
                each = _lowest(np.concatenate([one.sequences for one in some]), given)
                members.learn("remove", as_ids(np.concatenate([one.ids for one in some])), each)
            highest = [_lowest(one.sequences.max(initial=-1), given) for one in listed]
            arguments = {at: (None, where, highest[at], call) for at in range(len(listed))}
        else:
            guard = _limits(numbers, given)
            members.learn("remove", wanted, guard)
            routed = route(wanted, len(members.shards))
            arguments = {at: (wanted[rows], None, guard[rows], call) for at, rows in routed}
        counts = members.write_each("remove", arguments)
        if key is not None:
            members.learn("finish", begun.part.number, sum(counts), sum(counts))
        return sum(counts)


def _name(key: str | None) -> str | None:
    return None if key is None else f"key {check_key(key)}"


def _lowest(numbers: Any, given: np.ndarray | None) -> Any:
    """The sequence numbers that items have, or those that the caller gave, whichever are lower."""
    return numbers if given is None else np.minimum(numbers, given)


def _limits(numbers: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """The same for calls: items that are gone have no number."""
    return np.asarray(np.maximum(_lowest(numbers, given), -1))


def _labels_of(labels: list[Any]) -> np.ndarray | None:
    """Labels of items as one array, in which some may be missing; None where all are."""
    known = [one for one in labels if one is not None]
    if not known:
        return None
    if isinstance(known[0], np.ndarray):
        rows = [np.full(len(known[0]), np.nan) if one is None else one for one in labels]
        return np.stack(rows)
    found = np.empty(len(labels), object)
    found[:] = labels
    return found
