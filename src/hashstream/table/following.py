"""Readers that follow the writer: a thread that reloads an open table, and waiting for a table to be created."""

from __future__ import annotations

import logging
import math
import os
import queue
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from hashstream.table.storage.folder.names import is_table

__all__ = [
    "MAX_STALENESS",
    "Follower",
    "await_table",
    "check_wait",
    "follower_of",
    "no_longer_followed",
    "not_there",
]

log = logging.getLogger("hashstream.table")

MAX_STALENESS = 0.5  # seconds, unless told otherwise
LOOKS = 4  # per `max_staleness`, so that one that is late does not make a call wait
LEAST_REST, LONGEST_REST = 0.001, 3600.0  # seconds between two looks
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds after a look that has failed
FIRST_NAP, LONGEST_NAP = 0.005, 0.1  # seconds between two looks for a folder


class Followed(Protocol):
    """The part of a table that a `Follower` uses."""

    def reload(self) -> bool:
        """See what was committed since; calls `Follower.looked`."""


class Follower:
    """Reloads one table again and again, so that it shows every commit within `max_staleness` seconds.

    It asks the database itself, which takes some 40 microseconds where nothing is new: the commit marker may be older
    than the last commit where it could not be written.

    fresh_until : up to this moment (`time.monotonic`) the table misses nothing that it must not miss.
    error : why the thread could not reload, as a sentence; None after one that did not.
    """

    def __init__(self, max_staleness: float = MAX_STALENESS) -> None:
        self.max_staleness = max_staleness
        self.fresh_until = -math.inf
        self.error: str | None = None
        # Plain locks and queues, which an interrupt (Ctrl-C) cannot leave half-way, as it can an `Event`.
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._running: Any = threading.RLock()  # held by the thread while it runs
        self._thread: threading.Thread | None = None
        self._stopped = True
        self._process = 0

    def start(self, table: Followed) -> None:
        """Begin to look for commits."""
        self._stopped, self._process = False, os.getpid()
        calls = self._calls
        reference = weakref.ref(table, lambda _: calls.put(None))  # the thread ends with the table
        self._thread = threading.Thread(
            target=self._run, args=(reference,), name="hashstream-follow", daemon=True
        )
        self._thread.start()

    def looked(self, begun: float) -> None:
        """Note that the table shows every commit that was acknowledged before `begun` (`time.monotonic`)."""
        self.fresh_until = begun + self.max_staleness
        if self.error is not None:
            self.error = None
            self.wake()  # it may be in a long pause

    def wake(self) -> None:
        """Look now."""
        self._calls.put(None)

    def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stopped = True
        self.wake()
        if self._process == os.getpid():  # a fork has no such thread
            with self._running:
                pass

    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, reference: weakref.ref[Followed]) -> None:
        pause, rest = FIRST_PAUSE, min(self.max_staleness / LOOKS, LONGEST_REST)
        with self._running:
            while not self._stopped:
                begun = time.monotonic()
                failed = self._look(reference)
                if reference() is None:
                    return
                if failed is None:
                    pause = FIRST_PAUSE
                    self._pause(max(LEAST_REST, begun + rest - time.monotonic()))
                elif not self._stopped:
                    level = (
                        logging.DEBUG if failed == self.error else logging.WARNING
                    )  # once, not at every try
                    self.error = failed
                    log.log(level, "following failed, and is tried again in %.1f s: %s", pause, failed)
                    self._pause(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)

    @staticmethod
    def _look(reference: weakref.ref[Followed]) -> str | None:
        """Why it failed. Nothing is left of it that would keep the table alive while the thread waits."""
        table = reference()
        try:
            if table is not None:
                table.reload()
        except Exception as error:  # told by `stats`, and by a call that would be too late
            return str(error) or repr(error)
        return None

    def _pause(self, seconds: float) -> None:
        """Wait, but not once it was called."""
        if not self._stopped:
            with suppress(queue.Empty):
                self._calls.get(timeout=seconds)


def follower_of(
    path: str | os.PathLike[str] | None, mode: str, follow: bool, max_staleness: float | None
) -> Follower | None:
    """The follower that `HashTable.open` was asked for; ValueError where there is nothing to follow."""
    if not follow:
        if max_staleness is not None:
            raise ValueError("max_staleness is for a reader that follows the writer: give follow=True, too")
        return None
    if path is None:
        raise ValueError(
            "a table in memory cannot be followed: no other process writes to it. Leave follow out"
        )
    if mode != "read":
        raise ValueError(
            'follow=True needs mode="read": a writer follows nobody, since it makes every commit itself'
        )
    if max_staleness is None:
        return Follower()
    if not _is_number(max_staleness) or not 0 < max_staleness < math.inf:
        raise ValueError(f"max_staleness must be a positive number of seconds, not {max_staleness!r}")
    return Follower(float(max_staleness))


def no_longer_followed(path: Path | None, process: int) -> str:
    """The sentence about a fork whose copy is older than a following reader may be."""
    return (
        f"{path} is followed by process {process}, of which this one is a fork: here the table no longer sees what is "
        "committed, and is older than max_staleness allows. Fork before it is opened, or start processes afresh "
        '(multiprocessing\'s "spawn"), and open it there.'
    )


def check_wait(wait: float, mode: str) -> None:
    """ValueError where nobody can wait so long, or for nothing."""
    if not _is_number(wait) or not wait >= 0:
        raise ValueError(f"wait must be a number of seconds, at least 0, not {wait!r}")
    if wait and mode != "read":
        raise ValueError('wait is for mode="read": a writer creates the table where there is none')


def await_table(folder: Path, seconds: float) -> bool:
    """Wait up to so long until there is a table in a folder; whether there is."""
    end, nap = time.monotonic() + seconds, FIRST_NAP
    while not is_table(folder):
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(nap, left))
        nap = min(2 * nap, LONGEST_NAP)
    return True


def not_there(path: str | os.PathLike[str] | None, waited: float) -> str:
    """The sentence about a folder that cannot be read, since there is no table in it."""
    if path is None:
        return 'a table in memory cannot be opened with mode="read": None is not a table\'s folder'
    so_far = f" after {waited:g} seconds" if waited else ""
    longer = "a larger wait=" if waited else "wait="
    return (
        f"{path} is not a table yet{so_far}: there is no database in it. To wait until a writer has created it, open "
        f"it with {longer} (seconds)."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
