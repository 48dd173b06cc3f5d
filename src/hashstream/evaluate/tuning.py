"""What `hashstream tune` does: try settings, and judge them by a part of the stream alone.

    from hashstream import FCOH, datasets, evaluate

    field = evaluate.PreparedDataset.of(datasets.load("mnist"))
    results = evaluate.Results(Path("tuning/results.csv"))
    best = evaluate.tune("FCOH", FCOH, field, results, bits=32)[0]
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

from hashstream.evaluate.bench import News, pending, run
from hashstream.evaluate.job import Job
from hashstream.evaluate.protocols import PreparedDataset, Streamed, Validation, metric_row
from hashstream.evaluate.results import Results

__all__ = ["Trial", "check_metric", "jobs_of", "left", "trials", "tune"]

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by the parameter's name."""


@dataclass(frozen=True)
class Trial:
    """One choice of settings, and how it did.

    settings: what differs from the method's defaults; empty for the defaults themselves.
    values: the metric's value in each run that came to the end of the stream.
    diverged: runs that did not.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    values: tuple[float, ...] = ()
    diverged: int = 0

    @property
    def mean(self) -> float:
        return mean(self.values) if self.values else nan

    @property
    def spread(self) -> float:
        """Standard deviation over runs, NaN for one."""
        return stdev(self.values) if len(self.values) > 1 else nan


def trials(grid: Grid, settings: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Every combination of the grid's values, added to `settings`, and first `settings` as they are.

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
    """ValueError where `by` is no metric that settings can be chosen by."""
    known = [metric for metric in Validation().metrics() if not metric.endswith("_seconds")]
    if by not in known:
        raise ValueError(f"by is {by!r}: it has to be one of {', '.join(known)}")


def jobs_of(
    name: str, method: Callable[..., Streamed], tried: Sequence[dict[str, Any]], *, bits: int, runs: int
) -> list[Job]:
    """A job for each run of each of `trials`, run after run."""
    return [Job(name, method, bits, run, one) for run in range(runs) for one in tried]


def left(jobs: Sequence[Job], field: PreparedDataset, results: Results) -> list[Job]:
    """Those jobs that the results do not have yet."""
    protocol = Validation()
    points = protocol.points(field)
    return [
        job for job in jobs if pending(job, field.dataset, points, results, protocol=protocol, ties="aware")
    ]


def tune(
    name: str,
    method: Callable[..., Streamed],
    field: PreparedDataset,
    results: Results,
    *,
    bits: int = 32,
    grid: Grid | None = None,
    settings: Mapping[str, Any] | None = None,
    runs: int = 1,
    by: str = "mAP",
    workers: int = 1,
    watch: Callable[[News], None] | None = None,
) -> list[Trial]:
    """Measure every combination of settings under the protocol `Validation`, and return them, the best first.

    name, method: what results call it, and what makes the hasher.
    grid: values to try; by default the method's `tuning_grid`. The defaults, with `settings`, take part as well.
    settings: the same in every trial.
    by: the metric that decides, one of `Validation`'s. Ties between distances count as their mean over all orders, so
        that nothing is won by the order of the database.
    results, workers, watch: as in `run`; what the results have already is not measured again.

    A run that diverges is no reason to stop: trials with one come last.
    """
    protocol = Validation()
    check_metric(by)
    if grid is None:
        grid = getattr(method, "tuning_grid", {})
    if not grid:
        raise ValueError(f"{name} has no tuning_grid: give a grid, as {{'batch_size': (50, 100)}}")
    tried = trials(grid, settings)
    jobs = jobs_of(name, method, tried, bits=bits, runs=runs)
    run(jobs, field, results, protocol=protocol, ties="aware", workers=workers, watch=watch)
    (end,) = protocol.points(field)
    metric = metric_row(by, "aware")
    found = {
        (row["method"], row["run"]): row["value"]
        for row in results.rows
        if (row["dataset"], row["protocol"]) == (field.dataset, protocol.name)
        and (row["bits"], row["n_train"], row["metric"]) == (bits, end, metric)
    }

    def outcome(settings: dict[str, Any], own: list[Job]) -> Trial:
        values = tuple(found[job.label, job.run] for job in own if (job.label, job.run) in found)
        return Trial(settings, values, len(own) - len(values))

    done = [outcome(one, jobs[i :: len(tried)]) for i, one in enumerate(tried)]
    return sorted(done, key=lambda trial: (trial.diverged, inf if isnan(trial.mean) else -trial.mean))
