"""Digests of the source of a user's own methods.

Rows are identified by the name of a method. A digest of its source next to them tells whether that name still means the
same, so that an edited method is not shown with the figures of an older one.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["source_digest", "source_digests"]


def source_digests(methods: Iterable[tuple[str, Callable[..., Any]]]) -> dict[str, str]:
    """Name -> digest, for those of (name, method) that are not of this library and whose source can be read."""
    found = {name: source_digest(method) for name, method in methods}
    return {name: digest for name, digest in found.items() if digest is not None}


def source_digest(method: Callable[..., Any]) -> str | None:
    """A digest of the file that defines a method, or of its class alone in a notebook; None for methods of this
    library, and where there is no source. Comments and layout do not count, nor do other files that it imports.

    >>> source_digest(dict) is None
    True
    """
    while isinstance(method, partial):
        method = method.func
    if (getattr(method, "__module__", None) or "").partition(".")[0] == "hashstream":
        return None
    try:
        file = Path(inspect.getsourcefile(method) or "")
        text = file.read_text("utf-8") if file.is_file() else inspect.getsource(method)
        tree = ast.parse(inspect.cleandoc(text) if not file.is_file() else text)
    except (OSError, TypeError, SyntaxError, UnicodeDecodeError):
        return None
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]
