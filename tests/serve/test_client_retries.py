"""Attempts: what is sent again, when, and what it is told in the end."""

from __future__ import annotations

import logging
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest
from tests.serve.fake_service import INFO, Answer, FakeService, answer, as_json, fake_service, problem

import hashstream as hs
from hashstream.serve.client import sending
from hashstream.serve.client.errors import NoSuchTable, ServiceUnavailable
from hashstream.serve.client.remote_table import RemoteTable
from hashstream.table.errors import DiskFull, KeyReused, ReadOnly, TableError

STORED = as_json({"stored": 1})
TOKEN = "hs_never_shown"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the client would have slept."""
    found: list[float] = []
    monkeypatch.setattr(sending.time, "sleep", found.append)
    return found


def table_of(service: FakeService, retries: int = 5, timeout: float = 10) -> RemoteTable:
    return hs.Client(service.url, TOKEN, retries=retries, timeout=timeout).table("t")


def store(table: RemoteTable, key: str | None = None) -> None:
    table.add([1], np.zeros((1, 4), np.float32), key=key)


def cut(connection: socket.socket) -> None:
    """The beginning of an answer, and then nothing."""
    connection.sendall(STORED[:-5])


@pytest.mark.parametrize(
    "first",
    [
        None,
        cut,
        problem("too-slow", 408),
        problem("busy", 429, retry_after="1"),
        problem("starting", 503, retry_after="1"),
        problem("closing", 503),
        problem("outcome-unknown", 503, retry_after="1"),
        answer(503, b"upstream", "text/plain"),
    ],
)
def test_a_write_is_repeated_with_its_key(first: Answer, pauses: list[float]) -> None:
    close = as_json(INFO, connection="close")  # so that a lost connection is a new one
    with fake_service(close, first, first, STORED) as service:
        store(table_of(service))
        assert [one.method for one in service.asked] == ["GET", "POST", "POST", "POST"]
        (key,) = set(service.keys[1:])
        assert key is not None
        assert len(key) == 36
        assert len({one.body for one in service.asked[1:]}) == 1
        assert len(pauses) == 2


def test_each_call_has_a_key_of_its_own(pauses: list[float]) -> None:
    with fake_service(as_json(INFO), STORED) as service:
        table = table_of(service)
        store(table)
        store(table)
        store(table, key="mine")
        assert len(set(service.keys[1:])) == 3
        assert service.keys[-1] == "mine"
        assert not pauses


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 201, "a\r\nX: y"])
def test_keys_that_are_none(key: str) -> None:
    with fake_service(as_json(INFO)) as service:
        with pytest.raises(ValueError, match="key must have"):
            store(table_of(service), key)
        assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (problem("body", 400), ValueError),
        (problem("value", 422), ValueError),
        (problem("type", 422), TypeError),
        (problem("token", 401), PermissionError),
        (problem("scope", 403), PermissionError),
        (problem("read-only", 403), ReadOnly),
        (problem("unknown-id", 404), KeyError),
        (problem("no-table", 404), KeyError),
        (problem("not-found", 404), TableError),
        (problem("method", 405), TableError),
        (problem("exists", 409), TableError),
        (problem("table", 409), TableError),
        (problem("key-reused", 409), KeyReused),
        (problem("divergence", 409), hs.DivergenceError),
        (problem("too-large", 413), ValueError),
        (problem("media-type", 415), TableError),
        (problem("internal", 500), TableError),
        (problem("disk-full", 507), DiskFull),
        (problem("something-new", 422), TableError),
    ],
)
def test_a_refusal_is_final(refusal: bytes, error: type[Exception], pauses: list[float]) -> None:
    with fake_service(as_json(INFO), refusal) as service:
        with pytest.raises(error) as raised:
            store(table_of(service))
        assert type(raised.value) in (error, NoSuchTable)
        assert raised.value.args == ("a sentence",)
        assert len(service.asked) == 2
        assert not pauses


@pytest.mark.parametrize(
    ("refusal", "error", "says"),
    [
        (answer(401, b"no", "text/plain"), PermissionError, "is the token right"),
        (answer(403, b"no", "text/plain"), PermissionError, "is the token right"),
        (answer(404, b"no", "text/html"), TableError, "status 404: is there a hashstream service at"),
        (answer(500, b"{", "application/problem+json"), TableError, "status 500"),
        (answer(422, b'{"type": 3, "detail": []}', "application/problem+json"), TableError, "status 422"),
        (answer(422, b"[" * 100_000, "application/problem+json"), TableError, "status 422"),
    ],
)
def test_refusals_of_something_else(refusal: bytes, error: type[Exception], says: str) -> None:
    """Of a proxy in between, say."""
    with fake_service(as_json(INFO), refusal) as service, pytest.raises(error, match=says):
        store(table_of(service))


def test_a_kept_connection_that_was_closed_is_no_attempt(pauses: list[float]) -> None:
    with fake_service(as_json(INFO), None, STORED) as service:
        store(table_of(service, retries=0))
        assert [one.connection for one in service.asked] == [1, 1, 2]
        assert service.keys[1] == service.keys[2]
        assert not pauses


def test_a_new_connection_that_was_closed_is_one(pauses: list[float]) -> None:
    with fake_service(as_json(INFO), None, None, STORED) as service:
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            store(table_of(service, retries=0))
        assert [one.connection for one in service.asked] == [1, 1, 2]


def test_pauses_grow_and_differ(pauses: list[float]) -> None:
    with fake_service(as_json(INFO), problem("busy", 429, "so many wait")) as service:
        with pytest.raises(ServiceUnavailable, match=r"so many wait \(9 attempts\)"):
            store(table_of(service, retries=8))
        assert len(service.asked) == 1 + 9
        longest = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))
        assert len(set(pauses)) == 8


def test_the_service_says_how_long(pauses: list[float]) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=8), usegmt=True)
    odd = [problem("busy", 429, retry_after=text) for text in ("7", date, "soon", "-3")]
    with fake_service(as_json(INFO), *odd, STORED) as service:
        store(table_of(service))
        assert pauses[0] == 7
        assert 5 < pauses[1] <= 8
        assert max(pauses[2:]) < 1


def test_a_service_that_wants_more_time_than_there_is(pauses: list[float]) -> None:
    with fake_service(as_json(INFO), problem("starting", 503, "opening", retry_after="3600")) as service:
        with pytest.raises(ServiceUnavailable, match=r"^opening$"):
            store(table_of(service))
        assert len(service.asked) == 2
        assert not pauses


def test_nobody_listens(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(ServiceUnavailable, match=r"cannot be reached: Connection refused \(3 attempts\)"):
        hs.Client(url, retries=2).tables()
    assert len(pauses) == 2


def test_no_host_of_this_name(pauses: list[float]) -> None:
    with pytest.raises(ServiceUnavailable, match="cannot be reached"):
        hs.Client("http://no-such-host.invalid", retries=1).tables()
    assert len(pauses) == 1


def test_a_service_that_is_silent(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServiceUnavailable, match=r"no answer within 0\.2 seconds \(2 attempts\)"):
            hs.Client(url, timeout=0.2, retries=1).tables()


def test_the_token_is_never_shown(pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hashstream")
    answers: list[Answer] = [
        problem("token", 401),
        problem("busy", 429),
        answer(500, b"x"),
        None,
        b"nonsense\r\n\r\n",
    ]
    shown: list[object] = []
    for odd in answers:
        with fake_service(as_json(INFO, connection="close"), odd) as service:
            client = hs.Client(service.url, TOKEN, retries=1)
            table = client.table("t")
            with pytest.raises(Exception) as error:
                store(table)
            shown += [client, table, table.writer(), vars(client)["_sender"]]
            link: BaseException | None = error.value
            while link is not None:
                shown += [link, *link.args]
                link = link.__cause__ or link.__context__
    assert "attempt 1 failed" in caplog.text
    assert TOKEN not in caplog.text + "".join(f"{one!r}{one!s}" for one in shown)


def test_logs_hold_no_filters(pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hashstream")
    with fake_service(as_json(INFO), problem("busy", 429)) as service, pytest.raises(ServiceUnavailable):
        table_of(service).search(np.zeros((1, 4)), where={"price": 12345})
    assert "POST /v1/tables/t/search: attempt" in caplog.text
    assert "12345" not in caplog.text
