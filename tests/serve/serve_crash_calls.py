"""Connections to a service that is killed again and again, and the gate at which its clients wait meanwhile."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

SLOW = 60.0  # seconds until a request has to be answered while the service lives
RETRY = (429, 503)


class Wrong(AssertionError):
    """The service has broken a promise."""


class Gate:
    """Lets clients pass, or holds all of them; a client whose connection broke waits until it was opened again."""

    def __init__(self, clients: int) -> None:
        self._clients, self._held = clients, 0
        self._changed = threading.Condition()
        self._open, self._openings = False, 0
        self.ending = False

    def open(self) -> None:
        with self._changed:
            self._open, self._openings = True, self._openings + 1
            self._changed.notify_all()

    def close(self, seconds: float = SLOW) -> None:
        """Hold everybody; returns when all clients wait or have ended."""
        with self._changed:
            self._open = False
            if not self._changed.wait_for(lambda: self._held == self._clients, seconds):
                raise Wrong("a client still waits for its answer, after the service is dead")

    def end(self) -> None:
        """Let clients come to their end, once what is under way is acknowledged."""
        self.ending = True
        self.open()

    def leave(self) -> None:
        """A client has ended."""
        with self._changed:
            self._clients -= 1
            self._changed.notify_all()

    def wait(self, after: int) -> int:
        """Pass, once it has been opened more than `after` times; how often it has been opened."""
        with self._changed:
            if not (self._open and self._openings > after):
                self._held += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._open and self._openings > after)
                self._held -= 1
            return self._openings


class Caller:
    """One connection, which is made again after it broke."""

    def __init__(self, port: int, gate: Gate | None = None) -> None:
        self.port, self.gate = port, gate
        self._connection: http.client.HTTPConnection | None = None
        self._broke = 0  # in which opening of the gate

    def send(
        self,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        method: str = "POST",
    ) -> tuple[int, bytes]:
        """Status and body of the answer to one attempt. OSError or HTTPException where the connection breaks."""
        opening = self.gate.wait(self._broke) if self.gate is not None else 0
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SLOW)
            self._connection.request(method, path, body, headers or {})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            self._broke = opening
            if isinstance(error, TimeoutError):
                raise Wrong(f"{path} was not answered within {SLOW:g} seconds") from None
            raise

    def ask(self, path: str, body: Any = None, method: str = "POST") -> Any:
        """The answer to a request that is made once: an error of the connection is the caller's."""
        raw = None if body is None else json.dumps(body).encode()
        status, answer = self.send(path, raw, {"Content-Type": "application/json"}, method)
        if status in RETRY:
            raise ConnectionResetError(f"{path} is answered with {status}")
        if status not in (200, 204):
            raise Wrong(f"{path} is answered with {status}: {answer!r}")
        return json.loads(answer) if answer else None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
