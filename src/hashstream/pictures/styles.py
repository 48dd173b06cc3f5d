"""The colour, marker and line of each method in all figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["COLOURS", "Style", "style"]

COLOURS = {
    "FCOH": "#0b5fa5",
    "BSODH": "#b0508a",
    "HCOH": "#d55e00",
    "MIHash": "#009e73",
    "OSH": "#7a5c00",
    "AdaptHash": "#3aa0dc",
    "SketchHash": "#e69f00",
    "OKH": "#333333",
    "FROSH": "#a06a3b",
    "HMOH": "#882255",
    "RidgeHash": "#332288",
    "ClassifierHash": "#117733",
    "LSH": "#8a8a8a",
}
"""One colour for a method, wherever it is drawn; told apart without red and green, too."""

_MARKERS = dict(zip(COLOURS, "osD^vPX*<hpd", strict=False))
_OTHERS = ("#cc3311", "#ee3377", "#6f4fc1")  # for the user's own methods


@dataclass(frozen=True)
class Style:
    """The line of a method: its colour and marker, dashed and hollow for its second form."""

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
    colour = COLOURS.get(name) or _OTHERS[sum(map(ord, name)) % len(_OTHERS)]
    dashes = (0, (4, 1.5)) if second else (0, (1, 1)) if name == "LSH" else "-"
    return Style(colour, _MARKERS.get(name, "" if name == "LSH" else "o"), dashes, second)
