"""`hashstream tune`: find good settings with a part of the stream alone."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hashstream import datasets, evaluate
from hashstream.cli.common import check_settings, choose, console, fail, say, value_of
from hashstream.cli.common import settings as parse_settings
from hashstream.evaluate import protocols, tuning, watch_jobs
from hashstream.terminal import load_with_bar, seconds

SHOWN = 10


def tune(
    dataset: Annotated[
        str, typer.Option(help="A name from `hashstream data list`, or the path of a file of your own.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for results.csv; rows are appended.")],
    method: Annotated[
        str, typer.Option(help="A name, or `my_module:MyMethod` or `mine.py:MyMethod` for your own.")
    ] = "FCOH",
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Length of a code.")] = 32,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="NAME=VALUE,VALUE,...",
            help="Values of one parameter; may be repeated, then every combination is tried. "
            "Default: the method's own grid, for FCOH the paper's powers of ten.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="The same in every trial; may be repeated."),
    ] = None,
    runs: Annotated[
        int,
        typer.Option(min=1, help="Number of runs; the seed of run i is i, from 0."),
    ] = 1,
    by: Annotated[
        str, typer.Option(help="The metric that decides: mAP, mAP@1000, precision@H2, precision@10 or @100.")
    ] = "mAP",
    workers: Annotated[
        int,
        typer.Option(min=0, help="Number of processes; 0 for one per core, fewer if memory is short."),
    ] = 0,
) -> None:
    """Try settings of a method and rank them, without the queries that are used to compare methods.

    Some rows of each class in the stream are queries, the rest of the stream is learned from and searched; nothing else
    is used. Trials are kept in OUT/results.csv and not repeated: after Ctrl-C, repeat the command to continue.
    FCOH's defaults need no tuning: they are listed as "the defaults", to show what tuning would gain.
    """
    try:
        chosen = choose(method)
        if len(chosen) != 1:
            raise ValueError(f"--method {method}: tune one method at a time")
        ((name, maker),) = chosen.items()
        given = parse_settings(settings or [], chosen)
        values = _grid(grid or [], chosen) or getattr(maker, "tuning_grid", {})
        if not values:
            raise ValueError(
                f"{name} has no default grid: give values to try, as --try batch_size=50,100,200"
            )
        tuning.check_metric(by)
        trials = tuning.trials(values, given)
        for tried in trials:
            check_settings(chosen, [bits], tried)
        loaded = load_with_bar(dataset, console)
        data = evaluate.PreparedDataset.of(loaded)
        results = evaluate.Results(out / "results.csv")
        results.check_data(data.dataset, data.fingerprint)
        jobs = tuning.jobs_of(name, maker, trials, bits=bits, runs=runs)
        validation = protocols.Validation()
        (end,) = points = validation.points(data)
        todo = evaluate.unfinished(jobs, data.dataset, points, results, protocol=validation, ties="aware")
        console.print(
            f"{data.dataset}, {loaded.source}: {data.setting.stream - end:,} rows of the stream are queries, "
            f"{end:,} are learned from and searched.",
            highlight=False,
        )
        say(f"{len(jobs) - len(todo)} of {len(jobs)} measurements are already in {results.path}.")
        clock = time.perf_counter()
        with watch_jobs(console, "", len(jobs), len(todo) * end) as watch:

            def quietly(progress: evaluate.JobProgress) -> None:
                watch(replace(progress, error=""))  # the table shows which settings diverge

            found = tuning.tune(
                name,
                maker,
                data,
                results,
                bits=bits,
                grid=values,
                settings=given,
                runs=runs,
                by=by,
                workers=evaluate.worker_count(workers, len(todo) * end, data.X.shape[1], data.X.nbytes),
                progress=quietly,
            )
        took = seconds(time.perf_counter() - clock)
        say(f"{len(todo)} measurements in {took}. All rows: {results.path}")
        _show(found, name, given, by)
        options = ["--dataset", dataset, "--methods", method, "--bits", str(bits), "--runs", str(runs)]
        _show_command(found[0], given, options, runs, tuning.share_of_queries_seen(data, runs))
    except (datasets.DatasetError, ValueError, OSError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"interrupted. Repeat the command to continue from {out / 'results.csv'}.", code=130)


def _grid(tried: list[str], methods: dict[str, Callable[..., Any]]) -> dict[str, tuple[Any, ...]]:
    """Values by name from `name=a,b,c`."""
    values: dict[str, tuple[Any, ...]] = {}
    for text in tried:
        name, equals, listed = (part.strip() for part in text.partition("="))
        if not equals or not name or not listed:
            raise ValueError(
                f"--try {text!r}: it has to be name=value,value, as --try learning_rate=0.1,0.01"
            )
        parse_settings([f"{name}=0"], methods, "--try")  # raises where the method does not have it
        values[name] = tuple(dict.fromkeys(value_of(part) for part in listed.split(",") if part.strip()))
    return values


def _show(found: list[evaluate.Trial], name: str, given: dict[str, Any], by: str) -> None:
    """Print the best ten, and the defaults if they are not among them."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("place", name, f"{by}\n(validation)", "diverged"):
        table.add_column(head, justify="left" if head == name else "right", overflow="fold")
    for place, trial in enumerate(found, start=1):
        plain = trial.settings == given
        if place > SHOWN and not plain:
            continue
        inside = ", ".join(
            f"{key}={value!r}"
            for key, value in trial.settings.items()
            if key not in given or value != given[key]
        )
        spread = f" ± {trial.spread:.3f}" if len(trial.values) > 1 else ""
        score = f"{trial.mean:.3f}{spread}" if trial.values else "none"
        runs = len(trial.values) + trial.diverged
        lost = f"{trial.diverged} of {runs}" if trial.diverged else ""
        table.add_row(str(place), _plain(given) if plain else inside, score, lost)
    diverged = sum(trial.diverged > 0 for trial in found)
    console.print(
        f"\nThe best of {len(found)}; {diverged} diverged:" if diverged else f"\nThe best of {len(found)}:"
    )
    Console(width=max(110, console.width), emoji=False).print(table)


def _plain(given: dict[str, Any]) -> str:
    """The name of the trial without any tried value."""
    return "--set alone" if given else "the defaults"


def _show_command(
    best: evaluate.Trial, given: dict[str, Any], options: list[str], runs: int, seen: float
) -> None:
    """Print the command that measures the best, and how far its queries are independent of the tuning."""
    for key, value in best.settings.items():
        options += ["--set", f"{key}={value if isinstance(value, str) else repr(value)}"]
    why = f"Nothing is better than {_plain(given)}. " if best.settings == given else ""
    if runs == 1:
        text = (
            "To measure the best with run 0's queries, which were not used so far (of other runs' queries about "
            f"{seen:.0%} were in the stream that the settings were chosen with):"
        )
    else:
        text = (
            f"To measure the best. About {seen:.0%} of each run's queries were in the streams of the others, which the "
            "settings were chosen with: for queries that were never used, tune with --runs 1."
        )
    console.print(f"\n{why}{text}", highlight=False)
    say(f"hashstream bench {shlex.join(options)} --out results")
