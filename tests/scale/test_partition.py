"""The shard of an id follows from the id alone, and all shards get about as many."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream.scale.partition import route, shard_of


def texts(n: int) -> np.ndarray:
    return np.array([f"item {i}" for i in range(n)], object)


def test_shards_stay_the_same() -> None:
    """Written down: an item must be found where another version of the program has stored it."""
    assert shard_of(np.array([0, 1, -1, 2**62]), 5).tolist() == [4, 2, 4, 0]
    assert shard_of(np.array(["", "a", "é", "item 1"], object), 5).tolist() == [3, 0, 0, 1]


@pytest.mark.parametrize("ids", [np.arange(20_000), np.arange(20_000) << 32, texts(20_000)])
def test_shards_are_of_equal_size(ids: np.ndarray) -> None:
    counts = np.bincount(shard_of(ids, 7), minlength=7)
    assert abs(counts / (len(ids) / 7) - 1).max() < 0.1


@pytest.mark.parametrize("ids", [np.arange(100), texts(100)])
def test_routed_rows_are_all_rows(ids: np.ndarray) -> None:
    routed = list(route(ids, 4))
    assert sorted(np.concatenate([rows for _, rows in routed]).tolist()) == list(range(100))
    for shard, rows in routed:
        assert (np.diff(rows) > 0).all()
        assert (shard_of(ids[rows], 4) == shard).all()


def test_one_shard_takes_all() -> None:
    ((shard, rows),) = route(np.arange(10), 1)
    assert shard == 0
    assert rows.tolist() == list(range(10))
    assert list(route(np.empty(0, np.int64), 3)) == []
