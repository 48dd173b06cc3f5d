"""`hashstream bench`: compare methods under one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hashstream import datasets, evaluate, pictures
from hashstream._extras import MissingExtraError
from hashstream.cli.common import (
    MinClass,
    Queries,
    StreamRows,
    Ties,
    check_settings,
    choose,
    console,
    fail,
    numbers,
    paper_settings,
    say,
    say_queries,
)
from hashstream.cli.common import settings as parse_settings
from hashstream.evaluate import protocols, watch_jobs
from hashstream.terminal import load_with_bar


def _line(name: str, protocol: protocols.Protocol) -> str:
    number = "".join(f" NUMBER: {protocol.number}, {field.default}." for field in fields(protocol))
    return f"`{name}`: {protocol.question}{number}"


PROTOCOL_LINES = "\n\n".join(_line(name, one) for name, one in protocols.PROTOCOLS.items())
"""The protocols, for `--help`."""


class Settings(StrEnum):
    """The settings that methods are measured with."""

    default = "default"
    paper = "paper"


def bench(
    dataset: Annotated[
        str, typer.Option(help="A name from `hashstream data list`, or the path of a file of your own.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for results.csv (rows are appended), the table and the figure.")
    ],
    methods: Annotated[
        str,
        typer.Option(
            help="Names separated by commas, in the order of the table and the figure's legend; `all` for every "
            "method; `RidgeHash[rbf]` has 1,000 RBF anchors; `mine.py:MyMethod` or `my_module:MyMethod` for your own."
        ),
    ] = "PosteriorHash,FCOH,LSH",
    bits: Annotated[str, typer.Option(help="Code lengths, separated by commas.")] = "32",
    runs: Annotated[
        int,
        typer.Option(min=1, help="Number of runs; the seed of run i is i, from 0."),
    ] = 3,
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME[:NUMBER]",
            help="The question; see below. With a NUMBER other than the default: label-noise:0.4.",
        ),
    ] = "paper",
    queries: Queries = None,
    stream: StreamRows = None,
    min_class: MinClass = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            help="Numbers of learned rows at which to measure, as 2000,20000. Default: those of the protocol."
        ),
    ] = None,
    ties: Annotated[
        Ties,
        typer.Option(help="Order of equal distances: the paper's stable sort, or the mean over all orders."),
    ] = Ties.paper,
    configuration: Annotated[
        Settings,
        typer.Option(
            "--settings",
            help="Our defaults, or the paper's settings for this data set (`HCOH[paper]` in results).",
        ),
    ] = Settings.default,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter for every method; may be repeated."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of processes, each with one thread; 0 for one per core, or fewer if memory has no room for a "
            "copy of the features for each. Figures do not depend on it, but times may: use 1 to compare times.",
        ),
    ] = 0,
) -> None:
    """Compare methods: how well their codes retrieve along the stream, and the time that learning takes.

    Every method streams once through the training rows and is measured at each checkpoint with queries that it
    never learns from. Rows are written to OUT/results.csv as they are measured, and not measured again: after Ctrl-C,
    repeat the command to continue.

    The comparison is printed, and written for a paper: OUT/table.tex (LaTeX, booktabs) and OUT/table.csv, and
    OUT/figure.pdf, .svg, .png and .csv with all methods in one figure. They replace those of the last command; rows of
    other data, protocols, methods and settings stay in results.csv.
    """
    try:
        chosen = choose(methods)
        given = parse_settings(settings or [], chosen)
        asked = protocols.named(protocol)
        lengths = numbers(bits, "--bits")
        check_settings(chosen, lengths, given if configuration is Settings.default else {})
        if checkpoints is not None and not asked.free_points:
            raise ValueError(f"--checkpoints: {asked.kind} has checkpoints of its own")
        points = None if checkpoints is None else numbers(checkpoints, "--checkpoints")
        loaded = load_with_bar(dataset, console)
        data = evaluate.PreparedDataset.of(loaded, queries=queries, stream=stream, min_class=min_class)
        say_queries(queries, data)
        if configuration is Settings.paper:
            chosen, whose = paper_settings(chosen, data.dataset)
            if whose != loaded.name:
                say(f"The paper has no settings for {loaded.name}: using those for {whose}.")
        usual = list(asked.points(data))
        points = points or usual
        if points[-1] > usual[-1]:
            raise ValueError(f"--checkpoints: the stream of {data.dataset} has {usual[-1]:,} rows")
        rule: evaluate.Ties = "paper" if ties is Ties.paper else "aware"
        results = evaluate.Results(out / "results.csv")
        results.check_data(data.dataset, data.fingerprint)
        jobs = evaluate.jobs(chosen, bits=lengths, runs=runs, settings=given)
        evaluate.check_sources(jobs, results)
        todo = evaluate.unfinished(jobs, data.dataset, points, results, protocol=asked, ties=rule)
        say(f"{len(jobs) - len(todo)} of {len(jobs)} measurements are already in {results.path}.")
        if todo:
            say(f"{loaded.name}, {loaded.source}. {loaded.note}")
            say(f"{data.described}.")
            rows = sum(missing[-1] for _, missing in todo)
            with watch_jobs(console, "", len(todo), rows) as watch:
                evaluate.run(
                    [job for job, _ in todo],
                    data,
                    results,
                    protocol=asked,
                    points=points,
                    ties=rule,
                    workers=evaluate.worker_count(workers, rows, data.X.shape[1], data.X.nbytes),
                    progress=watch,
                )
        compared = evaluate.compare(jobs, data.dataset, points, results, protocol=asked, ties=rule, runs=runs)
        console.print(f"\n{asked.question}", highlight=False)
        say(compared.caption)
        # Wide enough that no cell is cut; a narrow terminal breaks the lines.
        Console(width=max(150, console.width), emoji=False).print(_table(compared, points))
        say(f"All rows: {results.path}. For a paper: {_write(compared, out)}.")
    except (datasets.DatasetError, ValueError, OSError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"interrupted. Repeat the command to continue from {out / 'results.csv'}.", code=130)


def _write(compared: evaluate.Comparison, out: Path) -> str:
    """Write the table and the figure; returns the names of the files."""
    out.mkdir(parents=True, exist_ok=True)
    compared.sheet().write(out, "table", comment=f"{compared.caption}, by hashstream bench")
    evaluate.write_rows(out / "figure.csv", compared.points())
    try:
        figure = pictures.comparison_curves(compared)
    except MissingExtraError as missing:
        return f"table.tex; no figure, as {missing}"
    if figure is None:
        return "table.tex; no figure, as every run diverged"
    pictures.save(figure, out, "figure")
    return "table.tex and figure.pdf, next to it"


def _table(compared: evaluate.Comparison, points: Sequence[int]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("method", overflow="fold")
    table.add_column("bits", justify="right", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    for head in compared.heads:
        table.add_column(head, justify="right", no_wrap=True)
    with_reference = any(row.reference for row in compared.rows)
    if with_reference:
        table.add_column("reference code's\nmAP after both", justify="right", no_wrap=True)
    for row in compared.rows:
        counts = sorted({cell.runs for cell in row.cells if cell is not None}) or [0]
        nothing = f"diverged after\n{_range(row.diverged)} rows" if row.diverged else "none"
        diverged = f"\n({len(row.diverged)} diverged)" if row.diverged else ""
        known = [row.reference[n] for n in (points[0], points[-1]) if n in row.reference]
        table.add_row(
            escape(row.method),
            str(row.bits),
            f"{_range(counts)}{diverged}",
            *(nothing if cell is None else str(cell) for cell in row.cells),
            *([" / ".join(f"{value:.3f}" for value in known)] * with_reference),
        )
    return table


def _range(numbers: Sequence[int]) -> str:
    """The first and the last of increasing numbers."""
    return "-".join(f"{n:,}" for n in dict.fromkeys((numbers[0], numbers[-1])))
