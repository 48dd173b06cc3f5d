"""Commands that copy a cluster, given again after they were completed, or killed just before."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.scale.local_engine import LocalEngine
from tests.scale.pairs import X, Y, hasher_of
from typer.testing import CliRunner

from hashstream import cli
from hashstream.scale import Cluster, ClusterError, creating
from hashstream.scale.config import Config


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a cluster."""
    monkeypatch.setattr(creating, "RayEngine", lambda address: LocalEngine())
    with Cluster.open(tmp_path / "c", hasher_of("FCOH"), shards=2) as cluster:
        cluster.ingest(range(20), X[:20], Y[:20])
    return tmp_path


def said(*arguments: Any, code: int = 0) -> str:
    result = CliRunner().invoke(
        cli.app, ["cluster", *map(str, arguments)], env={"COLUMNS": "300"}, catch_exceptions=False
    )
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def another(folder: Path) -> Path:
    with Cluster.open(folder / "other", hasher_of("FCOH"), shards=2):
        return folder / "other"


def test_a_snapshot(folder: Path) -> None:
    assert "Copied to" in said("snapshot", folder / "c", folder / "copy")
    before = {path: path.read_bytes() for path in folder.glob("copy/*") if path.is_file()}
    moment = datetime(2024, 5, 6, 7, 8).timestamp()
    os.utime(folder / "copy" / "cluster.json", (moment, moment))
    told = said("snapshot", folder / "c", folder / "copy")
    assert "Nothing to do" in told
    assert "already, written on 2024-05-06 at 07:08. For a newer one, give another folder." in told
    assert before == {path: path.read_bytes() for path in folder.glob("copy/*") if path.is_file()}
    assert "exists already" in said("snapshot", another(folder), folder / "copy", code=2)
    (folder / "copy" / "shards" / "0001" / "table.sqlite").unlink()
    assert "exists already" in said("snapshot", folder / "c", folder / "copy", code=2)


def test_a_snapshot_that_was_killed_before_its_last_step(folder: Path) -> None:
    said("snapshot", folder / "c", folder / "copy")
    mark = folder / "copy" / "unfinished"
    mark.touch()
    Cluster.restore(folder / "copy", folder / "restored")
    assert not (folder / "restored" / "unfinished").exists()
    assert "exists already" in said("snapshot", another(folder), folder / "copy", code=2)
    assert mark.exists()
    with Cluster.open(folder / "c") as cluster:
        cluster.snapshot(folder / "copy")
        assert not mark.exists()
        with pytest.raises(ClusterError, match="exists already"):
            cluster.snapshot(folder / "copy")
    mark.touch()
    assert "Nothing to do" in said("snapshot", folder / "c", folder / "copy")
    assert not mark.exists()


def test_a_restored_cluster(folder: Path) -> None:
    said("snapshot", folder / "c", folder / "copy")
    assert "restored from" in said("restore", folder / "copy", folder / "d")
    said("snapshot", folder / "c", folder / "later")
    for _ in range(2):
        assert "Nothing to do" in said("restore", folder / "copy", folder / "d")
        with Cluster.open(folder / "d") as cluster:  # what it has stored since changes nothing
            cluster.ingest(range(20, 30), X[20:30], Y[20:30])
    assert "exists already" in said("restore", folder / "later", folder / "d", code=2)
    assert "exists already" in said("restore", folder / "copy", folder / "c", code=2)
    with pytest.raises(ClusterError, match="exists already"):
        Cluster.restore(folder / "copy", folder / "d")


def test_a_copy_of_a_restored_cluster_is_not_the_snapshot(folder: Path) -> None:
    """It may have stored more since."""
    said("snapshot", folder / "c", folder / "copy")
    said("restore", folder / "copy", folder / "d")
    said("restore", folder / "d", folder / "e")
    assert "exists already" in said("restore", folder / "copy", folder / "e", code=2)
    assert "exists already" in said("restore", folder / "d", folder / "e", code=2)
    said("snapshot", folder / "d", folder / "copy of d")
    assert Config.read(folder / "copy of d").source == ""
    assert len({Config.read(folder / name).id for name in "cde"}) == 3
