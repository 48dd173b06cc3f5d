"""`Service`: the tables, the threads that work on requests, and who may do what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.types import Scope

from hashstream._machine import cores
from hashstream.serve.catalogue import Catalogue
from hashstream.serve.events import Events
from hashstream.serve.health import EVERY
from hashstream.serve.images import Images
from hashstream.serve.kinds import TableKind
from hashstream.serve.limits import Limits
from hashstream.serve.metrics import Metrics
from hashstream.serve.problems import Problem
from hashstream.serve.served import Served
from hashstream.serve.tokens import SCOPES, TokenFile

__all__ = ["Service"]

log = logging.getLogger("hashstream.serve")

HELD = "hashstream.held"  # in the scope of a request: bytes of its body
LONG_THREADS = 2

P = ParamSpec("P")
R = TypeVar("R")


class Service:
    """Everything that requests share.

    folders : tables, or folders of tables. tokens : where None, everybody who can connect may do everything.
    images : table name -> where its thumbnails come from; None as a name for all others.
    kinds : of folders that are served, beside tables.
    """

    def __init__(
        self,
        folders: list[Path],
        *,
        limits: Limits | None = None,
        tokens: TokenFile | None = None,
        read_only: bool = False,
        images: Mapping[str | None, Images] | None = None,
        kinds: Sequence[TableKind] = (),
    ) -> None:
        self.limits, self.tokens = limits or Limits(), tokens
        self.events = Events(self.limits.listeners)
        self.tables = Catalogue(
            folders,
            limits=self.limits,
            read_only=read_only,
            tell=self.events.tell,
            images=images or {},
            kinds=kinds,
        )
        self.metrics = Metrics(lambda: self.tables)
        self.draining = False
        self._under_way = self._held = 0
        threads = max(4, 2 * cores())
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="hashstream-request")
        self._long = ThreadPoolExecutor(LONG_THREADS, thread_name_prefix="hashstream-long")
        self._background = ThreadPoolExecutor(1, thread_name_prefix="hashstream-background")
        self._tasks: set[asyncio.Task[None]] = set()
        self._measuring: set[str] = set()

    # ---- beginning and end

    async def start(self) -> None:
        """Begin to open the tables, and to measure them now and then."""
        self.events.start()
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(self._background, self.tables.open_all)
        self._tasks.add(asyncio.ensure_future(self._measure(opening)))

    async def _measure(self, opening: asyncio.Future[None]) -> None:
        with suppress(asyncio.CancelledError):
            await opening
            loop = asyncio.get_running_loop()
            while True:
                try:
                    await loop.run_in_executor(self._background, self.tables.look_again)
                    for served in self.tables:
                        await loop.run_in_executor(self._background, served.measure)
                except Exception:
                    log.exception("a measurement failed")
                await asyncio.sleep(EVERY)

    def drain(self) -> None:
        """Take no new requests, and let listeners go; from any thread."""
        self.draining = True
        self.events.close()

    async def stop(self) -> None:
        """Finish the writes that wait, and close the tables."""
        self.drain()
        for task in self._tasks:
            task.cancel()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.tables.close)
        for threads in (self._threads, self._long, self._background):
            threads.shutdown(wait=False, cancel_futures=True)

    @property
    def ready(self) -> bool:
        return self.tables.ready and not self.draining

    # ---- work

    async def work(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in a thread; `Problem` where too many are under way, or it takes too long."""
        return await self._call(self._threads, partial(function, *args, **kwargs))

    async def long_work(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The same for what may take long, in threads that searches do not wait for."""
        return await self._call(self._long, partial(function, *args, **kwargs))

    async def _call(self, threads: ThreadPoolExecutor, function: Callable[[], R]) -> R:
        if self._under_way >= self.limits.concurrent:
            raise Problem(
                "busy", f"{self._under_way} requests are being worked on: try again later", retry_after=1
            )
        self._under_way += 1
        call = asyncio.get_running_loop().run_in_executor(threads, function)
        call.add_done_callback(self._done)  # also where nobody waits any more: the thread still works
        return await self._in_time(call)

    def _done(self, call: asyncio.Future[R]) -> None:
        self._under_way -= 1
        _seen(call)

    async def written(self, future: Future[R]) -> R:
        """Wait until a write is durable."""
        call = asyncio.wrap_future(future)
        call.add_done_callback(_seen)
        return await self._in_time(call)

    async def _in_time(self, call: asyncio.Future[R]) -> R:
        await asyncio.wait(
            (call,), timeout=self.limits.seconds
        )  # which leaves the call alone, unlike `wait_for`
        if not call.done():
            raise Problem(
                "timeout",
                f"the request takes longer than {self.limits.seconds:g} seconds. A write may still be done: repeat it "
                "with the same Idempotency-Key to find out",
                retry_after=5,
            )
        return call.result()

    def later(self, served: Served, function: Callable[[], object]) -> None:
        """Call a function after the answer, at most one per table at a time."""
        if served.name in self._measuring or self.draining:
            return
        self._measuring.add(served.name)

        def run() -> None:
            try:
                function()
            except Exception:
                log.exception("%s: a measurement failed", served.name)
            finally:
                self._measuring.discard(served.name)

        self._background.submit(run)

    # ---- requests

    def authorize(self, request: Request, scope: str) -> None:
        """`Problem` where a request lacks a token of this scope."""
        if self.tokens is None:
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Problem("token", "this service needs a token: send the header Authorization: Bearer TOKEN")
        held = self.tokens.scope_of(token.strip())
        if held is None:
            raise Problem("token", "this token is not known: it may have been revoked")
        if SCOPES.index(held) < SCOPES.index(scope):
            raise Problem("scope", f"this token may {held}, but this request needs the scope {scope}")

    async def body(self, request: Request) -> bytes:
        """The body of a request; `Problem` where it is too large, or comes too slowly."""
        most = self.limits.body_bytes
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > most:
            raise _too_large(most)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    self._hold(request, len(part))
                    parts.append(part)
        except TimeoutError:
            raise Problem(
                "too-slow", f"the body has not arrived within {self.limits.body_seconds:g} seconds"
            ) from None
        return b"".join(parts)

    def _hold(self, request: Request, nbytes: int) -> None:
        """Count the bytes of bodies that are held; `Problem` where all of them together are too many."""
        if self._held + nbytes > self.limits.bodies_bytes:
            raise Problem(
                "busy", "the bodies of other requests fill the memory: try again later", retry_after=1
            )
        self._held += nbytes
        request.scope[HELD] = request.scope.get(HELD, 0) + nbytes

    def release(self, scope: Scope) -> None:
        """After a request: its body is not held any more."""
        self._held -= scope.get(HELD, 0)


def _seen(call: asyncio.Future[Any]) -> None:
    """Take note of an error for which nobody may be waiting any more: asyncio would log it otherwise."""
    if not call.cancelled():
        call.exception()


def _too_large(most: int) -> Problem:
    return Problem("too-large", f"the body is larger than {most:,} bytes: send fewer rows at once")
