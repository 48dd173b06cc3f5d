"""Wrong arguments, files fed with other options, and files that are missing: said, and nothing is lost in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine

from hashstream import HashTable, RidgeHash
from hashstream.scale import Cluster, ClusterError
from hashstream.table import TableError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(120, 6)).astype(np.float32), RNG.integers(0, 3, 120)


def opened(path: Path, **more: Any) -> Cluster:
    hasher = None if Cluster.exists(path) else RidgeHash(n_bits=16, random_state=0)
    return Cluster.open(path, hasher, engine=LocalEngine(), **more)


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "nonsense"},
        {"policy": "projected"},
        {"policy": 5},
        {"durability": "half"},
        {"nodes": "ab"},
        {"nodes": [1]},
        {"nodes": [""]},
        {"timeout": "soon"},
        {"timeout": None},
        {"timeout": float("nan")},
        {"write_timeout": -1},
    ],
)
def test_wrong_settings_create_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        opened(tmp_path / "c", **wrong)
    assert not (tmp_path / "c").exists()


def test_counts_may_be_numpy_integers(tmp_path: Path) -> None:
    opened(tmp_path / "c", shards=np.int64(2), publish_every=np.int32(5)).close()
    with opened(tmp_path / "c") as cluster:
        assert (cluster.config.shards, cluster.config.publish_every) == (2, 5)


@pytest.mark.parametrize("other", [{"policy": "never"}, {"durability": "fast"}])
def test_fixed_settings_are_not_ignored(tmp_path: Path, other: dict[str, Any]) -> None:
    opened(tmp_path / "c").close()
    with pytest.raises(ClusterError, match="cannot be changed"):
        opened(tmp_path / "c", **other)
    opened(tmp_path / "c", policy="lazy", durability="full").close()


def test_no_table_is_created_in_the_folder_of_a_cluster(tmp_path: Path) -> None:
    opened(tmp_path / "c").close()
    for hasher in (None, RidgeHash(n_bits=16)):
        with pytest.raises(TableError, match="is a cluster"):
            HashTable.open(tmp_path / "c", hasher)
    assert not HashTable.exists(tmp_path / "c")


def test_a_table_is_named_as_such(tmp_path: Path) -> None:
    HashTable.open(tmp_path / "t", RidgeHash(n_bits=16)).close()
    for hasher in (None, RidgeHash(n_bits=16)):
        with pytest.raises(ClusterError, match="is a table"):
            Cluster.open(tmp_path / "t", hasher, engine=LocalEngine())


def test_rows_without_ids_do_not_replace_others_by_accident(tmp_path: Path) -> None:
    first, second = tmp_path / "1.npy", tmp_path / "2.npy"
    np.save(first, X[:50])
    np.save(second, X[50:100])
    with opened(tmp_path / "c") as cluster:
        cluster.feed([first])
        for start in (0, 49):
            with pytest.raises(ValueError, match="first_id"):
                cluster.feed([second], first_id=start)
        assert len(cluster) == 50
        assert cluster.feed([first, second]).rows == 50  # the first is known, and its rows are counted
        assert cluster.feed([first, second]).skipped == 2
        assert cluster.feed([second], first_id=100).rows == 50  # other items, of the same file
        np.testing.assert_array_equal(cluster.get([0, 50, 100]).features, X[[0, 50, 50]])
        assert len(cluster) == 150
        cluster.feed([second], force=True)
        np.testing.assert_array_equal(cluster.get([0]).features, X[[50]])


def test_a_file_that_was_stored_may_be_learned_later(tmp_path: Path) -> None:
    file = tmp_path / "1.npz"
    np.savez(file, ids=np.arange(50), X=X[:50], y=Y[:50], other=Y[50:100])
    with opened(tmp_path / "c") as cluster:
        assert cluster.feed([file], learn=False, label="y").rows == 50
        assert cluster.feed([file], learn=False, label="y").skipped == 1
        assert cluster.feed([file], label="y").rows == 50
        assert cluster.stats().n_seen == 50
        assert cluster.feed([file], learn=False, label="y").skipped == 1  # which takes no labels away
        assert cluster.get([7]).labels == [Y[7]]
        cluster.feed([file], label="other")
        assert cluster.get([7]).labels == [Y[57]]


def test_a_lost_feed_log_is_not_begun_again(tmp_path: Path) -> None:
    """Its numbers would begin at 0, and rows with smaller numbers than the stored ones would be skipped."""
    with opened(tmp_path / "c") as cluster:
        cluster.ingest([1, 2], X[:2], Y[:2])
    log = tmp_path / "c" / "feed_log.sqlite"
    content = log.read_bytes()
    for damage in (None, b"", b"nonsense" * 100, content[: len(content) // 2]):
        log.unlink(missing_ok=True)
        if damage is not None:
            log.write_bytes(damage)
        with opened(tmp_path / "c") as cluster:
            with pytest.raises(ClusterError, match=r"feed_log\.sqlite"):
                cluster.ingest([1], X[5:6], Y[5:6])
            assert len(cluster) == 2
    log.write_bytes(content)
    with opened(tmp_path / "c") as cluster:
        cluster.ingest([1], X[5:6], Y[5:6])
        np.testing.assert_array_equal(cluster.get([1]).features, X[5:6])


@pytest.mark.parametrize("wrong", [-1, "soon", float("nan"), True])
def test_a_search_checks_its_time_limit(tmp_path: Path, wrong: Any) -> None:
    with opened(tmp_path / "c") as cluster:
        cluster.ingest([1, 2], X[:2], Y[:2])
        with pytest.raises(ValueError, match="timeout must be a number of seconds"):
            cluster.search(X[:1], timeout=wrong)
        with pytest.raises(ValueError, match="timeout must be a number of seconds"):
            cluster.search_radius(X[:1], 3, timeout=wrong)


@pytest.mark.parametrize(
    "damage",
    ["{}", "[]", '{"version": null, "name": "x", "compare": "like"}',
     '{"version": 2, "name": "../learner/lock", "compare": "like"}'],
)  # fmt: skip
def test_a_damaged_name_of_the_model_is_said(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path / "c") as cluster:
        cluster.ingest([1, 2], X[:2], Y[:2])
    (tmp_path / "c" / "current").write_text(damage)
    with pytest.raises(ClusterError, match="current is damaged"):
        opened(tmp_path / "c")


def test_a_missing_model_is_said(tmp_path: Path) -> None:
    with opened(tmp_path / "c") as cluster:
        cluster.ingest([1, 2], X[:2], Y[:2])
    for model in (tmp_path / "c" / "models").iterdir():
        model.unlink()
    with opened(tmp_path / "c") as cluster, pytest.raises(ClusterError, match="safetensors is missing"):
        cluster.ingest([3], X[2:3], Y[2:3])


def test_a_file_that_was_changed_in_its_middle_is_another_part(tmp_path: Path) -> None:
    file = tmp_path / "rows.npy"
    rows = RNG.normal(size=(60_000, 12)).astype(np.float32)
    np.save(file, rows)
    with opened(tmp_path / "c") as cluster:
        cluster.feed([file], batch=30_000)
        rows[30_000] += 1
        np.save(file, rows)
        assert cluster.feed([file], batch=30_000, force=True).parts == 1
        items = cluster.get([30_000])
        assert items.features is not None
        assert np.array_equal(items.features[0], rows[30_000])


def test_folders_of_shards_that_were_exchanged(tmp_path: Path) -> None:
    with opened(tmp_path / "c", shards=2) as cluster:
        cluster.ingest(np.arange(100), X[:100], Y[:100])
    shards = tmp_path / "c" / "shards"
    (shards / "0000").rename(shards / "x")
    (shards / "0001").rename(shards / "0000")
    (shards / "x").rename(shards / "0001")
    with opened(tmp_path / "c") as cluster, pytest.raises(ClusterError, match="exchanged"):
        cluster.search(X[:2], 3)
