"""Results of experiments: rows in a file, and their summaries over runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hashstream.evaluate.protocols import Protocol, metric_row

__all__ = ["COLUMNS", "DIVERGED", "Results", "Summary", "in_hindsight", "summarise"]

COLUMNS = ("dataset", "protocol", "method", "bits", "run", "n_train", "metric", "value")
DIVERGED = "diverged_rows"
"""The metric of a run that could not go on: after how many rows its hasher raised DivergenceError."""


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
        self._diverged = self._divergences(self.rows)

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

    @staticmethod
    def _job(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in COLUMNS[:5])

    @classmethod
    def _divergences(cls, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], int]:
        return {cls._job(row): row["n_train"] for row in rows if row["metric"] == DIVERGED}

    def has(self, metrics: Sequence[str], **columns: Any) -> bool:
        """Whether every one of `metrics` is there for these columns."""
        return all(self._key({**columns, "metric": metric}) in self._known for metric in metrics)

    def diverged(self, **columns: Any) -> int | None:
        """After how many rows the job with these columns diverged, None where it did not."""
        return self._diverged.get(self._job(columns))

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add those that are new, in one write."""
        new = [row for row in rows if self._key(row) not in self._known]
        lines = io.StringIO()
        csv.DictWriter(lines, COLUMNS, lineterminator="\n").writerows(new)
        with self.path.open("a") as file:
            file.write(lines.getvalue())
        self.rows += new
        self._known |= {self._key(row) for row in new}
        self._diverged |= self._divergences(new)


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over runs (NaN for one run) of one metric at one checkpoint.

    missing: runs that have no value (NaN), and are left out of both. The mean of none is NaN.
    """

    method: str
    bits: int
    n_train: int
    metric: str
    runs: int
    mean: float
    spread: float
    missing: int = 0

    def __str__(self) -> str:
        if self.missing == self.runs:
            return "never" if self.metric.endswith("_rows") else "none"
        if self.metric.endswith("_seconds"):  # the machine's noise is no property of the method
            return f"{self.mean:.3g}"
        decimals = 0 if self.metric.endswith("_rows") else 3
        spread = "" if isnan(self.spread) else f" ± {self.spread:,.{decimals}f}"
        counted = f" ({self.runs - self.missing} of {self.runs})" if self.missing else ""
        return f"{self.mean:,.{decimals}f}{spread}{counted}"


Group = tuple[int, str, int, str]
"""Bits, method, n_train, metric."""


def _summaries(groups: Mapping[Group, Sequence[float]]) -> list[Summary]:
    found = []
    for (bits, method, n, metric), values in sorted(groups.items()):
        there = [value for value in values if not isnan(value)]
        average = mean(there) if there else nan
        spread = stdev(there) if len(there) > 1 else nan
        missing = len(values) - len(there)
        found.append(Summary(method, bits, n, metric, len(values), average, spread, missing))
    return found


def summarise(
    results: Results, dataset: str, metrics: Sequence[str], ties: str, protocol: str = "paper"
) -> list[Summary]:
    """One entry for each code length, method, checkpoint and metric in the results, sorted in this order.

    metrics: plain names, as the protocol's looks have them ("mAP", "train_seconds").
    """
    names = {metric_row(name, ties): name for name in metrics}
    groups: dict[Group, list[float]] = {}
    for row in results.rows:
        if row["dataset"] == dataset and row["protocol"] == protocol and row["metric"] in names:
            key = (row["bits"], row["method"], row["n_train"], names[row["metric"]])
            groups.setdefault(key, []).append(row["value"])
    return _summaries(groups)


def in_hindsight(
    results: Results, dataset: str, protocol: Protocol, points: Sequence[int], ties: str
) -> list[Summary]:
    """What only whole runs can tell (`Protocol.hindsight`: areas under curves, forgetting, time to recover).

    points: those that make a run whole; runs that lack one are left out. One entry for each code length, method and
    metric, with the last point as its n_train.
    """
    runs: dict[tuple[int, str, int], dict[str, dict[int, float]]] = {}
    wanted = set(points)
    for row in results.rows:
        if row["dataset"] == dataset and row["protocol"] == protocol.name and row["n_train"] in wanted:
            curves = runs.setdefault((row["bits"], row["method"], row["run"]), {})
            curves.setdefault(row["metric"], {})[row["n_train"]] = row["value"]
    groups: dict[Group, list[float]] = {}
    metrics = [metric_row(name, ties) for name in protocol.metrics()]
    for (bits, method, _), curves in runs.items():
        if any(curves.get(name, {}).keys() != wanted for name in metrics):
            continue
        plain = {name.removesuffix(f"[{ties}]"): curve for name, curve in curves.items()}
        for name, value in protocol.hindsight(plain, points).items():
            groups.setdefault((bits, method, points[-1], name), []).append(value)
    return _summaries(groups)
