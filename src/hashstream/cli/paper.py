"""`hashstream paper`: the paper's tables and figures, compared with what is measured here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hashstream import datasets, evaluate
from hashstream.cli.common import (
    MinClass,
    Queries,
    StreamRows,
    console,
    fail,
    import_method,
    numbers,
    say,
    say_queries,
)
from hashstream.evaluate import watch_jobs
from hashstream.paper import EXPERIMENTS, Section, Study, run
from hashstream.terminal import load_with_bar

LINES = "\n\n".join(f"`{name}`: {experiment.what}" for name, experiment in EXPERIMENTS.items())


def paper(
    name: Annotated[str, typer.Argument(help="Which experiment, `all`, or `list` to see them.")],
    dataset: Annotated[
        str, typer.Option(help="A name from `hashstream data list`, or the path of a file of your own.")
    ] = "mnist",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick/--full",
            help="A first impression, or all code lengths, all checkpoints and three runs.",
        ),
    ] = True,
    bits: Annotated[
        str | None,
        typer.Option(help="Code lengths, separated by commas, instead of those of --quick or --full."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Number of runs, instead of that of --quick or --full.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: paper-DATASET.")] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Names separated by commas, `mine.py:MyMethod` or `my_module:MyMethod` for your own: only these take "
            "part, in one figure, in the order given. `all,mine.py:MyMethod` adds yours to all others."
        ),
    ] = "all",
    queries: Queries = None,
    stream: StreamRows = None,
    min_class: MinClass = None,
    workers: Annotated[
        int,
        typer.Option(min=0, help="Parallel processes; 0 for one per core. Timed experiments always use one."),
    ] = 0,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--from-rows",
            help="Or only regenerate the report from OUT/results.csv, or from OUT/results.csv.gz if there is none.",
        ),
    ] = True,
) -> None:
    """Measure a table or figure of the paper, and compare it with the paper's figures.

    OUT gets results.csv, measured.json (when and on which machine rows were measured), and the report as Markdown and
    as a single HTML page. OUT/figures has every figure as PDF, SVG and PNG with its numbers as CSV, OUT/tables every
    table as LaTeX (booktabs) and CSV. Rows are written as they are measured and never measured twice: after Ctrl-C, the
    same command continues.
    """
    if name == "list":
        _list()
        return
    folder = out or Path(f"paper-{Path(dataset).stem}")
    try:
        with _no_anchor_warnings():
            outcome = run(
                name,
                dataset=dataset,
                out=folder,
                full=not quick,
                bits=None if bits is None else numbers(bits, "--bits"),
                runs=runs,
                methods=_given(methods),
                queries=queries,
                stream=stream,
                min_class=min_class,
                workers=partial(_workers, workers),
                measure=measure,
                load=partial(load_with_bar, console=console),
                prepared=partial(say_queries, queries),
                watching=partial(watch_jobs, console, errors=False),  # the report lists them
                tell=_tell,
            )
    except (datasets.DatasetError, ValueError, OSError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"interrupted. The same command continues from {folder / 'results.csv'}.", code=130)
    say(f"\nReport: {outcome.page}")


@contextmanager
def _no_anchor_warnings() -> Iterator[None]:
    """Silence the warning about few anchors, here and in worker processes: the report has a note on it."""
    before = os.environ.get("PYTHONWARNINGS", "")
    quiet = "ignore:only:UserWarning"  # "only 50 of 300 anchors: ..."
    os.environ["PYTHONWARNINGS"] = f"{before},{quiet}" if before else quiet
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="only .* anchors", category=UserWarning)
            yield
    finally:
        if before:
            os.environ["PYTHONWARNINGS"] = before
        else:
            del os.environ["PYTHONWARNINGS"]


def _workers(asked: int, study: Study) -> int:
    """The number of processes for a study; where `asked` is 0, by the amount of data that it learns."""
    jobs = len(study.contestants) * len(study.scale.bits) * study.scale.runs
    return evaluate.worker_count(asked, jobs * study.stream, study.data.X.shape[1])


def _given(text: str) -> list[str | type[Any]]:
    """The methods of a list such as `fcoh,LSH,mine.py:MyMethod`; empty for `all`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if [name.lower() for name in names] == ["all"]:
        return []
    return [
        import_method(name) if ":" in name else name.lower() if name.lower() == "all" else name
        for name in names
    ]


def _list() -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("what it shows")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, escape(experiment.what))
    table.add_row("all", "all of them, in one report")
    console.print(table, highlight=False)


def _tell(section: Section) -> None:
    """Print the title, the finding and the first table of a section."""
    console.print(f"\n[bold]{escape(section.title)}[/]", highlight=False)
    console.print(escape(section.finding), highlight=False)
    if not section.sheets:
        return
    sheet = section.sheets[0]
    table = Table(box=None, padding=(0, 2, 0, 0), title=escape(sheet.caption), title_justify="left")
    for i, column in enumerate(sheet.columns):
        table.add_column(escape(column), justify="right" if i else "left", no_wrap=True)
    for i, row in enumerate(sheet.rows):
        cells = [Text(cell, style="bold" if (i, j) in sheet.best else "") for j, cell in enumerate(row)]
        table.add_row(*cells)
    Console(width=max(130, console.width)).print(table)  # complete, even if a narrow terminal wraps its lines
