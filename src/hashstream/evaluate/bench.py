"""What `hashstream bench` does: methods, code lengths and runs under one protocol, into a results file.

    from hashstream import FCOH, HCOH, datasets, evaluate

    field = evaluate.PreparedDataset.of(datasets.load("mnist"))
    results = evaluate.Results(Path("results/results.csv"))
    jobs = evaluate.jobs({"FCOH": FCOH, "HCOH": HCOH}, bits=[32], runs=3)
    evaluate.run(jobs, field, results, protocol=evaluate.protocols.named("drift"))

Each look is written when it has been taken, and what the file already has is not measured again: the same call
continues after an interruption. The stream always comes in the pieces of the protocol's own points, so figures depend
neither on where it was interrupted nor on which points are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hashstream.evaluate.job import Job, jobs, run_job
from hashstream.evaluate.protocols import Checkpoint, Paper, PreparedDataset, Protocol, metric_row
from hashstream.evaluate.results import DIVERGED, Results
from hashstream.evaluate.workers import Ending, WorkerError, side_by_side
from hashstream.hashers import DivergenceError

__all__ = ["Job", "News", "WorkerError", "jobs", "measure", "pending", "run"]


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
    field: PreparedDataset,
    points: Sequence[int],
    results: Results,
    *,
    protocol: Protocol | None = None,
    ties: str = "paper",
    progress: Callable[[int], None] | None = None,
) -> Iterator[Checkpoint]:
    """Stream the job's hasher, append what each pending point shows to the results, and yield it.

    A hasher that diverges has this appended, too, and the exception goes on.
    """
    protocol = protocol or Paper()
    results.check_data(field.dataset, field.fingerprint)
    missing = pending(job, field.dataset, points, results, protocol=protocol, ties=ties)
    if not missing:
        return
    results.mark_data(field.dataset, field.fingerprint)
    columns, learned = job.columns(field.dataset, protocol.name), 0

    def count(rows: int) -> None:
        nonlocal learned
        learned += rows
        if progress is not None:
            progress(rows)

    try:
        for look in run_job(job, field, protocol, missing, ties, count):
            results.append(look.rows(**columns))
            yield look
    except DivergenceError:
        results.append([_divergence(columns, learned)])
        raise


def _divergence(columns: dict[str, Any], learned: int) -> dict[str, Any]:
    return {**columns, "n_train": learned, "metric": DIVERGED, "value": float(learned)}


@dataclass(frozen=True)
class News:
    """What `run` tells while it runs: of which job, rows learned since the last time, a look, or an error.

    rows: with an error, those that are not learned any more, so that the sum over all news is what was to be learned.
    """

    job: Job
    rows: int = 0
    look: Checkpoint | None = None
    error: str = ""
    done: bool = False


def run(
    jobs: Sequence[Job],
    field: PreparedDataset,
    results: Results,
    *,
    protocol: Protocol | None = None,
    points: Sequence[int] | None = None,
    ties: str = "paper",
    workers: int = 1,
    watch: Callable[[News], None] | None = None,
) -> None:
    """Measure all jobs into the results.

    points: after how many rows to look, by default as the protocol says for the field.
    workers: processes side by side; 1 is this one. Every job has one thread for its arithmetic, so figures do not
        depend on the number of workers, and a worker for each core keeps them all busy. Each worker needs memory for
        about one copy of the features. A class that is defined in a notebook, or in the script that runs, cannot be
        found by another process: with more than one worker it raises ValueError, before anything starts. A script has
        to call with more than one worker below `if __name__ == "__main__":`, since workers import it.
    watch: called with each piece of news, in the calling thread.

    Results are written by this process alone: ValueError where another one is measuring into the same file, or where
    the file has figures of other data with the same name. A hasher that diverges (DivergenceError) is a fact about its
    settings, kept in the results, and the other jobs go on. They also go on where a worker is killed; then WorkerError
    is raised at the end, and names the jobs that were lost. Any other exception in a job is raised at once, with a note
    that names the job.
    """
    protocol = protocol or Paper()
    usual = protocol.points(field)
    points = list(points or usual)
    if not protocol.free_points and tuple(points) != usual:
        raise ValueError(
            f"the looks of {protocol.name} on {field.dataset} are after {list(usual)} rows, not {points}"
        )
    if workers < 1:
        raise ValueError(f"workers is {workers}: it has to be 1 or more")
    results.check_data(field.dataset, field.fingerprint)
    if any(pending(job, field.dataset, points, results, protocol=protocol, ties=ties) for job in jobs):
        with results.writing():
            results.mark_data(field.dataset, field.fingerprint)
            _run(jobs, field, results, protocol, points, ties, workers, watch or (lambda news: None))
    elif watch is not None:
        for job in jobs:
            watch(News(job, done=True))


def _run(
    jobs: Sequence[Job],
    field: PreparedDataset,
    results: Results,
    protocol: Protocol,
    points: Sequence[int],
    ties: str,
    workers: int,
    tell: Callable[[News], None],
) -> None:
    todo = []
    for job in jobs:
        if missing := pending(job, field.dataset, points, results, protocol=protocol, ties=ties):
            todo.append((job, missing))
        else:
            tell(News(job, done=True))
    if min(workers, len(todo)) > 1:
        _in_parallel(todo, field, results, protocol, ties, min(workers, len(todo)), tell)
        return
    for job, missing in todo:
        left, error = missing[-1], ""

        def count(rows: int, job: Job = job) -> None:
            nonlocal left
            left -= rows
            tell(News(job, rows=rows))

        try:
            for look in measure(job, field, points, results, protocol=protocol, ties=ties, progress=count):
                tell(News(job, look=look))
        except DivergenceError as problem:
            error = str(problem)
        tell(News(job, rows=left, error=error, done=True))


def _in_parallel(
    todo: Sequence[tuple[Job, list[int]]],
    field: PreparedDataset,
    results: Results,
    protocol: Protocol,
    ties: str,
    workers: int,
    tell: Callable[[News], None],
) -> None:
    lost, left = [], {id(job): missing[-1] for job, missing in todo}
    with closing(side_by_side(todo, field, protocol, ties, workers)) as events:
        for job, event in events:
            columns = job.columns(field.dataset, protocol.name)
            if isinstance(event, Checkpoint):
                results.append(event.rows(**columns))
                tell(News(job, look=event))
            elif isinstance(event, Ending):
                if event.diverged:
                    results.append([_divergence(columns, event.learned)])
                if event.lost:
                    lost.append(f"{job} (its process {event.lost})")
                tell(News(job, rows=left[id(job)], error=event.diverged or event.lost, done=True))
            else:
                left[id(job)] -= event
                tell(News(job, rows=event))
    if lost:
        raise WorkerError(
            f"not measured to the end: {'; '.join(lost)}. What was measured is kept: the same call goes on from there, "
            "with fewer workers where memory was short."
        )
