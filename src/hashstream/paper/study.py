"""One data set, measured into one results file: what is measured already, what is missing, and what the rows say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from dataclasses import field as default
from statistics import mean, stdev
from typing import Any

from threadpoolctl import threadpool_limits

from hashstream import evaluate
from hashstream.datasets import CATALOGUE
from hashstream.evaluate import Job, JobProgress
from hashstream.evaluate.protocols import Paper, PreparedDataset, Protocol, Setting, metric_row, plain_name
from hashstream.hashers import DivergenceError
from hashstream.paper.contestants import Contestant, Given, chosen
from hashstream.paper.printed import BITS

__all__ = ["FULL", "QUICK", "Measurement", "Scale", "Study", "Value", "quick"]

Watch = Callable[[JobProgress], None]
Watching = Callable[[str, int, int], AbstractContextManager[Watch | None]]
"""Opens a progress display, given a title, a number of jobs, and the number of rows that they learn together."""


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run.

    bits: code lengths. runs: seeds 0, 1, ... checkpoints: indices into the setting's checkpoints, None for all.

    The rows of a smaller scale are among those of a larger one: the stream is fed in the same pieces at both.
    """

    name: str
    bits: tuple[int, ...]
    runs: int
    checkpoints: tuple[int, ...] | None

    def checkpoints_of(self, setting: Setting) -> list[int]:
        every = setting.checkpoints
        return list(every) if self.checkpoints is None else sorted({every[i] for i in self.checkpoints})


QUICK = Scale("quick", bits=(16, 32, 64), runs=1, checkpoints=None)
FULL = Scale("full", bits=BITS, runs=3, checkpoints=None)


def quick(setting: Setting) -> Scale:
    """A scale that takes minutes: everything where the data set is tiny, three checkpoints where it is large.

    >>> quick(evaluate.protocols.SETTINGS["digits"]).runs, quick(evaluate.protocols.SETTINGS["places205"]).checkpoints
    (3, (0, 2, -1))
    """
    if setting.stream <= 2_000:
        return replace(FULL, name="quick")
    return QUICK if setting.stream <= 20_000 else replace(QUICK, checkpoints=(0, 2, -1))


@dataclass(frozen=True)
class Value:
    """Mean and standard deviation (NaN for one run) of a metric over runs.

    runs: one value per run. diverged: the number of further runs that diverged before the metric could be measured.

    >>> print(Value((0.5, 0.7)), Value((0.5,)))
    0.600 ± 0.141 0.500
    >>> Value((0.5, 0.7), diverged=1).counted, Value((0.5, 0.7)).counted
    ('2 of 3 runs', '')
    """

    runs: tuple[float, ...]
    diverged: int = 0

    @property
    def mean(self) -> float:
        return mean(self.runs)

    @property
    def spread(self) -> float:
        return stdev(self.runs) if len(self.runs) > 1 else float("nan")

    @property
    def counted(self) -> str:
        """How many runs the mean is over where some diverged, otherwise "". Such a mean may flatter the method."""
        return f"{len(self.runs)} of {len(self.runs) + self.diverged} runs" if self.diverged else ""

    @property
    def told(self) -> str:
        """The mean as it is given in a sentence."""
        return f"{self.mean:.3f}" + (f" ({self.counted})" if self.counted else "")

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + (f" ± {self.spread:.3f}" if len(self.runs) > 1 else "")


@dataclass(frozen=True)
class Measurement:
    """A measurement that is not the streaming of a hasher through one of evaluate's protocols.

    job: label, bits and run of its rows. n_train, metrics: its last rows; it is done where the results have them.
    take: measures. Reports numbers of processed rows to the given function; returns n_train -> metric -> value.
    """

    job: Job
    n_train: int
    metrics: tuple[str, ...]
    take: Callable[[Callable[[int], None]], Mapping[int, Mapping[str, float]]]


@dataclass(frozen=True)
class Study:
    """One data set at one scale, and the results so far.

    methods: those that take part where all do, by name or as classes of the user's own, in the order of tables and
        figures (`chosen`); empty for all.
    workers: processes for jobs that are not timed. watching: how to show progress.
    source: where the data came from, for the report.
    """

    data: PreparedDataset
    results: evaluate.Results
    scale: Scale
    workers: int = 1
    watching: Watching = lambda what, jobs, rows: nullcontext(None)
    methods: tuple[Given, ...] = ()
    source: str = ""
    _found: dict[tuple[Any, ...], dict[int, float]] = default(default_factory=dict, repr=False)
    _read: list[int] = default(default_factory=lambda: [0], repr=False)

    @property
    def dataset(self) -> str:
        return self.data.dataset

    @property
    def stream(self) -> int:
        """The length of the stream."""
        return self.data.setting.stream

    @property
    def checkpoints(self) -> list[int]:
        """The checkpoints of this scale; the last is the end of the stream."""
        return self.scale.checkpoints_of(self.data.setting)

    @property
    def contestants(self) -> list[Contestant]:
        """Who takes part where all methods do."""
        return chosen(self.dataset, self.methods)

    @property
    def listed(self) -> bool:
        """Whether methods were asked for one by one: tables and figures then have them together, in that order."""
        return bool(self.methods) and "all" not in self.methods

    @property
    def headline(self) -> str:
        """The metric that the paper reports for a data set: mAP, or mAP@1000 where there are many classes."""
        record = CATALOGUE.get(plain_name(self.dataset))
        return record.headline if record else "mAP"

    # ---- measuring

    def measure(
        self,
        what: str,
        jobs: Sequence[Job],
        *,
        checkpoints: Sequence[int] | None = None,
        protocol: Protocol | None = None,
        workers: int | None = None,
    ) -> None:
        """Run the jobs that have a checkpoint left to measure. `what` is the title of the progress bar."""
        protocol, points = protocol or Paper(), list(checkpoints or self.checkpoints)
        evaluate.check_sources(jobs, self.results)
        missing = [
            (job, left[-1])
            for job in jobs
            if (left := evaluate.pending(job, self.dataset, points, self.results, protocol=protocol))
        ]
        if not missing:
            return
        with self.watching(what, len(missing), sum(rows for _, rows in missing)) as watch:
            evaluate.run(
                [job for job, _ in missing],
                self.data,
                self.results,
                protocol=protocol,
                points=points,
                workers=workers or self.workers,
                progress=watch,
            )

    def measure_all(self, experiment: str, what: str, measurements: Sequence[Measurement]) -> None:
        """Take the measurements whose rows are missing, one after the other and on one thread; add their rows.

        A measurement whose hasher diverges adds nothing, and none is taken of a job that is known to have diverged.
        """
        missing = []
        for one in measurements:
            columns = one.job.columns(self.dataset, experiment)
            done = self.results.has(one.metrics, **columns, n_train=one.n_train)
            if not done and self.results.diverged(**columns) is None:
                missing.append(one)
        if not missing:
            return
        with self.watching(what, len(missing), sum(one.n_train for one in missing)) as watch:
            tell = watch or (lambda news: None)
            for one in missing:
                job, left = one.job, one.n_train

                def count(rows: int, job: Job = job) -> None:
                    nonlocal left
                    left -= rows
                    tell(JobProgress(job, rows=rows))

                found: Mapping[int, Mapping[str, float]] = {}
                with suppress(DivergenceError), threadpool_limits(1):
                    found = one.take(count)
                for n_train, metrics in found.items():
                    self.add(experiment, job.label, job.bits, job.run, n_train, **metrics)
                tell(JobProgress(job, rows=left, done=True))

    def add(self, experiment: str, label: str, bits: int, run: int, n_train: int, **metrics: float) -> None:
        """Add rows of an experiment that has a protocol of its own, under the experiment's name."""
        columns = {"dataset": self.dataset, "protocol": experiment, "method": label, "bits": bits, "run": run}
        self.results.append(
            [
                {**columns, "n_train": n_train, "metric": name, "value": value}
                for name, value in metrics.items()
            ]
        )

    # ---- reading

    def values(
        self, label: str, metric: str, *, bits: int, n_train: int | None = None, protocol: str = "paper"
    ) -> Value | None:
        """A metric (by its plain name) over the runs of this scale; None where nothing was measured.

        n_train: by default the whole stream. Further runs, which another scale may have left, do not count.
        """
        n_train = self.stream if n_train is None else n_train
        found = self.by_run(label, metric, bits=bits, n_train=n_train, protocol=protocol)
        lost = set(self.divergences(label, bits, n_train, protocol)) - set(found)
        return Value(tuple(found.values()), len(lost)) if found else None

    def divergences(self, label: str, bits: int, until: int, protocol: str = "paper") -> dict[int, int]:
        """Run -> rows after which it diverged, for the runs of this scale that diverged before `until` rows."""
        columns = {"dataset": self.dataset, "protocol": protocol, "method": label, "bits": bits}
        ends = {run: self.results.diverged(**columns, run=run) for run in range(self.scale.runs)}
        return {run: end for run, end in ends.items() if end is not None and end < until}

    def by_run(
        self, label: str, metric: str, *, bits: int, n_train: int, protocol: str = "paper"
    ) -> dict[int, float]:
        """Run -> value, in the order of the runs: what `values` summarises."""
        name = metric_row(metric, "paper") if protocol == "paper" else metric
        for row in self.results.rows[self._read[0] :]:  # each row is indexed once
            if row["dataset"] == self.dataset:
                key = (row["protocol"], row["method"], row["bits"], row["n_train"], row["metric"])
                self._found.setdefault(key, {})[row["run"]] = row["value"]
        self._read[0] = len(self.results.rows)
        found = self._found.get((protocol, label, bits, n_train, name), {})
        return {run: found[run] for run in sorted(found) if run < self.scale.runs}
