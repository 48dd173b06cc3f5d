"""The table at the end of a comparison of methods: one row per method and code length, means over runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hashstream.evaluate.job import Job
from hashstream.evaluate.protocols import Protocol
from hashstream.evaluate.reference_code import REFERENCE
from hashstream.evaluate.results import Results, Summary, summarise, summarise_runs
from hashstream.evaluate.scores import Ties

__all__ = ["Comparison", "ComparisonRow", "compare"]


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
    """The columns, as (learned rows, metric), and the rows.

    n_whole: how many of the columns, the last ones, are metrics of whole runs.
    """

    columns: tuple[tuple[int, str], ...]
    n_whole: int
    rows: tuple[ComparisonRow, ...]


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
    """Summarise the results of these jobs: the protocol's highlights, then metrics of whole runs."""
    shown = protocol.highlights(points)
    metrics = list(dict.fromkeys(metric for _, metric in shown))
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
    return Comparison(columns, len(of_runs), rows)
