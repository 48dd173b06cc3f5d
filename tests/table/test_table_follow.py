"""Readers that follow a writer by themselves, and readers that are there before the table is."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.follow_child import HASHER, Writer, batch

from hashstream.table import HashTable, Never, TableError, following
from hashstream.table.following import Follower
from hashstream.table.storage.folder import failpoints
from hashstream.table.storage.folder.load import Loader

LONG = 3600.0  # a bound that no test reaches
Q = batch(0)[1][:3]

ANSWERS: dict[str, Callable[[HashTable], Any]] = {
    "len": len,
    "in": lambda table: 20 in table,
    "get": lambda table: table.get([20]).labels,
    "ids": lambda table: table.ids().tolist(),
    "iter": list,
    "search": lambda table: table.search(Q, 1000).ids.tolist(),
    "search with labels": lambda table: table.search(Q, 1000, include=("labels",)).ids.tolist(),
    "search_radius": lambda table: table.search_radius(Q, 20).ids.tolist(),
    "stats": lambda table: table.stats().commits,
    "hasher": lambda table: table.hasher.n_seen_,
}


def writing(path: Path, **options: Any) -> HashTable:
    return HashTable.open(path, HASHER, policy=Never(), **options)


def following_reader(path: Path, max_staleness: float = LONG, **options: Any) -> HashTable:
    return HashTable.open(path, mode="read", follow=True, max_staleness=max_staleness, **options)


def settled(done: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def follower_of(table: HashTable) -> Follower:
    assert table._follower is not None
    return table._follower


def shown(table: HashTable) -> int:
    """The commit that the table shows, without asking it: that would make it look."""
    return table._state.seq


def threads() -> int:
    return sum(one.name == "hashstream-follow" for one in threading.enumerate())


def forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking while there are threads
        return os.fork()


# ---- a writer in another process


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_every_acknowledged_commit_is_seen_within_the_bound(tmp_path: Path, durability: str) -> None:
    bound = 0.1
    with Writer(tmp_path / "t", durability) as writer:
        writer("open")
        with following_reader(tmp_path / "t", bound) as reader:
            for i in range(8):
                commits = writer("ingest", 20 * i)
                time.sleep(bound)  # not longer: the call looks by itself where the thread was late
                assert reader.stats().commits >= commits
                assert len(reader) == 20 * i + 20
                assert reader.get([20 * i]).labels == batch(20 * i)[2][:1].tolist()
            writer("remove", [3, 4])
            time.sleep(bound)
            assert 3 not in reader
            writer("refresh")
            time.sleep(bound)
            assert reader.stats().stale == 0
            assert len(reader.search(Q, 1000).ids[0]) == 158


def test_the_thread_sees_commits_by_itself(tmp_path: Path) -> None:
    with Writer(tmp_path / "t") as writer:
        writer("open")
        with following_reader(tmp_path / "t", 0.5) as reader:
            for i in range(3):
                commits = writer("ingest", 20 * i)
                assert settled(lambda commits=commits: shown(reader) == commits)  # type: ignore[misc]
            # As it is kept up to date, a search only reads the clock, however long it was not asked.
            for _ in range(20):
                time.sleep(0.05)
                assert settled(lambda: time.monotonic() < follower_of(reader).fresh_until)


def test_the_writer_compacts_meanwhile(tmp_path: Path) -> None:
    """Files that the reader has open are deleted, and slots get other numbers."""
    with Writer(tmp_path / "t") as writer:
        writer("ingest", 0)
        with following_reader(tmp_path / "t", 0.02) as reader:
            gone: set[int] = set()
            for i in range(1, 12):
                writer.ask("ingest", 20 * i)
                writer.ask("remove", [20 * i + 1, 20 * i - 9])
                writer.ask("compact")
                gone |= {20 * i + 1, 20 * i - 9}
                for _ in range(5):  # while it does so
                    ids, X, y = batch(20 * i - 20)
                    kept = [j for j in range(20) if ids[j] % 20 not in (1, 11)]
                    found = reader.get(ids[kept])
                    assert found.labels == y[kept].tolist()
                    assert found.features is not None
                    assert found.features.tobytes() == X[kept].tobytes()
                commits = [writer.read() for _ in range(3)][-1]
                time.sleep(0.02)
                assert reader.stats().commits == commits
                assert set(reader) == set(range(20 * i + 20)) - gone
            assert reader.check()["rows"] == len(reader)
            assert follower_of(reader).error is None


def test_the_writer_is_killed_and_another_goes_on(tmp_path: Path) -> None:
    with Writer(tmp_path / "t") as writer:
        writer("ingest", 0)
        reader = following_reader(tmp_path / "t", 0.02)
        writer("ingest", 20)
        writer.ask("ingest", 40)  # it may be stored or not
    time.sleep(0.1)
    assert len(reader) in (40, 60)
    assert reader.stats().background_error is None
    with Writer(tmp_path / "t") as writer:
        commits = writer("ingest", 60)
        time.sleep(0.02)
        assert reader.stats().commits == commits
        assert writer("close") == -1
    time.sleep(0.1)
    assert len(reader.search(Q, 1000).ids[0]) == len(reader) in (60, 80)
    reader.close()
    with writing(tmp_path / "t") as table:
        table.check()


# ---- the bound


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_call_looks_by_itself_where_the_thread_is_late(tmp_path: Path, answer: str) -> None:
    ask = ANSWERS[answer]
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
        with following_reader(tmp_path / "t", 0.05) as reader:
            follower_of(reader).stop()
            table.ingest(*batch(20))
            time.sleep(0.05)
            assert ask(reader) == ask(table)
            assert shown(reader) == 2


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_call_within_the_bound_does_not_look(tmp_path: Path, answer: str) -> None:
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
        table.ingest(*batch(20))
        with following_reader(tmp_path / "t") as reader:
            assert settled(lambda: follower_of(reader).fresh_until > 0)
            table.ingest(*batch(40))
            ANSWERS[answer](reader)
            assert shown(reader) == 2
            assert reader.reload() or shown(reader) == 3  # the thread may be first
            assert shown(reader) == 3


def test_threads_that_are_late_together_look_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
        with following_reader(tmp_path / "t", 30) as reader:
            follower = follower_of(reader)
            follower.stop()
            looks: list[int] = []
            reload = reader._storage.reload
            monkeypatch.setattr(reader._storage, "reload", lambda state: [looks.append(1), reload(state)][1])
            with reader._lock:
                follower.fresh_until = 0.0
                calls = [threading.Thread(target=len, args=(reader,)) for _ in range(6)]
                for call in calls:
                    call.start()
                time.sleep(0.05)
            for call in calls:
                call.join(20)
            assert len(looks) == 1


def test_the_shortest_bound_is_as_fresh_as_can_be(tmp_path: Path) -> None:
    with (
        writing(tmp_path / "t", durability="fast") as table,
        following_reader(tmp_path / "t", 1e-9) as reader,
    ):
        for i in range(30):
            table.ingest(*batch(20 * i))
            assert len(reader) == 20 * i + 20


# ---- failures


def test_a_folder_that_goes_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(following, "FIRST_PAUSE", 0.01)
    path, away = tmp_path / "t", tmp_path / "away"
    with writing(path) as table:
        table.ingest(*batch(0))
    with following_reader(path) as reader:
        follower = follower_of(reader)
        assert settled(lambda: follower.fresh_until > 0)
        path.rename(away)
        follower.wake()
        gone = "table.sqlite was deleted while the table was open"  # a look under way may name another file
        assert settled(lambda: gone in str(follower.error))
        assert len(reader) == 20  # within the bound
        assert reader.search(Q, 5).ids.shape == (3, 5)
        time.sleep(0.1)
        told = [
            one
            for one in caplog.records
            if one.getMessage().startswith("following failed") and gone in one.getMessage()
        ]
        assert [one.levelname for one in told] == ["WARNING"]  # once, though it was tried several times
        follower.fresh_until = 0.0
        for ask in ANSWERS.values():
            with pytest.raises(TableError, match="was deleted while the table was open"):
                ask(reader)
        away.rename(path)
        assert len(reader) == 20  # at once
        assert settled(lambda: follower.error is None)
        assert follower.is_alive()
        with writing(path) as table:
            table.ingest(*batch(20))
            follower.wake()
            assert settled(lambda: shown(reader) == 2)


def test_an_error_of_the_thread_is_told_by_stats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
        with following_reader(tmp_path / "t") as reader:
            follower = follower_of(reader)
            assert settled(lambda: follower.fresh_until > 0)
            monkeypatch.setattr(following, "FIRST_PAUSE", 0.01)
            with monkeypatch.context() as patch:

                def damaged(*_: object) -> None:
                    raise TableError("a page is damaged")

                patch.setattr(Loader, "catch_up", damaged)
                table.ingest(*batch(20))
                follower.wake()
                assert settled(lambda: reader.stats().background_error == "a page is damaged")
                assert len(reader) == 20
                with pytest.raises(TableError, match="a page is damaged"):
                    reader.reload()
                follower.fresh_until = 0.0
                with pytest.raises(TableError, match="a page is damaged"):
                    reader.search(Q)
            assert settled(lambda: shown(reader) == 2)
            assert reader.stats().background_error is None


def test_pauses_grow_after_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing(tmp_path / "t").close()
    pauses: list[float] = []
    monkeypatch.setattr(Follower, "_pause", lambda _, seconds: (pauses.append(seconds), time.sleep(0.001)))
    with following_reader(tmp_path / "t", 0.1) as reader:
        assert settled(lambda: len(pauses) > 2)
        shutil.rmtree(tmp_path / "t")
        assert settled(lambda: pauses[-1] == following.LONGEST_PAUSE)
        grown = [one for one in pauses if one >= following.FIRST_PAUSE]
        assert grown[:4] == [0.1, 0.2, 0.4, 0.8]
        time.sleep(0.1)
        with pytest.raises(TableError, match="was deleted"):
            reader.search(Q)


# ---- threads, forks and interrupts


def test_close_stops_the_thread(tmp_path: Path) -> None:
    writing(tmp_path / "t").close()
    before = threads()
    reader = following_reader(tmp_path / "t")
    assert threads() == before + 1
    thread = follower_of(reader)._thread
    assert thread is not None
    assert thread.daemon
    reader.close()
    assert not thread.is_alive()
    reader.close()
    assert threads() == before
    assert len(reader) == 0  # of a closed table, it is known
    with pytest.raises(TableError, match="closed"):
        reader.search(Q)
    assert repr(reader).endswith("following, closed>")


def test_a_table_that_is_dropped_is_collected(tmp_path: Path) -> None:
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
    reader = following_reader(tmp_path / "t")
    follower, reference = follower_of(reader), weakref.ref(reader)
    thread = follower._thread
    assert thread is not None
    assert settled(lambda: follower.fresh_until > 0)
    del reader
    gc.collect()
    thread.join(20)
    gc.collect()
    assert not thread.is_alive()
    assert reference() is None


def test_a_table_that_is_dropped_after_an_error_is_collected(tmp_path: Path) -> None:
    writing(tmp_path / "t").close()
    reader = following_reader(tmp_path / "t")
    follower, reference = follower_of(reader), weakref.ref(reader)
    shutil.rmtree(tmp_path / "t")
    follower.wake()
    assert settled(lambda: follower.error is not None)
    del reader
    assert settled(lambda: gc.collect() >= 0 and reference() is None)
    assert settled(lambda: not follower.is_alive())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_does_not_follow(tmp_path: Path) -> None:
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
        with following_reader(tmp_path / "t", 30) as reader:
            assert settled(lambda: follower_of(reader).fresh_until > 0)
            reading, write_end = os.pipe()
            child = forked()
            if not child:
                said = []
                try:
                    faulthandler.dump_traceback_later(60, exit=True)
                    said.append(str(len(reader.search(Q, 1000).ids[0])))  # within the bound
                    follower_of(reader).fresh_until = 0.0
                    for ask in (len, lambda one: one.search(Q)):
                        try:
                            ask(reader)
                        except TableError as error:
                            said.append(str(error))
                    reader.close()
                    said.append("closed")
                finally:
                    os.write(write_end, "\n".join(said).encode())
                    os._exit(0)
            os.close(write_end)
            with os.fdopen(reading) as pipe:
                said = pipe.read().split("\n")
            os.waitpid(child, 0)
            assert said[0] == "20"
            assert said[1] == said[2]
            assert f"is followed by process {os.getpid()}, of which this one is a fork" in said[1]
            assert said[3:] == ["closed"]
            table.ingest(*batch(20))
            follower_of(reader).wake()
            assert settled(lambda: shown(reader) == 2)


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_open_stops_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
    begin, begun = Follower.start, []

    def then_interrupted(follower: Follower, table: HashTable) -> None:
        begin(follower, table)
        begun.append(follower)
        time.sleep(0.002 * len(begun))
        stop()

    for _ in range(4):
        with monkeypatch.context() as patch:
            patch.setattr(Follower, "start", then_interrupted)
            with pytest.raises(KeyboardInterrupt) as held:  # with what was on the stack
                following_reader(tmp_path / "t", 1e-3)
        assert settled(lambda: not begun[-1].is_alive())
        del held


def test_an_interrupted_look_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
        with following_reader(tmp_path / "t", 1e-9) as reader:
            follower_of(reader).stop()
            len(reader)
            table.ingest(*batch(20))
            with monkeypatch.context() as patch:
                patch.setattr(Loader, "catch_up", stop)
                with pytest.raises(KeyboardInterrupt):
                    reader.search(Q)
            assert len(reader) == 40
            assert reader.check()["rows"] == 40


def test_an_interrupted_close_is_called_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing(tmp_path / "t").close()
    for owner, name in ((Follower, "stop"), (HashTable, "_close_now")):
        reader = following_reader(tmp_path / "t", 1e-3)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, lambda *_, **__: stop())
            with pytest.raises(KeyboardInterrupt):
                reader.close()
        reader.close()
        assert not follower_of(reader).is_alive()


def test_closed_by_a_handler_while_the_thread_waits_for_the_lock(tmp_path: Path) -> None:
    """The thread waits for whoever is interrupted, and closing waits for the thread."""
    with writing(tmp_path / "t") as table:
        table.ingest(*batch(0))
    reader = following_reader(tmp_path / "t", 1e-3)
    faulthandler.dump_traceback_later(60, exit=True)
    with reader._lock:  # as `check` holds it when the signal comes
        time.sleep(0.05)
        reader.close()
    assert settled(lambda: not follower_of(reader).is_alive())
    faulthandler.cancel_dump_traceback_later()
    with pytest.raises(TableError, match="closed"):
        reader.search(Q)
    reader.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals by timer need POSIX")
def test_interrupts_by_a_timer(tmp_path: Path) -> None:
    """At any moment of any call, opening and closing among them, the reader is right afterwards, and nothing hangs."""
    child = forked()
    if not child:
        status = 1
        try:
            with open(tmp_path / "stacks", "w") as told:
                faulthandler.dump_traceback_later(100, exit=True, file=told)
                count = interrupt_again_and_again(tmp_path / "t")
                faulthandler.cancel_dump_traceback_later()
            (tmp_path / "interrupts").write_text(str(count))
            status = 0
        except BaseException as error:
            (tmp_path / "stacks").write_text(repr(error))
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, (tmp_path / "stacks").read_text()
    assert int((tmp_path / "interrupts").read_text()) > 20


def interrupt_again_and_again(path: Path) -> int:
    rng, count = np.random.default_rng(0), 0
    signal.signal(signal.SIGALRM, stop)

    def interrupted(call: Callable[[], Any], seconds: float) -> bool:
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                call()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            return True
        return False

    with writing(path, durability="fast") as table:
        table.ingest(*batch(0))
        for i in range(1, 25):
            held: list[HashTable] = []
            for seconds in (*10 ** rng.uniform(-4, -1.8, size=3), 0.0):  # at last, it is left alone
                count += interrupted(
                    lambda held=held: held.append(following_reader(path, 1e-3)),  # type: ignore[misc]
                    seconds,
                )
                if held:
                    break
            reader = held[-1]
            table.ingest(*batch(20 * i))
            for ask in (
                len,
                lambda one: one.search(Q, 5),
                lambda one: one.get([0]),
                lambda one: one.reload(),
            ):
                time.sleep(0.002)
                count += interrupted(lambda ask=ask, reader=reader: ask(reader), 10 ** rng.uniform(-5, -2.5))
            assert len(reader) == 20 * i + 20
            assert reader.check()["rows"] == 20 * i + 20
            while interrupted(reader.close, 10 ** rng.uniform(-5, -3)):
                count += 1
            reader.close()
            assert not follower_of(reader).is_alive()
    return count


# ---- before there is anything


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("keep_features", [True, False])
def test_a_reader_before_the_first_commit(tmp_path: Path, follow: bool, keep_features: bool) -> None:
    policy = "never" if keep_features else "projected:100"
    with (
        HashTable.open(tmp_path / "t", HASHER, policy=policy) as table,
        HashTable.open(tmp_path / "t", mode="read", follow=follow) as reader,
    ):
        for width in (0, 1, 12, 500):
            for q in (0, 1, 7):
                queries = np.zeros((q, width), np.float64)
                for found in (reader.search(queries, 5), reader.search(queries, 5, include=("labels",))):
                    assert found.distances.shape == found.ids.shape == (q, 0)
                    assert (found.distances.dtype, found.ids.dtype) == (np.uint16, np.int64)
                assert found.labels is not None
                assert found.labels.shape == (q, 0)
                found = reader.search(queries, 5, asymmetric=True)
                assert found.distances.shape == found.ids.shape == (q, 0)
                assert found.distances.dtype == np.float64
                near = reader.search_radius(queries, 3)
                assert near.offsets.tolist() == [0] * (q + 1)
                assert len(near.ids) == len(near.distances) == 0
        with pytest.raises(ValueError, match="2-D"):
            reader.search(np.zeros(12))
        assert len(reader) == 0
        assert 0 not in reader
        assert reader.ids().tolist() == []
        assert reader.stats().commits == reader.stats().n_items == 0
        assert reader.check() == {"batches": 0, "rows": 0, "codes": 0}
        with pytest.raises(KeyError):
            reader.get([0])
        table.ingest(*batch(0))
        if not follow:
            assert len(reader) == 0
            assert reader.reload()
        assert settled(lambda: len(reader) == 20)
        assert reader.search(Q, 5).ids.tolist() == table.search(Q, 5).ids.tolist()
        assert reader.get([3]).labels == table.get([3]).labels


def test_wait_for_a_writer_that_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "in" / "time" / "t"
    with Writer(path) as writer:
        opened: list[HashTable] = []
        reading = threading.Thread(target=lambda: opened.append(following_reader(path, 0.05, wait=60)))
        reading.start()
        time.sleep(0.2)
        assert reading.is_alive()
        assert not path.parent.exists()
        writer.ask("ingest", 0)
        reading.join(60)
        (reader,) = opened
        writer.read()
        time.sleep(0.05)
        assert len(reader) == 20
        reader.close()


def test_wait_for_a_table_that_is_created_at_this_moment(tmp_path: Path) -> None:
    """It is seen whole or not at all."""
    seen: list[object] = []

    def look() -> None:
        try:
            HashTable.open(tmp_path / "t", mode="read", wait=0.01)
        except TableError as error:
            seen.append(str(error))

    with failpoints.on("create.before", look), failpoints.on("create.after", look):
        writing(tmp_path / "t").close()
    assert len(seen) == 2
    assert all("is not a table yet after 0.01 seconds" in str(one) for one in seen)
    HashTable.open(tmp_path / "t", mode="read", wait=0.01).close()


def test_a_table_that_is_not_there_says_how_to_wait(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"t is not a table yet: .* open it with wait= \(seconds\)"):
        HashTable.open(tmp_path / "t", mode="read")
    start = time.monotonic()
    with pytest.raises(TableError, match=r"t is not a table yet after 0.2 seconds: .* with a larger wait="):
        HashTable.open(tmp_path / "t", mode="read", wait=0.2, follow=True)
    assert 0.2 <= time.monotonic() - start < 10
    assert not (tmp_path / "t").exists()
    with pytest.raises(TableError, match="a table in memory"):
        HashTable.open(None, mode="read")


# ---- how it is asked for


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "0.5", True])
def test_max_staleness_is_a_positive_number(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match="max_staleness must be a positive number of seconds"):
        following_reader(tmp_path / "t", value)


def test_who_can_follow(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='follow=True needs mode="read": a writer follows nobody'):
        HashTable.open(tmp_path / "t", HASHER, follow=True)
    for mode in ("write", "read"):
        with pytest.raises(ValueError, match="a table in memory cannot be followed"):
            HashTable.open(None, HASHER, mode=mode, follow=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give follow=True, too"):
        HashTable.open(tmp_path / "t", mode="read", max_staleness=1.0)
    with pytest.raises(ValueError, match='wait is for mode="read"'):
        HashTable.open(tmp_path / "t", HASHER, wait=1.0)
    for value in (-1, float("nan"), "1", True):
        with pytest.raises(ValueError, match="wait must be a number of seconds"):
            HashTable.open(tmp_path / "t", mode="read", wait=value)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


def test_the_default_bound(tmp_path: Path) -> None:
    writing(tmp_path / "t").close()
    with HashTable.open(tmp_path / "t", mode="read", follow=True) as reader:
        assert follower_of(reader).max_staleness == 0.5
    with HashTable.open(tmp_path / "t", mode="read") as reader:
        assert reader._follower is None


def test_repr_says_how_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with writing(path) as table:
        table.ingest(*batch(0))
        figures = f"<HashTable {path}: 20 items, FCOH, 20 bits, 1 versions"
        assert repr(table) == f"{figures}>"
        with HashTable.open(path, mode="read") as reader:
            assert repr(reader) == f"{figures}, read-only>"
        assert repr(reader) == f"{figures}, read-only, closed>"
        with following_reader(path) as reader:
            assert repr(reader) == f"{figures}, following>"
    with HashTable.open(None, HASHER) as table:
        assert repr(table) == "<HashTable in memory: 0 items, FCOH, 20 bits, 0 versions>"
