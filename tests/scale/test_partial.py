"""Answers of some shards say so, whatever was known of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster
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
