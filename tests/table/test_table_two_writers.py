"""Two processes never write one table, whatever forks, copies in a child and removed lock files do."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import Every, HashTable, Lazy, TableError, TableLocked
from hashstream.table.storage.folder import failpoints
from hashstream.table.storage.folder.lock import WriterLock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

ROOT = Path(__file__).parents[2]
X, Y = rows(np.random.default_rng(0), 400)

CALLS: dict[str, Callable[[HashTable, Path], Any]] = {
    "ingest": lambda table, _: table.ingest(range(100, 200), X[100:200], Y[100:200]),
    "add": lambda table, _: table.add(range(100, 200), X[100:200]),
    "remove": lambda table, _: table.remove([3]),
    "refresh": lambda table, _: table.refresh(),
    "compact": lambda table, _: table.compact(),
    "flush": lambda table, _: table.flush(),
    "get": lambda table, _: table.get([3]),
    "in": lambda table, _: 3 in table,
    "check": lambda table, _: table.check(),
    "stats": lambda table, _: table.stats(),
    "snapshot": lambda table, path: table.snapshot(path / "copy"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def opened(path: Path, **settings: Any) -> HashTable:
    table = HashTable.open(path, hs.FCOH(n_bits=20, random_state=0), **settings)
    table.ingest(range(100), X[:100], Y[:100])
    return table


def in_fork(work: Callable[[], Any]) -> str:
    """What `work` returned, or the error that it raised, in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            try:
                said = f"returned {work()}"
            except TableError as error:
                said = f"TableError {error}"
            except BaseException as error:
                said = f"{type(error).__name__} {error}"
            os.write(writing, said.encode())
            os.close(writing)
        finally:
            os._exit(0)
    os.close(writing)
    said = b""
    while piece := os.read(reading, 1 << 16):
        said += piece
    os.close(reading)
    os.waitpid(child, 0)
    return said.decode()


def is_whole(path: Path, ids: list[int]) -> None:
    """The folder opens, holds just these items with their features, is sound, and takes more."""
    with HashTable.open(path) as table:
        assert sorted(table.get(ids).ids.tolist()) == ids
        assert len(table) == len(ids)
        features = table.get(ids).features
        assert features is not None
        assert features.tobytes() == X[ids].tobytes()
        assert table.check()["codes"] == len(ids)
        table.ingest(range(390, 400), X[390:], Y[390:])


@pytest.mark.parametrize(
    ("call", "policy"), [*((call, Every(100)) for call in CALLS), ("ingest", Lazy()), ("refresh", Lazy())]
)
def test_a_fork_is_refused_and_the_parent_goes_on(path: Path, tmp_path: Path, call: str, policy: Any) -> None:
    table = opened(path, policy=policy)
    said = in_fork(lambda: CALLS[call](table, tmp_path))
    assert said.startswith("TableError")
    assert f"opened by process {os.getpid()}" in said
    assert "fork before it is opened" in said
    assert not (tmp_path / "copy").exists()
    table.ingest(range(200, 300), X[200:300], Y[200:300])
    table.close()
    is_whole(path, [*range(100), *range(200, 300)])


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_fork_may_search_and_not_open_the_folder_again(path: Path, mode: str) -> None:
    """SQLite would take the parent's locks for its own; a process that is started afresh has no such past."""
    table = opened(path)
    far, ids = table.search(X[:5], 3)

    def work() -> Any:
        found = table.search(X[:5], 3)
        with pytest.raises(TableError, match="was open when this process was forked"):
            HashTable.open(path, mode=mode)
        return [bool((a == b).all()) for a, b in zip(found, (far, ids), strict=True)]

    assert in_fork(work) == "returned [True, True]"
    table.close()
    assert in_fork(lambda: HashTable.open(path, mode=mode).close()) == "returned None"  # it is not open now


def test_a_fork_searches_while_a_thread_that_it_does_not_have_searches(path: Path) -> None:
    """No lock of Python's own is in the way: `functools.cached_property` has one."""
    with opened(path) as table:
        for name in ("versions", "searchable", "products"):
            assert not hasattr(type(table._state.view).__dict__[name], "lock")


def test_a_fork_does_not_wait_for_a_thread_that_it_does_not_have(path: Path) -> None:
    """Which held the lock when the process was forked."""
    table = opened(path)
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with table._lock, table._publish, table._storage._reading:  # type: ignore[attr-defined]
            held.set()
            go_on.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    for call in CALLS:
        said = in_fork(lambda call=call: CALLS[call](table, path.parent))
        assert said.startswith("TableError")
    assert in_fork(lambda: (table.search(X[:2], 1)[0].shape, table.close())) == "returned ((2, 1), None)"
    go_on.set()
    thread.join()
    table.close()


def test_a_fork_has_a_copy_of_its_own_of_a_table_in_memory() -> None:
    table = HashTable.open(None, hs.FCOH(n_bits=20, random_state=0), policy=Lazy())
    table.ingest(range(100), X[:100], Y[:100])

    def work() -> Any:
        table.ingest(range(100, 200), X[100:200], Y[100:200])
        found = len(table), table.get([150]).labels == [int(Y[150])], table.search(X[:2], 1)[0].shape
        table.close()
        return found

    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with table._lock, table._publish:
            held.set()
            go_on.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert in_fork(work) == "returned (200, True, (2, 1))"
    table._at_work = True  # as while a thread changes it
    assert "its outcome is unknown" in in_fork(work)
    table._at_work = False
    go_on.set()
    thread.join()
    assert len(table) == 100
    table.close()


SECOND = """
import sys
from hashstream.table import HashTable, TableLocked
try:
    HashTable.open(sys.argv[1]).close()
    print("let in")
except TableLocked as error:
    print("locked", error)
"""


def second_writer(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SECOND, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


@pytest.mark.parametrize("policy", [Every(100), Lazy()], ids=["Every", "Lazy"])
def test_a_fork_that_closes_its_copy_leaves_the_lock_to_the_parent(path: Path, policy: Any) -> None:
    table = opened(path, policy=policy)
    assert in_fork(lambda: (table.search(X[:2], 1)[0].shape, table.close())) == "returned ((2, 1), None)"
    said = second_writer(path)
    assert said.startswith("locked")
    assert f"process {os.getpid()} " in said
    table.ingest(range(200, 300), X[200:300], Y[200:300])
    table.close()
    is_whole(path, [*range(100), *range(200, 300)])


def test_a_fork_that_ends_as_programs_do_leaves_the_database_to_the_parent(path: Path) -> None:
    """Python collects what is left when it ends, and SQLite would close a connection that is not this process's."""
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import numpy as np, hashstream as hs
from tests.table.table_worlds import rows
X, Y = rows(np.random.default_rng(0), 400)
table = hs.HashTable.open({str(path)!r}, hs.FCOH(n_bits=20, random_state=0))
table.ingest(range(100), X[:100], Y[:100])
if not os.fork():
    del table
    sys.exit()
os.wait()
table.ingest(range(100, 200), X[100:200], Y[100:200])
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    is_whole(path, list(range(200)))


def test_a_fork_that_outlives_its_parent_does_not_hold_the_lock(path: Path) -> None:
    code = f"""
import os, sys, time
import numpy as np, hashstream as hs
table = hs.HashTable.open({str(path)!r}, hs.FCOH(n_bits=20, random_state=0))
child = os.fork()
if not child:
    time.sleep(30)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait()
        try:
            os.kill(child, 0)  # it lives
            assert second_writer(path) == "let in\n"
            os.kill(child, 0)
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_a_table_is_not_sent_to_another_process(path: Path) -> None:
    with opened(path) as table:
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TableError, match="cannot be copied or sent to another process"):
                way(table)
        assert len(table) == 100


# ---- the lock's file is removed, as people do who read that a folder is locked


def test_a_removed_lock_file_does_not_let_a_second_writer_in(path: Path) -> None:
    table = opened(path)
    (path / "lock").unlink()
    with pytest.raises(TableLocked, match="is open for writing"):
        HashTable.open(path)
    assert second_writer(path).startswith("locked")
    table.ingest(range(200, 300), X[200:300], Y[200:300])
    table.close()
    is_whole(path, [*range(100), *range(200, 300)])


@pytest.fixture
def no_folder_lock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a file system that cannot lock a folder."""
    monkeypatch.setattr(WriterLock, "_lock_folder", lambda *_: None)
    return


WRITES = ["ingest", "add", "remove", "refresh", "compact", "flush"]


@pytest.mark.usefixtures("no_folder_lock")
@pytest.mark.parametrize("call", WRITES)
def test_where_both_locks_fail_the_database_tells(path: Path, tmp_path: Path, call: str) -> None:
    """The one who opened first is told, and touches nothing of what the other has stored."""
    first = opened(path, checkpoint_rows=1 << 30)
    first.ingest(range(100, 150), X[100:150], Y[100:150])
    first.remove([149])  # something to compact
    (path / "lock").unlink()
    with HashTable.open(path) as second:
        second.ingest(range(200, 300), X[200:300], Y[200:300])
    before = {one.name: one.read_bytes() for one in path.glob("*.seg")}
    for _ in range(2):
        with pytest.raises(TableError, match="another process has written to"):
            CALLS[call](first, tmp_path)
    assert {one.name: one.read_bytes() for one in path.glob("*.seg")} == before
    first.close()
    assert {one.name: one.read_bytes() for one in path.glob("*.seg")} == before
    is_whole(path, [*range(149), *range(200, 300)])


@pytest.mark.usefixtures("no_folder_lock")
def test_a_compaction_does_not_overwrite_the_segment_of_another_writer(path: Path) -> None:
    first = opened(path, segment_bytes=1000)
    first.remove([3])
    (path / "lock").unlink()
    with HashTable.open(path, segment_bytes=1000) as second:
        second.ingest(
            range(200, 300), X[200:300], Y[200:300]
        )  # in a file that the first would call its next one
    with pytest.raises(TableError, match=r"File exists|another process has written"):
        first.compact()
    first.close()
    is_whole(path, [0, 1, 2, *range(4, 100), *range(200, 300)])


@pytest.mark.usefixtures("no_folder_lock")
def test_a_compaction_whose_files_another_writer_deletes_changes_nothing(path: Path) -> None:
    """One that opens the folder takes what is not committed yet for left over from a crash."""
    first = opened(path)
    first.remove([3])
    (path / "lock").unlink()
    with (
        failpoints.on("compact.written", lambda: HashTable.open(path).close()),
        pytest.raises(TableError, match=r"is missing|another process has written"),
    ):
        first.compact()
    first.close()
    is_whole(path, [0, 1, 2, *range(4, 100)])


@pytest.mark.usefixtures("no_folder_lock")
def test_two_writers_at_once_lose_nothing_that_was_acknowledged(path: Path) -> None:
    """Both write as fast as they can for a while; every call that returned is there."""
    opened(path).close()
    children = []
    for number in (1, 2):
        child = os.fork()
        if not child:
            try:
                (path / "lock").unlink(missing_ok=True)
                with open(path.parent / f"told-{number}", "w") as told:
                    table, end, at = None, time.monotonic() + 2, 1000 * number
                    while time.monotonic() < end:
                        try:
                            table = table or HashTable.open(path, durability="fast")
                            table.ingest([at], X[at % 400][None], Y[at % 400][None])
                        except TableError:
                            (path / "lock").unlink(missing_ok=True)
                            if table is not None:
                                table.close()
                            table = None
                            continue
                        told.write(f"{at}\n")
                        told.flush()
                        at += 1
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    told = [int(line) for number in (1, 2) for line in (path.parent / f"told-{number}").read_text().split()]
    assert len(told) > 20
    with HashTable.open(path) as table:
        features = table.get(told).features
        assert features is not None
        assert features.tobytes() == X[np.array(told) % 400].tobytes()
        table.check()
