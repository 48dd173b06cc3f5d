"""The multi-index of a part, built off the search path.

A `Lookup` belongs to a part and to all that come from it by items being added at the end or dying: rows keep their
numbers then. It covers the rows that were there when it was built; those that came later are scanned. It is built in
a thread, once scanning these rows has cost about as much as building it. Nobody waits for it, and where it cannot be
built, everything is scanned.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from dataclasses import dataclass

import numpy as np

from hashstream import hamming

__all__ = ["Covering", "Lookup"]

log = logging.getLogger("hashstream.table")

LEAST = 1 << 17
"""Rows: fewer are scanned in some 30 microseconds."""
BUILDING = 1000
"""A multi-index is built in the time in which so many queries are scanned."""
TAIL = 4
"""It is built again when the rows that it does not cover are one in so many."""

_one_at_a_time = threading.Lock()


def _after_fork() -> None:
    """The thread that held the lock is not there in a child."""
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(eq=False)
class Covering:
    """A multi-index of rows `first` to `last` of a part's buffers. buffer : the one in which it reads codes."""

    index: hamming.MultiIndex
    first: int
    last: int
    buffer: np.ndarray
    _dead: tuple[np.ndarray, np.ndarray] | None = None

    def dead(self, rows: np.ndarray) -> np.ndarray | None:
        """Those of a part's dead rows that are covered, counted from `first`; the same array for the same rows."""
        if not len(rows):
            return None
        held = self._dead
        if held is None or held[0] is not rows:
            held = self._dead = rows, rows[: np.searchsorted(rows, self.last)] - self.first
        return held[1]


class Lookup:
    """The multi-index of a part, when it is there. covering : None before that."""

    def __init__(self) -> None:
        self.covering: Covering | None = None
        self._scanned = 0  # rows, over all queries, that the multi-index does not cover
        self._building = 0  # the process that builds
        self._failed = 0  # rows that could not be indexed, or that are scanned faster

    def scanned(self, codes: np.ndarray, start: int, stop: int, queries: int) -> None:
        """Note that rows start to stop of a buffer were scanned, and have them indexed where that pays."""
        rows = stop - start
        covering = self.covering
        left = rows if covering is None else max(0, stop - covering.last)
        self._scanned += queries * left
        if rows < LEAST or TAIL * left < rows or self._scanned < BUILDING * rows:
            return
        if rows < 2 * self._failed or self._building == os.getpid():  # a fork has no such thread
            return
        self._building = os.getpid()
        given = weakref.ref(self), weakref.ref(codes), start, stop
        work = threading.Thread(target=_build, args=given, name="hashstream-index", daemon=True)
        try:
            work.start()
        except RuntimeError:  # the interpreter is about to end, or there are too many threads
            self._building = 0

    def cover(self, codes: np.ndarray, start: int, stop: int) -> None:
        """Index rows start to stop of a buffer."""
        try:
            index = hamming.MultiIndex(codes[start:stop])
        except Exception as error:  # most likely there is no memory
            self._failed = stop - start
            log.warning("codes are scanned, since they could not be indexed: %r", error)
            return
        if index.substrings:
            self.covering = Covering(index, start, stop, codes)
        else:
            self._failed = stop - start

    def ended(self) -> None:
        """Note that nobody builds any more."""
        self._scanned = 0
        self._building = 0


def _build(lookup: weakref.ref[Lookup], buffer: weakref.ref[np.ndarray], start: int, stop: int) -> None:
    """Index rows of a buffer, one after another; nothing where they were replaced, or are gone, meanwhile."""
    with _one_at_a_time:
        wanted, codes = lookup(), buffer()
        if wanted is not None and codes is not None:
            wanted.cover(codes, start, stop)
    if wanted is not None:
        wanted.ended()
