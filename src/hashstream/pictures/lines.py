"""Panels of lines, one line per method, each named at its right end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hashstream.pictures.figure import INK, SOFT, heading, new_figure, tidy, under
from hashstream.pictures.styles import Style, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["line_panels", "spread"]

Points = Sequence[tuple[float, float]]


def line_panels(
    panels: Mapping[str, Mapping[str, Points]],
    *,
    x: str,
    y: str,
    title: str,
    subtitle: str,
    columns: int = 3,
    in_turn: bool = False,
    legend: bool = False,
    marks: Mapping[str, Mapping[str, Points]] | None = None,
    bands: Mapping[str, Mapping[str, Points]] | None = None,
    note: str = "",
) -> Figure:
    """Panels with a common y axis.

    panels: title of a panel -> title of a line -> points (x, y); a line has its method's style (`styles`).
    title, subtitle: above the panels; "" for neither, as in a figure that will have a caption.
    in_turn: the values of x are drawn at equal distances, as 8, 16, 32, 48, 64, 128 bits are.
    legend: name the lines in a legend below the panels, in the order in which they are given, and not at their ends.
    marks: crosses, in the same form as `panels`. bands: (x, height) of a band above and below a line, in the same form.
    note: a sentence below the panels.
    """
    rows = -(-len(panels) // columns)
    columns = min(columns, len(panels))
    head = 0.75 if title else 0.3
    figure = new_figure(0.3 + 3.75 * columns, head + 2.75 * rows + 0.3 * legend, w_pad=0.1, h_pad=0.08)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    every = [point for lines in panels.values() for points in lines.values() for point in points]
    every += [p for lines in (marks or {}).values() for points in lines.values() for p in points]
    places = sorted({n for n, _ in every})
    for panel, found in (bands or {}).items():
        for line, band in found.items():
            at = dict(panels[panel][line])
            every += [(n, at[n] + side * height) for n, height in band for side in (-1, 1)]
    low, high = min(v for _, v in every), max(v for _, v in every)
    pad = 0.04 * (high - low) or 0.05
    chosen = styles(list(dict.fromkeys(line for lines in panels.values() for line in lines)))
    bottom, top = max(0.0, low - pad), high + pad

    def place(n: float) -> float:
        return places.index(n) if in_turn else n

    for i, (axes, (name, lines)) in enumerate(zip(grid.flat, panels.items(), strict=False)):
        first, last = place(places[0]) if in_turn else 0.0, place(places[-1])
        axes.set_xlim(first - (first == last), last)
        axes.set_ylim(bottom, top)
        for line, points in lines.items():
            _draw_line(axes, [(place(n), v) for n, v in points], chosen[line], line)
            heights = dict((bands or {}).get(name, {}).get(line, ()))
            there = [(place(n), v - heights[n], v + heights[n]) for n, v in points if n in heights]
            if there:
                axes.fill_between(
                    *zip(*there, strict=True), color=chosen[line].colour, alpha=0.15, linewidth=0
                )
        for line, points in (marks or {}).get(name, {}).items():
            spots = np.array([(place(n), v) for n, v in points])
            axes.plot(*spots.T, "x", color=chosen[line].colour, markersize=8, markeredgewidth=2.2, zorder=6)
        if not legend:
            ends = {
                line: (points[-1][1] - bottom) / (top - bottom) for line, points in lines.items() if points
            }
            _name_ends(axes, ends, 8.6 / 150, chosen)
        axes.set_title(name, loc="left", fontsize=10, fontweight="bold", color=INK)
        tidy(axes, size=8)
        if in_turn:
            axes.set_xticks(range(len(places)), [f"{n:g}" for n in places])
        else:
            axes.xaxis.set_major_formatter(lambda n, _: f"{n / 1000:g}K" if n >= 1000 else f"{n:g}")
            axes.locator_params(axis="x", nbins=5)
        if i >= len(panels) - columns:
            axes.set_xlabel(x, fontsize=8.5, color=INK)
        if i % columns == 0:
            axes.set_ylabel(y, fontsize=8.5, color=INK)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    if title:
        heading(figure, f"{title}\n", 13)
        figure.text(0.01, 1 - 0.44 / figure.get_figheight(), subtitle, fontsize=9, color=SOFT, va="center")
    under(figure, note)
    if legend:
        _name_below(figure, list(chosen))
    return figure


def _draw_line(axes: Axes, points: Points, drawn: Style, title: str) -> None:
    if not points:
        return
    n, value = zip(*points, strict=True)
    apart = max(1, -(-len(points) // 6))  # a few markers tell lines apart; one per point would hide them
    axes.plot(
        n,
        value,
        color=drawn.colour,
        linestyle=drawn.dashes,
        linewidth=1.7,
        marker=drawn.marker,
        markersize=4.5,
        markevery=apart,
        markerfacecolor="white" if drawn.hollow else drawn.colour,
        clip_on=False,
        zorder=3,
        label=title,
    )


def _name_below(figure: Figure, titles: Sequence[str]) -> None:
    """A legend below the panels, as wide as the figure, in this order from left to right."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    there = [title for title in titles if title in handles]
    fit = max(1, int(figure.get_figwidth() / (0.55 + 0.075 * max(map(len, there), default=1))))
    rows = -(-len(there) // fit)
    columns = -(-len(there) // rows)
    # Matplotlib fills a legend column by column.
    order = [row * columns + column for column in range(columns) for row in range(rows)]
    read = [there[i] for i in order if i < len(there)]
    figure.legend(
        [handles[title] for title in read],
        read,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
    )


def _name_ends(axes: Axes, ends: Mapping[str, float], gap: float, chosen: Mapping[str, Style]) -> None:
    """Names to the right of the axes, as near to the ends of the lines as they stay readable."""
    places = spread(ends, gap, 1.0)
    for line, at in ends.items():
        colour = chosen[line].colour
        axes.plot(
            [1.005, 1.04],
            [at, places[line]],
            transform=axes.transAxes,
            color=colour,
            linewidth=0.6,
            clip_on=False,
        )
        axes.annotate(
            line,
            (1.05, places[line]),
            xycoords="axes fraction",
            va="center",
            fontsize=7.5,
            color=colour,
            fontweight="bold" if line.startswith("FCOH") else "normal",
            annotation_clip=False,
        )


def spread(values: Mapping[str, float], gap: float, top: float) -> dict[str, float]:
    """Positions as near to the values as possible with at least `gap` between any two, and below `top` if they fit.

    >>> spread({"a": 0.5, "b": 0.51, "c": 0.0}, 0.1, 1.0)
    {'c': 0.0, 'a': 0.455, 'b': 0.555}
    """
    # Less their share of the gaps, positions in order only have to increase: an isotonic regression.
    names = sorted(values, key=lambda name: values[name])
    gaps = gap * np.arange(len(names))
    highest = top - gap * max(0, len(names) - 1)
    wanted = np.array([values[name] for name in names]) - gaps
    from sklearn.isotonic import (
        isotonic_regression,
    )  # imports scipy.stats: a second that other commands need not pay

    placed = isotonic_regression(wanted, y_min=min(0.0, highest), y_max=highest) if names else wanted
    return {name: round(float(at), 6) for name, at in zip(names, placed + gaps, strict=True)}
