"""The part of a cluster that keeps it: verified, compacted, copied, exported and restored."""

from __future__ import annotations

import os
from pathlib import Path

from hashstream.hashers.validation import check_count
from hashstream.scale.config import Config
from hashstream.scale.errors import ClusterError
from hashstream.scale.exporting import export_cluster
from hashstream.scale.members import Members
from hashstream.scale.models import Publication
from hashstream.scale.reading import Readable
from hashstream.scale.searching import Searcher
from hashstream.scale.snapshots import Steps, counter, restore_cluster, restore_shard, write_snapshot
from hashstream.scale.writing import Storer
from hashstream.table.export.manifest import Manifest

__all__ = ["Keeping"]


class Keeping(Readable):
    """Work on all shards that may take long. `Cluster` adds the rest."""

    def __init__(
        self, path: Path, config: Config, members: Members, searcher: Searcher, storer: Storer
    ) -> None:
        super().__init__(members, searcher, storer)
        self.path, self.config = path, config

    def compact(self) -> int:
        """Free the space of items that were removed or replaced; returns their number in the shards."""
        self._refuse_if_closed()
        self._members.learn("compact", long=True)
        return sum(self._members.write("compact", long=True))

    def check(self, sample: int = 1000, *, progress: Steps | None = None) -> dict[str, int]:
        """Verify every checksum of shards and learner, and encode a sample of each shard's items again; a TableError
        names what is wrong. Returns how much was verified, as `HashTable.check`. progress : called with the number of
        tables that are verified, and of all."""
        self._refuse_if_closed()
        members, tell = self._members, counter(self.config.shards + 1, progress)
        checked = members.write_and_tell("check", sample, tell=tell)
        checked.append(members.learn("check", sample, long=True))
        tell()
        return {name: sum(one[name] for one in checked) for name in checked[0]}

    def snapshot(self, path: str | os.PathLike[str], *, progress: Steps | None = None) -> None:
        """Write a copy of the cluster to a new folder, which every machine writes its shards to; others may go on
        writing. Each shard is copied as of one commit. ClusterError where the folder holds a complete snapshot, or
        something else.

        Where a snapshot was interrupted, its folder is used again, and all of it is written again. But one that a kill
        has left complete, without its last step, stays as it is, as of when it was written: for a newer one, give
        another folder.
        progress : called with the number of tables that are copied, and of all."""
        self._refuse_if_closed()
        tell = counter(self.config.shards + 1, progress)
        write_snapshot(self._members, self.config, self._outside(path), tell)

    def _outside(self, path: str | os.PathLike[str]) -> Path:
        """A folder to write to; ClusterError where it is in that of the cluster."""
        folder = Path(path).resolve()
        if folder.is_relative_to(self.path):
            raise ClusterError(
                f"{folder} is in the folder of the cluster, {self.path}: choose one outside of it"
            )
        return folder

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        features: bool = False,
        part_rows: int | None = None,
        progress: Steps | None = None,
    ) -> Manifest:
        """Publish the current functions, and write all items to Parquet files, of which `HashTable.restore` makes one
        table; see `HashTable.export`. Each shard is exported as of one commit, to a folder that all machines see.
        progress : called with the number of shards that are exported, and of all."""
        self._refuse_if_closed()
        target = self._outside(path)
        if part_rows is not None:
            check_count("part_rows", part_rows, 1)
        if self._members.learn("published") is not None:
            publication: Publication = self._members.learn("publish")
            self._members.push(publication)
            self._searcher.published(publication.version, publication.compare)
        tell = counter(self.config.shards, progress)
        return export_cluster(
            self._members, self.config, target, features=features, part_rows=part_rows, tell=tell
        )

    @staticmethod
    def restore(
        snapshot: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Steps | None = None
    ) -> None:
        """Copy a snapshot to a new folder, to be opened as a cluster of its own; ClusterError where something is there,
        also where it is this cluster. progress : called with the bytes that
        are copied, and all."""
        restore_cluster(Path(snapshot).resolve(), Path(path).resolve(), progress)

    def restore_shard(self, shard: int, snapshot: str | os.PathLike[str]) -> int:
        """Restore a shard whose folder is lost from a snapshot of this cluster.

        Parts that were fed since the snapshot count as not fed: feed them again, and what other shards have is skipped.
        Returns the number of these parts. Rows that were ingested without a feed since, and labels, are lost, and items
        that were removed since are back.
        """
        self._refuse_if_closed()
        return restore_shard(self._members, self.config, self.path, shard, Path(snapshot).resolve())
