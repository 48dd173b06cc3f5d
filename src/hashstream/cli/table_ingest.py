"""`hashstream table ingest`: files into a table, in batches that each survive a crash."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from hashstream.cli.common import fail, say
from hashstream.cli.table_common import (
    ERRORS,
    DurabilityOption,
    FeatureColumns,
    Folder,
    IdColumn,
    LabelColumn,
    NoHeader,
    PolicyOption,
    Text,
    failing,
    open_source,
    opened,
    refreshed,
    stopping,
    to_store,
    work_bar,
)
from hashstream.datasets.rows import RowSource
from hashstream.table import Every, HashTable
from hashstream.table.files import FileIngest
from hashstream.terminal import seconds


def ingest(
    folder: Folder,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help=".npy, .npz, .csv, .tsv or .parquet, or a name from `hashstream data list`.",
        ),
    ],
    id: IdColumn = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    batch: Annotated[
        int,
        typer.Option(min=1, help="Rows that are learned and made durable at a time: all of them or none."),
    ] = 1000,
    policy: PolicyOption = None,
    refresh: Annotated[
        bool | None,
        typer.Option(
            "--refresh/--no-refresh",
            help="Whether stale items are re-encoded at the end. By default they are if the run learns, features are "
            "stored and no policy was chosen, now or earlier.",
            show_default=False,
        ),
    ] = None,
    no_learn: Annotated[
        bool,
        typer.Option(
            "--no-learn", help="Store the rows, encoded with the current functions; no labels needed."
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Skip rows whose id is stored, without comparing them with what is stored."
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Learn again from rows that are already stored unchanged.")
    ] = False,
    first_id: Annotated[
        int, typer.Option(help="Id of the first row of files without ids; the others count up from it.")
    ] = 0,
    durability: DurabilityOption = None,
    no_header: NoHeader = False,
    text: Text = False,
    double: Annotated[
        bool,
        typer.Option("--double", help="Features of a new table as float64, twice as large as float32."),
    ] = False,
) -> None:
    """Learn from the rows of files and store them, while others search.

    Rows whose label is empty are stored, and not learned from.

    Files of any size are read in pieces. Each batch is durable once it is stored. Interrupted by Ctrl-C or a crash,
    the same command continues: a row that is already stored with the same features and label is skipped; one that has
    changed replaces what is stored. If files have several rows of one id, the last one stays, and the earlier ones
    count as changes: the same command learns from all of them again, unless --resume is given.
    """
    with failing(), opened(folder, **to_store(policy, durability)) as table:
        work = FileIngest(
            table, batch=batch, learn=not no_learn, resume=resume, again=again, first_id=first_id
        )
        hasher = table.hasher
        sources = [
            open_source(
                file, id=id, label=label, features=features, header=not no_header, text=text,
                dtype=getattr(hasher, "dtype_", np.float64 if double else np.float32),
            )
            for file in files
        ]  # fmt: skip
        for source in sources:
            if not no_learn and hasher.needs_labels and not source.has_labels:
                raise ValueError(
                    f"{type(hasher).__name__} learns from labels, and {source.name} has none: name them with --label, "
                    "or store the rows without learning with --no-learn"
                )
        if refresh is None:
            refresh = not no_learn and policy is None and table.settings.policy == Every()
        start = time.perf_counter()
        _run(work, sources, table, folder, refresh)
        table.flush()  # from here on it survives a power loss, with durability "fast" too
        _tell(work, table, folder, time.perf_counter() - start)


def _run(work: FileIngest, sources: list[RowSource], table: HashTable, folder: Path, refresh: bool) -> None:
    name, row = "", 0
    try:
        with stopping() as stopped, work_bar() as bar:
            for source in sources:
                name, row = source.name, 0
                task = bar.add_task(escape(Path(name).name), total=source.total, note="")
                for step in work.run([source]):
                    row = step.row
                    bar.update(task, completed=step.read, note=f"{row:,} rows")
                    if signal := stopped():
                        command = "command" if table.keeps_features else "command with --resume"
                        fail(f"stopped {_place(name, row)} The same {command} continues.", code=128 + signal)
            if refresh:
                refreshed(table, None, bar, stopped)
                if (signal := stopped()) and table.stats().stale:
                    fail(
                        "stopped. All rows are stored, but some items are stale: `hashstream table refresh "
                        f"{folder}` re-encodes them.",
                        code=128 + signal,
                    )
    except ERRORS as error:
        fail(f"{error}\nStopped {_place(name, row)}")


def _place(name: str, row: int) -> str:
    if not row:
        return f"before the first row of {name}."
    return f"after row {row - 1} of {name}: its first {row:,} rows are stored."


def _tell(work: FileIngest, table: HashTable, folder: Path, taken: float) -> None:
    tally, stats = work.tally, table.stats()
    counts = {"replaced": tally.replaced, "already stored": tally.known}
    parts = [f"{tally.new:,} new", *(f"{count:,} {what}" for what, count in counts.items() if count)]
    codes = "all codes are current."
    if stats.stale:
        codes = (
            f"{stats.stale:.0%} of the codes are stale: `hashstream table refresh {folder}` re-encodes them."
        )
    say(
        f"{tally.rows:,} rows in {seconds(taken)}: {', '.join(parts)}. {folder} has {stats.n_items:,} items; {codes}"
    )
