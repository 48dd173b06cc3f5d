"""`HashTable`: items, their codes and the hash functions that made them, searchable while the functions learn."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.validation import check_count, check_rows, without_names
from hashstream.table import opening, upkeep
from hashstream.table.codes import View, locate
from hashstream.table.errors import Overtaken, SegmentMissing, TableError
from hashstream.table.exclusive import change, exclusively
from hashstream.table.folder import FolderStore
from hashstream.table.ids import as_ids
from hashstream.table.policies import Policy
from hashstream.table.recovery import Recovered, reread
from hashstream.table.search import nearest, nearest_asymmetric, search_threads, within
from hashstream.table.stats import TableStats
from hashstream.table.writing import TableWriter

__all__ = ["HashTable", "Items"]


@dataclass(frozen=True)
class Items:
    """What a table holds of some items, in the order in which they were asked for.

    ids : (n,) int64, or object holding str. codes : (n, width) uint8. versions : (n,) int64.
    labels : as they were given, None where there is none. features : (n, d), or None where they are not kept.
    """

    ids: np.ndarray
    codes: np.ndarray
    versions: np.ndarray
    labels: list[Any]
    features: np.ndarray | None


class HashTable(TableWriter):
    """A searchable table of codes that stays right while the hash functions move. Made by `HashTable.open`.

    An item has an id (whole numbers or strings, one kind a table), features, a label perhaps, and a code with the
    version of the functions that made it. A search encodes the query for every version that is alive and
    compares like with like. Codes are made anew by a policy (`policies.py`), or by `refresh`.

    One thread or process writes at a time. Searches see the state of one commit, from any number of threads, and are
    never blocked by a writer; a second process opens the folder with `mode="read"`.

    Examples
    --------
    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> with HashTable.open(None, hs.FCOH(n_bits=64, random_state=0)) as table:
    ...     table.ingest(range(1500), X[:1500], y[:1500])
    ...     ids, distances = table.search(X[1500:1502], k=3)
    ...     len(table), ids.shape, (y[ids] == y[1500:1502, None]).all()
    (1500, (2, 3), np.True_)
    """

    @classmethod
    def open(
        cls,
        path: Any,
        hasher: OnlineHasher | None = None,
        *,
        policy: Policy | None = None,
        durability: str = "full",
        mode: str = "write",
        keep_features: bool | None = None,
        max_versions: int = 16,
        reservoir_size: int = 1000,
        checkpoint_rows: int = 20_000,
        segment_bytes: int = 1 << 30,
    ) -> HashTable:
        """Open a folder, or make a new one; `path=None` is a table in memory only.

        hasher : needed where the table is new; the table learns with a copy of its own. For a table that exists it may
            be given again, and must have the same parameters; what it has learned is passed over, with a warning, as
            the table goes on from what it has learned itself.
        policy : when codes are made anew; `Every(100)` by default. The table uses a copy.
        durability : "full": when a call that writes returns, its change survives `kill -9` and, as far as fsync goes,
            a power loss. "fast": commits are not synced; they survive `kill -9`, but after a power loss or a crash of
            the system those since the last `flush`, `compact` or `close` may be missing. The table is whole then, too.
        mode : "write", one at a time, or "read", any number; see `reload`.
        keep_features : whether features are stored, from which codes are made anew; True, except with the policy
            `Projected`, which needs none. Only asked for where the table is new.
        max_versions : versions alive at most. An ingest that would bring one more re-encodes the items of the smallest
            ones.
        reservoir_size : items of the sample by which the table watches itself. Only asked for where the table is new.
        checkpoint_rows : rows learned between two checkpoints of the model: what is learned again after a crash.
        segment_bytes : size at which a new segment of features is begun.
        """
        return opening.open_table(
            cls, path, hasher, policy=policy, durability=durability, mode=mode, keep_features=keep_features,
            max_versions=max_versions, reservoir_size=reservoir_size, checkpoint_rows=checkpoint_rows,
            segment_bytes=segment_bytes,
        )  # fmt: skip

    # ---- reading

    def search(self, Q: Any, k: int = 10, *, asymmetric: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The k items nearest to each query, exactly; ties by insertion, the earliest first.

        Q : (q, d) features. asymmetric : rank by the query's real values against the stored bits, not by its bits: a
        bit that differs costs |f_k(q)|, scaled so that the mean over the bits is 1.

        Returns ids (q, m), int64 or object holding str, and distances (q, m), uint16 (float64 where asymmetric), with
        m = min(k, items in the table): narrower arrays where there are fewer than k.
        """
        check_count("k", k, 1)
        view, Q = self._view_for(Q)
        search = nearest_asymmetric if asymmetric else nearest
        far, slots = search(view, Q, int(k), search_threads(self._at_work))
        return self._named(view, slots), far

    def search_radius(self, Q: Any, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All items at most `radius` bits away from each query.

        Returns offsets (q + 1,) int64, distances (found,) uint16 and ids (found,): what was found for query i lies at
        `offsets[i]:offsets[i + 1]`, by ascending distance, then by insertion.
        """
        check_count("radius", radius, 0)
        view, Q = self._view_for(Q)
        offsets, far, slots = within(view, Q, int(radius), search_threads(self._at_work))
        return offsets, far, self._named(view, slots)

    def _view_for(self, Q: Any) -> tuple[View, np.ndarray]:
        self._refuse_if_closed()
        view = self._view
        if view.newest >= 0:
            encoder = view.encoders[view.newest]
            known = type(Q) is np.ndarray and Q.dtype == encoder.dtype_ and len(Q)
            if known and Q.shape[1:] == (encoder.n_features_in_,):
                return view, Q  # as nearly always; what follows is for all else
            # In the name of the table's own method, of which an encoder may be a smaller copy.
            asked = object.__new__(type(self._hasher))
            asked.__dict__ = encoder.__dict__
            return view, check_rows(asked, without_names(Q), first=False)
        Q = np.asarray(Q)
        if Q.ndim != 2:
            raise ValueError(f"Q must be 2-D, one query a row, not of shape {Q.shape}")
        return view, Q

    @staticmethod
    def _named(view: View, slots: np.ndarray) -> np.ndarray:
        return np.empty(slots.shape, np.int64) if view.column is None else view.column.take(slots)

    def get(self, ids: Any, *, features: bool = True) -> Items:
        """What the table holds of some items; KeyError where an id is not there.

        features : whether they are read, which is most of the work.
        """
        ids, store = as_ids(ids), self._store
        self._refuse_if_forked()
        while True:
            self._refuse_if_closed()
            with self._publish:
                slots, view, generation = self._slots(ids), self._view, self._generation
            try:
                X = store.features(slots) if features and store.keep_features and len(ids) else None
                labels = store.labels(slots, generation)
                if generation == store.generation:
                    break
            except (Overtaken, TableError) as error:
                if isinstance(error, TableError) and not self._renumbered(generation):
                    raise
            # The table was compacted, by another thread or process, and slots have other numbers now.
            self._refuse_if_torn()
            time.sleep(0.001)
            self.reload()
        codes = np.empty((len(ids), view.width), np.uint8)
        versions = np.empty(len(ids), np.int64)
        for part, at, rows in locate(view.parts, slots):
            codes[at], versions[at] = part.codes[rows], part.version
        return Items(ids, codes, versions, labels, X)

    def _renumbered(self, generation: int) -> bool:
        self._refuse_if_closed()
        try:
            self._store.labels(np.empty(0, np.int64), generation)
        except Overtaken:
            return True
        return self._store.generation != generation

    def __len__(self) -> int:
        return len(self._view)

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

    def stats(self) -> TableStats:
        """Items, versions, staleness, sizes and signs of drift."""
        self._refuse_if_forked()
        self._refuse_if_closed()
        return upkeep.stats(self)

    @property
    def keeps_features(self) -> bool:
        """Whether features are stored, from which codes are made anew."""
        return self._store.keep_features

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the hasher as it is now."""
        self._refuse_if_forked()
        return self._copy_of_hasher()

    @exclusively
    def _copy_of_hasher(self) -> OnlineHasher:
        return copy.deepcopy(self._hasher)

    # ---- the folder

    def reload(self) -> bool:
        """For a table opened with `mode="read"`: see what was committed since; returns whether anything was.

        `get` and `check` do this by themselves where the folder was compacted meanwhile: what the items of before had
        beside their codes is not there any more.
        """
        self._refuse_if_forked()
        return self._reload()

    @exclusively
    def _reload(self) -> bool:
        self._refuse_if_closed()
        store = self._store
        if self._write or not isinstance(store, FolderStore) or not store.has_moved():
            return False
        now = reread(store, Recovered(self._view, self._hasher, self._reservoir, 0))
        with self._publish:
            self._view, self._index, self._generation = now.view, None, store.generation
            self._hasher, self._reservoir = now.hasher, now.reservoir
        return True

    def check(self, sample: int = 1000) -> dict[str, int]:
        """Verify every checksum and encode a sample of items again; a TableError names what is wrong.

        Returns how much was looked at: {"batches", "rows", "codes"}.
        """
        self._refuse_if_forked()
        while True:
            self._refuse_if_torn()
            self.reload()
            try:
                return upkeep.check(self, sample)
            except (Overtaken, SegmentMissing) as error:
                if isinstance(error, SegmentMissing) and not self._renumbered(self._store.generation):
                    raise

    @change
    def compact(self) -> int:
        """Give back the room of items that were removed or replaced; returns their number. All others are written anew,
        so there must be room for both meanwhile."""
        return upkeep.compact(self)

    def snapshot(self, path: Any) -> None:
        """A copy of the table, as of one commit, in a new folder, while it goes on being written to."""
        self._refuse_if_forked()
        self._refuse_if_closed()
        upkeep.snapshot(self, Path(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
