"""One hasher to stream once, and how that is done: on one thread, whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from hashstream.evaluate.protocols import Checkpoint, PreparedDataset, Protocol, Streamed, run_stream
from hashstream.evaluate.results import COLUMNS

__all__ = ["MEASURING", "Job", "jobs", "run_job"]

MEASURING = "While measuring "
"""How the note on an exception begins that names the job."""


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

    def __str__(self) -> str:
        return f"{self.label}, {self.bits} bits, run {self.run}"

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


def run_job(
    job: Job,
    field: PreparedDataset,
    protocol: Protocol,
    points: Sequence[int],
    ties: str,
    progress: Callable[[int], None],
) -> Iterator[Checkpoint]:
    """Stream the job's hasher through the protocol's course, and yield what it shows at each of `points`.

    The stream comes in the pieces of the protocol's own points whichever are asked for, so that one row of results
    always comes from the same model.

    BLAS and OpenMP have one thread while it learns and is judged. So figures depend neither on the number of cores
    (sums are taken in another order with more threads) nor on what runs beside, and times are those of one core.
    """
    with threadpool_limits(1), _named(job):
        hasher = job.method(n_bits=job.bits, random_state=job.run, **job.settings)
        course = protocol.course(field, job.run, ties=ties)
    looks = run_stream(hasher, course, points, cuts=protocol.points(field), progress=progress)
    while True:
        with threadpool_limits(1), _named(job):  # not while the caller has the look
            look = next(looks, None)
        if look is None:
            return
        yield look


@contextmanager
def _named(job: Job) -> Iterator[None]:
    """Whatever is raised within has a note that names the job."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{MEASURING}{job}")
        raise
