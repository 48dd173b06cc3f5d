"""Wrong input of `hashstream cluster`, `train` and `milvus`: a sentence, before any work is done."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hashstream import HashTable, RidgeHash, cli

X, Y = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32), np.arange(50) % 3


@pytest.fixture(name="room", autouse=True)
def a_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("ok.npz", X=X, y=Y)
    Path("empty.csv").touch()
    Path("bad.npz").write_text("nonsense")
    Path("folder").mkdir()
    Path("fake").mkdir()
    Path("fake/cluster.json").write_text("[]")
    with HashTable.open("t", RidgeHash(8, random_state=0)) as table:
        table.ingest(range(50), X, Y)


SERVER = ["--uri", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["train", "folder", "--out", "m"], "folder is a folder, not a file"),
        (["train", "none.npz", "--out", "m"], "there is no file"),
        (["train", "empty.csv", "--out", "m"], "is empty"),
        (["train", "ok.npz", "--label", "no", "--out", "m"], "has no array 'no'"),
        (["train", "ok.npz", "--out", "m", "--work", "bad.npz"], "--work bad.npz is a file: name a folder"),
        (["cluster", "feed", "none", "ok.npz"], "none does not exist"),
        (["cluster", "feed", "t", "ok.npz"], "t is a table, not a cluster"),
        (["cluster", "feed", "fake", "ok.npz"], "cluster.json does not describe a cluster"),
        (["cluster", "adopt", "t", "none"], "there is no file none"),
        (["cluster", "adopt", "t", "bad.npz"], "is not a saved hasher"),
        (["cluster", "restore", "t", "new"], "is not a snapshot of a cluster"),
        (["cluster", "create", "t"], "t is a table"),
        (["milvus", "export", "none", "n", *SERVER], "none does not exist"),
        (["milvus", "export", "t", "a b", *SERVER], "name must be letters"),
        (["milvus", "search", "n", "none.npz", *SERVER], "there is no file"),
        (["milvus", "search", "n", "ok.npz", "--out", "x.txt", *SERVER], "must be .csv or .npz"),
    ],
)
def test_a_mistake_is_said(command: list[str], said: str) -> None:
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 2, (result.output, result.exception)
    assert "".join(said.split()) in "".join(result.stderr.split())  # lines are broken anywhere
    assert "Traceback" not in result.output
    assert "Errno" not in result.output
    assert not Path("m").exists()
