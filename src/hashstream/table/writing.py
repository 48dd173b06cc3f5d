"""The half of `HashTable` that changes it. Every change is one commit: made durable first, then seen by everybody."""

from __future__ import annotations

import copy
import logging
import os
import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.labels import as_labels, labelled
from hashstream.hashers.validation import check_count, check_finite, check_rows, without_names
from hashstream.table import upkeep
from hashstream.table.change import Added, Change, Recoded
from hashstream.table.codes import View
from hashstream.table.encoders import encode, encoder_checksum, frozen
from hashstream.table.errors import TableError
from hashstream.table.exclusive import change, exclusively
from hashstream.table.folder import FolderStore
from hashstream.table.history import History
from hashstream.table.ids import MAX_SLOTS, Index, as_ids, column_of, repeated
from hashstream.table.integrity import refusing
from hashstream.table.packing import plain_labels
from hashstream.table.policies import Facts, Policy, Projected
from hashstream.table.recovery import Recovered
from hashstream.table.refresh import recode_features, recode_projected, smallest_versions, stale_parts
from hashstream.table.store import Batch, Store

__all__ = ["TableWriter"]

log = logging.getLogger("hashstream.table")


_in_memory: weakref.WeakSet[TableWriter] = weakref.WeakSet()


class TableWriter:
    """State and writing of a table; see `HashTable`."""

    def __init__(
        self,
        store: Store,
        recovered: Recovered,
        policy: Policy,
        *,
        write: bool,
        max_versions: int,
        checkpoint_rows: int,
    ) -> None:
        """Use `HashTable.open`."""
        self._store, self._policy = store, policy
        self._hasher, self._reservoir = recovered.hasher, recovered.reservoir
        self._view, self._generation = recovered.view, store.generation  # exchanged together
        self._max_versions, self._checkpoint_rows = max_versions, checkpoint_rows
        self._since_checkpoint = recovered.replayed
        self._checkpointed = hasattr(self._hasher, "n_seen_")
        self._write, self._open = write, True
        self._index: Index | None = None  # made when an id is first looked up
        self._half_learned = False  # whether the hasher may have learned what is neither committed nor undone
        self._lock: Any = threading.RLock()  # the writer's
        self._at_work = False  # whether somebody writes
        self._close_later = False  # whether who writes has asked for it, in the handler of a signal
        self._closed = False  # whether `close` has come to its end
        self._process = os.getpid()
        if not store.durable:
            _in_memory.add(self)
        self._publish = threading.Lock()  # held for the exchange of view, reservoir and index only
        self._making = threading.Lock()  # held while the index is made
        self._background_error: Exception | None = None
        self._history: History | None = None  # read when it is first looked at
        if write:
            if isinstance(store, FolderStore):
                with refusing(store.path):
                    self._policy.restore(store.state["policy"])
            self._policy.opened(self)

    @change
    def ingest(self, ids: Any, X: Any, y: Any = None) -> None:
        """Store a batch and learn from its rows that have a label. When this returns, it is durable; if it raises,
        nothing has changed.

        ids : (n,) whole numbers or strings, none twice. An id that is there already is replaced.
        X : (n, d) features; the columns of a data frame count by position.
        y : (n,) labels or an (n, C) matrix of 0 and 1, as the hasher takes them. A row whose label is missing (None,
            NaN, pandas.NA; in a matrix, anywhere in its row) is stored and not learned from. Where no row has a label,
            the batch is stored with the current hash functions, as `add` does.
        """
        ids, X = self._batch(ids, X)
        y = None if y is None else plain_labels(as_labels(y))  # it is kept, and the caller's may change
        if y is not None and y.ndim and not len(labelled(y, y)[0]) and len(y) == len(X):
            self._store_unlearned(ids, X, y)
            return
        learner, kept = self._hasher._remember(), self._policy.state()
        # The first batch draws from a generator that was given as random_state, which `_put_back` cannot undo.
        unlearned = None if hasattr(self._hasher, "n_seen_") else copy.deepcopy(self._hasher)
        self._half_learned = True
        try:
            self._hasher.partial_fit(X, y)
            self._store_batch(ids, X, y, learned=True)
        except BaseException:
            self._hasher._put_back(learner)
            self._hasher = unlearned or self._hasher
            self._policy.restore(kept)
            self._half_learned = False  # last: who is interrupted before is torn
            raise
        self._half_learned = False
        self._maintain()
        self._policy.ingested()

    @change
    def add(self, ids: Any, X: Any) -> None:
        """Store items without learning from them: as `ingest`, without labels."""
        self._store_unlearned(*self._batch(ids, X), None)

    def _store_unlearned(self, ids: np.ndarray, X: np.ndarray, y: np.ndarray | None) -> None:
        """Store a batch in which no row has a label."""
        if not hasattr(self._hasher, "n_seen_"):
            raise TableError(
                "the hasher has not learned anything yet, so it cannot encode: ingest a batch first, in which some "
                "rows have a label"
            )
        self._store_batch(ids, X, y, learned=False)
        self._maintain()

    @change
    def remove(self, ids: Any) -> None:
        """Take items out for good. KeyError, and nothing changes, where an id is not there."""
        slots = np.sort(self._slots(np.unique(as_ids(ids)))).astype(np.uint32)
        if len(slots):
            self._commit(Change(removed=slots))
        self._maintain()

    @change
    def refresh(self, budget: int | None = None) -> int:
        """Re-encode codes of old versions, the oldest first; returns how many.

        budget : items at most; all by default.
        """
        if budget is not None:
            check_count("budget", budget, 1)
        view = self._view
        if view.newest < 0:
            return 0
        recoded = self._recode(view, view.encoders[view.newest], stale_parts(view.parts, view.newest), budget)
        count = sum(len(piece.slots) for piece in recoded)
        if count:
            self._commit(Change(recoded=tuple(recoded)))
            self._maintain()
        self._background_error = None
        return count

    @change
    def flush(self) -> None:
        """Write a checkpoint, so that opening the table again learns nothing twice. With durability "fast", this also
        makes everything so far survive a power loss."""
        upkeep.checkpoint(self)
        self._store.harden()

    def _batch(self, ids: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Checked ids, and X in the dtype of the table."""
        ids = as_ids(list(ids) if isinstance(ids, range) else ids)
        if twice := repeated(ids):
            raise ValueError(f"ids occur more than once in the batch: {', '.join(map(repr, twice[:10]))}")
        fitted = hasattr(self._hasher, "n_seen_")
        X = check_rows(self._hasher._view(), without_names(X), first=not fitted)
        if fitted:
            with np.errstate(over="ignore"):
                X = X.astype(self._hasher.dtype_, copy=False)
        X = np.ascontiguousarray(check_finite(X))
        if len(ids) != len(X):
            raise ValueError(f"there are {len(ids)} ids, but X has {len(X)} rows")
        column = self._view.column
        kind = "str" if ids.dtype == object else "int"
        if column is not None and column.kind != kind:
            names = {"str": "strings", "int": "whole numbers"}
            raise ValueError(f"the ids of this table are {names[column.kind]}, but these are {names[kind]}")
        if self._view.n_slots + len(ids) > MAX_SLOTS:
            raise TableError(f"a table takes {MAX_SLOTS} insertions: compact it to go on")
        return ids, X

    def _store_batch(self, ids: np.ndarray, X: np.ndarray, y: np.ndarray | None, *, learned: bool) -> None:
        view, hasher = self._view, self._hasher
        version = int(hasher.version_)
        encoder = view.encoders[version] if version in view.encoders else frozen(hasher)
        codes = encode(encoder, X)
        found = self._find(ids)
        removed = np.sort(found[found >= 0]).astype(np.uint32)
        left = view  # what is there without the replaced items
        if len(removed):
            left = view.applied(Change(removed=removed), view.column)
        going = []
        if learned and self._policy.wants_refresh(self._facts(left, encoder, len(X))):
            going = stale_parts(left.parts, version)
        elif version != view.newest:
            going = smallest_versions(left.parts, version, self._max_versions)
        recoded = self._recode(left, encoder, going, None, X)
        self._commit(
            Change(removed, tuple(recoded), Added(view.n_slots, ids, version, codes)),
            encoder,
            Batch(X, y, learned, encoder_checksum(encoder)),
        )

    def _facts(self, view: View, encoder: OnlineHasher, rows: int) -> Facts:
        counts = view.counts()
        bulk = max(counts, key=lambda version: counts[version]) if counts else None
        moved = encoder.version_ != self._view.newest
        return Facts(moved, rows, encoder, None if bulk is None else view.encoders[bulk], self._reservoir)

    def _recode(
        self,
        view: View,
        encoder: OnlineHasher,
        parts: list[Any],
        budget: int | None,
        batch: np.ndarray | None = None,
    ) -> list[Recoded]:
        if not parts:
            return []
        if self._store.keep_features:
            return recode_features(self._store, encoder, parts, budget)
        assert isinstance(self._policy, Projected)
        return recode_projected(self._policy, view, encoder, parts, self._reservoir, budget, batch)

    def _commit(
        self, change: Change, encoder: OnlineHasher | None = None, batch: Batch | None = None
    ) -> None:
        """Make a change durable, then let everybody see it. All that can fail is done before the commit."""
        view, added = self._view, change.added
        column = view.column
        if added is not None:
            kind = "str" if added.ids.dtype == object else "int"
            column = (column or column_of(kind)).extended(added.ids)
        newest = view.newest if encoder is None else int(encoder.version_)
        known = dict(view.encoders) if encoder is None else {**view.encoders, newest: encoder}
        after = view.applied(change, column).with_encoders(known, newest)
        first, n = (added.first_slot, len(added.codes)) if added is not None else (0, 0)
        X, y = (batch.X, batch.y) if batch is not None else (None, None)
        keys = np.empty(0, np.uint64) if added is None or column is None else column.keys_of(added.ids)
        seats = self._reservoir.plan(change.removed, first, keys, X, y)
        reservoir = self._reservoir.taken(seats)
        gone = np.empty(0, np.int64)
        if len(change.removed) and view.column is not None:
            gone = view.column.take(change.removed)
        index, entries = self._ids_index(), None
        if column is not None and index.crowded(n):
            index = Index(column, after.live())
        elif column is not None:
            entries = index.entries(column, gone, gone[:0] if added is None else added.ids, first)

        learned = batch is not None and batch.learned
        whole = learned and (not self._checkpointed or not self._store.keep_features)
        self._store.commit(
            change,
            batch=batch,
            seats=seats,
            policy=self._policy.state(),
            live=len(after),
            model=self._hasher if whole else None,
            old={version: after.encoders[version] for version in after.encoders if version != newest},
        )

        with self._publish:
            self._index = None  # and made again when it is next asked for, where what follows is interrupted
            self._view, self._reservoir = after, reservoir
            with suppress(MemoryError):
                if entries is not None:
                    index.enter(entries)
                self._index = index
        if batch is not None and learned:
            self._checkpointed = True
            self._since_checkpoint = 0 if whole else self._since_checkpoint + len(batch.X)
        self._store.settled()

    def _maintain(self) -> None:
        """After a commit: a checkpoint where it is time. That it fails is no error of the call, which is stored."""
        try:
            if self._since_checkpoint >= self._checkpoint_rows or self._store.wants_image():
                upkeep.checkpoint(self, quietly=True)
        except Exception as error:
            log.warning("a checkpoint failed, and is tried again after the next change: %r", error)

    def close(self) -> None:
        """Write a checkpoint and let go of the folder. A closed table cannot be used.

        In the handler of a signal that came in the middle of a change, the table is closed when the change is done.
        Where this is interrupted, call it again.
        """
        if self._closed:
            return
        if os.getpid() != self._process:
            self._open = False  # the rest is the parent's
            return
        if self._lock._is_owned():  # this thread is in the middle of something: see `exclusively`
            self._close_later = True
            return
        if self._write:
            self._policy.closing()
        with self._lock:
            try:
                if self._open and self._write:
                    upkeep.checkpoint(self, quietly=True, closing=True)
                    with suppress(OSError, TableError):
                        self._store.harden()
            finally:
                self._open = False
                self._store.close()
                self._closed = True

    def _refuse_if_closed(self) -> None:
        if not self._open:
            raise TableError("the table is closed")

    def _refuse_if_forked(self) -> None:
        """TableError in a process that has inherited a folder's table: there, it can only be searched."""
        if os.getpid() != self._process:
            self._store.refuse_in_fork(self._process)

    def _go_on_in_fork(self) -> None:
        """Of a table in memory, a forked process has a copy of its own. The threads that held its locks are not there;
        where one was changing it, the copy is half-way."""
        self._lock, self._publish, self._making = threading.RLock(), threading.Lock(), threading.Lock()
        self._half_learned |= self._at_work
        self._at_work, self._process = False, os.getpid()

    def _refuse_if_not_writable(self) -> None:
        self._refuse_if_closed()
        if not self._write:
            raise TableError('the table was opened with mode="read"; open it with mode="write" to change it')
        self._refuse_if_torn()

    def __reduce__(self) -> Any:
        raise TableError(
            "a table cannot be copied or sent to another process: open its folder there, with "
            'mode="read" while this process writes'
        )

    @exclusively  # a writer who is at work is not interrupted
    def _refuse_if_torn(self) -> None:
        """TableError where a change was interrupted between its commit and the moment when everybody sees it."""
        if self._store.unsure or self._half_learned:
            raise TableError(
                "the last change failed half-way, so nobody knows whether it is stored: close the table and open it "
                "again"
            )

    def _slots(self, ids: np.ndarray) -> np.ndarray:
        slots = self._find(ids)
        if (slots < 0).any():
            missing = ids[slots < 0].tolist()
            raise KeyError(f"not in the table: {', '.join(map(repr, missing[:10]))}")
        return slots

    def _find(self, ids: np.ndarray) -> np.ndarray:
        column = self._view.column
        if column is None or (column.kind == "str") != (ids.dtype == object):
            return np.full(len(ids), -1, np.int64)
        return self._ids_index().find(column, ids)

    def _ids_index(self) -> Index:
        with self._making:
            if self._index is None:
                view = self._view
                self._index = Index(view.column or column_of("int"), view.live())
            return self._index


def _after_fork() -> None:
    for table in list(_in_memory):
        table._go_on_in_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
