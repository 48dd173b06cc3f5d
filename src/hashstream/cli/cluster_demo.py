"""`hashstream cluster demo`: a cluster on this machine, killed and taught while it is searched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hashstream import datasets
from hashstream._extras import require
from hashstream.cli.common import console, fail, say
from hashstream.cli.demo import DemoData, load_demo_data
from hashstream.cli.quiet import engine_hushed
from hashstream.cli.table_common import failing
from hashstream.scale.connection import import_ray
from hashstream.terminal import seconds

__all__ = ["demo"]


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the cluster, a table and a picture; created if missing.")
    ],
    dataset: Annotated[
        DemoData, typer.Option(help="auto: MNIST if it is available, otherwise digits.")
    ] = DemoData.auto,
    shards: Annotated[int, typer.Option(min=1, max=16, help="Shards, each a process.")] = 2,
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Bits per code.")] = 64,
) -> None:
    """Watch a cluster on this machine: fed from files, searched while a shard is killed, taught, compared with a table.

    Takes a minute or two on two cores, some of it to start Ray. Small data are repeated with noise.
    """
    with failing():
        require("matplotlib", "plots")  # before the work, not after it
        import_ray()
        from hashstream.demo.cluster import ClusterDemo, ClusterDemoResult

        data = load_demo_data(dataset)
        title = datasets.CATALOGUE[data.name].title
        console.print(f"\n[bold]{title}[/], a cluster of {shards} shards on this machine\n", highlight=False)
        step = iter(range(1, 100))
        with engine_hushed():
            result: ClusterDemoResult = ClusterDemo(
                data, out, n_bits=bits, tell=lambda text: say(f"  {next(step)}. {text}")
            ).run(shards)
        _summarise(result)
        if (
            result.searches.wrong
            or result.searches.failed
            or not (result.same_digest and result.same_answers)
        ):
            fail("the cluster's answers are not those of one table", code=1)


def _summarise(result: object) -> None:
    from hashstream.demo.cluster import ClusterDemoResult

    assert isinstance(result, ClusterDemoResult)
    found = result.searches
    took = sorted(took for _, took in found.moments)
    equal = {True: "[bold green]equal[/]", False: "[bold red]not equal[/]"}
    rows = {
        "fed": f"{result.items:,} items in {seconds(result.fed)}, learned from and re-encoded",
        "searches": f"{len(took):,}, the median in {seconds(took[len(took) // 2])}; [bold blue]{found.wrong}[/] wrong, "
        f"[bold blue]{len(found.failed)}[/] failed",
        "the kill": f"searches waited [bold blue]{result.back - result.killed:.1f} s[/] for the shard to restart",
        "labels": f"{result.labels:,} given; {result.recoded:,} items re-encoded, after {seconds(result.refreshed)} in "
        f"all. Answers with the label of their query: {result.right:.1%} before, {result.taught:.1%} now",
        "one table": f"digest {equal[result.same_digest]}, answers {equal[result.same_answers]}",
    }
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows.items():
        table.add_row(name, text)
    console.print("\n[bold]Results[/]\n")
    console.print(table, highlight=False)
    console.print("\nA picture to look at, and a cluster to try:")
    for line in (
        result.picture,
        f"hashstream cluster stats {result.path}",
        f"hashstream serve {result.path}",
    ):
        say(f"  {line}")
