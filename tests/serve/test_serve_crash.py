"""A service that is killed under load keeps what it acknowledged, once: some kills of `run_serve_crash.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.running import Running, running
from tests.serve.serve_crash_calls import Wrong
from tests.serve.serve_crash_clients import TABLE, Item, Writer
from tests.serve.serve_crash_story import Story, differences, try_kills

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are killed by SIGKILL")


@pytest.mark.parametrize("seed", [3])
def test_acknowledged_writes_survive_kills(seed: int) -> None:
    found = try_kills(seed, kills=3)
    assert not found.failures
    assert found.kills.total() >= 3
    assert found.done["acknowledged"]


class Judged:
    """A story whose service is a thread of the test; some requests of its first writer are acknowledged."""

    def __init__(self, base: Path, service: Running) -> None:
        self.story, self.service = Story(0, base), service
        self.story.service.port = service.port
        for client in self.story.clients:
            client.caller.port = service.port
        fields = {"tenant": "str", "price": "float"}
        ask = {"name": "items", "method": "FCOH", "n_bits": 20, "fields": fields}
        assert service.post("/v1/tables", ask).status == 201
        self.story.gate.open()
        self.writer: Writer = self.story.writers[0]
        for _ in range(20):
            self.writer.step()
        assert self.writer.items
        assert self.writer.pending is None

    def post(self, path: str, body: Any) -> None:
        assert self.service.post(f"{TABLE}/{path}", body).status == 200


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Judged]:
    (tmp_path / "tables").mkdir()
    with running(tmp_path / "tables") as service:
        yield Judged(tmp_path, service)


def test_what_was_acknowledged_is_accepted(judged: Judged) -> None:
    judged.story.judge()
    assert judged.story.found.undone == judged.story.found.whole == 0


def test_a_lost_item_is_noticed(judged: Judged) -> None:
    judged.post("items/remove", {"ids": [next(iter(judged.writer.items))]})
    with pytest.raises(Wrong, match="is missing"):
        judged.story.judge()


def test_an_item_that_nobody_stored_is_noticed(judged: Judged) -> None:
    item = next(iter(judged.writer.items.values()))
    judged.post("items", {"ids": [999_999], "vectors": [item.features]})
    with pytest.raises(Wrong, match="nobody stored"):
        judged.story.judge()


def test_a_row_that_was_learned_twice_is_noticed(judged: Judged) -> None:
    one, item = next((one, item) for one, item in judged.writer.items.items() if item.learned)
    more = {"fields": {name: [value] for name, value in item.fields.items()}, "payloads": [item.payload]}
    judged.post("items", {"ids": [one], "vectors": [item.features], "labels": [item.label], **more})
    with pytest.raises(Wrong, match="has learned from"):
        judged.story.judge()


def test_half_of_a_request_is_noticed(judged: Judged) -> None:
    writer = judged.writer
    writer.pending = writer.plan()
    while len(set(writer.pending.after) - set(writer.items)) < 2:
        writer.pending = writer.plan()
    new = next(one for one in writer.pending.after if one not in writer.items)
    item = writer.pending.after[new]
    judged.post("items", {"ids": [new], "vectors": [item.features]})
    with pytest.raises(Wrong, match="was under way"):
        judged.story.judge()


def test_differences_name_the_item() -> None:
    item = Item([1.0], "a", {"tenant": None}, None)
    other = ([1.0], "b", {"tenant": None}, None)
    assert differences({1: item.shown()}, {1: item}) == []
    assert differences({1: other}, {1: item}) == [f"1 is {other}, not {item.shown()}"]
    assert differences({2: item.shown()}, {1: item}) == ["1 is missing", "2 is there"]
