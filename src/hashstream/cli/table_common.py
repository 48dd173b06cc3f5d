"""What the commands of `hashstream table` share: options that name columns, policies as people type them, opening."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hashstream import datasets
from hashstream.cli.common import console, fail
from hashstream.datasets.rows import ArrayRows, Rows, RowSource
from hashstream.hashers import DivergenceError
from hashstream.hashers.validation import all_finite
from hashstream.table import Eager, Every, Gated, HashTable, Lazy, Never, Policy, Projected, TableError
from hashstream.terminal import load_with_bar

__all__ = [
    "Double",
    "FeatureColumns",
    "Folder",
    "IdColumn",
    "LabelColumn",
    "NoHeader",
    "Text",
    "check_finite",
    "failing",
    "open_source",
    "opened",
    "policy_of",
    "refreshed",
    "stopping",
    "work_bar",
]

Folder = Annotated[Path, typer.Argument(metavar="TABLE", help="The folder of the table.")]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="The column (in .npz the array) with the ids, or an .npy file of them. `id` or `ids` where there is one, "
        "NAME.ids.npy beside NAME.npy; otherwise rows are counted from 0.",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="NAME",
        help="The same for labels: `label`, `labels` or `y`. Several with commas between, or `is_*`, are a 0/1 matrix. "
        "An empty cell (or NaN, or null) is a row without a label.",
    ),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="NAMES",
        help="The columns with the features, as `width,height` or `pixel*`; all others by default. In .npz, or for "
        "lists in Parquet: one name, by default `features`, `x`, `X`, `embedding` or `vector`.",
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The first line of a .csv is a row; columns are called 0, 1, 2, ..."),
]
Text = Annotated[
    bool, typer.Option("--text", help="Ids and labels are text, even where they look like whole numbers.")
]
Double = Annotated[
    bool,
    typer.Option("--double", help="Features of a new table as float64, twice as large; float32 is the rule."),
]

PIECES = 20  # of a refresh: so often the bar moves, and so many commits it takes

POLICIES: dict[str, tuple[Callable[..., Policy], Callable[[str], Any] | None]] = {
    "eager": (Eager, None),
    "every": (Every, int),
    "gated": (Gated, float),
    "lazy": (Lazy, float),
    "projected": (Projected, int),
    "never": (Never, None),
}
"""Name -> class, and what the number behind the colon is."""


def policy_of(text: str | None) -> Policy | None:
    """A policy from `eager`, `every:100`, `gated:0.01`, `lazy:0.25`, `projected:100` or `never`.

    >>> policy_of("every:50"), policy_of("lazy"), policy_of(None)
    (Every(k=50), Lazy(share=0.25, piece=4096), None)
    """
    if text is None:
        return None
    name, colon, number = text.strip().lower().partition(":")
    if name not in POLICIES:
        raise ValueError(
            f"--policy {text!r}: it has to be eager, every:100, gated, gated:0.01, lazy, lazy:0.25, projected:100 "
            "or never"
        )
    policy, kind = POLICIES[name]
    if not colon:
        return policy()
    if kind is None:
        raise ValueError(f"--policy {text!r}: {name} takes no number")
    try:
        value = kind(number)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ValueError(f"--policy {text!r}: behind the colon there has to be {what}") from None
    try:
        return policy(value)
    except ValueError as error:
        raise ValueError(f"--policy {text!r}: {error}") from None


def open_source(
    name: str,
    *,
    id: str | None = None,
    label: str | None = None,
    features: str | None = None,
    header: bool = True,
    text: bool = False,
    dtype: Any = np.float32,
    quiet: bool = False,
) -> RowSource:
    """A file to read in pieces, or a data set by its name (`hashstream data list`), in memory; quiet : no bar."""
    if name in datasets.CATALOGUE and not Path(name).exists():
        if id is not None or label is not None or features is not None:
            raise ValueError(f"{name} is a data set, not a file: it has no columns to choose from")
        data = datasets.load(name) if quiet else load_with_bar(name, console)
        return ArrayRows(name, data.X, y=data.y, dtype=dtype, text=text)
    return datasets.open_rows(
        name, id=id, label=label, features=features, header=header, text=text, dtype=dtype
    )


def check_finite(source: RowSource, rows: Rows) -> None:
    """ValueError that names the row of the file, which a table does not know."""
    if not all_finite(rows.X) and len(odd := np.argwhere(~np.isfinite(rows.X))):
        row, column = odd[0].tolist()
        value = rows.X[row, column]
        large = "" if np.isnan(value) else f" as {rows.X.dtype}"  # it may have been a number in the file
        raise ValueError(
            f"{source.name}: feature {column} of row {rows.first + row} is {value}{large}: each has to be a finite "
            "number"
        )


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[HashTable]:
    """A table that is there already, closed at the end whatever happens."""
    if not folder.exists():
        raise TableError(f"there is no folder {folder}: make a table with `hashstream table create {folder}`")
    if not HashTable.exists(folder):
        raise TableError(
            f"{folder} is not a table: there is no manifest in it. `hashstream table create` makes one"
        )
    with HashTable.open(folder, **options) as table:
        yield table


@contextmanager
def failing(code: int = 2) -> Iterator[None]:
    """Everything that can be wrong with a table, a file or the world, as a sentence and an exit code."""
    try:
        yield
    except KeyError as error:
        fail(error.args[0], code=code)
    except (datasets.DatasetError, TableError, DivergenceError, ValueError, TypeError, OSError) as error:
        fail(error, code=code)


@contextmanager
def stopping() -> Iterator[Callable[[], int]]:
    """Within the block, Ctrl-C and SIGTERM are noted and not raised, so that what has begun is finished; at the second,
    they are raised. Gives a function that says which signal came, 0 for none."""
    came = 0

    def note(number: int, _: Any) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def refreshed(table: HashTable, todo: int, bar: Progress, stopped: Callable[[], int]) -> int:
    """Make so many codes anew, the oldest first, in pieces that are durable one by one; how many were made."""
    task = bar.add_task("codes", total=todo, note="")
    done = 0
    while done < todo and not stopped():
        made = table.refresh(budget=min(todo - done, max(1 << 16, -(-todo // PIECES))))
        done += made
        bar.update(task, completed=done, note=f"{done:,}")
        if not made:
            break
    return done


def work_bar(*, transient: bool = False, quiet: bool = False) -> Progress:
    """A bar with the time left; its tasks have a field `note`. transient : it goes when all is done. quiet : none."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        speed_estimate_period=60,
        transient=transient,
        disable=quiet,
    )
