"""Clusters whose programs and processes die at any call, without Ray; late and repeated parts; lost disks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scale.failing_engine import FailingEngine, Killed
from tests.scale.fault_world import K, Oracle, World, Wrong

from hashstream.scale import Cluster, ClusterError, ShardLost
from hashstream.scale.merging import ClusterSearchResult
from hashstream.scale.shard import shard_folder

HERE = "an engine that goes on"  # an address, so that actors outlive the program


@pytest.fixture
def engine() -> Iterator[FailingEngine]:
    engine = FailingEngine(0)
    yield engine
    engine.close()


def opened(world: World, folder: Path, engine: FailingEngine) -> Cluster:
    return world.open(folder / "cluster", HERE, engine=engine)


# ---- the judge


def test_answers_that_cannot_be_are_noticed() -> None:
    world = next(world for seed in range(9) if type((world := World(seed)).method()).__name__ == "LSH")
    oracle, done = Oracle(world), len(world.steps)

    def answer() -> ClusterSearchResult:
        return ClusterSearchResult(*oracle.table.search(world.Q, K, compare="like"))

    oracle.explain(answer(), K, world.half, done)
    far, ids = oracle.table.search(world.Q, K + 1, compare="like")
    nearest = far[:, 1] > far[:, 0]
    assert nearest.any(), "no query has one nearest item"
    with pytest.raises(Wrong, match="is not found"):
        oracle.explain(ClusterSearchResult(far[:, 1:], ids[:, 1:]), K, done, done)
    with pytest.raises(Wrong, match="is not found"):
        oracle.explain(ClusterSearchResult(far[:, :2], ids[:, :2]), K, done, done)
    with pytest.raises(Wrong, match="found twice"):
        oracle.explain(ClusterSearchResult(far[:, [0, 0]], ids[:, [0, 0]]), 2, done, done)
    with pytest.raises(Wrong, match="bits away"):
        oracle.explain(ClusterSearchResult(far + 40, ids), K, done, done)
    with pytest.raises(Wrong, match="not sorted"):
        oracle.explain(ClusterSearchResult(far[:, ::-1], ids[:, ::-1]), K, done, done)
    short = answer()
    short.missing = 0.5
    with pytest.raises(Wrong, match="items are missing"):
        oracle.explain(short, K, done, done)


@pytest.mark.parametrize("lost", ["row", "label", "lesson"])
def test_a_cluster_that_is_not_the_table_is_noticed(lost: str, tmp_path: Path, engine: FailingEngine) -> None:
    world = World(0)
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path)
    one = world.steps[-1].ids[-1]
    if lost == "row":
        cluster.remove([one])
    elif lost == "label":
        cluster.label([one], ["another"] if world.text_labels else [99], learn=False)
    else:
        cluster.ingest([one], world.steps[-1].X[-1:], ["class 0"] if world.text_labels else [0])  # type: ignore[index]
    with pytest.raises(Wrong):
        Oracle(world).judge(cluster)


# ---- deaths at any call


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", [0, 2, 3, 4])  # 1, 7 and 10 take half a minute each
def test_commands_that_are_given_again_after_any_death_do_everything_once(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    engine = FailingEngine(seed, gap=7)

    def command(*names: str) -> Any:
        """As a command line does: open, do one thing, end."""

        def once() -> Any:
            cluster = opened(world, tmp_path, engine)
            for name in names:
                (world.feed if name == "feed" else commands[name])(cluster, tmp_path)

        return engine.survive(once)

    commands: dict[str, Any] = {
        "feed half": lambda cluster, folder: world.feed(cluster, folder, world.half),
        "refresh": lambda cluster, _: cluster.refresh(),
        "snapshot": lambda cluster, folder: (
            Cluster.exists(folder / "copy") or cluster.snapshot(folder / "copy")
        ),
    }
    command()
    command("feed half")
    command("refresh")
    command("snapshot")
    command("feed")
    command("refresh")
    assert engine.faults.total() > 5
    engine.gap = None
    Oracle(world).judge(opened(world, tmp_path, engine))
    engine.close()
    Cluster.restore(tmp_path / "copy", tmp_path / "restored")
    with Cluster.open(tmp_path / "restored", engine=FailingEngine(0)) as restored:
        Oracle(world, world.half).judge(restored)
        world.feed(restored, tmp_path)
        Oracle(world).judge(restored)


# ---- parts that come twice, or late


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_a_part_that_is_fed_again_changes_nothing(seed: int, tmp_path: Path, engine: FailingEngine) -> None:
    world = World(seed)
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path)
    fed = world.feed(cluster, tmp_path)
    assert (fed.parts, fed.rows, fed.skipped) == (0, 0, len(world.steps))
    Oracle(world).judge(cluster)
    parts = [world.part(tmp_path, at) for at in range(len(world.steps))]
    cluster.feed(parts, batch=world.batch, force=True)
    Oracle(world).judge(cluster)


@pytest.mark.parametrize("seed", [0, 2, 3, 5, 8])
def test_a_part_that_comes_late_replaces_nothing_that_is_newer(
    seed: int, tmp_path: Path, engine: FailingEngine
) -> None:
    """It was numbered, and its program died; others went on; it comes at last."""
    world = World(seed, way="batches")
    late = 1
    cluster = opened(world, tmp_path, engine)
    parts = [world.part(tmp_path, at) for at in range(len(world.steps))]
    cluster.feed(parts[:late], name="feed")

    def die(actor: str, method: str) -> None:
        if method in ("held", "store"):
            raise Killed

    engine.before = die
    with pytest.raises(Killed):
        cluster.feed([parts[late]], name="late")
    engine.before = None
    cluster.feed(parts[late + 1 :], name="others")
    cluster.feed([parts[late]], name="late")
    oracle = Oracle(world, late)
    for at in (*range(late + 1, len(world.steps)), late):
        step = world.steps[at]
        step.do(oracle.table, sequence=(at << 32) + np.arange(len(step.ids)))
    oracle.judge(cluster, in_order=False)


def test_rows_with_numbers_of_their_own_may_come_in_any_order(tmp_path: Path, engine: FailingEngine) -> None:
    world = World(2, way="batches")
    cluster, oracle = opened(world, tmp_path, engine), Oracle(world, 1)
    world.feed(cluster, tmp_path, 1)
    new, old = world.steps[2], world.steps[1]
    n = min(len(new.ids), len(old.ids))
    for table in (cluster, oracle.table):
        table.ingest(old.ids[:n], new.X[:n], None, sequence=(1 << 50) + np.arange(n))
        table.ingest(old.ids[:n], old.X[:n], np.array(old.y[:n], object), sequence=(1 << 49) + np.arange(n))
    oracle.judge(cluster)


def test_a_call_with_a_key_is_known_after_its_items_are_gone(tmp_path: Path, engine: FailingEngine) -> None:
    world = World(2)
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path, 1)
    ids = world.steps[0].ids[:4]
    given = cluster.label(ids, ["class 0", "class 1", "class 2", "class 3"], key="labels")
    cluster.remove(ids[:2], key="removal")
    assert cluster.label(ids, ["class 0", "class 1", "class 2", "class 3"], key="labels") == given
    with pytest.raises(KeyError, match="not in the cluster"):
        cluster.label(ids, ["class 0", "class 1", "class 2", "class 3"], key="others")


# ---- lost disks


def several_shards(**more: Any) -> World:
    return next(world for seed in range(100) if (world := World(seed, **more)).shards == 3)


def test_a_lost_shard_is_an_error_or_a_share_that_is_missing(tmp_path: Path, engine: FailingEngine) -> None:
    world = several_shards()
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path)
    everything = cluster.search(world.Q, len(cluster))
    lost = engine.actors[f"{cluster.config.id}-shard-0001"]
    gone = set(lost.object.table.ids().tolist())
    lost.lost = True
    with pytest.raises(ShardLost, match="shard-0001 did not answer") as raised:
        cluster.search(world.Q, K)
    assert raised.value.shards == (1,)
    with pytest.raises(ShardLost):
        cluster.search_radius(world.Q, 3)
    hits = cluster.search(world.Q, everything.ids.shape[1], partial=True)
    share = len(gone) / everything.ids.shape[1]
    assert hits.missing == share > 0
    for row in range(len(world.Q)):
        assert hits.ids[row].tolist() == [one for one in everything.ids[row].tolist() if one not in gone]
    assert cluster.search_radius(world.Q, 3, partial=True).missing == share
    lost.lost = False
    assert cluster.search(world.Q, K, partial=True).missing == 0.0
    assert np.array_equal(cluster.search(world.Q, K).ids, everything.ids[:, :K])


def test_no_shard_at_all_is_no_partial_answer(tmp_path: Path, engine: FailingEngine) -> None:
    world = several_shards()
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path)
    for name, actor in engine.actors.items():
        actor.lost = "shard" in name
    with pytest.raises(ShardLost):
        cluster.search(world.Q, K, partial=True)


@pytest.mark.thinned("values")
@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("way", ["batches", "files", "calls"])
def test_a_shard_whose_disk_is_lost_comes_back_from_a_snapshot_and_the_feed(
    way: str, restarted: bool, tmp_path: Path, engine: FailingEngine
) -> None:
    world = several_shards(way=way, removes=False)
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path, world.half)
    cluster.snapshot(tmp_path / "copy")
    world.feed(cluster, tmp_path)
    actor = engine.actors[f"{cluster.config.id}-shard-0002"]
    if restarted:
        actor.object.close()
    shutil.rmtree(shard_folder(tmp_path / "cluster", 2))
    if restarted:
        actor.object = actor.kind(*actor.args)
        with pytest.raises(ClusterError, match="shard 2 is missing"):
            cluster.search(world.Q, K)
        assert cluster.search(world.Q, K, partial=True).missing > 0
    forgotten = cluster.restore_shard(2, tmp_path / "copy")
    assert forgotten == len(world.steps) - world.half
    world.feed(cluster, tmp_path)
    Oracle(world).judge(cluster)
    actor.restart()  # everything is in the new folder
    Oracle(world).judge(cluster)


def test_a_restored_shard_takes_the_functions_of_the_others(
    tmp_path: Path, engine: FailingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On machines that do not see the folder with the models."""
    world = several_shards(way="batches")
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path, world.half)
    cluster.snapshot(tmp_path / "copy")
    world.feed(cluster, tmp_path)
    cluster.refresh()
    actor = engine.actors[f"{cluster.config.id}-shard-0002"]
    actor.object.close()
    shutil.rmtree(shard_folder(tmp_path / "cluster", 2))
    actor.object = actor.kind(*actor.args)
    monkeypatch.setattr(actor.object, "_models", actor.object._models.__class__(tmp_path / "elsewhere"))
    cluster.restore_shard(2, tmp_path / "copy")
    world.feed(cluster, tmp_path)
    Oracle(world).judge(cluster)


def test_a_restoration_can_be_given_again(tmp_path: Path, engine: FailingEngine) -> None:
    world = several_shards()
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path)
    cluster.snapshot(tmp_path / "copy")
    actor = engine.actors[f"{cluster.config.id}-shard-0001"]
    with pytest.raises(ClusterError, match="shard 1 is there"):
        cluster.restore_shard(1, tmp_path / "copy")
    actor.object.close()
    shutil.rmtree(shard_folder(tmp_path / "cluster", 1))
    cluster.restore_shard(1, tmp_path / "copy")
    actor.restart()
    cluster.restore_shard(1, tmp_path / "copy")
    Oracle(world).judge(cluster)


def test_a_cluster_can_be_created_after_a_kill_in_the_middle_of_its_first_file(
    tmp_path: Path, engine: FailingEngine
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / f"cluster.json.{'0' * 32}.part").write_text("{")
    world = World(0)
    cluster = opened(world, tmp_path, engine)
    world.feed(cluster, tmp_path)
    Oracle(world).judge(cluster)
