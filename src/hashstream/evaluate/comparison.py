"""The table at the end of a comparison of methods, and the curves of its figure: means over runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from hashstream.evaluate.job import Job
from hashstream.evaluate.protocols import Protocol
from hashstream.evaluate.reference_code import REFERENCE
from hashstream.evaluate.results import Results, Summary, summarise, summarise_runs
from hashstream.evaluate.scores import Ties
from hashstream.evaluate.sheet import Sheet

__all__ = ["Comparison", "ComparisonRow", "compare"]

LOWER_IS_BETTER = ("_rows", "forgetting")
"""Endings of metrics of which the lowest value is the best."""


@dataclass(frozen=True)
class ComparisonRow:
    """A method with a code length.

    cells: a summary per column, None if nothing was measured.
    diverged: the number of rows after which each diverged run ended.
    reference: mAP of the method's reference code, by number of learned rows; empty if there is none.
    """

    method: str
    bits: int
    cells: tuple[Summary | None, ...]
    diverged: tuple[int, ...]
    reference: Mapping[int, float]


@dataclass(frozen=True)
class Comparison:
    """The summaries by which methods are compared: a table, and the curves of a figure.

    dataset, protocol, ties, runs: what was measured, by name, and how often.
    columns: of the table, as (learned rows, metric). n_whole: how many of them, the last ones, are of whole runs.
    rows: of the table, by code length, methods in the order of the jobs.
    drawn: the metrics of the figure. curves: their summaries at every checkpoint, in the order of the rows.
    """

    dataset: str
    protocol: str
    ties: Ties
    runs: int
    columns: tuple[tuple[int, str], ...]
    n_whole: int
    rows: tuple[ComparisonRow, ...]
    drawn: tuple[str, ...] = ()
    curves: tuple[Summary, ...] = ()

    @property
    def heads(self) -> list[str]:
        """The headings of the columns, two lines each."""
        found = []
        for i, (n, metric) in enumerate(self.columns):
            title = metric.replace("_seconds", " s").replace("_", " ")
            whole = i >= len(self.columns) - self.n_whole
            found.append(title.replace(" of ", "\nof ") if whole else f"{title}\nafter {n:,}")
        return found

    @property
    def caption(self) -> str:
        """A line that says where the figures come from."""
        over = f"mean ± standard deviation over {self.runs} runs" if self.runs > 1 else "one run"
        return f"{self.dataset}, protocol {self.protocol}, ties '{self.ties}': {over}"

    def sheet(self) -> Sheet:
        """The table, to be written as LaTeX or CSV. A second line in a cell says how many runs diverged.

        Of each code length the best mean of a column is bold, with all that are printed like it, except among times. A
        mean over some of the runs only is never bold: the runs that it lacks may be the worst ones.
        """
        rows = []
        for row in self.rows:
            lost = f"\n{len(row.diverged)} of {self.runs} diverged" if row.diverged else ""
            rows.append(
                (row.method, str(row.bits), *("-" + lost if c is None else f"{c}{lost}" for c in row.cells))
            )
        best: set[tuple[int, int]] = set()
        for j, (_, metric) in enumerate(self.columns):
            if metric.endswith("_seconds"):
                continue
            sign = -1 if metric.endswith(LOWER_IS_BETTER) else 1
            for bits in {row.bits for row in self.rows}:
                cells = {
                    i: cell
                    for i, row in enumerate(self.rows)
                    if row.bits == bits and (cell := row.cells[j]) is not None and not isnan(cell.mean)
                }
                means = {
                    i: sign * round(cell.mean, cell.decimals)
                    for i, cell in cells.items()
                    if cell.runs - cell.missing == self.runs
                }
                if len(cells) > 1:
                    best |= {(i, j + 2) for i, mean in means.items() if mean == max(means.values())}
        return Sheet(
            self.caption, ("method", "bits", *self.heads), tuple(rows), frozenset(best), self._label()
        )

    def _label(self) -> str:
        """For a reference in LaTeX: data set, protocol and first metric, so that a paper can have several tables."""
        metric = self.columns[0][1] if self.columns else ""
        words = (self.dataset, self.protocol, metric, "aware" if self.ties == "aware" else "")
        return "tab:" + re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")

    def points(self) -> list[dict[str, Any]]:
        """The points of the curves: a dictionary for each method, code length, metric and checkpoint."""
        return [
            {
                "method": one.method,
                "bits": one.bits,
                "n_train": one.n_train,
                "metric": one.metric,
                "mean": one.mean,
                "sd": "" if isnan(one.spread) else one.spread,
                "runs": one.runs,
            }
            for one in self.curves
        ]


def compare(
    jobs: Sequence[Job],
    dataset: str,
    points: Sequence[int],
    results: Results,
    *,
    protocol: Protocol,
    ties: Ties,
    runs: int,
) -> Comparison:
    """Summarise the results of these jobs: the protocol's highlights, then metrics of whole runs, and curves of mAP."""
    shown = protocol.highlights(points)
    metrics = list(dict.fromkeys(metric for _, metric in shown))
    drawn = tuple(name for name in metrics if name.endswith("mAP") and name in protocol.metrics())
    whole = summarise_runs(results, dataset, protocol, points, ties, runs=runs) if len(points) > 1 else []
    of_runs = [(points[-1], metric) for metric in dict.fromkeys(s.metric for s in whole)]
    columns = (*shown, *of_runs)
    found = {
        (s.method, s.bits, s.n_train, s.metric): s
        for s in [*summarise(results, dataset, metrics, ties, protocol.name, runs=runs), *whole]
    }
    ended: dict[tuple[str, int], list[int]] = {}
    for job in jobs:
        end = results.diverged(**job.columns(dataset, protocol.name))
        ended.setdefault((job.label, job.bits), []).extend([] if end is None else [end])
    comparable = protocol.name == "paper" and ties == "paper"
    rows = tuple(
        ComparisonRow(
            method,
            bits,
            tuple(found.get((method, bits, *column)) for column in columns),
            tuple(sorted(ends)),
            REFERENCE.get((dataset, method, bits), {}) if comparable else {},
        )
        for (method, bits), ends in ended.items()
    )
    curves = tuple(
        found[key]
        for method, bits in ended
        for metric in drawn
        for n in points
        if (key := (method, bits, n, metric)) in found
    )
    return Comparison(dataset, protocol.name, ties, runs, columns, len(of_runs), rows, drawn, curves)
