"""`run`: listen on a port until a signal comes, then finish what is under way and close the tables."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from hashstream.serve.app import create_app
from hashstream.serve.gate import is_loopback
from hashstream.serve.service import Service

__all__ = ["Server", "listening_socket", "run", "server_of"]

log = logging.getLogger("hashstream.serve")

LONGEST_DRAIN = 30  # seconds for requests that are under way when the service is stopped
KEEP_ALIVE = 75  # seconds
HEAD_SECONDS = 20.0  # within which the head of a request has to arrive


def impatient(protocol: Any) -> Any:
    """A protocol of uvicorn that closes connections whose request does not begin, or whose head does not end."""

    class Impatient(protocol):  # type: ignore[misc]
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            between = self.cycle is None or self.cycle.response_complete
            if not between:
                self._heard()
            elif self._patience is None:  # some of the head of a request is there
                self._wait()

        def connection_lost(self, error: Exception | None) -> None:
            self._heard()
            super().connection_lost(error)

        def _wait(self) -> None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self._give_up)

        def _heard(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _give_up(self) -> None:
            self._patience = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Impatient


class Server(uvicorn.Server):
    """Uvicorn, which also lets listeners go when it is stopped: they would be waited for."""

    def __init__(self, service: Service, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second Ctrl-C waits for nothing. Uvicorn's own handler would raise the signal again at the end, so
        that a service which was stopped as it should be would end as if it had been killed."""
        self.force_exit |= self.should_exit and sig == signal.SIGINT
        self.stop()

    def stop(self) -> None:
        """Stop as a signal would; from any thread."""
        self._service.drain()
        self.should_exit = True


def server_of(
    service: Service, *, host: str = "127.0.0.1", port: int = 8000, origins: tuple[str, ...] = ()
) -> Server:
    """A server that is ready to run. ValueError where everybody could reach a service without tokens."""
    if service.tokens is None and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached from elsewhere, so the service needs tokens: create some with `hashstream token "
            "FILE --name NAME --scope read`, and start it with --tokens FILE"
        )
    config = uvicorn.Config(
        create_app(service, origins=origins),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=False,
        limit_concurrency=service.limits.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LONGEST_DRAIN,
        lifespan="on",
    )
    config.load()
    config.http_protocol_class = impatient(config.http_protocol_class)
    return Server(service, config)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound. Its protocol is named: asyncio sets TCP_NODELAY only where it is, and without that an
    answer waits for the client's delayed acknowledgement, some 40 ms."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except BaseException:
        listening.close()
        raise
    return listening


def run(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    origins: tuple[str, ...] = (),
    started: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT. started : called with the address as soon as the port is bound; port 0 is any."""
    server = server_of(service, host=host, port=port, origins=origins)
    with listening_socket(host, port) as listening:
        bound = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{bound}/")
        server.run(sockets=[listening])
