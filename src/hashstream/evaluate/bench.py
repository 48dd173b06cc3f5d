"""What `hashstream bench` does: methods, code lengths and runs under one protocol, into a results file.

    from hashstream import FCOH, HCOH, datasets, evaluate

    field = evaluate.Field.of(datasets.load("mnist"))
    results = evaluate.Results(Path("results/results.csv"))
    evaluate.run(evaluate.jobs({"FCOH": FCOH, "HCOH": HCOH}, bits=[32], runs=3), field, results)

Each look is written when it has been taken, and what the file already has is not measured again: the same call
continues after an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hashstream.evaluate.protocols import Field, Look, Paper, Protocol, Streamed, follow, metric_row
from hashstream.evaluate.results import COLUMNS, DIVERGED, Results

__all__ = ["Job", "News", "jobs", "measure", "pending", "run"]


@dataclass(frozen=True)
class Job:
    """One hasher to stream once. `run` seeds both the split and the hasher.

    method: called with n_bits, random_state and `settings`, makes the hasher.
    """

    name: str
    method: Callable[..., Streamed]
    bits: int
    run: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method's name in a results file, with the settings that are not its defaults.

        >>> Job("FCOH", dict, 32, 0, {"learning_rate": 0.01, "gradient_scale": "none"}).label
        "FCOH(gradient_scale='none', learning_rate=0.01)"
        """
        inside = ", ".join(f"{name}={value!r}" for name, value in sorted(self.settings.items()))
        return f"{self.name}({inside})" if inside else self.name

    def columns(self, dataset: str, protocol: str = "paper") -> dict[str, Any]:
        """The columns that all rows of this job have in common."""
        return dict(zip(COLUMNS[:5], (dataset, protocol, self.label, self.bits, self.run), strict=True))


def jobs(
    methods: Mapping[str, Callable[..., Streamed]],
    *,
    bits: Sequence[int],
    runs: int,
    settings: Mapping[str, Any] | None = None,
) -> list[Job]:
    """Every combination, run after run, so that an interrupted measurement has whole runs."""
    return [
        Job(name, method, r, run, dict(settings or {}))
        for run in range(runs)
        for r in bits
        for name, method in methods.items()
    ]


def pending(
    job: Job,
    dataset: str,
    points: Sequence[int],
    results: Results,
    *,
    protocol: Protocol | None = None,
    ties: str = "paper",
) -> list[int]:
    """The points of the job that the results do not have, none behind the one where it diverged."""
    protocol = protocol or Paper()
    columns = job.columns(dataset, protocol.name)
    metrics = [metric_row(name, ties) for name in protocol.metrics()]
    end = results.diverged(**columns)
    return [n for n in points if (end is None or n <= end) and not results.has(metrics, **columns, n_train=n)]


def measure(
    job: Job,
    field: Field,
    points: Sequence[int],
    results: Results,
    *,
    protocol: Protocol | None = None,
    ties: str = "paper",
    progress: Callable[[int], None] | None = None,
) -> Iterator[Look]:
    """Stream the job's hasher, append what each pending point shows to the results, and yield it.

    A hasher that diverges has this appended, too, and the exception goes on.
    """
    protocol = protocol or Paper()
    missing = pending(job, field.dataset, points, results, protocol=protocol, ties=ties)
    if not missing:
        return
    columns, learned = job.columns(field.dataset, protocol.name), 0

    def count(rows: int) -> None:
        nonlocal learned
        learned += rows
        if progress is not None:
            progress(rows)

    hasher = job.method(n_bits=job.bits, random_state=job.run, **job.settings)
    until = [n for n in points if n <= missing[-1]]
    course = protocol.course(field, job.run, ties=ties)
    try:
        for look in follow(hasher, course, until, skip=set(until) - set(missing), progress=count):
            results.append(look.rows(**columns))
            yield look
    except ArithmeticError:
        results.append([{**columns, "n_train": learned, "metric": DIVERGED, "value": float(learned)}])
        raise


@dataclass(frozen=True)
class News:
    """What `run` tells while it runs: of which job, rows learned since the last time, a look, or an error."""

    job: Job
    rows: int = 0
    look: Look | None = None
    error: str = ""
    done: bool = False


def run(
    jobs: Sequence[Job],
    field: Field,
    results: Results,
    *,
    protocol: Protocol | None = None,
    points: Sequence[int] | None = None,
    ties: str = "paper",
    workers: int = 1,
    watch: Callable[[News], None] | None = None,
) -> None:
    """Measure all jobs into the results.

    points: after how many rows to look, by default as the protocol says for the field's setting.
    workers: processes side by side. The figures do not depend on it.
    watch: called with each piece of news, in the calling thread.

    A hasher that diverges is a fact about its settings, kept in the results, and the other jobs go on.
    """
    protocol = protocol or Paper()
    points = list(points or protocol.points(field.setting))
    tell = watch or (lambda news: None)
    for job in jobs:
        error = ""
        try:
            for look in measure(
                job,
                field,
                points,
                results,
                protocol=protocol,
                ties=ties,
                progress=lambda rows, job=job: tell(News(job, rows=rows)),  # type: ignore[misc]
            ):
                tell(News(job, look=look))
        except ArithmeticError as problem:
            error = str(problem)
        tell(News(job, error=error, done=True))
