"""Clients that keep to no rules: bytes on a connection, as they are."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.serve.running import Running

PEAK = Path("/proc/self/clear_refs")


@dataclass
class Reply:
    """The first answer on a connection; status 0 if the connection was closed without one."""

    status: int
    head: str
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@contextmanager
def connected(service: Running, timeout: float = 30.0) -> Iterator[socket.socket]:
    with socket.create_connection((service.host, service.port), timeout) as one:
        yield one


def head(method: str, path: str, *lines: str, host: str = "localhost") -> bytes:
    """The head of a request; its lines as they are."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode("latin-1")


def reply(one: socket.socket) -> Reply:
    """Read until the end of an answer, or of the connection."""
    raw = b""
    try:
        while b"\r\n\r\n" not in raw and (piece := one.recv(65536)):
            raw += piece
        text, _, body = raw.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in text.lower().splitlines() if line.startswith(b"content-length:")),
            None,
        )
        chunked = b"transfer-encoding: chunked" in text.lower()
        while (length is None or len(body) < length) and not (chunked and body.endswith(b"0\r\n\r\n")):
            piece = one.recv(65536)
            if not piece:
                break
            body += piece
    except (ConnectionError, TimeoutError):
        text, _, body = raw.partition(b"\r\n\r\n")
    words = text.decode("latin-1").split(" ", 2)
    if b"transfer-encoding: chunked" in text.lower():
        body = _joined(body)
    return Reply(int(words[1]) if len(words) > 1 else 0, text.decode("latin-1"), body)


def _joined(chunks: bytes) -> bytes:
    """The body in chunks, as far as it has come."""
    body = b""
    while b"\r\n" in chunks:
        size, _, chunks = chunks.partition(b"\r\n")
        body, chunks = body + chunks[: int(size, 16)], chunks[int(size, 16) + 2 :]
    return body


def ask(service: Running, *pieces: bytes) -> Reply:
    """Send pieces, and read the answer."""
    with connected(service) as one:
        for piece in pieces:
            try:
                one.sendall(piece)
            except ConnectionError:
                break
        return reply(one)


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    """The process, service and test together, grows by at most so many bytes at its peak; checked on Linux."""
    if not PEAK.exists():
        yield
        return
    PEAK.write_text("5")
    before = _status("VmHWM")
    yield
    grown = _status("VmHWM") - before
    assert grown <= most, f"memory grew by {grown:,} bytes, more than {most:,}"


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(name)
