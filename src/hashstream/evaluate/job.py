"""A job: one hasher that is streamed once, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from hashstream.evaluate.protocols import Checkpoint, PreparedDataset, Protocol, Streamed, run_stream
from hashstream.evaluate.results import COLUMNS
from hashstream.evaluate.scores import Ties

__all__ = ["MEASURING", "Job", "jobs", "run_job"]

MEASURING = "While measuring "
"""The beginning of the note that names the job, added to its exceptions."""


@dataclass(frozen=True)
class Job:
    """One hasher to stream once. `run` seeds both the split and the hasher.

    method: returns the hasher when called with n_bits, random_state and `settings`.
    """

    name: str
    method: Callable[..., Streamed]
    bits: int
    run: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method's name in a results file, with the settings that differ from its defaults.

        >>> Job("FCOH", dict, 32, 0, {"learning_rate": 0.01, "gradient_scale": "none"}).label
        "FCOH(gradient_scale='none', learning_rate=0.01)"
        """
        inside = ", ".join(f"{name}={value!r}" for name, value in sorted(self.settings.items()))
        return f"{self.name}({inside})" if inside else self.name

    def __str__(self) -> str:
        return f"{self.label}, {self.bits} bits, run {self.run}"

    def columns(self, dataset: str, protocol: str = "paper") -> dict[str, Any]:
        """The columns that all rows of this job share."""
        return dict(zip(COLUMNS[:5], (dataset, protocol, self.label, self.bits, self.run), strict=True))


def jobs(
    methods: Mapping[str, Callable[..., Streamed]],
    *,
    bits: Sequence[int],
    runs: int,
    settings: Mapping[str, Any] | None = None,
) -> list[Job]:
    """Every combination, run by run, so that an interrupted measurement has complete runs."""
    return [
        Job(name, method, r, run, dict(settings or {}))
        for run in range(runs)
        for r in bits
        for name, method in methods.items()
    ]


def run_job(
    job: Job,
    data: PreparedDataset,
    protocol: Protocol,
    points: Sequence[int],
    ties: Ties,
    progress: Callable[[int], None],
) -> Iterator[Checkpoint]:
    """Stream a job's hasher through the protocol's task, and yield the checkpoints at `points`.

    The stream is always cut at the protocol's `cuts`, so a row of results always comes from the same model.

    BLAS and OpenMP use one thread. Figures then depend neither on the number of cores (more threads sum in another
    order) nor on other processes, and times are those of one core.
    """
    with threadpool_limits(1), _named(job):
        hasher = job.method(n_bits=job.bits, random_state=job.run, **job.settings)
        task = protocol.task(data, job.run, ties=ties)
    checkpoints = run_stream(hasher, task, points, cuts=protocol.cuts(data), progress=progress)
    while True:
        with threadpool_limits(1), _named(job):  # no limit while the caller handles the checkpoint
            checkpoint = next(checkpoints, None)
        if checkpoint is None:
            return
        yield checkpoint


@contextmanager
def _named(job: Job) -> Iterator[None]:
    """Add a note that names the job to whatever is raised within."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{MEASURING}{job}")
        raise
