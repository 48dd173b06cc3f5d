"""`hashstream tune`: which settings are good, judged by a part of the stream alone."""

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
from hashstream.cli.common import check_settings, choose, console, enough_workers, fail, value_of
from hashstream.cli.common import settings as parse_settings
from hashstream.evaluate import protocols, tuning
from hashstream.terminal import load_with_bar, seconds, watch_jobs

__all__ = ["tune"]

SHOWN = 10


def tune(
    dataset: Annotated[
        str, typer.Option(help="A name from `hashstream data list`, or the path of a file of your own.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of results.csv; rows are appended.")],
    method: Annotated[
        str, typer.Option(help="One name, or `my_module:MyMethod` or `mine.py:MyMethod` for one of your own.")
    ] = "FCOH",
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Length of a code.")] = 32,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="NAME=VALUE,VALUE,...",
            help="Values of one parameter; may be repeated, then every combination is tried. "
            "Default: a grid for each method, for FCOH the paper's powers of ten.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="The same in every trial; may be repeated."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Run i has split and method seeded with i, from 0.")] = 1,
    by: Annotated[
        str, typer.Option(help="The metric that decides: mAP, mAP@1000, precision@H2, precision@10 or @100.")
    ] = "mAP",
    workers: Annotated[
        int,
        typer.Option(
            min=0, help="Processes side by side; 0 for one on each core, fewer where memory is short."
        ),
    ] = 0,
) -> None:
    """Try settings of a method, and say which are best, without a look at the queries that methods are compared by.

    Some rows of each class in the stream ask, the rest of the stream is learned from and searched; nothing else is
    touched. What was tried is kept in OUT/results.csv and not tried again: after Ctrl-C, the same command goes on.
    FCOH's own defaults need no tuning: they take part as "defaults", to see what it would gain.
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
                f"{name} has no grid of its own: say what to try, as --try batch_size=50,100,200"
            )
        tuning.check_metric(by)
        for settings_tried in tuning.trials(values, given):
            check_settings(chosen, [bits], settings_tried)
        data = load_with_bar(dataset, console)
        field = evaluate.PreparedDataset.of(data)
        results = evaluate.Results(out / "results.csv")
        results.check_data(field.dataset, field.fingerprint)
        jobs = tuning.jobs_of(name, maker, tuning.trials(values, given), bits=bits, runs=runs)
        todo = tuning.left(jobs, field, results)
        (end,) = protocols.Validation().points(field)
        console.print(
            f"{field.dataset}, {data.source}: {field.setting.stream - end:,} rows of the stream ask, "
            f"{end:,} are learned from and searched.",
            highlight=False,
        )
        console.print(
            f"{len(jobs) - len(todo)} of {len(jobs)} measurements are in {results.path} already.",
            soft_wrap=True,
        )
        clock = time.perf_counter()
        with watch_jobs(console, "", len(jobs), len(todo) * end) as watch:

            def quietly(news: evaluate.News) -> None:
                watch(replace(news, error=""))  # which settings diverge, the table says

            found = tuning.tune(
                name,
                maker,
                field,
                results,
                bits=bits,
                grid=values,
                settings=given,
                runs=runs,
                by=by,
                workers=enough_workers(workers, len(todo) * end, field.X.shape[1], field.X.nbytes),
                watch=quietly,
            )
        took = seconds(time.perf_counter() - clock)
        console.print(f"{len(todo)} measurements in {took}. All rows: {results.path}", soft_wrap=True)
        _show(found, name, given, by)
        options = ["--dataset", dataset, "--methods", method, "--bits", str(bits), "--runs", str(runs)]
        _say_how_to_judge(found[0], given, options, runs, field)
    except (datasets.DatasetError, ValueError, OSError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail(f"stopped. The same command goes on from what is in {out / 'results.csv'}.", code=130)


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
    """The best ten, the defaults among them or below."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("place", name, f"{by}\n(validation)", "diverged"):
        table.add_column(head, justify="left" if head == name else "right", overflow="fold")
    for place, trial in enumerate(found, start=1):
        plain = trial.settings == given
        if place > SHOWN and not plain:
            continue
        inside = ", ".join(f"{key}={value!r}" for key, value in trial.settings.items() if key not in given)
        spread = f" ± {trial.spread:.3f}" if len(trial.values) > 1 else ""
        score = f"{trial.mean:.3f}{spread}" if trial.values else "none"
        runs = len(trial.values) + trial.diverged
        lost = f"{trial.diverged} of {runs}" if trial.diverged else ""
        table.add_row(str(place), "defaults" if plain else inside, score, lost)
    diverged = sum(trial.diverged > 0 for trial in found)
    console.print(
        f"\nThe best of {len(found)}; {diverged} diverged:" if diverged else f"\nThe best of {len(found)}:"
    )
    Console(width=max(110, console.width), emoji=False).print(table)


def _say_how_to_judge(
    best: evaluate.Trial,
    given: dict[str, Any],
    options: list[str],
    runs: int,
    field: evaluate.PreparedDataset,
) -> None:
    """The command that judges the best, with the runs that it was chosen by, and what their queries have to do with it.

    Run 0's queries are no part of run 0's stream; those of another run are other rows, and many of them are.
    """
    for key, value in best.settings.items():
        options += ["--set", f"{key}={value if isinstance(value, str) else repr(value)}"]
    why = "Nothing is better than the defaults. " if best.settings == given else ""
    share = 1 - (1 - field.setting.stream / len(field.y)) ** max(1, runs - 1)
    if runs == 1:
        console.print(
            f"\n{why}To judge the best by run 0's queries, which nothing has seen yet (of other runs' queries about "
            f"{share:.0%} were in the stream that the settings were chosen by):",
            highlight=False,
        )
    else:
        console.print(
            f"\n{why}To judge the best. About {share:.0%} of each run's queries were in the streams of the others, "
            "which the settings were chosen by, too: for queries that nothing has seen, tune with --runs 1.",
            highlight=False,
        )
    command = f"hashstream bench {shlex.join(options)} --out results"
    console.print(command, soft_wrap=True, highlight=False, markup=False)
