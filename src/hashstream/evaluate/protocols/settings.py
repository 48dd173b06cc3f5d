"""The size of an experiment on a data set: queries, stream, checkpoints."""

from __future__ import annotations

import re
from types import MappingProxyType

import numpy as np

from hashstream.datasets import CATALOGUE, Setting
from hashstream.hashers.validation import check_count

__all__ = ["LEAST_ROWS", "SETTINGS", "Setting", "plain_name", "setting_named", "setting_of"]

SETTINGS = MappingProxyType({name: record.setting for name, record in CATALOGUE.items()})
"""The setting of every data set in the catalogue."""
LEAST_ROWS = 10
"""Classes of the user's own data with fewer rows are not asked for, unless `min_class` says otherwise."""


def setting_of(
    name: str,
    y: np.ndarray,
    *,
    queries: int | None = None,
    stream: int | None = None,
    min_class: int | None = None,
) -> Setting:
    """The setting of a data set by name; for the user's own, one that fits its labels y (n,).

    The latter asks for every class of at least 10 rows; a tenth of the smallest of these are queries per class, at most
    100. The stream is the rest, at most 20,000 rows, with ten checkpoints.

    queries: the number of queries, divided equally among the classes that are asked for (a remainder is dropped). A
        class that would lose more than half of its rows to them is not asked for.
    stream: the number of rows to learn from. Checkpoints stay where they are if the stream ends at one of them and has
        at most 20; otherwise there are ten.
    min_class: classes with fewer rows are not asked for. They are learned and searched like all others.

    ValueError says which of these the data cannot have.

    >>> setting_of("my data", np.repeat([0, 1, 2], 500))
    Setting(per_class=50, stream=1350, every=135, min_class=0)
    >>> setting_of("my data", np.repeat([0, 1, 2], [500, 300, 4]), queries=100, stream=600)
    Setting(per_class=50, stream=600, every=60, min_class=10)
    """
    queries, stream, min_class = (
        None if value is None else check_count(option, value, 1)
        for option, value in (("queries", queries), ("stream", stream), ("min_class", min_class))
    )
    known = SETTINGS.get(name)
    if known is not None and queries is stream is min_class is None:
        return known
    sizes = np.unique(y, return_counts=True)[1]
    least = max(2, min_class or (known.min_class if known else LEAST_ROWS))
    if sizes.max() < 2:
        raise ValueError(f"no two rows of {name} share a label, so there is nothing that a query could find")
    if sizes.max() < least:
        raise ValueError(
            f"no class of {name} has {least} rows, the largest has {sizes.max()}: set min_class (of `bench` and "
            f"`paper`: --min-class) to {sizes.max()} or less"
        )
    per_class, least = _per_class(name, sizes, least, queries, known)
    asked = sizes >= least
    rest = len(y) - per_class * int(asked.sum())
    if stream is not None and stream > rest:
        raise ValueError(f"stream is {stream}: {name} has {rest} rows that are not queries")
    length = stream or min(known.stream if known else 20_000, rest)
    if known and length % known.every == 0 and length <= 20 * known.every:
        every = known.every
    else:
        if stream is None and length >= 10:
            length -= length % 10
        every = -(-length // 10)
    return Setting(per_class, length, every, 0 if asked.all() else least)


def _per_class(
    name: str, sizes: np.ndarray, least: int, queries: int | None, known: Setting | None
) -> tuple[int, int]:
    """Queries per class, and the number of rows from which a class is asked for: at least `least`."""
    if queries is None:
        smallest = int(sizes[sizes >= least].min())
        if known is None:
            return max(1, min(100, smallest // 10)), least
        return min(known.per_class, smallest // 2), least
    asked = int((sizes >= least).sum())
    if queries < asked:
        raise ValueError(
            f"queries is {queries}, but each of {asked} classes of {name} needs at least one: ask for {asked} or more, "
            "or set a larger min_class (--min-class), which leaves small classes without queries"
        )
    most = 0
    for rows in (least, *np.unique(sizes[sizes > least]).tolist()):
        there = sizes[sizes >= rows]
        if len(there) < min(2, asked):
            break
        per_class = queries // len(there)
        if there.min() >= 2 * per_class:
            return per_class, rows
        most = max(most, len(there) * int(there.min() // 2))
    raise ValueError(
        f"queries is {queries}: {name} has enough rows for {most}, as at most half of a class become queries"
    )


def setting_named(
    name: str,
    y: np.ndarray,
    *,
    queries: int | None = None,
    stream: int | None = None,
    min_class: int | None = None,
) -> tuple[str, Setting]:
    """A data set's name in results, and its setting: as `setting_of`.

    Where the setting is not the usual one, the name has what makes the difference in brackets, so that rows of
    different settings are never taken for each other. It has the number of queries that are drawn, without a remainder.

    >>> y = np.repeat([0, 1, 2], 500)
    >>> setting_named("my data", y, queries=30, stream=1200, min_class=10)[0]
    'my data[queries=30,stream=1200]'
    >>> setting_named("my data", y, queries=151)[0]
    'my data'
    """
    given = {"queries": queries, "stream": stream, "min_class": min_class}
    setting = setting_of(name, y, **given)

    def same(**changed: int | None) -> bool:
        try:
            return setting_of(name, y, **{**given, **changed}) == setting
        except ValueError:  # the data cannot have that one
            return False

    for option in given:
        if same(**{option: None}):
            given[option] = None
    drawn = setting.per_class * int((np.unique(y, return_counts=True)[1] >= setting.min_class).sum())
    if given["queries"] is not None and same(queries=drawn):
        given["queries"] = drawn
    inside = ",".join(f"{option}={value}" for option, value in given.items() if value is not None)
    return (f"{name}[{inside}]" if inside else name), setting


def plain_name(dataset: str) -> str:
    """The name of a data set without the setting that `setting_named` has added.

    >>> plain_name("mnist[queries=500,min_class=30]"), plain_name("mine[1].npz")
    ('mnist', 'mine[1].npz')
    """
    return re.sub(r"\[(?:(?:queries|stream|min_class)=\d+,?)+\]$", "", dataset)
