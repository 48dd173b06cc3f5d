"""The size of an experiment on a data set: queries, stream, checkpoints."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from hashstream.datasets import CATALOGUE, Setting

__all__ = ["SETTINGS", "Setting", "setting_of"]

SETTINGS = MappingProxyType({name: record.setting for name, record in CATALOGUE.items()})
"""The setting of every data set in the catalogue."""


def setting_of(name: str, y: np.ndarray) -> Setting:
    """The setting of a data set by name; for the user's own, one that fits its labels y (n,).

    The latter has a tenth of the smallest class as queries per class, at most 100; the stream is the rest, at most
    20,000 rows, with ten checkpoints.

    >>> setting_of("my data", np.repeat([0, 1, 2], 500))
    Setting(per_class=50, stream=1350, every=135)
    """
    if name in SETTINGS:
        return SETTINGS[name]
    _, sizes = np.unique(y, return_counts=True)
    per_class = int(min(100, sizes.min() // 10))
    every = min(20_000, len(y) - per_class * len(sizes)) // 10
    if per_class < 1 or every < 1:
        raise ValueError(
            f"the smallest class of {name} has {sizes.min()} rows: at least 10 are needed, as a tenth are queries"
        )
    return Setting(per_class=per_class, stream=10 * every, every=every)
