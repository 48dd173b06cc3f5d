"""What the commands share: the console, one way to fail, lists of numbers, methods and settings as people type them."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from hashstream.hashers import methods as registry
from hashstream.hashers import register

__all__ = [
    "Ties",
    "choose",
    "console",
    "enough_workers",
    "fail",
    "import_method",
    "numbers",
    "paper_settings",
    "settings",
    "value_of",
]

console = Console()

LITTLE = 4_000_000
"""Numbers to learn from that take some seconds: 40 streams of digits, a quarter of one of MNIST."""


class Ties(StrEnum):
    """Rules for the order of equal distances, as an option."""

    paper = "paper"
    aware = "aware"


def fail(message: object, code: int = 2) -> NoReturn:
    """A mistake of the user's, or of the world's: one sentence, no traceback."""
    Console(stderr=True).print(f"[bold red]hashstream:[/] {escape(str(message))}", highlight=False)
    raise typer.Exit(code)


def choose(names: str) -> dict[str, Callable[..., Any]]:
    """The methods of a list such as `fcoh,LSH,my_module:MyMethod`, or of `all`."""
    every: dict[str, Callable[..., Any]] = dict(registry())
    known = {name.lower(): name for name in every}
    if names.strip().lower() == "all":
        return every
    chosen: dict[str, Callable[..., Any]] = {}
    for name in (name.strip() for name in names.split(",") if name.strip()):
        if ":" in name:
            method = import_method(name)
            chosen[method.__name__] = method
        elif name.lower() in known:
            chosen[known[name.lower()]] = every[known[name.lower()]]
        else:
            raise ValueError(f"there is no method {name}: choose from {', '.join(every)}, or module:Class")
    if not chosen:
        raise ValueError(f"--methods names none: choose from {', '.join(every)}")
    return chosen


def paper_settings(
    methods: dict[str, Callable[..., Any]], dataset: str
) -> tuple[dict[str, Callable[..., Any]], str]:
    """Methods by their paper's settings for a data set, and the name of the one that these settings are for.

    Methods that no paper has settings for stay as they are. ValueError where there are none for the data set.
    """
    from hashstream.paper.lineup import SETTINGS_OF

    name = SETTINGS_OF.get(dataset, dataset)
    chosen = {}
    for label, method in methods.items():
        from_paper = getattr(method, "from_paper", None)
        if from_paper is None:
            chosen[label] = method
        else:
            from_paper(name, 32)  # raises where there are none for this data set
            chosen[f"{label}[paper]"] = partial(from_paper, name)
    return chosen, name


def enough_workers(asked: int, rows: int, features: int) -> int:
    """How many worker processes to take where `asked` is 0: the cores that this process may use.

    One where there is so little to learn (`rows` in all, of `features` numbers) that starting more takes longer.
    """
    if asked:
        return asked
    if rows * features < LITTLE:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def import_method(name: str) -> type[Any]:
    """A method of the user's own by `module:Class`; the module is found as Python finds it, or in this folder."""
    module, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        method = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
    try:
        return register(method)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


def numbers(text: str, option: str) -> list[int]:
    """Whole numbers from 1, rising, each once, from a list such as `8,16`."""
    try:
        found = sorted({int(part.replace("_", "")) for part in text.split(",")})
    except ValueError:
        raise ValueError(f"{option} {text!r}: give whole numbers with commas between, as 8,16,32") from None
    if found[0] < 1:
        raise ValueError(f"{option} {text!r}: each has to be 1 or more")
    return found


def settings(pairs: list[str], methods: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """Parameters from `name=value` pairs: values are Python literals, and text where they are none."""
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"--set {pair!r}: it has to be name=value, as --set learning_rate=0.01")
        if name in ("n_bits", "random_state"):
            raise ValueError(f"--set {name}: this is what --bits and --runs decide")
        for method, cls in methods.items():
            taken = [p for p in inspect.signature(cls).parameters if p not in ("n_bits", "random_state")]
            if name not in taken:
                raise ValueError(f"--set {name}: {method} does not have it; it has {', '.join(taken)}")
        given[name] = value_of(text)
    return given


def value_of(text: str) -> Any:
    """A parameter as people type it: a Python literal, and text where it is none."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()
