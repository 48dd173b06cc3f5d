"""What a live table under each policy cost and answered: the sheets, sentences and picture of table-time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import median
from typing import TYPE_CHECKING

from hashstream.paper.beside import cell, seconds
from hashstream.paper.lineup import Contestant
from hashstream.paper.live import FIGURES, POLICIES, Plan, contestants, metric, plan
from hashstream.paper.study import Sheet, Study, Value
from hashstream.paper.timing import BITS, NAME

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CAPTION", "FIGURE", "NOTES", "Kept", "finding", "kept", "picture", "sheets"]

FIGURE = f"{NAME}-policies"
EAGER = "Eager"
LOOKS = {
    "Eager": ("#0b5fa5", "o"),
    "Every(7)": ("#3aa0dc", "s"),
    "Gated": ("#d55e00", "^"),
    "Lazy": ("#882255", "P"),
    "Projected(7)": ("#b0508a", "X"),
    "Never": ("#333333", "h"),
}
"""Colour and marker of a policy, as in the table's own documentation."""


@dataclass(frozen=True)
class Kept:
    """A table that was kept by a policy for the whole stream: medians of seconds and counts over runs, and answers.

    total: seconds in `ingest`. learning: of the same batches without a table. rebuild: of encoding the database once.
    recoding: of making codes anew. recoded: how many codes were. ratio: of recoding to encoding the database once for
    every batch but the first, within a run. end, mean: the headline metric at the end, and over all looks.
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
        """Codes made anew, as a multiple of the items."""
        return self.recoded / self.items

    @property
    def stored(self) -> float:
        """Rows that are stored, replaced ones among them, as a multiple of the items: mean over the stream."""
        return 1 + (self.plan.stream - self.plan.rows) / 2 / self.items

    @property
    def reckoned(self) -> float:
        """Seconds by the paper's model, for the batches that were fed: the first one finds no table."""
        return (self.plan.batches - 1) * self.rebuild


def kept(study: Study, rows_of: Callable[[Contestant], int | None]) -> list[Kept]:
    """What the rows say, method by method, in the order of the policies."""
    found = []
    for one in contestants(study):
        course = plan(study.field.setting.stream, rows_of(one))
        for policy in POLICIES:
            figures = {
                f: study.values(one.label, metric(f, policy), bits=BITS, protocol=NAME) for f in FIGURES
            }
            end, mean = _answers(study, one, policy, course)
            if end is None or mean is None or None in figures.values():
                continue
            runs = list(zip(*(value.runs for value in figures.values() if value), strict=True))
            total, learning, rebuild, recoding, recoded, items = (
                median(some) for some in zip(*runs, strict=True)
            )
            rebuilds = course.batches - 1
            ratio = median(again / (once * rebuilds) for _, _, once, again, *_ in runs) if rebuilds else nan
            found.append(
                Kept(
                    one.title,
                    policy,
                    course,
                    total,
                    learning,
                    rebuild,
                    recoding,
                    recoded,
                    items,
                    ratio,
                    end,
                    mean,
                )
            )
    return found


def _answers(study: Study, one: Contestant, policy: str, course: Plan) -> tuple[Value | None, Value | None]:
    name = metric(study.headline, policy)
    looks = [study.by_run(one.label, name, bits=BITS, n_train=n, protocol=NAME) for n in course.looks]
    runs = sorted(set.intersection(*map(set, looks)))
    if not runs:
        return None, None
    means = tuple(sum(look[run] for look in looks) / len(looks) for run in runs)
    return Value(tuple(looks[-1][run] for run in runs)), Value(means)


def sheets(study: Study, found: Sequence[Kept]) -> tuple[Sheet, ...]:
    if not found:
        return ()
    modelled = [
        (
            k.title,
            f"{k.plan.rows:,}",
            f"{k.rebuilds:,.0f}",
            seconds(k.rebuild),
            seconds(k.reckoned),
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
            f"The model, run: a live table of {items} items that is rebuilt after every batch",
            (
                "method", "rows of a batch", "rebuilds", "one rebuild, s", "reckoned, s",
                "codes made anew, s", "run / reckoned", "all that the table adds, s",
            ),
            tuple(modelled),
        ),
        Sheet(
            f"The same, run: a live table of {items} items under each policy",
            (
                "method, policy", "codes made anew / items", "in all, s", "learning alone, s",
                "table: the rest, s", "of which making codes anew, s", f"{study.headline} at the end",
                f"{study.headline}, mean of {max(len(k.plan.looks) for k in found)} looks",
            ),
            tuple(every),
        ),
    ]  # fmt: skip
    return tuple(sheet for sheet in shown if sheet.rows)


def finding(study: Study, found: Sequence[Kept]) -> str:
    """Whether the reckoned seconds are the real ones, and what each policy saves at what price."""
    eager = {k.title: k for k in found if k.policy == EAGER and k.recoded and k.table > 0}
    if not eager:
        return ""
    ratios = [k.ratio for k in eager.values()]
    stored = _range([k.stored for k in eager.values()], ".2f")
    text = (
        f" Run on a live table that is rebuilt after every batch, making codes anew takes {_range(ratios, '.2f')} "
        f"times the reckoned seconds; {stored} would be so because rows that were replaced are still read."
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
                f"{policy} {work} of the codes, {cost} of the table's seconds, {study.headline} {mean} "
                f"({end} at the end)"
            )
    if parts:
        text += f" Against that, for {len(eager)} methods, mean over the looks: {'; '.join(parts)}."
    return text


def _range(values: Sequence[float], form: str) -> str:
    """
    >>> _range([0.25, 0.5], ".0%"), _range([1.0, 1.001], ".2f")
    ('25% to 50%', '1.00')
    """
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


NOTES = (
    "The live table is `hashstream.HashTable`, in memory. It has the whole database after the first batch: what the "
    "stream has not brought yet is added without learning, and rows of later batches replace what was stored of them. "
    "(Stored rows that were replaced are still read with their neighbours: up to the length of the stream more than "
    "the model counts.) Batches are the method's own, but have at least 100 rows and at least a 200th of the "
    "stream: HCOH, which learns from single rows, has far fewer refreshes here than the model's one for each row.",
    "All policies run in one process, one after the other, BLAS on one thread. Only ratios count, and they are rough "
    "where the machine has other work. Learning alone is timed right before each of them. Rows come as fast as they "
    "are learned: `Lazy` works beside that, on a second core where there is one, with a quarter of a core at most, "
    "rests while queries are asked, and is not waited for at the end. `Gated` has only the labels that the stream "
    "brought, in a sample of 1,000 items of the whole table.",
    "Queries, at most 100 of them and the same for all policies of a run, are answered by `search`, like with like: "
    "codes of each version by that version's functions; ties go by insertion.",
    "How often codes are made anew is a choice of who keeps the table, not a property of the method, as the paper's "
    "model has it. `Projected` stores no features and makes codes from codes: what the functions of the first batch "
    "did not tell apart in the database cannot come back.",
)


CAPTION = (
    "What it costs to keep a live table by each policy, and how well it answers meanwhile. Dotted: learning alone. "
    "The axis of seconds is logarithmic."
)


def picture(study: Study, found: Sequence[Kept]) -> Figure:
    """Seconds against answers, a panel a method, a marker a policy."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from hashstream.pictures import heading, logarithmic, tidy

    titles = list(dict.fromkeys(k.title for k in found))
    figure = Figure(
        figsize=(0.6 + 2.7 * len(titles), 3.6), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    )
    grid = figure.subplots(1, len(titles), squeeze=False, sharey=True)[0]
    for axes, title in zip(grid, titles, strict=True):
        these = [k for k in found if k.title == title]
        learning = median(k.learning for k in these)
        axes.axvline(learning, color="#888888", linestyle=":", linewidth=1.2, zorder=1)
        for k in these:
            colour, marker = LOOKS[k.policy]
            axes.plot(
                k.total, k.mean.mean, marker, color=colour, markersize=8, alpha=0.9, label=k.policy, linestyle="",
                zorder=3,
            )  # fmt: skip
        axes.set_xlim(0.8 * min(learning, *(k.total for k in these)), 1.35 * max(k.total for k in these))
        logarithmic(axes, "x")
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel("seconds for the whole stream", fontsize=8.5)
        tidy(axes, "both", size=8)
    grid[0].set_ylabel(f"{study.headline}, mean of looks", fontsize=8.5)
    named = {
        label: handle
        for axes in grid
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=len(named), frameon=False, fontsize=9
    )
    heading(figure, f"A live table under each policy at {BITS} bits, {study.dataset}")
    return figure
