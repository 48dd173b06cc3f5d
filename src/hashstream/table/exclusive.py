"""Methods of a table that one thread at a time may be in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["change", "exclusively"]

P = ParamSpec("P")
R = TypeVar("R")

Method = Callable[Concatenate[Any, P], R]


def exclusively(method: Method[P, R]) -> Method[P, R]:
    """The method, or function of a table, holds the writer's lock.

    The lock is taken here and not in a context manager of our own: one that is written in Python may be interrupted
    between taking a lock and saying so. Where the handler of a signal has asked to close the table meanwhile, that is
    done when the lock is free: a thread in the background may wait for it that `close` waits for.
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
