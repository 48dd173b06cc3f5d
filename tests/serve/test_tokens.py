"""Who may do what: tokens and scopes on every route of the document, hosts, origins, and files of tokens."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.raw_sockets import ask, connected, head
from tests.serve.running import Running, running
from tests.serve.worlds import fill, table_of
from typer.testing import CliRunner

from hashstream import cli
from hashstream.serve import tokens
from hashstream.serve.server import server_of
from hashstream.serve.service import Service
from hashstream.serve.tokens import SCOPES, TokenFile, add_token, read_tokens, token_hash

OPEN = {"GET /healthz", "GET /readyz"}
T = "/v1/tables/{t}"
NEEDS = {
    "read": [
        *(
            "GET /metrics",
            "GET /v1/events",
            "GET /v1/tables",
            f"GET {T}",
            f"GET {T}/items",
            f"POST {T}/items/get",
        ),
        *(
            f"GET {T}/ids",
            f"POST {T}/ids",
            f"GET {T}/count",
            f"POST {T}/count",
            f"POST {T}/search",
            f"POST {T}/radius",
        ),
        *(
            f"GET {T}/stats",
            f"GET {T}/hasher",
            f"GET {T}/images/{{id}}",
            f"POST {T}/embed",
            f"GET {T}/suggestions",
        ),
        *(f"GET {T}/map", f"GET {T}/teaching", f"GET {T}/health"),
    ],
    "write": [f"POST {T}/{what}" for what in ("items", "items/remove", "labels", "refresh", "flush")],
    "admin": [
        *("POST /v1/tables", f"DELETE {T}", f"POST {T}/fields", f"POST {T}/check", f"POST {T}/compact"),
        f"GET {T}/snapshot",
    ],
}
SCOPE_OF = {route: scope for scope, routes in NEEDS.items() for route in routes}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    """A service with a token for each scope."""
    folder = tmp_path_factory.mktemp("guarded")
    given = {scope: add_token(folder / "tokens", scope, scope) for scope in SCOPES}
    service = running(folder / "tables", token=given["admin"], tokens=TokenFile(folder / "tokens"))
    with service as found:
        fill(found)
        yield found, given


def routes(service: Running) -> list[str]:
    document = service.get("/openapi.json").body
    return [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]


def status(service: Running, route: str, *lines: str) -> tuple[int, str]:
    """The status of a request to a route, and the head of the answer."""
    method, _, path = route.partition(" ")
    path = path.replace("{t}", "nothing" if method == "DELETE" else "a").replace("{id}", "1")
    body = [] if method == "GET" else ["Content-Length: 2", "Content-Type: application/json"]
    with connected(service) as one:
        one.sendall(head(method, path, *lines, *body, "Connection: close") + (b"{}" if body else b""))
        text = one.recv(4096).decode("latin-1")
    return int(text.split()[1]), text


def test_every_route_has_a_scope_here(guarded: tuple[Running, dict[str, str]]) -> None:
    assert set(routes(guarded[0])) == OPEN | set(SCOPE_OF)


def test_every_route_asks_for_its_scope(guarded: tuple[Running, dict[str, str]]) -> None:
    service, given = guarded
    wrong = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer hs_x",
        "Basic aGk6aG8=",
        f"Basic {given['admin']}",
        f"Bearer {given['admin']}x",
        f"Bearer {token_hash(given['admin'])}",
        "Bearer \xff\xfe",
        given["admin"],
    ]
    with connected(service):  # one that says nothing
        for route in routes(service):
            if route in OPEN:
                assert status(service, route)[0] == 200
                continue
            code, text = status(service, route)
            assert (code, "www-authenticate: bearer" in text.lower()) == (401, True), route
            for header in wrong:
                assert status(service, route, f"Authorization: {header}")[0] == 401, (route, header)
            for scope in SCOPES:
                code, text = status(service, route, f"Authorization: Bearer {given[scope]}")
                enough = SCOPES.index(scope) >= SCOPES.index(SCOPE_OF[route])
                assert (code not in (401, 403)) if enough else code == 403, (route, scope, text)
                assert code < 500


def test_no_route_reads_a_body_before_the_token(guarded: tuple[Running, dict[str, str]]) -> None:
    """A stranger is refused at once, and cannot fill the memory."""
    for route in routes(guarded[0]):
        method, _, path = route.partition(" ")
        if method == "POST":
            path = path.replace("{t}", "a")
            found = ask(
                guarded[0], head(method, path, "Content-Type: application/json", "Content-Length: 1000000")
            )
            assert found.status == 401, route


def test_other_addresses_tell_nothing(guarded: tuple[Running, dict[str, str]]) -> None:
    service, _ = guarded
    for path in ("/v1/tables/b", "/v1/tables/a", "/v1/tables/nothing/search"):
        assert service.get(path, headers={"Authorization": ""}).status in (401, 405)
    for path in ("/", "/openapi.json"):
        assert service.get(path, headers={"Authorization": ""}).status == 200


def test_the_kind_of_the_header_has_no_case(guarded: tuple[Running, dict[str, str]]) -> None:
    service, given = guarded
    for kind in ("bearer", "BEARER", "Bearer "):
        assert service.get("/v1/tables", headers={"Authorization": f"{kind} {given['read']}"}).status == 200


def test_tokens_are_told_to_nobody(guarded: tuple[Running, dict[str, str]]) -> None:
    """Neither logs nor errors nor metrics have them, nor their hashes."""
    service, given = guarded
    secrets = [*given.values(), *map(token_hash, given.values()), "hs_of_a_stranger"]
    records: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(logging.Formatter().format(record))

    root, keeping = logging.getLogger(), Keeping(logging.DEBUG)
    before = root.level
    root.addHandler(keeping)
    root.setLevel(logging.DEBUG)
    answers = []
    try:
        for token in (*given.values(), "hs_of_a_stranger"):
            for method, path, body in (
                ("GET", "/v1/tables", None),
                ("GET", f"/v1/tables/a/items?id={token}", None),
                ("POST", "/v1/tables/a/search", b"{"),
                ("POST", "/v1/tables/a/items", b"{}"),
                ("DELETE", "/v1/tables/nothing", None),
                ("GET", "/nothing", None),
            ):
                answers.append(service.ask(method, path, body, token=token))
    finally:
        root.setLevel(before)
        root.removeHandler(keeping)
    answers = [one for one in answers if b"items?id" not in one.raw]
    told = [*records, service.get("/metrics").raw.decode(), service.get("/openapi.json").raw.decode()]
    told += [one.raw.decode() + str(one.headers) for one in answers if b"not in the table" not in one.raw]
    for secret in secrets:
        assert not [text for text in told if secret in text]


def test_a_file_holds_hashes_only(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = add_token(file, "me@home", "write")
    assert made not in file.read_text()
    assert file.read_text() == f"me@home write {token_hash(made)}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    other = add_token(file, "you", "read")
    assert [(one.name, one.scope) for one in read_tokens(file)] == [("me@home", "write"), ("you", "read")]
    assert made != other
    with pytest.raises(ValueError, match="has a token named you"):
        add_token(file, "you", "admin")
    for name, scope in (("a b", "read"), ("", "read"), ("x\n", "read"), ("#x", "read"), ("y", "root")):
        with pytest.raises(ValueError, match=r"cannot name a token|there is no scope"):
            add_token(file, name, scope)


@pytest.mark.parametrize(
    "line", ["x", "a read", "a root " + "0" * 64, "a read 00", "a read " + "0" * 64 + " more", "\x00"]
)
def test_a_damaged_file_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# ours\n\n{line}\n")
    with pytest.raises(ValueError, match="line 3"):
        TokenFile(file)
    file.write_text("# none\n")
    with pytest.raises(ValueError, match="holds no tokens"):
        TokenFile(file)


def test_a_line_that_is_removed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "RECHECK", 0.0)
    file = tmp_path / "tokens"
    mine, yours = add_token(file, "me", "admin"), add_token(file, "you", "admin")
    with running(tmp_path / "tables", token=mine, tokens=TokenFile(file)) as service:
        assert service.get("/v1/tables", token=yours).status == 200
        lines = file.read_text().splitlines(keepends=True)
        file.write_text(lines[0])
        assert service.get("/v1/tables", token=yours).status == 401
        assert service.get("/v1/tables", token=mine).status == 200
        third = add_token(file, "third", "read")
        assert service.get("/v1/tables", token=third).status == 200
        file.write_text("damaged")
        assert service.get("/v1/tables", token=mine).status == 401, "a damaged file lets nobody in"
        file.unlink()
        assert service.get("/v1/tables", token=mine).status == 401
        file.write_text(lines[0])
        assert service.get("/v1/tables", token=mine).status == 200


# ---- without tokens


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service on loopback without tokens; pages of https://ok.example may use it."""
    with running(tmp_path_factory.mktemp("free"), origins=("https://ok.example",)) as service:
        fill(service)
        yield service


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "0.0.0.0",
            "",
            "[::]",
        ),
        *(
            "10.0.0.1",
            "[",
            "a@127.0.0.1.evil",
            "localhost@evil.example",
            "evil.example#localhost",
            "127.0.0.1\\evil",
        ),
    ],
)
def test_foreign_hosts(free: Running, host: str) -> None:
    for route in (
        "GET /v1/tables",
        "GET /",
        "POST /v1/tables/a/search",
        "DELETE /v1/tables/a",
        "OPTIONS /v1/tables",
    ):
        method, _, path = route.partition(" ")
        found = ask(free, head(method, path, "Connection: close", "Content-Length: 0", host=host))
        assert found.status in (400, 403), (route, host)


def test_no_host(free: Running) -> None:
    assert ask(free, b"GET /v1/tables HTTP/1.0\r\n\r\n").status in (400, 403)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:99", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8000"]
)
def test_own_hosts(free: Running, host: str) -> None:
    assert ask(free, head("GET", "/v1/tables", "Connection: close", host=host)).status == 200


ORIGINS = [
    "https://evil.example",
    "null",
    "http://localhost:1",
    "https://ok.example.evil",
    "file://",
    "x",
    "http://[",
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_foreign_origins_change_nothing(free: Running, origin: str) -> None:
    commits = table_of(free).commits
    for method, path in (
        ("POST", "/v1/tables/a/items/remove"),
        ("POST", "/v1/tables/a/flush"),
        ("DELETE", "/v1/tables/a"),
        ("POST", "/v1/tables"),
        ("POST", "/v1/tables/a/search"),
    ):
        for kind in ("text/plain", "application/json", "application/x-www-form-urlencoded"):
            lines = [f"Origin: {origin}", f"Content-Type: {kind}", "Connection: close", "Content-Length: 11"]
            found = ask(free, head(method, path, *lines), b'{"ids":[1]}')
            assert (found.status, found.problem["type"]) == (403, "urn:hashstream:problem:origin")
    assert table_of(free).commits == commits


def test_own_origins(free: Running) -> None:
    own = f"localhost:{free.port}"
    for host, origin in (
        (own, f"http://{own}"),
        (own, "https://ok.example"),
        ("localhost", "http://localhost"),
    ):
        lines = [
            f"Origin: {origin}",
            "Connection: close",
            "Content-Length: 2",
            "Content-Type: application/json",
        ]
        assert ask(free, head("POST", "/v1/tables/a/count", *lines, host=host), b"{}").status == 200


def test_cors_is_off_unless_named(free: Running, guarded: tuple[Running, dict[str, str]]) -> None:
    asks = [
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization",
        "Connection: close",
    ]
    for service, origin, allowed in (
        (free, "https://ok.example", True),
        (free, "https://evil.example", False),
        (guarded[0], "https://ok.example", False),
    ):
        for method, lines in (("OPTIONS", asks), ("GET", ["Connection: close"])):
            found = ask(service, head(method, "/v1/tables", f"Origin: {origin}", *lines))
            assert ("access-control-allow-origin" in found.head.lower()) == allowed, (origin, method)
            assert "access-control-allow-credentials" not in found.head.lower()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", ""])
def test_an_open_address_needs_tokens(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match="needs tokens"):
        server_of(Service([tmp_path]), host=host)


def test_the_command_needs_tokens_for_an_open_address(tmp_path: Path) -> None:
    code, said = run("serve", str(tmp_path / "tables"), "--host", "0.0.0.0", "--port", "0")
    assert code != 0
    assert "needs tokens" in said


def run(*words: str) -> tuple[int, str]:
    """The exit code of a command, and what it prints."""
    done = CliRunner().invoke(cli.app, list(words))
    return done.exit_code, " ".join(done.output.split())


def test_commands_for_tokens(tmp_path: Path) -> None:
    words = ("token", str(tmp_path / "tokens"), "--name", "me", "--scope", "read")
    code, said = run(*words)
    assert code == 0, said
    assert TokenFile(tmp_path / "tokens").scope_of(said) == "read"
    code, said = run(*words)
    assert code != 0
    assert "has a token named me" in said
