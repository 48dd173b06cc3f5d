"""A process that was forked from one with an open cluster has no connection to its shards, and says so at once."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, ClusterError, connection
from hashstream.table.errors import TableLocked

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def in_a_fork(check: Callable[[], None]) -> str:
    """What is wrong in a forked process, as a traceback; nothing where all is right."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            check()
        except BaseException:
            os.write(into, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        said = file.read().decode()
    os.waitpid(child, 0)
    return said


def test_nothing_can_be_asked_or_written_there(tmp_path: Path) -> None:
    engine = LocalEngine()
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), engine=engine) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
        writer = cluster.writer()

        def check() -> None:
            engine.before = lambda name, method: pytest.fail(f"{method} was sent to {name}")
            calls: list[Callable[[], object]] = [
                lambda: cluster.search(X[:1]),
                lambda: cluster.search_radius(X[:1], 3),
                lambda: cluster.ingest([30], X[30:31], Y[30:31]),
                lambda: writer.ingest([30], X[30:31], Y[30:31]),
                lambda: cluster.id_kind,
                lambda: cluster.commits,
                lambda: cluster.version,
                lambda: cluster.shard_pids(),
                lambda: cluster.learner_pid(),
                lambda: list(cluster.codes()),
                lambda: len(cluster),
            ]
            for call in calls:
                with pytest.raises(
                    ClusterError, match=rf"process {os.getppid()}, of which this one is a fork"
                ):
                    call()
            cluster.close()
            cluster.stop()

        assert in_a_fork(check) == ""
        assert len(cluster) == 20
        with pytest.raises(TableLocked, match="is open in another program"):
            Cluster.open(tmp_path / "c", engine=LocalEngine())


@pytest.mark.usefixtures("ray")
def test_ray_cannot_be_used_there() -> None:
    def check() -> None:
        with pytest.raises(ClusterError, match="forked"):
            connection.connect()

    assert in_a_fork(check) == ""
    connection.connect()
