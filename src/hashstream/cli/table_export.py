"""`hashstream table export` and `hashstream table import`: a table as Parquet files, and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress

from hashstream._machine import size
from hashstream.cli.cluster_common import AddressOption, steps
from hashstream.cli.common import fail, say
from hashstream.cli.table_common import Folder, failing, opened, stopping, work_bar
from hashstream.scale import Cluster
from hashstream.table import HashTable
from hashstream.table.export.restore import was_restored
from hashstream.table.export.writing import ExportProgress
from hashstream.terminal import seconds

__all__ = ["export", "import_"]


class Stopped(Exception):
    """The number of the signal that came."""


def export(
    folder: Folder,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or that of the same export.")],
    features: Annotated[
        bool,
        typer.Option(
            "--features",
            help="Export features too. `hashstream table import` then restores a table that re-encodes its items from "
            "features. Without them, it restores one that keeps none: it is searched as before, and is re-encoded "
            "from codes, with somewhat worse answers.",
        ),
    ] = False,
    part_rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Items of a Parquet file at most; a million by default, fewer with features.",
            show_default=False,
        ),
    ] = None,
    address: AddressOption = None,
) -> None:
    """Write all items to Parquet files, as of one commit, while others write to the table. Of a cluster, each shard
    as of one commit, to a folder that all machines see.

    The columns are id, version, code, label, learned, the fields, payload (JSON), sequence, position and, with
    --features, features. Beside them are the hash functions of every version and manifest.json, with counts, digests
    and checksums, which is written last.

    Interrupted, the same command continues with the files that are missing. If the table has changed since, it starts
    again.
    """
    with failing(), opened(folder, address, mode="read") as table:
        start, told = time.perf_counter(), Told()
        whole = isinstance(table, Cluster)
        with stopping() as stopped, work_bar() as bar:
            tell = (told.on_shards if whole else told.on)(bar, target, stopped)
            try:
                manifest = table.export(target, features=features, part_rows=part_rows, progress=tell)
            except Stopped as stop:
                fail("stopped. The same command continues.", code=128 + stop.args[0])
        if told.first is None and not whole:
            say(f"Nothing to do: {target} holds this export, of commit {manifest.commit}.")
            return
        if told.first is None:
            pass  # what shards have kept is not known here
        elif told.first.restarted:
            say("The table, or an option, had changed since an earlier export began: it was started again.")
        elif told.first.kept:
            say(f"{told.first.kept:,} of the items had been exported before.")
        total = sum(one.bytes for one in manifest.files)
        say(
            f"{manifest.count:,} items in {len(manifest.parts):,} Parquet files, {size(total)}, in "
            f"{seconds(time.perf_counter() - start)}; digest {manifest.digest}."
        )


def import_(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a complete export.")],
    folder: Annotated[Path, typer.Argument(metavar="TABLE", help="A new folder.")],
) -> None:
    """Restore the table that `hashstream table export` has written; of a cluster, one table with all of its items.

    Checksums, counts and digests are verified before and after. If anything is wrong, there is no table. Given again,
    it does nothing.
    """
    with failing():
        if was_restored(source, folder):
            say(f"Nothing to do: {folder} was restored from {source} already.")
            return
        start, told = time.perf_counter(), Told()
        with stopping() as stopped, work_bar() as bar:
            try:
                table = HashTable.restore(source, folder, progress=told.on(bar, folder, stopped))
            except Stopped as stop:
                fail("stopped. Nothing was restored.", code=128 + stop.args[0])
        with table:
            kept = "with features" if table.keeps_features else "without features"
            say(
                f"{folder}: {len(table):,} items of {len(table.stats().versions):,} versions, {kept}, in "
                f"{seconds(time.perf_counter() - start)}; digest {table.digest():016x}, as exported."
            )


class Told:
    """Progress on a bar. first : of the work, None where there was none."""

    def __init__(self) -> None:
        self.first: ExportProgress | None = None

    def on(self, bar: Progress, target: Path, stopped: Callable[[], int]) -> Callable[[ExportProgress], None]:
        """A function that moves the bar, and raises `Stopped` where a signal came."""
        task = bar.add_task(escape(target.name), total=None, note="")

        def show(step: ExportProgress) -> None:
            self.first = self.first or step
            bar.update(task, completed=step.rows, total=step.total, note=f"{step.rows:,} items")
            if number := stopped():
                raise Stopped(number)

        return show

    def on_shards(
        self, bar: Progress, target: Path, stopped: Callable[[], int]
    ) -> Callable[[int, int], None]:
        """The same for a cluster."""
        tell = steps(bar, escape(target.name))

        def show(done: int, total: int) -> None:
            tell(done, total)
            if (number := stopped()) and done < total:
                raise Stopped(number)

        return show
