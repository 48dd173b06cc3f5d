"""Try settings of a method and compare them on a part of the stream alone, as `hashstream tune` does.

    from hashstream import FCOH, datasets, evaluate

    data = evaluate.PreparedDataset.of(datasets.load("mnist"))
    results = evaluate.Results(Path("tuning/results.csv"))
    best = evaluate.tune("FCOH", FCOH, data, results, bits=32)[0]
    best.settings, best.mean

What is tried by default is the method's `tuning_grid`: for FCOH the powers of ten that the paper advises for lambda1,
lambda2 and the learning rate. FCOH's defaults need none of this: `learning_rate="auto"` chooses every step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan
from statistics import mean, stdev
from typing import Any

from hashstream.evaluate.bench import run
from hashstream.evaluate.job import Job
from hashstream.evaluate.progress import Progress
from hashstream.evaluate.protocols import PreparedDataset, Streamed, Validation, metric_row
from hashstream.evaluate.results import Results

__all__ = ["Trial", "check_metric", "jobs_of", "share_of_queries_seen", "trials", "tune"]

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by the parameter's name."""


@dataclass(frozen=True)
class Trial:
    """One choice of settings and its outcome.

    settings: the differences from the method's defaults; empty for the defaults themselves.
    values: the metric's value in each run that reached the end of the stream.
    diverged: number of runs that did not.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    values: tuple[float, ...] = ()
    diverged: int = 0

    @property
    def mean(self) -> float:
        return mean(self.values) if self.values else nan

    @property
    def spread(self) -> float:
        """Standard deviation over runs; NaN for a single run."""
        return stdev(self.values) if len(self.values) > 1 else nan


def trials(grid: Grid, settings: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Every combination of the grid's values, added to `settings`; `settings` alone come first.

    >>> trials({"a": (1, 2), "b": (3,)})
    [{}, {'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    for name, values in grid.items():
        if not len(values):
            raise ValueError(f"there is no value of {name} to try")
    given = dict(settings or {})
    tried = (
        {**given, **dict(zip(grid, values, strict=True))} for values in itertools.product(*grid.values())
    )
    return [given, *(one for one in tried if one != given)]


def check_metric(by: str) -> None:
    """Raise ValueError if settings cannot be chosen by the metric `by`."""
    known = [metric for metric in Validation().metrics() if not metric.endswith("_seconds")]
    if by not in known:
        raise ValueError(f"by is {by!r}: it has to be one of {', '.join(known)}")


def jobs_of(
    name: str, method: Callable[..., Streamed], tried: Sequence[dict[str, Any]], *, bits: int, runs: int
) -> list[Job]:
    """A job per run and trial, run by run."""
    return [Job(name, method, bits, run, one) for run in range(runs) for one in tried]


def share_of_queries_seen(data: PreparedDataset, runs: int) -> float:
    """The share of a run's queries that were in the streams of the other runs (of one other, for a single run).

    Run 0's queries are not in run 0's stream, but those of another run are other rows, and many of them are.
    """
    return 1.0 - (1 - data.setting.stream / len(data.y)) ** max(1, runs - 1)


def tune(
    name: str,
    method: Callable[..., Streamed],
    data: PreparedDataset,
    results: Results,
    *,
    bits: int = 32,
    grid: Grid | None = None,
    settings: Mapping[str, Any] | None = None,
    runs: int = 1,
    by: str = "mAP",
    workers: int = 1,
    progress: Progress = None,
) -> list[Trial]:
    """Measure every combination of settings under the protocol `Validation`, and return them, the best first.

    name, method: its name in the results, and the callable that returns the hasher.
    grid: values to try; by default the method's `tuning_grid`. Its defaults, with `settings`, are tried as well.
    settings: the same in every trial.
    by: the metric that decides, one of `Validation`'s. Tied distances count as the mean over all orders, so the order
        of the database has no influence.
    results, workers, progress: as in `run`; nothing in the results is measured again.

    Trials with a run that diverged come last.
    """
    protocol = Validation()
    check_metric(by)
    if grid is None:
        grid = getattr(method, "tuning_grid", {})
    if not grid:
        raise ValueError(f"{name} has no tuning_grid: pass grid= with the values to try")
    tried = trials(grid, settings)
    jobs = jobs_of(name, method, tried, bits=bits, runs=runs)
    run(jobs, data, results, protocol=protocol, ties="aware", workers=workers, progress=progress)
    (end,) = protocol.points(data)
    metric = metric_row(by, "aware")
    found = {
        (row["method"], row["run"]): row["value"]
        for row in results.rows
        if (row["dataset"], row["protocol"]) == (data.dataset, protocol.name)
        and (row["bits"], row["n_train"], row["metric"]) == (bits, end, metric)
    }

    def outcome(settings: dict[str, Any], own: list[Job]) -> Trial:
        values = tuple(found[job.label, job.run] for job in own if (job.label, job.run) in found)
        return Trial(settings, values, len(own) - len(values))

    done = [outcome(one, jobs[i :: len(tried)]) for i, one in enumerate(tried)]
    return sorted(done, key=lambda trial: (trial.diverged, inf if isnan(trial.mean) else -trial.mean))
