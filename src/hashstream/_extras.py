"""Libraries that only some features need, installed as extras of the package."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["MissingExtraError", "require"]


class MissingExtraError(ImportError):
    """A feature needs a library that is not installed; the message says how to install it."""


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an extra.

    >>> require("no_such_module", "plots")
    Traceback (most recent call last):
    hashstream._extras.MissingExtraError: no_such_module is not installed: pip install 'hashstream[plots]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise  # it is installed, and lacks something of its own
        raise MissingExtraError(
            f"{error.name} is not installed: pip install 'hashstream[{extra}]'"
        ) from error
