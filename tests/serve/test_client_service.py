"""The client and a service: tables, tokens, events, limits, and many programs at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.fake_service import run_async
from tests.serve.running import running
from tests.serve.table_scenarios import rows

import hashstream as hs
from hashstream.serve.client.errors import ServiceUnavailable
from hashstream.serve.client.remote_table import RemoteTable
from hashstream.serve.limits import Limits
from hashstream.serve.tokens import TokenFile, add_token
from hashstream.table import Lazy, TableError
from hashstream.table.errors import ReadOnly


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hs.Client]:
    with running(tmp_path_factory.mktemp("served")) as service, hs.Client(service.url) as client:
        yield client


@pytest.fixture
def table(client: hs.Client) -> Iterator[RemoteTable]:
    yield client.create("t", "FCOH", 32, random_state=0)
    client.delete("t")


def test_tables(client: hs.Client) -> None:
    assert client.tables() == []
    for name in ("b", "a.b-c_d", "A1"):
        client.create(name, "FCOH", 16)
    assert sorted(client.tables()) == ["A1", "a.b-c_d", "b"]
    assert client.table("b").info()["method"] == "FCOH"
    with pytest.raises(TableError, match="already"):
        client.create("b")
    with pytest.raises(KeyError, match="there is no table 'c'"):
        client.table("c")
    table = client.table("b")
    for name in ("b", "a.b-c_d", "A1"):
        client.delete(name)
    for call in (table.count, table.info, lambda: 3 in table):
        with pytest.raises(KeyError, match="there is no table 'b'"):
            call()
    with pytest.raises(KeyError):
        client.delete("b")
    assert client.tables() == []


def test_settings_of_a_new_table(client: hs.Client) -> None:
    table = client.create(
        "t", "RidgeHash", 48, fields={"shop": str, "taken": "datetime"}, policy=Lazy(0.5, 100), durability="fast",
        max_versions=3, checkpoint_rows=500, random_state=7,
    )  # fmt: skip
    settings = table.settings
    assert settings.policy == Lazy(0.5, 100)
    assert (settings.durability, settings.max_versions, settings.checkpoint_rows) == ("fast", 3, 500)
    assert table.fields == {"shop": "str", "taken": "datetime"}
    hasher = table.hasher
    assert (type(hasher), hasher.n_bits, hasher.random_state) == (hs.RidgeHash, 48, 7)
    client.delete("t")
    assert client.create("t", "fcoh", policy="every:7").settings.policy.k == 7  # type: ignore[attr-defined]
    client.delete("t")
    W = np.random.default_rng(0).standard_normal((4, 16))
    table = client.create("t", "FCOH", 16, init=W)
    table.add([1], np.eye(4)[:1])
    assert np.array_equal(table.hasher.projection_, W)  # type: ignore[attr-defined]
    client.delete("t")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"method": "NoSuchHash"}, ValueError),
        ({"method": "FCOH", "n_bits": 0}, ValueError),
        ({"method": "FCOH", "no_such_parameter": 3}, ValueError),
        ({"method": "FCOH", "feature_map": object()}, TypeError),
        ({"fields": {"id": str}}, ValueError),
        ({"fields": {"a": "colour"}}, ValueError),
        ({"policy": "sometimes"}, ValueError),
        ({"durability": "none"}, ValueError),
        ({"max_versions": 0}, ValueError),
    ],
)
def test_settings_that_are_none(client: hs.Client, more: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        client.create("t", **more)
    assert client.tables() == []


def test_scopes_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens = {scope: add_token(file, scope, scope) for scope in ("read", "write", "admin")}
    X, y = rows(20)
    with running(tmp_path / "served", tokens=TokenFile(file)) as service:
        with hs.Client(service.url, tokens["admin"]) as client:
            client.create("t", "FCOH", 32).ingest(range(20), X, y)

        def may(token: str | None) -> list[bool]:
            asks: list[Callable[[hs.Client], Any]] = [
                lambda client: client.table("t").search(X),
                lambda client: client.table("t").label([1], [2]),
                lambda client: client.table("t").declare({"shop": str}),
                lambda client: client.table("t").snapshot(tmp_path / str(token)),
                lambda client: client.create("u"),
                lambda client: client.delete("u"),
            ]
            found = []
            with hs.Client(service.url, token) as client:
                for ask in asks:
                    try:
                        ask(client)
                        found.append(True)
                    except PermissionError:
                        found.append(False)
            return found

        assert may(None) == may("hs_guessed") == [False] * 6
        assert may(tokens["read"]) == [True] + [False] * 5
        assert may(tokens["write"]) == [True] * 2 + [False] * 4
        assert may(tokens["admin"]) == [True] * 6


def test_a_service_that_only_reads(tmp_path: Path) -> None:
    X, y = rows(20)
    with hs.HashTable.open(tmp_path / "t", hs.FCOH(n_bits=32)) as table:
        table.ingest(range(20), X, y)
    with running(tmp_path, read_only=True) as service, hs.Client(service.url) as client:
        assert len(client.table("t")) == 20
        for call in (
            lambda: client.table("t").add([1], X[:1]),
            lambda: client.create("u"),
            client.table("t").flush,
        ):
            with pytest.raises(ReadOnly, match="read-only"):
                call()


def test_limits_are_errors(tmp_path: Path) -> None:
    limits = Limits(body_bytes=20_000, rows=50, k=20, queries=5)
    X, y = rows(60)
    with running(tmp_path, limits=limits) as service, hs.Client(service.url) as client:
        table = client.create("t", "FCOH", 32)
        table.ingest(range(40), X[:40], y[:40])
        for call in (
            lambda: table.add(range(60), X),
            lambda: table.add(range(40), np.zeros((40, 5000))),
            lambda: table.search(X[:1], 21),
            lambda: table.search(X[:6]),
        ):
            with pytest.raises(ValueError, match=r"more than|larger than"):
                call()
        assert len(table) == 40


def test_events_of_a_service(client: hs.Client) -> None:
    """The first one may come before this listens, so the table is written to until one arrives."""
    X, y = rows(20)
    table = client.create("watched", "FCOH", 32)
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.05):
            table.ingest(range(20), X, y)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with client.events("watched") as events:
            event = next(one for one in events if one["event"] == "commit")
        assert (event["table"], event["added"], event["n_items"]) == ("watched", 20, 20)

        async def first() -> dict[str, Any]:
            async with hs.AsyncClient(client.url) as other, other.events() as stream:
                return await anext(stream)

        assert run_async(first())["table"] == "watched"
    finally:
        ended.set()
        writer.join()
        client.delete("watched")


def test_many_threads_write_at_once(table: RemoteTable) -> None:
    X, y = rows(200)

    def write(first: int) -> None:
        for i in range(first, 200, 8):
            table.writer().ingest([i], X[i : i + 1], y[i : i + 1])

    threads = [threading.Thread(target=write, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(table) == list(range(200))
    assert table.stats().n_seen == 200
    assert np.array_equal(table.get(range(200)).features, X)


def test_an_asynchronous_session(client: hs.Client) -> None:
    X, y = rows(100)

    async def session() -> list[Any]:
        async with hs.AsyncClient(client.url) as other:
            table = await other.create("t", method="FCOH", n_bits=32, random_state=0)
            await asyncio.gather(*(table.ingest([i], X[i : i + 1], y[i : i + 1]) for i in range(100)))
            found = [
                await table.count(), await table.contains(3), await table.contains("x"), (await table.stats()).n_seen,
                sorted([one async for one in table]), (await table.settings()).durability, await table.dtype(),
                [await table.commits() > 0, await table.version() is None, await table.n_features()],
                await table.id_kind(), await table.keeps_features(), type(await table.hasher()), await other.tables(),
            ]  # fmt: skip
            await other.delete("t")
            return found

    figures = [True, False, X.shape[1]]
    assert run_async(session()) == [
        100, True, False, 100, list(range(100)), "full", np.float32, figures, "int", True, hs.FCOH, ["t"]
    ]  # fmt: skip


def test_a_service_that_stops(tmp_path: Path) -> None:
    with running(tmp_path) as service, hs.Client(service.url, retries=0) as client:
        table = client.create("t", "FCOH", 32)
        with client.events() as events:
            found: list[Any] = []

            def listen() -> None:
                with pytest.raises(ServiceUnavailable):
                    found.extend(events)
                found.append("ended")

            listener = threading.Thread(target=listen)
            listener.start()
            service.server.stop()
            listener.join(30)
            assert found[-1] == "ended"
    with pytest.raises(ServiceUnavailable, match=r"cannot be reached|stopping|closed"):
        hs.Client(service.url, retries=0).table("t")
    assert table.name == "t"
