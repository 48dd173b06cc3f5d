"""`hashstream table ingest`: files into a table, in batches that each survive a crash."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from hashstream import datasets
from hashstream.cli.common import console, fail
from hashstream.cli.table_common import (
    Double,
    FeatureColumns,
    Folder,
    IdColumn,
    LabelColumn,
    NoHeader,
    Text,
    check_finite,
    failing,
    open_source,
    opened,
    policy_of,
    refreshed,
    stopping,
    work_bar,
)
from hashstream.datasets.rows import Rows, RowSource
from hashstream.hashers import DivergenceError
from hashstream.table import HashTable, TableError
from hashstream.table.state.labels import label_at
from hashstream.terminal import seconds

__all__ = ["Durability", "ingest"]


class Durability(StrEnum):
    """What a batch survives once it is stored."""

    full = "full"
    fast = "fast"


@dataclass
class Tally:
    """Rows by what became of them: stored as new items, in the place of others, or left out as there already."""

    new: int = 0
    replaced: int = 0
    known: int = 0

    @property
    def rows(self) -> int:
        return self.new + self.replaced + self.known


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
        typer.Option(min=1, help="Rows that are learned and made durable at a time: all or none of them."),
    ] = 1000,
    policy: Annotated[
        str | None,
        typer.Option(
            help="When codes are made anew: eager (after every batch), every:K (batches), gated or gated:THETA (when "
            "labels are told apart better than by the codes in the table), lazy or lazy:SHARE (in the background), "
            "never. Default every:100, and once more at the end; projected:100 where no features are kept.",
        ),
    ] = None,
    refresh: Annotated[
        bool | None,
        typer.Option(
            "--refresh/--no-refresh",
            help="Whether codes of older functions are made anew at the end. By default they are where the run learns, "
            "features are kept and no --policy says when.",
            show_default=False,
        ),
    ] = None,
    no_learn: Annotated[
        bool,
        typer.Option("--no-learn", help="Store the rows, with the functions as they are; no labels needed."),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Pass over rows whose id is in the table, without comparing what is stored there.",
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Learn again from rows that are in the table just as they are.")
    ] = False,
    first_id: Annotated[
        int, typer.Option(help="The id of the first row, where the files have none; the others count on.")
    ] = 0,
    durability: Annotated[
        Durability,
        typer.Option(
            help="full: a stored batch survives kill -9 and, as far as fsync goes, a power loss. fast: it survives "
            "kill -9, and a power loss only when the command has ended; before, that may take the last batches."
        ),
    ] = Durability.full,
    no_header: NoHeader = False,
    text: Text = False,
    double: Double = False,
) -> None:
    """Learn from the rows of files and store them, while others search.

    Rows whose label is empty are stored, and not learned from.

    Files of any size are read in pieces. Each batch is durable as soon as it is stored. Stopped by Ctrl-C or by a
    crash, the same command goes on: a row that is in the table already, with the same features and label, is passed
    over; one that has changed replaces what was there. Where the files have several rows of one id, the last one
    stays, and the earlier ones are taken for changes: the same command learns from all of them again, unless --resume
    is given.
    """
    if resume and again:
        fail("--resume passes over what is there, --again learns it again: say one of them")
    with failing(), opened(folder, policy=policy_of(policy), durability=durability.value) as table:
        hasher = table.hasher
        dtype = getattr(hasher, "dtype_", np.dtype(np.float64 if double else np.float32))
        sources = [
            open_source(
                file, id=id, label=label, features=features, header=not no_header, text=text, dtype=dtype
            )
            for file in files
        ]
        if not no_learn:
            for source in sources:
                if hasher.needs_labels and not source.has_labels:
                    raise ValueError(
                        f"{type(hasher).__name__} learns from labels, and {source.name} has none: name them with "
                        "--label, or store the rows without learning with --no-learn"
                    )
        if refresh is None:
            refresh = policy is None and not no_learn and table.keeps_features
        work = Ingest(
            table, batch, learn=not no_learn, resume=resume, again=again, next_id=first_id, refresh=refresh
        )
        work.run(sources, folder)


class Ingest:
    """One run of the command. next_id : of the next row, where the files have no ids."""

    def __init__(
        self,
        table: HashTable,
        batch: int,
        *,
        learn: bool,
        resume: bool,
        again: bool,
        next_id: int,
        refresh: bool,
    ) -> None:
        self._table, self._batch, self._learn, self._refresh = table, batch, learn, refresh
        self._resume, self._again, self._next_id = resume, again, next_id
        self._unsure = False  # whether there was something that cannot be compared
        self.tally = Tally()

    def run(self, sources: list[RowSource], folder: Path) -> None:
        start, name, row = time.perf_counter(), "", 0
        try:
            with stopping() as stopped, work_bar() as bar:
                for source in sources:
                    name, row = source.name, 0
                    task = bar.add_task(escape(Path(name).name), total=source.total, note="")
                    for rows in source.pieces(self._batch):
                        row = rows.first
                        check_finite(source, rows)
                        self._take(source, rows)
                        row += len(rows)
                        bar.update(task, completed=rows.read, note=f"{row:,} rows")
                        if signal := stopped():
                            again = "command" if self._table.keeps_features else "command with --resume"
                            fail(f"stopped {_place(name, row)} The same {again} goes on.", code=128 + signal)
                    if not row:
                        raise datasets.DatasetError(f"{name} has no rows")
                if self._refresh and (todo := self._stale()):
                    refreshed(self._table, todo, bar, stopped)
                    if (signal := stopped()) and self._stale():
                        fail(
                            "stopped. All rows are stored, but some codes are of older functions still: `hashstream "
                            f"table refresh {folder}` makes them anew.",
                            code=128 + signal,
                        )
        except (datasets.DatasetError, TableError, DivergenceError, ValueError, TypeError, OSError) as error:
            fail(f"{error}\nStopped {_place(name, row)}")
        self._table.flush()  # with durability "fast", from here on it survives a power loss, too
        self._tell(time.perf_counter() - start, folder)

    def _take(self, source: RowSource, rows: Rows) -> None:
        counted = rows.ids is None
        if counted:
            ids = np.arange(self._next_id, self._next_id + len(rows))
            self._next_id += len(rows)
        else:
            assert rows.ids is not None
            ids = rows.ids
        for part in apart(ids):
            y = None if rows.y is None else rows.y[part]
            there, same = self._known(ids[part], rows.X[part], y)
            if counted and not (self._resume or self._again) and (there & ~same).any():
                row = rows.first + part.start + int(np.argmax(there & ~same))
                raise ValueError(
                    f"{source.name} has no ids, so row {row} would be item {ids[row - rows.first]}, and the table has "
                    f"{'an' if self._unsure else 'another'} item of that id. Name the ids with --id, begin behind "
                    "those that are there with --first-id, go on where an earlier run stopped with --resume, or "
                    "replace what is there with --again"
                )
            take = ~there if self._resume else np.ones(len(there), bool) if self._again else ~same
            self.tally.known += int((~take).sum())
            if not take.any():
                continue
            if self._learn:
                self._table.ingest(ids[part][take], rows.X[part][take], None if y is None else y[take])
            else:
                self._table.add(ids[part][take], rows.X[part][take])
            self.tally.replaced += int((take & there).sum())
            self.tally.new += int((take & ~there).sum())

    def _known(self, ids: np.ndarray, X: np.ndarray, y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Which rows have an id that is in the table, and which of them are there just as they are, (n,) bool each.

        Where no features are kept, nobody can tell: then none is.
        """
        there = np.array([one in self._table for one in ids.tolist()], bool)
        same = np.zeros(len(ids), bool)
        if self._resume or self._again or not there.any():
            return there, same
        at = np.flatnonzero(there)
        held = self._table.get(ids[at])
        labels = [label_at(y if self._learn else None, row) for row in at.tolist()]
        if held.features is None:
            self._unsure = True
            return there, same
        same[at] = (held.features == X[at]).all(axis=1)
        same[at] &= [_same_label(a, b) for a, b in zip(held.labels, labels, strict=True)]
        return there, same

    def _stale(self) -> int:
        stats = self._table.stats()
        return sum(n for version, n in stats.versions.items() if version != stats.newest_version)

    def _tell(self, taken: float, folder: Path) -> None:
        tally, stats = self.tally, self._table.stats()
        parts = [f"{tally.new:,} new"]
        if tally.replaced:
            parts.append(f"{tally.replaced:,} replaced")
        if tally.known:
            parts.append(f"{tally.known:,} there already")
        codes = "all codes are of the functions of now."
        if stats.stale:
            old = f"{stats.stale:.0%} of the codes are of older functions"
            codes = f"{old}: `hashstream table refresh {folder}` makes them anew."
        console.print(
            f"{tally.rows:,} rows in {seconds(taken)}: {', '.join(parts)}. {escape(str(folder))} has {stats.n_items:,} "
            f"items; {escape(codes)}",
            highlight=False,
            soft_wrap=True,
        )


def apart(ids: np.ndarray) -> Iterator[slice]:
    """Cut a batch where an id comes a second time, so that the later row replaces the earlier one.

    >>> [ids.tolist() for ids in (np.array([1, 2, 1, 3])[part] for part in apart(np.array([1, 2, 1, 3])))]
    [[1, 2], [1, 3]]
    """
    seen: set[object] = set()
    start = 0
    for row, one in enumerate(ids.tolist()):
        if one in seen:
            yield slice(start, row)
            start = row
            seen.clear()
        seen.add(one)
    if start < len(ids):
        yield slice(start, len(ids))


def _same_label(held: object, given: object) -> bool:
    if held is None or given is None:
        return held is given
    if isinstance(held, np.ndarray) or isinstance(given, np.ndarray):
        return np.array_equal(np.asarray(held), np.asarray(given))
    return bool(held == given)


def _place(name: str, row: int) -> str:
    if not row:
        return f"before the first row of {name}."
    return f"behind row {row - 1} of {name}: its first {row:,} rows are stored."
