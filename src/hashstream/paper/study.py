"""What the paper's experiments have in common: a study measures into one results file, and shows sections made of it.

An experiment has two halves. `measure` only adds rows to the study's results (nothing that is there already is
measured again), `show` only reads them: every table and figure can be made anew from the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from dataclasses import field as default
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, Literal

from hashstream import evaluate
from hashstream.datasets import CATALOGUE, Dataset
from hashstream.evaluate.protocols import Paper, PreparedDataset, Protocol, metric_row
from hashstream.paper.lineup import Contestant, lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BITS",
    "FULL",
    "QUICK",
    "Experiment",
    "Figures",
    "Scale",
    "Section",
    "Sheet",
    "Study",
    "Value",
    "Verdict",
    "quick",
]

BITS = (8, 16, 32, 48, 64, 128)
"""The paper's code lengths."""

Watch = Callable[[evaluate.JobProgress], None]
Watching = Callable[[str, int, int], AbstractContextManager[Watch | None]]
"""Given what begins, how many jobs and how many rows it has: the watch of `evaluate.run`, for as long as it lasts."""


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run. What "quick" measures is a part of what "full" measures, row for row: methods
    are fed in the same pieces however many looks are taken.

    bits: code lengths. runs: seeds 0, 1, ... looks: which of the setting's checkpoints, as places in it.
    """

    name: str
    bits: tuple[int, ...]
    runs: int
    looks: tuple[int, ...] | None

    def points(self, setting: evaluate.protocols.Setting) -> list[int]:
        """The checkpoints at which this scale looks."""
        every = setting.checkpoints
        return list(every) if self.looks is None else sorted({every[i] for i in self.looks})


QUICK = Scale("quick", bits=(16, 32, 64), runs=1, looks=None)
FULL = Scale("full", bits=BITS, runs=3, looks=None)


def quick(setting: evaluate.protocols.Setting) -> Scale:
    """What is quick enough for a data set: all of it where it is tiny, three looks where looking takes long.

    >>> quick(evaluate.protocols.SETTINGS["digits"]).runs, quick(evaluate.protocols.SETTINGS["places205"]).looks
    (3, (0, 2, -1))
    """
    if setting.stream <= 2_000:
        return replace(FULL, name="quick")
    return QUICK if setting.stream <= 20_000 else replace(QUICK, looks=(0, 2, -1))


@dataclass(frozen=True)
class Value:
    """Mean and standard deviation (NaN for one run) of a metric over runs.

    runs: one value for each run that has one. diverged: how many more there were that could not get so far.

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
        """Whose mean this is where runs diverged, "" where none did: survivors may be better than all would be."""
        return f"{len(self.runs)} of {len(self.runs) + self.diverged} runs" if self.diverged else ""

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + (f" ± {self.spread:.3f}" if len(self.runs) > 1 else "")


@dataclass(frozen=True)
class Sheet:
    """A table of a report: `rows` have one cell for each of `columns`, text as it is to be read.

    best: (row, column) of cells that the report sets in bold.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()


Verdict = Literal["holds", "holds in part", "only with our defaults", "does not hold", "undecided"]
"""On a claim of the paper, as far as the rows of a study go."""

Figures = dict[str, "Figure"]
"""Figures of a section by file name without its ending, in the order in which the report shows them."""


@dataclass(frozen=True)
class Section:
    """What an experiment shows.

    claim: what the paper says, in a sentence or two. finding: what is measured here, made of the rows.
    verdict: whether the claim holds here. brief: the finding in one line.
    notes: why the two differ where that is known, what was left out, what the figures do not tell.
    captions: a sentence for a figure, by its name.
    """

    name: str
    title: str
    claim: str
    finding: str
    sheets: tuple[Sheet, ...] = ()
    figures: Figures = default(default_factory=dict)
    captions: dict[str, str] = default(default_factory=dict)
    notes: tuple[str, ...] = ()
    verdict: Verdict = "undecided"
    brief: str = ""


@dataclass(frozen=True)
class Study:
    """One data set at one scale, and the results so far.

    also: methods of the user's own by name, which take part wherever all methods do.
    methods: the only ones to take part where all do; none for all of them.
    workers: processes for jobs whose time does not matter. watching: how to show progress.
    """

    data: Dataset
    field: PreparedDataset
    results: evaluate.Results
    scale: Scale
    also: dict[str, Callable[..., Any]] = default(default_factory=dict)
    workers: int = 1
    watching: Watching = lambda what, jobs, rows: nullcontext(None)
    methods: tuple[str, ...] = ()
    _found: dict[tuple[Any, ...], dict[int, float]] = default(default_factory=dict, repr=False)
    _read: list[int] = default(default_factory=lambda: [0], repr=False)

    @property
    def dataset(self) -> str:
        return self.field.dataset

    @property
    def points(self) -> list[int]:
        """The checkpoints of this scale; the last is the whole stream."""
        return self.scale.points(self.field.setting)

    @property
    def contestants(self) -> list[Contestant]:
        """Who takes part where all methods do; those of `also` always."""
        everyone = lineup(self.dataset, self.also)
        return [
            one for one in everyone if not self.methods or one.name in self.methods or one.name in self.also
        ]

    @property
    def headline(self) -> str:
        """The metric that the paper reports for a data set: mAP, or mAP@1000 where there are many classes."""
        return CATALOGUE[self.dataset].headline if self.dataset in CATALOGUE else "mAP"

    def measure(
        self,
        what: str,
        jobs: Sequence[evaluate.Job],
        *,
        points: Sequence[int] | None = None,
        protocol: Protocol | None = None,
        workers: int | None = None,
    ) -> None:
        """Run those jobs that have something left to measure. `what` stands beside the bar."""
        protocol, points = protocol or Paper(), list(points or self.points)
        missing = {
            i: left[-1]
            for i, job in enumerate(jobs)
            if (left := evaluate.pending(job, self.dataset, points, self.results, protocol=protocol))
        }
        if not missing:
            return
        with self.watching(what, len(missing), sum(missing.values())) as watch:
            evaluate.run(
                [jobs[i] for i in missing],
                self.field,
                self.results,
                protocol=protocol,
                points=points,
                workers=workers or self.workers,
                watch=watch,
            )

    def add(self, experiment: str, label: str, bits: int, run: int, n_train: int, **metrics: float) -> None:
        """Rows of an experiment with a protocol of its own, under its name."""
        columns = {"dataset": self.dataset, "protocol": experiment, "method": label, "bits": bits, "run": run}
        self.results.append(
            [
                {**columns, "n_train": n_train, "metric": name, "value": value}
                for name, value in metrics.items()
            ]
        )

    def values(
        self, label: str, metric: str, *, bits: int, n_train: int | None = None, protocol: str = "paper"
    ) -> Value | None:
        """A metric (by its plain name) over the runs of this scale, None where nothing was measured.

        n_train: by default the whole stream. Runs beyond the scale's, left from another, are not counted.
        """
        n_train = self.field.setting.stream if n_train is None else n_train
        found = self.by_run(label, metric, bits=bits, n_train=n_train, protocol=protocol)
        lost = set(self.divergences(label, bits, n_train, protocol)) - set(found)
        return Value(tuple(found.values()), len(lost)) if found else None

    def divergences(self, label: str, bits: int, until: int, protocol: str = "paper") -> dict[int, int]:
        """Run -> after how many rows a method could not go on, for the scale's runs that did not get to `until`."""
        columns = {"dataset": self.dataset, "protocol": protocol, "method": label, "bits": bits}
        ends = {run: self.results.diverged(**columns, run=run) for run in range(self.scale.runs)}
        return {run: end for run, end in ends.items() if end is not None and end < until}

    def by_run(
        self, label: str, metric: str, *, bits: int, n_train: int, protocol: str = "paper"
    ) -> dict[int, float]:
        """What `values` summarises: run -> value, in the order of the runs."""
        name = metric_row(metric, "paper") if protocol == "paper" else metric
        for row in self.results.rows[
            self._read[0] :
        ]:  # each row is filed once, however many tables ask for it
            if row["dataset"] == self.dataset:
                key = (row["protocol"], row["method"], row["bits"], row["n_train"], row["metric"])
                self._found.setdefault(key, {})[row["run"]] = row["value"]
        self._read[0] = len(self.results.rows)
        found = self._found.get((protocol, label, bits, n_train, name), {})
        return {run: found[run] for run in sorted(found) if run < self.scale.runs}

    def rows(self, protocol: str, metrics: Iterable[str]) -> list[dict[str, Any]]:
        """The results' rows of this data set and the scale's runs under a protocol, run after run."""
        wanted = set(metrics)
        return sorted(
            (
                row
                for row in self.results.rows
                if row["dataset"] == self.dataset
                and row["protocol"] == protocol
                and row["metric"] in wanted
                and row["run"] < self.scale.runs
            ),
            key=lambda row: row["run"],
        )


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper. `what` is a line for `--help`."""

    name: str
    what: str
    measure: Callable[[Study], None]
    show: Callable[[Study], Section]
