"""`hashstream data`: which data sets there are, and where they are found."""

from __future__ import annotations

import typer
from rich.table import Table

from hashstream import datasets
from hashstream.cli.common import console, fail

__all__ = ["data_app"]

data_app = typer.Typer(
    help="Which data sets there are, and where they are found on this machine.",
    no_args_is_help=True,
    epilog="Example: `HASHSTREAM_DATA=~/data hashstream data list`",
)


@data_app.command("list", epilog="Example: `hashstream data list`")
def data_list() -> None:
    """Every data set by name, what it is, and whether it is here."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "rows x features", "here", "what it is"):
        table.add_column(column, no_wrap=column == "name")
    try:
        for name, entry in datasets.CATALOGUE.items():
            found = datasets.find(name)
            here = f"[green]{found[0]}[/]" if found else "to download" if name == "mnist" else "[yellow]no[/]"
            table.add_row(name, f"{entry.rows:,} x {entry.features:,}", here, entry.about)
    except datasets.DatasetError as error:
        fail(error)
    console.print(table, highlight=False)


@data_app.command("where", epilog="Example: `hashstream data where`")
def data_where() -> None:
    """The folders that are looked in, first come first, and the files found there."""
    try:
        own, cache = datasets.data_folder(), datasets.cache_folder()
        console.print(f"HASHSTREAM_DATA  {own or 'not set'}", soft_wrap=True, highlight=False)
        there = "" if cache.is_dir() else " (not made yet)"
        console.print(f"the cache        {cache}{there}", soft_wrap=True, highlight=False)
        for name in datasets.CATALOGUE:
            found = datasets.find(name)
            where = "not here" if found is None else found[1] or found[0]
            console.print(f"{name:<16} {where}", soft_wrap=True, highlight=False)
    except datasets.DatasetError as error:
        fail(error)
