"""Which shard holds an item: a hash of its id that is the same on every machine and for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hashstream.table.digests import stable_hashes

__all__ = ["RULE", "Routed", "route", "shard_of"]

RULE = "stable-hash-32"
"""Name of the rule, stored with a cluster: the upper 32 bits of the hash, scaled to the number of shards."""


class Routed(NamedTuple):
    """The rows of a call that go to one shard, ascending."""

    shard: int
    rows: np.ndarray


def shard_of(ids: np.ndarray, shards: int) -> np.ndarray:
    """The shard (n,) intp of each id; ids as `as_ids` returns them.

    >>> shard_of(np.array([1, 2, 3, 4]), 2).tolist(), shard_of(np.array(["a", "b"], object), 3).tolist()
    ([1, 1, 0, 0], [0, 1])
    """
    upper = stable_hashes(ids) >> np.uint64(32)
    return (upper * np.uint64(shards) >> np.uint64(32)).astype(np.intp)


def route(ids: np.ndarray, shards: int) -> Iterator[Routed]:
    """The rows of each shard that has any."""
    where = shard_of(ids, shards)
    order = np.argsort(where, kind="stable")
    cuts = np.searchsorted(where[order], np.arange(shards + 1))
    for shard in range(shards):
        rows = order[cuts[shard] : cuts[shard + 1]]
        if len(rows):
            yield Routed(shard, rows)
