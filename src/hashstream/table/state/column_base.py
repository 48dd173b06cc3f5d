"""The contract of a field's column: typed values by slot, in buffers that grow at the end only.

A column never changes: `extended` returns another one, which shares the buffer. Missing values are allowed everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

__all__ = ["FieldColumn", "equal_to_any", "listed", "shown"]


class FieldColumn(ABC):
    """Values by slot. kind : as in `fields=`. holds : its values, in an error."""

    kind: ClassVar[str]
    holds: ClassVar[str]

    @classmethod
    @abstractmethod
    def read(cls, values: Any, name: str) -> Self:
        """The column of these values; TypeError or ValueError names the field and the row."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The column whose `arrays` these are; ValueError or KeyError where there is none."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def extended(self, other: Self) -> Self:
        """The column with another one appended. This one stays as it is; only the newest may be extended."""

    @abstractmethod
    def padded(self, n: int) -> Self:
        """The column with missing values at its end, so that it has n."""

    @abstractmethod
    def chosen(self, slots: np.ndarray) -> Self:
        """A column of the values of some slots."""

    @abstractmethod
    def take(self, slots: np.ndarray) -> np.ndarray:
        """The values of slots of any shape as Python has them, None for a missing one: object."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for `from_arrays`."""

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    # ---- filters

    @abstractmethod
    def operand(self, value: Any, name: str) -> Any:
        """A value to compare with, checked and as `mask` takes it; TypeError names the field."""

    @abstractmethod
    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        """Which of the slots first to last match, bool. A missing value matches nothing.

        op : "eq", "lt", "lte", "gt", "gte" with an operand, "in" with a tuple of them, or "exists" without one.
        """

    def wrong(self, name: str, row: int | None, value: Any) -> TypeError:
        """The error about a value that the field cannot hold; without a row, one that it is compared with."""
        if row is None:
            return TypeError(f"field {name!r} holds {self.holds}, not {shown(value)}")
        return TypeError(f"field {name!r}, row {row}: {shown(value)} is not {self.holds}")


def shown(value: Any) -> str:
    """A value in an error, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def listed(values: Any) -> Any:
    """Values to go through one by one, as Python has them where that is quick."""
    return values.tolist() if isinstance(values, np.ndarray) and values.dtype.kind != "M" else values


def equal_to_any(numbers: np.ndarray, few: list[Any]) -> np.ndarray:
    """Which numbers are equal to one of a few others, bool."""
    if not few:
        return np.zeros(len(numbers), bool)
    found: np.ndarray = numbers == few[0]
    for one in few[1:]:
        found |= numbers == one
    return found
