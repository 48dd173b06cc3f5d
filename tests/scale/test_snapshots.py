"""Snapshots that are taken while others write, or into a folder with something else in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ClusterError, database


def restored(folder: Path) -> Any:
    """Of a snapshot; item 5 was replaced, and a part was fed, between its copies of the feed log and of the shard."""
    engine = LocalEngine()
    with Cluster.open(folder / "cluster", hasher_of("FCOH"), shards=1, engine=engine) as cluster:
        cluster.feed([(range(20), X[:20], Y[:20])])

        def before(name: str, method: str) -> None:
            if (name, method) == ("shard 0", "snapshot"):
                engine.before = None
                for row in (100, 101, 102):
                    cluster.add([5], X[row : row + 1])
                cluster.feed([(range(30, 50), X[30:50], Y[30:50])], name="meanwhile")

        engine.before = before
        cluster.snapshot(folder / "snapshot")
    Cluster.restore(folder / "snapshot", folder / "restored")
    return Cluster.open(folder / "restored", engine=LocalEngine())


def test_a_write_after_the_restore_is_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BLOCK", 1)  # otherwise it takes a thousand calls
    with restored(tmp_path) as cluster:
        assert (cluster.get([5]).features == X[102]).all()
        cluster.add([5], X[200:201])
        assert (cluster.get([5]).features == X[200]).all()


def test_a_part_that_came_meanwhile_is_fed_again_and_learned_once(tmp_path: Path) -> None:
    with restored(tmp_path) as cluster:
        fed = cluster.feed([(range(20), X[:20], Y[:20])])
        assert (fed.parts, fed.skipped) == (0, 1)
        seen = cluster.hasher.n_seen_
        fed = cluster.feed([(range(30, 50), X[30:50], Y[30:50])], name="meanwhile")
        assert (fed.parts, fed.skipped) == (1, 0)
        assert cluster.hasher.n_seen_ == seen == 40
        assert np.isin(np.arange(30, 50), cluster.ids()).all()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("unfinished", "thesis.txt"):
        (tmp_path / "work" / name).touch()
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=1, engine=LocalEngine()) as cluster:
        with pytest.raises(ClusterError, match="needs a new folder"):
            cluster.snapshot(tmp_path / "work")
        assert (tmp_path / "work" / "thesis.txt").exists()
        (tmp_path / "work" / "thesis.txt").unlink()
        for name in ("current", "current.0123.part", "feed_log.sqlite.part", "cluster.json.0123.part"):
            (tmp_path / "work" / name).touch()
        cluster.snapshot(tmp_path / "work")


@pytest.mark.parametrize("inside", [".", "shards", "shards/0000", "shards/new/one"])
def test_nothing_is_copied_into_the_cluster_itself(tmp_path: Path, inside: str) -> None:
    with Cluster.open(tmp_path / "cluster", hasher_of("FCOH"), shards=2, engine=LocalEngine()) as cluster:
        cluster.add(range(20), X[:20])
        for write in (cluster.snapshot, cluster.export):
            with pytest.raises(ClusterError, match="is in the folder of the cluster"):
                write(tmp_path / "cluster" / inside)
        assert not (tmp_path / "cluster" / "shards" / "new").exists()
