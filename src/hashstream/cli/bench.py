"""`hashstream bench`: methods side by side under one protocol."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hashstream import datasets, evaluate
from hashstream.cli.common import choose, console, fail, numbers, paper_settings
from hashstream.cli.common import settings as parse_settings
from hashstream.evaluate import protocols
from hashstream.evaluate.reference import REFERENCE
from hashstream.terminal import load_with_bar, watch_jobs

__all__ = ["bench"]


class Settings(StrEnum):
    """Whose settings a method is measured with."""

    default = "default"
    paper = "paper"


class Ties(StrEnum):
    paper = "paper"
    aware = "aware"


def bench(
    dataset: Annotated[str, typer.Option(help="A name from `hashstream data list`.")],
    out: Annotated[Path, typer.Option(help="Folder of results.csv; rows are appended.")],
    methods: Annotated[
        str,
        typer.Option(help="Names, with commas between, or `all`; `my_module:MyMethod` for one of your own."),
    ] = "FCOH,LSH",
    bits: Annotated[str, typer.Option(help="Code lengths, with commas between.")] = "32",
    runs: Annotated[int, typer.Option(min=1, help="Run i has split and method seeded with i, from 0.")] = 3,
    checkpoints: Annotated[
        str | None,
        typer.Option(help="After how many training instances to look, as 2000,20000. Default: the paper's."),
    ] = None,
    ties: Annotated[
        Ties,
        typer.Option(help="Order of equal distances: the paper's stable sort, or the mean over all orders."),
    ] = Ties.paper,
    configuration: Annotated[
        Settings,
        typer.Option(
            "--settings",
            help="Our defaults, or the paper's settings for this data set (as `HCOH[paper]` in results).",
        ),
    ] = Settings.default,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter for every method; may be repeated."),
    ] = None,
) -> None:
    """Measure methods under the paper's protocol: mAP, mAP@1000, precision@H2, precision@K, and the time.

    Every method streams once through the training rows and is judged at each checkpoint with queries that it
    never learns from. Rows are written to OUT/results.csv when they are measured, and what is there already
    is not measured again: after Ctrl-C, the same command goes on where it was.
    """
    try:
        chosen = choose(methods)
        given = parse_settings(settings or [], chosen)
        if configuration is Settings.paper:
            chosen = paper_settings(chosen, dataset)
        lengths = numbers(bits, "--bits")
        if dataset not in datasets.CATALOGUE:
            raise ValueError(f"there is no data set {dataset!r}: choose from {', '.join(datasets.CATALOGUE)}")
        setting = protocols.SETTINGS[dataset]
        points = numbers(checkpoints, "--checkpoints") if checkpoints else list(setting.checkpoints)
        if points[-1] > setting.stream:
            raise ValueError(f"--checkpoints: the stream of {dataset} has {setting.stream:,} rows")
        results = evaluate.Results(out / "results.csv")
        jobs = evaluate.jobs(chosen, bits=lengths, runs=runs, settings=given)
        todo = [
            (job, missing[-1])
            for job in jobs
            if (missing := evaluate.pending(job, dataset, points, results, ties=ties.value))
        ]
        console.print(f"{len(jobs) - len(todo)} of {len(jobs)} measurements are in {results.path} already.")
        if todo:
            data = load_with_bar(dataset, console)
            console.print(f"{dataset}, {data.source}. {data.note}", highlight=False)
            with watch_jobs(console, "", len(todo), sum(rows for _, rows in todo)) as watch:
                evaluate.run(
                    [job for job, _ in todo],
                    evaluate.Field.of(data),
                    results,
                    points=points,
                    ties=ties.value,
                    watch=watch,
                )
        _summary(results, dataset, jobs, points, ties.value)
    except (datasets.DatasetError, ValueError, OSError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"stopped. The same command goes on from what is in {out / 'results.csv'}.", code=130)


def _summary(
    results: evaluate.Results, dataset: str, jobs: list[evaluate.Job], points: list[int], ties: str
) -> None:
    """Mean over runs for each method and code length that was asked for."""
    metrics = ("mAP", "precision@H2", "train_seconds")
    found = {
        (s.method, s.bits, s.n_train, s.metric): s
        for s in evaluate.summarise(results, dataset, metrics, ties)
    }
    first, last = points[0], points[-1]
    shown = [(first, "mAP")] * (first != last) + [(last, metric) for metric in metrics]
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
    )
    for head in ("method", "bits", "runs"):
        name = head == "method"
        table.add_column(head, justify="left" if name else "right", no_wrap=not name, overflow="fold")
    for n, metric in shown:
        table.add_column(f"{metric.replace('_seconds', ' s')}\nafter {n:,}", justify="right", no_wrap=True)
    rows = list(dict.fromkeys((job.label, job.bits) for job in jobs))
    beside = ties == "paper" and any((dataset, *row) in REFERENCE for row in rows)
    if beside:
        table.add_column("reference code's\nmAP after both", justify="right", no_wrap=True)
    for label, length in rows:
        known = REFERENCE.get((dataset, label, length), {})
        cells = [found.get((label, length, n, metric)) for n, metric in shown]
        counts = sorted({cell.runs for cell in cells if cell is not None}) or [0]
        table.add_row(
            escape(label),
            str(length),
            "-".join(map(str, counts)),
            *("none" if cell is None else str(cell) for cell in cells),
            *([" / ".join(f"{known[n]:.3f}" for n in (first, last) if n in known)] * beside),
        )
    console.print(f"\n{dataset}, the paper's protocol, ties {ties!r}: mean ± standard deviation over runs")
    Console(width=max(130, console.width)).print(table)  # whole, though a narrow terminal may break its lines
    console.print(f"All rows: {results.path}", soft_wrap=True)
