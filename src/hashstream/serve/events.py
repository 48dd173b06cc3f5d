"""`Events`: commits and refreshes, told to everybody who listens, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from hashstream.serve.problems import Problem

__all__ = ["Events"]

MOST_WAITING = 256  # events for a listener that does not read; after that it is let go
HEARTBEAT = 15.0  # seconds after which a comment is sent, so that a connection that is gone is noticed

Event = tuple[str, dict[str, Any]]


class Events:
    """Listeners of a service. `tell` may be called in any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def start(self) -> None:
        """Tell in the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def tell(self, name: str, data: dict[str, Any]) -> None:
        """Send an event to all listeners."""
        if self._loop is not None and self._listeners and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._spread, (name, data))

    def _spread(self, event: Event | None) -> None:
        for queue in list(self._listeners):
            if event is None or queue.qsize() >= MOST_WAITING:
                self._listeners.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(event)

    def close(self) -> None:
        """Let all listeners go; from any thread."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._spread, None)

    def listen(self, table: str | None) -> AsyncIterator[bytes]:
        """The stream for one listener, of one table or of all; `Problem` where there are too many."""
        if self._closed:
            raise Problem("closing", "the service is stopping", retry_after=1)
        if len(self._listeners) >= self._most:
            raise Problem("busy", f"{self._most} listeners are connected: try again later", retry_after=5)
        return self._stream(table)

    async def _stream(self, table: str | None) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners.add(queue)  # not earlier: the stream of a client that is gone never begins, nor ends
        try:
            yield b": listening\n\n"
            while not self._closed:
                try:
                    event = await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if event is None:
                    return
                name, data = event
                if table is None or data.get("table") == table:
                    yield f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
        finally:
            self._listeners.discard(queue)
