"""`Gate`: the outermost layer. It refuses foreign hosts and origins, counts requests, and answers for what fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import MutableMapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hashstream.serve.problems import PROBLEM_JSON, Problem
from hashstream.serve.service import Service

__all__ = ["Gate", "is_loopback"]

log = logging.getLogger("hashstream.serve")

LARGE = 1 << 16  # bytes that fit into the buffers on the way
SAFE = ("GET", "HEAD", "OPTIONS")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Gate:
    """Around the application.

    A service without tokens trusts whoever can connect, which on loopback includes web pages in the user's browser.
    So it answers only requests to a loopback name (a page cannot rebind its own name to it), and takes no changes from
    pages of another origin. origins : those that may, for CORS.
    """

    def __init__(self, app: ASGIApp, service: Service, origins: tuple[str, ...] = ()) -> None:
        self.app, self.service, self.origins = app, service, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        clock, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            if message.get("more_body") or len(message.get("body", b"")) > LARGE:
                async with asyncio.timeout(self.service.limits.seconds):  # for a client that reads nothing
                    await send(message)
            else:
                await send(message)

        metrics = self.service.metrics
        metrics.in_flight.inc()
        try:
            refused = self._refused(Headers(scope=scope), scope["method"])
            if refused is not None:
                await _answer(refused, sending)
            else:
                await self.app(scope, receive, sending)
        except ClientDisconnect:
            status = status or 499
        except TimeoutError:
            log.info("%s %r: the client has not read its answer in time", scope["method"], scope["path"])
            raise
        except Exception:
            log.exception("%s %r failed", scope["method"], scope["path"])
            if status:
                raise
            await _answer(Problem("internal", "the service failed; its log says why"), sending)
        finally:
            self.service.release(scope)
            metrics.in_flight.dec()
            metrics.request(_method(scope), _route(scope), status, time.perf_counter() - clock)

    def _refused(self, headers: Headers, method: str) -> Problem | None:
        host = headers.get("host", "")
        if self.service.tokens is None and not is_loopback(_name(host)):
            return Problem(
                "host", "a service without tokens answers only requests to localhost, 127.0.0.1 or [::1]"
            )
        origin = headers.get("origin")
        guarded = self.service.tokens is None and method not in SAFE  # a browser never adds a token by itself
        if guarded and origin is not None and origin not in self.origins and not _is_own(origin, host):
            return Problem(
                "origin",
                "a page of another origin may not change anything here, unless --cors names it",
            )
        if self.service.draining and method not in SAFE:
            return Problem("closing", "the service is stopping", retry_after=1)
        return None


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_own(origin: str, host: str) -> bool:
    """Whether an Origin header names the host that was asked."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _method(scope: MutableMapping[str, Any]) -> str:
    method: str = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS") else "other"


def _route(scope: MutableMapping[str, Any]) -> str:
    """The route's pattern, never the address itself: a metric per address would grow without bound."""
    return getattr(scope.get("route"), "path", "none")


async def _answer(problem: Problem, send: Send) -> None:
    headers = {"content-type": PROBLEM_JSON, "connection": "close", **problem.headers()}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": problem.body()})
