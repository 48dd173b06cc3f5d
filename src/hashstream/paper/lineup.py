"""Who takes part: which method, with whose settings, stands for which row of the paper's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hashstream.evaluate import Job
from hashstream.hashers import methods

__all__ = ["COMPARABLE", "SETTINGS_OF", "STANDS_FOR", "Contestant", "lineup", "with_paper_settings"]

PAPER = ("mnist", "cifar10", "places205")
"""The paper's data sets, as it prints settings for them."""

SETTINGS_OF = {
    "digits": "mnist",
    "fashion-mnist": "mnist",
    "cifar10-vgg16": "cifar10",
    "tinyimagenet200": "places205",
}
"""Data sets that the paper prints no settings for, and the one whose settings they are given instead."""

COMPARABLE = {"mnist": "mnist", "cifar10-vgg16": "cifar10", "places205": "places205"}
"""Data sets whose figures may be held against the paper's, and the paper's name for them."""

STANDS_FOR = {"cifar10": "cifar10", "tinyimagenet200": "places205"}
"""Data sets that take the place of one of the paper's, with other features: no figure of theirs is comparable."""

ROWS = ("FCOH", "BSODH", "HCOH", "MIHash", "OSH", "AdaptHash", "SketchHash", "OKH")
"""The rows of the paper's tables, best known first."""


@dataclass(frozen=True)
class Contestant:
    """A method with settings. label: its name in results. printed: its row in the paper, "" where it has none."""

    label: str
    printed: str
    method: Callable[..., Any]

    @property
    def name(self) -> str:
        """The method's name, without its settings."""
        return self.label.partition("[")[0].partition("(")[0]

    @property
    def title(self) -> str:
        """What a reader is shown. Only where a method takes part twice, it says which of the two this is.

        >>> [one.title for one in lineup("mnist")][:6]
        ['FCOH (auto)', 'FCOH (paper)', 'BSODH', 'HCOH', 'MIHash', 'OSH']
        >>> [one.title for one in lineup("mnist") if "(" in one.label]
        ['OSH (state lost)', 'SketchHash (state lost)']
        """
        if self.label == "FCOH":
            return "FCOH (auto)"
        if self.label == "FCOH[paper]":
            return "FCOH (paper)"
        return f"{self.name} (state lost)" if "paper_compat=True" in self.label else self.name

    def jobs(self, bits: int, runs: int) -> list[Job]:
        return [Job(self.label, self.method, bits, run) for run in range(runs)]


def with_paper_settings(name: str, dataset: str, **changes: Any) -> Callable[..., Any]:
    """The method `name` as the paper sets it for a data set, with changes.

    A method without such settings, and every method on a data set of the user's own, is as it is.
    """
    method = methods(variants=True)[name]
    from_paper = getattr(method, "from_paper", None)
    known = SETTINGS_OF.get(dataset, dataset)
    if from_paper is None or known not in PAPER:
        return partial(method, **changes) if changes else method
    return partial(from_paper, known, **changes)


def lineup(dataset: str, also: Mapping[str, Callable[..., Any]] | None = None) -> list[Contestant]:
    """All methods with the paper's settings, FCOH with our defaults, what the published harness makes of
    OSH and SketchHash (which lose their state in it), and the methods of `also`.

    On a data set of the user's own there are no such settings: every method takes part once, as it is.

    >>> [one.label for one in lineup("mnist") if one.printed == "OSH"]
    ['OSH[paper](paper_compat=True)']
    >>> [one.label for one in lineup("my data") if one.printed == "OSH"]
    ['OSH']
    """
    also = also or {}
    names = [
        name for name in (*ROWS, *(other for other in methods() if other not in ROWS)) if name not in also
    ]
    mine = [Contestant(name, "", method) for name, method in also.items()]
    if SETTINGS_OF.get(dataset, dataset) not in PAPER:
        return [Contestant(name, name if name in ROWS else "", methods()[name]) for name in names] + mine
    found = [Contestant("FCOH", "", methods()["FCOH"])]
    for name in names:
        method = with_paper_settings(name, dataset)
        label = f"{name}[paper]" if isinstance(method, partial) else name
        compat = name in ("OSH", "SketchHash")
        found.append(Contestant(label, name if name in ROWS and not compat else "", method))
        if compat:
            lost = with_paper_settings(name, dataset, paper_compat=True)
            found.append(Contestant(f"{label}(paper_compat=True)", name, lost))
    return found + mine
