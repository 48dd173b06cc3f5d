"""How large an experiment is, for each data set: queries, stream, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

__all__ = ["SETTINGS", "Setting", "setting_of"]


@dataclass(frozen=True)
class Setting:
    """Queries of each class, rows to learn from, and after how many of them each look is taken.

    >>> SETTINGS["mnist"].checkpoints
    (2000, 4000, 6000, 8000, 10000, 12000, 14000, 16000, 18000, 20000)
    """

    per_class: int
    stream: int
    every: int

    @property
    def checkpoints(self) -> tuple[int, ...]:
        return tuple(range(self.every, self.stream + 1, self.every))


SETTINGS = MappingProxyType(
    {
        "mnist": Setting(per_class=100, stream=20_000, every=2_000),
        "fashion-mnist": Setting(per_class=100, stream=20_000, every=2_000),
        "cifar10": Setting(per_class=100, stream=20_000, every=2_000),
        "cifar10-vgg16": Setting(per_class=100, stream=20_000, every=2_000),
        "places205": Setting(per_class=20, stream=100_000, every=5_000),
        "tinyimagenet200": Setting(per_class=20, stream=100_000, every=5_000),  # stands in for Places205
        "digits": Setting(per_class=20, stream=1_500, every=100),  # ours: the paper has nothing so small
    }
)
"""The paper's setting for each data set that it has, and ours for the others."""


def setting_of(name: str, y: np.ndarray) -> Setting:
    """The setting of a data set by name; for one of the user's own, one that fits its labels y (n,).

    Then a tenth of the smallest class asks, 100 rows at the most, and the stream is all that is left, 20,000 rows
    at the most, with ten looks.

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
            f"the smallest class of {name} has {sizes.min()} rows: a tenth of each class asks, so 10 are needed"
        )
    return Setting(per_class=per_class, stream=10 * every, every=every)
