"""Numbers are never given twice, and a part keeps its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hashstream.scale.database import FeedLog, Part
from hashstream.table.errors import KeyReused


def test_a_part_keeps_its_number(tmp_path: Path) -> None:
    log = FeedLog(tmp_path / "log.sqlite", create=True)
    first = log.begin("a.npy", "content")
    assert log.number() > first.number
    second = log.begin("b.npy", "content")
    assert log.begin("a.npy", "content") == first
    assert log.begin("a.npy", "other content").number > second.number
    log.finish(first.number, 70, 3)
    assert log.begin("a.npy", "content") == Part(first.number, True, 70, 3)
    assert not log.begin("b.npy", "content").done
    assert log.knows("a.npy", "content")
    assert not log.knows("c.npy", "content")
    log.close()


def test_numbers_grow_over_restarts(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(4):
        log = FeedLog(tmp_path / "log.sqlite", create=True)
        seen += [log.number(), log.begin(f"part {len(seen)}", "").number, log.number()]
        if len(seen) % 2:
            log.close()  # otherwise as after a kill: nothing is told
    assert seen == sorted(set(seen))


def test_a_key_stands_for_one_call(tmp_path: Path) -> None:
    log = FeedLog(tmp_path / "log.sqlite", create=True)
    log.begin("key x", "ingest 1", key=True)
    with pytest.raises(KeyReused, match="other arguments"):
        log.begin("key x", "ingest 2", key=True)
    assert not log.knows("key x", "ingest 2")


def test_parts_are_forgotten_but_those_of_a_copy(tmp_path: Path) -> None:
    log = FeedLog(tmp_path / "log.sqlite", create=True)
    old, new = log.begin("old", ""), log.begin("new", "")
    log.finish(old.number, 1)
    log.copy(tmp_path / "copy.sqlite")
    log.finish(new.number, 1)
    copy = FeedLog(tmp_path / "copy.sqlite")
    assert copy.done() == {old.number}
    assert log.forget(copy.done()) == 1
    assert log.done() == {old.number}
    assert log.begin("new", "") == Part(new.number, False, 1)


def test_the_first_fact_holds(tmp_path: Path) -> None:
    log = FeedLog(tmp_path / "log.sqlite", create=True)
    assert log.fact("id_kind") is None
    log.note("id_kind", "int")
    assert log.fact("id_kind") == "int"
