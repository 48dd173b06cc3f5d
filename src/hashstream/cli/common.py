"""What the commands share: the console, one way to fail, lists of numbers, methods and settings as people type them."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from hashstream.evaluate.job import MEASURING
from hashstream.hashers import methods as registry
from hashstream.hashers import register

__all__ = [
    "Ties",
    "check_settings",
    "choose",
    "console",
    "enough_workers",
    "fail",
    "free_memory",
    "import_method",
    "numbers",
    "paper_settings",
    "settings",
    "value_of",
]

console = Console(emoji=False)  # module:Class: is no emoji

LITTLE = 4_000_000
"""Numbers to learn from that take some seconds: 40 streams of digits, a quarter of one of MNIST."""


class Ties(StrEnum):
    """Rules for the order of equal distances, as an option."""

    paper = "paper"
    aware = "aware"


def fail(message: object, code: int = 2) -> NoReturn:
    """A mistake of the user's, or of the world's: one sentence, no traceback."""
    said = [str(message), *(note for note in getattr(message, "__notes__", ()) if note.startswith(MEASURING))]
    lines = escape("\n".join(said))
    Console(stderr=True, emoji=False).print(f"[bold red]hashstream:[/] {lines}", highlight=False)
    raise typer.Exit(code)


def choose(names: str) -> dict[str, Callable[..., Any]]:
    """The methods of a list such as `fcoh,LSH,my_module:MyMethod,mine.py:MyMethod`, or of `all`."""
    every: dict[str, Callable[..., Any]] = dict(registry())
    known = {name.lower(): (name, method) for name, method in registry(variants=True).items()}
    if names.strip().lower() == "all":
        return every
    chosen: dict[str, Callable[..., Any]] = {}
    for name in (name.strip() for name in names.split(",") if name.strip()):
        if ":" in name:
            method = import_method(name)
            chosen[method.__name__] = method
        elif name.lower() in known:
            name, method = known[name.lower()]
            chosen[name] = method
        else:
            raise ValueError(
                f"there is no method {name}: choose from {', '.join(every)}, or module:Class, or file.py:Class"
            )
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


def enough_workers(asked: int, rows: int, features: int, copy: int = 0) -> int:
    """How many worker processes to take where `asked` is 0: the cores that this process may use.

    One where there is so little to learn (`rows` in all, of `features` numbers) that starting more takes longer, and
    no more than fit into the memory that is free, where each needs `copy` bytes: one copy of the features.
    """
    if asked:
        return asked
    if rows * features < LITTLE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    free = free_memory()
    return cores if free is None or not copy else max(1, min(cores, free // copy))


def free_memory() -> int | None:
    """Bytes that could be had without swapping; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def import_method(name: str) -> type[Any]:
    """A method of the user's own by `module:Class` or `path/to/file.py:Class`.

    A module is found as Python finds it, or in this folder. A file is imported under its own name, so that worker
    processes find it as well.
    """
    module, _, attribute = name.rpartition(":")
    file = Path(module).expanduser().resolve() if module.endswith(".py") else None
    if file is not None and not file.is_file():
        raise ValueError(f"{name}: there is no file {file}")
    folder = str(Path.cwd() if file is None else file.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found = importlib.import_module(module if file is None else file.stem)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
    if file is not None and Path(getattr(found, "__file__", None) or "").resolve() != file:
        raise ValueError(f"{name}: Python has another module {file.stem} already: give the file another name")
    if not hasattr(found, attribute):
        raise ValueError(f"{name}: there is no {attribute or 'name'} in {found.__name__}")
    method: type[Any] = getattr(found, attribute)
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


def check_settings(
    methods: dict[str, Callable[..., Any]], lengths: list[int], given: Mapping[str, Any]
) -> None:
    """ValueError where a method cannot be had with one of these code lengths and settings: before data are loaded."""
    for method in methods.values():
        for bits in lengths:
            method(n_bits=bits, random_state=0, **given).check_parameters()


def settings(
    pairs: list[str], methods: dict[str, Callable[..., Any]], option: str = "--set"
) -> dict[str, Any]:
    """Parameters from `name=value` pairs: values are Python literals, and text where they are none.

    option: what the user typed before the pair.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"{option} {pair!r}: it has to be name=value, as --set learning_rate=0.01")
        if name in ("n_bits", "random_state"):
            raise ValueError(f"{option} {name}: this is what --bits and --runs decide")
        for method, cls in methods.items():
            taken = [p for p in inspect.signature(cls).parameters if p not in ("n_bits", "random_state")]
            if name not in taken:
                raise ValueError(f"{option} {name}: {method} does not have it; it has {', '.join(taken)}")
        given[name] = value_of(text)
    return given


def value_of(text: str) -> Any:
    """A parameter as people type it: a Python literal, and text where it is none."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()
