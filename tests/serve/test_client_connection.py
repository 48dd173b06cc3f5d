"""The client's half of HTTP: what it sends, and which answers it understands."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from tests.serve.fake_service import INFO, FakeService, answer, as_json, fake_service, problem

import hashstream as hs
from hashstream.serve.client import connection as connection_module
from hashstream.serve.client import sending
from hashstream.serve.client.connection import Address
from hashstream.serve.client.errors import ServiceUnavailable
from hashstream.table import TableError

TABLES = as_json({"tables": [{"name": "t"}]})


def client(service: FakeService, **more: object) -> hs.Client:
    return hs.Client(service.url, **{"retries": 0, "timeout": 10, **more})  # type: ignore[arg-type]


def test_a_request_is_whole() -> None:
    with fake_service(TABLES) as service, client(service, token="hs_secret") as one:
        assert one.tables() == ["t"]
        (asked,) = service.asked
        assert (asked.method, asked.target, asked.body) == ("GET", "/v1/tables", b"")
        assert asked.headers["host"] == service.url.removeprefix("http://")
        assert asked.headers["authorization"] == "Bearer hs_secret"
        assert asked.headers["user-agent"].startswith("hashstream/")
        assert "idempotency-key" not in asked.headers


def test_a_path_before_the_routes() -> None:
    with fake_service(TABLES) as service, hs.Client(f"{service.url}/search/") as one:
        one.tables()
        assert service.asked[0].target == "/search/v1/tables"


def test_connections_are_kept() -> None:
    with fake_service(TABLES) as service, client(service) as one:
        for _ in range(3):
            one.tables()
        assert [asked.connection for asked in service.asked] == [1, 1, 1]


def chunked(*pieces: bytes, trailer: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x;name=value\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return head + body + b"0\r\n" + trailer + b"\r\n"


BODY = TABLES.partition(b"\r\n\r\n")[2]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (chunked(BODY[:7], BODY[7:]), True),
        (chunked(BODY, trailer=b"X-Sum: 3\r\n"), True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + TABLES, True),
        (TABLES.replace(b"json", b"JSON; charset=utf-8"), True),
        (answer(200, BODY, connection="close"), False),
        (TABLES + as_json({"tables": []}), False),
        (answer(200, BODY).replace(b"HTTP/1.1", b"HTTP/1.0"), False),
    ],
)
def test_answers_in_all_forms(raw: bytes, kept: bool) -> None:
    with fake_service(raw) as service, client(service) as one:
        assert one.tables() == one.tables() == ["t"]
        assert service.connections == (1 if kept else 2)


def test_an_answer_that_ends_with_the_connection() -> None:
    def until_the_end(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\r\n" + BODY)

    with fake_service(until_the_end) as service, client(service) as one:
        assert one.tables() == ["t"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "something else than HTTP/1.1"),
        (b"HTTP/2 200\r\n\r\n", "something else than HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "a header that is not one"),
        (HEAD + b"X-Long: " + b"x" * (1 << 17), "more than 65,536 bytes of headers"),
        (HEAD + b"Content-Length: -3\r\n\r\n", "a Content-Length that is not a number"),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "two values of Content-Length"),
        (HEAD + b"Content-Length: 999999999999\r\n\r\n", "999,999,999,999 bytes or more"),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", "transfer coding 'gzip'"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "a chunk without a size"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n", "longer than it says"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20, "interim answers"),
        (answer(200, b"<html>", "text/html"), "text/html where application/json was asked for"),
        (answer(200, b"[]"), "a list in the place of an object"),
        (answer(200, b"{"), "something else than JSON"),
        (answer(200, b"[" * 100_000), "JSON"),
        (answer(200, b"{}"), "no list of tables"),
        (as_json({"tables": [{"name": 3}]}), "a table without a name"),
    ],
)
def test_answers_that_are_none(raw: bytes, says: str) -> None:
    with fake_service(raw) as service, client(service, retries=3) as one:
        with pytest.raises(TableError, match=r"^the service answered") as error:
            one.tables()
        assert says in str(error.value)
        assert len(service.asked) == 1, "what cannot be understood is not asked again"


def test_an_answer_beyond_the_limit() -> None:
    with fake_service(chunked(*[b" " * 30] * 1000)) as service:
        sender = sending.Sender(service.url, None, timeout=10, retries=0, context=None)
        with pytest.raises(TableError, match="ask for less at once"):
            sender.send(sending.Request("GET", "/"), limit=100)


def test_a_redirect_is_not_followed() -> None:
    with fake_service(TABLES) as other:
        away = answer(307, b"", location=f"{other.url}/v1/tables")
        with (
            fake_service(away) as service,
            client(service, token="hs_secret") as one,
            pytest.raises(TableError, match="redirects to another address"),
        ):
            one.tables()
        assert not other.asked


def test_a_refusal_before_the_body_was_sent() -> None:
    """A service that says no to a large body, and closes the connection, is heard."""
    no = problem("too-large", 413, "the body is larger than 10 bytes", connection="close")

    def refuse(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(no)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 20):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: refuse(listening.accept()[0]), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        sender = sending.Sender(url, None, timeout=10, retries=0, context=None)
        with pytest.raises(ValueError, match="larger than 10 bytes"):
            sender.send(sending.Request("POST", "/", bytes(1 << 24), "application/x-npz"))
        sender.close()
        thread.join(10)


def test_an_answer_that_trickles_is_too_slow() -> None:
    """The timeout is for the whole answer: each byte comes in time, and the last one would come too late."""
    ended = threading.Event()

    def trickle(connection: socket.socket) -> None:
        for byte in TABLES:
            if ended.wait(0.05):
                return
            connection.sendall(bytes([byte]))

    try:
        with (
            fake_service(trickle) as service,
            client(service, timeout=0.5) as one,
            pytest.raises(ServiceUnavailable, match=r"no answer within 0\.5 seconds"),
        ):
            one.tables()
    finally:
        ended.set()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000", "ftp://localhost", "http://", "http://localhost:x", "http://localhost:99999999",
        "http://localhost/?a=1", "http://localhost/#a", "http://local host", "http://localhost\r\nX: y", "", 7,
    ],
)  # fmt: skip
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        hs.Client(url)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="pass token=") as error:
        hs.Client("http://me:geheim@localhost")
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost", "http://localhost"),
        ("https://localhost:443/a/", "https://localhost/a"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    assert str(Address.parse(url)) == shown


@pytest.mark.parametrize("token", ["a b", "a\r\nX: y", "", "ü", 3])
def test_tokens_that_are_none(token: str) -> None:
    with pytest.raises(ValueError, match="a token is a text") as error:
        hs.Client("http://localhost", token)
    assert repr(token) not in str(error.value)


@pytest.mark.parametrize("more", [{"timeout": 0}, {"timeout": "x"}, {"retries": -1}, {"retries": 1.5}])
def test_settings_that_are_none(more: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        hs.Client("http://localhost", **more)  # type: ignore[arg-type]


def test_a_forked_process_opens_its_own_connection() -> None:
    with fake_service(TABLES) as service, client(service) as one:
        one.tables()
        child = os.fork()
        if not child:
            os._exit(0 if one.tables() == ["t"] else 1)
        assert os.waitpid(child, 0)[1] == 0
        one.tables()
        assert [asked.connection for asked in service.asked] == [1, 2, 1]


def test_threads_share_a_client() -> None:
    with fake_service(as_json(INFO)) as service, client(service) as one:
        found: list[object] = []
        threads = [threading.Thread(target=lambda: found.append(one.table("t").name)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["t"] * 20


def test_a_closed_client() -> None:
    with fake_service(as_json(INFO)) as service:
        one = client(service)
        table = one.table("t")
        one.close()
        one.close()
        for call in (one.tables, table.info):
            with pytest.raises(TableError, match="the client is closed"):
                call()


def test_no_more_than_so_many_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_IDLE", 0)
    with fake_service(TABLES) as service, client(service) as one:
        one.tables()
        one.tables()
        assert service.connections == 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_https(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate,
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate, key)
    with fake_service(TABLES, tls=theirs) as service:
        with client(service, tls=ssl.create_default_context(cafile=str(certificate))) as one:
            assert one.tables() == one.tables() == ["t"]
            assert service.connections == 1
        with client(service, retries=5) as stranger, pytest.raises(ServiceUnavailable, match="certificate"):
            stranger.tables()
        assert len(service.asked) == 2


def test_a_body_is_read_into_memory_once() -> None:
    """The pieces of a long body are read into place, across all sizes of pieces."""
    body = b'{"tables": [' + b",".join(b'{"name": "t%d"}' % i for i in range(20_000)) + b"]}"
    assert len(body) > 4 * connection_module.PIECE
    with fake_service(answer(200, body)) as service, client(service) as one:
        assert one.tables() == [f"t{i}" for i in range(20_000)]
