"""Shared by the commands: the console, errors, and the parsing of numbers, methods and settings."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from hashstream.evaluate.job import MEASURING
from hashstream.evaluate.protocols import PreparedDataset
from hashstream.hashers import NAMED_SETTINGS, register
from hashstream.hashers import methods as registry

__all__ = [
    "MinClass",
    "Queries",
    "StreamRows",
    "Ties",
    "check_settings",
    "choose",
    "console",
    "fail",
    "import_method",
    "numbers",
    "paper_settings",
    "say",
    "say_queries",
    "settings",
    "value_of",
]

console = Console(emoji=False)  # `module:Class:` is not an emoji


class Ties(StrEnum):
    """Rules for ties, as an option."""

    paper = "paper"
    aware = "aware"


Queries = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="NUMBER",
        help="Number of test queries, equally many of each class; a class that would lose more than half of its rows "
        "to them has none. Default: the paper's for its data, a tenth of the smallest class for your own.",
    ),
]
StreamRows = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="ROWS",
        help="Rows of the training stream. Default: the paper's for its data, up to 20,000 for your own.",
    ),
]
MinClass = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar="ROWS",
        help="Classes with fewer rows have no queries; they are learned and searched like all others. Default: 10 for "
        "data of your own.",
    ),
]
"""Options of the size of an experiment; results have another setting than the usual one in the name of the data set."""


def fail(message: object, code: int = 2) -> NoReturn:
    """Print an error without a traceback, and exit."""
    said = [str(message), *(note for note in getattr(message, "__notes__", ()) if note.startswith(MEASURING))]
    lines = escape("\n".join(said))
    Console(stderr=True, emoji=False).print(f"[bold red]hashstream:[/] {lines}", highlight=False)
    raise typer.Exit(code)


def say(text: str) -> None:
    """Print a sentence as it is, on one line however long it is."""
    console.print(escape(text), highlight=False, soft_wrap=True)


def say_queries(asked: int | None, data: PreparedDataset) -> None:
    """Say how many queries are drawn, where they are not as many as were asked for."""
    per_class, classes = data.setting.per_class, len(data.asked)
    if asked not in (None, per_class * classes):
        whose = f"each of {classes:,} classes" if classes > 1 else "one class"
        say(f"--queries {asked}: {per_class * classes:,} are drawn, {per_class:,} of {whose}.")


def choose(names: str) -> dict[str, Callable[..., Any]]:
    """Parse a list of methods such as `fcoh,LSH,RidgeHash[rbf],my_module:MyMethod,mine.py:MyMethod`, in its order.

    `all`, alone or in a list, are the methods, each once, with their defaults.
    """
    every: dict[str, Callable[..., Any]] = dict(registry())
    forms = {name: one.hasher for name, one in NAMED_SETTINGS.items()}
    every_form: dict[str, Callable[..., Any]] = {**registry(variants=True), **forms}
    known = {name.lower(): (name, method) for name, method in every_form.items()}
    chosen: dict[str, Callable[..., Any]] = {}
    for name in (name.strip() for name in names.split(",") if name.strip()):
        if ":" in name:
            imported = import_method(name)
            chosen[imported.__name__] = imported
        elif name.lower() == "all":
            chosen = {**chosen, **{name: method for name, method in every.items() if name not in chosen}}
        elif name.lower() in known:
            name, method = known[name.lower()]
            chosen[name] = method
        else:
            raise ValueError(
                f"there is no method {name}: choose from {', '.join([*every, *forms])}, or module:Class, or "
                "file.py:Class"
            )
    if not chosen:
        raise ValueError(f"--methods is empty: choose from {', '.join(every)}")
    return chosen


def paper_settings(
    methods: dict[str, Callable[..., Any]], dataset: str
) -> tuple[dict[str, Callable[..., Any]], str]:
    """Methods with the paper's settings for a data set, and the name of the data set that these settings are for.

    Methods without published settings stay as they are. ValueError if there are none for the data set.
    """
    from hashstream.paper.comparability import counterpart

    name = counterpart(dataset).name or dataset
    chosen = {}
    for label, method in methods.items():
        cls, given = (method.func, method.keywords) if isinstance(method, partial) else (method, {})
        from_paper = getattr(cls, "from_paper", None)
        if from_paper is None:
            chosen[label] = method
        else:
            from_paper(name, 32)  # raises if there are none for this data set
            chosen[f"{label}[paper]"] = partial(from_paper, name, **given)
    return chosen, name


def import_method(name: str) -> type[Any]:
    """Import and register a method given as `module:Class` or `path/to/file.py:Class`.

    A module is looked up as by Python, and in the current folder. A file is imported under its own name, so that
    worker processes find it as well.
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
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        raise ValueError(f"{name}: {_told(error)}") from error
    if file is not None and Path(getattr(found, "__file__", None) or "").resolve() != file:
        raise ValueError(f"{name}: another module named {file.stem} is imported already: rename the file")
    if not hasattr(found, attribute):
        raise ValueError(f"{name}: there is no {attribute or 'name'} in {found.__name__}")
    method: type[Any] = getattr(found, attribute)
    try:
        return register(method)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


def _told(error: BaseException) -> str:
    """An error in a file that was being imported, on one line, with that file and its line; without these where no
    file was found."""
    message = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)[1:]  # without the call here
    machinery = ("<frozen importlib", importlib.__file__)
    file, line = next(
        ((one.filename, one.lineno) for one in frames if not one.filename.startswith(machinery)), ("", 0)
    )
    if isinstance(error, SyntaxError) and error.filename:
        file, line, message = error.filename, error.lineno, error.msg
    if not file:
        return message
    kind = type(error).__name__
    return f"line {line} of {file}: {kind}: {message}" if message else f"line {line} of {file}: {kind}"


def numbers(text: str, option: str) -> list[int]:
    """Parse a list such as `8,16`: whole numbers of at least 1, sorted, without repetition."""
    try:
        found = sorted({int(part.replace("_", "")) for part in text.split(",")})
    except ValueError:
        raise ValueError(
            f"{option} {text!r}: expected whole numbers separated by commas, as 8,16,32"
        ) from None
    if found[0] < 1:
        raise ValueError(f"{option} {text!r}: each must be at least 1")
    return found


def check_settings(
    methods: dict[str, Callable[..., Any]], lengths: list[int], given: Mapping[str, Any]
) -> None:
    """Raise ValueError, before data are loaded, if a method does not accept one of the code lengths or settings."""
    for method in methods.values():
        for bits in lengths:
            method(n_bits=bits, random_state=0, **given).check_parameters()


def settings(
    pairs: list[str], methods: dict[str, Callable[..., Any]], option: str = "--set"
) -> dict[str, Any]:
    """Parse `name=value` pairs into parameters of the methods.

    option : the option that the pairs were given with.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"{option} {pair!r}: expected name=value, as in --set learning_rate=0.01")
        if name in ("n_bits", "random_state"):
            raise ValueError(f"{option} {name}: use --bits and --runs instead")
        for method, cls in methods.items():
            taken = [p for p in inspect.signature(cls).parameters if p not in ("n_bits", "random_state")]
            if name not in taken:
                raise ValueError(
                    f"{option} {name}: {method} has no such parameter; it has {', '.join(taken)}"
                )
        given[name] = value_of(text)
    return given


def value_of(text: str) -> Any:
    """Parse a value: a Python literal, otherwise text."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()
