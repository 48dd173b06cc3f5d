"""`hashstream data`: the data sets, where they are on this machine, and how to get them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from hashstream import datasets
from hashstream.cli.common import console, fail, say
from hashstream.terminal import load_with_bar

data_app = typer.Typer(
    help="List the data sets, find them on this machine, and download them.",
    no_args_is_help=True,
    epilog="Example: `HASHSTREAM_DATA=~/data hashstream data list`",
)


@data_app.command("list", epilog="Example: `hashstream data list`")
def data_list() -> None:
    """List every data set by name, with its content and where to get it."""
    width = max(map(len, datasets.CATALOGUE))
    try:
        found = {name: datasets.find(name) for name in datasets.CATALOGUE}
    except datasets.DatasetError as error:
        fail(error)
    absent = [record for name, record in datasets.CATALOGUE.items() if found[name] is None]
    by_hand = [record for record in absent if not record.source.downloadable]
    for name, record in datasets.CATALOGUE.items():
        if place := found[name]:
            here = f"[green]{place[0]}[/]"
        else:
            here = "[yellow]by hand[/]" if record in by_hand else "to download"
        size = (
            f"{'' if record.exact else '~ '}{record.rows:,} x {record.features:,}, {record.classes} classes"
        )
        console.print(
            f"[bold]{name:<{width}}[/]  {size:<30}  {here}\n  {escape(record.about)}", highlight=False
        )
    if len(absent) > len(by_hand):
        console.print("\nTo download: `hashstream data fetch NAME`, or on first use.", highlight=False)
    if by_hand:
        console.print("\nBy hand: put the file into a folder and set HASHSTREAM_DATA to it.", highlight=False)
        for record in by_hand:
            source = record.source
            console.print(
                f"[bold]{record.name}[/] {source.file}\n  {escape(source.origin)}.", highlight=False
            )
    console.print(
        "\nYour own: a .npz, .npy or .mat file in place of a name; examples/image_features.py makes one of images.",
        highlight=False,
    )


@data_app.command("fetch", epilog="Example: `hashstream data fetch fashion-mnist`")
def data_fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="As in `hashstream data list`.")],
) -> None:
    """Download data sets to the cache and verify their checksums.

    Files that are already on this machine are only verified.
    """
    try:
        for name in names:
            data = load_with_bar(name, console)
            n, d = data.X.shape
            say(f"{name}: {n:,} x {d:,}, {data.source}")
    except datasets.DatasetError as error:
        fail(error)


@data_app.command("where", epilog="Example: `hashstream data where`")
def data_where() -> None:
    """Show the folders that are searched, in order, and the files found there."""
    try:
        own, cache = datasets.data_folder(), datasets.cache_folder()
        say(f"HASHSTREAM_DATA  {own or 'not set'}")
        there = "" if cache.is_dir() else " (does not exist yet)"
        say(f"the cache        {cache}{there}")
        for name in datasets.CATALOGUE:
            found = datasets.find(name)
            where = "not here" if found is None else found[1] or found[0]
            say(f"{name:<16} {where}")
    except datasets.DatasetError as error:
        fail(error)
