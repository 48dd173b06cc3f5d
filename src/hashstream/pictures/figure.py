"""A new figure, and the appearance that all figures share."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Literal

from hashstream._extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "INK",
    "PALE",
    "SOFT",
    "heading",
    "logarithmic",
    "new_figure",
    "tidy",
    "under",
]

INK, SOFT, PALE = "#222222", "#555555", "#dddddd"
"""Colours of text, of secondary text and of grid lines."""


def new_figure(
    width: float, height: float, *, w_pad: float | None = None, h_pad: float | None = None
) -> Figure:
    """An empty figure of this size in inches, with constrained layout; w_pad and h_pad are its padding."""
    require("matplotlib", "plots")
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=w_pad, h_pad=h_pad))


def tidy(axes: Axes, grid: Literal["x", "y", "both"] = "y", size: float = 8.5) -> None:
    """Pale grid lines below the data, labels of `size` without ticks, and no box."""
    axes.grid(axis=grid, color=PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK, labelsize=size)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def logarithmic(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers: powers of ten, and 2 and 5 between them on a short axis."""
    from matplotlib.ticker import LogLocator, NullFormatter

    getattr(axes, f"set_{which}scale")("log")
    low, high = getattr(axes, f"get_{which}lim")()
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def heading(figure: Figure, text: str, size: float = 12) -> None:
    """The title of a figure, at the left."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=size, fontweight="bold", color=INK, linespacing=1.6)


def under(figure: Figure, text: str) -> None:
    """A sentence or two below a figure, at the left; nothing for ""."""
    if text:
        lines = textwrap.fill(text, max(40, int(15 * figure.get_figwidth())))
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color=SOFT)
