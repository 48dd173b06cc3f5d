"""Results of experiments: rows in a file, and their summaries over runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hashstream.evaluate.protocols import metric_row

__all__ = ["COLUMNS", "DIVERGED", "Results", "Summary", "summarise"]

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
    """Mean and standard deviation over runs (NaN for one run) of one metric at one checkpoint."""

    method: str
    bits: int
    n_train: int
    metric: str
    runs: int
    mean: float
    spread: float

    def __str__(self) -> str:
        if self.metric.endswith("_seconds"):  # the machine's noise is no property of the method
            return f"{self.mean:.3g}"
        return f"{self.mean:.3f}" + (f" ± {self.spread:.3f}" if self.runs > 1 else "")


def summarise(
    results: Results, dataset: str, metrics: Sequence[str], ties: str, protocol: str = "paper"
) -> list[Summary]:
    """One entry for each code length, method, checkpoint and metric in the results, sorted in this order.

    metrics: plain names, as the protocol's looks have them ("mAP", "train_seconds").
    """
    names = {metric_row(name, ties): name for name in metrics}
    groups: dict[tuple[int, str, int, str], list[float]] = {}
    for row in results.rows:
        if row["dataset"] == dataset and row["protocol"] == protocol and row["metric"] in names:
            key = (row["bits"], row["method"], row["n_train"], names[row["metric"]])
            groups.setdefault(key, []).append(row["value"])
    return [
        Summary(
            method, bits, n, metric, len(found), mean(found), stdev(found) if len(found) > 1 else float("nan")
        )
        for (bits, method, n, metric), found in sorted(groups.items())
    ]
