"""`Shard`: one part of a cluster's items, a `HashTable` in a process of its own.

Ray makes an actor of it. Ray may restart the process at any moment and repeat calls, so the constructor
takes small values only and never fails, and every write may be done twice.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hashstream._machine import cores, share_cores
from hashstream.hashers.serialization import from_bytes
from hashstream.scale.engine import Remote
from hashstream.scale.errors import ClusterError, ShardMissing
from hashstream.scale.holding import patiently
from hashstream.scale.merging import Found, FoundWithin, Listed, columns_of
from hashstream.scale.models import Models, Publication
from hashstream.scale.partition import shard_of
from hashstream.scale.shard_export import export_shard
from hashstream.table.rescoring import Metric, distances_to
from hashstream.table.results import Codes, Items
from hashstream.table.stats import TableStats
from hashstream.table.table import HashTable

__all__ = ["Shard", "label_stored", "open_patiently", "shard_folder"]

SOME = 64  # items by which a shard is recognised


def shard_folder(path: str | os.PathLike[str], number: int) -> Path:
    """The folder of a shard in that of its cluster, or of a snapshot."""
    return Path(path) / "shards" / f"{number:04d}"


def label_stored(
    table: HashTable, ids: np.ndarray, y: np.ndarray, *, learn: bool, sequence: np.ndarray, key: str | None
) -> int:
    """Label items, and leave out those that are not there any more: a call that is repeated may find fewer."""
    try:
        return table.label(ids, y, learn=learn, sequence=sequence, key=key)
    except KeyError:
        there = np.flatnonzero(table.has(ids))
        if not len(there):
            return 0
        return table.label(ids[there], y[there], learn=learn, sequence=sequence[there])


def open_patiently(folder: Path) -> HashTable:
    """Open a table whose last writer may be about to end."""
    return patiently(lambda: HashTable.open(folder), folder)


class Shard(Remote):
    """The items of a cluster whose ids hash to one number.

    path : of the cluster. shards : their number.
    per_node : shards that share the cores of a machine; None where this is not a process of its
    own.
    """

    reads = frozenset(
        {
            "search", "search_radius", "score", "get", "ids", "count", "contains", "fields", "stats", "pid",
            "published", "facts", "sample_ids", "may_be_restored", "sequences",
        }
    )  # fmt: skip
    long = frozenset({"digest", "check", "snapshot", "export"})
    small = frozenset({"search", "search_radius", "score"})

    def __init__(self, path: str, number: int, shards: int, per_node: int | None = None) -> None:
        if per_node is not None:
            share_cores(per_node)
            threadpool_limits(cores())
        self._path, self._number, self._shards = Path(path), number, shards
        self._folder = shard_folder(path, number)
        self._note = self._folder.with_name(f"{self._folder.name}.restored")  # says from where
        self._models = Models(self._path)
        self._compare: str | None = None  # not known before a publication was seen
        self._table: HashTable | None = None
        self._opening = threading.Lock()

    def create(self, raw: bytes, fields: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        """Create the table, unless it is there. raw : the hasher, as `to_bytes` writes it."""
        if not HashTable.exists(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            HashTable.open(
                self._folder, from_bytes(raw, "the hasher"), fields=fields or None, **settings
            ).close()
        _ = self.table

    @property
    def table(self) -> HashTable:
        """The table, opened when it is first asked for; ShardMissing where its folder is not there."""
        with self._opening:
            if self._table is None:
                if not HashTable.exists(self._folder):
                    raise ShardMissing(
                        f"shard {self._number} is missing: {self._folder} is not a table, but the cluster was created "
                        "with it. Restore it from a snapshot (Cluster.restore), or bring its disk back"
                    )
                table = open_patiently(self._folder)
                try:
                    self._begin(table)
                except BaseException:
                    table.close()
                    raise
                self._table = table
            return self._table

    def _begin(self, table: HashTable) -> None:
        """Compare a table that was opened with its number, and take over what was published since."""
        ids = table.ids(limit=SOME)
        if len(ids) and (shard_of(ids, self._shards) != self._number).any():
            raise ClusterError(
                f"{self._folder} does not hold shard {self._number} of {self._shards}: folders of shards were "
                "exchanged, or cluster.json was altered. Bring each disk back to its place"
            )
        current = self._models.current()
        if current is not None and (table.version is None or table.version < current.version):
            current, raw = self._models.newest(current)
            table.adopt(from_bytes(raw, self._path / "models" / current.name), 0)
        if current is not None:
            self._compare = current.compare

    # ---- writing

    def add(
        self,
        ids: np.ndarray,
        X: np.ndarray,
        y: np.ndarray | None,
        fields: Mapping[str, Any] | None,
        payloads: Sequence[Any] | None,
        sequence: np.ndarray,
    ) -> None:
        """Store rows, but those for which there are newer ones."""
        table = self.table
        if table.n_features is None:
            raise ClusterError(f"shard {self._number} has no hash functions yet: none were published to it")
        table.add(ids, X, y, fields=fields, payloads=payloads, sequence=sequence)

    def label(self, ids: np.ndarray, y: np.ndarray, sequence: np.ndarray, key: str) -> int:
        """Store labels, without learning from them, but of items that have a higher sequence number or are gone."""
        return label_stored(self.table, ids, y, learn=False, sequence=sequence, key=key)

    def remove(
        self, ids: np.ndarray | None, where: Mapping[str, Any] | None, sequence: np.ndarray | int, key: str
    ) -> int:
        """Remove items, but those that have a higher sequence number; ids that are not there any more are left out."""
        table = self.table
        if ids is None:
            return table.remove(where=where, sequence=sequence, key=key)
        try:
            return table.remove(ids, sequence=sequence, key=key)
        except KeyError:
            there = self.contains(ids)
            return table.remove(ids[there], sequence=np.asarray(sequence)[there]) if there.any() else 0

    def adopt(self, raw: bytes, publication: Publication, budget: int | None) -> int:
        """Take over published functions, unless there are newer ones, and re-encode items; returns how many."""
        table = self.table
        if table.version is not None and table.version > publication.version:
            return 0
        count = table.adopt(from_bytes(raw, publication.name), budget)
        self._compare = publication.compare
        return count

    def refresh(self, budget: int) -> int:
        """Re-encode so many stale items; returns how many there were."""
        return self.table.refresh(budget)

    def declare(self, fields: Mapping[str, str]) -> None:
        self.table.declare(fields)

    def compact(self) -> int:
        return self.table.compact()

    def flush(self) -> None:
        self.table.flush()

    def restore(self, snapshot: str) -> None:
        """Copy the folder from a snapshot, where it is missing; complete or not at all. Done before, it is done."""
        if self._was_restored(snapshot):
            return
        if not self.may_be_restored(snapshot):
            raise ClusterError(f"shard {self._number} is there: {self._folder} is not empty")
        with suppress(Exception):
            self.close()  # of the folder that is lost
        source = shard_folder(snapshot, self._number)
        if not HashTable.exists(source):
            raise ClusterError(f"{source} is not a table: this snapshot does not hold shard {self._number}")
        part = self._folder.with_name(f"{self._folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(source, part)
        self._note.write_text(snapshot)
        if self._folder.exists():
            self._folder.rmdir()
        part.rename(self._folder)
        _ = self.table

    def _was_restored(self, snapshot: str) -> bool:
        return HashTable.exists(self._folder) and self._note.exists() and self._note.read_text() == snapshot

    def close(self) -> None:
        with self._opening:
            table, self._table = self._table, None
        if table is not None:
            table.close()

    # ---- reading

    def may_be_restored(self, snapshot: str) -> bool:
        """Whether the folder is lost, or was restored from this snapshot before."""
        folder = self._folder
        lost = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        return lost or self._was_restored(snapshot)

    def search(
        self,
        Q: np.ndarray,
        k: int,
        where: Mapping[str, Any] | None,
        compare: str,
        asymmetric: bool,
        include: Sequence[Any],
    ) -> Found:
        """The k nearest items of this shard; include : in addition to their sequence numbers."""
        table = self.table
        included: Any = ("sequences", *include)
        how: Any = compare
        hits = table.search(Q, k, where=where, compare=how, asymmetric=asymmetric, include=included)
        return Found(*hits, columns_of(hits), len(table), self.published())

    def search_radius(
        self,
        Q: np.ndarray,
        radius: int,
        where: Mapping[str, Any] | None,
        compare: str,
        include: Sequence[Any],
    ) -> FoundWithin:
        """The items of this shard within a radius."""
        table = self.table
        included: Any = ("sequences", *include)
        how: Any = compare
        hits = table.search_radius(Q, radius, where=where, compare=how, include=included)
        return FoundWithin(*hits, columns_of(hits), len(table), self.published())

    def score(self, Q: np.ndarray, query: np.ndarray, ids: np.ndarray, metric: Metric) -> np.ndarray | None:
        """Distances (m,) float64 of items by their features; None where one of them is not there any more.

        query : (m,), ascending: the row of Q with which the item is compared.
        """
        table = self.table
        try:
            distinct, at = np.unique(ids, return_inverse=True)
            X = table.get(distinct).features
        except KeyError:
            return None
        assert X is not None
        far = np.empty(len(ids))
        cuts = np.searchsorted(query, np.arange(len(Q) + 1))
        for i, q in enumerate(Q.astype(table.dtype).astype(np.float64)):
            rows = slice(cuts[i], cuts[i + 1])
            far[rows] = distances_to(q, X[at[rows]].astype(np.float64), metric)
        return far

    def get(self, ids: np.ndarray, features: bool) -> Items:
        return self.table.get(ids, features=features)

    def ids(self, where: Mapping[str, Any] | None, limit: int | None) -> Listed:
        """The first ids, and their sequence numbers."""
        return Listed(*self.table.ids_in_order(where, limit=limit))

    def sample_ids(self) -> np.ndarray:
        return self.table.sample_ids()

    def count(self, where: Mapping[str, Any] | None) -> int:
        return self.table.count(where)

    def contains(self, ids: np.ndarray) -> np.ndarray:
        """Which ids are stored, (n,) bool."""
        return self.table.has(ids)

    def sequences(self, ids: np.ndarray) -> np.ndarray:
        """The sequence numbers of items, (n,) int64, as `HashTable.sequences` returns them."""
        return self.table.sequences(ids)

    def published(self) -> tuple[int, str | None]:
        """The version of the current functions, -1 for none, and what "auto" means with them: None where this machine
        does not have the models, and none was published since this process began."""
        version = self.table.version
        return -1 if version is None else version, self._compare

    def facts(self) -> dict[str, Any]:
        """Small facts about the table."""
        table = self.table
        return {
            "fields": table.fields,
            "commits": table.commits,
            "id_kind": table.id_kind,
            "items": len(table),
            "settings": table.settings,
            "version": table.version,
        }

    def stats(self) -> TableStats:
        return self.table.stats()

    def digest(self) -> int:
        return self.table.digest()

    def codes(self, rows: int) -> Iterator[Codes]:
        """For `Actor.stream`."""
        yield from self.table.codes(rows)

    def check(self, sample: int) -> dict[str, int]:
        return self.table.check(sample)

    def snapshot(self, path: str) -> None:
        """Write a copy into the folder of a snapshot of the whole cluster; nothing where it is there already."""
        once(shard_folder(path, self._number), self.table.snapshot)

    def export(self, path: str, features: bool, part_rows: int | None) -> None:
        """Write the parts of this shard into the folder of an export of the whole cluster."""
        export_shard(self.table, self._number, Path(path), features=features, part_rows=part_rows)

    def pid(self) -> int:
        """The number of the process."""
        return os.getpid()


def once(folder: Path, write: Callable[[Path], None]) -> None:
    """Have a folder written whole or not at all; nothing where it is there: the call may be a repeated one."""
    if HashTable.exists(folder):
        return
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    write(part)
    part.rename(folder)
