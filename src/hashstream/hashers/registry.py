"""Which methods there are. A third party's method joins with `register`, and then works by name everywhere."""

from __future__ import annotations

from hashstream.hashers.adapthash import AdaptHash
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.bsodh import BSODH
from hashstream.hashers.classifier import ClassifierHash
from hashstream.hashers.fcoh import FCOH
from hashstream.hashers.frosh import FROSH
from hashstream.hashers.hcoh import HCOH
from hashstream.hashers.hmoh import HMOH
from hashstream.hashers.lsh import LSH
from hashstream.hashers.mihash import MIHash
from hashstream.hashers.okh import OKH
from hashstream.hashers.osh import OSH
from hashstream.hashers.ridge import RidgeHash
from hashstream.hashers.sketchhash import SketchHash

__all__ = ["methods", "register"]

_METHODS: dict[str, type[OnlineHasher]] = {
    method.__name__: method
    for method in (
        FCOH,
        OKH,
        SketchHash,
        FROSH,
        AdaptHash,
        OSH,
        MIHash,
        HCOH,
        HMOH,
        BSODH,
        RidgeHash,
        LSH,
        ClassifierHash,
    )
}


def methods() -> dict[str, type[OnlineHasher]]:
    """Name -> class of every method, ours and those registered.

    What each needs and keeps is in its class: `reference`, `needs`, `state_size`.

    >>> print(*methods())
    FCOH OKH SketchHash FROSH AdaptHash OSH MIHash HCOH HMOH BSODH RidgeHash LSH ClassifierHash
    >>> methods()["HCOH"].needs
    'labels'
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
