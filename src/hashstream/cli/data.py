"""`hashstream data`: which data sets there are, where they are, how to get them, and how to make one of images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hashstream import datasets
from hashstream.cli.common import console, fail
from hashstream.datasets.images import IMAGENET_MEAN, IMAGENET_STD
from hashstream.terminal import load_with_bar

__all__ = ["data_app"]

data_app = typer.Typer(
    help="Which data sets there are, where they are found on this machine, and how to get or make one.",
    no_args_is_help=True,
    epilog="Example: `HASHSTREAM_DATA=~/data hashstream data list`",
)


@data_app.command("list", epilog="Example: `hashstream data list`")
def data_list() -> None:
    """Every data set by name, what it is, and whether it is here, can be downloaded, or is brought by hand."""
    width = max(map(len, datasets.CATALOGUE))
    blocks, by_hand = [], {}
    try:
        for name, entry in datasets.CATALOGUE.items():
            if found := datasets.find(name):
                here = f"[green]{found[0]}[/]"
            elif datasets.can_be_downloaded(name):
                here = "to download"
            else:
                here = "[yellow]by hand[/]"
                by_hand[name] = entry
            size = (
                f"{'' if entry.exact else '~ '}{entry.rows:,} x {entry.features:,}, {entry.classes} classes"
            )
            blocks.append(f"[bold]{name:<{width}}[/]  {size:<30}  {here}\n  {escape(entry.about)}")
    except datasets.DatasetError as error:
        fail(error)
    console.print("\n".join(blocks), highlight=False)
    if any(datasets.can_be_downloaded(name) and not datasets.find(name) for name in datasets.CATALOGUE):
        console.print("\nTo download: `hashstream data fetch NAME`, or on first use.", highlight=False)
    if by_hand:
        console.print("\nBy hand: put the file into a folder and set HASHSTREAM_DATA to it.", highlight=False)
        for name, entry in by_hand.items():
            console.print(f"[bold]{name}[/] {entry.file}\n  {escape(entry.origin)}.", highlight=False)
    console.print(
        "\nYour own: a .npz, .npy or .mat file in place of a name, or `hashstream data features` for images.",
        highlight=False,
    )


@data_app.command("fetch", epilog="Example: `hashstream data fetch fashion-mnist`")
def data_fetch(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="As `hashstream data list` has them.")
    ],
) -> None:
    """Get data sets onto this machine: downloaded to the cache, with every checksum verified.

    What is here already is only verified.
    """
    try:
        for name in names:
            data = load_with_bar(name, console)
            n, d = data.X.shape
            console.print(f"{name}: {n:,} x {d:,}, {escape(data.source)}", soft_wrap=True, highlight=False)
    except datasets.DatasetError as error:
        fail(error)


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


@data_app.command(
    "features",
    epilog="Example: `hashstream data features photos --model resnet50.onnx --layer pool --out photos.npz`"
    "\n\nThen: `hashstream bench --dataset photos.npz --out results`",
)
def data_features(
    folder: Annotated[Path, typer.Argument(help="A folder of images, one sub-folder a class.")],
    model: Annotated[Path, typer.Option(help="The network, an ONNX file.")],
    out: Annotated[Path, typer.Option(help="The file for the features; it ends in .npz.")],
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Images are scaled to this square; what the network asks for, else 224."),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(help="The tensor that is taken, any in the network; its first output.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images in one run of the network.")] = 64,
    mean: Annotated[
        str, typer.Option(help="Subtracted from red, green and blue between 0 and 1.")
    ] = ",".join(map(str, IMAGENET_MEAN)),
    std: Annotated[str, typer.Option(help="What they are divided by then.")] = ",".join(
        map(str, IMAGENET_STD)
    ),
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at an image that cannot be read instead of leaving it out.")
    ] = False,
) -> None:
    """Turn a folder of images into features, with a network that you have.

    The result is a file that can stand wherever a data set is named. Stopped half-way, the same command goes on.
    """
    columns = (
        TextColumn("images"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    try:
        centre, width = _three(mean, "--mean"), _three(std, "--std")
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("images", total=None)
            made = datasets.image_features(
                folder,
                model,
                out,
                layer=layer,
                size=size,
                batch=batch,
                mean=centre,
                std=width,
                strict=strict,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
    except (datasets.DatasetError, ValueError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail("stopped. What is done is kept: the same command goes on.", code=130)
    for file, why in made.skipped:
        console.print(f"[yellow]left out: {escape(file)}: {escape(why)}[/]", soft_wrap=True, highlight=False)
    before = f" ({made.resumed:,} of them from before)" if made.resumed else ""
    console.print(
        f"{made.path}: {made.rows:,} x {made.features:,}{before}, {len(made.classes)} classes, "
        f"{len(made.skipped)} images left out",
        soft_wrap=True,
        highlight=False,
    )


def _three(text: str, option: str) -> list[float]:
    """Three numbers from a list such as `0.5,0.5,0.5`."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != 3:
        raise ValueError(f"{option} {text!r}: give three numbers with commas between, as 0.5,0.5,0.5")
    return found
