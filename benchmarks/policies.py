"""`hashstream perf policies`: the cost of refresh policies, and the accuracy they give.

One stream of 20,000 rows (4,000 with --quick), in batches of 100, is ingested into a table in memory per policy, in
three settings: nothing changes (MNIST); new classes join, two at a time (MNIST); the classes drift away from where they
began (a synthetic stream). At ten checkpoints, queries drawn from the current distribution are searched among all
stored items by `HashTable.search`; cost is counted in re-encoded codes, where half of a code's bits count as half a
code. All else is equal: FCOH, 32 bits, defaults.

Then, for every method and setting: a table that is never refreshed, searched with `compare="like"` (query and item by
functions of one version), "current" (the query by the current functions, items by whichever version encoded them) and
"auto" (as the table has measured), and after a refresh.

Last, the time that it takes to re-encode some of the bits, compared with all of them.

Rows and pictures go to docs/results/table-policies (with --quick nowhere). Rows that are there are not measured again:
delete the file to begin anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.table import Table
from threadpoolctl import threadpool_limits

import hashstream as hs
from benchmarks.harness import Ratio, console, in_turn, machine
from benchmarks.harness import show as show_ratios
from benchmarks.policies_picture import policies_picture
from hashstream import datasets, pictures
from hashstream.evaluate import Results, average_precision
from hashstream.hashers import Encoder
from hashstream.table import (
    Commit,
    Eager,
    Every,
    Gated,
    HashTable,
    Lazy,
    Never,
    Partial,
    Policy,
    Projected,
    Sample,
)
from hashstream.table.state.reencode import mixed, recode_bits, recode_features
from hashstream.table.state.view import Part

OUT = Path(__file__).parents[1] / "docs" / "results" / "table-policies"
BITS, BATCH, ASKED = 32, 100, 100
CHECKPOINTS = 10
LATER = 7  # batches after a round number, so that no policy is always seen when it has just refreshed
AT_ONCE = 600  # rows per batch where all methods are compared: enough to warm up every feature map

POLICIES: dict[str, tuple[Callable[[], Policy], int]] = {
    "Eager": (Eager, 1000),
    "Every(10)": (lambda: Every(10), 1000),
    "Every(50)": (lambda: Every(50), 1000),
    "Partial(16, 10)": (lambda: Partial(16, 10), 1000),
    "Partial(8, 10)": (lambda: Partial(8, 10), 1000),
    "Gated": (Gated, 1000),
    "Gated(0.01)": (lambda: Gated(theta=0.01), 1000),
    "Lazy": (Lazy, 1000),
    "Projected(20)": (lambda: Projected(20), 1000),
    "16 versions": (Never, 16),
    "Never": (Never, 1000),
}
"""Name -> policy and `max_versions`: so large that only the policy counts, except in one entry, where only the default
limit of `HashTable.open` re-encodes anything."""


class ByLabels(Partial):
    """`Partial`, with the bits for which the new functions are most ahead in how much more often items of one class
    agree than items of two: pairs of the labelled sample, bit by bit."""

    def choose(self, old: Encoder, new: Encoder, sample: Sample) -> np.ndarray:
        _, X, labels = sample.labelled()
        _, at = np.unique(labels.astype(int), return_inverse=True)
        Y = np.eye(at.max() + 1)[at]
        same = (Y.sum(axis=0) ** 2).sum()
        other = len(X) ** 2 - same
        told = []
        for encoder in (old, new):
            B = 2.0 * np.unpackbits(encoder.encode(X), axis=1, count=BITS) - 1
            within = ((Y.T @ B) ** 2).sum(axis=0)
            told.append(within / same - (B.sum(axis=0) ** 2 - within) / max(1, other))
        return np.sort(np.argsort(told[0] - told[1], kind="stable")[: self.bits])


class AtRandom(Partial):
    """`Partial`, with any bits."""

    def choose(self, old: Encoder, new: Encoder, sample: Sample) -> np.ndarray:
        return np.sort(np.random.default_rng(new.version).permutation(BITS)[: self.bits])


CHOICES: dict[str, tuple[Callable[[], Policy], int]] = {
    "Partial(16, 10), by labels": (lambda: ByLabels(16, 10), 1000),
    "Partial(16, 10), at random": (lambda: AtRandom(16, 10), 1000),
}
"""Other ways to choose bits, which are measured and not drawn."""


@dataclass(frozen=True)
class World:
    """A stream, X (n, d) and y (n,), and the queries after n of its rows: features and labels."""

    dataset: str
    protocol: str
    title: str
    X: np.ndarray
    y: np.ndarray
    queries: Callable[[int], tuple[np.ndarray, np.ndarray]]


@dataclass
class Course:
    """Measurements of a policy: per metric a list with one entry per checkpoint, and the rows learned by then."""

    n: list[int] = field(default_factory=list)
    seen: dict[str, list[float]] = field(default_factory=dict)

    def mean(self, metric: str) -> float:
        return float(np.mean(self.seen[metric]))


def worlds(rows: int) -> list[World]:
    data = datasets.load("mnist")
    X, y = datasets.centred_unit(data.X), data.y
    part = datasets.split(y, per_class=ASKED // 10, stream=None, seed=0)
    asked, still = part.queries, part.stream[:rows]
    arrival = np.random.default_rng(0).permutation(10) // 2  # of each class: two come at a time, and stay
    joining = joined(part.stream, arrival[y[part.stream]], rows)

    def arrived(n: int) -> tuple[np.ndarray, np.ndarray]:
        here = asked[np.isin(y[asked], y[joining[:n]])]
        return X[here], y[here]

    drifting = datasets.Stream(rows, 128, 10, drift=1.0, seed=0)
    return [
        World(
            "mnist",
            "table-stationary",
            "Nothing changes",
            X[still],
            y[still],
            lambda n: (X[asked], y[asked]),
        ),
        World("mnist", "table-new-classes", "New classes join", X[joining], y[joining], arrived),
        World(
            "stream",
            "table-drift",
            "Classes drift",
            *drifting.rows(0, rows),
            lambda n: drifting.queries(ASKED, at=n),
        ),
    ]


def joined(stream: np.ndarray, arrival: np.ndarray, rows: int) -> np.ndarray:
    """Rows of a stream in stages of equal length: each has the classes that have arrived by then, in random order.

    stream : (n,) rows; arrival : (n,) the stage in which each one's class arrives.
    """
    stages, taken = int(arrival.max()) + 1, np.zeros(len(stream), bool)
    rng, chosen = np.random.default_rng(0), []
    for stage in range(stages):
        these = rng.permutation(np.flatnonzero(~taken & (arrival <= stage)))[: rows // stages]
        taken[these] = True
        chosen.append(stream[these])
    return np.concatenate(chosen)


def mean_ap(hits: np.ndarray) -> float:
    """Mean over rankings; 0 for a query without a relevant item."""
    return float(np.nan_to_num(average_precision(hits)).mean())


def asked_of(
    table: HashTable, y: np.ndarray, Q: np.ndarray, q: np.ndarray, compare: Literal["like", "current", "auto"]
) -> float:
    """mAP of the table's own results; an item's id is its position in y."""
    _, ids = table.search(Q, len(table), compare=compare)
    return mean_ap(y[ids] == q[:, None])


def follow(world: World, make: Callable[[], Policy], versions: int) -> Course:
    course, rows = Course(), len(world.X)
    every = rows // CHECKPOINTS
    commits: list[Commit] = []
    hasher, spent = hs.FCOH(BITS, random_state=0), 0.0
    with HashTable.open(
        None, hasher, policy=make(), max_versions=versions, on_commit=commits.append
    ) as table:
        for start in range(0, rows, BATCH):
            part = slice(start, start + BATCH)
            clock = time.perf_counter()
            table.ingest(np.arange(rows)[part], world.X[part], world.y[part])
            spent += time.perf_counter() - clock
            n = start + BATCH
            if n % every == LATER * BATCH:
                Q, q = world.queries(n)
                stats = table.stats()
                course.n.append(n)
                for name, value in {
                    "mAP": asked_of(table, world.y, Q, q, "like"),
                    "current mAP": asked_of(table, world.y, Q, q, "current"),
                    "auto mAP": asked_of(table, world.y, Q, q, "auto"),
                    "recoded_rows": work_of(table.settings.policy, [commit.recoded for commit in commits]),
                    "ingest_seconds": spent,
                    "stale": stats.stale,
                    "updates_behind": stats.updates_behind,
                    "versions": len(stats.versions),
                }.items():
                    course.seen.setdefault(name, []).append(float(value))
    return course


def work_of(policy: Policy, recoded: list[int]) -> float:
    """Codes that were re-encoded, from their number in each commit. Under `Partial`, the items of the refresh before
    have had some of their bits re-encoded, and those that came since all of them."""
    if not isinstance(policy, Partial):
        return sum(recoded)
    refreshes = [n for n in recoded if n]
    before = [0, *refreshes][: len(refreshes)]
    return sum(n - old * (1 - policy.bits / BITS) for n, old in zip(refreshes, before, strict=True))


def show(world: World, courses: dict[str, Course]) -> None:
    table = Table(title=f"{world.title} ({world.dataset}, {len(world.X):,} rows)", title_justify="left")
    table.add_column("policy", no_wrap=True)
    for head in (
        "mAP\nat the\nend",
        "mAP\nover\ntime",
        "current\nat the\nend",
        "auto\nat the\nend",
        "codes\nencoded\nper row",
        "seconds",
        "stale,\nmean",
        "updates\nbehind,\nmean",
        "versions\nat the\nend",
    ):
        table.add_column(head, justify="right")
    for name, course in courses.items():
        seen = course.seen
        table.add_row(
            name,
            f"{seen['mAP'][-1]:.3f}",
            f"{course.mean('mAP'):.3f}",
            f"{seen['current mAP'][-1]:.3f}",
            f"{seen['auto mAP'][-1]:.3f}",
            f"{seen['recoded_rows'][-1] / course.n[-1]:.2f}",
            f"{seen['ingest_seconds'][-1]:.1f}",
            f"{course.mean('stale'):.0%}",
            f"{course.mean('updates_behind'):.1f}",
            f"{seen['versions'][-1]:.0f}",
        )
    console.print(table)


def rows_of(world: World, name: str, course: Course) -> list[dict[str, Any]]:
    fixed = {"dataset": world.dataset, "protocol": world.protocol, "method": name, "bits": BITS, "run": 0}
    return [
        {**fixed, "n_train": n, "metric": metric, "value": value}
        for metric, values in course.seen.items()
        for n, value in zip(course.n, values, strict=True)
    ]


def measured(filed: Results | None, world: World, name: str) -> Course:
    """The course of a policy, from the rows that are there or else measured, and filed."""
    course = Course()
    for row in () if filed is None else filed.rows:
        if (row["protocol"], row["method"]) == (world.protocol, name):
            course.seen.setdefault(row["metric"], []).append(row["value"])
            course.n += [row["n_train"]] if row["metric"] == "mAP" else []
    if course.n:
        return course
    course = follow(world, *(POLICIES | CHOICES)[name])
    if filed is not None:
        filed.append(rows_of(world, name, course))
    return course


def versions_of_methods(filed: Results | None, world: World, rows: int) -> dict[str, dict[str, float]]:
    """For every method: mAP of a table that was never refreshed, for each `compare`, and refreshed."""
    found = {}
    Q, q = world.queries(rows)
    protocol = world.protocol.replace("table-", "versions-")
    for name, method in hs.methods().items():
        if not method.needs_labels and name == "LSH":
            continue  # never moves
        fixed = {"dataset": world.dataset, "protocol": protocol, "method": name, "bits": BITS, "run": 0}
        known = [row for row in ([] if filed is None else filed.rows) if fixed.items() <= row.items()]
        if known:
            found[name] = {row["metric"]: row["value"] for row in known}
            continue
        with HashTable.open(None, method(BITS, random_state=0), policy=Never(), max_versions=1000) as table:
            for start in range(0, rows, AT_ONCE):
                part = slice(start, min(start + AT_ONCE, rows))
                table.ingest(np.arange(rows)[part], world.X[part], world.y[part])
            drift = table.stats().drift
            scores = {
                "mAP": asked_of(table, world.y, Q, q, "like"),
                "current mAP": asked_of(table, world.y, Q, q, "current"),
                "auto mAP": asked_of(table, world.y, Q, q, "auto"),
                "bit_flips": drift.bit_flips or 0.0,
            }
            table.refresh()
            found[name] = {**scores, "fresh mAP": asked_of(table, world.y, Q, q, "like")}
        if filed is not None:
            filed.append(
                [{**fixed, "n_train": rows, "metric": m, "value": v} for m, v in found[name].items()]
            )
    return found


def show_versions_of(world: World, found: dict[str, dict[str, float]], rows: int) -> None:
    table = Table(
        title=f"{world.title}: never refreshed, {rows:,} rows, {AT_ONCE} at a time", title_justify="left"
    )
    for head in ("method", "like", "current", "auto", "after a refresh", "bits that a refresh changes"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for name, scores in found.items():
        table.add_row(
            name,
            *(f"{scores[metric]:.3f}" for metric in ("mAP", "current mAP", "auto mAP", "fresh mAP")),
            f"{scores['bit_flips']:.1%}",
        )
    console.print(table)


def lost(like: float, current: float, auto: float) -> float:
    """By how much the choice of "auto" is worse than the better one."""
    return max(like, current) - auto


class Held:
    """Features (n, d) in memory, as a table reads them."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = X

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        yield first, self.X[first:last]

    def features(self, slots: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.X[slots]
        return found


def some_bits(n: int, d: int, r: int) -> list[Ratio]:
    """Time to re-encode n items of d features, some of their r bits over all of them."""
    X = np.random.default_rng(0).standard_normal((n, d), np.float32)
    old, new = (replace(hs.LSH(r, random_state=i).fit(X[:10]).encoder(), version=i) for i in range(2))
    part = Part(0, old.encode(X), np.arange(n, dtype=np.uint32), 0, n)
    sides: dict[str, Callable[[], object]] = {"all": lambda: recode_features(Held(X), new, [part], None)}
    for b in (r // 2, r // 4):
        target = mixed(old, new, np.arange(0, r, r // b), 2)
        sides[f"{b} bits"] = partial(recode_bits, Held(X), {0: old}, target, [part])
    times = in_turn(sides)
    return [
        Ratio(f"re-encode {n:,} x {d}, {r} bits", (name, times[name]), ("all", times["all"]))
        for name in sides
        if name != "all"
    ]


def main(quick: bool = False) -> bool:
    """Print the tables, write rows and pictures; True where what docs/table-measurements.md says of them holds."""
    rows, methods_rows = (4_000, 1_800) if quick else (20_000, 6_000)
    console.print(machine())
    console.print(hs.show_versions())
    filed = None if quick else Results(OUT / "results.csv")
    every: dict[str, dict[str, Course]] = {}
    with threadpool_limits(1):
        here = worlds(rows)
        for world in here:
            courses = every[world.title] = {}
            for name in POLICIES | CHOICES:
                courses[name] = measured(filed, world, name)
            show(world, courses)
        compared = {world.title: versions_of_methods(filed, world, methods_rows) for world in here}
        for world in here:
            show_versions_of(world, compared[world.title], methods_rows)
        sizes = [(128, 32)] if quick else [(d, r) for d in (128, 784) for r in (32, 128, 512)]
        n = 5_000 if quick else 50_000
        show_ratios("Some of the bits", [ratio for d, r in sizes for ratio in some_bits(n, d, r)])
    every_course = [course.seen for courses in every.values() for course in courses.values()]
    losses = [
        lost(*values)
        for seen in every_course
        for values in zip(seen["mAP"], seen["current mAP"], seen["auto mAP"], strict=True)
    ]
    losses += [
        lost(one["mAP"], one["current mAP"], one["auto mAP"])
        for found in compared.values()
        for one in found.values()
    ]
    console.print(
        f"auto, compared with the better of like and current: {max(losses):.3f} below at most, "
        f"{np.mean(losses):.4f} on average, {len(losses)} comparisons"
    )
    found = compared[here[0].title]
    if not quick:
        drawn = {title: {name: courses[name] for name in POLICIES} for title, courses in every.items()}
        pictures.save(policies_picture(drawn), OUT, "policies")
        console.print(f"Rows and pictures: docs/results/{OUT.name}")
    if quick:
        return True
    still, drift = every["Nothing changes"], every["Classes drift"]
    said = {
        "still data: Every(50) is within 0.01 of Eager in the end, with a twentieth of its work": (
            still["Eager"].seen["mAP"][-1] - still["Every(50)"].seen["mAP"][-1] < 0.01
            and 20 * still["Every(50)"].seen["recoded_rows"][-1] < still["Eager"].seen["recoded_rows"][-1]
        ),
        "drift: without a refresh, more than 0.1 of mAP is lost": (
            drift["Eager"].seen["mAP"][-1] - drift["Never"].seen["mAP"][-1] > 0.1
        ),
        "SketchHash: like with like is more than 0.1 better than current": (
            found["SketchHash"]["mAP"] - found["SketchHash"]["current mAP"] > 0.1
        ),
        "auto is at most 0.02 below the better of like and current": max(losses) <= 0.02,
    }
    for sentence, holds in said.items():
        console.print(f"{'holds' if holds else 'DOES NOT HOLD'}: {sentence}")
    return all(said.values())
