"""One thread at a time in an object that may be closed, interrupted and forked at any moment."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from types import CodeType, FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

from hashstream.table.errors import Closed, ReadOnly

__all__ = ["Guarded", "change", "exclusively", "inside"]

P = ParamSpec("P")
R = TypeVar("R")

Method = Callable[Concatenate[Any, P], R]


class Guarded(ABC):
    """Base class of `HashTable`: locks, interrupts and forks. A subclass defines the abstract methods.

    survives : whether it is stored outside this process. If so, a forked process may only search it; if not, the fork
    has a copy of its own.
    """

    def __init__(self, *, write: bool, survives: bool) -> None:
        self._write = write
        self._lock: Any = threading.RLock()  # the writer's
        self._publish = threading.Lock()  # held for the exchange of the state, and by who looks up ids in it
        self._at_work = False  # whether a thread writes
        self._close_later = False  # whether the writing thread has asked for it, in the handler of a signal
        self._open, self._closed = True, False  # `_closed` once `close` has come to its end
        self._torn = False  # whether the process was forked in the middle of a change
        self._process = os.getpid()
        if not survives:
            _in_memory.add(self)

    @abstractmethod
    def _close_now(self, *, writing: bool) -> None:
        """Release everything, while holding the writer's lock. writing : whether to write a checkpoint first."""

    @abstractmethod
    def _before_close(self) -> None:
        """Called first, without the lock: whatever holds it in another thread may have to end."""

    @abstractmethod
    def _refuse_in_fork(self, process: int) -> None:
        """TableError where a process that was forked from `process` must not use this object."""

    def close(self) -> None:
        """Write a checkpoint and release the folder. A closed table cannot be used.

        In the handler of a signal that came in the middle of a change, the table is closed when the change is done.
        If this call is interrupted, call it again.
        """
        if self._closed:
            return
        if os.getpid() != self._process:
            self._open = False  # the rest is the parent's
            return
        if (
            self._lock._is_owned() or self._is_inside()
        ):  # the handler of a signal: see `exclusively` and `inside`
            self._close_later = True
            return
        self._before_close()
        with self._lock:
            try:
                self._close_now(writing=self._open and self._write)
            finally:
                self._open = False
            self._closed = True

    def _is_inside(self) -> bool:
        """Whether this thread is in the middle of a method under `inside`, as the handler of a signal may find it.

        The stack is asked: a note of our own may be lost to an interrupt.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in _inside and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def _refuse_if_closed(self) -> None:
        if not self._open:
            raise Closed("the table is closed")

    def _refuse_if_forked(self) -> None:
        """TableError in a process that has inherited a stored table: there, it can only be searched."""
        if os.getpid() != self._process:
            self._refuse_in_fork(self._process)

    def _refuse_if_not_writable(self) -> None:
        self._refuse_if_closed()
        if not self._write:
            raise ReadOnly('the table was opened with mode="read"; open it with mode="write" to change it')

    def _go_on_in_fork(self) -> None:
        """In a forked process, which has none of the threads that held the locks. Where one was changing the table, the
        copy is half-way."""
        self._lock, self._publish = threading.RLock(), threading.Lock()
        self._torn |= self._at_work
        self._at_work, self._process = False, os.getpid()


_inside: set[CodeType] = set()  # of methods under `inside`
_in_memory: weakref.WeakSet[Guarded] = weakref.WeakSet()


def _after_fork() -> None:
    for table in list(_in_memory):
        table._go_on_in_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def inside(method: Method[P, R]) -> Method[P, R]:
    """A method that takes other locks than the writer's. Where the handler of a signal asks to close the table then,
    that is done when the method has returned: the writer may wait for such a lock, and `close` waits for the writer."""
    _inside.add(method.__code__)

    @wraps(method)
    def calling(table: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(table, *args, **kwargs)
        finally:
            if table._close_later:
                table.close()

    return calling


def exclusively(method: Method[P, R]) -> Method[P, R]:
    """A method that holds the writer's lock.

    The lock is taken here and not in a context manager of our own: one that is written in Python may be interrupted
    between taking a lock and saying so. Where the handler of a signal has asked to close the table meanwhile, that is
    done when the lock is free: `close` may wait for a thread in the background that waits for the lock.
    """

    @wraps(method)
    def alone(table: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with table._lock:
                return method(table, *args, **kwargs)
        finally:
            if table._close_later:
                table.close()

    return alone


def change(method: Method[P, R]) -> Method[P, R]:
    """A method that changes the table: exclusively, and only where the table can be changed."""

    @exclusively
    @wraps(method)
    def changing(table: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        busy, table._at_work = table._at_work, True
        try:
            table._refuse_if_not_writable()
            return method(table, *args, **kwargs)
        finally:
            table._at_work = busy

    @wraps(method)
    def checked(table: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        table._refuse_if_forked()  # first: a thread that the fork does not have may hold the lock
        return changing(table, *args, **kwargs)

    return checked
