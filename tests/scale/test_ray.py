"""A cluster on Ray: the same answers as one table, through kills; several programs at once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.scale.pairs import FIELDS, QUERIES, X, Y, assert_same_answers, fill, hasher_of, pair

from hashstream import HashTable
from hashstream.scale import Cluster, ShardLost
from hashstream.scale.engine import RayEngine
from hashstream.scale.shard import shard_folder
from hashstream.table import Progress


@pytest.fixture(scope="module")
def filled(
    engine: RayEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[HashTable, Cluster]]:
    """A cluster on Ray and one table with the same items."""
    with pair(tmp_path_factory.mktemp("ray"), engine, shards=2, fields=FIELDS, publish_every=2) as both:
        for store in both:
            fill(store)
            store.label(range(0, 60, 3), Y[0:60:3])
            store.label(range(0, 30, 3), (Y[0:30:3] + 1) % 10)
            store.remove(where={"price": {"$lt": 5}})
            store.refresh()
        yield both


def test_everything_that_is_asked(filled: tuple[HashTable, Cluster]) -> None:
    table, cluster = filled
    assert_same_answers(table, cluster)
    ids = table.ids()
    assert cluster.get(ids).labels == table.get(ids).labels
    assert sum(len(piece.ids) for piece in cluster.codes(rows=100)) == len(table)
    assert cluster.stats().n_items == len(table)
    assert cluster.check()["codes"] >= len(table)
    with pytest.raises(KeyError, match="4711"):
        cluster.get([4711])
    with pytest.raises(ValueError, match=r"unknown field|no field"):
        cluster.search(QUERIES, where={"nothing": 1})


def test_concurrent_searches_get_their_own_answers(filled: tuple[HashTable, Cluster]) -> None:
    table, cluster = filled
    wrong: list[int] = []

    def caller(i: int) -> None:
        one = table.search(QUERIES[i : i + 1], k=5)
        for _ in range(20):
            other = cluster.search(QUERIES[i : i + 1], k=5)
            if other.ids.tolist() != one.ids.tolist():
                wrong.append(i)

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_shard_is_killed_while_others_search(filled: tuple[HashTable, Cluster]) -> None:
    table, cluster = filled
    want = table.search(QUERIES, k=20)
    answers: list[bool] = []
    errors: list[BaseException] = []
    stop = threading.Event()

    def caller() -> None:
        while not stop.is_set():
            try:
                found = cluster.search(QUERIES, k=20)
                answers.append(found.ids.tolist() == want.ids.tolist() and not found.missing)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=caller) for _ in range(3)]
    for thread in threads:
        thread.start()
    before = cluster.shard_pids()
    for victim in before:
        os.kill(victim, signal.SIGKILL)
        after = cluster.shard_pids()  # waits for the restart
        assert victim not in after
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(answers) > 3
    assert all(answers)


def test_a_shard_and_the_learner_are_killed_while_feeding(engine: RayEngine, tmp_path: Path) -> None:
    with pair(tmp_path, engine, shards=2, publish_every=2) as (table, cluster):
        batches = [(np.arange(s, s + 40), X[s : s + 40], Y[s : s + 40]) for s in range(0, 400, 40)]
        for batch in batches:
            table.ingest(*batch)
        pids = iter([cluster.shard_pids()[0], cluster.learner_pid()])

        def kill(step: Progress) -> None:
            if step.row in (80, 240):
                os.kill(next(pids), signal.SIGKILL)

        cluster.feed(batches, in_flight=1, progress=kill)
        assert next(pids, None) is None
        table.refresh()
        cluster.refresh()
        assert_same_answers(table, cluster)


def test_a_shard_whose_disk_is_lost(engine: RayEngine, tmp_path: Path) -> None:
    with pair(tmp_path, engine, shards=2) as (table, cluster):
        batch = (np.arange(200), X[:200], Y[:200])
        table.ingest(*batch)
        cluster.feed([batch])
        cluster.snapshot(tmp_path / "copy")
        shutil.rmtree(shard_folder(tmp_path / "cluster", 1))
        os.kill(cluster.shard_pids()[1], signal.SIGKILL)
        with pytest.raises(Exception, match="shard 1 is missing"):
            cluster.search(QUERIES)
        some = cluster.search(QUERIES, partial=True, timeout=30.0)
        assert 0.3 < some.missing < 0.7
        assert cluster.restore_shard(1, tmp_path / "copy") == 0
        table.refresh()
        cluster.refresh()
        assert_same_answers(table, cluster)


PROGRAM = """
import sys
import ray
from hashstream.scale import Cluster
from tests.scale.pairs import QUERIES, X, Y

with Cluster.open(sys.argv[1], address=sys.argv[2]) as cluster:
    cluster.ingest(range(100, 200), X[100:200], Y[100:200])
    print(cluster.search(QUERIES).ids.tolist(), cluster.shard_pids())
"""


def test_programs_share_the_shards(engine: RayEngine, tmp_path: Path) -> None:
    """Actors are found by name, and go on when a program ends."""
    import ray

    address = ray.get_runtime_context().gcs_address
    with HashTable.open(None, hasher_of("FCOH"), policy="never") as table:
        cluster = Cluster.open(
            tmp_path / "c", hasher_of("FCOH"), address=address, publish_every=1, policy="never"
        )
        try:
            for store in (table, cluster):
                store.ingest(range(100), X[:100], Y[:100])
            table.ingest(range(100, 200), X[100:200], Y[100:200])
            pids = cluster.shard_pids()
            cluster.close()
            said = subprocess.run(
                [sys.executable, "-c", PROGRAM, str(tmp_path / "c"), address],
                capture_output=True,
                text=True,
                check=True,
                timeout=100,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path]))},
            ).stdout
            cluster = Cluster.open(tmp_path / "c", address=address)
            assert said.split("]] ")[1].strip() == str(pids)
            assert cluster.shard_pids() == pids
            table.refresh()
            cluster.refresh()
            assert cluster.search(QUERIES).ids.tolist() == table.search(QUERIES).ids.tolist()
            assert cluster.digest() == table.digest()
        finally:
            cluster.stop()
        assert all(is_gone(pid) for pid in pids)


def is_gone(pid: int) -> bool:
    """Whether a process ends."""
    for _ in range(3000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        threading.Event().wait(0.01)
    return False


def test_shards_demand_the_machines_of_their_disks(engine: RayEngine, tmp_path: Path) -> None:
    import ray

    before = ray.available_resources()
    with pair(tmp_path, engine, shards=3, nodes=["disk a", "disk b"]) as (table, cluster):
        for store in (table, cluster):
            store.ingest(range(100), X[:100], Y[:100])
            store.refresh()
        assert_same_answers(table, cluster)
        left = ray.available_resources()
        taken = {name: round(1000 * (before[name] - left[name])) for name in ("disk a", "disk b")}
        assert taken == {"disk a": 3, "disk b": 1}  # shards 0 and 2 and the learner; shard 1


def test_a_shard_that_cannot_be_placed_is_lost(engine: RayEngine, tmp_path: Path) -> None:
    """No machine has the resource that the shard demands."""
    with pytest.raises(ShardLost, match="did not answer within"):
        Cluster.open(
            tmp_path / "c",
            hasher_of("FCOH"),
            nodes=["nowhere"],
            timeout=2.0,
            write_timeout=2.0,
            engine=engine,
        )
