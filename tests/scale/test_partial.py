"""Answers of some shards say so, whatever was known of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ShardLost
from hashstream.scale.partition import shard_of


def test_a_shard_that_was_empty_when_it_was_last_searched(tmp_path: Path) -> None:
    engine, ids = LocalEngine(), np.arange(100)
    there = shard_of(ids, 2) == 0
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=engine) as cluster:
        cluster.ingest(ids[there], X[:100][there], Y[:100][there])
        assert cluster.search(X[:1]).missing == 0
        cluster.add(ids[~there], X[:100][~there])
        engine.actors["shard 1"].lost = True
        assert cluster.search(X[:1], partial=True).missing == 0.5
        assert cluster.search_radius(X[:1], 4, partial=True).missing == 0.5


def test_the_numbers_of_lost_shards(tmp_path: Path) -> None:
    engine, ids = LocalEngine(), np.arange(100)
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=3, engine=engine) as cluster:
        cluster.ingest(ids, X[:100], Y[:100])
        engine.actors["shard 2"].lost = True
        there = ids[shard_of(ids, 3) == 2]
        for call in (lambda: cluster.get(there), lambda: cluster.search(X[:1]), lambda: cluster.digest()):
            with pytest.raises(ShardLost, match="shard 2 did not answer") as lost:
                call()
            assert lost.value.shards == (2,)
        engine.actors["shard 2"].lost, engine.actors["the learner"].lost = False, True
        with pytest.raises(ShardLost, match="the learner did not answer") as lost:
            cluster.ingest([200], X[:1])
        assert lost.value.shards == ()
