"""Calls as values: `Writer.do` does them in their order, in few commits, and each has its own outcome."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows
from tests.table.test_table_writer import at_once, opened

import hashstream as hs
from hashstream.table import Call, Never, TableError

X, Y = rows(np.random.default_rng(5), 60)


def put(i: int, **more: Any) -> Call:
    return Call("ingest", ([i], X[i : i + 1], [int(Y[i])]), **more)


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_calls_are_done_in_few_commits(tmp_path: Path, place: str) -> None:
    with opened(None if place == "memory" else tmp_path / "t", fields={"a": int}) as table:
        table.add([99], X[:1])
        writer, before = table.writer(), table.stats().commits
        calls = [
            *(put(i) for i in range(10)),
            *(Call("add", ([i], X[i : i + 1]), {"fields": {"a": [i]}}) for i in range(10, 20)),
            *(Call("label", ([i], [(int(Y[i]) + (i % 2)) % 4])) for i in range(10)),
        ]
        writer.do(calls)
        assert all(call.done and call.error is None for call in calls)
        assert [call.result for call in calls] == [None] * 20 + [i % 2 for i in range(10)]
        assert table.stats().commits == before + 3
        assert table.get(range(10)).labels == [(int(Y[i]) + (i % 2)) % 4 for i in range(10)]
        assert table.get(range(10, 20)).fields["a"] == list(range(10, 20))
        held = fingerprint(table, X[:3])
        writer.do(calls)  # done already
        writer.do([])
        assert fingerprint(table, X[:3]) == held


def test_a_call_sees_what_those_before_it_did() -> None:
    """Also in a table where they are the first."""
    with opened(None) as table:
        calls = [
            Call("label", ([1], [0])),
            put(1),
            put(2),
            Call("label", ([1, 2], [(int(Y[1]) + 1) % 4, int(Y[2])])),
            Call("add", ([2], X[3:4], [2])),
            Call("label", ([2], [2])),
            Call("label", ([2], [2])),
        ]
        table.writer().do(calls)
        assert isinstance(calls[0].error, KeyError)
        assert [call.error for call in calls[1:]] == [None] * 6
        assert [call.result for call in calls[1:]] == [None, None, 1, None, 1, 0]
        assert table.get([1, 2]).labels == [(int(Y[1]) + 1) % 4, 2]


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_the_model_is_that_of_calls_in_threads(tmp_path: Path, place: str) -> None:
    with (
        opened(None if place == "memory" else tmp_path / "a") as one,
        opened(None if place == "memory" else tmp_path / "b") as two,
    ):
        for table in (one, two):
            table.ingest(range(20), X[:20], Y[:20])
        one.writer().do([put(i) for i in range(20, 40)])
        two.ingest(range(20, 40), X[20:40], Y[20:40])
        assert fingerprint(one, X[:3]) == fingerprint(two, X[:3])


def test_each_keeps_its_own_error() -> None:
    with opened(None) as table:
        table.ingest(range(20), X[:20], Y[:20])
        wrong: list[tuple[Call, type[BaseException], str]] = [
            (Call("ingest", ([50], X[:1, :4], [0])), ValueError, "features"),
            (Call("ingest", ([50],)), TypeError, "'X'"),
            (Call("add", ([50], X[:1]), {"colour": "red"}), TypeError, "colour"),
            (Call("label", ([1],)), TypeError, "'y'"),
            (Call("label", ([77], [1])), KeyError, "77"),
            (Call("ingest", ([51], X[:1], np.eye(4)[:1])), ValueError, "matri"),
        ]
        good = [put(i) for i in range(20, 26)]
        mixed = [call for pair in zip((call for call, _, _ in wrong), good, strict=True) for call in pair]
        table.writer().do(mixed)
        for call, kind, match in wrong:
            with pytest.raises(kind, match=match):
                raise call.error or AssertionError("no error")
        assert [call.error for call in good] == [None] * 6
        assert len(table) == 26


def test_labels_are_counted_per_call() -> None:
    with opened(None, hs.LSH(8, random_state=0)) as table:
        table.add(range(20), X[:20])
        commits = table.stats().commits
        writer = table.writer()
        calls = [Call("label", (list(range(3 * i, 3 * i + 3)), ["a", "b", "c"])) for i in range(4)]
        writer.do(calls)
        assert [call.result for call in calls] == [3] * 4
        assert table.stats().commits == commits + 1
        calls = [
            Call("label", ([2, 0], ["c", "x"])),
            Call("label", ([5, 4, 3], ["y", "b", "z"])),
            Call("label", ([], [])),
            Call("label", ([6], ["a"])),
        ]
        writer.do(calls)
        assert [call.result for call in calls] == [1, 2, 0, 0]
        assert writer.label([6, 7], ["a", "q"]) == 1
        assert writer.label([6, 7], ["a", "q"]) == 0


def test_calls_that_cannot_be_one() -> None:
    for kind in ("remove", "", None, "ingest_files"):
        with pytest.raises(ValueError, match="kind must be one of 'ingest', 'add', 'label'"):
            Call(kind, ())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="key must"):
        put(1, key="")
    assert "[" not in repr(put(1)), "rows are not printed"


def test_errors_that_concern_all_calls(tmp_path: Path) -> None:
    with opened(tmp_path / "t") as table:
        writer = table.writer()
        writer.do([put(1)])
        told: list[BaseException] = []

        def write(_: object) -> None:
            try:
                writer.do([put(2)])
            except TableError as error:
                told.append(error)

        table._on_commit = write
        writer.do([put(3)])
        assert "under way in this thread" in str(told[0])
        assert 3 in table
        table._on_commit = None
    calls = [put(4), put(5)]
    with pytest.raises(TableError, match="closed"):
        writer.do(calls)
    assert all(isinstance(call.error, TableError) for call in calls)


def test_an_interrupt_leaves_no_call_open(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(None) as table:
        writer = table.writer()

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        calls = [put(1), put(2)]
        with monkeypatch.context() as patch:
            patch.setattr(writer, "_do_all", stop)
            with pytest.raises(KeyboardInterrupt):
                writer.do(calls)
        assert ["may be stored" in str(call.error) for call in calls] == [True, True]
        writer.do([put(1)])
        assert len(table) == 1


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_lead_and_threads_that_wait(tmp_path: Path, seed: int) -> None:
    with opened(tmp_path / "t", durability="fast", policy=Never()) as table:
        writer = table.writer()
        counts: list[int] = []
        once = threading.Lock()

        def lead(me: int) -> None:
            rng = np.random.default_rng([seed, me])
            for step in range(6):
                first = 1000 * me + 10 * step
                n = int(rng.integers(1, 9))
                calls = [Call("add", ([first + i], X[i : i + 1])) for i in range(n)]
                calls += [Call("label", ([first + i], [i % 4]), key=f"{first + i}") for i in range(n)]
                writer.do(calls)
                assert [call.error for call in calls] == [None] * 2 * n
                assert [call.result for call in calls] == [None] * n + [1] * n
                with once:
                    counts.append(n)

        def wait(me: int) -> None:
            for step in range(12):
                writer.ingest([1000 * me + step], X[step : step + 1], [1])
                with once:
                    counts.append(1)

        work: list[Any] = [lambda me=me: lead(me) for me in range(4)]
        work += [lambda me=me: wait(me) for me in range(4, 8)]
        assert at_once(work) == [None] * 8
        assert len(table) == sum(counts)
        assert table.count({"label": {"$exists": True}}) == len(table)
        table.check()
