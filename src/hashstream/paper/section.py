"""An experiment, and the section of a report that it produces.

An experiment has two halves. `measure` only adds rows to the study's results, and measures no row twice. `show` only
reads them, so that every table and figure can be regenerated from the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hashstream.evaluate import Sheet
from hashstream.paper.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawn", "Experiment", "Figures", "Section", "Sheet", "Verdict"]


Verdict = Literal["holds", "holds in part", "only with our defaults", "does not hold", "undecided"]
"""On a claim of the paper, as far as the rows of a study can tell."""

Figures = dict[str, "Figure"]
"""Figures of a section by file name without its suffix, in the order of the report."""


@dataclass(frozen=True)
class Section:
    """A section of a report.

    claim: what the paper says. finding: what was measured, generated from the rows; brief: the same in one line.
    verdict: whether the claim holds. captions: figure's name -> sentence. points: figure's name -> rows of numbers that
    it shows, where these are more than what can be read off the figure.
    notes: known reasons for differences, what was left out, what the figures do not tell.
    """

    name: str
    title: str
    claim: str
    finding: str
    sheets: tuple[Sheet, ...] = ()
    figures: Figures = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    verdict: Verdict = "undecided"
    brief: str = ""
    points: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawn:
    """Figures of a section, their captions, and their numbers, by the names of the figures."""

    figures: Figures = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    points: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper. `what` is a line for `--help`.

    fits: whether it has anything to say about a data set, by name; "all" leaves it out where not.
    """

    name: str
    what: str
    measure: Callable[[Study], None]
    show: Callable[[Study], Section]
    fits: Callable[[str], bool] = lambda dataset: True
