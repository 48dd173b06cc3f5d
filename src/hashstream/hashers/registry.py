"""The methods, by name. `@register` on a class is all that a method needs to work everywhere, a third party's too."""

from __future__ import annotations

from typing import TypeVar

from hashstream.hashers.base import OnlineHasher

__all__ = ["methods", "register"]

Method = TypeVar("Method", bound=type[OnlineHasher])

_METHODS: dict[str, type[OnlineHasher]] = {}


def register(method: Method) -> Method:
    """Make a method known by its class name: to `load`, the command line, tuning, reports and plots. A decorator.

    The class says the rest: `reference`, `needs`, `state_size`, `colour`, `marker`, `tuning_grid`, `variant_of`.
    """
    if not (isinstance(method, type) and issubclass(method, OnlineHasher)):
        raise TypeError(f"a method is a subclass of OnlineHasher, not {method!r}")
    if _METHODS.get(method.__name__, method) is not method:
        raise ValueError(f"there is a method named {method.__name__} already")
    _METHODS[method.__name__] = method
    return method


def methods(*, variants: bool = False) -> dict[str, type[OnlineHasher]]:
    """All registered methods, name -> class; with `variants`, also those that only exist to be compared with another.

    >>> print(*methods())
    FCOH OKH SketchHash FROSH AdaptHash OSH MIHash HCOH HMOH BSODH RidgeHash PosteriorHash LSH ClassifierHash
    >>> print(*(name for name in methods(variants=True) if name not in methods()))
    FCOH_S FCOH_C
    >>> methods()["HCOH"].needs
    'labels'
    """
    return {name: method for name, method in _METHODS.items() if variants or not method.variant_of}
