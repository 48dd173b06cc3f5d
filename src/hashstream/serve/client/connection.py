"""One connection to a service: a request goes out and its answer comes in, both before a deadline.

HTTP/1.1 as far as a client needs it. `http.client` has a timeout per read, not per request, sends a head and its body
in two packets, and takes four times as long for a small answer.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from hashstream.table.errors import TableError

__all__ = ["Address", "Connection", "Head"]

MAX_HEAD = 1 << 16  # bytes
MAX_LINE = 1 << 10  # of a chunk's size
MAX_INTERIM = 8  # answers before the one that counts
PIECE = 1 << 16
ONE_PACKET = 1 << 16  # bytes of a body that is sent together with its head

STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*)")
SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


@dataclass(frozen=True)
class Address:
    """The address of a service. base : what comes before every path, such as "/search"."""

    scheme: str
    host: str
    port: int
    base: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """
        >>> str(Address.parse("http://localhost:8000/search/"))
        'http://localhost:8000/search'
        """
        if not isinstance(url, str) or re.search(r"[^!-~]", url):
            raise ValueError(
                "the address of a service is a text such as http://localhost:8000, without spaces"
            )
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise ValueError("the address of a service has no user name or password in it: pass token=")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{url} is not an address: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url} is not the address of a service, such as http://localhost:8000")
        usual = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, usual if port is None else port, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """Host and port, for the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.base}"


@dataclass(frozen=True)
class Head:
    """Status and headers of an answer, their names in lower case."""

    status: int
    headers: dict[str, str]

    @property
    def kind(self) -> str:
        """The media type of its body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Connection:
    """An open connection. Times are of `time.monotonic`; OSError where it breaks, TimeoutError at the deadline, and
    TableError for an answer that is not HTTP. After an error it is of no use, and has to be closed.

    answered : whether any byte of the present answer has come. reusable : whether another request may follow.
    """

    def __init__(self, address: Address, deadline: float, context: ssl.SSLContext | None) -> None:
        sock = socket.create_connection((address.host, address.port), max(1e-3, deadline - time.monotonic()))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock = sock if context is None else context.wrap_socket(sock, server_hostname=address.host)
        except BaseException:
            sock.close()
            raise
        self._held = bytearray()  # bytes that have come, and were not asked for yet
        self._deadline = deadline
        self._idle: float | None = (
            None  # seconds between two pieces of a stream, in the place of the deadline
        )
        self.answered = self.reusable = False

    def send(self, head: bytes, body: bytes, deadline: float) -> Head:
        """Send a request, and return the head of its answer; its body has to be read next."""
        self._deadline, self._idle = deadline, None
        self.answered = self.reusable = False
        failed: OSError | None = None
        try:
            self._sock.settimeout(self._left())
            if len(body) <= ONE_PACKET:
                self._sock.sendall(head + body)
            else:
                self._sock.sendall(head)
                self._sock.sendall(body)
        except TimeoutError:
            raise
        except OSError as error:  # a service that refuses a body closes the connection, and may have said why
            failed = error
        try:
            return self._read_head()
        except OSError as error:
            raise failed or error from None

    def read(self, head: Head, limit: int) -> bytes | bytearray:
        """The body of an answer; TableError where it has more bytes than `limit`."""
        length = self._length(head)
        if length is not None:
            if length > limit:
                raise _too_large(length, limit)
            body = self._exactly(length)
        else:
            body = bytearray()
            for piece in self._pieces(head):
                body += piece
                if len(body) > limit:
                    raise _too_large(len(body), limit)
        self.reusable = self._goes_on(head) and not self._held  # or they would begin the next answer
        return body

    def stream(self, head: Head, idle: float) -> Iterator[bytes | bytearray]:
        """The body of an answer piece by piece, as it comes. idle : seconds to wait for the next piece at most."""
        self._idle = idle
        length = self._length(head)
        if length is None:
            yield from self._pieces(head)
            return
        while length:
            piece = self._exactly(min(length, PIECE))
            length -= len(piece)
            yield piece

    def close(self) -> None:
        self._sock.close()

    def interrupt(self) -> None:
        """Let a read that waits in another thread fail at once."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    # ---- bodies

    def _length(self, head: Head) -> int | None:
        """Bytes of the body; None where only its end says so."""
        if head.status in (204, 304):
            return 0
        if "transfer-encoding" in head.headers:
            return None
        text = head.headers.get("content-length")
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,18}", text):
            raise TableError("the service answered with a Content-Length that is not a number")
        return int(text)

    def _goes_on(self, head: Head) -> bool:
        framed = ("content-length" in head.headers) != ("transfer-encoding" in head.headers)
        return head.headers.get("connection", "").lower() != "close" and (framed or head.status in (204, 304))

    def _pieces(self, head: Head) -> Iterator[bytes | bytearray]:
        coding = head.headers.get("transfer-encoding", "").lower()
        if coding == "chunked":
            while size := self._chunk_size():
                while size:
                    piece = self._exactly(min(size, PIECE))
                    size -= len(piece)
                    yield piece
                if self._line(MAX_LINE):
                    raise TableError("the service answered with a chunk that is longer than it says")
            read = 0
            while line := self._line(MAX_LINE):  # trailers
                read += len(line)
                if read > MAX_HEAD:
                    raise TableError("the service answered with more trailers than a client reads")
        elif coding:
            raise TableError(f"the service answered in the transfer coding {coding[:40]!r}, which is unknown")
        else:
            if self._held:
                held, self._held = self._held, bytearray()
                yield held
            while more := self._receive():
                yield more

    def _chunk_size(self) -> int:
        size = SIZE.fullmatch(self._line(MAX_LINE))
        if size is None:
            raise TableError("the service answered with a chunk without a size")
        return int(size[1], 16)

    # ---- heads

    def _read_head(self) -> Head:
        for _ in range(MAX_INTERIM):
            while (end := self._held.find(b"\r\n\r\n")) < 0:
                if len(self._held) > MAX_HEAD:
                    raise TableError(f"the service answered with more than {MAX_HEAD:,} bytes of headers")
                self._more()
            lines = bytes(self._held[:end]).split(b"\r\n")
            del self._held[: end + 4]
            found = STATUS.fullmatch(lines[0])
            if found is None:
                raise TableError("the service answered with something else than HTTP/1.1")
            head = Head(int(found[2]), _headers(lines[1:]))
            if found[1] == b"0":
                head.headers.setdefault("connection", "close")
            if head.status == 101 or head.status >= 200:
                return head
        raise TableError(f"the service answered with {MAX_INTERIM} interim answers")

    # ---- bytes

    def _line(self, limit: int) -> bytes:
        while (end := self._held.find(b"\r\n")) < 0:
            if len(self._held) > limit:
                raise TableError("the service answered with a chunk without a size")
            self._more()
        line = bytes(self._held[:end])
        del self._held[: end + 2]
        return line

    def _exactly(self, n: int) -> bytearray:
        held = self._held
        if len(held) >= n:
            self._held = held[n:]
            del held[n:]
            return held
        self._held, have = bytearray(), len(held)
        body = bytearray(n)
        body[:have] = held
        with memoryview(body) as view:
            while have < n:
                self._sock.settimeout(self._left())
                got = self._sock.recv_into(view[have:])
                if not got:
                    raise ConnectionResetError("the connection was closed in the middle of an answer")
                have += got
        return body

    def _more(self) -> None:
        piece = self._receive()
        if not piece:
            raise ConnectionResetError("the connection was closed before the end of an answer")
        self._held += piece

    def _receive(self) -> bytes:
        self._sock.settimeout(self._left())
        piece = self._sock.recv(PIECE)
        self.answered |= bool(piece)
        return piece

    def _left(self) -> float:
        """Seconds until the deadline."""
        if self._idle is not None:
            return self._idle
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


def _headers(lines: list[bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        field = FIELD.fullmatch(line)
        if field is None:
            raise TableError("the service answered with a header that is not one")
        name, value = field[1].decode("ascii").lower(), field[2].decode("latin-1").strip()
        if name == "content-length" and found.get(name, value) != value:
            raise TableError("the service answered with two values of Content-Length")
        found[name] = value
    return found


def _too_large(size: int, limit: int) -> TableError:
    return TableError(
        f"the service answered with {size:,} bytes or more, and {limit:,} are read: ask for less at once"
    )
