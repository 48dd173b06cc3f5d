"""`hashstream bench`: methods side by side under one protocol."""

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

from hashstream import datasets, evaluate
from hashstream.cli.common import (
    Ties,
    check_settings,
    choose,
    console,
    enough_workers,
    fail,
    numbers,
    paper_settings,
)
from hashstream.cli.common import settings as parse_settings
from hashstream.evaluate import protocols
from hashstream.evaluate.reference import REFERENCE
from hashstream.terminal import load_with_bar, watch_jobs

__all__ = ["PROTOCOL_LINES", "bench"]


def _line(name: str, protocol: protocols.Protocol) -> str:
    number = "".join(f" NUMBER: {protocol.number}, {field.default}." for field in fields(protocol))
    return f"`{name}`: {protocol.question}{number}"


PROTOCOL_LINES = "\n\n".join(_line(name, one) for name, one in protocols.PROTOCOLS.items())
"""For `--help`."""


class Settings(StrEnum):
    """Whose settings a method is measured with."""

    default = "default"
    paper = "paper"


def bench(
    dataset: Annotated[
        str, typer.Option(help="A name from `hashstream data list`, or the path of a file of your own.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of results.csv; rows are appended.")],
    methods: Annotated[
        str,
        typer.Option(
            help="Names, with commas between, or `all`; `my_module:MyMethod` or `mine.py:MyMethod` for one of your own."
        ),
    ] = "FCOH,LSH",
    bits: Annotated[str, typer.Option(help="Code lengths, with commas between.")] = "32",
    runs: Annotated[int, typer.Option(min=1, help="Run i has split and method seeded with i, from 0.")] = 3,
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME[:NUMBER]",
            help="What is asked; see below. As label-noise:0.4 with another NUMBER than the default.",
        ),
    ] = "paper",
    checkpoints: Annotated[
        str | None,
        typer.Option(
            help="After how many training instances to look, as 2000,20000. Default: as the protocol says."
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
            help="Our defaults, or the paper's settings for this data set (as `HCOH[paper]` in results).",
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
            help="Processes side by side, each on one thread; 0 for one on each core, or fewer where memory has no "
            "room for a copy of the features for each. Figures do not depend on it, times may: take 1 to compare them.",
        ),
    ] = 0,
) -> None:
    """Measure methods side by side: how well their codes retrieve as the stream goes by, and the time it takes.

    Every method streams once through the training rows and is judged at each checkpoint with queries that it
    never learns from. Rows are written to OUT/results.csv when they are measured, and what is there already
    is not measured again: after Ctrl-C, the same command goes on where it was.
    """
    try:
        chosen = choose(methods)
        given = parse_settings(settings or [], chosen)
        asked = protocols.named(protocol)
        lengths = numbers(bits, "--bits")
        check_settings(chosen, lengths, given if configuration is Settings.default else {})
        looks = _looks(checkpoints, asked)
        data = load_with_bar(dataset, console)
        field = evaluate.PreparedDataset.of(data)
        if configuration is Settings.paper:
            chosen, whose = paper_settings(chosen, field.dataset)
            if whose != field.dataset:
                console.print(f"The paper has no settings for {field.dataset}: those for {whose} are taken.")
        points = _points(looks, asked, field)
        results = evaluate.Results(out / "results.csv")
        results.check_data(field.dataset, field.fingerprint)
        jobs = evaluate.jobs(chosen, bits=lengths, runs=runs, settings=given)
        todo = {
            i: missing[-1]
            for i, job in enumerate(jobs)
            if (
                missing := evaluate.pending(
                    job, field.dataset, points, results, protocol=asked, ties=ties.value
                )
            )
        }
        console.print(
            f"{len(jobs) - len(todo)} of {len(jobs)} measurements are in {results.path} already.",
            soft_wrap=True,
        )
        if todo:
            console.print(f"{field.dataset}, {data.source}. {data.note}", highlight=False)
            rows = sum(todo.values())
            with watch_jobs(console, "", len(todo), rows) as watch:
                evaluate.run(
                    [jobs[i] for i in todo],
                    field,
                    results,
                    protocol=asked,
                    points=points,
                    ties=ties.value,
                    workers=enough_workers(workers, rows, field.X.shape[1], field.X.nbytes),
                    watch=watch,
                )
        _summary(results, field.dataset, jobs, asked, points, ties.value, runs)
    except (datasets.DatasetError, ValueError, OSError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"stopped. The same command goes on from what is in {out / 'results.csv'}.", code=130)


def _looks(text: str | None, protocol: protocols.Protocol) -> list[int]:
    """What --checkpoints says; nothing where it is left to the protocol."""
    if text is None:
        return []
    if not protocol.free_points:
        raise ValueError(f"--checkpoints: {protocol.kind} decides by itself when to look")
    return numbers(text, "--checkpoints")


def _points(looks: list[int], protocol: protocols.Protocol, field: evaluate.PreparedDataset) -> list[int]:
    usual = list(protocol.points(field))
    points = looks or usual
    if points[-1] > usual[-1]:
        raise ValueError(f"--checkpoints: the stream of {field.dataset} has {usual[-1]:,} rows")
    return points


def _summary(
    results: evaluate.Results,
    dataset: str,
    jobs: list[evaluate.Job],
    protocol: protocols.Protocol,
    points: Sequence[int],
    ties: str,
    runs: int,
) -> None:
    """Mean over runs for each method, code length and run that was asked for."""
    shown = protocol.highlights(points)
    metrics = list(dict.fromkeys(metric for _, metric in shown))
    whole = (
        evaluate.in_hindsight(results, dataset, protocol, points, ties, runs=runs) if len(points) > 1 else []
    )
    found = {
        (s.method, s.bits, s.n_train, s.metric): s
        for s in [*evaluate.summarise(results, dataset, metrics, ties, protocol.name, runs=runs), *whole]
    }
    ended: dict[tuple[str, int], list[int]] = {}
    for job in jobs:
        if (n := results.diverged(**job.columns(dataset, protocol.name))) is not None:
            ended.setdefault((job.label, job.bits), []).append(n)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("method", "bits", "runs"):
        name = head == "method"
        table.add_column(head, justify="left" if name else "right", no_wrap=not name, overflow="fold")
    later = list(dict.fromkeys(s.metric for s in whole))
    for n, metric in shown:
        table.add_column(f"{_title(metric)}\nafter {n:,}", justify="right", no_wrap=True)
    for metric in later:
        table.add_column(_title(metric).replace(" of ", "\nof "), justify="right", no_wrap=True)
    shown = shown + [(points[-1], metric) for metric in later]
    rows = list(dict.fromkeys((job.label, job.bits) for job in jobs))
    first, last = points[0], points[-1]
    beside = (
        protocol.name == "paper" and ties == "paper" and any((dataset, *row) in REFERENCE for row in rows)
    )
    if beside:
        table.add_column("reference code's\nmAP after both", justify="right", no_wrap=True)
    for label, length in rows:
        known = REFERENCE.get((dataset, label, length), {})
        cells = [found.get((label, length, n, metric)) for n, metric in shown]
        counts = sorted({cell.runs for cell in cells if cell is not None}) or [0]
        ends = sorted(set(ended.get((label, length), [])))
        nothing = f"diverged after\n{_range(ends)} rows" if ends else "none"
        lost = f"\n({len(ended[label, length])} diverged)" if ends else ""
        table.add_row(
            escape(label),
            str(length),
            f"{_range(counts)}{lost}",
            *(nothing if cell is None else str(cell) for cell in cells),
            *([" / ".join(f"{known[n]:.3f}" for n in (first, last) if n in known)] * beside),
        )
    console.print(f"\n{protocol.question}", highlight=False)
    console.print(
        f"{dataset}, protocol {protocol.name}, ties {ties!r}: mean ± standard deviation over runs",
        highlight=False,
    )
    Console(width=max(150, console.width), emoji=False).print(
        table
    )  # whole, though a narrow terminal may break its lines
    console.print(f"All rows: {results.path}", soft_wrap=True)


def _range(numbers: Sequence[int]) -> str:
    """Rising numbers, the first and the last of them."""
    return "-".join(f"{n:,}" for n in dict.fromkeys((numbers[0], numbers[-1])))


def _title(metric: str) -> str:
    return metric.replace("_seconds", " s").replace("_", " ")
