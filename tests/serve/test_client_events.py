"""Events of a service: read however they are cut, over as many connections as it takes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serve.fake_service import Answer, answer, as_json, fake_service, problem

import hashstream as hs
from hashstream.serve.client import event_stream
from hashstream.serve.client.errors import ServiceUnavailable
from hashstream.serve.client.event_stream import parse_events
from hashstream.table import TableError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n: listening\n\n"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "pause_before", lambda attempt: 0.0)


def told(*numbers: int) -> Callable[[socket.socket], None]:
    """A connection that tells of some commits, and ends."""
    events = b"".join(b'event: commit\ndata: {"seq": %d}\n\n' % number for number in numbers)
    return lambda connection: connection.sendall(HEAD + events)


def test_events_over_several_connections() -> None:
    broken = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n: x"
    )
    answers: list[Answer] = [
        told(1, 2),
        None,
        problem("closing", 503),
        lambda to: to.sendall(broken),
        told(3),
    ]
    with fake_service(*answers) as service, hs.Client(service.url, "hs_x", retries=2) as client:
        with client.events("photos") as events:
            assert [next(events)["seq"] for _ in range(3)] == [1, 2, 3]
            assert next(events) == {"event": "commit", "seq": 3}  # the last answer is repeated
        assert list(events) == []
        assert {one.target for one in service.asked} == {"/v1/events?table=photos"}
        assert service.asked[0].headers["authorization"] == "Bearer hs_x"
        assert service.asked[0].headers["accept"] == "text/event-stream"


def test_a_service_that_stays_away() -> None:
    with fake_service(told(1), None) as service, hs.Client(service.url, retries=2) as client:
        events = client.events()
        assert next(events)["seq"] == 1
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            next(events)
        assert len(service.asked) == 1 + 3


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        (problem("token", 401), PermissionError),
        (problem("no-table", 404), KeyError),
        (as_json({}), TableError),
        (answer(200, b"event: commit\ndata: x\n\n", "text/event-stream"), TableError),
        (answer(200, b"event: commit\ndata: [1]\n\n", "text/event-stream"), TableError),
        (answer(200, b"data: " + b"x" * (1 << 21), "text/event-stream"), TableError),
    ],
)
def test_answers_that_end_it(odd: bytes, error: type[Exception]) -> None:
    with fake_service(odd) as service, hs.Client(service.url) as client:
        with pytest.raises(error):
            next(client.events())
        assert len(service.asked) == 1


def test_it_is_closed_from_another_thread() -> None:
    """While it waits for an event that never comes."""
    heard, ended = threading.Event(), threading.Event()

    def wait(connection: socket.socket) -> None:
        told(1)(connection)
        ended.wait(30)

    def listen() -> None:
        for event in events:
            found.append(event["seq"])
            heard.set()
        found.append("the end")

    with fake_service(wait) as service, hs.Client(service.url) as client:
        events = client.events()
        found: list[Any] = []
        reader = threading.Thread(target=listen, daemon=True)
        reader.start()
        assert heard.wait(10)
        events.close()
        reader.join(10)
        assert found == [1, "the end"]
        ended.set()


def test_closed_before_it_began() -> None:
    with fake_service(told(1)) as service, hs.Client(service.url) as client:
        events = client.events()
        events.close()
        assert list(events) == []
        assert not service.asked


EVENTS = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=5)


@given(EVENTS, st.lists(st.integers(1, 20)), st.sampled_from(["\n", "\r\n"]))
def test_events_are_cut_anywhere(events: list[dict[str, str]], sizes: list[int], newline: str) -> None:
    lines = []
    for number, event in enumerate(events):
        lines += [f"event:e{number}", ": a comment", f"data: {json.dumps(event)}", "id: 3", ""]
    raw = "".join(f"{line}{newline}" for line in lines).encode()
    pieces, at = [], 0
    for size in [*sizes, len(raw)]:
        pieces.append(raw[at : at + size])
        at += size
    expected = [{"event": f"e{number}", **event} for number, event in enumerate(events)]
    assert list(parse_events(iter(pieces))) == expected


def test_data_of_several_lines() -> None:
    assert list(parse_events(iter([b'data: {"a":\ndata: 3}\n\n']))) == [{"event": "message", "a": 3}]
