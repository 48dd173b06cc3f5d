"""`AsyncEvents`: events of a service in an event loop, read by a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from typing import Any, Self

from hashstream.serve.client.event_stream import EventStream

__all__ = ["AsyncEvents"]

MOST_WAITING = 256  # events that the program has not asked for yet; the thread reads no more then

Item = dict[str, Any] | BaseException | None


class AsyncEvents(AsyncIterator[dict[str, Any]]):
    """Events as they happen. `async with` closes the connection at its end; so does `aclose`.

    The thread begins with the first event that is asked for.
    """

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._queue: asyncio.Queue[Item] = asyncio.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._ended = False

    async def __anext__(self) -> dict[str, Any]:
        if self._ended:
            raise StopAsyncIteration
        if self._thread is None:
            # A daemon: a program that ends does not wait for an event that may never come.
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(
                target=self._read, args=(loop,), daemon=True, name="hashstream-events"
            )
            self._thread.start()
        item = await self._queue.get()
        if isinstance(item, dict):
            return item
        self._ended = True
        if item is None:
            raise StopAsyncIteration
        raise item

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        last: Item = None
        try:
            for event in self._stream:
                if not self._put(loop, event):
                    return
        except Exception as error:
            last = error
        self._put(loop, last)

    def _put(self, loop: asyncio.AbstractEventLoop, item: Item) -> bool:
        """Hand an item over, and wait while too many are there; False where nobody asks any more."""
        waiting = self._queue.put(item)
        try:
            asyncio.run_coroutine_threadsafe(waiting, loop).result()
            return True
        except (RuntimeError, CancelledError):  # the loop is closed
            waiting.close()
            return False

    async def aclose(self) -> None:
        """End the iteration."""
        self._ended = True
        self._stream.close()
        while not self._queue.empty():  # so that a thread that waits for room goes on, and ends
            self._queue.get_nowait()
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
