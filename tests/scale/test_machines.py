"""Machines with disks of their own: each has its part of the folder, and only snapshots and exports are seen by all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.scale.local_engine import LocalActor, LocalEngine
from tests.scale.pairs import X, Y, assert_same_answers, hasher_of

from hashstream import HashTable
from hashstream.scale import Cluster
from hashstream.scale.engine import Outcome
from hashstream.scale.models import Models


class Machines(LocalEngine):
    """Actors see the disk of their machine only. The program runs on that of `first`. compared : how
    searches were to compare codes."""

    def __init__(self, disks: Path, first: str) -> None:
        super().__init__()
        self._disks, self._first = disks, first
        self.compared: list[str] = []

    def actor(
        self, kind: Callable[..., Any], args: tuple[Any, ...], *, name: str, node: str | None, detached: bool
    ) -> LocalActor:
        assert node is not None
        path = args[0] if node == self._first else str(self._disks / node / Path(args[0]).name)
        return super().actor(kind, (path, *args[1:]), name=name, node=node, detached=detached)

    def run(self, actor: LocalActor, method: str, args: tuple[Any, ...]) -> Outcome:
        self.compared += [args[3]] if method == "search" else []
        return super().run(actor, method, args)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != "lock"}


def test_each_machine_has_its_part(tmp_path: Path) -> None:
    here = tmp_path / "disks" / "a" / "photos"
    there = tmp_path / "disks" / "b" / "photos"
    engine = Machines(tmp_path / "disks", "a")
    nodes = ["a", "b"]
    with (
        HashTable.open(None, hasher_of("FCOH"), policy="never") as table,
        Cluster.open(
            here, hasher_of("FCOH"), shards=3, nodes=nodes, publish_every=1, policy="never", engine=engine
        ) as cluster,
    ):
        for store in (table, cluster):
            for start in range(0, 300, 50):
                store.ingest(range(start, start + 50), X[start : start + 50], Y[start : start + 50])
            store.refresh()
        assert names(here) == {"cluster.json", "feed_log.sqlite", "current", "models", "learner", "shards"}
        assert (names(here / "shards"), names(there / "shards")) == ({"0000", "0002"}, {"0001"})
        assert names(there) == {"shards"}
        for actor in engine.actors.values():
            actor.restart()
        assert_same_answers(table, cluster)
        cluster.snapshot(tmp_path / "copy")
        assert int(cluster.export(tmp_path / "e").digest, 16) == table.digest()

        shutil.rmtree(there / "shards" / "0001")  # the disk of b
        engine.actors["shard 1"].restart()
        assert cluster.restore_shard(1, tmp_path / "copy") == 0
        assert_same_answers(table, cluster)

        for machine in nodes:
            Cluster.restore(tmp_path / "copy", tmp_path / "disks" / machine / "again")
        for machine, others in (("a", ["0001"]), ("b", ["0000", "0002"])):
            for shard in others:
                shutil.rmtree(tmp_path / "disks" / machine / "again" / "shards" / shard)
        with Cluster.open(
            tmp_path / "disks" / "a" / "again", engine=Machines(tmp_path / "disks", "a")
        ) as again:
            assert_same_answers(table, again)
            for store in (table, again):
                store.ingest(range(300, 350), X[300:350], Y[300:350])
                store.refresh()
            assert_same_answers(table, again)


def test_a_shard_that_does_not_see_the_models_decides_nothing(tmp_path: Path) -> None:
    """What "auto" means is noted beside the models, which only the first machine has."""
    engine = Machines(tmp_path / "disks", "a")
    folder = tmp_path / "disks" / "a" / "photos"
    with Cluster.open(
        folder, hasher_of("FCOH"), shards=2, nodes=["a", "b"], policy="never", engine=engine
    ) as cluster:
        cluster.ingest(range(50), X[:50], Y[:50])
        publication = Models(folder).current()
        assert publication is not None
        (folder / "current").write_text(json.dumps(publication._replace(compare="current")._asdict()))
    engine = Machines(tmp_path / "disks", "a")
    with Cluster.open(folder, engine=engine) as cluster:
        for _ in range(3):
            cluster.search(X[:1])
    assert engine.compared == ["current"] * 6
