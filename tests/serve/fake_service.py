"""A service that answers as it is told, byte by byte, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from hashstream.serve.npz import npz_bytes

T = TypeVar("T")

Answer = bytes | Callable[[socket.socket], None] | None
"""Bytes, a function that sends something, or None: the connection is closed without a word."""

INFO = {
    "name": "t",
    "method": "FCOH",
    "n_bits": 64,
    "n_features": 4,
    "ids": "int",
    "fields": {"price": "int"},
}


@dataclass(frozen=True)
class Asked:
    """A request. connection : the number of the connection that it came on."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class FakeService:
    """answers : to the requests in their order; the last one is repeated."""

    answers: list[Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def keys(self) -> list[str | None]:
        """The Idempotency-Key of each request."""
        return [one.headers.get("idempotency-key") for one in self.asked]

    def serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=(connection, self.connections), daemon=True).start()

    def _talk(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as file:
            while line := file.readline():
                method, target, _ = line.decode().split()
                headers = {}
                while (line := file.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = file.read(int(headers.get("content-length", 0)))
                self.asked.append(Asked(method, target, headers, body, number))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    return
                if isinstance(answer, bytes):
                    connection.sendall(answer)
                    if b"connection: close" in answer.lower():
                        return
                else:
                    answer(connection)
                    return


@contextmanager
def fake_service(*answers: Answer, tls: ssl.SSLContext | None = None) -> Iterator[FakeService]:
    """A service on loopback with these answers."""
    with socket.create_server(("127.0.0.1", 0)) as plain:
        listening = plain if tls is None else tls.wrap_socket(plain, server_side=True)
        port = listening.getsockname()[1]
        scheme = "http" if tls is None else "https"
        service = FakeService(list(answers), f"{scheme}://127.0.0.1:{port}")
        thread = threading.Thread(target=service.serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield service
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            thread.join(10)


def run_async(session: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: tests with a browser leave a running loop in the main thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, session).result()


def answer(
    status: int = 200, body: bytes | str = b"{}", kind: str = "application/json", **headers: str
) -> bytes:
    """An answer with a Content-Length. headers : with _ for -."""
    raw = body.encode() if isinstance(body, str) else body
    more = {"Content-Type": kind, "Content-Length": str(len(raw))}
    more |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in more.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def as_json(value: Any, status: int = 200, **headers: str) -> bytes:
    return answer(status, json.dumps(value), **headers)


def problem(name: str, status: int, detail: str = "a sentence", **headers: str) -> bytes:
    """A refusal."""
    body = {"type": f"urn:hashstream:problem:{name}", "title": "x", "status": status, "detail": detail}
    return answer(status, json.dumps(body), "application/problem+json", **headers)


def arrays(rest: Any = None, **named: np.ndarray) -> bytes:
    """An answer in arrays; `rest` is everything else."""
    text = json.dumps({} if rest is None else rest)
    return answer(200, npz_bytes({**named, "json": np.array(text)}), "application/x-npz")
