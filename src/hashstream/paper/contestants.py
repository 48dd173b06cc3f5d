"""The methods that take part: each with its settings, and the row of the paper's tables that it reproduces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hashstream.evaluate import Job
from hashstream.hashers import NAMED_SETTINGS, methods
from hashstream.paper.comparability import counterpart
from hashstream.paper.printed import METHODS

__all__ = ["Contestant", "Given", "chosen", "contestants", "with_paper_settings"]

Given = str | type[Any]
"""A method that is asked for: by name, or a class of the user's own."""
ROWS = METHODS[::-1]
"""The rows of the paper's tables, in the order in which reports show them."""


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
        """The name in reports: with the settings only where a method takes part more than once.

        >>> [one.title for one in contestants("mnist")][:6]
        ['FCOH (auto)', 'FCOH (paper)', 'BSODH', 'HCOH', 'MIHash', 'OSH']
        >>> [one.title for one in contestants("mnist") if "(" in one.label]
        ['OSH (state lost)', 'SketchHash (state lost)']
        >>> [(one.label, one.title) for one in contestants("mnist") if one.name == "RidgeHash"]
        [('RidgeHash[paper]', 'RidgeHash'), ('RidgeHash[rbf][paper]', 'RidgeHash (RBF)')]
        """
        if (form := self.label.removesuffix("[paper]")) in NAMED_SETTINGS:
            return NAMED_SETTINGS[form].title
        if self.label == "FCOH":
            return "FCOH (auto)"
        if self.label == "FCOH[paper]":
            return "FCOH (paper)"
        return f"{self.name} (state lost)" if "paper_compat=True" in self.label else self.name

    def job(self, bits: int, run: int) -> Job:
        return Job(self.label, self.method, bits, run)


def with_paper_settings(name: str, dataset: str, **changes: Any) -> Callable[..., Any]:
    """The method `name` (or settings by name) with the paper's settings for a data set, then `changes`.

    A method or a data set for which the paper has no settings gives the method's defaults.
    """
    if (named := NAMED_SETTINGS.get(name)) is not None:
        return with_paper_settings(named.method.__name__, dataset, **{**named.settings, **changes})
    method = methods(variants=True)[name]
    from_paper, known = getattr(method, "from_paper", None), counterpart(dataset).name
    if from_paper is None or not known:
        return partial(method, **changes) if changes else method
    return partial(from_paper, known, **changes)


def contestants(dataset: str, also: Mapping[str, Callable[..., Any]] | None = None) -> list[Contestant]:
    """All methods with the paper's settings, FCOH with our defaults, and the methods of `also`.

    OSH and SketchHash take part twice: the published test bench loses their state, and the paper's rows show that.
    So does RidgeHash, the second time with 1,000 RBF anchors. On a data set of the user's own every method takes part
    with its defaults.

    >>> [one.label for one in contestants("mnist") if one.printed == "OSH"]
    ['OSH[paper](paper_compat=True)']
    >>> [one.label for one in contestants("my data") if one.printed == "OSH"]
    ['OSH']
    """
    also = also or {}
    names = []
    for name in dict.fromkeys((*ROWS, *methods())):
        if name not in also:
            names += [
                name,
                *(form for form, named in NAMED_SETTINGS.items() if named.method is methods()[name]),
            ]
    mine = [Contestant(name, "", method) for name, method in also.items()]
    if not counterpart(dataset).name:
        defaults = {name: with_paper_settings(name, dataset) for name in names}
        return [Contestant(n, n if n in ROWS else "", method) for n, method in defaults.items()] + mine
    found = [Contestant("FCOH", "", methods()["FCOH"])]
    for name in names:
        method = with_paper_settings(name, dataset)
        from_paper = isinstance(method, partial) and not isinstance(method.func, type)
        label = f"{name}[paper]" if from_paper else name
        loses_state = name in ("OSH", "SketchHash")
        found.append(Contestant(label, name if name in ROWS and not loses_state else "", method))
        if loses_state:
            lost = with_paper_settings(name, dataset, paper_compat=True)
            found.append(Contestant(f"{label}(paper_compat=True)", name, lost))
    return found + mine


def chosen(dataset: str, given: Sequence[Given]) -> list[Contestant]:
    """The methods that are asked for, in the order given; all of them where none is.

    given: names, in capitals or not: of a method, in all forms in which it takes part, or of one form as results and
    reports have it; classes of the user's own; and "all". ValueError for a name that there is not.

    >>> [one.title for one in chosen("mnist", ["lsh", "FCOH", "HCOH[paper]", "RidgeHash (RBF)"])]
    ['LSH', 'FCOH (auto)', 'FCOH (paper)', 'HCOH', 'RidgeHash (RBF)']
    """
    own = {one.__name__: one for one in given if not isinstance(one, str)}
    every = contestants(dataset, own)
    found: dict[str, Contestant] = {}
    for one in given or ("all",):
        if isinstance(one, str):
            name = one.lower()
            some = [
                each
                for each in every
                if name
                in {
                    n.lower() for n in (each.name, each.label.removesuffix("[paper]"), each.label, each.title)
                }
                or (name == "all" and each.label not in own)
            ]
        else:
            some = [each for each in every if each.method is one]
        if not some:
            raise ValueError(
                f"there is no method {one}: choose from {', '.join(methods())}, or a class of your own"
            )
        found.update({each.label: each for each in some if each.label not in found})
    return list(found.values())
