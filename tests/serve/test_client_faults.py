"""A network that loses requests and answers: every write is done once, and only once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.serve.faulty_proxy import Fault, faulty_proxy
from tests.serve.running import running
from tests.serve.same_tables import differences
from tests.serve.table_scenarios import figures, rows

import hashstream as hs
from hashstream.serve.client import sending
from hashstream.serve.client.errors import ServiceUnavailable

KINDS: list[Fault] = ["request lost", "answer lost", "answer cut"]
FIELDS = {"shop": str}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LONGEST_WAIT", 0.01)


def writes(table: Any) -> Iterator[Any]:
    """Every write whose key the table keeps, and what it returns."""
    number = itertools.count()

    def key() -> str:
        return f"write-{next(number)}"

    for batch in range(6):
        X, y = rows(30, batch)
        ids = range(batch * 20, batch * 20 + 30)  # some replace others
        shops = {"shop": ["a", "b", None] * 10}
        yield table.ingest(ids, X, y, fields=shops, payloads=[{"batch": batch}] * 30, key=key())
        yield table.add([1000 + batch], X[:1] + 1, key=key())
        yield table.label([1000 + batch], y[:1], key=key())
        yield table.label([1000 + batch], (y[:1] + 1) % 4, key=key())
        yield table.remove([batch * 20], key=key())
    yield table.remove(where={"shop": "b"}, key=key())


def finish(table: Any) -> list[Any]:
    """Writes that may be done twice without harm, and all that is there in the end."""
    table.declare({"colour": str})
    table.compact()
    table.refresh()
    table.flush()
    ids = table.ids()
    return [ids, table.get(ids), figures(table), table.hasher, table.commits, table.fields]


def reference(folder: Path) -> list[Any]:
    with hs.HashTable.open(folder, hs.FCOH(n_bits=32, random_state=0), fields=FIELDS) as table:
        return [*writes(table), *finish(table)]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", range(4))
def test_writes_are_done_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    plan = (rng.choice([*KINDS, "none"]) for _ in itertools.count())
    with (
        running(tmp_path / "served") as service,
        faulty_proxy((service.host, service.port), plan) as proxy,
        hs.Client(proxy.url, retries=30) as client,
    ):
        table = client.create("t", "FCOH", 32, fields=FIELDS, random_state=0)
        found = [*writes(table), *finish(table)]
        assert {*proxy.faults} == {*KINDS, "none"}
        assert not differences(reference(tmp_path / "local"), found)
        client.delete("t")
        assert client.tables() == []


def test_an_answer_that_comes_too_late(tmp_path: Path) -> None:
    """The client gives up and asks again, while its first request is done or under way."""
    plan: list[Fault] = ["none", "silence", "silence", "none", "silence"]
    with (
        running(tmp_path / "served") as service,
        faulty_proxy((service.host, service.port), iter(plan)) as proxy,
        hs.Client(proxy.url, retries=3, timeout=1) as client,
    ):
        table = client.create("t", "FCOH", 32, random_state=0)
        X, y = rows(30)
        table.ingest(range(30), X, y)
        table.ingest(range(30, 60), X, y)
        assert (len(table), table.stats().n_seen, table.commits) == (60, 60, 2)


def test_a_service_that_is_started_again(tmp_path: Path) -> None:
    """A write is done, its answer is lost with the service, and the next service knows the key."""
    with ExitStack() as first, ExitStack() as second:
        service = first.enter_context(running(tmp_path / "served"))

        def restart() -> None:
            first.close()
            other = second.enter_context(running(tmp_path / "served"))
            proxy.upstream = other.host, other.port

        plan: list[Fault] = ["none", restart]
        proxy = second.enter_context(faulty_proxy((service.host, service.port), iter(plan)))
        client = second.enter_context(hs.Client(proxy.url, retries=10))
        table = client.create("t", "FCOH", 32, random_state=0)
        X, y = rows(30)
        table.ingest(range(30), X, y)
        assert proxy.faults == ["none", restart, "none"]
        assert (len(table), table.stats().n_seen, table.commits) == (30, 30, 1)


def test_a_program_that_repeats_its_writes(tmp_path: Path) -> None:
    """After a network that never answered, with the keys of the first time."""
    with running(tmp_path / "served") as service:
        lost: Iterator[Fault] = itertools.chain(["none"], itertools.repeat("answer lost"))
        with (
            faulty_proxy((service.host, service.port), lost) as proxy,
            hs.Client(proxy.url, retries=1) as client,
        ):
            table = client.create("t", "FCOH", 32, fields=FIELDS, random_state=0)
            X, y = rows(30)
            with pytest.raises(ServiceUnavailable, match="cannot be reached"):
                table.ingest(range(30), X, y, key="mine")
        with hs.Client(service.url) as client:
            table = client.table("t")
            assert table.commits == 1
            table.ingest(range(30), X, y, key="mine")
            assert (table.commits, table.stats().n_seen) == (1, 30)
            with pytest.raises(ValueError, match="other arguments"):
                table.ingest(range(30), X + 1, y, key="mine")


def test_a_table_is_created_and_deleted_once(tmp_path: Path) -> None:
    plan: list[Fault] = ["answer lost", "none", "answer lost", "none"]
    with (
        running(tmp_path / "served") as service,
        faulty_proxy((service.host, service.port), iter(plan)) as proxy,
        hs.Client(proxy.url, retries=2) as client,
    ):
        client.create("t", "FCOH", 32)
        client.delete("t")
        assert client.tables() == []
        with pytest.raises(KeyError, match="no table"):
            client.delete("t")
