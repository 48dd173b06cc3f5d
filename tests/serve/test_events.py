"""Server-sent events: commits, learning, refreshes and tables, to everybody who listens."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.serve.fake_service import run_async
from tests.serve.raw_sockets import connected, head, reply
from tests.serve.running import Running, running
from tests.serve.worlds import N, X, create, fill, item, no_errors_logged, table_of, until

import hashstream as hs
from hashstream.serve import events
from hashstream.serve.app import create_app
from hashstream.serve.limits import Limits
from hashstream.serve.service import Service

A = "/v1/tables/a"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, limits=Limits(listeners=5)) as service, no_errors_logged():
        fill(service)
        yield service


class Listener:
    """A connection to /v1/events, which is read line by line."""

    def __init__(self, one: socket.socket, query: str = "") -> None:
        one.sendall(head("GET", f"/v1/events{query}", "Accept: text/event-stream"))
        self._file = one.makefile("rb")
        self.head = b"".join(iter(self._file.readline, b"\r\n")).decode().lower()
        assert " 200 " in self.head, self.head
        assert self.comment() == "listening"

    def _line(self) -> bytes:
        """The next line of the body, in whichever chunk it is."""
        while True:
            line = self._file.readline()
            if not line.endswith(b"\r\n"):
                return line.strip()

    def comment(self) -> str:
        line = self._line().decode()
        assert line.startswith(": "), line
        assert self._line() == b""
        return line[2:]

    def event(self) -> tuple[str, dict[str, Any]]:
        name, data = self._line().decode(), self._line().decode()
        assert name.startswith("event: "), name
        assert data.startswith("data: "), data
        assert self._line() == b""
        return name[7:], json.loads(data[6:])


def test_commits_are_told(home: Running) -> None:
    with connected(home) as one:
        listener = Listener(one)
        assert "content-type: text/event-stream" in listener.head
        assert "cache-control: no-store" in listener.head
        home.post(f"{A}/items", item(700))
        name, data = listener.event()
        table = table_of(home)
        assert name == "commit"
        assert set(data) == {
            *(
                "table",
                "seq",
                "added",
                "removed",
                "recoded",
                "labelled",
                "learned",
                "version",
                "n_items",
                "time",
            )
        }
        assert (data["table"], data["seq"], data["n_items"]) == ("a", table.commits, N + 1)
        assert (data["added"], data["removed"], data["learned"]) == (1, 0, 0)
        home.post(f"{A}/items", item(701, labels=["cat"]))
        assert [listener.event()[0], listener.event()[0]] == ["commit", "learned"]
        home.post(f"{A}/labels", {"ids": [700], "labels": ["dog"]})
        first, second = listener.event(), listener.event()
        assert (first[0], first[1]["labelled"], second[0]) == ("commit", 1, "learned")
        home.post(f"{A}/items/remove", {"ids": [700, 701]})
        assert listener.event()[1]["removed"] == 2
        home.post(f"{A}/refresh")
        names = [listener.event(), listener.event()]
        assert [name for name, _ in names] == ["commit", "refreshed"]
        assert names[0][1]["recoded"] == N


def test_tables_are_told_and_can_be_chosen(home: Running) -> None:
    with connected(home) as one, connected(home) as two:
        everything, of_b = Listener(one), Listener(two, "?table=b")
        create(home, "b")
        home.post(f"{A}/items", item(700))
        home.post("/v1/tables/b/items", item(1))
        home.ask("DELETE", "/v1/tables/b")
        found = [everything.event() for _ in range(4)]
        assert [(name, data["table"]) for name, data in found] == [
            *(("table", "b"), ("commit", "a"), ("commit", "b"), ("table", "b"))
        ]
        assert [found[0][1]["what"], found[3][1]["what"]] == ["created", "deleted"]
        assert [of_b.event()[0] for _ in range(3)] == ["table", "commit", "table"]


def test_a_refused_write_tells_nothing(home: Running) -> None:
    with connected(home) as one:
        listener = Listener(one)
        home.post(f"{A}/items", {"ids": [1], "vectors": [[1]]})
        home.post(f"{A}/items", item(700))
        assert listener.event()[1]["added"] == 1


def test_silence_is_filled(home: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.02)
    with connected(home) as one:
        listener = Listener(one)
        assert [listener.comment() for _ in range(3)] == ["still here"] * 3


def test_listeners_are_bounded(home: Running) -> None:
    with ExitStack() as stack:
        for _ in range(5):
            Listener(stack.enter_context(connected(home)))
        refused = home.get("/v1/events")
        assert (refused.status, refused.body["type"]) == (429, "urn:hashstream:problem:busy")
        assert "retry-after" in refused.headers
    until(lambda: not home.service.events._listeners)
    with connected(home) as one:
        Listener(one)


def test_a_listener_that_reads_nothing_holds_up_nobody(
    home: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is let go after some events; the others get theirs."""
    monkeypatch.setattr(events, "MOST_WAITING", 4)
    with connected(home) as one, connected(home) as two:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        Listener(one)
        other = Listener(two)
        for _ in range(1000):  # until the buffers on the way are full
            home.service.events.tell("commit", {"table": "a", "text": "x" * 100_000})
            assert other.event()[0] == "commit"
            if len(home.service.events._listeners) == 1:
                break
        else:
            raise AssertionError("it is not let go")


def test_names_of_tables_are_checked(home: Running) -> None:
    for name in ("../x", "", "a%0ab", "x" * 65):
        assert home.get(f"/v1/events?table={name}").status == 422


def test_the_end_is_told_to_listeners(tmp_path: Path) -> None:
    """A service that stops lets them go at once: `running` fails where it does not end."""
    with running(tmp_path) as service:
        fill(service)
        with connected(service) as one:
            Listener(one)
            service.server.stop()
            rest = b""
            while piece := one.recv(4096):
                rest += piece
            assert rest.endswith(b"0\r\n\r\n")


def test_no_listener_when_it_stops(home: Running) -> None:
    home.service.drain()
    with connected(home) as one:
        one.sendall(head("GET", "/v1/events", "Connection: close"))
        assert reply(one).status == 503


@pytest.mark.parametrize("path", ["/v1/events", f"{A}/snapshot"])
def test_a_client_that_leaves_before_a_stream_begins(tmp_path: Path, path: str) -> None:
    """The head of the answer waits, since an answer before it is not read; then the client goes. Nothing is kept."""
    with hs.HashTable.open(tmp_path / "a", hs.FCOH(8)) as table:
        table.ingest(range(3), X[:3])
    service = Service([tmp_path])

    async def ask() -> None:
        await service.start()
        while not service.ready:
            await asyncio.sleep(0.01)
        waiting = asyncio.Event()

        async def send(message: Any) -> None:
            waiting.set()
            await asyncio.Event().wait()

        async def receive() -> dict[str, Any]:
            await waiting.wait()
            return {"type": "http.disconnect"}

        scope = {
            **{"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1"},
            **{
                "method": "GET",
                "path": path,
                "raw_path": path.encode(),
                "query_string": b"",
                "scheme": "http",
            },
            **{"headers": [(b"host", b"localhost")], "root_path": "", "client": None, "server": None},
        }
        await asyncio.wait_for(create_app(service)(scope, receive, send), 60)
        assert not service.events._listeners
        assert not service.tables["a"].copying.locked()
        assert [one.name for one in tmp_path.iterdir()] == ["a"]
        await service.stop()

    run_async(ask())
