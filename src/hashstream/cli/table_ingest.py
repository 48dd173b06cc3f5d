"""`hashstream table ingest`: files into a table, in batches that each survive a crash."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import TaskID

from hashstream.cli.common import fail, say
from hashstream.cli.table_common import (
    ERRORS,
    DurabilityOption,
    FeatureColumns,
    FieldOption,
    Files,
    Folder,
    IdColumn,
    IndexOption,
    LabelColumn,
    NoHeader,
    PayloadOption,
    PolicyOption,
    Text,
    failing,
    open_source,
    opened,
    refuse_cluster,
    stopping,
    to_store,
    work_bar,
)
from hashstream.table import HashTable, Progress, Tally
from hashstream.table.field_text import parse_fields
from hashstream.terminal import seconds

__all__ = ["ingest"]


def ingest(
    folder: Folder,
    files: Files,
    id: IdColumn = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    field: FieldOption = None,
    payload: PayloadOption = None,
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
            "stored and the policy is the method's default.",
            show_default=False,
        ),
    ] = None,
    no_learn: Annotated[
        bool,
        typer.Option("--no-learn", help="Store the rows without labels, encoded with the current functions."),
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
    index: IndexOption = None,
    no_header: NoHeader = False,
    text: Text = False,
    double: Annotated[
        bool,
        typer.Option("--double", help="Features of a new table as float64, twice as large as float32."),
    ] = False,
) -> None:
    """Learn from the rows of files and store them, while others search.

    Rows without a label are stored, and not learned from; `hashstream table label` gives them one later.

    Columns (in .npz arrays) that are named like a field of the table are stored as that field. In text, an empty cell
    is a missing value; bool is true, false, yes, no, 1 or 0; datetime is ISO 8601; a list is a JSON array, or strings
    separated by "|" or ";".

    Files of any size are read in pieces. Each batch is durable once it is stored. Interrupted by Ctrl-C or a crash,
    the same command continues: a row that is already stored with the same features, label, fields and payload is
    skipped; one that has changed replaces what is stored. If files have several rows of one id, the last one stays, and
    the earlier ones count as changes: the same command learns from all of them again, unless --resume is given.
    """
    with failing():
        refuse_cluster(folder)
    with failing(), opened(folder, **to_store(policy, durability, index)) as table:
        dtype = getattr(table.hasher, "dtype_", np.float64 if double else np.float32)
        new = parse_fields(field or [])
        sources = [
            open_source(
                file, id=id, label=label, features=features, fields={**table.fields, **new}, payload=payload or (),
                header=not no_header, text=text, dtype=dtype,
            )
            for file in files
        ]  # fmt: skip
        for name in new:
            if name not in table.fields and not any(name in source.fields for source in sources):
                raise ValueError(f"--field {name}:{new[name]}: no file has a column {name!r}")
        table.declare(new)
        seen = table.stats().n_seen
        start, steps = time.perf_counter(), Steps(table, folder)
        if refresh is None and policy is not None:
            refresh = False
        try:
            with stopping() as stopped, work_bar() as bar:
                tally = table.ingest_files(
                    sources, batch=batch, learn=not no_learn, resume=resume, again=again, first_id=first_id,
                    refresh=refresh, progress=lambda step: steps.show(step, bar, stopped()),
                )  # fmt: skip
        except Stopped as stop:
            fail(stop.args[0], code=128 + stop.args[1])
        except ERRORS as error:
            fail(f"{error}\nStopped {steps.place()}")
        _tell(tally, table, folder, time.perf_counter() - start)
        if not no_learn and table.stats().n_seen == seen and tally.new + tally.replaced:
            say("None of these rows has a label (--label), so nothing was learned from them.")


class Stopped(Exception):
    """A sentence, and the number of the signal that came."""


class Steps:
    """The progress of an ingest, on a bar."""

    def __init__(self, table: HashTable, folder: Path) -> None:
        self._again = "command" if table.keeps_features else "command with --resume"
        self._folder, self._name, self._row = folder, "", 0
        self._tasks: dict[str, TaskID] = {}

    def show(self, step: Progress, bar: Bar, signal: int) -> None:
        """Move the bar; `Stopped` where a signal came."""
        self._row = step.row
        name, note = "codes", f"{step.row:,}"
        if step.source is not None:
            self._name = name = step.source.name
            note += " rows"
        if name not in self._tasks:
            self._tasks[name] = bar.add_task(escape(Path(name).name), total=step.total, note="")
        bar.update(self._tasks[name], completed=step.read, note=note)
        if signal and step.source is not None:
            raise Stopped(f"stopped {self.place()} The same {self._again} continues.", signal)
        if signal and step.row < step.total:
            again = f"`hashstream table refresh {self._folder}` re-encodes them."
            raise Stopped(f"stopped. All rows are stored, but some items are stale: {again}", signal)

    def place(self) -> str:
        if not self._row:
            return f"before the first row of {self._name}." if self._name else "before the first row."
        return f"after row {self._row - 1} of {self._name}: its first {self._row:,} rows are stored."


def _tell(tally: Tally, table: HashTable, folder: Path, taken: float) -> None:
    stats = table.stats()
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
