"""`Sender`: requests to one service, over connections that are kept, repeated where that is safe and may help."""

from __future__ import annotations

import logging
import os
import random
import re
import ssl
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from hashstream.hashers.validation import check_count, check_number
from hashstream.serve.client.connection import Address, Connection, Head
from hashstream.serve.client.errors import ServiceUnavailable, bad_answer, error_of
from hashstream.table.errors import Closed
from hashstream.table.keys import check_key
from hashstream.versions import __version__

__all__ = [
    "JSON",
    "MAX_ARRAYS",
    "NPY",
    "NPZ",
    "Request",
    "Sender",
    "Stream",
    "TryLater",
    "as_key",
    "check_kind",
    "pause_before",
]

T = TypeVar("T")

log = logging.getLogger("hashstream.client")

AGAIN = (408, 429, 503)
"""Statuses of a service that may do it later."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds; doubled at each attempt
MOST_IDLE = 32  # connections that are kept
MAX_JSON = 1 << 28
MAX_ERROR = 1 << 20
MAX_ARRAYS = 1 << 31
"""Bytes of an answer that are read: of JSON, of a refusal, and of arrays."""

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"

_jitter = random.SystemRandom()  # the program's own numbers stay reproducible


@dataclass(frozen=True)
class Request:
    """A request. path : with its parameters, after the address. kind : media type of the body. accept : that of the
    answer. key : of a write, the same at every attempt."""

    method: str
    path: str
    body: bytes = b""
    kind: str | None = None
    accept: str = JSON
    key: str | None = None

    @property
    def name(self) -> str:
        """For logs: parameters may hold what is confidential."""
        return f"{self.method} {self.path.partition('?')[0]}"


def as_key(key: str | None) -> str:
    """An Idempotency-Key: the given one, checked, or a new one."""
    if key is None:
        return str(uuid.uuid4())
    if not re.fullmatch("[!-~]+", check_key(key)):
        raise ValueError(
            f"key must have visible ASCII characters only, since it becomes a header, not {key!r}"
        )
    return key


@dataclass(eq=False)
class TryLater(Exception):
    """Another attempt may help. reason : the error if there is none. wait : seconds at least. final : it may not."""

    reason: Exception
    wait: float = 0.0
    final: bool = False


@dataclass(frozen=True)
class Stream:
    """The body of an answer. interrupt : lets a thread that waits for the next piece fail at once."""

    pieces: Iterator[bytes | bytearray]
    interrupt: Callable[[], None]


class Sender:
    """Sends requests from any number of threads. A forked process opens connections of its own.

    timeout : seconds of one attempt. retries : further attempts where the service cannot be reached, takes too long,
    or answers that it may do it later (408, 429, 503).
    """

    def __init__(
        self, url: str, token: str | None, *, timeout: float, retries: int, context: ssl.SSLContext | None
    ) -> None:
        check_number("timeout", timeout)
        self.address = Address.parse(url)
        self.timeout, self._attempts = float(timeout), 1 + check_count("retries", retries, 0)
        if token is not None and (not isinstance(token, str) or not re.fullmatch("[!-~]+", token)):
            raise ValueError("a token is a text of visible ASCII characters")
        secure = self.address.scheme == "https"
        self._context = (context or ssl.create_default_context()) if secure else None
        self._always = f"Host: {self.address.authority}\r\nUser-Agent: hashstream/{__version__}\r\n" + (
            f"Authorization: Bearer {token}\r\n" if token else ""
        )
        self._idle: deque[Connection] = deque()  # whose operations need no lock
        self._process = os.getpid()
        self._closed = False

    @property
    def url(self) -> str:
        return str(self.address)

    def __repr__(self) -> str:
        return f"<Sender to {self.url}>"  # without the token

    # ---- requests

    def send(self, request: Request, *, limit: int = MAX_JSON) -> tuple[Head, bytes | bytearray]:
        """Send a request, again where needed, and return the answer, which is one of success.

        Raises what the service's refusal stands for, or `ServiceUnavailable`. limit : bytes of the answer.
        """
        return self.repeat(request, lambda: self._exchange(request, limit))

    def repeat(self, request: Request, attempt: Callable[[], T]) -> T:
        """Call a function that sends a request, until it returns or raises something else than `TryLater`."""
        for number in range(1, self._attempts + 1):
            try:
                return attempt()
            except TryLater as later:
                if number == self._attempts or later.final or later.wait > self.timeout:
                    tried = f" ({number} attempts)" if number > 1 else ""
                    raise type(later.reason)(f"{later.reason}{tried}") from later.__cause__
                self._pause(request, number, later)
        raise AssertionError("there is at least one attempt")

    @contextmanager
    def open(self, request: Request, idle: float) -> Iterator[tuple[Head, Stream]]:
        """One attempt: the head of an answer of success, and its body piece by piece, from a connection of its own.

        `TryLater` where another attempt may help. idle : seconds to wait for the next piece at most.
        """
        self._refuse_if_closed()
        deadline = time.monotonic() + self.timeout
        with self._broken():
            connection = Connection(self.address, deadline, self._context)
        try:
            with self._broken():
                head = connection.send(self._head(request), request.body, deadline)
                body = b"" if 200 <= head.status < 300 else connection.read(head, MAX_ERROR)
            self._check(head, body)
            yield head, Stream(self._pieces(connection, head, idle), connection.interrupt)
        finally:
            connection.close()

    def _pieces(self, connection: Connection, head: Head, idle: float) -> Iterator[bytes | bytearray]:
        with self._broken():
            yield from connection.stream(head, idle)

    def _exchange(self, request: Request, limit: int) -> tuple[Head, bytes | bytearray]:
        """One attempt. A kept connection that the service has closed meanwhile is replaced, which is none."""
        self._refuse_if_closed()
        deadline = time.monotonic() + self.timeout
        start = self._head(request)
        connection = kept = self._kept()
        while True:
            try:
                if connection is None:
                    connection = Connection(self.address, deadline, self._context)
                head = connection.send(start, request.body, deadline)
                body = connection.read(head, limit if head.status < 300 else MAX_ERROR)
            except OSError as error:
                if connection is not None:
                    connection.close()
                slow = isinstance(error, TimeoutError)
                if connection is None or connection is not kept or connection.answered or slow:
                    raise self._unreachable(error) from error
                self.drop()  # the others are as old
                connection = None
                continue
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            if connection.reusable and len(self._idle) < MOST_IDLE and not self._closed:
                self._idle.append(connection)
            else:
                connection.close()
            self._check(head, body)
            return head, body

    def _check(self, head: Head, body: bytes | bytearray) -> None:
        """Raise what an answer stands for that is not one of success."""
        if 200 <= head.status < 300:
            return
        reason = error_of(head, body, self.url)
        raise TryLater(reason, wait=_retry_after(head)) if head.status in AGAIN else reason

    @contextmanager
    def _broken(self) -> Iterator[None]:
        """Errors of a connection, as `TryLater`."""
        try:
            yield
        except OSError as error:
            raise self._unreachable(error) from error

    def _head(self, request: Request) -> bytes:
        lines = [f"{request.method} {self.address.base}{request.path} HTTP/1.1\r\n{self._always}"]
        lines.append(f"Accept: {request.accept}\r\n")
        if request.kind is not None:
            lines.append(f"Content-Type: {request.kind}\r\n")
        if request.key is not None:
            lines.append(f"Idempotency-Key: {request.key}\r\n")
        if request.method != "GET":
            lines.append(f"Content-Length: {len(request.body)}\r\n")
        lines.append("\r\n")
        return "".join(lines).encode("ascii")

    # ---- connections

    def _kept(self) -> Connection | None:
        if self._process != os.getpid():  # those are the parent's: what each sends would reach the other
            self._idle, self._process = deque(), os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def drop(self) -> None:
        """Close the connections that are kept; the next request opens a new one."""
        while (connection := self._kept()) is not None:
            connection.close()

    def close(self) -> None:
        self._closed = True
        self.drop()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Closed("the client is closed")

    # ---- attempts

    def _unreachable(self, error: OSError) -> TryLater:
        slow, untrusted = isinstance(error, TimeoutError), isinstance(error, ssl.SSLCertVerificationError)
        why = f"no answer within {self.timeout:g} seconds" if slow else str(error.strerror or error)
        return TryLater(ServiceUnavailable(f"{self.url} cannot be reached: {why}"), final=untrusted)

    def _pause(self, request: Request, attempt: int, later: TryLater) -> None:
        seconds = max(later.wait, pause_before(attempt))
        log.debug("%s: attempt %d failed (%s); next in %.2f s", request.name, attempt, later.reason, seconds)
        time.sleep(seconds)


def pause_before(attempt: int) -> float:
    """Seconds to wait after the attempt of this number, from 1 on: longer each time, and not the same for everybody."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 30)) * _jitter.uniform(0.5, 1.0)


def _retry_after(head: Head) -> float:
    """Seconds to wait, from the header Retry-After: a number, or a date; 0 without it."""
    text = head.headers.get("retry-after", "")
    if re.fullmatch("[0-9]{1,9}", text):
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def check_kind(head: Head, kind: str, url: str) -> None:
    """TableError where the body of an answer is of another media type."""
    if head.kind != kind:
        raise bad_answer(url, f"{head.kind[:80] or 'nothing'} where {kind} was asked for")
