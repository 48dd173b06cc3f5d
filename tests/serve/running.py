"""A service on loopback, in a thread of the test, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hashstream.serve.server import Server, server_of
from hashstream.serve.service import Service


@dataclass
class Answer:
    """What came back: the body parsed where it is JSON."""

    status: int
    headers: dict[str, str]
    raw: bytes
    body: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        if "json" in self.headers.get("content-type", ""):
            self.body = json.loads(self.raw)


@dataclass
class Running:
    """A service that runs, and its address."""

    service: Service
    server: Server
    host: str
    port: int
    token: str | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        token: str | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        head = {"Connection": "close"}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            head["Content-Type"] = "application/json"
        if token or self.token:
            head["Authorization"] = f"Bearer {token or self.token}"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {**head, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Answer:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.ask("POST", path, {} if body is None else body, **more)


@contextmanager
def running(
    *folders: Path, token: str | None = None, origins: tuple[str, ...] = (), **settings: Any
) -> Iterator[Running]:
    """Serve folders on a free port of 127.0.0.1 until the block ends. settings : of `Service`."""
    service = Service(list(folders), **settings)
    server = server_of(service, port=0, origins=origins)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        end = time.monotonic() + 60
        while not (server.started and service.ready):
            assert thread.is_alive(), "the service ended early"
            assert time.monotonic() < end, "the service does not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Running(service, server, "127.0.0.1", port, token)
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive(), "the service does not stop"
