"""`hashstream cluster`, and `hashstream table` on a cluster's folder: the answers of one table, and sentences."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.scale.local_engine import LocalEngine
from typer.testing import CliRunner

from hashstream import HashTable, PosteriorHash, cli, save
from hashstream.scale import Cluster

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)
RUNNING = ("--address", "auto")  # the Ray of the tests: shards go on from one command to the next


def run(*arguments: Any, code: int = 0) -> str:
    """What a command says, as one line of words."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return " ".join((result.stderr if code else result.output).split())


def cluster(command: str, *arguments: Any, code: int = 0) -> str:
    return run("cluster", command, *arguments, *RUNNING, code=code)


def answers(name: str, *more: Any) -> list[dict[str, Any]]:
    said = CliRunner().invoke(cli.app, [*map(str, (name, "search", *more)), "--json"])
    assert said.exit_code == 0, said.output
    return [json.loads(line) for line in said.output.splitlines()]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A current folder with two files of rows, and queries."""
    folder, before = tmp_path_factory.mktemp("cluster"), Path.cwd()
    os.chdir(folder)
    for name, rows in (("a", slice(0, 600)), ("b", slice(600, 1200)), ("queries", slice(1200, 1220))):
        np.savez(f"{name}.npz", x=X[rows], y=Y[rows], ids=np.arange(rows.start, rows.stop))
    yield folder
    os.chdir(before)


@pytest.mark.usefixtures("engine")
def test_a_cluster_from_its_creation_to_its_end(here: Path) -> None:
    said = cluster("create", "c", "--shards", 2, "--bits", 32, "--method", "FCOH")
    assert said == "c: an empty cluster, 2 shards, FCOH, 32 bits."
    assert cluster("create", "c", "--shards", 2, "--bits", 32, "--method", "FCOH") == said  # given again
    assert "created with FCOH" in cluster("create", "c", "--bits", 16, code=2)

    # Fed, and fed again: what one table has that ingested the same files.
    said = cluster("feed", "c", "a.npz", "b.npz", "--batch", 300)
    assert "2 files with 1,200 rows" in said
    assert "c has 1,200 items in 2 shards; all codes are current." in said
    assert "0 files with 0 rows" in (said := cluster("feed", "c", "a.npz", "b.npz", "--batch", 300))
    assert "2 skipped as fed before" in said
    run("table", "create", "t", "--bits", 32, "--method", "FCOH", "--policy", "never")
    run("table", "ingest", "t", "a.npz", "b.npz", "--batch", 300, "--refresh")
    options = ("queries.npz", "-k", 5, "--where", '{"label": {"$ne": 3}}')
    assert answers("cluster", "c", *options, *RUNNING) == answers("table", "t", *options)
    assert answers("table", "c", *options, *RUNNING) == answers("table", "t", *options)
    radius = ("queries.npz", "--radius", 4)
    assert answers("cluster", "c", *radius, *RUNNING) == answers("table", "t", *radius)

    # Labels, by the same command for both.
    for name, more in (("c", RUNNING), ("t", ())):
        assert run("table", "label", name, "17=3", "18=3", *more) == "2 items have a new label."
        run("table", "refresh", name, *more)
    with HashTable.open("t", mode="read") as table, Cluster.open("c", address="auto") as opened:
        assert opened.digest() == table.digest()
    assert "not in the table: 9999. Nothing was labelled" in cluster("label", "c", "9999=3", code=2)
    assert run("cluster", "count", "c", *RUNNING) == "1200"
    assert '"label": 3' in run("table", "show", "c", 17, "--json", *RUNNING)

    page = cluster("stats", "c")
    assert "cluster c" in page
    assert "2 shards; functions published every 100 batches, policy lazy, durability full" in page
    facts = json.loads(CliRunner().invoke(cli.app, ["cluster", "stats", "c", "--json", *RUNNING]).output)
    assert [facts["n_items"], sum(one["n_items"] for one in facts["shards"])] == [1200, 1200]

    # Functions that were learned elsewhere.
    with HashTable.open("t", mode="read") as table:
        learned = table.hasher.partial_fit(X[1200:], Y[1200:])
    save(learned, "model.safetensors")
    for _ in range(2):  # given again
        said = cluster("adopt", "c", "model.safetensors")
        told = f"1,200 of 1,200 items are encoded with the current functions, version {learned.version_}"
        assert told in said
    assert "OK: checksums" in cluster("check", "c")

    # An export, as one table.
    assert "1,200 items in 2 Parquet files" in cluster("export", "c", "parquet")
    run("table", "import", "parquet", "imported")
    with HashTable.open("imported", mode="read") as table, Cluster.open("c", address="auto") as opened:
        assert opened.digest() == table.digest()

    # A copy, one shard lost, what a search says then, and its restoration.
    assert "Copied to copy" in cluster("snapshot", "c", "copy")
    with Cluster.open("c", address="auto") as opened:
        digest, pid = opened.digest(), opened.shard_pids()[1]
    shutil.move("c/shards/0001", "gone")
    os.kill(pid, signal.SIGKILL)
    assert "shard 1 is missing" in cluster("search", "c", "queries.npz", code=2)
    said = cluster("search", "c", "queries.npz", "--partial")
    assert "% of the items were not searched: their shards did not answer." in said
    assert 0.4 < answers("cluster", "c", "queries.npz", "--partial", *RUNNING)[0]["missing"] < 0.6
    assert "is restored. Nothing was fed since" in cluster("restore", "copy", "c", "--shard", 1)
    with Cluster.open("c", address="auto") as opened:
        assert opened.digest() == digest
    assert cluster("stop", "c") == "c: stopped. All that was stored is in its folder."

    assert "restored from copy" in run("cluster", "restore", "copy", "d")
    with Cluster.open("d", engine=LocalEngine()) as opened:  # in this process: Ray has had its part
        assert opened.digest() == digest
    assert "d was restored from copy already" in run("cluster", "restore", "copy", "d")


@pytest.mark.usefixtures("engine")
def test_a_snapshot_that_was_interrupted_is_begun_again(here: Path) -> None:
    with Cluster.open("s", PosteriorHash(8), shards=1) as opened:
        opened.ingest(range(50), X[:50], Y[:50])
        Path("half").mkdir()
        Path("half/unfinished").touch()
        shutil.copytree("s/learner", "half/learner")  # older than the feed log would be
        opened.ingest(range(50, 90), X[50:90], Y[50:90])
        told: list[tuple[int, int]] = []
        opened.snapshot("half", progress=lambda done, total: told.append((done, total)))
        assert told == [(1, 2), (2, 2)]
        with HashTable.open("half/learner", mode="read") as learner:
            assert len(learner) == 90
        assert not Path("half/unfinished").exists()
        with pytest.raises(RuntimeError, match="exists already"):
            opened.snapshot("half")


def test_folders_of_the_other_kind(here: Path) -> None:
    HashTable.open("table", PosteriorHash(8)).close()
    Path("other").mkdir()
    assert "table is a table, not a cluster: use `hashstream table`" in run(
        "cluster", "feed", "table", "a.npz", code=2
    )
    assert "choose another folder" in run("cluster", "create", "table", code=2)
    assert "nowhere does not exist: create one with `hashstream cluster create nowhere`" in run(
        "cluster", "adopt", "nowhere", save_model(), code=2
    )
    assert "other is not a cluster" in run("cluster", "feed", "other", "a.npz", code=2)
    assert "cluster create nowhere" in run("cluster", "search", "nowhere", "queries.npz", code=2)
    assert "--address is for clusters" in run("table", "count", "table", *RUNNING, code=2)
    assert "--partial is for clusters" in run("table", "search", "table", "queries.npz", "--partial", code=2)
    assert "give the --address" in run("cluster", "stop", "table", code=2)
    Path("fake").mkdir()
    Path("fake/cluster.json").write_text("{}")
    told = "fake is a cluster, not a table: fill it with `hashstream cluster feed fake FILE`"
    assert told in run("table", "ingest", "fake", "a.npz", code=2)
    assert told in run("table", "create", "fake", code=2)


def save_model() -> str:
    save(PosteriorHash(8).partial_fit(X[:100], Y[:100]), "small.safetensors")
    return "small.safetensors"


def test_without_ray(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    said = run("cluster", "create", "new", code=2)
    assert said == "hashstream: ray is not installed: pip install 'hashstream[ray]'"


def test_messages_of_the_engine_do_not_reach_the_terminal() -> None:
    script = """
import os, sys
from hashstream.cli.quiet import engine_hushed
with engine_hushed():
    os.write(2, b"from C++")
    os.system("echo from a child >&2")
    print("ours", file=sys.stderr)
print("after", file=sys.stderr)
os.write(2, b"at last")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert done.stderr == "ours\nafter\nat last"


@pytest.mark.parametrize(
    "command", ["create", "feed", "search", "adopt", "snapshot", "restore", "check", "stop"]
)
def test_every_command_has_an_example(command: str) -> None:
    assert f"Example: hashstream {'train' if command == 'adopt' else 'cluster'}" in run(
        "cluster", command, "--help"
    )
