"""`Learner`: the one place in which a cluster learns, and which numbers what is stored.

It owns a `HashTable` with the rows that were learned from, the feed log and the published models. So learning is as
durable and exact as in one table: the same rows in the same order give the same functions. Features of labelled rows
are stored twice, here and in their shard.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hashstream.hashers.serialization import from_bytes, to_bytes
from hashstream.scale.database import FEED_LOG, FeedLog, Part
from hashstream.scale.engine import Remote
from hashstream.scale.errors import ClusterError, ShardMissing
from hashstream.scale.models import Models, Publication
from hashstream.scale.shard import label_stored, once, open_patiently
from hashstream.table.created import check_same_hasher, unlearned
from hashstream.table.policies import Never
from hashstream.table.state.ids import kind_of
from hashstream.table.stats import TableStats
from hashstream.table.table import HashTable

__all__ = ["Begun", "Learner", "Stored"]


class Begun(NamedTuple):
    """A part that may be stored now. started : whether there are hash functions, and the kind of the ids is known, so
    that rows without labels need not be sent to the learner. publication : the newest. late : whether others were begun
    after it."""

    part: Part
    started: bool
    publication: Publication | None
    late: bool


class Stored(NamedTuple):
    """How rows were stored. publication : the newest. late : whether nothing was done, since others were begun."""

    publication: Publication | None
    late: bool


class Learner(Remote):
    """Learns for all shards.

    path : of the cluster. publish_every : batches that are learned between two publications.
    """

    reads = frozenset(
        {"held", "sequences", "hasher", "parameters", "model", "published", "stats", "check", "pid"}
    )

    def __init__(self, path: str, publish_every: int) -> None:
        self._path, self._publish_every = Path(path), publish_every
        self._folder = self._path / "learner"
        self._models = Models(self._path)
        self._since = 0  # batches since the last publication
        self._table: HashTable | None = None
        self._feed_log: FeedLog | None = None
        self._opening = threading.Lock()

    def create(self, raw: bytes, settings: Mapping[str, Any]) -> None:
        """Create the table, unless it is there. raw : the hasher, as `to_bytes` writes it."""
        if not HashTable.exists(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            settings = {**settings, "policy": Never()}
            HashTable.open(self._folder, from_bytes(raw, "the hasher"), **settings).close()
        table = self.table  # its lock first
        check_same_hasher(self._path, from_bytes(raw, "the hasher"), table.hasher, table.creation)
        with self._opening:
            if self._feed_log is None:
                self._feed_log = FeedLog(self._path / FEED_LOG, create=True)
        if self.table.n_features is not None:  # it has learned before
            self._publish_first()

    @property
    def table(self) -> HashTable:
        with self._opening:
            if self._table is None:
                if not HashTable.exists(self._folder):
                    raise ShardMissing(
                        f"the learner is missing: {self._folder} is not a table, but the cluster was created with it. "
                        "Restore the cluster from a snapshot, or bring its disk back"
                    )
                self._table = open_patiently(self._folder)
            return self._table

    @property
    def feed_log(self) -> FeedLog:
        _ = self.table  # its lock first: no other process gives out numbers
        with self._opening:
            if self._feed_log is None:
                self._feed_log = FeedLog(self._path / FEED_LOG)
            return self._feed_log

    # ---- numbers

    def begin(self, name: str | None, fingerprint: str, id_kind: str | None, key: bool = False) -> Begun:
        """Number a part, or a call without a name. ValueError where the ids of the cluster are of another kind."""
        if id_kind is not None:
            self._check_kind(id_kind)
        feed_log = self.feed_log
        part = Part(feed_log.number()) if name is None else feed_log.begin(name, fingerprint, key=key)
        return self._begun(part)

    def go_on(self, part: Part, id_kind: str) -> Begun:
        """As `begin`, for a part that has its number."""
        self._check_kind(id_kind)
        return self._begun(part)

    def _begun(self, part: Part) -> Begun:
        late = not self.feed_log.is_newest(part.number)
        started = self.table.n_features is not None and self._id_kind() is not None
        return Begun(part, started, self.published(), late)

    def _id_kind(self) -> str | None:
        """The kind of the ids. The first rows of all are stored here, whatever becomes of them elsewhere, so they fix
        it; a call that fails before does not."""
        return self.table.id_kind or (
            None if self.table.n_features is None else self.feed_log.fact("id_kind")
        )

    def _check_kind(self, id_kind: str) -> None:
        held = self._id_kind()
        if held not in (None, id_kind):
            kinds = {"str": "strings", "int": "whole numbers"}
            raise ValueError(f"the ids of this cluster are {kinds[held]}, but these are {kinds[id_kind]}")

    def knows(self, name: str, fingerprint: str) -> bool:
        """Whether a part was begun before."""
        return self.feed_log.knows(name, fingerprint)

    def finish(self, number: int, rows: int, result: int | None) -> None:
        """Note that all shards have a part."""
        self.feed_log.finish(number, rows, result)

    def forget(self, snapshot: str) -> int:
        """Note the parts that a snapshot does not have as not fed: after one of its shards was restored."""
        feed_log = FeedLog(Path(snapshot) / FEED_LOG)
        try:
            return self.feed_log.forget(feed_log.done())
        finally:
            feed_log.close()

    # ---- learning

    def held(self, ids: np.ndarray) -> np.ndarray:
        """Which items the learner has, (n,) bool."""
        return self.table.has(ids)

    def sequences(self, ids: np.ndarray) -> np.ndarray:
        """The sequence numbers of items, (n,) int64, as `HashTable.sequences` returns them."""
        return self.table.sequences(ids)

    def store(
        self,
        ids: np.ndarray,
        X: np.ndarray,
        y: np.ndarray | None,
        sequence: np.ndarray,
        learn: bool,
        newest: int | None = None,
    ) -> Stored:
        """Store rows, but those for which there are newer ones, and learn from them.

        newest : the number of their part. Where others were begun after it, nothing is done.
        """
        if newest is not None and not self.feed_log.is_newest(newest):
            return Stored(None, late=True)
        self._check_kind(kind_of(ids))
        table, version = self.table, self.table.version
        (table.ingest if learn else table.add)(ids, X, y, sequence=sequence)
        self.feed_log.note("id_kind", kind_of(ids))  # for when all of them are removed
        return Stored(self._learned(table.version != version), late=False)

    def label(
        self, ids: np.ndarray, y: np.ndarray, learn: bool, sequence: np.ndarray, key: str | None
    ) -> tuple[int, Publication | None]:
        """Label rows that the learner has, but those that have a higher sequence number; how many labels are new, and
        the newest publication."""
        version = self.table.version
        count = label_stored(self.table, ids, y, learn=learn, sequence=sequence, key=key)
        return count, self._learned(self.table.version != version)

    def remove(self, ids: np.ndarray, sequence: np.ndarray) -> int:
        """Remove those of the items that the learner has, but those that have a higher sequence number. What was
        learned from them stays learned, as in a table."""
        there = self.held(ids)
        return self.table.remove(ids[there], sequence=sequence[there]) if there.any() else 0

    def adopt(self, raw: bytes) -> Publication:
        """Go on from functions that were learned elsewhere, and publish them."""
        self.table.adopt(from_bytes(raw, "the hasher"), 0)
        return self.publish()

    def publish(self) -> Publication:
        """Publish the current functions."""
        table = self.table
        if table.n_features is None:
            raise ClusterError("there are no hash functions to publish before the first batch")
        table.flush()  # what is published is never learned again, and never otherwise
        self._since = 0
        return self._models.publish(table.hasher, table.stats().comparison.choice)

    def _learned(self, moved: bool) -> Publication | None:
        self._since += moved
        if self._since >= self._publish_every:
            return self.publish()
        return self._publish_first()

    def _publish_first(self) -> Publication | None:
        """The newest publication, which is the first where there was none."""
        current = self._models.current()
        return self.publish() if current is None and self.table.n_features is not None else current

    # ---- reading

    def published(self) -> Publication | None:
        return self._models.current()

    def model(self, publication: Publication) -> tuple[Publication, bytes]:
        """A published model, or the one that has replaced it."""
        return self._models.newest(publication)

    def hasher(self) -> bytes:
        """The hasher with everything that it has learned, as `to_bytes` writes it."""
        return to_bytes(self.table.hasher)

    def parameters(self) -> tuple[bytes | None, bytes]:
        """`HashTable.creation`, which whoever compares with it has to know, but not this process; and the current
        hasher, without what it has learned."""
        return self.table.creation, to_bytes(unlearned(self.table.hasher))

    def stats(self) -> TableStats:
        return self.table.stats()

    def check(self, sample: int) -> dict[str, int]:
        return self.table.check(sample)

    def pid(self) -> int:
        return os.getpid()

    # ---- keeping

    def compact(self) -> int:
        return self.table.compact()

    def flush(self) -> None:
        self.table.flush()

    def copy_feed_log(self, path: str) -> None:
        """Write the feed log into a snapshot. Before the shards: what it notes as done, they have."""
        target = Path(path) / FEED_LOG
        if not target.exists():  # what was noted since, shards that were copied already may not have
            self._copy_feed_log(target, None)

    def _copy_feed_log(self, target: Path, kept: set[int] | None) -> None:
        part = target.with_name(f"{target.name}.part")
        part.unlink(missing_ok=True)
        self.feed_log.copy(part, kept)
        part.replace(target)

    def snapshot(self, path: str) -> None:
        """Write table and model into a snapshot. After the shards: their functions are not newer than the learner's.

        Then the feed log once more, so that no number that these tables hold is given out again by the copy. Only what
        it noted as done before the shards were copied is done there.
        """
        once(Path(path) / "learner", self.table.snapshot)
        before = FeedLog(Path(path) / FEED_LOG)
        kept = before.done()
        before.close()
        self._copy_feed_log(Path(path) / FEED_LOG, kept)
        if self.table.n_features is not None:
            (Path(path) / "models").mkdir(exist_ok=True)
            with HashTable.open(Path(path) / "learner", mode="read") as copied:
                Models(Path(path)).publish(copied.hasher, copied.stats().comparison.choice)

    def close(self) -> None:
        with self._opening:
            table, self._table = self._table, None
            feed_log, self._feed_log = self._feed_log, None
        if table is not None:
            table.close()
        if feed_log is not None:
            feed_log.close()
