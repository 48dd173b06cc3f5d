"""Measure methods, code lengths and runs under one protocol into a results file, as `hashstream bench` does.

    from hashstream import FCOH, HCOH, datasets, evaluate

    data = evaluate.PreparedDataset.of(datasets.load("mnist"))
    results = evaluate.Results(Path("results/results.csv"))
    jobs = evaluate.jobs({"FCOH": FCOH, "HCOH": HCOH}, bits=[32], runs=3)
    evaluate.run(jobs, data, results, protocol=evaluate.protocols.named("drift"), progress="bar")

Each checkpoint is written when it is measured, and nothing in the file is measured again: the same call continues after
an interruption. The stream is always cut at the protocol's own checkpoints, so figures depend neither on interruptions
nor on which checkpoints are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

from hashstream.evaluate.job import Job, jobs, run_job
from hashstream.evaluate.progress import JobProgress, Progress, watched
from hashstream.evaluate.protocols import Checkpoint, Paper, PreparedDataset, Protocol, metric_row
from hashstream.evaluate.results import DIVERGED, Results
from hashstream.evaluate.scores import Ties
from hashstream.evaluate.sources import source_digests
from hashstream.evaluate.workers import JobEnd, WorkerError, run_in_workers
from hashstream.hashers import DivergenceError

__all__ = [
    "Job",
    "JobProgress",
    "WorkerError",
    "check_sources",
    "jobs",
    "measure",
    "pending",
    "run",
    "unfinished",
]


def check_sources(jobs: Sequence[Job], results: Results) -> None:
    """Raise ValueError if the results have rows of a method of the user's own whose source has changed since."""
    results.check_sources(_digests(jobs))


def _digests(jobs: Sequence[Job]) -> dict[str, str]:
    return source_digests({job.name: job.method for job in jobs}.items())


def pending(
    job: Job,
    dataset: str,
    points: Sequence[int],
    results: Results,
    *,
    protocol: Protocol | None = None,
    ties: Ties = "paper",
) -> list[int]:
    """The checkpoints of a job that the results lack, up to the one at which it diverged."""
    protocol = protocol or Paper()
    columns = job.columns(dataset, protocol.name)
    metrics = [metric_row(name, ties) for name in protocol.metrics()]
    end = results.diverged(**columns)
    return [n for n in points if (end is None or n <= end) and not results.has(metrics, **columns, n_train=n)]


def unfinished(
    jobs: Sequence[Job],
    dataset: str,
    points: Sequence[int],
    results: Results,
    *,
    protocol: Protocol | None = None,
    ties: Ties = "paper",
) -> list[tuple[Job, list[int]]]:
    """The jobs that have pending checkpoints, each with these."""
    found = ((job, pending(job, dataset, points, results, protocol=protocol, ties=ties)) for job in jobs)
    return [(job, missing) for job, missing in found if missing]


def measure(
    job: Job,
    data: PreparedDataset,
    points: Sequence[int],
    results: Results,
    *,
    protocol: Protocol | None = None,
    ties: Ties = "paper",
    progress: Callable[[int], None] | None = None,
) -> Iterator[Checkpoint]:
    """Stream a job's hasher, append each pending checkpoint to the results, and yield it.

    If the hasher diverges, this is appended as well, and the exception propagates.
    """
    protocol = protocol or Paper()
    results.check_data(data.dataset, data.fingerprint)
    missing = pending(job, data.dataset, points, results, protocol=protocol, ties=ties)
    if not missing:
        return
    results.mark_data(data.dataset, data.fingerprint)
    results.mark_sources(_digests([job]))
    columns, learned = job.columns(data.dataset, protocol.name), 0

    def count(rows: int) -> None:
        nonlocal learned
        learned += rows
        if progress is not None:
            progress(rows)

    try:
        for checkpoint in run_job(job, data, protocol, missing, ties, count):
            results.append(checkpoint.rows(**columns))
            yield checkpoint
    except DivergenceError:
        results.append([_divergence(columns, learned)])
        raise


def _divergence(columns: dict[str, Any], learned: int) -> dict[str, Any]:
    return {**columns, "n_train": learned, "metric": DIVERGED, "value": float(learned)}


def run(
    jobs: Sequence[Job],
    data: PreparedDataset,
    results: Results,
    *,
    protocol: Protocol | None = None,
    points: Sequence[int] | None = None,
    ties: Ties = "paper",
    workers: int = 1,
    progress: Progress = None,
) -> None:
    """Measure all jobs into the results.

    points: the checkpoints, as numbers of learned rows; by default the protocol's.
    workers: number of processes; 1 is this one. Every job uses one thread, so figures do not depend on the number of
        workers, and one worker per core is best. Each needs memory for about one copy of the features. With more than
        one worker, a class defined in a notebook or in the running script raises ValueError before anything starts,
        since other processes cannot import it; and a script must make the call under `if __name__ == "__main__":`,
        since workers import the script.
    progress: nothing is printed by default. "bar" shows a progress bar on stderr, with the time that is left (it needs
        hashstream[cli]); a function is called with each `JobProgress`, in the calling thread.

    Only this process writes results: ValueError if another one is writing the same file, or if the file has figures of
    other data with the same name, or of a class of the user's own whose source has changed since. A hasher that
    diverges (DivergenceError) is a fact about its settings, recorded in the results, and the other jobs continue. They
    also continue if a worker is killed; WorkerError is then raised at the end and names the lost jobs. Any other
    exception in a job is raised at once, with a note that names the job.
    """
    protocol = protocol or Paper()
    usual = protocol.points(data)
    points = list(points or usual)
    if not protocol.free_points and tuple(points) != usual:
        raise ValueError(
            f"the checkpoints of {protocol.name} on {data.dataset} are after {list(usual)} rows, not {points}"
        )
    if workers < 1:
        raise ValueError(f"workers is {workers}: it has to be 1 or more")
    results.check_data(data.dataset, data.fingerprint)
    check_sources(jobs, results)
    todo = unfinished(jobs, data.dataset, points, results, protocol=protocol, ties=ties)
    with ExitStack() as stack:
        rows = sum(missing[-1] for _, missing in todo)
        tell = stack.enter_context(watched(progress, len(jobs), rows))
        if not todo:
            for job in jobs:
                tell(JobProgress(job, done=True))
            return
        stack.enter_context(results.writing())
        results.mark_data(data.dataset, data.fingerprint)
        results.mark_sources(_digests(jobs))
        # Asked again: with the lock, what another process has written is known.
        todo = unfinished(jobs, data.dataset, points, results, protocol=protocol, ties=ties)
        left = {id(job) for job, _ in todo}
        for job in jobs:
            if id(job) not in left:
                tell(JobProgress(job, done=True))
        if min(workers, len(todo)) > 1:
            _run_in_workers(todo, data, results, protocol, ties, min(workers, len(todo)), tell)
        else:
            for job, missing in todo:
                _run_here(job, missing, data, results, protocol, ties, tell)


def _run_here(
    job: Job,
    missing: list[int],
    data: PreparedDataset,
    results: Results,
    protocol: Protocol,
    ties: Ties,
    tell: Callable[[JobProgress], None],
) -> None:
    left, error = missing[-1], ""

    def count(rows: int) -> None:
        nonlocal left
        left -= rows
        tell(JobProgress(job, rows=rows))

    try:
        for checkpoint in measure(job, data, missing, results, protocol=protocol, ties=ties, progress=count):
            tell(JobProgress(job, checkpoint=checkpoint))
    except DivergenceError as problem:
        error = str(problem)
    tell(JobProgress(job, rows=left, error=error, done=True))


def _run_in_workers(
    todo: Sequence[tuple[Job, list[int]]],
    data: PreparedDataset,
    results: Results,
    protocol: Protocol,
    ties: Ties,
    workers: int,
    tell: Callable[[JobProgress], None],
) -> None:
    lost, left = [], {id(job): missing[-1] for job, missing in todo}
    with closing(run_in_workers(todo, data, protocol, ties, workers)) as events:
        for job, event in events:
            columns = job.columns(data.dataset, protocol.name)
            if isinstance(event, Checkpoint):
                results.append(event.rows(**columns))
                tell(JobProgress(job, checkpoint=event))
            elif isinstance(event, JobEnd):
                if event.diverged:
                    results.append([_divergence(columns, event.learned)])
                if event.lost:
                    lost.append(f"{job} (its process {event.lost})")
                error = event.diverged or event.lost
                tell(JobProgress(job, rows=left[id(job)], error=error, done=True))
            else:
                left[id(job)] -= event
                tell(JobProgress(job, rows=event))
    if lost:
        raise WorkerError(
            f"not measured completely: {'; '.join(lost)}. The results so far are kept: repeat the call to continue, "
            "with fewer workers if memory was short."
        )
