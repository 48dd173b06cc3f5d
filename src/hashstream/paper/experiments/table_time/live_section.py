"""The part of table-time about a live table: what each policy costs, and how well the table answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from statistics import median
from typing import TYPE_CHECKING

from hashstream import pictures
from hashstream.paper.contestants import Contestant
from hashstream.paper.experiments.table_time.live_table import (
    FIGURES,
    POLICIES,
    Plan,
    contestants,
    metric,
    plan_of,
)
from hashstream.paper.experiments.table_time.protocol import BITS, NAME
from hashstream.paper.format import cell, seconds
from hashstream.paper.section import Sheet
from hashstream.paper.study import Study, Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE = f"{NAME}-policies"
EAGER = "Eager"
STYLES = {
    "Eager": ("#0b5fa5", "o"),
    "Every(7)": ("#3aa0dc", "s"),
    "Gated": ("#d55e00", "^"),
    "Lazy": ("#882255", "P"),
    "Projected(7)": ("#b0508a", "X"),
    "Never": ("#333333", "h"),
}
"""Colour and marker of a policy, as in docs/table.md."""


@dataclass(frozen=True)
class Kept:
    """A table that a policy kept up to date for the whole stream: medians over runs of seconds and counts, and answers.

    total: seconds in `ingest`. learning: to learn the same batches without a table. rebuild: to encode the database
    once. recoding: to re-encode. recoded: re-encoded items. ratio: of recoding to encoding the database once per batch
    after the first, within a run. end, mean: the headline metric at the end, and averaged over the checkpoints.
    """

    title: str
    policy: str
    plan: Plan
    total: float
    learning: float
    rebuild: float
    recoding: float
    recoded: float
    items: float
    ratio: float
    end: Value
    mean: Value

    @property
    def table(self) -> float:
        """Seconds that the table adds to learning."""
        return self.total - self.learning

    @property
    def rebuilds(self) -> float:
        """Re-encoded items, as a multiple of the items."""
        return self.recoded / self.items

    @property
    def stored(self) -> float:
        """Stored rows, replaced ones included, as a multiple of the items: the mean over the stream."""
        return 1 + (self.plan.stream - self.plan.rows) / 2 / self.items

    @property
    def modelled(self) -> float:
        """Seconds by the paper's model, one rebuild per batch after the first."""
        return (self.plan.batches - 1) * self.rebuild


def kept(study: Study) -> list[Kept]:
    """Results in the rows, method by method, in the order of the policies."""
    found = []
    for one in contestants(study):
        plan = plan_of(study, one)
        for policy in POLICIES:
            figures = [study.values(one.label, metric(f, policy), bits=BITS, protocol=NAME) for f in FIGURES]
            end, mean = _answers(study, one, policy, plan)
            if end is None or mean is None or None in figures:
                continue
            runs = list(zip(*(value.runs for value in figures if value), strict=True))
            total, learning, rebuild, recoding, recoded, items = (
                median(some) for some in zip(*runs, strict=True)
            )
            rebuilds = plan.batches - 1
            ratio = median(again / (once * rebuilds) for _, _, once, again, *_ in runs) if rebuilds else nan
            spent = total, learning, rebuild, recoding
            found.append(Kept(one.title, policy, plan, *spent, recoded, items, ratio, end, mean))
    return found


def _answers(study: Study, one: Contestant, policy: str, plan: Plan) -> tuple[Value | None, Value | None]:
    """The headline metric at the end, and averaged over the checkpoints."""
    name = metric(study.headline, policy)
    seen = [study.by_run(one.label, name, bits=BITS, n_train=n, protocol=NAME) for n in plan.checkpoints]
    runs = sorted(set.intersection(*map(set, seen)))
    if not runs:
        return None, None
    means = tuple(sum(at[run] for at in seen) / len(seen) for run in runs)
    return Value(tuple(seen[-1][run] for run in runs)), Value(means)


def sheets(study: Study, found: Sequence[Kept]) -> tuple[Sheet, ...]:
    if not found:
        return ()
    modelled = [
        (
            k.title,
            f"{k.plan.rows:,}",
            f"{k.rebuilds:,.0f}",
            seconds(k.rebuild),
            seconds(k.modelled),
            seconds(k.recoding),
            f"{k.ratio:.2f}",
            seconds(k.table),
        )
        for k in found
        if k.policy == EAGER and k.recoded
    ]
    every = [
        (
            f"{k.title}, {k.policy}",
            f"{k.rebuilds:,.1f}",
            seconds(k.total),
            seconds(k.learning),
            seconds(max(0.0, k.table)),
            seconds(k.recoding),
            cell(k.end),
            cell(k.mean),
        )
        for k in found
    ]
    items = f"{max(k.items for k in found):,.0f}"
    shown = [
        Sheet(
            f"The model, tested: a live table of {items} items that is rebuilt after every batch",
            (
                "method", "rows per batch", "rebuilds", "one rebuild, s", "by the model, s",
                "re-encoding, s", "measured / model", "all that the table adds, s",
            ),
            tuple(modelled),
        ),
        Sheet(
            f"A live table of {items} items under each policy",
            (
                "method, policy", "re-encoded / items", "in all, s", "learning alone, s",
                "table: the rest, s", "of which re-encoding, s", f"{study.headline} at the end",
                f"{study.headline}, mean of {max(len(k.plan.checkpoints) for k in found)} checkpoints",
            ),
            tuple(every),
        ),
    ]  # fmt: skip
    return tuple(sheet for sheet in shown if sheet.rows)


def finding(study: Study, found: Sequence[Kept]) -> str:
    """How good the model is, and what each policy saves at what price."""
    eager = {k.title: k for k in found if k.policy == EAGER and k.recoded and k.table > 0}
    if not eager:
        return ""
    ratios = [k.ratio for k in eager.values()]
    stored = _range([k.stored for k in eager.values()], ".2f")
    text = (
        f" On a live table that is rebuilt after every batch, re-encoding takes {_range(ratios, '.2f')} times the "
        f"seconds of the model; {stored} is expected, because replaced rows are still read."
    )
    parts = []
    for policy in POLICIES:
        pairs = [(k, eager[k.title]) for k in found if k.policy == policy != EAGER and k.title in eager]
        if pairs:
            work = _range([k.recoded / e.recoded for k, e in pairs], ".0%")
            cost = _range([max(0.0, k.table) / e.table for k, e in pairs], ".0%")
            mean = _range([k.mean.mean - e.mean.mean for k, e in pairs], "+z.3f")
            end = _range([k.end.mean - e.end.mean for k, e in pairs], "+z.3f")
            parts.append(
                f"{policy} {work} of the re-encoding, {cost} of the table's seconds, {study.headline} {mean} "
                f"({end} at the end)"
            )
    if parts:
        text += f" Compared with that, for {len(eager)} methods, mean over checkpoints: {'; '.join(parts)}."
    return text


def _range(values: Sequence[float], form: str) -> str:
    """
    >>> _range([0.25, 0.5], ".0%"), _range([1.0, 1.001], ".2f")
    ('25% to 50%', '1.00')
    """
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


NOTES = (
    "The live table is `hashstream.HashTable`, in memory. It has the whole database after the first batch: rows that "
    "the stream has not brought yet are added without learning, and rows of later batches replace the stored ones. "
    "(Replaced rows are still read with their neighbours: up to the length of the stream more than the model counts.) "
    "Batches are the method's own, but have at least 100 rows and at least a 200th of the stream: HCOH, which learns "
    "from single rows, has far fewer refreshes here than the model's one per row.",
    "All policies run in one process, one after the other, BLAS on one thread. Only ratios count, and they are rough "
    "where the machine has other work. Learning alone is timed right before each of them. Rows arrive as fast as they "
    "are learned: `Lazy` works at the same time, on a second core where there is one, with at most a quarter of a "
    "core, is paused during queries, and is not waited for at the end. `Gated` has only the labels that the stream "
    "brought, in a sample of 1,000 items of the whole table.",
    "Queries, at most 100 and the same for all policies of a run, are answered by `search`, which compares codes of "
    "each version with the query encoded by that version's functions; ties are ordered by insertion.",
    "How often a table is re-encoded is a choice of its owner, not a property of the method, as the paper's model has "
    "it. `Projected` stores no features and computes codes from codes: what the functions of the first batch did not "
    "tell apart in the database cannot come back.",
)


CAPTION = (
    "The cost of keeping a live table up to date under each policy, and the accuracy of its answers meanwhile. Dotted: "
    "learning alone. The axis of seconds is logarithmic."
)


def figure(study: Study, found: Sequence[Kept]) -> Figure:
    """Seconds against answers, one panel per method, one marker per policy."""
    titles = list(dict.fromkeys(k.title for k in found))
    drawing = pictures.new_figure(0.6 + 2.7 * len(titles), 3.6, w_pad=0.08, h_pad=0.08)
    grid = drawing.subplots(1, len(titles), squeeze=False, sharey=True)[0]
    for axes, title in zip(grid, titles, strict=True):
        these = [k for k in found if k.title == title]
        learning = median(k.learning for k in these)
        axes.axvline(learning, color="#888888", linestyle=":", linewidth=1.2, zorder=1)
        for k in these:
            colour, marker = STYLES[k.policy]
            axes.plot(
                k.total, k.mean.mean, marker, color=colour, markersize=8, alpha=0.9, label=k.policy, linestyle="",
                zorder=3,
            )  # fmt: skip
        axes.set_xlim(0.8 * min(learning, *(k.total for k in these)), 1.35 * max(k.total for k in these))
        pictures.logarithmic(axes, "x")
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel("seconds for the whole stream", fontsize=8.5)
        pictures.tidy(axes, "both", size=8)
    grid[0].set_ylabel(f"{study.headline}, mean of checkpoints", fontsize=8.5)
    named = {
        label: handle
        for axes in grid
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    drawing.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=len(named), frameon=False, fontsize=9
    )
    pictures.heading(drawing, f"A live table under each policy at {BITS} bits, {study.dataset}")
    return drawing
