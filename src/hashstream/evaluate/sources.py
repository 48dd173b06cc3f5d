"""Digests of the source of a user's own methods.

Rows are identified by the name of a method. A digest of its source next to them tells whether that name still means the
same, so that an edited method is not shown with the figures of an earlier one.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

__all__ = ["source_digest", "source_digests"]

LEFT_OUT = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
"""Fields of syntax trees that say nothing here, or that not every version of Python has."""


def source_digests(methods: Iterable[tuple[str, Callable[..., Any]]]) -> dict[str, str]:
    """Name -> digest, for those of (name, method) that are not of this library and whose source can be read."""
    found = {name: source_digest(method) for name, method in methods}
    return {name: digest for name, digest in found.items() if digest is not None}


def source_digest(method: Callable[..., Any]) -> str | None:
    """A digest of a class or function, and of all that it uses of its file or, in a notebook, of its cell.

    None for methods of this library, and where there is no source. Comments, docstrings and layout do not count, nor
    does what it imports. Equal in all versions of Python.

    >>> source_digest(dict) is None
    True
    """
    while isinstance(method, partial):
        method = method.func
    if isinstance(owner := getattr(method, "__self__", None), type):  # a class method
        method = owner
    if (getattr(method, "__module__", None) or "").partition(".")[0] == "hashstream":
        return None
    name = getattr(method, "__qualname__", "").partition(".")[0]
    for file in _files(method):
        linecache.checkcache(file)
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:  # a cell with commands of IPython
            continue
        defined = _definitions(tree)
        if name in defined:
            parts = [_canonical(defined[one]) for one in sorted(_reached(name, defined))]
            return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return None


def _files(method: Callable[..., Any]) -> Iterator[str]:
    """The files that may define a method, as linecache knows them; the cells of a notebook have such a name, too."""
    with suppress(OSError, TypeError):
        yield inspect.getsourcefile(method) or ""
    for one in (method, *vars(method).values()):
        if code := getattr(getattr(one, "__func__", one), "__code__", None):
            yield code.co_filename


def _definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """The definitions of a file: name -> its statements."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        names = {
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = {statement.name}
        for name in names:
            found.setdefault(name, []).append(statement)
    return found


def _reached(name: str, defined: dict[str, list[ast.stmt]]) -> set[str]:
    """A definition, and those that it uses, directly or not."""
    reached, left = {name}, [name]
    while left:
        for statement in defined[left.pop()]:
            used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            new = used & defined.keys() - reached
            reached |= new
            left += new
    return reached


def _canonical(node: Any) -> Any:
    """A syntax tree as nested tuples, without docstrings and positions."""
    if isinstance(node, list):
        return tuple(_canonical(one) for one in node if not _is_docstring(one))
    if not isinstance(node, ast.AST):
        return type(node).__name__, repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in LEFT_OUT)
    return type(node).__name__, tuple(
        (name, _canonical(value)) for name, value in fields if value is not None and value != []
    )


def _is_docstring(node: Any) -> bool:
    """Whether a statement is a text alone, which does nothing wherever it stands."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
