"""Clients that keep to no rules: half bodies, endless bodies, silence, crowds."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.serve.forms import JSON
from tests.serve.raw_sockets import ask, connected, head, memory_below, reply
from tests.serve.refusals import BODY, MB, A
from tests.serve.running import Running
from tests.serve.worlds import N

MOST_FILES = 4096

pytestmark = pytest.mark.usefixtures("nothing_changes")

# ---- connections


def test_half_a_body(target: Running) -> None:
    """The client goes away, or stays and says nothing more."""
    for staying in (False, True):
        with connected(target) as one:
            one.sendall(
                head("POST", f"{A}/items", f"Content-Type: {JSON}", "Content-Length: 1000") + b'{"ids": [1'
            )
            if staying:
                found = reply(one)
                assert (found.status, found.problem["type"]) == (408, "urn:hashstream:problem:too-slow")
                assert "1 seconds" in found.problem["detail"]
    assert target.get("/healthz").status == 200


def test_a_body_that_never_ends(target: Running) -> None:
    with connected(target) as one:
        one.sendall(head("POST", f"{A}/items", f"Content-Type: {JSON}", "Transfer-Encoding: chunked"))
        found = None
        end = time.monotonic() + 30
        one.settimeout(0.05)
        while found is None and time.monotonic() < end:
            try:
                one.sendall(b"1\r\n \r\n")
                one.recv(1, socket.MSG_PEEK)
                one.settimeout(10)
                found = reply(one)
            except TimeoutError:
                continue
    assert found is not None
    assert found.status == 408


def test_a_body_that_is_too_large(target: Running) -> None:
    """Declared, it is refused before it comes; in chunks, when the limit is passed."""
    with memory_below(100 * MB):
        for declared in (BODY + 1, 10**15, 10**30):
            found = ask(
                target, head("POST", f"{A}/items", f"Content-Type: {JSON}", f"Content-Length: {declared}")
            )
            assert found.status in (400, 413), declared
        chunk = b"100000\r\n" + bytes(MB) + b"\r\n"
        found = ask(
            target,
            head("POST", f"{A}/items", f"Content-Type: {JSON}", "Transfer-Encoding: chunked"),
            *[chunk] * 200,
        )
        assert found.status in (0, 413)  # 0: the connection was closed on a client that did not stop
    assert target.get("/healthz").status == 200


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: -1"],
        ["Content-Length: x"],
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Content-Length: 1" + "0" * 400],
        ["Transfer-Encoding: zz"],
        ["Content-Length: +5"],
        [f"X-Long: {'x' * 200_000}"],
        [f"X-{i}: x" for i in range(5000)],
        ["no colon"],
    ],
    ids=lambda lines: lines[0][:40],
)
def test_heads(target: Running, lines: list[str]) -> None:
    found = ask(
        target,
        head("POST", f"{A}/items", f"Content-Type: {JSON}", *lines, "Connection: close"),
        b"{}\r\n\r\n",
    )
    assert found.status == 0 or 400 <= found.status < 500, found
    assert target.get("/healthz").status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"\0" * 100,
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"x" * 300_000,
        b"GET  /  HTTP/1.1\r\n\r\n",
    ],
    ids=["NUL", "one word", "TLS", "version", "endless", "blanks"],
)
def test_bytes_that_are_no_request(target: Running, raw: bytes) -> None:
    with connected(target) as one:
        with suppress(OSError):  # refused in the middle
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
        found = reply(one)
    assert found.status == 0 or 400 <= found.status < 500
    assert target.get("/healthz").status == 200


def test_a_body_shorter_than_declared_and_longer(target: Running) -> None:
    body = json.dumps({"like": [3], "k": 1}).encode()
    short = ask(
        target,
        head(
            "POST",
            f"{A}/search",
            f"Content-Type: {JSON}",
            f"Content-Length: {len(body) - 5}",
            "Connection: close",
        ),
        body,
    )
    assert short.status == 400
    long = ask(
        target, head("POST", f"{A}/search", f"Content-Type: {JSON}", f"Content-Length: {len(body) + 5}"), body
    )
    assert long.status == 408


def test_clients_that_leave(target: Running) -> None:
    """In the middle of a request, before an answer, in the middle of one; nothing is logged, and nothing is kept."""
    body = json.dumps({"like": list(range(N)), "k": N, "include": ["labels", "fields", "payloads"]}).encode()
    whole = head("POST", f"{A}/search", f"Content-Type: {JSON}", f"Content-Length: {len(body)}") + body
    pieces = [
        whole[:10],
        whole[:100],
        whole[:-1],
        whole,
        head("GET", f"{A}/snapshot"),
        head("GET", "/v1/events"),
        head("GET", "/metrics"),
    ]
    for number in range(70):
        with connected(target) as one:
            one.sendall(pieces[number % len(pieces)])
            if number % 3:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            if number % 5 == 4 and number % len(pieces) > 2:
                one.recv(100)
    settled(target)
    assert target.get(f"{A}/snapshot").status == 200  # no lock is held for those that left
    settled(target)
    assert len(target.service.events._listeners) == 0
    assert [path.name for path in target.service.tables["a"].path.parent.iterdir()] == ["a"]


def settled(service: Running) -> None:
    """Wait until nothing is under way."""
    end = time.monotonic() + 30
    parent = service.service.tables["a"].path.parent
    while time.monotonic() < end:
        flight = next(
            line
            for line in service.get("/metrics").raw.decode().splitlines()
            if line.startswith("hashstream_requests_in_flight ")
        )
        if (
            float(flight.split()[1]) <= 1
            and len(list(parent.iterdir())) == 1
            and not service.service.events._listeners
        ):
            return
        time.sleep(0.05)


def test_listeners_that_leave_make_room(target: Running) -> None:
    for _ in range(3):
        for _ in range(target.service.limits.listeners):
            with connected(target) as one:
                one.sendall(head("GET", "/v1/events"))
        settled(target)
    with connected(target) as one:
        one.sendall(head("GET", "/v1/events"))
        assert b"200 OK" in one.recv(1000)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process, which has both ends of each connection, to open enough of them."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MOST_FILES:
        pytest.skip(f"at most {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MOST_FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_thousand_connections(target: Running) -> None:
    """All are answered, with an answer or a polite refusal; those that say nothing hold up nobody."""
    body = json.dumps({"like": [3], "k": 1}).encode()
    lines = [f"Content-Type: {JSON}", f"Content-Length: {len(body)}", "Connection: close"]
    whole = head("POST", f"{A}/search", *lines) + body
    silent = [socket.create_connection((target.host, target.port), 30) for _ in range(900)]
    statuses: list[int] = []

    def client() -> None:
        for _ in range(7):
            statuses.append(ask(target, whole).status)

    try:
        with memory_below(200 * MB):
            threads = [threading.Thread(target=client) for _ in range(100)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        for one in silent:
            one.close()
    assert len(statuses) == 700
    assert set(statuses) <= {200, 429, 503}
    assert statuses.count(200) > 100


def test_bodies_of_many_clients_are_bounded(target: Running) -> None:
    """A hundred clients send all but the end of a large body: together they do not fill the memory."""
    with memory_below(600 * MB):
        clients = []
        try:
            for _ in range(60):
                one = socket.create_connection((target.host, target.port), 30)
                clients.append(one)
                one.settimeout(1.0)
                try:
                    one.sendall(
                        head("POST", f"{A}/items", f"Content-Type: {JSON}", f"Content-Length: {BODY}")
                    )
                    one.sendall(bytes(BODY - 1))
                except (TimeoutError, ConnectionError):
                    continue
        finally:
            for one in clients:
                one.close()
    assert target.get("/healthz").status == 200


def test_a_client_that_reads_nothing(target: Running) -> None:
    body = json.dumps({"ids": list(range(N)) * 150, "features": True}).encode()
    with memory_below(300 * MB):
        clients = []
        try:
            for _ in range(40):
                one = socket.create_connection((target.host, target.port), 30)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                clients.append(one)
                one.sendall(
                    head("POST", f"{A}/items/get", f"Content-Type: {JSON}", f"Content-Length: {len(body)}")
                    + body
                )
            for _ in range(10):
                assert target.get(f"{A}/count").body == {"count": N}
        finally:
            for one in clients:
                one.close()
    settled(target)
