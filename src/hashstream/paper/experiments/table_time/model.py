"""The paper's model of the time to keep a table up to date: number of rebuilds x seconds per rebuild."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from hashstream.evaluate.protocols import metric_row
from hashstream.paper.comparability import counterpart
from hashstream.paper.contestants import Contestant
from hashstream.paper.experiments.table_time.gate import CHECK_EVERY, rebuilds_metric
from hashstream.paper.experiments.table_time.protocol import BITS, NAME
from hashstream.paper.format import words
from hashstream.paper.study import Study

__all__ = ["Time", "batches_fed", "cut_notes", "rows_between_rebuilds", "times"]

ROWS_BETWEEN = {"OKH": 2, "AdaptHash": 2, "SketchHash": 50, "OSH": 1, "HCOH": 1, "BSODH": 2000, "FCOH": 100}
ON_PLACES = {"BSODH": 5000, "FCOH": 1000}


def rows_between_rebuilds(method: str, dataset: str) -> int | None:
    """n_t of the paper's model, which has stream / n_t rebuilds; None for MIHash and methods that it does not cover.

    >>> rows_between_rebuilds("FCOH", "mnist"), rows_between_rebuilds("FCOH", "tinyimagenet200")
    (100, 1000)
    """
    on_places = ON_PLACES if counterpart(dataset).name == "places205" else {}
    return on_places.get(method, ROWS_BETWEEN.get(method))


def batches_fed(study: Study, rows: int) -> int:
    """The number of batches of `rows` rows in which the stream is fed.

    On MNIST that is stream / n_t. A batch that would cross a checkpoint is cut there.
    """
    return sum(-(-(stop - start) // rows) for start, stop in pairwise([0, *study.data.setting.checkpoints]))


@dataclass(frozen=True)
class Time:
    """The seconds of one method for the whole stream, medians over runs: functions, one rebuild, number of rebuilds.

    updates: how often the functions changed. counted: the number of runs, where some diverged ("2 of 3 runs").
    """

    title: str
    printed: str
    functions: float
    rebuild: float
    rebuilds: float
    updates: float
    counted: str = ""

    @property
    def table(self) -> float:
        return self.rebuild * self.rebuilds


def times(study: Study) -> list[Time]:
    """The times of all contestants that were measured."""
    found = []
    for one in study.contestants:
        functions, rebuild = (_median(study, one, m) for m in ("train_seconds", "encode_seconds"))
        updates = _median(study, one, metric_row("updates", "paper"))
        rows = rows_between_rebuilds(one.name, study.dataset)
        if one.name == "MIHash":
            rebuilds = _median(study, one, rebuilds_metric(CHECK_EVERY))
        else:
            rebuilds = batches_fed(study, rows) if rows else updates
        if functions is not None and rebuild is not None and updates is not None and rebuilds is not None:
            value = study.values(one.label, "train_seconds", bits=BITS, protocol=NAME)
            counted = value.counted if value else ""
            found.append(Time(one.title, one.printed, functions, rebuild, rebuilds, updates, counted))
    return found


def _median(study: Study, one: Contestant, metric: str) -> float | None:
    value = study.values(one.label, metric, bits=BITS, protocol=NAME)
    return median(value.runs) if value else None


def cut_notes(study: Study) -> tuple[str, ...]:
    """A note on the methods whose batches are longer than the distance of two checkpoints."""
    every, cut = study.data.setting.every, {}
    for one in study.contestants:
        rows = rows_between_rebuilds(one.name, study.dataset)
        if rows is not None and rows > every:
            cut[one.name] = f"{one.name} ({rows:,} rows)"
    if not cut:
        return ()
    return (
        f"A batch ends at a checkpoint, and there is one every {every:,} rows here: the batches of "
        f"{words(list(cut.values()))} are cut there, and rebuilds are counted by the batches that were fed.",
    )
