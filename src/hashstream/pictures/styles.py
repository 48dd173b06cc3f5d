"""The colour, marker and line of each method in all figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hashstream.hashers import NAMED_SETTINGS, methods

__all__ = ["COLOURS", "Style", "style"]

COLOURS = {name: method.colour for name, method in methods().items()}
"""One colour per method in all plots, told apart without red and green, too."""

_OTHERS = ("#cc3311", "#ee3377", "#6f4fc1")  # for the user's own methods


@dataclass(frozen=True)
class Style:
    """The line of a method: its colour and marker, dashed and hollow for its second form."""

    colour: str
    marker: str
    dashes: Any
    hollow: bool


def style(title: str) -> Style:
    """The style of a method by its name, or by a title such as "FCOH (paper)" or "RidgeHash (RBF)".

    >>> style("FCOH (auto)").colour == style("FCOH (paper)").colour == COLOURS["FCOH"]
    True
    """
    for named in NAMED_SETTINGS.values():
        if named.title == title:
            return Style(named.colour, named.marker, "-", hollow=False)
    name, _, form = title.partition(" (")
    second = form in ("paper)", "state lost)")
    method = methods(variants=True).get(name)
    colour = (method and method.colour) or _OTHERS[sum(map(ord, name)) % len(_OTHERS)]
    marker = method.marker if method else "o"
    dashes = (0, (4, 1.5)) if second else "-" if marker else (0, (1, 1))
    return Style(colour, marker, dashes, second)
