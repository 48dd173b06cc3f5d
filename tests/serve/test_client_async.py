"""The asynchronous client: the same methods, awaited."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from typing import Any

import numpy as np
import pytest
from tests.serve.fake_service import INFO, arrays, as_json, fake_service, problem, run_async

import hashstream as hs
from hashstream.serve.client import event_stream
from hashstream.serve.client.async_client import AsyncRemoteTable
from hashstream.serve.client.remote_table import RemoteTable

FOUND = arrays({}, distances=np.zeros((1, 3), np.uint16), ids=np.arange(3)[None])
Q = np.zeros((1, 4), np.float32)


def test_methods_are_awaited() -> None:
    async def session(url: str) -> list[Any]:
        async with hs.AsyncClient(url, "hs_x", retries=0) as client, await client.table("t") as table:
            hits = await table.search(Q, k=3)
            return [hits.ids.tolist(), await table.count(), await table.fields(), repr(table), repr(client)]

    with fake_service(as_json(INFO), FOUND, as_json({"count": 7}), as_json(INFO)) as service:
        *found, table, client = run_async(session(service.url))
        assert found == [[[0, 1, 2]], 7, {"price": "int"}]
        assert table == f"<AsyncRemoteTable t at {service.url}>"
        assert client == f"<AsyncClient of {service.url}>"
        assert service.asked[0].headers["authorization"] == "Bearer hs_x"


def test_errors_are_raised() -> None:
    async def session(url: str) -> None:
        async with hs.AsyncClient(url) as client:
            with pytest.raises(KeyError, match="there is no table"):
                await client.table("t")
            with pytest.raises(ValueError, match="name of a table"):
                await client.create("a/b", method="FCOH")

    with fake_service(problem("no-table", 404, "there is no table")) as service:
        run_async(session(service.url))


def test_ids_in_a_loop() -> None:
    async def session(url: str) -> list[Any]:
        async with hs.AsyncClient(url) as client:
            return [one async for one in await client.table("t")]

    with fake_service(as_json(INFO), arrays({}, ids=np.arange(4))) as service:
        assert run_async(session(service.url)) == [0, 1, 2, 3]


def test_requests_run_at_once_and_no_more_than_threads() -> None:
    """Two requests are under way at once, each waiting for the other; a third one waits for a thread."""
    together, waiting = threading.Barrier(2), []

    def meet(connection: socket.socket) -> None:
        waiting.append(1)
        together.wait(10)
        connection.sendall(as_json({"count": 7}))

    async def session(url: str) -> list[int]:
        async with hs.AsyncClient(url, threads=2, retries=0) as client:
            table = await client.table("t")
            return await asyncio.gather(*(table.count() for _ in range(4)))

    with fake_service(as_json(INFO, connection="close"), meet) as service:
        assert run_async(session(service.url)) == [7] * 4
        assert together.n_waiting == 0


def test_a_call_that_is_cancelled_goes_on() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def slowly(connection: socket.socket) -> None:
        begun.set()
        go_on.wait(10)
        connection.sendall(as_json({"stored": 1}))
        done.set()

    async def session(url: str) -> None:
        async with hs.AsyncClient(url, retries=0) as client:
            table = await client.table("t")
            call = asyncio.ensure_future(table.add([1], Q))
            await asyncio.to_thread(begun.wait, 10)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            go_on.set()
            assert await asyncio.to_thread(done.wait, 10)

    with fake_service(as_json(INFO, connection="close"), slowly) as service:
        run_async(session(service.url))


def test_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "pause_before", lambda attempt: 0.0)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    def tell(connection: socket.socket) -> None:
        connection.sendall(head + b'event: commit\ndata: {"seq": 1}\n\nevent: commit\ndata: {"seq": 2}\n\n')

    async def session(url: str) -> list[int]:
        found = []
        async with hs.AsyncClient(url) as client:
            async with client.events() as events:
                async for event in events:
                    found.append(event["seq"])
                    if len(found) == 1000:  # more than wait at a time
                        break
            assert [event async for event in events] == []
        return found

    with fake_service(tell) as service:
        assert run_async(session(service.url)) == [1, 2] * 500


def test_events_that_nobody_waits_for_any_more() -> None:
    """The thread that reads them ends with the block, although the service is silent."""
    before = set(threading.enumerate())
    ended = threading.Event()

    def tell(connection: socket.socket) -> None:
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b'data: {"seq": 1}\n\n'
        )
        ended.wait(30)

    async def session(url: str) -> None:
        async with hs.AsyncClient(url) as client, client.events() as events:
            assert (await anext(events))["seq"] == 1
            named = [one for one in threading.enumerate() if one.name == "hashstream-events"]
            (reader,) = set(named) - before
        await asyncio.to_thread(reader.join, 10)
        assert not reader.is_alive()

    with fake_service(tell) as service:
        run_async(session(service.url))
        ended.set()


def test_events_that_fail() -> None:
    async def session(url: str) -> None:
        async with hs.AsyncClient(url) as client, client.events("t") as events:
            with pytest.raises(PermissionError):
                await anext(events)
            assert [event async for event in events] == []

    with fake_service(problem("scope", 403)) as service:
        run_async(session(service.url))


def test_signatures_and_documentation_carry_over() -> None:
    for name in ("ingest", "search", "label", "get", "snapshot", "refresh"):
        mine, theirs = getattr(AsyncRemoteTable, name), getattr(RemoteTable, name)
        assert inspect.iscoroutinefunction(mine)
        assert inspect.signature(mine) == inspect.signature(theirs)
        assert mine.__doc__ == theirs.__doc__
    assert inspect.signature(hs.AsyncClient.create) == inspect.signature(hs.Client.create)


def test_every_method_has_its_twin() -> None:
    instead = {"reload"}  # which does nothing
    missing = {name for name in dir(RemoteTable) if not name.startswith("_")} - set(dir(AsyncRemoteTable))
    assert missing == instead
    assert not {name for name in dir(hs.Client) if not name.startswith("_")} - set(dir(hs.AsyncClient))
