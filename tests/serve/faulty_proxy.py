"""A proxy that loses requests and answers, as a network does."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

Fault = Literal["none", "request lost", "answer lost", "answer cut", "silence"] | Callable[[], None]
"""What happens to a request: it never arrives; it is done, and its answer is lost, or cut off; or it is done, and the
answer is held back for longer than the client waits. A function is called in the place of the answer."""


@dataclass
class FaultyProxy:
    """A proxy to one service. plan : the faults of the requests that come, in their order; none after its end."""

    upstream: tuple[str, int]
    plan: Iterator[Fault]
    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with suppress(OSError), client, client.makefile("rb") as requests:
            while request := read_message(requests):
                with self._lock:
                    fault = next(self.plan, "none")
                    self.faults.append(fault)
                if fault == "request lost":
                    return
                answer = self._ask(request)
                if callable(fault):
                    fault()
                    return
                if fault == "silence":
                    self.ended.wait(60)  # the client gives up first
                    return
                if fault != "none":
                    client.sendall(answer[: len(answer) // 2] if fault == "answer cut" else b"")
                    return
                client.sendall(answer)

    def _ask(self, request: bytes) -> bytes:
        with socket.create_connection(self.upstream) as service, service.makefile("rb") as answers:
            service.sendall(request)
            return read_message(answers)


def read_message(file: BinaryIO) -> bytes:
    """A request or an answer, with its body; empty at the end."""
    head = b""
    while line := file.readline():
        head += line
        if line == b"\r\n":
            break
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    return head + (file.read(int(length[1])) if length else b"")


@contextmanager
def faulty_proxy(upstream: tuple[str, int], plan: Iterator[Fault]) -> Iterator[FaultyProxy]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = FaultyProxy(upstream, plan, f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread = threading.Thread(target=proxy.serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.ended.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            thread.join(10)
