"""`HashTable`: items, their codes and the hash functions that encoded them, searchable while the functions learn."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from hashstream._machine import cores
from hashstream.datasets.rows import RowSource
from hashstream.hashers import LabelsLike, OnlineHasher
from hashstream.hashers.labels import as_labels, labelled
from hashstream.hashers.validation import check_count, check_finite, check_rows, without_names
from hashstream.table.errors import Overtaken, TableError
from hashstream.table.files import FileIngest, Progress, Tally, check_sources, open_source
from hashstream.table.guard import Guarded, change, exclusively, inside
from hashstream.table.opening import open_storage
from hashstream.table.planning import Plan, checked_batch, plan_batch, plan_refresh
from hashstream.table.policies import Policy, parse
from hashstream.table.results import Commit, Items, RadiusResult, SearchResult
from hashstream.table.settings import Durability, Settings
from hashstream.table.state.change import Batch, Change
from hashstream.table.state.ids import as_ids, column_of, kind_of
from hashstream.table.state.index import Index
from hashstream.table.state.labels import plain_labels
from hashstream.table.state.state import Model, State
from hashstream.table.state.view import locate
from hashstream.table.stats import History, TableStats, stored_map_of, table_stats
from hashstream.table.storage.base import Storage, check_codes
from hashstream.table.storage.folder.names import is_table

__all__ = ["HashTable"]

log = logging.getLogger("hashstream.table")

REFRESHES = (
    20  # commits in which `ingest_files` re-encodes stale items, and so often it tells of its progress
)

Include = Sequence[Literal["labels"]]


class HashTable(Guarded):
    """A searchable table of codes that stays consistent while the hash functions change; see `HashTable.open`.

    An item has an id (whole numbers or strings, one kind per table), features, perhaps a label, and a code with the
    version of the functions that encoded it. A search encodes the query for every version that is alive and compares
    codes of one version only. Items are re-encoded by a policy (`hashstream.table.policies`), or by `refresh`.

    One thread or process writes at a time. Searches see the state of one commit, from any number of threads, and are
    never blocked by a writer; other processes open the folder with `mode="read"`.

    Examples
    --------
    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> with HashTable.open(None, hs.FCOH(n_bits=64, random_state=0)) as table:
    ...     table.ingest(range(1500), X[:1500], y[:1500])
    ...     distances, ids = table.search(X[1500:1502], k=3)
    ...     len(table), ids.shape, (y[ids] == y[1500:1502, None]).all()
    (1500, (2, 3), np.True_)
    """

    # ---- opening

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None,
        hasher: OnlineHasher | None = None,
        *,
        policy: Policy | str | None = None,
        durability: Durability | None = None,
        mode: Literal["write", "read"] = "write",
        keep_features: bool | None = None,
        max_versions: int | None = None,
        sample_size: int | None = None,
        checkpoint_rows: int | None = None,
        segment_bytes: int | None = None,
        on_commit: Callable[[Commit], None] | None = None,
    ) -> Self:
        """Open a table's folder, or create one; `path=None` is a table in memory only.

        All settings but `mode` and `on_commit` are stored with the table. Where one is not given, the stored one holds;
        the defaults are for new tables.

        hasher : required for a new table, which learns with a copy of its own. For an existing table it may be given
            again with the same parameters. What it has learned is ignored, with a warning: the table goes on from what
            it has learned itself.
        policy : when items are re-encoded, as a policy or its text ("every:100"); by default the method's
            `refresh_policy`.
        durability : "full" (the default): when a call that writes returns, its change survives `kill -9` and, as far as
            fsync goes, a power loss. "fast": commits are not synced. They survive `kill -9`, but after a power loss or
            a crash of the system those since the last `flush`, `compact` or `close` may be missing; the table is
            consistent then, too.
        mode : "write", one at a time, or "read", any number; see `reload`.
        keep_features : whether features are stored, from which items are re-encoded; True, except with the policy
            `Projected`, which needs none. Cannot be changed later.
        max_versions : versions alive at most, 16 by default. An ingest that would bring one more re-encodes the items
            of the smallest ones.
        sample_size : items of the sample on which the table measures itself, 1,000 by default. Cannot be changed later.
        checkpoint_rows : rows learned between two checkpoints of the model, 20,000 by default: about that many rows are
            learned again after a crash.
        segment_bytes : size at which a new file of features is begun, 1 GiB by default.
        on_commit : called after every commit, in the thread that writes. What it raises is logged, and ignored.
        """
        given = {
            "policy": policy, "durability": durability, "max_versions": max_versions,
            "checkpoint_rows": checkpoint_rows, "segment_bytes": segment_bytes,
        }  # fmt: skip
        storage, state = open_storage(
            path, hasher, mode=mode, keep_features=keep_features, sample_size=sample_size, given=given
        )
        try:
            return cls(storage, state, write=mode == "write", on_commit=on_commit)
        except BaseException:
            storage.close()
            raise

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is a table in a folder."""
        return is_table(Path(path))

    def __init__(
        self,
        storage: Storage,
        state: State,
        *,
        write: bool = True,
        on_commit: Callable[[Commit], None] | None = None,
    ) -> None:
        """A table over a storage, and the state that it has loaded. Use `HashTable.open` for folders and memory."""
        super().__init__(write=write, survives=storage.survives)
        self._storage, self._state = storage, state
        self._on_commit = on_commit
        self._index: Index | None = None  # of the ids in `_state`; built when an id is first looked up
        self._history: History | None = None  # read when it is first asked for
        self._refresher = storage.settings.policy.refresher() if write else None
        if self._refresher is not None:
            try:
                self._refresher.start(self)
            except BaseException:
                self._refresher.stop()  # a thread of it, begun already, would use what is closed
                raise

    # ---- writing

    @change
    def ingest(
        self, ids: ArrayLike | Sequence[int] | Sequence[str], X: ArrayLike, y: LabelsLike | None = None
    ) -> None:
        """Store a batch, and learn from its rows that have a label. It is durable when this returns; if this raises,
        nothing has changed.

        ids : (n,) whole numbers or strings, each once. An id that is stored already is replaced.
        X : (n, d) features; the columns of a data frame count by position.
        y : (n,) labels, or an (n, C) matrix of 0 and 1, as the hasher takes them. A row whose label is missing (None,
            NaN, pandas.NA; in a matrix, anywhere in its row) is stored and not learned from. Where no row has a label,
            the batch is stored with the current hash functions, as by `add`.
        """
        state = self._sure_state()
        learner = state.model.hasher.copy()
        rows, labels = learner.check_batch(without_names(X), y)
        ids, rows = checked_batch(ids, rows, state)
        if labels is not None:
            labels = plain_labels(labels)  # a copy: they are kept, and the caller's may change
        after = learner.learned(rows, labels)
        learned = after is not learner
        model = state.model.learned(after) if learned else state.model
        self._store(ids, Batch(rows, labels, learned), model)
        if learned and self._refresher is not None:
            self._refresher.wake(self)

    def ingest_files(
        self,
        files: Iterable[str | Path | RowSource],
        *,
        id: str | None = None,
        label: str | None = None,
        features: str | None = None,
        header: bool = True,
        text: bool = False,
        dtype: DTypeLike | None = None,
        batch: int = 1000,
        learn: bool = True,
        resume: bool = False,
        again: bool = False,
        first_id: int = 0,
        refresh: bool | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Tally:
        """Ingest the rows of files (.npy, .npz, .csv, .tsv, .parquet), or of data sets by name, batch by batch.

        Each batch is durable once it is stored. Interrupted, the same call goes on: a row that is stored already, with
        the same features and label, is skipped; one that has changed replaces what is stored. Where files have several
        rows of one id, the last one stays, and earlier ones count as changes: unless `resume`, the same call learns
        from all of them again.

        id, label, features, header, text : as for `datasets.open_rows`. dtype : of a new table's features, float32 by
            default.
        batch, learn, resume, again, first_id : as for `FileIngest`.
        refresh : whether stale items are re-encoded at the end; by default they are where this learns, and the policy
            is the method's default.
        progress : called at the start of a file and after every batch. What it raises ends the ingest; all batches so
            far are stored.

        Returns how many rows are new, replaced others, or were known.
        """
        hasher, keep = self._state.model.hasher, self._storage.keep_features
        work = FileIngest(self, batch=batch, learn=learn, resume=resume, again=again, first_id=first_id)
        columns: dict[str, Any] = {
            "id": id,
            "label": label,
            "features": features,
            "header": header,
            "text": text,
        }
        precision = np.dtype(getattr(hasher, "dtype_", np.float32 if dtype is None else dtype))
        sources = [open_source(file, dtype=precision, **columns) for file in files]
        check_sources(hasher, sources, learn=learn)
        tell = progress or (lambda step: None)
        for step in work.run(sources):
            tell(step)
        usual = self.settings.policy == parse(hasher.refresh_policy)
        if learn and keep and usual if refresh is None else refresh:
            stale = self.stats().n_stale
            done = 0
            while count := self.refresh(budget=max(1 << 16, -(-stale // REFRESHES))):
                done += count
                tell(Progress(None, done, done, stale))
        self.flush()  # from here on it survives a power loss, with durability "fast" too
        return work.tally

    @change
    def add(
        self, ids: ArrayLike | Sequence[int] | Sequence[str], X: ArrayLike, y: LabelsLike | None = None
    ) -> None:
        """Store items, with labels or without, and do not learn from them; otherwise as `ingest`."""
        state = self._sure_state()
        learner = state.model.hasher.copy()
        rows = check_finite(check_rows(learner, without_names(X), first=state.model.encoder is None))
        ids, rows = checked_batch(ids, rows, state)
        labels = None if y is None else plain_labels(as_labels(y))
        if labels is not None:
            learner.check_labels(labels, len(rows))
            known = labelled(labels, labels)[0]
            if state.model.encoder is not None and len(known):
                learner.label_book_.read(known)  # raises as learning would
        self._store(ids, Batch(rows, labels, learned=False), state.model)

    @change
    def remove(self, ids: ArrayLike | Sequence[int] | Sequence[str]) -> None:
        """Remove items for good. KeyError, and nothing changes, where an id is not stored."""
        state, wanted = self._sure_state(), np.unique(as_ids(ids))
        with self._publish:
            slots = np.sort(self._slots(wanted)).astype(np.uint32)
        if len(slots):
            self._commit(Plan(Change(state.sample.change(slots), removed=slots)))
        self._maintain()

    @change
    def refresh(self, budget: int | None = None) -> int:
        """Re-encode items of old versions, the oldest first; returns how many.

        budget : items at most; all by default.
        """
        if budget is not None:
            check_count("budget", budget, 1)
        plan = plan_refresh(self._sure_state(), self._storage, budget)
        count = sum(len(piece.slots) for piece in plan.change.recoded)
        if count:
            self._commit(plan)
            self._maintain()
        if self._refresher is not None:
            self._refresher.error = None
        return count

    @change
    def flush(self) -> None:
        """Write a checkpoint, so that opening the table again learns nothing twice. With durability "fast", everything
        so far survives a power loss afterwards."""
        self._sure_state()
        self._checkpoint()
        self._storage.harden()

    @change
    def compact(self) -> int:
        """Free the space of items that were removed or replaced; returns their number. All others are written again,
        so there must be space for both meanwhile."""
        state = self._sure_state()
        dead = state.view.n_slots - len(state.view)
        if dead:
            after, go_over = self._storage.compact(state)
            with self._publish:
                go_over()
                self._state, self._index = after, None
            self._storage.settled()
            self._tell(Commit(after.seq))
        return dead

    def _sure_state(self) -> State:
        """The current state; TableError where a change was interrupted between its commit and the moment when everybody
        sees it. While holding the writer's lock."""
        if self._storage.in_doubt or self._torn:
            raise TableError(
                "the last write was interrupted and its outcome is unknown: close and reopen the table"
            )
        return self._state

    def _store(self, ids: np.ndarray, batch: Batch, model: Model) -> None:
        """Commit a batch. model : after it."""
        if model.encoder is None:
            raise TableError(
                "the hasher has not learned anything yet, so it cannot encode: ingest a batch first, in which some "
                "rows have a label"
            )
        with self._publish:
            found = self._find(ids)
        self._commit(plan_batch(self._state, self._storage, ids, found, batch, model))
        self._maintain()

    def _commit(self, plan: Plan) -> None:
        """Make a change durable, then let everybody see it. All that can fail is done before the commit."""
        change = plan.change
        after = self._state.after(change, plan.model, plan.memory)
        index, enter = self._next_index(change, after)
        self._storage.commit(change, after, plan.batch)
        with self._publish:
            self._index = None  # built again when it is next asked for, if what follows is interrupted
            self._state = after
            with suppress(MemoryError):
                enter()
                self._index = index
        self._storage.settled()
        added = 0 if change.added is None else len(change.added.ids)
        recoded = sum(len(piece.slots) for piece in change.recoded)
        self._tell(Commit(after.seq, added, len(change.removed), recoded, plan.recode_seconds))

    def _tell(self, commit: Commit) -> None:
        """Call the observer. That it fails is no error of the call, whose change is stored."""
        try:
            if self._on_commit is not None:
                self._on_commit(commit)
        except Exception as error:
            log.warning("on_commit failed, after a commit that is stored: %r", error)

    def _next_index(self, change: Change, after: State) -> tuple[Index | None, Callable[[], None]]:
        """The index of the ids after a change, once the function has been called."""
        view, column, added = self._state.view, after.view.column, change.added
        if column is None:
            return None, lambda: None
        with self._publish:
            index = self._current_index()
        if index.crowded(0 if added is None else len(added.ids)):
            return Index(column, after.view.live()), lambda: None
        gone = column.take(change.removed) if len(change.removed) else np.empty(0, np.int64)
        ids, first = (gone[:0], view.n_slots) if added is None else (added.ids, added.first_slot)
        entries = index.entries(column, gone, ids, first)
        return index, lambda: index.enter(entries)

    def _maintain(self) -> None:
        """Write a checkpoint where one is due. That it fails is no error of the call, whose change is stored."""
        try:
            if self._storage.checkpoint_due():
                self._checkpoint(quietly=True)
        except Exception as error:
            log.warning("a checkpoint failed, and is tried again after the next change: %r", error)

    def _checkpoint(self, *, quietly: bool = False, closing: bool = False) -> None:
        """quietly : a full disk is no error: all that a checkpoint holds can be derived again."""
        if self._storage.in_doubt or self._torn:
            return  # interrupted
        try:
            before, state = self._read_history(), self._state
            rows, history = state.model.n_seen - before.rows, None
            enough = closing or not quietly or rows >= self._storage.settings.checkpoint_rows
            if state.seq != before.seq and enough:
                self._history = before.measured(state, stored_map_of(state.view, state.sample))
                history = self._history.to_fields()
            self._storage.checkpoint(state, history, closing=closing)
        except TableError:
            if not quietly:
                raise

    # ---- searching

    def search(
        self, Q: ArrayLike, k: int = 10, *, asymmetric: bool = False, include: Include = ()
    ) -> SearchResult:
        """The k items nearest to each query, exactly; ties by insertion, the earliest first.

        Q : (q, d) features. asymmetric : rank by the query's real values against the stored bits, not by its bits: a
        bit that differs costs |f_k(q)|, scaled so that the mean over the bits is 1. include : ("labels",) for the
        labels of what was found.

        Returns distances (q, m), uint16 (float64 where asymmetric), and ids (q, m), int64 or object holding str, with
        m = min(k, items in the table): narrower arrays where there are fewer than k.
        """
        check_count("k", k, 1)
        while True:
            state, Q = self._to_search(Q, include)
            index = self._storage.index(state.view)
            search = index.topk_asymmetric if asymmetric else index.topk
            distances, slots = search(Q, int(k), self._n_threads())
            result = SearchResult(distances, state.view.ids(slots))
            if self._completed(result, slots, state, include):
                return result

    def search_radius(self, Q: ArrayLike, radius: int, *, include: Include = ()) -> RadiusResult:
        """All items at most `radius` bits away from each query.

        Returns offsets (q + 1,) int64, distances (found,) uint16 and ids (found,): what was found for query i is at
        `offsets[i]:offsets[i + 1]`, by ascending distance, then by insertion.
        """
        check_count("radius", radius, 0)
        while True:
            state, Q = self._to_search(Q, include)
            found = self._storage.index(state.view).radius(Q, int(radius), self._n_threads())
            offsets, distances, slots = found
            result = RadiusResult(offsets, distances, state.view.ids(slots))
            if self._completed(result, slots, state, include):
                return result

    def _completed(
        self, result: SearchResult | RadiusResult, slots: np.ndarray, state: State, include: Include
    ) -> bool:
        """Add what is to be included; False where slots were renumbered meanwhile, so that the search is repeated."""
        if include:
            try:
                result.labels = self._labels_of(slots, state)
            except Overtaken:
                self._await_reload()
                return False
        return True

    def _to_search(self, Q: Any, include: Include) -> tuple[State, np.ndarray]:
        """The state to search, and Q as its encoders take it."""
        self._refuse_if_closed()
        if include:
            self._refuse_if_forked()
            if isinstance(include, str) or set(include) != {"labels"}:
                raise ValueError(f'include must be ("labels",) or empty, not {include!r}')
        state = self._state
        encoder = state.model.encoder
        if encoder is None:
            Q = np.asarray(Q)
            if Q.ndim != 2:
                raise ValueError(f"Q must be 2-D, one query per row, not of shape {Q.shape}")
            return state, Q
        known = type(Q) is np.ndarray and Q.dtype == encoder.dtype and len(Q)
        if known and Q.shape[1:] == (encoder.n_features,):
            return state, Q  # as nearly always; what follows is for all else
        return state, check_rows(state.model.hasher.copy(), without_names(Q), first=False)

    def _n_threads(self) -> int:
        """Threads of a search: one per core, but for the core of a thread that writes. A thread that shares a core with
        it would be waited for longer than it helps."""
        return max(1, cores() - self._at_work)

    @inside
    def _labels_of(self, slots: np.ndarray, state: State) -> np.ndarray:
        """The labels of slots of any shape, each read once; object."""
        distinct, place = np.unique(slots, return_inverse=True)
        known = self._storage.labels(distinct, state.generation)
        labels = np.empty(slots.size, object)
        for i, at in enumerate(place.ravel().tolist()):
            labels[i] = known[at]
        return labels.reshape(slots.shape)

    # ---- looking up

    @inside
    def get(self, ids: ArrayLike | Sequence[int] | Sequence[str], *, features: bool = True) -> Items:
        """Stored data of items; KeyError where an id is not stored.

        features : whether they are read, which is most of the work.
        """
        wanted, storage = as_ids(ids), self._storage
        self._refuse_if_forked()
        X: np.ndarray | None = None
        while True:
            self._refuse_if_closed()
            with self._publish:
                slots, state = self._slots(wanted), self._state
            with suppress(Overtaken):
                if features and storage.keep_features and len(wanted):
                    X, labels = storage.read(slots, state.generation)
                else:
                    labels = storage.labels(slots, state.generation)
                break
            self._await_reload()
        codes = np.empty((len(wanted), state.view.width), np.uint8)
        versions = np.empty(len(wanted), np.int64)
        for part, at, rows in locate(state.view.parts, slots):
            codes[at], versions[at] = part.codes[rows], part.version
        return Items(wanted, codes, versions, labels, X)

    def ids(self) -> np.ndarray:
        """The ids of all items in the order of insertion: (n,) int64, or object holding str."""
        self._refuse_if_closed()
        view = self._state.view
        return view.ids(view.live())

    def __iter__(self) -> Iterator[Any]:
        """The ids of all items, as of one commit, in the order of insertion."""
        yield from self.ids().tolist()

    def __len__(self) -> int:
        return len(self._state.view)

    @inside
    def __contains__(self, one: Any) -> bool:
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, str, np.integer)):
            return False
        self._refuse_if_forked()
        self._refuse_if_closed()
        with self._publish:
            try:
                return bool(self._find(as_ids([one]))[0] >= 0)
            except ValueError:  # a number that no id can be
                return False

    def _slots(self, ids: np.ndarray) -> np.ndarray:
        """The slots of ids, or a KeyError; while holding `_publish`, or the writer's lock."""
        slots = self._find(ids)
        if (slots < 0).any():
            missing = ids[slots < 0].tolist()
            raise KeyError(f"not in the table: {', '.join(map(repr, missing[:10]))}")
        return slots

    def _find(self, ids: np.ndarray) -> np.ndarray:
        """The slots of ids, -1 where an id is not stored."""
        column = self._state.view.column
        if column is None or column.kind != kind_of(ids):
            return np.full(len(ids), -1, np.int64)
        return self._current_index().find(column, ids)

    def _current_index(self) -> Index:
        if self._index is None:
            view = self._state.view
            self._index = Index(view.column or column_of("int"), view.live())
        return self._index

    def _await_reload(self) -> None:
        """Before asking again: the table was compacted by another thread or process, so slots have other numbers."""
        self._refuse_if_torn()
        time.sleep(0.001)
        self.reload()

    # ---- the table itself

    @property
    def path(self) -> Path | None:
        """The folder; None in memory."""
        return self._storage.path

    @property
    def settings(self) -> Settings:
        """Policy, durability and limits, as they are stored with the table."""
        return self._storage.settings

    @property
    def keeps_features(self) -> bool:
        """Whether features are stored, from which items are re-encoded."""
        return self._storage.keep_features

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the current hasher."""
        self._refuse_if_forked()
        return copy.deepcopy(self._state.model.hasher)

    def __repr__(self) -> str:
        hasher, view = self._state.model.hasher, self._state.view
        where = "in memory" if self.path is None else str(self.path)
        closed = "" if self._open else ", closed"
        return (
            f"<HashTable {where}: {len(view):,} items, {type(hasher).__name__}, {hasher.n_bits} bits, "
            f"{len(view.versions)} versions{closed}>"
        )

    @inside
    def stats(self) -> TableStats:
        """Items, versions, staleness, sizes and signs of drift."""
        self._refuse_if_forked()
        self._refuse_if_closed()
        state, history = self._state, self._read_history()
        index, error = self._index, None if self._refresher is None else self._refresher.error
        return table_stats(
            state,
            history,
            index_bytes=0 if index is None else index.nbytes,
            feature_bytes=self._storage.feature_bytes,
            disk_bytes=self._storage.disk_bytes,
            background_error=None if error is None else str(error),
        )

    def _read_history(self) -> History:
        """For a reader as it is stored now, since others write it."""
        if self._history is not None:
            return self._history
        history = History.from_fields(self._storage.history())
        if self._write:
            self._history = history
        return history

    def check(self, sample: int = 1000) -> dict[str, int]:
        """Verify every checksum, and encode a sample of items again; a TableError names what is wrong.

        Returns how much was verified: {"batches", "rows", "codes"}.
        """
        self._refuse_if_forked()
        while True:
            self._refuse_if_torn()
            self.reload()
            with suppress(Overtaken):
                return self._verified(sample)

    @exclusively
    def _verified(self, sample: int) -> dict[str, int]:
        self._refuse_if_closed()
        state = self._state
        batches, rows = self._storage.verify(state)
        codes = check_codes(state, self._storage, sample) if self._storage.keep_features else 0
        return {"batches": batches, "rows": rows, "codes": codes}

    @inside
    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the table, as of one commit, to a new folder; others may go on writing meanwhile."""
        self._refuse_if_forked()
        self._refuse_if_closed()
        target = Path(path)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise TableError(f"{target} exists already: a snapshot needs a new folder")
        if self._storage.survives:  # a copy of what is stored, while others write
            self._storage.snapshot(target, self._state, None)
        else:
            self._snapshot_state(target)

    @exclusively
    def _snapshot_state(self, target: Path) -> None:
        self._storage.snapshot(target, self._state, self._read_history().to_fields())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block, the policy refreshes nothing in the background."""
        running = self._refresher if self._refresher is not None and self._refresher.running else None
        if running is not None:
            running.stop()
        try:
            yield
        finally:
            if running is not None and self._open:
                running.start(self)

    def reload(self) -> bool:
        """For a table opened with `mode="read"`: see what was committed since; returns whether anything was.

        `get` and `check` do this by themselves where the folder was compacted meanwhile: the features of the state
        before are deleted then.
        """
        self._refuse_if_forked()
        return self._reload()

    @exclusively
    def _reload(self) -> bool:
        self._refuse_if_closed()
        after = self._storage.reload(self._state)
        if after is None:
            return False
        with self._publish:
            self._state, self._index = after, None
        return True

    @exclusively  # a thread that writes is not interrupted
    def _refuse_if_torn(self) -> None:
        self._sure_state()

    def _before_close(self) -> None:
        if self._refresher is not None:
            self._refresher.stop()

    def _close_now(self, *, writing: bool) -> None:
        try:
            if writing:
                self._checkpoint(quietly=True, closing=True)
                with suppress(OSError, TableError):
                    self._storage.harden()
        finally:
            self._storage.close()

    def _refuse_in_fork(self, process: int) -> None:
        self._storage.refuse_in_fork(process)

    def __reduce__(self) -> Any:
        raise TableError(
            "a table cannot be copied or sent to another process: open its folder there, with "
            'mode="read" while this process writes'
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
