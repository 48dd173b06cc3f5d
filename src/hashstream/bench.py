"""What `hashstream bench` does: methods, code lengths and runs under one protocol, into a results file.

    results = Results(folder / "results.csv")
    for job in jobs({"FCOH": FCOH}, bits=[32], runs=3):
        for seen in measure(job, field, checkpoints, results, ties="paper"):
            ...

Each checkpoint is written when it has been measured, and what the file already has is not measured again: the
same call continues after an interruption.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from hashstream import datasets
from hashstream.evaluate import protocols, row_name

__all__ = ["COLUMNS", "Field", "Job", "Results", "Summary", "jobs", "measure", "pending", "summarise"]

COLUMNS = ("dataset", "protocol", "method", "bits", "run", "n_train", "metric", "value")


class Results:
    """A results file: rows with COLUMNS, only ever appended to.

    A last line that was cut off (the machine went down in the middle of it) is removed on opening.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read()
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.write_text(",".join(COLUMNS) + "\n")
        self._known = {self._key(row) for row in self.rows}

    def _read(self) -> None:
        text = self.path.read_text()
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.path.write_text(whole)
        reader = csv.DictReader(io.StringIO(whole))
        if whole and tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(
                f"{self.path} is not a results file: its first line has to be {','.join(COLUMNS)}"
            )
        for row in reader:
            try:
                numbers = {name: int(row[name]) for name in ("bits", "run", "n_train")}
                self.rows.append({**row, **numbers, "value": float(row["value"])})
            except (TypeError, ValueError):
                raise ValueError(f"{self.path}, line {reader.line_num}, is not a row of results") from None

    @staticmethod
    def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in COLUMNS[:-1])

    def has(self, metrics: Sequence[str], **columns: Any) -> bool:
        """Whether every one of `metrics` is there for these columns."""
        return all(self._key({**columns, "metric": metric}) in self._known for metric in metrics)

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add those that are new, in one write."""
        new = [row for row in rows if self._key(row) not in self._known]
        lines = io.StringIO()
        csv.DictWriter(lines, COLUMNS, lineterminator="\n").writerows(new)
        with self.path.open("a") as file:
            file.write(lines.getvalue())
        self.rows += new
        self._known |= {self._key(row) for row in new}


@dataclass(frozen=True)
class Field:
    """Where methods are compared: features (n, d) float32 and labels (n,) of a data set, and its setting."""

    dataset: str
    X: np.ndarray
    y: np.ndarray
    setting: protocols.PaperSetting

    @classmethod
    def of(cls, data: datasets.Dataset) -> Field:
        """The data set as the paper's experiments see it: centred, unit length."""
        return cls(data.name, datasets.centred_unit(data.X), data.y, protocols.PAPER[data.name])


@dataclass(frozen=True)
class Job:
    """One hasher to stream once. `run` seeds both the split and the hasher."""

    name: str
    method: Callable[..., protocols.Streamed]
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

    def columns(self, dataset: str) -> dict[str, Any]:
        """The columns that all rows of this job have in common."""
        names = COLUMNS[:5]
        return dict(zip(names, (dataset, "paper", self.label, self.bits, self.run), strict=True))


def jobs(
    methods: Mapping[str, Callable[..., protocols.Streamed]],
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


def pending(job: Job, dataset: str, checkpoints: Sequence[int], results: Results, *, ties: str) -> list[int]:
    """The checkpoints of the job that the results do not have."""
    metrics, columns = protocols.metric_names(ties), job.columns(dataset)
    return [n for n in checkpoints if not results.has(metrics, **columns, n_train=n)]


def measure(
    job: Job,
    field: Field,
    checkpoints: Sequence[int],
    results: Results,
    *,
    ties: str = "paper",
    progress: Callable[[int], None] | None = None,
) -> Iterator[protocols.Checkpoint]:
    """Stream the job's hasher, append what each pending checkpoint shows to the results, and yield it."""
    missing = pending(job, field.dataset, checkpoints, results, ties=ties)
    if not missing:
        return
    setting = field.setting
    split = datasets.split(field.y, per_class=setting.per_class, stream=setting.stream, seed=job.run)
    hasher = job.method(n_bits=job.bits, random_state=job.run, **job.settings)
    until = [n for n in checkpoints if n <= missing[-1]]
    done = set(until) - set(missing)
    for seen in protocols.paper(
        hasher, field.X, field.y, split, until, ties=ties, skip=done, progress=progress
    ):
        results.append(seen.rows(**job.columns(field.dataset)))
        yield seen


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over runs (NaN for one run) of one metric at one checkpoint."""

    method: str
    bits: int
    n_train: int
    metric: str
    runs: int
    mean: float
    spread: float

    def __str__(self) -> str:
        if self.metric in protocols.SECONDS:  # the machine's noise is no property of the method
            return f"{self.mean:.3g}"
        return f"{self.mean:.3f}" + (f" ± {self.spread:.3f}" if self.runs > 1 else "")


def summarise(results: Results, dataset: str, metrics: Sequence[str], ties: str) -> list[Summary]:
    """One entry for each code length, method, checkpoint and metric in the results, sorted in this order.

    metrics: names as `retrieval` has them ("mAP"), or "train_seconds", "encode_seconds".
    """
    names = {name if name in protocols.SECONDS else row_name(name, ties): name for name in metrics}
    groups: dict[tuple[int, str, int, str], list[float]] = {}
    for row in results.rows:
        if row["dataset"] == dataset and row["protocol"] == "paper" and row["metric"] in names:
            key = (row["bits"], row["method"], row["n_train"], names[row["metric"]])
            groups.setdefault(key, []).append(row["value"])
    return [
        Summary(
            method, bits, n, metric, len(found), mean(found), stdev(found) if len(found) > 1 else float("nan")
        )
        for (bits, method, n, metric), found in sorted(groups.items())
    ]
