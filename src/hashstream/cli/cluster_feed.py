"""`hashstream cluster feed`: files into a cluster, in parts that may be given again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import TaskID

from hashstream.cli.cluster_common import AddressOption, ClusterFolder, opened_cluster, refreshed_cluster
from hashstream.cli.common import fail, say
from hashstream.cli.table_common import (
    ERRORS,
    FeatureColumns,
    FieldOption,
    Files,
    IdColumn,
    LabelColumn,
    NoHeader,
    PayloadOption,
    Text,
    failing,
    open_source,
    stopping,
    work_bar,
)
from hashstream.table import Progress
from hashstream.table.field_text import parse_fields
from hashstream.terminal import seconds

__all__ = ["feed"]

AGAIN = "The same command goes on: nothing is stored or learned twice."


class Stopped(Exception):
    """The number of the signal that came."""


def feed(
    folder: ClusterFolder,
    files: Files,
    address: AddressOption = None,
    id: IdColumn = None,
    label: LabelColumn = None,
    features: FeatureColumns = None,
    field: FieldOption = None,
    payload: PayloadOption = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows that are learned at a time.")] = 1000,
    in_flight: Annotated[int, typer.Option(min=1, help="Batches that shards are storing at a time.")] = 4,
    refresh: Annotated[
        bool | None,
        typer.Option(
            "--refresh/--no-refresh",
            help="Whether stale items are re-encoded at the end; by default they are if the run learns.",
            show_default=False,
        ),
    ] = None,
    no_learn: Annotated[
        bool,
        typer.Option("--no-learn", help="Store the rows with their labels, and learn nothing from them."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Send files again that are noted as fed; newer rows stay as they are."),
    ] = False,
    first_id: Annotated[
        int, typer.Option(help="Id of the first row of files without ids; the others count up from it.")
    ] = 0,
    no_header: NoHeader = False,
    text: Text = False,
) -> None:
    """Send the rows of files to their shards, and learn from those that have a label, while others search.

    A shard is a table of its own in a process of its own; the id of a row decides which one stores it. One more
    process, the learner, learns from all labelled rows in order, exactly as one table would.

    Every file is a part with a number, and its rows keep the sequence numbers that follow from it. So the command may
    be given again after anything was killed: files that all shards have are skipped, and of the others, rows that are
    stored already change nothing. An old file that is fed late does not overwrite newer rows.
    """
    with failing(), opened_cluster(folder, address) as cluster:
        new = parse_fields(field or [])
        columns: dict[str, Any] = {
            "id": id, "label": label, "features": features, "payload": tuple(payload or ()),
            "header": not no_header, "text": text,
        }  # fmt: skip
        dtype = cluster.dtype or np.dtype(np.float32)
        sources = [
            open_source(file, fields={**cluster.fields, **new}, dtype=dtype, **columns) for file in files
        ]
        for name in new:
            if name not in cluster.fields and not any(name in source.fields for source in sources):
                raise ValueError(f"--field {name}:{new[name]}: no file has a column {name!r}")
        cluster.declare(new)
        parts = [
            file if Path(file).is_file() else source for file, source in zip(files, sources, strict=True)
        ]
        start, seen, shown = time.perf_counter(), cluster.stats().n_seen, Steps()
        try:
            with stopping() as stopped, work_bar() as bar:
                fed = cluster.feed(
                    parts, learn=not no_learn, batch=batch, force=force, in_flight=in_flight, first_id=first_id,
                    progress=lambda step: shown.show(step, bar, stopped()), **columns,
                )  # fmt: skip
                learned = cluster.stats().n_seen - seen
                if refresh or (refresh is None and learned):
                    refreshed_cluster(cluster, None, bar, stopped)
        except Stopped as stop:
            fail(f"stopped {shown.place()}. {AGAIN}", code=128 + stop.args[0])
        except ERRORS as error:
            fail(f"{error}\nStopped {shown.place()}. Once that is mended: {AGAIN[0].lower()}{AGAIN[1:]}")
        taken, stats = seconds(time.perf_counter() - start), cluster.stats()
        skipped = f", {fed.skipped:,} skipped as fed before" if fed.skipped else ""
        codes = "all codes are current."
        if stats.stale:
            codes = f"{stats.stale:.0%} of the codes are stale: `hashstream cluster refresh {folder}` re-encodes them."
        say(
            f"{fed.parts:,} {'file' if fed.parts == 1 else 'files'} with {fed.rows:,} rows in {taken}{skipped}; "
            f"learned from {learned:,}. {folder} has {stats.n_items:,} items in {len(stats.shards)} shards; {codes}"
        )
        if fed.rows and not no_learn and not learned:
            say("None of these rows has a new label (--label), so nothing was learned from them.")


class Steps:
    """The progress of a feed, on a bar."""

    def __init__(self) -> None:
        self._name, self._row = "", 0
        self._tasks: dict[str, TaskID] = {}

    def show(self, step: Progress, bar: Bar, signal: int) -> None:
        """Move the bar; `Stopped` where a signal came."""
        assert step.source is not None
        self._name, self._row = step.source.name, step.row
        if self._name not in self._tasks:
            self._tasks[self._name] = bar.add_task(escape(Path(self._name).name), total=step.total, note="")
        bar.update(self._tasks[self._name], completed=step.read, note=f"{step.row:,} rows")
        if signal:
            raise Stopped(signal)

    def place(self) -> str:
        return f"after {self._row:,} rows of {self._name}" if self._name else "before the first file"
