"""Group commits: calls of many threads share them, and each has its own outcome."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.fingerprints import fingerprint
from tests.table.plain_filters import FIELDS, random_fields, random_payloads
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never, TableError

HASHER = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
DEADLINE = 30  # seconds


def opened(path: Path | None, hasher: Any = HASHER, **settings: Any) -> HashTable:
    return HashTable.open(path, hasher, **{"policy": Never(), **settings})


def at_once(calls: list[Callable[[], Any]]) -> list[BaseException | None]:
    """Make calls in a thread each, all at once; what they raise. A thread that hangs is a failure."""
    errors: list[BaseException | None] = [None] * len(calls)
    gate = threading.Barrier(len(calls))

    def run(i: int) -> None:
        gate.wait()
        try:
            calls[i]()
        except BaseException as error:
            errors[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return errors


def together(table: HashTable, calls: list[Callable[[], Any]]) -> list[BaseException | None]:
    """The same, in a commit that is shared: the table is held until all of them wait, but for the first."""
    errors: list[BaseException | None] = []
    with table._lock:
        thread = threading.Thread(target=lambda: errors.extend(at_once(calls)), daemon=True)
        thread.start()
        threading.Event().wait(0.2)
    thread.join(DEADLINE + 1)
    assert len(errors) == len(calls), "a thread hangs"
    return errors


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_calls_share_commits(tmp_path: Path, place: str) -> None:
    X, y = rows(np.random.default_rng(0), 200)
    with opened(None if place == "memory" else tmp_path / "t") as table:
        writer = table.writer()
        calls = [lambda i=i: writer.ingest([i], X[i : i + 1], [int(y[i])]) for i in range(100)]
        assert together(table, calls) == [None] * 100
        assert table.stats().commits < 20
        assert sorted(table.ids().tolist()) == list(range(100))
        got = table.get(range(100))
        assert got.labels == y[:100].tolist()
        assert got.features is not None
        assert got.features.tobytes() == X[:100].tobytes()
        assert table.hasher.n_seen_ == 100
        before = table.stats().commits
        calls = [lambda i=i: writer.label([i], [int(y[i] + 1) % 4]) for i in range(100)]
        assert together(table, calls) == [None] * 100
        assert table.stats().commits < before + 20
        assert table.get(range(100)).labels == ((y[:100] + 1) % 4).tolist()
        table.check()


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_each_call_has_its_own_errors(tmp_path: Path, place: str) -> None:
    X, y = rows(np.random.default_rng(0), 20)
    bad = X[:1].copy()
    bad[0, 3] = np.nan
    with opened(None if place == "memory" else tmp_path / "t", fields={"a": int}) as table:
        table.ingest(range(100, 110), X[:10], y[:10])
        writer = table.writer()
        wrong: list[tuple[Callable[[], Any], type[BaseException], str]] = [
            (lambda: writer.ingest([1], bad, [0]), ValueError, "NaN"),
            (lambda: writer.ingest([1, 1], X[:2], [0, 0]), ValueError, "more than once"),
            (lambda: writer.ingest(["a"], X[:1], [0]), ValueError, "whole numbers"),
            (lambda: writer.ingest([1], X[:1, :5], [0]), ValueError, "features"),
            (lambda: writer.ingest([1], X[:1], [0, 1]), ValueError, "one label per row"),
            (lambda: writer.ingest([1], X[:1], np.eye(4)[:1]), ValueError, "matri"),
            (lambda: writer.add([1], X[:1], np.eye(4)[:1]), ValueError, "matri"),
            (lambda: writer.add([1], X[:1], fields={"b": [1]}), ValueError, "unknown field 'b'"),
            (lambda: writer.add([1], X[:1], fields={"a": ["x"]}), TypeError, "'a', row 0"),
            (lambda: writer.add([1], X[:1], payloads=[{"a": object()}]), ValueError, r"payloads\[0\]"),
            (lambda: writer.label([77], [0]), KeyError, "77"),
            (lambda: writer.label([100], None), ValueError, "one label for each"),
        ]
        good: list[Callable[[], Any]] = [
            lambda i=i: writer.ingest([i], X[i : i + 1], [int(y[i])]) for i in range(10, 20)
        ]
        good.append(lambda: writer.label([101, 102], [3, 2]))
        good.append(lambda: writer.add([50], X[:1], fields={"a": [1]}, payloads=[{"a": 1}]))
        errors = together(table, [*(call for call, _, _ in wrong), *good])
        for error, (_, kind, match) in zip(errors, wrong, strict=False):
            with pytest.raises(kind, match=match):
                raise error or AssertionError("no error")
        assert errors[len(wrong) :] == [None] * len(good)
        assert sorted(table.ids().tolist()) == [*range(10, 20), 50, *range(100, 110)]
        assert table.get([101, 102]).labels == [3, 2]


@pytest.mark.parametrize("_again", range(3))
def test_the_first_calls_of_a_table_that_do_not_fit_together(_again: int) -> None:
    """Which of them comes first decides for the table; the others fail, and none of them hangs."""
    X, _ = rows(np.random.default_rng(0), 4)
    with opened(None) as table:
        writer = table.writer()
        calls: list[Callable[[], Any]] = [
            lambda: writer.ingest([1], X[:1], [0]),
            lambda: writer.ingest(["a"], X[:1], [0]),
            lambda: writer.ingest([2], X[:1, :5], [0]),
            lambda: writer.ingest([3], X[:1], np.eye(4)[:1]),
            lambda: writer.ingest([4], X[:1].astype(np.float64), [1]),
        ]
        errors = together(table, calls)
        assert len(table) == errors.count(None) >= 1
        assert all(isinstance(error, ValueError) for error in errors if error is not None)


def test_calls_with_and_without_everything(tmp_path: Path) -> None:
    X, y = rows(np.random.default_rng(0), 12)
    with opened(tmp_path / "t", fields={"a": str, "b": int}) as table:
        table.add([99], X[:1])
        writer = table.writer()
        calls: list[Callable[[], Any]] = [
            lambda: writer.ingest([0], X[:1], [int(y[0])], fields={"a": ["x"]}),
            lambda: writer.ingest([1], X[1:2], fields={"b": [5]}, payloads=[{"p": 1}]),
            lambda: writer.ingest([2, 3], X[2:4], np.array([1.0, np.nan])),
            lambda: writer.ingest([4], X[4:5], ["text"], payloads=[None]),
            lambda: writer.ingest([5], X[5:6], np.array([2], np.int8), fields={"a": [None], "b": [7]}),
            lambda: writer.ingest([6], X[6:7], [True]),
        ]
        assert together(table, calls) == [None] * len(calls)
        assert table.stats().commits <= 3
        items = table.get(range(7))
        assert items.labels == [int(y[0]), None, 1.0, None, "text", 2, True]
        assert items.fields == {"a": ["x", *[None] * 6], "b": [None, 5, None, None, None, 7, None]}
        assert items.payloads == [None, {"p": 1}, *[None] * 5]
        assert items.features is not None
        assert items.features.tobytes() == X[:7].tobytes()
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with opened(tmp_path / "killed", None) as again:
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])


def test_label_matrices(tmp_path: Path) -> None:
    X, y = rows(np.random.default_rng(0), 12)
    Y = np.eye(4, dtype=int)[y]
    with opened(tmp_path / "t") as table:
        table.add([99], X[:1])
        writer = table.writer()
        calls: list[Callable[[], Any]] = [
            lambda: writer.ingest([0, 1], X[:2], Y[:2]),
            lambda: writer.ingest([2], X[2:3]),
            lambda: writer.ingest([3], X[3:4], Y[3:4].astype(bool)),
            lambda: writer.ingest([4], X[4:5], np.full((1, 4), np.nan)),
        ]
        assert together(table, calls) == [None] * len(calls)
        labels = [None if one is None else one.astype(int).tolist() for one in table.get(range(5)).labels]
        assert labels == [Y[0].tolist(), Y[1].tolist(), None, Y[3].tolist(), None]
        assert together(table, [lambda i=i: writer.label([i], Y[i : i + 1]) for i in range(5)]) == [None] * 5
        assert table.hasher.n_seen_ == 5
        shutil.copytree(tmp_path / "t", tmp_path / "killed")
        with opened(tmp_path / "killed", None) as again:
            assert fingerprint(again, X[:3]) == fingerprint(table, X[:3])


@pytest.mark.parametrize("method", [hs.LSH, hs.SketchHash])
def test_methods_that_need_no_labels_learn_rows_without_one(method: Any) -> None:
    """Rows with a label, in the same commit, do not make missing labels of the others."""
    X, _ = rows(np.random.default_rng(0), 40)
    with opened(None, method(n_bits=8, random_state=0)) as table:
        table.ingest(range(10), X[:10])
        writer = table.writer()
        calls = [
            lambda i=i: writer.ingest([i], X[i : i + 1], ["a"] if i % 2 else None)  # type: ignore[misc]
            for i in range(10, 40)
        ]
        assert together(table, calls) == [None] * 30
        assert table.hasher.n_seen_ == 40
        assert table.count({"label": "a"}) == 15


def test_the_later_of_two_calls_with_one_id_wins() -> None:
    X, _ = rows(np.random.default_rng(0), 2)
    with opened(None, fields={"turn": int}) as table:
        writer = table.writer()
        last: dict[int, int] = {}
        order = threading.Lock()

        def put(turn: int) -> None:
            for one in range(5):
                with order:  # so that the test knows which comes later
                    writer.ingest([one], X[:1], [turn % 4], fields={"turn": [turn]})
                    last[one] = turn

        assert at_once([lambda turn=turn: put(turn) for turn in range(8)]) == [None] * 8
        assert table.get(range(5)).fields["turn"] == [last[one] for one in range(5)]
        assert len(table) == 5
        same = [
            lambda turn=turn: writer.add([9], X[1:2], fields={"turn": [turn]}) for turn in range(8)
        ]  # fmt: skip
        assert together(table, same) == [None] * 8
        assert table.stats().n_slots == 40 + 8
        assert table.get([9]).fields["turn"][0] in range(8)


def test_closed_and_read_only_tables(tmp_path: Path) -> None:
    X, y = rows(np.random.default_rng(0), 4)
    with opened(tmp_path / "t") as table:
        table.ingest(range(4), X, y)
        writer = table.writer()
        with (
            HashTable.open(tmp_path / "t", mode="read") as reader,
            pytest.raises(TableError, match='mode="read"'),
        ):
            reader.writer()
    with pytest.raises(TableError, match="closed"):
        table.writer()
    for call in (
        lambda: writer.ingest([1], X[:1], y[:1]),
        lambda: writer.add([1], X[:1]),
        lambda: writer.label([1], [1]),
    ):
        with pytest.raises(TableError, match="closed"):
            call()


def test_a_table_that_is_closed_meanwhile(tmp_path: Path) -> None:
    """Every call is stored, or fails since the table is closed; none of them hangs."""
    X, _ = rows(np.random.default_rng(0), 400)
    table = opened(tmp_path / "t", durability="fast")
    writer, done = table.writer(), []

    def put(first: int) -> None:
        for one in range(first, first + 50):
            writer.ingest([one], X[one : one + 1], [one % 4])
            done.append(one)
            if len(done) == 60:
                table.close()

    errors = at_once([lambda i=i: put(50 * i) for i in range(8)])
    assert all(isinstance(error, TableError) and "closed" in str(error) for error in errors if error)
    with opened(tmp_path / "t", None) as again:
        assert set(done) == set(again.ids().tolist())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("place", ["memory", "folder"])
def test_many_threads_by_seeds(tmp_path: Path, place: str, seed: int) -> None:
    """Each thread has ids of its own, and knows what must be stored; the folder learns the same bits again."""
    path = None if place == "memory" else tmp_path / "t"
    known: list[dict[int, list[Any]]] = [{} for _ in range(6)]
    with opened(path, fields=FIELDS, durability="fast", checkpoint_rows=40) as table:
        writer = table.writer()

        def work(me: int) -> None:
            rng, mine = np.random.default_rng([seed, me]), known[me]
            for _ in range(15):
                what = rng.choice(["ingest", "add", "label", "unknown"])
                ids = (1000 * me + rng.permutation(12)[: rng.integers(1, 5)]).tolist()
                X, y = rows(rng, len(ids))
                labels = [None if rng.random() < 0.3 else int(one) for one in y]
                fields, payloads = random_fields(rng, len(ids)), random_payloads(rng, len(ids))
                if what == "unknown":
                    with pytest.raises(KeyError):
                        writer.label([*ids, -1], [0] * (len(ids) + 1))
                elif what == "label":
                    held = [one for one in ids if one in mine]
                    writer.label(held, y[: len(held)])
                    for one, label in zip(held, y.tolist(), strict=False):
                        mine[one][1] = label
                else:
                    getattr(writer, str(what))(ids, X, labels, fields=fields, payloads=payloads)
                    for i, one in enumerate(ids):
                        values = {name: fields[name][i] if name in fields else None for name in FIELDS}
                        mine[one] = [X[i].tolist(), labels[i], values, payloads[i]]
                assert all(one in table for one in mine)

        assert at_once([lambda me=me: work(me) for me in range(6)]) == [None] * 6
        wanted = {one: values for mine in known for one, values in mine.items()}
        assert held_by(table, list(wanted)) == wanted
        assert len(table) == len(wanted)
        table.check()
        if path is not None:
            shutil.copytree(path, tmp_path / "killed")
            Q = rows(np.random.default_rng(0), 3)[0]
            with opened(tmp_path / "killed", None) as again:
                assert fingerprint(again, Q) == fingerprint(table, Q)
                assert held_by(again, list(wanted)) == wanted


def held_by(table: HashTable, ids: list[int]) -> dict[int, list[Any]]:
    items = table.get(ids)
    assert items.features is not None
    return {
        one: [
            items.features[i].tolist(),
            items.labels[i],
            {name: values[i] for name, values in items.fields.items()},
            items.payloads[i],
        ]
        for i, one in enumerate(ids)
    }


# ---- interrupts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("seed", range(6))
def test_an_interrupt_leaves_no_thread_waiting(tmp_path: Path, seed: int) -> None:
    """In a process of its own: its main thread writes and is interrupted, at any moment, while others write, too."""
    child = os.fork()
    if not child:
        status = 1
        try:
            told = open(tmp_path / "stacks", "w")  # noqa: SIM115 : until the process ends
            faulthandler.dump_traceback_later(DEADLINE, exit=True, file=told)
            interrupt_often(seed)
            status = 0
        except BaseException:
            (tmp_path / "why").write_text(traceback.format_exc())
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        why = [(tmp_path / name).read_text() for name in ("why", "stacks") if (tmp_path / name).exists()]
        pytest.fail(f"status {status}: {' '.join(why)}")


class Interrupt(KeyboardInterrupt):
    """Raised by the timer."""


def interrupt_often(seed: int) -> None:
    sys.setswitchinterval(1e-4)
    rng = np.random.default_rng(seed)
    X, _ = rows(rng, 4000)
    table, over = opened(None, hs.LSH(n_bits=8, random_state=0)), threading.Event()
    table.add([-1], X[:1])
    writer = table.writer()
    refused: list[BaseException] = []

    def work(first: int) -> None:
        for one in range(first, first + 1000):
            if over.is_set():
                return
            try:
                writer.add([one], X[one : one + 1])
            except TableError as error:
                refused.append(error)

    threads = [threading.Thread(target=work, args=(1000 * i,), daemon=True) for i in (1, 2, 3)]

    def interrupt(*_: Any) -> None:
        raise Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    for thread in threads:
        thread.start()
    for one in range(300):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, 10 ** float(rng.uniform(-5, -3)))
                for _ in range(20):
                    writer.add([one], X[one : one + 1])
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupt:
            pass
        except TableError as error:
            refused.append(error)
    over.set()
    for thread in threads:
        thread.join(DEADLINE / 3)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    assert all("interrupted" in str(error) for error in refused), refused
