"""The errors of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from hashstream.table.errors import TableError, Unavailable

__all__ = ["ClusterError", "ShardLost", "ShardMissing"]


class ClusterError(TableError):
    """A cluster's folder is not one, or the cluster cannot do what was asked."""


class ShardLost(ClusterError, Unavailable):
    """Shards did not answer within the time limit. Nothing is known about calls that were sent to them: each may be
    repeated.

    shards : their numbers.
    """

    def __init__(self, message: str, shards: Sequence[int] = ()) -> None:
        super().__init__(message, tuple(shards))
        self.message, self.shards = message, tuple(shards)

    def __str__(self) -> str:
        return self.message


class ShardMissing(ClusterError):
    """The folder of a shard that was created is not there: it has to be restored from a snapshot."""
