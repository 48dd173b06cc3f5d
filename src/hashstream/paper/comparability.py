"""Which of the paper's data sets a data set corresponds to, and whether figures on the two may be compared."""

from __future__ import annotations

from typing import NamedTuple

from hashstream.datasets import CATALOGUE
from hashstream.evaluate.protocols import plain_name

__all__ = ["NAMES", "Counterpart", "column", "counterpart", "figures_of", "on_the_data"]

NAMES = {
    name: record.title
    for name, record in CATALOGUE.items()
    if name in {r.paper_settings for r in CATALOGUE.values()}
}
"""The paper's data sets, which it prints settings and figures for, by the names of their settings."""
FEATURES = {"cifar10": "VGG-16 features", "tinyimagenet200": "Places205"}
"""Data that the paper's figures were measured on, where a data set takes the place of one of the paper's."""


class Counterpart(NamedTuple):
    """The data set of the paper whose settings a data set is given.

    name: a key of NAMES, "" for none. comparable: whether both have the same features, so that a difference between
    figures means something. stands_for: what the paper's figures were measured on, where the data set takes the place
    of the paper's with other features: then they are shown as a landmark.
    """

    name: str = ""
    comparable: bool = False
    stands_for: str = ""


def counterpart(dataset: str) -> Counterpart:
    """The counterpart of a data set; an empty one for a data set of the user's own.

    With another setting than the paper's (`setting_named`), methods have the paper's settings, but the paper has no
    figures.

    >>> counterpart("digits")
    Counterpart(name='mnist', comparable=False, stands_for='')
    >>> counterpart("mnist[stream=5000]")
    Counterpart(name='mnist', comparable=False, stands_for='')
    """
    record = CATALOGUE.get(plain_name(dataset))
    if record is None:
        return Counterpart()
    if record.name != dataset:
        return Counterpart(record.paper_settings)
    return Counterpart(record.paper_settings, record.paper_role == "same", FEATURES.get(dataset, ""))


def figures_of(dataset: str) -> str:
    """The paper's data set whose figures are shown next to those of a data set, "" for none.

    >>> figures_of("mnist"), figures_of("tinyimagenet200"), figures_of("digits"), figures_of("my data")
    ('mnist', 'places205', '', '')
    """
    found = counterpart(dataset)
    return found.name if found.comparable or found.stands_for else ""


def column(dataset: str) -> str:
    """The heading of the paper's figures in a table.

    >>> column("mnist"), column("tinyimagenet200"), column("cifar10")
    ('paper', 'paper, Places205', 'paper, VGG-16 features')
    """
    return ", ".join(filter(None, ("paper", counterpart(dataset).stands_for)))


def on_the_data(dataset: str) -> tuple[str, ...]:
    """A note where the paper's figures were not measured on the same data; none where they were.

    >>> on_the_data("mnist")
    ()
    >>> on_the_data("digits")
    ('The paper has no figures for digits. Methods use its settings for MNIST.',)
    """
    name, comparable, stands_for = counterpart(dataset)
    if comparable:
        return ()
    if stands_for:
        return (
            f"The paper's figures were measured on its {NAMES[name]} features, ours on {dataset}. They are shown as a "
            "landmark; no difference is computed.",
        )
    settings = f" Methods use its settings for {NAMES[name]}." if name else ""
    return (f"The paper has no figures for {dataset}.{settings}",)
