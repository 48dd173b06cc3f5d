"""Who takes part: which method, with whose settings, stands for which row of the paper's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hashstream.evaluate import Job
from hashstream.hashers import methods

__all__ = ["COMPARABLE", "SETTINGS_OF", "Contestant", "lineup", "with_paper_settings"]

SETTINGS_OF = {
    "digits": "mnist",
    "fashion-mnist": "mnist",
    "cifar10-vgg16": "cifar10",
    "tinyimagenet200": "places205",
}
"""Data sets that the paper prints no settings for, and the one whose settings they are given instead."""

COMPARABLE = {"mnist": "mnist", "cifar10-vgg16": "cifar10", "places205": "places205"}
"""Data sets whose figures may be held against the paper's, and the paper's name for them."""


@dataclass(frozen=True)
class Contestant:
    """A method with settings. label: its name in results. printed: its row in the paper, "" where it has none."""

    label: str
    printed: str
    method: Callable[..., Any]

    def jobs(self, bits: int, runs: int) -> list[Job]:
        return [Job(self.label, self.method, bits, run) for run in range(runs)]


def with_paper_settings(name: str, dataset: str, **changes: Any) -> Callable[..., Any]:
    """The method `name` as the paper sets it for a data set; a method without such settings as it is."""
    method = methods()[name]
    from_paper = getattr(method, "from_paper", None)
    if from_paper is None:
        return method
    return partial(from_paper, SETTINGS_OF.get(dataset, dataset), **changes)


def lineup(dataset: str, also: Mapping[str, Callable[..., Any]] | None = None) -> list[Contestant]:
    """All methods with the paper's settings, FCOH with our defaults, what the published harness makes of
    OSH and SketchHash (which lose their state in it), and the methods of `also`.

    >>> [one.label for one in lineup("mnist") if one.printed == "OSH"]
    ['OSH[paper](paper_compat=True)']
    """
    found = [Contestant("FCOH", "", methods()["FCOH"])]
    rows = ("FCOH", "BSODH", "HCOH", "MIHash", "OSH", "AdaptHash", "SketchHash", "OKH")
    for name in (*rows, *(other for other in methods() if other not in rows)):
        method = with_paper_settings(name, dataset)
        label = f"{name}[paper]" if isinstance(method, partial) else name
        compat = name in ("OSH", "SketchHash")
        found.append(Contestant(label, name if name in rows and not compat else "", method))
        if compat:
            lost = with_paper_settings(name, dataset, paper_compat=True)
            found.append(Contestant(f"{label}(paper_compat=True)", name, lost))
    return found + [Contestant(name, "", method) for name, method in (also or {}).items()]
