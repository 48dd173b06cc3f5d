"""What a protocol is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from hashstream.evaluate.protocols.course import Course, PreparedDataset

__all__ = ["Curves", "Protocol"]

Curves = Mapping[str, Mapping[int, float]]
"""The looks of one run: plain name of a metric -> rows learned -> value."""


@dataclass(frozen=True)
class Protocol(ABC):
    """A question about methods. A subclass is a frozen dataclass with one number at most, which has a default.

    kind: its name without the number. question: what a user wants to know. number: what the number means.
    free_points: whether looks may be taken at other points than `points` says.
    """

    kind: ClassVar[str]
    question: ClassVar[str]
    number: ClassVar[str] = ""
    free_points: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Its name in results files: the kind, and the number where it is not the default."""
        numbers = [getattr(self, field.name) for field in fields(self)]
        changed = [n for n, field in zip(numbers, fields(self), strict=True) if n != field.default]
        return ":".join([self.kind, *(f"{number:.12g}" for number in changed)])

    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """Plain names of what every look has; a look may have more."""

    @abstractmethod
    def course(self, field: PreparedDataset, seed: int, *, ties: str = "paper") -> Course:
        """Stream and judge for one run."""

    def points(self, field: PreparedDataset) -> tuple[int, ...]:
        """After how many rows to look, where nobody says otherwise. The same for every seed."""
        return field.setting.checkpoints

    @abstractmethod
    def highlights(self, points: Sequence[int]) -> list[tuple[int, str]]:
        """The figures to show first: (rows learned, metric)."""

    def hindsight(self, curves: Curves, points: Sequence[int]) -> dict[str, float]:
        """What only all looks of a run together can tell. NaN where something did not happen within the stream.

        It is computed from rows of results whenever somebody asks, and never stored, so that a run that was
        interrupted and continued says the same as one in a single go.
        """
        return {}
