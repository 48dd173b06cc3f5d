"""How a method is drawn, wherever it is drawn."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hashstream.hashers import methods

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "INK", "PALE", "Style", "heading", "logarithmic", "style", "tidy", "under"]

INK, PALE = "#222222", "#dddddd"

COLOURS = {name: method.colour for name, method in methods().items()}
"""One colour per method in all plots, told apart without red and green, too."""

_OTHERS = ("#cc3311", "#ee3377", "#6f4fc1")  # for methods without a colour


@dataclass(frozen=True)
class Style:
    """How a method's line is drawn: the colour and marker of the method, broken lines for its second form."""

    colour: str
    marker: str
    dashes: Any
    hollow: bool


def style(title: str) -> Style:
    """The style of a method by its name, or by a title such as "FCOH (paper)".

    >>> style("FCOH (auto)").colour == style("FCOH (paper)").colour == COLOURS["FCOH"]
    True
    """
    name, _, form = title.partition(" (")
    second = form in ("paper)", "state lost)")
    method = methods(variants=True).get(name)
    colour = (method and method.colour) or _OTHERS[sum(map(ord, name)) % len(_OTHERS)]
    marker = method.marker if method else "o"
    dashes = (0, (4, 1.5)) if second else "-" if marker else (0, (1, 1))
    return Style(colour, marker, dashes, second)


def tidy(axes: Axes, grid: Literal["x", "y", "both"] = "y", size: float = 8.5) -> None:
    """Axes as all our figures have them: a pale grid behind the data, labels of `size` without ticks, no box."""
    axes.grid(axis=grid, color=PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK, labelsize=size)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def logarithmic(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers: powers of ten, and 2 and 5 between them where it is short."""
    from matplotlib.ticker import LogLocator, NullFormatter

    getattr(axes, f"set_{which}scale")("log")
    low, high = getattr(axes, f"get_{which}lim")()
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def heading(figure: Figure, text: str, size: float = 12) -> None:
    """What a figure shows, above it, at the left."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=size, fontweight="bold", color=INK, linespacing=1.6)


def under(figure: Figure, text: str) -> None:
    """A sentence or two below a figure, at the left; nothing for "". For a figure with constrained layout."""
    if text:
        lines = textwrap.fill(text, max(40, int(15 * figure.get_figwidth())))
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color="#555555")
