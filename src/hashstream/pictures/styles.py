"""The colour, marker and line of each method in all figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hashstream.hashers import NAMED_SETTINGS, methods

__all__ = ["COLOURS", "Style", "style", "styles"]

COLOURS = {name: method.colour for name, method in methods().items()}
"""One colour per method in all plots, told apart without red and green, too."""

_OTHERS = ("#e6001f", "#00b3b8", "#ff5ecb", "#7cae00")  # for the user's own methods
_MARKERS = ("o", "P", "X", "d", "*")


@dataclass(frozen=True)
class Style:
    """The line of a method: its colour and marker, dashed and hollow for its second form."""

    colour: str
    marker: str
    dashes: Any
    hollow: bool


def style(title: str) -> Style:
    """The style of a method by its name, or by a title such as "FCOH (paper)", "HCOH[paper]" or "RidgeHash (RBF)".

    >>> style("FCOH (auto)").colour == style("FCOH (paper)").colour == COLOURS["FCOH"]
    True
    """
    return styles([title])[title]


def styles(titles: Sequence[str]) -> dict[str, Style]:
    """The styles of the methods of one figure; methods without a colour of their own are told apart.

    >>> mine = styles(["LSH", "Mine", "Other"])
    >>> mine["LSH"] == style("LSH"), mine["Mine"].colour == mine["Other"].colour
    (True, False)
    """
    found: dict[str, Style] = {}
    others = 0
    for title in titles:
        second = title.endswith(("[paper]", "(paper)", "(state lost)"))
        form = title.removesuffix("[paper]")
        named = next((one for key, one in NAMED_SETTINGS.items() if form in (key, one.title)), None)
        method = methods(variants=True).get(re.split(r" \(|[\[(]", title)[0])
        colour, marker = (named.colour, named.marker) if named else ("", "")
        if method is not None and "colour" in vars(method) and not named:  # not one that it inherits
            colour, marker = method.colour, method.marker
        if not colour:
            colour, marker = _OTHERS[others % len(_OTHERS)], _MARKERS[others % len(_MARKERS)]
            others += 1
        dashes = (0, (4, 1.5)) if second else "-" if marker else (0, (1, 1))
        found[title] = Style(colour, marker, dashes, second)
    return found
