"""`hashstream demo`: a table that learns from a stream while it is searched, killed and reopened."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hashstream import datasets
from hashstream._extras import require
from hashstream._machine import size
from hashstream.cli.common import console, fail, say
from hashstream.table import TableError
from hashstream.terminal import load_with_bar, seconds

if TYPE_CHECKING:
    from hashstream.demo import DemoResult, Started

METRICS = ("mAP", "precision@10", "precision@H2")


class DemoData(StrEnum):
    auto = "auto"
    mnist = "mnist"
    digits = "digits"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and two pictures; created if missing.")],
    dataset: Annotated[
        DemoData, typer.Option(help="auto: MNIST if it is available, otherwise digits.")
    ] = DemoData.auto,
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Bits per code.")] = 32,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the split into queries and stream, and of the method.")
    ] = 0,
) -> None:
    """Watch a table learn from a stream of digits while it is searched, killed, reopened, and continues.

    MNIST is read from the folder named by HASHSTREAM_DATA, from the cache, or downloaded with its checksums
    verified; if none of this works, scikit-learn's small digits are used. Takes about a minute on two cores.

    The stream goes through PosteriorHash; FCOH, the paper's method, learns from it as well, to compare.
    """
    require("matplotlib", "plots")  # before the work, not after it
    from hashstream.demo import demo as run_demo

    try:
        result = run_demo(load_demo_data(dataset), out, n_bits=bits, seed=seed, tell=_tell)
    except (datasets.DatasetError, TableError, OSError) as error:
        fail(error)
    _summarise(result)
    console.print("\nTwo pictures to look at, and a table to try:")
    commands = (f"stats {result.table}", f"search {result.table} --like {result.neighbour}")
    for line in (*result.pictures, *(f"hashstream table {command}" for command in commands)):
        say(f"  {line}")
    console.print("\nTo teach a table yourself, in a browser, with images that nobody has labelled:")
    say("  hashstream serve serve-tables --demo --open")


def load_demo_data(dataset: DemoData) -> datasets.Dataset:
    """MNIST, or digits where it is not available."""
    if dataset != DemoData.auto:
        return load_with_bar(dataset.value, console)
    try:
        return load_with_bar("mnist", console)
    except datasets.DatasetError as error:
        console.print("[yellow]MNIST is not available, so this demo uses scikit-learn's small digits.[/]")
        console.print(f"[dim]{escape(str(error))}[/]", soft_wrap=True, highlight=False)
        return datasets.load("digits")


def _tell(event: object) -> None:
    """Print what happens, as it happens."""
    from hashstream.demo import Checkpoint, Recovery, Started

    match event:
        case Started():
            _introduce(event)
        case Checkpoint():
            line = f"mAP {event.stored:.3f}  [blue]{_bar(event.stored):<24}[/]  {event.fresh:.3f} re-encoded"
            console.print(f"{f'{event.items:,} images stored':>22}   {line}", highlight=False)
        case Recovery():
            _say("2. Kill it.", "The other process was killed in the middle of its work, as by `kill -9`.")
            more = event.found - event.acknowledged
            extra = f", and {more} more that were stored but not yet acknowledged" if more else ""
            console.print(
                f"It had acknowledged {event.acknowledged:,} images. Reopened in {seconds(event.open_seconds)}: "
                f"[bold green]all {event.acknowledged:,} are there[/]{extra}. The checksums of all "
                f"{event.rows_checked:,} rows match.",
                highlight=False,
            )
            _say("3. Continue.", "Now this process learns, from where the other one was killed.")


def _introduce(started: Started) -> None:
    setup, score = started.setup, started.untrained["mAP"]
    data = setup.data
    console.print(
        f"\n[bold]{datasets.CATALOGUE[data.name].title}[/], {len(data.X):,} images of {data.X.shape[1]} pixels, "
        f"{escape(data.source)}. {len(setup.split.queries):,} of them are queries, never learned from; "
        f"{len(setup.split.stream):,} others are the stream.",
        highlight=False,
    )
    _say(
        "1. Stream in, and search meanwhile.",
        f"Another process learns {setup.n_bits}-bit codes with PosteriorHash from {len(setup.batches()[0])} labelled "
        f"images at a time and stores them in {escape(str(started.table))}. This process searches for the neighbours "
        f"of {len(setup.asked)} queries and measures mAP, which is 1 if all images of a query's class come first. Old "
        "codes are re-encoded now and then; the last column is the mAP if all were re-encoded at once.",
    )
    console.print(f"{'untrained projection':>22}   mAP {score:.3f}  {_bar(score)}", highlight=False)


def _say(head: str, text: str) -> None:
    console.print(f"\n[bold]{head}[/] {text}\n", highlight=False)


def _summarise(result: DemoResult) -> None:
    setup, stale = result.setup, result.stale
    n, d, code = len(setup.split.stream), setup.X.shape[1], -(-setup.n_bits // 8)
    same = (
        "bit for bit those of a run without a kill"
        if result.same
        else "[red]not those of a run without a kill[/]"
    )
    as_stored, refreshed = (one.stored for one in result.checkpoints[-2:])
    rows = {
        "learned": f"from {n:,} images, each seen once, default settings; {seconds(result.learn_seconds)} of learning, "
        f"and {seconds(result.solve_seconds)} whenever the hash functions change",
        **{
            name: f"[bold blue]{result.scores[name]:.3f}[/]   FCOH {result.fcoh.scores[name]:.3f}   untrained "
            f"projection {result.untrained[name]:.3f}"
            for name in METRICS
        },
        "the kill": f"cost 0 images; the hash functions are {same}",
        "stale codes": f"at the end {stale.stale:.1%} of the codes were outdated, by {stale.updates_behind:.0f} "
        f"updates on average: mAP {as_stored:.3f}. Re-encoding them took {seconds(result.refresh_seconds)}: "
        f"mAP {refreshed:.3f}",
        "search": f"{seconds(result.search_seconds)} per query for the exact 10 nearest of {n:,} "
        f"({len(setup.split.queries):,} queries at once)",
        "size of an item": f"[bold blue]{size(code)}[/] of code instead of {4 * d:,} as float32 ({4 * d / code:,.0f} "
        f"times smaller); with its id and index {stale.memory_bytes / stale.n_items:.0f} in memory, while its features "
        "stay on disk",
    }
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows.items():
        table.add_row(name, text)
    console.print("\n[bold]Results[/]\n")
    console.print(table, highlight=False)


def _bar(share: float, width: int = 24) -> str:
    """A bar for a number from 0 to 1, in eighths of a character.

    >>> _bar(0.5, 4), _bar(0.3, 4)
    ('██', '█▎')
    """
    whole, eighths = divmod(round(share * width * 8), 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip()
