"""One process writes, any number of others read: who may open a folder, and what they see of each other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.table.crash_child import World
from tests.table.process_child import observe
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never, TableError, TableLocked
from hashstream.table.storage.folder import failpoints

ROOT = Path(__file__).parents[2]
HASHER = hs.FCOH(n_bits=20, random_state=3, batch_size=8)
PATHS = os.pathsep.join(
    [str(Path(hs.__file__).parents[1]), str(ROOT)]
)  # the children's package is this one's
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": PATHS}

HOLDER = """
import sys
import hashstream as hs
from hashstream.table import HashTable
from tests.table.table_worlds import rows
import numpy as np

table = HashTable.open(sys.argv[1], hs.FCOH(n_bits=20, random_state=3, batch_size=8))
table.ingest(range(30), *rows(np.random.default_rng(0), 30))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_told_who_writes_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd=ROOT,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(TableLocked) as refused:
            HashTable.open(path)
        said = str(refused.value)
        assert f"process {holder.pid} on {socket.gethostname()}, since 20" in said
        assert str(path) in said
        assert 'mode="read"' in said
        with HashTable.open(path, mode="read") as reader:
            assert len(reader) == 30
        holder.kill()
    with HashTable.open(path) as table:  # its lock died with it
        assert len(table) == 30
        table.remove([3])
        with pytest.raises(TableLocked, match=f"process {os.getpid()} on"):
            HashTable.open(path)


def test_a_lock_file_that_says_nothing_still_locks(tmp_path: Path) -> None:
    with HashTable.open(tmp_path / "t", HASHER):
        (tmp_path / "t" / "lock").write_bytes(b"\xff{")
        with pytest.raises(TableLocked, match="open for writing by another process"):
            HashTable.open(tmp_path / "t")
    HashTable.open(tmp_path / "t").close()


def test_two_who_create_a_folder_at_once(tmp_path: Path) -> None:
    """The second is refused while the first is at it: it would put a database in the place of the other's."""
    refused = []

    def second() -> None:
        with pytest.raises(TableLocked) as error:
            HashTable.open(tmp_path / "t", HASHER)
        refused.append(str(error.value))

    with (
        failpoints.on("create.before", second),
        failpoints.on("create.after", second),
        HashTable.open(tmp_path / "t", HASHER) as table,
    ):
        table.ingest(range(30), *rows(np.random.default_rng(0), 30))
    assert len(refused) == 2
    with HashTable.open(tmp_path / "t") as table:
        assert len(table) == 30


def test_readers_need_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="not a table"):
        HashTable.open(tmp_path / "t", mode="read")
    assert not (tmp_path / "t").exists()


def test_a_reader_whose_folder_was_compacted_answers_of_one_commit(tmp_path: Path) -> None:
    """Slots have other numbers then: it must not pair an item's id with another item's label."""
    rng = np.random.default_rng(4)
    with HashTable.open(tmp_path / "t", HASHER, policy=Never(), segment_bytes=1000) as table:
        for i in range(5):
            X = rows(rng, 20)[0]
            table.ingest([f"{i}-{j}" for j in range(20)], X, [f"{i}-{j}" for j in range(20)])
        reader = HashTable.open(tmp_path / "t", mode="read")
        held = table.get([f"4-{j}" for j in range(20)])
        table.remove([f"{i}-{j}" for i in range(4) for j in range(0, 20, 3)])
        table.compact()
        table.ingest(["new"], X[:1], ["new"])
        assert len(reader) == 100  # not yet
        found = reader.get([f"4-{j}" for j in range(20)])
        assert found.labels == held.labels == [f"4-{j}" for j in range(20)]
        assert found.features is not None
        assert found.features.tolist() == held.features.tolist()  # type: ignore[union-attr]
        assert len(reader) == len(table)  # it had to read again
        assert reader.check()["rows"] == len(table)
        table.remove(["4-1"])
        table.compact()
        assert reader.check()["rows"] == len(table)
        table.remove(["4-2"])
        table.compact()
        reader.snapshot(tmp_path / "copy")
        with HashTable.open(tmp_path / "copy") as copy:
            assert len(copy) == len(table)
        reader.close()


def test_all_items_can_go_and_the_folder_be_compacted(tmp_path: Path) -> None:
    X, y = rows(np.random.default_rng(4), 30)
    with HashTable.open(tmp_path / "t", HASHER) as table:
        table.ingest(range(30), X, y)
        table.remove(range(30))
        reader = HashTable.open(tmp_path / "t", mode="read")
        assert table.compact() == 30
        assert reader.reload()
        assert len(reader) == 0
        reader.close()
    with HashTable.open(tmp_path / "t") as table:
        assert table.check() == {"batches": 0, "rows": 0, "codes": 0}
        assert table.search(X[:2], 3)[0].shape == (2, 0)
        table.ingest(range(30), X, y)
    with HashTable.open(tmp_path / "t") as table:
        assert table.check()["rows"] == 30


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.parametrize("seed", [8])
def test_readers_see_one_committed_state_each_time(tmp_path: Path, seed: int) -> None:
    """Two readers while a writer ingests, removes, refreshes and compacts: each observation is the state after some
    commit of the writer, copies too, and none is older than the one before."""
    world, states = World(seed), {}
    with world.open(tmp_path / "alone", durability="fast", segment_bytes=1 << 30) as table:
        for operation in [None, *world.operations]:
            if operation is not None:
                table = world.apply(table, operation, None)[0]
            seen = observe(table, world.queries)
            assert seen is not None
            states[seen[0]] = seen[1]
    (tmp_path / "watched").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.table.process_child", str(seed), str(tmp_path / "watched" / "t"), "2"],
        env=ENVIRONMENT,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if not line.startswith("error")]
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in said]
    observations = [line["seen"] for line in lines if "seen" in line]
    copies = [line["copied"] for line in lines if "copied" in line]
    assert {line["commits"] for line in lines if "commits" in line} == {max(states)}
    assert len(observations) >= 24
    assert len({commits for commits, _ in observations}) > 4, "the readers have seen too little of the writer"
    assert max(commits for commits, _ in observations) == max(states)
    for commits, digest in observations + copies:
        assert states[commits] == digest, f"after {commits} commits"
