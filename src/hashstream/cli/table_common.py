"""Shared by the commands of `hashstream table`: options, opening, errors, bars and interrupts."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hashstream import datasets
from hashstream._extras import MissingExtraError
from hashstream.cli.cluster_common import is_cluster, opened_cluster
from hashstream.cli.common import console, fail
from hashstream.datasets.rows import RowSource
from hashstream.hashers import DivergenceError
from hashstream.table import HashTable, TableError, files
from hashstream.terminal import load_with_bar

__all__ = [
    "ERRORS", "Durability", "DurabilityOption", "FeatureColumns", "FieldOption", "Folder", "IdColumn",
    "IndexOption", "Indexing", "LabelColumn", "NoHeader", "PolicyOption", "Text", "WhereOption", "failing",
    "file_sizes", "how_to_fill", "open_source", "opened", "refreshed", "refuse_cluster", "stopping", "to_store",
    "where_of", "work_bar",
]  # fmt: skip


class Indexing(StrEnum):
    """Whether codes may be looked up by a multi-index (auto), or are always scanned (scan)."""

    auto = "auto"
    scan = "scan"


class Durability(StrEnum):
    """Failures that a stored batch survives: a power loss (full), or only a crash of the process (fast)."""

    full = "full"
    fast = "fast"


Folder = Annotated[Path, typer.Argument(metavar="TABLE", help="The folder of the table, or of a cluster.")]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help=".npy, .npz, .csv, .tsv or .parquet, or a name from `hashstream data list`.",
    ),
]
PayloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--payload",
        metavar="COLUMN",
        help="A column that is stored in the payload of the items, or a pattern such as `meta_*`; '*' is all that are "
        "nothing else. May be repeated.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="The column (in .npz the array) with the ids, or an .npy file of them. By default `id` or `ids`, or "
        "NAME.ids.npy next to NAME.npy; otherwise rows are numbered from 0.",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="NAME",
        help="The same for labels; by default `label`, `labels` or `y`. Several, separated by commas or as `is_*`, "
        "are a 0/1 matrix. An empty cell (or NaN, or null) is a row without a label.",
    ),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="NAMES",
        help="The columns with the features, as `width,height` or `pixel*`; by default all others. In .npz, or for "
        "lists in Parquet: one name, by default `features`, `x`, `X`, `embedding` or `vector`.",
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The first line of a .csv is a row; columns are named 0, 1, 2, ..."),
]
Text = Annotated[
    bool, typer.Option("--text", help="Ids and labels are text, even if they look like whole numbers.")
]
FieldOption = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="NAME:TYPE",
        help="Declare a field, which items can be filtered by: str, int, float, bool, datetime or list (of strings). "
        "May be repeated.",
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="JSON",
        help="""Only items that match a filter, such as '{"tenant": "a", "price": {"$lt": 10}}'. Fields, `id` and """
        "`label` are compared by $eq, $ne, $lt, $lte, $gt, $gte, $in, $nin and $exists, and joined by $and, $or and "
        "$not.",
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        help="When items are re-encoded: eager (after every batch), every:K (batches), grown or grown:SHARE (when the "
        "table has grown by it), gated or gated:THETA (when the current functions tell labels apart better), lazy or "
        "lazy:SHARE (in the background), partial:BITS or partial:BITS:K (so many bits, after every 100 or K "
        "batches), projected:K (from codes alone), never. Stored with the table; by default as stored, for a new table "
        "grown:0.2 with PosteriorHash and every:100 with other methods, projected:100 without features.",
        show_default=False,
    ),
]
IndexOption = Annotated[
    Indexing | None,
    typer.Option(
        help="auto: codes of many items are looked up, once they were searched so often that an index pays; it takes "
        "some 20 bytes of memory per item. scan: every search reads all codes. The answers are the same. Stored with "
        "the table; by default as stored, auto for a new table.",
        show_default=False,
    ),
]
DurabilityOption = Annotated[
    Durability | None,
    typer.Option(
        help="full: a stored batch survives kill -9 and, as far as fsync goes, a power loss. fast: it survives "
        "kill -9; a power loss during the command may take the last batches. Stored with the table; by default as "
        "stored, full for a new table.",
        show_default=False,
    ),
]

RIGHT_FORM = (
    """Write it as --where '{"tenant": "a", "price": {"$lt": 10}}': names and text in double quotes, the whole in """
    "single ones"
)
PIECES = 20  # of a refresh: how often the bar moves, and the number of commits

ERRORS = (
    datasets.DatasetError, TableError, DivergenceError, MissingExtraError, ValueError, TypeError, OSError,
)  # fmt: skip
"""Everything that can be wrong with a table, a file or the machine."""


def open_source(name: str, *, quiet: bool = False, **columns: Any) -> RowSource:
    """`files.open_source`, with a bar while a data set is loaded. quiet : without one."""
    load = datasets.load if quiet else partial(load_with_bar, console=console)
    return files.open_source(name, load=load, **columns)


def where_of(text: str | None) -> dict[str, Any] | None:
    """The filter of --where; ValueError shows the right form."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--where {text} is not JSON ({error}). {RIGHT_FORM}") from None
    if not isinstance(found, dict):
        raise ValueError(f"--where {text} is not a JSON object. {RIGHT_FORM}")
    return found


def to_store(policy: str | None, durability: Durability | None, index: Indexing | None) -> dict[str, Any]:
    """Settings for `HashTable.open`, which stores those that are not None."""
    return {
        "policy": policy,
        "durability": None if durability is None else durability.value,
        "index": None if index is None else index.value,
    }


def file_sizes(folder: Path) -> dict[str, int]:
    """The bytes of each file of a table, or of each folder of a cluster, by name."""
    found = {}
    for path in sorted(folder.iterdir()):
        found[path.name] = 0
        for file in path.rglob("*") if path.is_dir() else (path,):
            with suppress(FileNotFoundError):  # files come and go while others write
                found[path.name] += file.stat().st_size
    return found


@contextmanager
def opened(folder: Path, address: str | None = None, **options: Any) -> Iterator[Any]:
    """Open a table or a cluster that exists, and close it at the end whatever happens.

    A cluster has the methods of a table, and their results. address : of its Ray. options : of a table only.
    """
    if is_cluster(folder):
        with opened_cluster(folder, address) as cluster:
            yield cluster
        return
    if not HashTable.exists(folder):
        what = "is not a table" if folder.exists() else "does not exist"
        raise TableError(
            f"{folder} {what}: create a table with `hashstream table create {folder}`, or a cluster with `hashstream "
            f"cluster create {folder}`"
        )
    if address is not None:
        raise ValueError(f"--address is for clusters, and {folder} is a table")
    with HashTable.open(folder, **options) as table:
        yield table


def how_to_fill(folder: Path) -> str:
    """A phrase with the command that stores files in a table or a cluster."""
    command = "cluster feed" if is_cluster(folder) else "table ingest"
    return f"fill it with `hashstream {command} {folder} FILE`"


def refuse_cluster(folder: Path) -> None:
    """TableError where a folder is a cluster."""
    if is_cluster(folder):
        raise TableError(f"{folder} is a cluster, not a table: {how_to_fill(folder)}")


@contextmanager
def failing(code: int = 2) -> Iterator[None]:
    """Turn errors into a sentence and an exit code."""
    try:
        yield
    except KeyError as error:
        fail(error.args[0], code=code)
    except ERRORS as error:
        fail(error, code=code)


@contextmanager
def stopping() -> Iterator[Callable[[], int]]:
    """Within the block, note Ctrl-C and SIGTERM instead of raising, so that a batch is finished; raise at the second.

    Yields a function that returns the number of the signal, 0 for none.
    """
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


def refreshed(table: HashTable, budget: int | None, bar: Progress, stopped: Callable[[], int]) -> int:
    """Re-encode stale items, the oldest first, in pieces that are each durable; returns how many.

    budget : items at most; all by default.
    """
    stats = table.stats()
    stale = stats.n_items - stats.versions.get(stats.newest_version or 0, 0)
    todo = stale if budget is None else min(stale, budget)
    task = bar.add_task("codes", total=todo, note="", visible=todo > 0)
    done = 0
    while done < todo and not stopped():
        count = table.refresh(budget=min(todo - done, max(1 << 16, -(-todo // PIECES))))
        done += count
        bar.update(task, completed=done, note=f"{done:,}")
        if not count:
            break
    return done


def work_bar(*, transient: bool = False, quiet: bool = False) -> Progress:
    """A progress bar with the remaining time; its tasks have a field `note`.

    transient : it disappears at the end. quiet : no bar.
    """
    columns = ("{task.description}", BarColumn(), "{task.percentage:>3.0f} %", "{task.fields[note]}")
    return Progress(
        *columns,
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        speed_estimate_period=60,
        transient=transient,
        disable=quiet,
    )
