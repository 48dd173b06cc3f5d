"""`HashTable`: items, their codes and the hash functions that encoded them, searchable while the functions learn."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from hashstream.datasets.rows import RowSource
from hashstream.hashers import LabelsLike, OnlineHasher
from hashstream.hashers.validation import check_count
from hashstream.table.calls import Call, Doing, do_calls, done_by
from hashstream.table.comparing import compared, is_due
from hashstream.table.created import check_created, created_with, creation_of
from hashstream.table.errors import Overtaken, TableError
from hashstream.table.export.manifest import Manifest
from hashstream.table.export.restore import restore_folder
from hashstream.table.export.writing import ExportProgress, export_state
from hashstream.table.files import FileIngest, Progress, Tally, check_sources, listed, open_source
from hashstream.table.following import Follower, follower_of
from hashstream.table.guard import change, exclusively, inside
from hashstream.table.incoming import (
    IdsLike,
    Incoming,
    PayloadsLike,
    check_feedback,
    check_incoming,
    check_removal,
)
from hashstream.table.keys import check_key, fingerprint, removal_fingerprint, result_of
from hashstream.table.logs import log_commit, log_compaction
from hashstream.table.opening import new_fields, open_storage
from hashstream.table.planning import NO_SLOTS, Plan, plan_adoption, plan_batch, plan_labels, plan_refresh
from hashstream.table.policies import Policy, parse
from hashstream.table.reading import Readable, Where
from hashstream.table.results import Commit
from hashstream.table.settings import Durability, Indexing, Settings
from hashstream.table.state.change import Batch, Change, Done
from hashstream.table.state.columns import SEQUENCE, field_kinds
from hashstream.table.state.index import Index
from hashstream.table.state.state import Model, State
from hashstream.table.stats import History, TableStats, stored_map_of, table_stats
from hashstream.table.storage.base import Storage, check_codes, check_payloads
from hashstream.table.storage.folder.names import is_table
from hashstream.table.writer import Writer

__all__ = ["HashTable"]

log = logging.getLogger("hashstream.table")

LABELS = ("label", "annotate")  # calls that label what is stored
REFRESHES = (
    20  # commits in which `ingest_files` re-encodes stale items, and so often it tells of its progress
)


class HashTable(Readable):
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
        fields: Mapping[str, Any] | None = None,
        policy: Policy | str | None = None,
        durability: Durability | None = None,
        mode: Literal["write", "read"] = "write",
        keep_features: bool | None = None,
        max_versions: int | None = None,
        sample_size: int | None = None,
        checkpoint_rows: int | None = None,
        segment_bytes: int | None = None,
        index: Indexing | None = None,
        on_commit: Callable[[Commit], None] | None = None,
        follow: bool = False,
        max_staleness: float | None = None,
        wait: float = 0.0,
    ) -> Self:
        """Open a table's folder, or create one; `path=None` is a table in memory only.

        All settings but `mode` and those from `on_commit` on are stored with the table. Where one is not given, the
        stored one holds; the defaults are for new tables.

        hasher : required for a new table, which learns with a copy of its own. For an existing table it may be given
            again with the same parameters. What it has learned is ignored, with a warning: the table goes on from what
            it has learned itself.
        fields : name -> type of the fields that items have: str, int, float, bool, list (of strings) or "datetime".
            For an existing table, those that are new are added; see `declare`.
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
        index : "auto" (the default): codes of many items are looked up rather than scanned, once they were searched so
            often that an index pays. It takes some 20 bytes of memory per item and is built in a thread. "scan": every
            search reads all codes. The answers are the same.
        on_commit : called after every commit, in the thread that writes. What it raises is logged, and ignored.
        follow : for `mode="read"`: reload by itself, in a thread, whenever the writer has committed.
        max_staleness : for `follow`, 0.5 seconds by default: no answer misses a commit that was acknowledged more than
            this long before the call. Where the thread has not looked for longer, the call itself reloads first, and
            raises what that raises.
        wait : for `mode="read"`: seconds to wait for a table that is not there yet.
        """
        follower = follower_of(path, mode, follow, max_staleness)
        given = {
            "policy": policy, "durability": durability, "max_versions": max_versions,
            "checkpoint_rows": checkpoint_rows, "segment_bytes": segment_bytes, "index": index,
        }  # fmt: skip
        begun = time.monotonic()
        storage, state = open_storage(
            path,
            hasher,
            fields=fields,
            mode=mode,
            keep_features=keep_features,
            sample_size=sample_size,
            given=given,
            wait=wait,
        )
        if follower is not None:
            follower.looked(begun)
        try:
            table = cls(storage, state, write=mode == "write", on_commit=on_commit, follower=follower)
        except BaseException:
            storage.close()
            raise
        try:
            if fields is not None and mode == "write":
                table.declare(fields)
            return table
        except BaseException:
            table.close()
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
        follower: Follower | None = None,
    ) -> None:
        """A table over a storage, and the state that it has loaded. Use `HashTable.open` for folders and memory."""
        super().__init__(storage, state, write=write, follower=follower)
        self._on_commit = on_commit
        self._history: History | None = None  # read when it is first asked for
        self._refresher = storage.settings.policy.refresher() if write else None
        for worker in (self._refresher, self._follower):
            if worker is not None:
                try:
                    worker.start(self)
                except BaseException:
                    worker.stop()  # a thread of it, begun already, would use what is closed
                    raise

    # ---- writing

    @change
    def ingest(
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> None:
        """Store a batch, and learn from its rows that have a label. It is durable when this returns; if this raises,
        nothing has changed.

        ids : (n,) whole numbers or strings, each once. An id that is stored already is replaced, with all of its data.
        X : (n, d) features; the columns of a data frame count by position.
        y : (n,) labels, or an (n, C) matrix of 0 and 1, as the hasher takes them. A row whose label is missing (None,
            NaN, pandas.NA; in a matrix, anywhere in its row) is stored and not learned from; so is every row where y is
            None. Before the first label has come, rows get the codes of the method's initial functions.
        fields : name -> n values, of fields that were declared. Fields that are left out are missing.
        payloads : n dicts that JSON can hold, or None for an item that has none.
        sequence : a whole number from 0 on, or one per row. It is stored with the item, and a row whose id is stored
            with the same or a higher one is skipped: neither stored nor learned from. So batches may come twice, late
            and in any order. An item that was stored without a number is older than any that has one, and a row without
            one replaces whatever is stored.
        key : a name of this call that the caller chose, such as a UUID, of 1 to 200 characters. A call whose key the
            table knows was done before: it changes nothing, and returns what it returned then. `KeyReused` where the
            arguments are others. The last 100,000 keys are kept, each committed together with what its call changed; a
            call that raises leaves none.
        """
        more = {"fields": fields, "payloads": payloads, "sequence": sequence}
        self._once(Call("ingest", (ids, X, y), more, key))

    def ingest_files(
        self,
        files: str | Path | RowSource | Iterable[str | Path | RowSource],
        *,
        id: str | None = None,
        label: str | None = None,
        features: str | None = None,
        payload: str | Sequence[str] = (),
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

        Columns (in .npz arrays) that are named like declared fields are stored as these. Text is parsed by the type
        of its field.

        Each batch is durable once it is stored. Interrupted, the same call goes on: a row that is stored already, with
        the same features, label, fields and payload, is skipped; one that has changed replaces what is stored. Where
        files have several rows of one id, the last one stays, and earlier ones count as changes: unless `resume`, the
        same call learns from all of them again.

        id, label, features, header, text : as for `datasets.open_rows`. dtype : of a new table's features, float32 by
            default.
        payload : names of columns for the payload, or patterns; "*" is all that are nothing else.
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
            "fields": tuple(self.fields),
            "payload": payload,
            "header": header,
            "text": text,
        }
        precision = np.dtype(getattr(hasher, "dtype_", np.float32 if dtype is None else dtype))
        sources = [open_source(file, dtype=precision, **columns) for file in listed(files)]
        check_sources(hasher, sources)
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
        self,
        ids: IdsLike,
        X: ArrayLike,
        y: LabelsLike | None = None,
        *,
        learn: bool = False,
        fields: Mapping[str, Any] | None = None,
        payloads: PayloadsLike | None = None,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> None:
        """Store items, with labels or without, and do not learn from them unless `learn`; otherwise as `ingest`."""
        more = {"fields": fields, "payloads": payloads, "sequence": sequence}
        self._once(Call("ingest" if learn else "add", (ids, X, y), more, key))

    @change
    def label(
        self,
        ids: IdsLike,
        y: LabelsLike,
        *,
        learn: bool = True,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> int:
        """Give labels to stored items, and learn from them unless told otherwise; durable when this returns.

        A label in the place of another one corrects it: a hasher that can (`hasher.can_correct()`: RidgeHash, for
        example) takes the old label back out, as if the item had always had the new one. The others learn the new one
        in addition. An item that has this label already, and was learned with it, is not learned from again, so that a
        call may be repeated.

        A missing label (None, NaN, pandas.NA; in a matrix, anywhere in its row) takes the item's label back: it has
        none afterwards. A hasher that can correct is then as if it had never learned the item; the others stay as they
        are.

        ids : (n,), each once; KeyError where one is not stored. y : (n,) labels or an (n, C) matrix.
        learn : False stores the labels only, as `add` does: for functions that are learned elsewhere.
        sequence : a whole number, or one per id: an item that is stored with a higher one is newer than this call, and
            left as it is. So a call may come late. An item without a number is never newer; numbers as `get` returns
            them, -1 for none, mean the items that were read. They are compared only, not stored.
        key : as for `ingest`. A repeated call may have other sequence numbers.

        Returns the number of items whose label has changed.
        """
        return self._once(Call("label" if learn else "annotate", (ids, y), {"sequence": sequence}, key)) or 0

    def writer(self) -> Writer:
        """A writer for any number of threads, whose calls share commits: many small calls at once take little longer
        than one. Calls of one writer share commits with one another only."""
        self._refuse_if_not_writable()
        return Writer(self._checked, self._do_calls)

    @change
    def _do_calls(self, calls: list[Call]) -> None:
        """Calls of a writer, in as few commits as possible."""
        do_calls(calls, Doing(self._checked, self._was_done, self._do))

    def _once(self, call: Call) -> int | None:
        """Do a call by itself, unless its key says that it was done before; what it returns, or returned then."""
        self._sure_state()
        if call.key is None or not self._was_done(call):
            (call.result,) = self._do(call.kind, self._checked(call), (call,))
        return call.result

    def _was_done(self, call: Call) -> bool:
        """Whether a call was done before, by its key; then it has the result of that time. `KeyReused` where that call
        had other arguments."""
        assert call.key is not None
        self._sure_state()
        before = self._storage.done(call.key)
        if before is None:
            return False
        mark: int | None = call.fingerprint
        if call.rows is None or not call.rows.firm:
            try:
                mark = fingerprint(call.kind, self._rows_of(call))
            except (
                ArithmeticError,
                LookupError,
                TypeError,
                ValueError,
            ):  # no call with such arguments was done
                mark = None
        call.end(result=result_of(before, mark))
        return True

    def _checked(self, call: Call) -> Incoming:
        """The rows of a call, in any thread."""
        self._refuse_if_forked()
        self._refuse_if_not_writable()
        call.rows = rows = self._rows_of(call)
        if call.kind in LABELS:
            with self._publish:
                self._slots(rows.ids)  # KeyError where one is not stored
        if call.key is not None:
            call.fingerprint = fingerprint(call.kind, rows)
        return rows

    def _rows_of(self, call: Call) -> Incoming:
        """The arguments of a call, checked, apart from whether the items that it labels are stored."""
        if call.kind in LABELS:
            return check_feedback(self._state, *call.args, **call.more)
        return check_incoming(self._state, *call.args, **call.more, learn=call.kind == "ingest")

    def _do(self, kind: str, rows: Incoming, calls: Sequence[Call]) -> Sequence[int | None]:
        """Commit the rows of calls of one kind; the result of each."""
        if kind in LABELS:
            return self._label(rows, calls, learn=kind == "label")
        nothing = [None] * len(calls)
        self._store(rows, learn=kind == "ingest", done=done_by(calls, nothing))
        return nothing

    def _label(self, rows: Incoming, calls: Sequence[Call], *, learn: bool) -> list[int]:
        """Commit labels of stored items; for each call the number of those that are new."""
        assert rows.y is not None
        state = self._sure_state()
        with self._publish:
            slots = self._slots(rows.ids)
        due = np.flatnonzero(_due(state, slots, rows.guard))
        plan = plan_labels(state, self._storage, slots[due], rows.y[due], learn=learn)
        changed = np.isin(slots, plan.relabelled)
        counts = [0 if call.rows is None else len(call.rows.ids) for call in calls]
        new = [int(part.sum()) for part in np.split(changed, np.cumsum(counts)[:-1])]
        done = done_by(calls, new)
        if len(plan.relabelled) or done:
            self._commit(plan, done)
            self._maintain()
        if plan.feedback is not None and self._refresher is not None:
            self._refresher.wake(self)
        return new

    @change
    def declare(self, fields: Mapping[str, Any]) -> None:
        """Add fields to the table; they are missing for the items that are there. Nothing happens for those that are
        declared already; ValueError where one is of another type."""
        state = self._sure_state()
        new = new_fields(field_kinds(fields), self.fields)
        if new:
            self._commit(Plan(Change(state.sample.change(NO_SLOTS), declared=new)))

    @change
    def remove(
        self,
        ids: IdsLike | None = None,
        *,
        where: Where | None = None,
        sequence: ArrayLike | None = None,
        key: str | None = None,
    ) -> int:
        """Remove items for good, by their ids or by a filter; returns how many.

        KeyError, and nothing changes, where an id is not stored. sequence : as for `label`; one number with `where`.
        key : as for `label`.
        """
        state = self._sure_state()
        wanted, guard = check_removal(ids, where, sequence)
        mark = 0
        if key is not None:
            mark = removal_fingerprint(wanted, where)
            if (before := self._storage.done(check_key(key))) is not None:
                return result_of(before, mark) or 0
        if wanted is None:
            assert where is not None
            slots = self._matching(where, state).slots()
        else:
            with self._publish:
                slots = self._slots(wanted)
        slots = np.sort(slots[_due(state, slots, guard)]).astype(np.uint32)
        done = () if key is None else (Done(key, mark, len(slots)),)
        if len(slots) or done:
            self._commit(Plan(Change(state.sample.change(slots), removed=slots)), done)
        self._maintain()
        return len(slots)

    @change
    def refresh(self, budget: int | None = None) -> int:
        """Re-encode items of old versions, the oldest first; returns how many.

        budget : items at most, apart from those of versions for which `max_versions` leaves no place; all by default.
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
    def adopt(self, hasher: OnlineHasher, budget: int | None = None) -> int:
        """Take hash functions that were learned elsewhere, and re-encode items with them, the oldest versions first, in
        one commit; returns how many.

        The same call again changes nothing but to re-encode more items, so it can be repeated until it returns 0. New
        items get these functions at once, and the table learns on from them. They may not have learned what this
        table was taught: a label that is corrected later is learned in addition.

        hasher : that has learned; it is copied. ValueError, and nothing changes, where its codes or features have
            another size or dtype, where the table's policy cannot re-encode by them, where its version is older than
            the table's, or where the table has other functions of its version.
        budget : items at most, apart from those of versions for which `max_versions` leaves no place; all by default,
            and none with 0.
        """
        state = self._sure_state()
        if not isinstance(hasher, OnlineHasher):
            raise TypeError(f"adopt takes a hasher, not {type(hasher).__name__}")
        hasher.encoder()  # raises where it has learned nothing
        self.settings.policy.check_hasher(hasher)
        if budget is not None:
            check_count("budget", budget, 0)
        hasher = copy.deepcopy(hasher)
        hasher.__dict__.pop("feature_names_in_", None)  # columns count by their position here
        plan = plan_adoption(state, self._storage, Model.of(hasher), budget)
        count = sum(len(piece.slots) for piece in plan.change.recoded)
        if count or plan.adopts:
            self._commit(plan)
            self._maintain()
        if plan.adopts and self._refresher is not None:
            self._refresher.wake(self)
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
            clock = time.perf_counter()
            after, go_over = self._storage.compact(state)
            with self._publish:
                go_over()
                self._state, self._index = after, None
            self._storage.settled()
            log_compaction(self._name(), dead, time.perf_counter() - clock)
            self._tell(Commit(after.seq, version=_version(after)))
        return dead

    def _store(self, rows: Incoming, *, learn: bool, done: Sequence[Done] = ()) -> None:
        """Commit a batch, and learn from it where told so."""
        state = self._sure_state()
        rows = self._newer(rows, state)
        if not len(rows.ids):
            if done:
                self._commit(Plan(Change(state.sample.change(NO_SLOTS))), done)
            return
        learner = state.model.hasher.copy() if rows.firm else rows.learner
        after = (
            learner.learned(rows.X, rows.y)
            if learn and (rows.y is not None or not learner.needs_labels)
            else learner
        )
        learned = after is not learner
        model = state.model.learned(after) if learned else state.model
        if model.encoder is None:
            model = Model.of(learner.started(rows.X))
        with self._publish:
            found = self._find(rows.ids)
        batch = Batch(rows.X, rows.y, learned, rows.fields, rows.payloads)
        self._commit(plan_batch(state, self._storage, rows.ids, found, batch, model), done)
        self._maintain()
        if learned and self._refresher is not None:
            self._refresher.wake(self)

    def _newer(self, rows: Incoming, state: State) -> Incoming:
        """The rows without those whose id is stored with the same or a higher sequence number."""
        if rows.sequence is None or SEQUENCE not in state.view.fields:
            return rows
        with self._publish:
            found = self._find(rows.ids)
        numbers = rows.sequence
        held = np.full(len(numbers), -1, np.int64)
        held[found >= 0] = state.view.sequences(found[found >= 0])
        keep = (numbers > held) | (numbers < 0)
        return rows if keep.all() else rows.chosen(np.flatnonzero(keep))

    def _commit(self, plan: Plan, done: Sequence[Done] = ()) -> None:
        """Make a change durable, then let everybody see it. All that can fail is done before the commit.

        done : the calls with a key that it does.
        """
        clock, before, change = time.perf_counter(), self._state.view, plan.change
        after = self._state.after(change, plan.model, plan.memory, plan.mixed)
        if plan.adopts or plan.mixed is not None:
            after = replace(after, adopted=after.seq)
        if plan.adopts:
            after = replace(after, created=created_with(self._state, after.model.hasher))
        if plan.model is not None and is_due(after):
            after = replace(after, comparison=compared(after))
        index, enter = self._next_index(change, after)
        self._storage.commit(change, after, plan.batch, plan.feedback, done)
        with self._publish:
            self._index = None  # built again when it is next asked for, if what follows is interrupted
            self._state = after
            with suppress(MemoryError):
                enter()
                self._index = index
        self._storage.settled()
        added = 0 if change.added is None else len(change.added.ids)
        recoded = sum(len(piece.slots) for piece in change.recoded)
        figures = len(change.removed), recoded, plan.recode_seconds, len(plan.relabelled), plan.n_learned
        commit = Commit(after.seq, added, *figures, _version(after))
        log_commit(self._name(), commit, time.perf_counter() - clock, change, before)
        self._tell(commit)

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
        clock = time.perf_counter()
        try:
            before, state = self._read_history(), self._state
            rows, history = state.model.n_seen - before.rows, None
            enough = closing or not quietly or rows >= self._storage.settings.checkpoint_rows
            if state.seq != before.seq and enough:
                self._history = before.measured(state, stored_map_of(state))
                history = self._history.to_fields()
            self._storage.checkpoint(state, history, closing=closing)
            seconds = time.perf_counter() - clock
            log.debug("%s: checkpoint at commit %d in %.3f s", self._name(), state.seq, seconds)
        except TableError:
            if not quietly:
                raise

    # ---- the table itself

    @property
    def settings(self) -> Settings:
        """Policy, durability and limits, as they are stored with the table."""
        return self._storage.settings

    @property
    def keeps_features(self) -> bool:
        """Whether features are stored, from which items are re-encoded."""
        return self._storage.keep_features

    @property
    def fields(self) -> dict[str, str]:
        """The declared fields, name -> type."""
        return {name: values.kind for name, values in self._state.view.user_fields.items()}

    @property
    def commits(self) -> int:
        """The number of the last commit that this table shows."""
        return self._state.seq

    @property
    def version(self) -> int | None:
        """The version of the current hash functions; None before the first item."""
        newest = self._state.view.newest
        return None if newest < 0 else newest

    @property
    def in_doubt(self) -> bool:
        """Whether the last write was interrupted and its outcome is unknown: reopening the table finds out."""
        return self._storage.in_doubt or self._torn

    @property
    def id_kind(self) -> Literal["int", "str"] | None:
        """The kind of the ids; None before the first item."""
        self._keep_up()
        column = self._state.view.column
        return None if column is None else "str" if column.kind == "str" else "int"

    @property
    def n_features(self) -> int | None:
        """Features per item; None before the first item, unless the hasher has learned before."""
        self._keep_up()
        encoder = self._state.model.encoder
        return None if encoder is None else int(encoder.n_features)

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of features; None before the first item, unless the hasher has learned before."""
        self._keep_up()
        encoder = self._state.model.encoder
        return None if encoder is None else np.dtype(encoder.dtype)

    def sample_ids(self) -> np.ndarray:
        """The ids of the items in the table's sample, in the order of insertion: (m,) int64, or object holding str."""
        self._refuse_if_closed()
        self._keep_up()
        state = self._state
        return state.view.ids(np.sort(state.sample.items()[0]))

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the current hasher."""
        self._refuse_if_forked()
        self._keep_up()
        return copy.deepcopy(self._state.model.hasher)

    @property
    def created_with(self) -> OnlineHasher:
        """A hasher that has learned nothing, with the parameters that the table was created with. Those of `hasher` are
        others where it was adopted."""
        self._refuse_if_forked()
        self._keep_up()
        return creation_of(self._storage.path, self._state)

    @property
    def creation(self) -> bytes | None:
        """`created_with` as `hashstream.save` writes it, whether its method is known here or not; None where its
        parameters are those of `hasher`."""
        self._refuse_if_forked()
        self._keep_up()
        return self._state.created

    def __repr__(self) -> str:
        hasher, view = self._state.model.hasher, self._state.view
        mode = "" if self._write else ", read-only" if self._follower is None else ", following"
        closed = "" if self._open else ", closed"
        return (
            f"<HashTable {self._name()}: {len(view):,} items, {type(hasher).__name__}, {hasher.n_bits} bits, "
            f"{len(view.versions)} versions{mode}{closed}>"
        )

    @inside
    def stats(self) -> TableStats:
        """Items, versions, staleness, sizes and signs of drift."""
        self._refuse_if_forked()
        self._refuse_if_closed()
        self._keep_up()
        state, history = self._state, self._read_history()
        worker = self._refresher or self._follower
        index, error = self._index, None if worker is None else worker.error
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
        check_payloads(state, self._storage)
        check_created(self._storage.path, state.created, state.model.hasher.n_bits)
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

    @inside
    def export(
        self,
        path: str | os.PathLike[str],
        *,
        features: bool = False,
        part_rows: int | None = None,
        prefix: str = "",
        progress: Callable[[ExportProgress], None] | None = None,
    ) -> Manifest:
        """Write all items, as of one commit, to Parquet files in a folder, with the hash functions of every version and
        a manifest; docs/export.md has the columns. Others may go on writing meanwhile. Needs `hashstream[parquet]`.

        Interrupted, the same call goes on with the parts that are missing. Where the table has changed since, it starts
        again. A folder with a complete export is left as it is: of the same commit, its manifest is returned; of
        another one, it is a TableError.

        features : whether they are exported, too: `restore` then gives a table that re-encodes from features. Without
            them it gives one that keeps none.
        part_rows : items of a part at most, a million by default, fewer with features.
        prefix : of all file names, for exports of several shards to one folder, whose manifests are then joined by
            `hashstream.table.join_manifests`.
        progress : called at the beginning and after every part. What it raises ends the export; parts so far stay.
        """
        self._refuse_if_forked()
        if part_rows is not None:
            check_count("part_rows", part_rows, 1)
        while True:
            self._refuse_if_closed()
            self._keep_up()
            with suppress(Overtaken):
                return export_state(
                    self._state, self._storage, Path(path), features=features, part_rows=part_rows, prefix=prefix,
                    progress=progress,
                )  # fmt: skip
            self._await_reload()

    @classmethod
    def restore(
        cls,
        source: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        progress: Callable[[ExportProgress], None] | None = None,
    ) -> Self:
        """The table that `export` has written to the folder `source`, in a new folder, opened.

        Ids, codes with their versions, labels, fields, payloads, settings and the hasher are as they were; the history
        of `stats` and the keys of calls are not exported. Without features, the table keeps none, and its policy is
        `Projected`. Counts, checksums and digests are verified before and after; the export need not be trusted. A
        TableError says what is wrong, and there is no table then.

        progress : called after every piece of a part.
        """
        restore_folder(Path(source), Path(path), progress)
        return cls.open(path)

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

    def _before_close(self) -> None:
        for worker in (self._refresher, self._follower):
            if worker is not None:
                worker.stop()

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


def _version(state: State) -> int | None:
    """Of the current functions."""
    return None if state.model.encoder is None else state.model.version


def _due(state: State, slots: np.ndarray, guard: np.ndarray | None) -> np.ndarray:
    """Which items at slots (n,) are not newer than a call, (n,) bool. guard : the highest sequence numbers that they
    may have."""
    return np.ones(len(slots), bool) if guard is None else state.view.sequences(slots) <= guard
