"""A cluster that another program has open: said at once, with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of

from hashstream.scale import Cluster, holding
from hashstream.table import TableError
from hashstream.table.errors import TableLocked

SHARED = "a Ray that is running"


def opened(folder: Path, *, address: str | None = None, engine: LocalEngine | None = None) -> Cluster:
    hasher = None if Cluster.exists(folder) else hasher_of("FCOH")
    return Cluster.open(folder, hasher, address=address, engine=engine or LocalEngine())


@pytest.mark.parametrize("address", [None, SHARED])
def test_held_by_a_program_of_its_own_ray(tmp_path: Path, address: str | None) -> None:
    engine = LocalEngine()
    with opened(tmp_path / "c") as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
        with pytest.raises(TableLocked, match=r"is open in another program, process \d+.*--address"):
            opened(tmp_path / "c", address=address, engine=engine)
        assert not engine.actors  # nothing was started
        assert len(cluster) == 20
    with opened(tmp_path / "c", address=address) as cluster:
        assert len(cluster) == 20
        cluster.stop()


def test_held_by_shards_on_a_running_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "PATIENCE", 0.0)
    shared = opened(tmp_path / "c", address=SHARED)
    shared.ingest(range(20), X[:20], Y[:20])
    with pytest.raises(TableLocked, match="is open in another program"):
        opened(tmp_path / "c")
    assert len(shared) == 20
    shared.stop()
    opened(tmp_path / "c").close()


def test_what_could_not_be_opened_is_not_held(tmp_path: Path) -> None:
    opened(tmp_path / "c").close()

    class Unreachable(LocalEngine):
        def n_nodes(self) -> int:
            raise ConnectionError("nobody listens")

    for _ in range(2):
        with pytest.raises(ConnectionError):
            opened(tmp_path / "c", engine=Unreachable())
    with pytest.raises(TableError, match="leave hasher= out"):
        Cluster.open(tmp_path / "c", hasher_of("RidgeHash"), engine=LocalEngine())
    opened(tmp_path / "c").close()


def test_what_could_not_be_stopped_is_not_held(tmp_path: Path) -> None:
    """As where Ray was shut down before."""
    engine = LocalEngine()
    cluster = opened(tmp_path / "c", engine=engine)

    def gone(name: str, method: str) -> None:
        for actor in engine.actors.values():
            actor.object.close()
        raise ConnectionError("Ray is gone")

    engine.before = gone
    with pytest.raises(ConnectionError):
        cluster.close()
    opened(tmp_path / "c").close()
