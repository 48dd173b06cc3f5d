"""The figure of `hashstream cluster demo`: searches and re-encoding over time, with a shard killed in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hashstream.pictures.figure import INK, SOFT, heading, new_figure, tidy, under

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["cluster_run"]

SEARCH, CURRENT, SIGNAL, CALM = "#2b6cb0", "#1a9850", "#b2182b", "#555555"


def cluster_run(
    searches: Sequence[tuple[float, float]],
    current: Sequence[tuple[float, float]],
    *,
    killed: float,
    back: float,
    labelled: float,
    title: str,
    note: str,
) -> Figure:
    """Two panels over the same seconds.

    searches : (moment at which it began, seconds that it took) of each search. current : (moment, share of items whose
    codes are of the newest functions). killed, back : when a shard was killed, and when the first search after that was
    answered. labelled : when labels were learned.
    """
    figure = new_figure(8.0, 5.0, h_pad=0.08)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    began, took = np.array(searches, float).T
    upper.scatter(began, 1e3 * took, s=9, color=SEARCH, alpha=0.5, linewidths=0, zorder=3)
    upper.set_yscale("log")
    upper.set_ylabel("a search, ms")
    upper.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    upper.axvspan(killed, back, color=SIGNAL, alpha=0.1, linewidth=0)
    _mark(upper, killed, SIGNAL, f"kill -9 of a shard;\nsearches wait {back - killed:.1f} s for its restart")
    moments, shares = np.array(current, float).T
    lower.step(moments, 100 * shares, where="post", color=CURRENT, linewidth=2, zorder=3)
    lower.fill_between(moments, 0, 100 * shares, step="post", color=CURRENT, alpha=0.15, linewidth=0)
    lower.set_ylim(0, 108)
    lower.set_ylabel("current codes, %")
    lower.set_xlabel("seconds")
    lower.axvspan(killed, back, color=SIGNAL, alpha=0.1, linewidth=0)
    _mark(lower, labelled, CALM, "labels change\nthe functions")
    for axes in (upper, lower):
        tidy(axes, size=9.5)
        axes.axvline(killed, color=SIGNAL, linewidth=1.2, linestyle=(0, (2, 2)), zorder=2)
        axes.axvline(labelled, color=CALM, linewidth=1.2, linestyle=(0, (2, 2)), zorder=2)
        axes.yaxis.label.set_color(INK)
        axes.tick_params(which="minor", length=0)
    upper.set_xlim(left=min(0.0, float(began.min())))
    heading(figure, title)
    under(figure, note)
    return figure


def _mark(axes: Axes, moment: float, colour: str, text: str) -> None:
    axes.annotate(
        text,
        (moment, 0.96),
        (6, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
        fontsize=9,
        color=colour if colour != CALM else SOFT,
    )
