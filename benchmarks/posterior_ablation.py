"""PosteriorHash with one of its ideas left out in turn: mAP and precision@H2 at the end of the stream.

A variant is the method with other parameters, or with a function or a constant of it replaced while it learns and
encodes: both choose their settings by the same steps, so a variant chooses with what it has. The watch is left out on a
stream that changes half-way, the protocol `drift`: rows until mAP is back at 95 % of its former value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.table import Table

import hashstream as hs
from benchmarks.asymmetric import spread
from benchmarks.harness import console
from hashstream import datasets
from hashstream.evaluate import Job, JobProgress, watch_jobs
from hashstream.evaluate.job import run_job
from hashstream.evaluate.protocols import Drift, Paper, PreparedDataset, Protocol
from hashstream.evaluate.protocols.drift import STEPS, change_of
from hashstream.hashers import posterior_steps as steps
from hashstream.hashers.posterior_functions import Functions
from hashstream.hashers.rounding import Bounded, unknown_bound

METRICS = ("mAP", "precision@H2")


@dataclass(frozen=True)
class Variant:
    """Parameters that differ from the defaults, and replaced attributes: (module or class, name, value)."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    replaced: tuple[tuple[Any, str, Any], ...] = ()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The method is this variant within; hashers that are made here have to learn and encode here."""
        with ExitStack() as stack:
            for owner, name, value in self.replaced:
                stack.enter_context(patch.object(owner, name, value))
            yield

    def __call__(self, **parameters: Any) -> hs.PosteriorHash:
        return hs.PosteriorHash(**parameters, **self.settings)


def signs_of_logits(functions: Functions, X: np.ndarray) -> Bounded:
    """T^T times the centred logits, in place of `Functions.bounded`: no posterior, and nothing to round."""
    G = functions.map.features(functions.map.rows(X)) @ functions.weights + functions.offsets
    return unknown_bound((G - G.mean(axis=1, keepdims=True)) @ functions.codewords.astype(G.dtype))


def values_of_logits(functions: Functions, X: np.ndarray) -> np.ndarray:
    """The values of `signs_of_logits` alone."""
    return signs_of_logits(functions, X).values


def no_dither(S: np.ndarray, directions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return np.zeros((len(S), directions.shape[1]), S.dtype)


def no_feedback(T: np.ndarray) -> np.ndarray:
    return np.zeros((T.shape[1], T.shape[1]))


ONE_ROUNDING = (1.0, 0.0)
WHOLE = "nothing"
VARIANTS = {
    WHOLE: Variant(),
    "the random features": Variant({"width": 0}),
    "the softmax": Variant(
        replaced=((Functions, "bounded", signs_of_logits), (Functions, "values", values_of_logits))
    ),
    "the dither": Variant(replaced=((steps, "dither", no_dither),)),
    "error diffusion": Variant(replaced=((steps, "feedback", no_feedback),)),
    "the choice of a rounding": Variant(
        replaced=((steps, "ROUNDINGS", (ONE_ROUNDING,)), (steps, "FIRST_ROUNDING", ONE_ROUNDING))
    ),
    # A step of 1 goes nowhere. 100, from which the choice begins, is often chosen: a guess would be another one.
    "the choice of the ridge (1,000)": Variant(
        replaced=((steps, "RIDGE", 1000.0), (steps, "RIDGE_STEP", 1.0))
    ),
}
"""Name of the part that is left out -> the method without it."""
DRIFT_VARIANTS = {WHOLE: Variant(), "the watch": Variant({"drift": False})}


def ablation(data: PreparedDataset, quick: bool) -> bool:
    """Print all tables; True where the watch shortens the recovery, at every length. CIFAR-10, where classes are less
    certain, is measured as well if it is at hand."""
    runs, bits = (1, (32,)) if quick else (3, (32, 128))
    paper, drift = Paper(), Drift()
    end = 2_000 if quick else paper.points(data)[-1]
    sets = {"MNIST": data}
    if not quick and datasets.find("cifar10") is not None:
        sets["CIFAR-10"] = PreparedDataset.of(datasets.load("cifar10"))
    for name, one in sets.items():
        found = measured(VARIANTS, one, paper, (end,), bits, runs)
        for r in bits:
            show_paper(found, f"Left out in turn, {name}, {r} bits, {end:,} rows, {runs} runs", r, end)
    points = drift.points(data)
    at = points.index(change_of(points))
    points = points[at : at + STEPS + 1] if quick else points[at:]
    found = measured(DRIFT_VARIANTS, data, drift, points, bits, runs)
    return show_drift(found, drift, points, bits, runs) or quick  # which may end before any recovery


Found = dict[tuple[str, int], list[dict[str, dict[int, float]]]]
"""(part that is left out, bits) -> for each run, metric -> checkpoint -> value."""


def measured(
    variants: Mapping[str, Variant],
    data: PreparedDataset,
    protocol: Protocol,
    points: tuple[int, ...],
    bits: tuple[int, ...],
    runs: int,
) -> Found:
    jobs = [Job(name, variants[name], r, run) for run in range(runs) for r in bits for name in variants]
    found: Found = {}
    with watch_jobs(console, f"{protocol.name}: ", len(jobs), len(jobs) * points[-1]) as watch:
        for job in jobs:
            curves: dict[str, dict[int, float]] = {}
            with variants[job.name].in_place():
                for checkpoint in run_job(job, data, protocol, points, "paper", learned(job, watch)):
                    watch(JobProgress(job, checkpoint=checkpoint))
                    for metric, value in checkpoint.scores.items():
                        curves.setdefault(metric, {})[checkpoint.n_train] = value
            watch(JobProgress(job, done=True))
            found.setdefault((job.name, job.bits), []).append(curves)
    return found


def learned(job: Job, watch: Callable[[JobProgress], None]) -> Callable[[int], None]:
    return lambda rows: watch(JobProgress(job, rows=rows))


def show_paper(found: Found, title: str, bits: int, end: int) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("left out")
    for metric in METRICS:
        table.add_column(metric, justify="right")
        table.add_column("differs by", justify="right")
    for name in VARIANTS:
        cells = []
        for metric in METRICS:
            values, whole = (
                np.array([run[metric][end] for run in found[one, bits]]) for one in (name, WHOLE)
            )
            cells += [spread(values), "" if name == WHOLE else f"{(values - whole).mean():+.4f}"]
        table.add_row(name, *cells)
    console.print(table)


def show_drift(found: Found, drift: Drift, points: tuple[int, ...], bits: tuple[int, ...], runs: int) -> bool:
    """Print the recovery; True where it takes fewer rows with the watch. Without an end, it takes infinitely many."""
    change, end = points[0], points[-1]
    title = f"Drift: the features change after {change:,} rows, {runs} runs"
    table = Table(title=title, title_justify="left")
    table.add_column("left out")
    for head in ("bits", "mAP before", "mAP at once", f"mAP after\n{end:,} rows", "rows to recover"):
        table.add_column(head, justify="right")
    shorter = True
    for r in bits:
        recovery = {}
        for name in DRIFT_VARIANTS:
            curves = found[name, r]
            rows = [drift.run_metrics(run, points)["recovery_rows"] for run in curves]
            recovery[name] = float(np.mean(np.nan_to_num(rows, nan=np.inf)))
            seen = (("mAP", change), ("moved mAP", change), ("mAP", end))
            means = [spread(np.array([run[metric][n] for run in curves])) for metric, n in seen]
            after = "not by the end" if np.isinf(recovery[name]) else f"{recovery[name]:,.0f}"
            table.add_row(name, str(r), *means, after)
        shorter &= recovery[WHOLE] < recovery["the watch"]
    console.print(table)
    return shorter
