"""Calls of many threads that are sent as one.

While a batch is away, the calls that come meanwhile wait and form the next one. Those who got their answers of the last
batch often call again at once, so the next one is held back for up to 2 ms until it is as large. A single caller is
never delayed, and the more callers there are, the larger the batches. A call that has waited too long for the others
is sent alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

__all__ = ["Batcher"]

R = TypeVar("R")

HELD_BACK = 0.002  # seconds
KEPT = 64  # queues that nobody uses


class _Call(Generic[R]):
    """Rows of one caller, and what became of them."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.result: R | None = None
        self.error: BaseException | None = None
        self.done = False
        self.chosen = False  # to lead the next batch
        self._asleep = threading.Lock()  # cheaper than an Event, of which there would be one per call
        self._asleep.acquire()

    def sleep(self, seconds: float | None = None) -> bool:
        """Wait for the next `wake`; one that came before counts. False if none came in time."""
        return self._asleep.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """Called twice at most: to lead the next batch, and with the outcome."""
        self._asleep.release()


class _Queue(Generic[R]):
    """Calls that may be sent together. led : whether one of them leads a batch. last : calls of the last batch.
    filled : set when as many are waiting."""

    def __init__(self) -> None:
        self.waiting: deque[_Call[R]] = deque()
        self.led = False
        self.last = 1
        self.filled = threading.Event()


class Batcher(Generic[R]):
    """Gathers calls with equal arguments into batches.

    split : the parts of a batch's result that belong to its calls, given the result and the number of rows of each.
    rows : of a batch at most. One batch of equal arguments is under way at a time. Calls of at least half as many rows
        are sent alone and at once: they gain nothing from others.
    """

    def __init__(self, split: Callable[[R, list[int]], list[R]], *, rows: int = 1024) -> None:
        self._split, self._rows = split, rows
        self._lock = threading.Lock()
        self._queues: dict[Hashable, _Queue[R]] = {}

    def call(
        self,
        key: Hashable,
        rows: np.ndarray,
        send: Callable[[np.ndarray], R],
        *,
        patience: float | None = None,
    ) -> R:
        """The result for these rows: of `send` for them and for those of others with an equal key.

        rows : (n, d), of one dtype and d per key. send : the same function for all of a key. What it raises, is raised
        in all callers of its batch. After a ValueError or TypeError, each call is sent alone: the rows of one may be
        wrong, and the others get their answers. patience : seconds to wait for other batches; then the call is sent
        alone. So it takes at most as much longer than `send`, even if others get no answer.

        A call of the main thread is sent alone: an interrupt (Ctrl-C) may end it at any point, and nobody else waits.
        """
        if threading.current_thread() is threading.main_thread() or 2 * len(rows) >= self._rows:
            return send(rows)
        mine: _Call[R] = _Call(rows)
        with self._lock:
            queue = self._queue(key)
            queue.waiting.append(mine)
            if len(queue.waiting) >= queue.last:
                queue.filled.set()
            leads = not queue.led
            queue.led = True
        while not mine.done:
            if not leads:
                if not mine.sleep(patience):
                    if self._withdrawn(queue, mine):
                        return send(rows)
                    mine.sleep()  # it was taken, or chosen to lead, just now
                leads = not mine.done  # woken to lead the next batch
            if leads:
                self._lead(queue, mine, send)
                leads = False
        if mine.error is not None:
            raise mine.error
        assert mine.result is not None
        return mine.result

    def waiting(self, key: Hashable) -> int:
        """Calls with this key that have not been sent."""
        with self._lock:
            queue = self._queues.get(key)
            return 0 if queue is None else len(queue.waiting)

    def _queue(self, key: Hashable) -> _Queue[R]:
        found = self._queues.get(key)
        if found is None:
            if len(self._queues) >= KEPT:
                busy = {key: queue for key, queue in self._queues.items() if queue.led or queue.waiting}
                self._queues = busy
            found = self._queues[key] = _Queue()
        return found

    def _withdrawn(self, queue: _Queue[R], call: _Call[R]) -> bool:
        """Take a waiting call back, unless it is to lead; whether it was."""
        with self._lock:
            if call.chosen or call not in queue.waiting:
                return False
            queue.waiting.remove(call)
            return True

    def _lead(self, queue: _Queue[R], mine: _Call[R], send: Callable[[np.ndarray], R]) -> None:
        """Send the first batch of a queue, and let the first call of the next one lead that."""
        batch: list[_Call[R]] = []
        try:
            if queue.last > 1:
                queue.filled.wait(HELD_BACK)
            self._take(queue, batch)
            self._do(batch, send)
        except BaseException as error:
            for call in batch:
                call.error = error
            raise
        finally:
            with self._lock:
                if mine in queue.waiting:  # something was raised before it was taken
                    queue.waiting.remove(mine)
                successor = queue.waiting[0] if queue.waiting else None
                if successor is None:
                    queue.led = False
                else:
                    successor.chosen = True
            if successor is not None:
                successor.wake()
            for call in batch:
                call.done = True
                call.wake()

    def _take(self, queue: _Queue[R], batch: list[_Call[R]]) -> None:
        """Move the first calls of a queue into a batch."""
        with self._lock:
            total = 0
            while queue.waiting and (not batch or total + len(queue.waiting[0].rows) <= self._rows):
                batch.append(queue.waiting.popleft())
                total += len(batch[-1].rows)
            queue.last = len(batch)
            if len(queue.waiting) < queue.last:
                queue.filled.clear()

    def _do(self, batch: list[_Call[R]], send: Callable[[np.ndarray], R]) -> None:
        try:
            if len(batch) == 1:
                batch[0].result = send(batch[0].rows)
                return
            counts = [len(call.rows) for call in batch]
            try:
                found = send(np.concatenate([call.rows for call in batch]))
            except (ValueError, TypeError):  # whose rows are wrong is told by sending each call alone
                for call in batch:
                    self._do([call], send)
                return
            parts = self._split(found, counts)
            for call, part in zip(batch, parts, strict=True):
                call.result = part
        except BaseException as error:
            for call in batch:
                call.error = error
