"""The base class of protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from hashstream.evaluate.protocols.task import PreparedDataset, Task
from hashstream.evaluate.scores import Ties

__all__ = ["Curves", "Protocol"]

Curves = Mapping[str, Mapping[int, float]]
"""The checkpoints of one run: plain name of a metric -> rows learned -> value."""


@dataclass(frozen=True)
class Protocol(ABC):
    """A question about methods. A subclass is a frozen dataclass with at most one number, which has a default.

    kind: its name without the number. question: what it answers. number: the meaning of the number.
    free_points: whether other checkpoints than those of `points` can be asked for.
    """

    kind: ClassVar[str]
    question: ClassVar[str]
    number: ClassVar[str] = ""
    free_points: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Its name in results files: the kind, and the number if it is not the default."""
        numbers = [getattr(self, field.name) for field in fields(self)]
        changed = [n for n, field in zip(numbers, fields(self), strict=True) if n != field.default]
        return ":".join([self.kind, *(f"{number:.12g}" for number in changed)])

    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """Plain names of the metrics of every checkpoint; a checkpoint may have more."""

    @abstractmethod
    def task(self, data: PreparedDataset, seed: int, *, ties: Ties = "paper") -> Task:
        """The stream of one run, and the function that scores a hasher."""

    def points(self, data: PreparedDataset) -> tuple[int, ...]:
        """The default checkpoints, as numbers of learned rows. The same for every seed."""
        return data.setting.checkpoints

    def cuts(self, data: PreparedDataset) -> tuple[int, ...]:
        """Numbers of learned rows at which a batch always ends: by default the checkpoints."""
        return self.points(data)

    @abstractmethod
    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        """The figures to show first: (rows learned, metric)."""

    def run_metrics(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """Metrics of a whole run, computed from all its checkpoints; NaN for an event that did not happen.

        They are computed from the rows of results and never stored, so an interrupted and continued run has the same
        values as an uninterrupted one.
        """
        return {}
