"""Restoring to where something is, or from where something runs: refused before anything changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ClusterError
from hashstream.scale.shard import shard_folder


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With a snapshot in `copy`, and a part that was fed since."""
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        cluster.feed([(range(40), X[:40], Y[:40])])
        cluster.snapshot(tmp_path / "copy")
        cluster.feed([(range(40, 50), X[40:50], Y[40:50])], name="later")
        yield cluster


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder but those of SQLite, which may change while it is only read."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "sqlite" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_to_the_folder_of_a_cluster_that_is_open(cluster: Cluster, tmp_path: Path) -> None:
    digest, before = cluster.digest(), content(tmp_path / "c")
    for target in ("c", "c/shards", "c/shards/0001"):
        with pytest.raises(ClusterError, match="exists already"):
            Cluster.restore(tmp_path / "copy", tmp_path / target)
    shutil.rmtree(tmp_path / "c" / "shards" / "0001")
    for target in ("c/shards/0001", "c/copy", "copy/again"):
        with pytest.raises(ClusterError, match=r"is inside .*--shard"):
            Cluster.restore(tmp_path / "copy", tmp_path / target)
    assert not shard_folder(tmp_path / "c", 1).exists()
    left = content(tmp_path / "c")
    assert left == {name: raw for name, raw in before.items() if name in left}
    cluster.restore_shard(1, tmp_path / "copy")
    cluster.feed([(range(40, 50), X[40:50], Y[40:50])], name="later")
    assert cluster.digest() == digest


@pytest.mark.parametrize("address", [None, "a Ray that is running"])
def test_from_a_cluster_that_is_open(tmp_path: Path, address: str | None) -> None:
    """Its files change while they are copied."""
    cluster = Cluster.open(tmp_path / "c", hasher_of("FCOH"), engine=LocalEngine(), address=address)
    cluster.ingest(range(20), X[:20], Y[:20])
    with pytest.raises(ClusterError, match="is in use"):
        Cluster.restore(tmp_path / "c", tmp_path / "d")
    cluster.stop()
    assert not (tmp_path / "d").exists()
    Cluster.restore(tmp_path / "c", tmp_path / "d")
    with Cluster.open(tmp_path / "d", engine=LocalEngine()) as copy:
        assert len(copy) == 20


def test_nothing_else_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "d.part").mkdir()
    (tmp_path / "d.part" / "thesis.txt").touch()
    Cluster.restore(tmp_path / "copy", tmp_path / "d")
    assert (tmp_path / "d.part" / "thesis.txt").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"c", "copy", "d", "d.part"}


def test_a_shard_that_is_there(cluster: Cluster, tmp_path: Path) -> None:
    folder = shard_folder(tmp_path / "c", 1)
    with pytest.raises(ClusterError, match="shard 1 is there"):
        cluster.restore_shard(1, tmp_path / "copy")
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "thesis.txt").touch()  # a disk with something else, or a table that is damaged
    with pytest.raises(ClusterError, match=r"shard 1 is there.*move it away"):
        cluster.restore_shard(1, tmp_path / "copy")
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    assert (
        cluster.feed([(range(40, 50), X[40:50], Y[40:50])], name="later").skipped == 1
    )  # still known as fed
    (folder / "thesis.txt").unlink()
    assert cluster.restore_shard(1, tmp_path / "copy") == 1
