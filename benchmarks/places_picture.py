"""The picture of `hashstream perf places`: time, memory and precision against size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.policies_picture import STYLES
from hashstream import pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Lines = Mapping[str, Mapping[int, float]]

POLICIES = {name.replace("(20)", "(10)"): look for name, look in STYLES.items()} | {
    "Grown(0.2)": ("#6699cc", "p", "-"),
    "Partial(32, 10)": STYLES["Partial(16, 10)"],
}
OTHERS: dict[str, tuple[str, str, Any]] = {
    "one query, scanned": ("#333333", "o", "-"),
    "one query, multi-index": ("#0b5fa5", "o", "-"),
    "100 queries, scanned": ("#333333", "s", (0, (4, 1.5))),
    "100 queries, multi-index": ("#0b5fa5", "s", (0, (4, 1.5))),
    "features, on disk": ("#b0508a", "D", "-"),
    "process, with the index": ("#0b5fa5", "s", "-"),
    "process, scanned": ("#333333", "o", "-"),
    "by stats()": ("#009e73", "^", (0, (4, 1.5))),
}
PANELS = {
    "learning": ("Learning", "rows learned, 1,000 at a time", "processor seconds"),
    "refresh": ("One refresh", "items in the table", "processor seconds"),
    "policies": ("99 updates under each policy", "items in the table", "processor time over that of Never"),
    "search": ("Searching, top 10", "items in the table", "milliseconds"),
    "memory": ("Memory and disk", "items in the table", "MB"),
    "precision": ("Accuracy after the updates", "items in the table", "precision@100"),
}
"""Panel -> title, and the names of its axes: logarithmic, but for the last panel's precision."""


def places_picture(figures: Mapping[str, Lines]) -> Figure:
    """figures : panel -> line -> x -> y."""
    figure = pictures.new_figure(13.6, 10.2, w_pad=0.12, h_pad=0.1)
    grid = figure.subplots(2, 3)
    for axes, (panel, (title, across, up)) in zip(grid.flat, PANELS.items(), strict=True):
        _lines(axes, figures[panel], panel != "precision")
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=pictures.INK)
        axes.set_xlabel(across, fontsize=9, color=pictures.INK)
        axes.set_ylabel(up, fontsize=9, color=pictures.INK)
        pictures.tidy(axes, "both")
        axes.tick_params(which="minor", length=0)
        axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    pictures.heading(figure, "A run of the size of Places205: 2.5 million items of 128 features, 205 classes")
    pictures.under(
        figure,
        "Synthetic rows, 64 bits, one core. Policies, searches and memory are of FCOH; the 99 updates have 100 rows "
        "each with 25,000 items, and 1,000 with more. Eager with 2.5 million items is counted from one "
        "measured refresh. Processor time, all threads together: the machine was shared.",
    )
    return figure


def _lines(axes: Axes, lines: Lines, logarithmic: bool) -> None:
    for name, course in lines.items():
        colour, marker, dashes = _style(name)
        axes.plot(
            list(course), list(course.values()), color=colour, marker=marker, linestyle=dashes, linewidth=1.6,
            markersize=5, label=name,
        )  # fmt: skip
    pictures.logarithmic(axes, "x")
    if logarithmic:
        pictures.logarithmic(axes, "y")
    axes.xaxis.set_major_formatter(lambda n, _: f"{n / 1e6:g}M" if n >= 1e6 else f"{n / 1e3:g}K")


def _style(name: str) -> tuple[str, str, Any]:
    if (found := POLICIES.get(name) or OTHERS.get(name)) is not None:
        return found
    method = pictures.style(name)
    return method.colour, method.marker, method.dashes
