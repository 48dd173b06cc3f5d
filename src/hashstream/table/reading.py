"""The half of a table that reads: searching, looking up, and showing what others have written."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hashstream._machine import cores
from hashstream.hashers.validation import as_array, check_count, check_finite, check_rows, without_names
from hashstream.table.digests import sum_of
from hashstream.table.errors import OutcomeUnknown, Overtaken, TableError
from hashstream.table.following import Follower, no_longer_followed
from hashstream.table.guard import Guarded, exclusively, inside
from hashstream.table.rescoring import Metric, rescored
from hashstream.table.results import Codes, Items, RadiusResult, SearchResult
from hashstream.table.search_arguments import Include, check_candidates, check_compare, check_include
from hashstream.table.state.filters import Filters
from hashstream.table.state.ids import as_ids, column_of, kind_of
from hashstream.table.state.index import Index
from hashstream.table.state.matching import Matching
from hashstream.table.state.search import Compare
from hashstream.table.state.state import State
from hashstream.table.state.view import View, locate
from hashstream.table.storage.base import Storage, read_payloads

__all__ = ["NOT_STORED", "Include", "Readable", "Where"]

Where = Mapping[str, Any]

NOT_STORED = -2
"""In the place of a sequence number: there is no such item."""

log = logging.getLogger("hashstream.table")


class Readable(Guarded):
    """Searches, and looks items up, in the state that a table shows. `HashTable` adds the rest."""

    def __init__(
        self, storage: Storage, state: State, *, write: bool, follower: Follower | None = None
    ) -> None:
        super().__init__(write=write, survives=storage.survives)
        self._storage, self._state = storage, state
        self._follower = follower
        self._index: Index | None = None  # of the ids in `_state`; built when an id is first looked up
        self._filters = Filters()

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        where: Where | None = None,
        rescore: int | None = None,
        metric: Metric = "cosine",
        compare: Compare | Literal["auto"] = "auto",
        asymmetric: bool = False,
        offset: int = 0,
        include: Include = (),
    ) -> SearchResult:
        """The k items nearest to each query, exactly; ties by insertion, the earliest first.

        Q : (q, d) features.
        where : a filter, such as {"tenant": "a", "price": {"$lt": 10}}: only items that match are searched.
        rescore : rank so many of the nearest by code again by the features that the table keeps, and return their
            distances: 1 - cosine, minus the dot product, or Euclidean, as `metric` says. At least k + offset.
        compare : how a query is compared with codes of older versions. "like": encoded by the functions of each
            version. "current": encoded by the current functions only. "auto": as was better on the table's labelled
            sample, see `stats().comparison`.
        asymmetric : rank by the query's real values against the stored bits, not by its bits: a bit that differs costs
            |f_k(q)|, scaled so that the mean over the bits is 1.
        offset : leave out the first ones: for pages, k at a time.
        include : any of "labels", "fields", "payloads" and "sequences", of what was found.

        Returns distances (q, m), uint16 (float64 where asymmetric or rescored), and ids (q, m), int64 or object holding
        str, with m = min(k, items that match): narrower arrays where there are fewer than k.
        """
        most = check_candidates(k, offset, rescore, metric)
        if rescore is not None:
            self._refuse_if_forked()
            if not self._storage.keep_features:
                raise TableError("this table keeps no features (keep_features=False), so it cannot rescore")
        while True:
            state, Q = self._to_search(Q, include)
            index = self._storage.index(state.view)
            search = index.topk_asymmetric if asymmetric else index.topk
            matching = None if where is None else self._matching(where, state)
            how = _compare(compare, state)
            distances, slots = search(Q, most, self._n_threads(), matching=matching, compare=how)
            with suppress(Overtaken):
                if rescore is not None:
                    distances, slots = self._rescored(check_finite(Q), slots, state, metric)
                if most > k:
                    distances, slots = (found[:, offset : offset + k] for found in (distances, slots))
                result = SearchResult(distances, state.view.ids(slots))
                self._complete(result, slots, state, include)
                return result
            self._await_reload()

    def search_radius(
        self,
        Q: ArrayLike,
        radius: int,
        *,
        where: Where | None = None,
        compare: Compare | Literal["auto"] = "auto",
        include: Include = (),
    ) -> RadiusResult:
        """All items at most `radius` bits away from each query. where, compare, include : as in `search`.

        Returns offsets (q + 1,) int64, distances (found,) uint16 and ids (found,): what was found for query i is at
        `offsets[i]:offsets[i + 1]`, by ascending distance, then by insertion.
        """
        check_count("radius", radius, 0)
        while True:
            state, Q = self._to_search(Q, include)
            matching = None if where is None else self._matching(where, state)
            index = self._storage.index(state.view)
            how = _compare(compare, state)
            found = index.radius(Q, int(radius), self._n_threads(), matching=matching, compare=how)
            offsets, distances, slots = found
            with suppress(Overtaken):
                result = RadiusResult(offsets, distances, state.view.ids(slots))
                self._complete(result, slots, state, include)
                return result
            self._await_reload()

    @inside
    def _rescored(
        self, Q: np.ndarray, slots: np.ndarray, state: State, metric: Metric
    ) -> tuple[np.ndarray, np.ndarray]:
        return rescored(Q, slots, lambda some: self._storage.read(some, state.generation), metric)

    def _matching(self, where: Where, state: State) -> Matching:
        """The items of a state that a filter keeps."""
        return self._filters.matching(where, state)

    def _complete(
        self, result: SearchResult | RadiusResult, slots: np.ndarray, state: State, include: Include
    ) -> None:
        """Add what is to be included; `Overtaken` where slots were renumbered meanwhile."""
        view = state.view
        if "labels" in include:
            result.labels = view.labels.take(slots)
        if "fields" in include:
            result.fields = {name: values.take(slots) for name, values in view.user_fields.items()}
        if "payloads" in include:
            result.payloads = self._payloads_of(slots, state)
        if "sequences" in include:
            result.sequences = view.sequences(slots)

    def _to_search(self, Q: Any, include: Include) -> tuple[State, np.ndarray]:
        """The state to search, and Q as its encoders take it."""
        self._refuse_if_closed()
        self._keep_up()
        if include:
            self._refuse_if_forked()
            check_include(include)
        state = self._state
        encoder = state.model.encoder
        if encoder is None:
            Q = as_array(Q)
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
    def _payloads_of(self, slots: np.ndarray, state: State) -> np.ndarray:
        """The payloads of slots of any shape, each read once; object."""
        payloads = np.empty(slots.size, object)
        flat = slots.ravel()
        there = np.flatnonzero(state.view.has_payload(flat))
        if len(there):
            distinct, place = np.unique(flat[there], return_inverse=True)
            known = read_payloads(self._storage, distinct, state)
            for i, at in zip(there.tolist(), place.ravel().tolist(), strict=True):
                payloads[i] = json.loads(known[at])  # each its own: the caller may change it
        return payloads.reshape(slots.shape)

    # ---- looking up

    @inside
    def get(self, ids: ArrayLike | Sequence[int] | Sequence[str], *, features: bool = True) -> Items:
        """Stored data of items; KeyError where an id is not stored.

        features : whether they are read, which is most of the work.
        """
        wanted, storage = as_ids(ids), self._storage
        self._refuse_if_forked()
        self._keep_up()
        X: np.ndarray | None = None
        while True:
            self._refuse_if_closed()
            with self._publish:
                slots, state = self._slots(wanted), self._state
            with suppress(Overtaken):
                if features and storage.keep_features and state.view.column is not None:
                    X = storage.read(slots, state.generation)
                payloads = self._payloads_of(slots, state).tolist()
                break
            self._await_reload()
        view = state.view
        codes = np.empty((len(wanted), view.width), np.uint8)
        versions = np.empty(len(wanted), np.int64)
        for part, at, rows in locate(view.parts, slots):
            codes[at], versions[at] = part.codes[rows], part.version
        fields = {name: values.take(slots).tolist() for name, values in view.user_fields.items()}
        labels, sequences = list(view.labels.take(slots)), view.sequences(slots)
        return Items(wanted, codes, versions, labels, X, fields, payloads, sequences)

    def codes(self, rows: int = 65_536) -> Iterator[Codes]:
        """All codes in pieces of at most so many rows, as of one commit: each item once, and each piece of one version.

        >>> import hashstream as hs
        >>> with hs.HashTable.open(None, hs.LSH(8, random_state=0)) as table:
        ...     table.add([3, 5], [[1.0, 2.0], [2.0, 1.0]])
        ...     [(piece.ids.tolist(), piece.codes.shape, piece.version) for piece in table.codes()]
        [([3, 5], (2, 1), 0)]
        """
        self._refuse_if_closed()
        self._keep_up()
        return self._codes_of(self._state.view, check_count("rows", rows, 1))

    @staticmethod
    def _codes_of(view: View, rows: int) -> Iterator[Codes]:
        for part in sorted(view.parts, key=lambda part: part.version):
            codes, slots = part.rows()
            for start in range(0, len(slots), rows):
                stop = start + rows
                yield Codes(view.ids(slots[start:stop]), codes[start:stop].copy(), part.version)

    def digest(self) -> int:
        """A checksum of all items: the sum, modulo 2^64, of a hash of each one's (id, version, code).

        It does not depend on the order of the items, nor on how they are spread: the digests of shards add up to that
        of one table. See `hashstream.table.digests`.
        """
        return sum_of(self.codes())

    def ids(self, where: Where | None = None, *, offset: int = 0, limit: int | None = None) -> np.ndarray:
        """The ids of all items in the order of insertion: (n,) int64, or object holding str.

        where : only of items that match. offset, limit : a page of them.
        """
        return self.ids_in_order(where, offset=offset, limit=limit)[0]

    def ids_in_order(
        self, where: Where | None = None, *, offset: int = 0, limit: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `ids`, with the sequence numbers of the items, (n,) int64, -1 for none."""
        self._refuse_if_closed()
        check_count("offset", offset, 0)
        if limit is not None:
            check_count("limit", limit, 0)
        self._keep_up()
        state = self._state
        slots = state.view.live() if where is None else self._matching(where, state).slots()
        slots = slots[offset:] if limit is None else slots[offset : offset + limit]
        return state.view.ids(slots), state.view.sequences(slots)

    def count(self, where: Where | None = None) -> int:
        """How many items there are, or match a filter."""
        self._refuse_if_closed()
        self._keep_up()
        state = self._state
        return len(state.view) if where is None else self._matching(where, state).count

    def __iter__(self) -> Iterator[Any]:
        """The ids of all items, as of one commit, in the order of insertion."""
        yield from self.ids().tolist()

    def __len__(self) -> int:
        self._keep_up()
        return len(self._state.view)

    @inside
    def __contains__(self, one: Any) -> bool:
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, str, np.integer)):
            return False
        self._refuse_if_forked()
        self._refuse_if_closed()
        self._keep_up()
        with self._publish:
            try:
                return bool(self._find(as_ids([one]))[0] >= 0)
            except ValueError:  # a number that no id can be
                return False

    def has(self, ids: ArrayLike | Sequence[int] | Sequence[str]) -> np.ndarray:
        """Which ids are stored, (n,) bool: `in` for many at once."""
        return self.sequences(ids) > NOT_STORED

    @inside
    def sequences(self, ids: ArrayLike | Sequence[int] | Sequence[str]) -> np.ndarray:
        """The sequence numbers of items, (n,) int64; -1 for one that has none, `NOT_STORED` for an id that is not."""
        wanted = as_ids(ids)
        self._refuse_if_forked()
        self._refuse_if_closed()
        self._keep_up()
        with self._publish:
            slots, view = self._find(wanted), self._state.view
        numbers = np.full(len(wanted), NOT_STORED, np.int64)
        numbers[slots >= 0] = view.sequences(slots[slots >= 0])
        return numbers

    def _slots(self, ids: np.ndarray) -> np.ndarray:
        """The slots of ids, or a KeyError; while holding `_publish`, or the writer's lock."""
        slots = self._find(ids)
        if (slots < 0).any():
            missing, column = ids[slots < 0].tolist(), self._state.view.column
            kinds = {"str": "strings", "int": "whole numbers"}
            other = column is not None and column.kind != kind_of(ids)
            hint = f" (its ids are {kinds[column.kind]})" if column is not None and other else ""
            raise KeyError(f"not in the table: {', '.join(map(repr, missing[:10]))}{hint}")
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

    @property
    def path(self) -> Path | None:
        """The folder; None in memory."""
        return self._storage.path

    def _name(self) -> str:
        return "in memory" if self.path is None else str(self.path)

    # ---- what others have written

    def reload(self) -> bool:
        """For a table opened with `mode="read"`: see what was committed since; returns whether anything was.

        `get` and `check` do this by themselves where the folder was compacted meanwhile: the features of the state
        before are deleted then. A table opened with `follow=True` does it by itself always.
        """
        self._refuse_if_forked()
        return self._reload()

    @exclusively
    def _reload(self, *, late: bool = False) -> bool:
        """late : only where the follower is, which may have looked while this waited for the lock."""
        self._refuse_if_closed()
        begun, follower = time.monotonic(), self._follower
        if late and follower is not None and begun <= follower.fresh_until:
            return False
        after = self._storage.reload(self._state)
        if after is not None:
            with self._publish:
                self._state, self._index = after, None
            seconds = time.monotonic() - begun
            log.debug("%s: reloaded, at commit %d, in %.3f s", self._name(), after.seq, seconds)
        if follower is not None:
            follower.looked(begun)
        return after is not None

    def _keep_up(self) -> None:
        """Where the thread that follows the writer is late, reload before an answer is given. Usually this only reads
        the clock."""
        follower = self._follower
        if follower is not None and time.monotonic() > follower.fresh_until and self._open:
            if os.getpid() != self._process:  # first: a thread that the fork does not have may hold the lock
                raise TableError(no_longer_followed(self.path, self._process))
            self._reload(late=True)

    @exclusively  # a thread that writes is not interrupted
    def _refuse_if_torn(self) -> None:
        self._sure_state()

    def _sure_state(self) -> State:
        """The current state; TableError where a change was interrupted between its commit and the moment when everybody
        sees it. While holding the writer's lock."""
        if self._storage.in_doubt or self._torn:
            raise OutcomeUnknown(
                "the last write was interrupted and its outcome is unknown: close and reopen the table"
            )
        return self._state


def _compare(compare: Compare | Literal["auto"], state: State) -> Compare:
    chosen = check_compare(compare)
    return state.comparison.choice if chosen == "auto" else chosen
