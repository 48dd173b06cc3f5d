"""A thread that refreshes an open table, for the policy `Lazy`."""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, Protocol

__all__ = ["Refresher"]

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds after a refresh has failed
LONGEST_REST = 3600.0  # seconds after one that has not, however small the share of a core


class Refreshable(Protocol):
    """The part of a table that a `Refresher` uses."""

    def refresh(self, budget: int | None = None) -> int:
        """Re-encode at most `budget` stale items; how many there were."""


class Refresher:
    """Refreshes one table piece by piece while it has stale items; then waits for the next ingest.

    share : of one core, between 0 and 1. piece : rows at a time.
    error : why the last piece failed; None after one that did not.
    """

    def __init__(self, share: float, piece: int) -> None:
        self.share, self.piece = share, piece
        self.error: Exception | None = None
        # Plain locks and queues, which an interrupt (Ctrl-C) cannot leave half-way, as it can an `Event`.
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._running: Any = threading.RLock()  # held by the thread while it runs
        self._thread: threading.Thread | None = None
        self._stopped = True
        self._process = 0

    def start(self, table: Refreshable) -> None:
        """Begin with the items that are stale already."""
        self._running = threading.RLock()  # in a fork, the old one is held by a thread that is not there
        self._stopped, self._process = False, os.getpid()
        self._calls.put(None)
        self._thread = threading.Thread(
            target=self._run, args=(weakref.ref(table),), name="hashstream-refresh", daemon=True
        )
        self._thread.start()

    @property
    def running(self) -> bool:
        return not self._stopped

    def wake(self, table: Refreshable) -> None:
        """Look for stale items: something was ingested. In a fork of the process, begin again."""
        if self._process != os.getpid() and not self._stopped:
            self.start(table)
        self._calls.put(None)

    def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stopped = True
        self._calls.put(None)
        if self._process == os.getpid():  # a fork has no such thread
            with self._running:
                pass

    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, reference: weakref.ref[Refreshable]) -> None:
        pause = FIRST_PAUSE
        with self._running:
            while not self._stopped:
                called = self._wait()
                table = reference()
                if table is None or self._stopped:
                    return
                if not called:
                    del table  # a reference that is held while this thread waits would keep the table alive
                    continue
                start = time.perf_counter()
                try:
                    done = table.refresh(budget=self.piece)
                except Exception as error:  # told by `stats`, since nobody waits for this thread
                    self.error = error.with_traceback(None)  # which would keep the table alive
                    del table
                    self._pause(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    self._calls.put(None)
                    continue
                self.error, pause = None, FIRST_PAUSE
                spent = time.perf_counter() - start
                del table
                if done:
                    self._pause(min(spent * (1 / self.share - 1), LONGEST_REST))
                    self._calls.put(None)

    def _pause(self, seconds: float) -> None:
        """Wait, but not once it has to stop."""
        end = time.monotonic() + seconds
        while not self._stopped and (left := end - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._calls.get(timeout=left)

    def _wait(self) -> bool:
        """Wait up to a second for an ingest; whether there was one."""
        try:
            self._calls.get(timeout=1.0)
        except queue.Empty:
            return False
        return True
