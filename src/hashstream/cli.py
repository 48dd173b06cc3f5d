"""The front door: `hashstream demo`, `bench`, `methods`, `perf`, `data`, `version`."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hashstream import bench as benchmark
from hashstream import datasets
from hashstream.evaluate import protocols
from hashstream.evaluate.reference import REFERENCE
from hashstream.hashers import methods as registry
from hashstream.hashers import register
from hashstream.terminal import load_with_bar
from hashstream.versions import show_versions

__all__ = ["app"]

console = Console()
app = typer.Typer(
    help="Learn compact binary codes from a labelled stream, and search them while they are learned.\n\n"
    "Begin with: `hashstream demo --out demo-output`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Which data sets there are, and where they are found on this machine.",
    no_args_is_help=True,
    epilog="Example: `HASHSTREAM_DATA=~/data hashstream data list`",
)
app.add_typer(data_app, name="data")


class DemoData(StrEnum):
    auto = "auto"
    mnist = "mnist"
    digits = "digits"


class Settings(StrEnum):
    """Whose settings a method is measured with."""

    default = "default"
    paper = "paper"


class Ties(StrEnum):
    paper = "paper"
    aware = "aware"


def fail(message: object, code: int = 2) -> NoReturn:
    """A mistake of the user's, or of the world's: one sentence, no traceback."""
    Console(stderr=True).print(f"[bold red]hashstream:[/] {escape(str(message))}", highlight=False)
    raise typer.Exit(code)


# ---- demo


@app.command(epilog="Example: `hashstream demo --out demo-output --bits 64`")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the two pictures; made if it is not there.")],
    dataset: Annotated[
        DemoData, typer.Option(help="auto is MNIST where it can be had, otherwise digits.")
    ] = DemoData.auto,
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Length of a code.")] = 32,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the split into queries and stream, and of the method.")
    ] = 0,
) -> None:
    """Watch FCOH learn from a stream of digits, and see what its codes find.

    MNIST is taken from the folder that HASHSTREAM_DATA names, from the cache, or downloaded with its
    checksums verified; where none of this works, scikit-learn's small digits are used. Takes under a minute.
    """
    from hashstream.demo import demo as run_demo

    try:
        run_demo(out, dataset=dataset.value, n_bits=bits, seed=seed, console=console)
    except (datasets.DatasetError, OSError) as error:
        fail(error)


# ---- bench


@app.command(
    epilog="Example: `hashstream bench --dataset mnist --methods FCOH,LSH --bits 16,32 --runs 3 "
    "--out results`"
    "\n\nOne method with other settings: `hashstream bench --dataset mnist --methods FCOH "
    "--set learning_rate=0.01 --set gradient_scale=class --out results`"
)
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
        chosen = _choose(registry(), methods)
        given = _settings(settings or [], chosen)
        if configuration is Settings.paper:
            chosen = _paper_settings(chosen, dataset)
        lengths = _numbers(bits, "--bits")
        if dataset not in datasets.CATALOGUE:
            raise ValueError(f"there is no data set {dataset!r}: choose from {', '.join(datasets.CATALOGUE)}")
        setting = protocols.PAPER[dataset]
        points = _numbers(checkpoints, "--checkpoints") if checkpoints else list(setting.checkpoints)
        if points[-1] > setting.stream:
            raise ValueError(f"--checkpoints: the stream of {dataset} has {setting.stream:,} rows")
        results = benchmark.Results(out / "results.csv")
        jobs = benchmark.jobs(chosen, bits=lengths, runs=runs, settings=given)
        todo = [
            (job, missing[-1])
            for job in jobs
            if (missing := benchmark.pending(job, dataset, points, results, ties=ties.value))
        ]
        console.print(f"{len(jobs) - len(todo)} of {len(jobs)} measurements are in {results.path} already.")
        if todo:
            data = load_with_bar(dataset, console)
            console.print(f"{dataset}, {data.source}. {data.note}", highlight=False)
            _measure(benchmark.Field.of(data), todo, points, results, ties.value)
        _summary(results, dataset, jobs, points, ties.value)
    except (datasets.DatasetError, ValueError, OSError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"stopped. The same command goes on from what is in {out / 'results.csv'}.", code=130)


def _measure(
    field: benchmark.Field,
    todo: list[tuple[benchmark.Job, int]],
    points: list[int],
    results: benchmark.Results,
    ties: str,
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=sum(rows for _, rows in todo))
        done = 0
        for job, rows in todo:
            name = escape(f"{job.label}, {job.bits} bits, run {job.run}")
            bar.update(task, description=name)
            try:
                for at in benchmark.measure(
                    job, field, points, results, ties=ties, progress=lambda n: bar.advance(task, n)
                ):
                    bar.update(task, description=f"{name}, mAP {at.scores['mAP']:.3f}")
            except (
                ArithmeticError
            ) as error:  # DivergenceError: a fact about the settings, not a reason to stop
                bar.console.print(f"[yellow]{name}: {escape(str(error))}[/]")
            done += rows
            bar.update(task, completed=done)


def _summary(
    results: benchmark.Results, dataset: str, jobs: list[benchmark.Job], points: list[int], ties: str
) -> None:
    """Mean over runs for each method and code length that was asked for."""
    metrics = ("mAP", "precision@H2", "train_seconds")
    found = {
        (s.method, s.bits, s.n_train, s.metric): s
        for s in benchmark.summarise(results, dataset, metrics, ties)
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


def _choose(registry: dict[str, Any], names: str) -> dict[str, Callable[..., Any]]:
    """The methods of a list such as `fcoh,LSH,my_module:MyMethod`, or of `all`."""
    known = {name.lower(): name for name in registry}
    if names.strip().lower() == "all":
        return dict(registry)
    chosen: dict[str, Callable[..., Any]] = {}
    for name in (name.strip() for name in names.split(",") if name.strip()):
        if ":" in name:
            method = _import_method(name)
            chosen[method.__name__] = method
        elif name.lower() in known:
            chosen[known[name.lower()]] = registry[known[name.lower()]]
        else:
            raise ValueError(f"there is no method {name}: choose from {', '.join(registry)}, or module:Class")
    if not chosen:
        raise ValueError(f"--methods names none: choose from {', '.join(registry)}")
    return chosen


def _paper_settings(methods: dict[str, Callable[..., Any]], dataset: str) -> dict[str, Callable[..., Any]]:
    """Methods by their paper's settings for a data set; those that no paper has settings for stay as they are."""
    name = (
        "places205" if dataset == "tinyimagenet200" else dataset
    )  # the stand-in, for which no settings are printed
    chosen = {}
    for label, method in methods.items():
        from_paper = getattr(method, "from_paper", None)
        if from_paper is None:
            chosen[label] = method
        else:
            from_paper(name, 32)  # raises where there are none for this data set
            chosen[f"{label}[paper]"] = partial(from_paper, name)
    return chosen


def _import_method(name: str) -> type[Any]:
    """A method of the user's own by `module:Class`; the module is found as Python finds it, or in this folder."""
    module, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        method = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
    try:
        return register(method)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


def _numbers(text: str, option: str) -> list[int]:
    """Whole numbers from 1, rising, each once, from a list such as `8,16`."""
    try:
        numbers = sorted({int(part.replace("_", "")) for part in text.split(",")})
    except ValueError:
        raise ValueError(f"{option} {text!r}: give whole numbers with commas between, as 8,16,32") from None
    if numbers[0] < 1:
        raise ValueError(f"{option} {text!r}: each has to be 1 or more")
    return numbers


def _settings(pairs: list[str], methods: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """Parameters from `name=value` pairs: values are Python literals, and text where they are none."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"--set {pair!r}: it has to be name=value, as --set learning_rate=0.01")
        if name in ("n_bits", "random_state"):
            raise ValueError(f"--set {name}: this is what --bits and --runs decide")
        for method, cls in methods.items():
            taken = [p for p in inspect.signature(cls).parameters if p not in ("n_bits", "random_state")]
            if name not in taken:
                raise ValueError(f"--set {name}: {method} does not have it; it has {', '.join(taken)}")
        try:
            settings[name] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            settings[name] = text.strip()
    return settings


# ---- perf


@app.command(epilog="Example: `hashstream perf hamming --quick`")
def perf(
    name: Annotated[str, typer.Argument(help="Which benchmark: fcoh, hamming.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions: a first look, not a result.")
    ] = False,
) -> None:
    """Measure speed as ratios of one run, against targets; the exit code is 1 where one is missed.

    Works in a checkout of the sources, where the folder benchmarks is.
    """
    root = Path(__file__).resolve().parents[2]
    folder = root / "benchmarks"
    if not (folder / "harness.py").is_file():
        fail("the benchmarks are part of the sources, not of the installed package: run this in a checkout.")
    known = sorted(path.stem for path in folder.glob("*.py") if "\ndef main(" in f"\n{path.read_text()}")
    if name not in known:
        fail(f"there is no benchmark {name!r}: choose from {', '.join(known) or 'none yet'}")
    sys.path.insert(0, str(root))  # ours, before any other package that is called benchmarks
    if not importlib.import_module(f"benchmarks.{name}").main(quick):
        raise typer.Exit(1)


# ---- methods


@app.command("methods", epilog="Example: `hashstream methods`")
def list_methods() -> None:
    """Every method: what it learns from, how many numbers it keeps, and where it was published.

    d is the number of features, r of bits, C of classes.
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "learns from", "keeps", "published in"):
        table.add_column(column)
    for name, method in registry().items():
        table.add_row(name, method.needs, method.state_size, method.reference)
    console.print(table)


# ---- data, version


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


@app.command(epilog="Example: `hashstream version`")
def version() -> None:
    """Versions of hashstream and what it stands on, and whether the compiled kernels are in use."""
    console.print(show_versions(), highlight=False, soft_wrap=True)
