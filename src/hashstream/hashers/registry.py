"""Which methods there are. A third party's method joins with `register`, and then works by name everywhere."""

from __future__ import annotations

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.fcoh import FCOH
from hashstream.hashers.lsh import LSH

__all__ = ["methods", "register"]

_METHODS: dict[str, type[OnlineHasher]] = {method.__name__: method for method in (FCOH, LSH)}


def methods() -> dict[str, type[OnlineHasher]]:
    """Name -> class of every method, ours and those registered.

    >>> sorted(methods())[:2]
    ['FCOH', 'LSH']
    """
    return dict(_METHODS)


def register(method: type[OnlineHasher]) -> type[OnlineHasher]:
    """Make a method known by its class name, for `load`, the command line and reports; also as a decorator."""
    if not (isinstance(method, type) and issubclass(method, OnlineHasher)):
        raise TypeError(f"a method is a subclass of OnlineHasher, not {method!r}")
    if _METHODS.get(method.__name__, method) is not method:
        raise ValueError(f"there is a method named {method.__name__} already")
    _METHODS[method.__name__] = method
    return method
