"""How codes of different versions compare, as a table has found out; `comparing.py` measures it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["LEAST_ITEMS", "Choice", "Comparison"]

LEAST_ITEMS = 50  # with labels, in the sample

Choice = Literal["like", "current"]


@dataclass(frozen=True)
class Comparison:
    """The choice of `compare="auto"`, and why.

    choice : "like" or "current". like, current : mAP of both on the sample; None where there is too little data.
    rows : learned from when it was measured.
    """

    choice: Choice = "like"
    like: float | None = None
    current: float | None = None
    rows: int = 0

    @property
    def reason(self) -> str:
        """One sentence."""
        if not self.rows:
            return "not measured yet: codes have been of one version, or too few rows were learned"
        if self.like is None or self.current is None:
            return f"too little data: fewer than {LEAST_ITEMS} items of the sample have a label"
        return (
            f"mAP on the sample was {self.like:.3f} like with like and {self.current:.3f} by the current functions, "
            f"after {self.rows:,} rows"
        )

    to_fields = asdict

    @classmethod
    def from_fields(cls, stored: Any) -> Comparison:
        """The inverse of `to_fields`; ValueError where it is not one."""
        found = cls(**stored)
        numbers = [value for value in (found.like, found.current) if value is not None]
        fits = all(isinstance(value, float) and 0 <= value <= 1 for value in numbers)
        if found.choice not in ("like", "current") or type(found.rows) is not int or not fits:
            raise ValueError("the comparison of versions is not one")
        return found
