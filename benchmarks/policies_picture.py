"""The picture of `hashstream perf policies`: accuracy over time, and accuracy against work, in each setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE = "#222222", "#dddddd"
STYLES: dict[str, tuple[str, str, Any]] = {
    "Eager": ("#0b5fa5", "o", "-"),
    "Every(10)": ("#3aa0dc", "s", "-"),
    "Every(50)": ("#009e73", "D", "-"),
    "Partial(16, 10)": ("#6a3d9a", ">", (0, (4, 1.5))),
    "Partial(8, 10)": ("#a98bd0", "<", (0, (4, 1.5))),
    "Gated": ("#d55e00", "^", "-"),
    "Gated(0.01)": ("#e69f00", "v", "-"),
    "Lazy": ("#882255", "P", "-"),
    "Projected(20)": ("#b0508a", "X", (0, (4, 1.5))),
    "16 versions": ("#7a5c00", "*", (0, (4, 1.5))),
    "Never": ("#333333", "h", (0, (1, 1))),
}
"""Colour, marker and line of each policy."""


class Seen(Protocol):
    """Measurements of a policy in one setting."""

    n: list[int]
    seen: dict[str, list[float]]


def policies_picture(worlds: Mapping[str, Mapping[str, Seen]]) -> Figure:
    """worlds : title of the setting -> policy -> measurements."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(12.2, 7.6), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
    grid = figure.subplots(2, len(worlds), squeeze=False)
    for i, (title, courses) in enumerate(worlds.items()):
        _over_time(grid[0][i], title, courses)
        _against_work(grid[1][i], courses)
        for axes in grid[:, i]:
            axes.grid(color=PALE, linewidth=0.7)
            axes.set_axisbelow(True)
            axes.tick_params(length=0, colors=INK, labelsize=8.5)
            for side in ("top", "right", "left"):
                axes.spines[side].set_visible(False)
    grid[0][0].set_ylabel("mAP of searches", fontsize=9, color=INK)
    grid[1][0].set_ylabel("mAP of searches, mean over time", fontsize=9, color=INK)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=-(-len(labels) // 2), frameon=False, fontsize=9
    )
    figure.suptitle(
        "When to re-encode: the cost of each policy, and the accuracy it gives\n",
        x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK, linespacing=1.6,
    )  # fmt: skip
    figure.text(
        0.01, 1 - 0.44 / figure.get_figheight(),
        "FCOH, 32 bits, batches of 100 rows; 100 queries from the current distribution against all stored items. "
        "Area of a mark: how many updates the mean code is behind.",
        fontsize=9, color="#555555", va="center",
    )  # fmt: skip
    return figure


def _over_time(axes: Axes, title: str, courses: Mapping[str, Seen]) -> None:
    for name, course in courses.items():
        colour, marker, line = STYLES[name]
        axes.plot(
            course.n, course.seen["mAP"], color=colour, marker=marker, linestyle=line, linewidth=1.6, markersize=4.5,
            label=name, zorder=3,
        )  # fmt: skip
    axes.set_xlim(0, None)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.set_xlabel("rows ingested", fontsize=9, color=INK)
    axes.xaxis.set_major_formatter(lambda n, _: f"{n / 1000:g}K" if n else "0")
    axes.locator_params(axis="x", nbins=5)


def _against_work(axes: Axes, courses: Mapping[str, Seen]) -> None:
    quality = []
    for name, course in courses.items():
        colour, marker, _ = STYLES[name]
        x, y = course.seen["recoded_rows"][-1] / course.n[-1], float(np.mean(course.seen["mAP"]))
        behind = float(np.mean(course.seen["updates_behind"]))
        axes.scatter(
            [x], [y], s=36 + 6 * behind, color=colour, marker=marker, alpha=0.85, linewidths=0, zorder=3
        )
        quality.append(y)
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.5)
    axes.set_xlim(-0.03, 300)
    axes.set_xticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    axes.set_xlabel("re-encoded codes per ingested row", fontsize=9, color=INK)
    low, high = min(quality), max(quality)
    pad = 0.12 * (high - low) or 0.01
    axes.set_ylim(low - pad, high + pad)
