"""A cluster behind the service: the kind of folder that `hashstream serve` is given beside tables."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hashstream.scale.cluster import Cluster
from hashstream.serve.kinds import TableKind
from hashstream.serve.problems import Problem
from hashstream.table import Call, Commit, Writer

__all__ = ["ServedCluster", "cluster_kind"]

log = logging.getLogger("hashstream.scale")

TELLING = 1.0  # seconds that a write that is done waits for shards, to tell of it
TIMEOUT = (
    20.0  # seconds that a search waits for a shard: longer than a restart, shorter than a request may take
)


def cluster_kind(address: str | None = None) -> TableKind:
    """Clusters, for `hashstream.serve.service.Service(kinds=...)`. address : of their Ray, as for `Cluster.open`."""
    opening = threading.Lock()

    def opened(path: Path, read_only: bool, told: Callable[[Commit], None]) -> ServedCluster:
        with opening:  # the first one starts Ray
            cluster = ServedCluster.open(path, address=address, timeout=TIMEOUT)
        if not read_only:
            cluster.told = told
        return cluster

    return TableKind("a cluster", Cluster.exists, opened, removable=False)


class ServedCluster(Cluster):
    """A cluster with the few things of a table that only a service asks for.

    told : is called after every write through this object, once for calls that are done together. Where a shard does
    not answer soon, and where `told` fails, that is logged: the write is done. Events of shards that re-encode by
    themselves, and of other programs, are not told.
    """

    told: Callable[[Commit], None] | None = None

    def snapshot(self, path: Any, **more: Any) -> None:
        """As of a cluster, where this machine sees all of its folder."""
        if self.config.nodes:
            raise Problem(
                "not-supported",
                "the shards of this cluster are on disks of several machines: use `hashstream cluster snapshot` with a "
                "folder that all of them see",
            )
        super().snapshot(path, **more)

    # ---- writing

    def writer(self) -> Writer:
        """As of a cluster; its calls are told."""
        self._refuse_if_closed()
        return Writer(self._storer.check, self._do)

    def _do(self, calls: list[Call]) -> None:
        self._storer.do(calls)
        done = [call for call in calls if call.error is None]
        added = labelled = learned = 0
        for call in done:
            if call.kind in ("label", "annotate"):
                count = call.result or 0
                labelled += count
                learned += count if call.kind == "label" else 0
            else:
                count = len(call.args[0])
                added += count
                if call.kind == "ingest" and len(call.args) > 2 and call.args[2] is not None:
                    learned += count
        if done:
            self._tell(added=added, labelled=labelled, learned=learned)

    def remove(self, ids: Any = None, **more: Any) -> int:
        count = super().remove(ids, **more)
        self._tell(removed=count)
        return count

    def refresh(self, budget: int | None = None) -> int:
        count = super().refresh(budget)
        self._tell(recoded=count)
        return count

    def _tell(self, **counts: int) -> None:
        if self.told is None:
            return
        try:
            every = dict.fromkeys(range(self.config.shards), ())
            facts = self._members.read_each("facts", every, TELLING)
            commits = sum(one["commits"] for one in facts)
            version = max((one["version"] for one in facts if one["version"] is not None), default=None)
            self.told(Commit(commits, version=version, **counts))
        except Exception as error:
            log.warning("a write was not told, which is stored: %r", error)
