"""Rescaling of rows for learning, where the scale of the features moves or a row is far too long. Our own.

A code is the signs of linear functions, so a row and any positive multiple of it have the same code. Learning does
depend on lengths: a single row of length 1e12 outweighs all others in a sum of squares, and a W of one scale cannot
follow features that move by orders of magnitude. `RowScale.apply` therefore rescales rows for learning (never for
encoding), and only in two cases:

- The scale moves. The typical length is the median length of the rows of the first batch. A batch whose own median is
  more than `MOVED` times longer or shorter sets a new typical length; from then on rows are multiplied by what takes
  the new typical length back to the first.
- A row is more than `LONG` times as long as the typical row. It is learned from at about the typical length.

All other features are returned unchanged, bit for bit. Rows are multiplied by powers of two only, which is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log2
from typing import Any, ClassVar, Self

import numpy as np

from hashstream.hashers.state_fields import Field, Real

MOVED = 4.0
"""A W that is learned at one scale still learns at scales this near to it."""
LONG = 10.0
"""In digits, MNIST, CIFAR-10 and Tiny-ImageNet features no row is longer than twice the median, or below a quarter."""
SQUARABLE = 1e10
"""Lengths up to this, and down to its inverse, can be squared and summed in single precision."""


@dataclass(frozen=True)
class RowScale:
    """The scale of a stream.

    typical : the typical length of a row; 0 before the first row that is not zero.
    learned : the length that a typical row has in learning: the first typical length, within what can be squared.
    """

    FIELDS: ClassVar[dict[str, Field]] = {"typical_length_": Real(low=0), "learned_length_": Real(low=0)}
    """The entries of a method's state that hold it."""

    typical: float = 0.0
    learned: float = 0.0

    @classmethod
    def of(cls, hasher: Any) -> Self:
        """The scale that a method has kept as its state."""
        return cls(hasher.typical_length_, hasher.learned_length_)

    def keep(self, hasher: Any) -> None:
        """Keep the scale as a method's state."""
        hasher.typical_length_, hasher.learned_length_ = self.typical, self.learned

    def check(self) -> None:
        """Raise ValueError where this cannot be a scale, as in a forged file."""
        if (self.typical or self.learned) and not (
            self.typical > 0 and 1 / SQUARABLE <= self.learned <= SQUARABLE
        ):
            raise ValueError(f"rows of length {self.typical} are not learned from at {self.learned}")

    @property
    def moved(self) -> bool:
        """Whether the typical length differs from that of the first rows, or was too long or short to be squared."""
        return self.typical != self.learned

    @property
    def exponent(self) -> int:
        """Rows are learned from at 2^exponent times their length; 0 as long as the scale has not moved."""
        return round(log2(self.learned) - log2(self.typical)) if self.moved else 0

    def apply(self, X: np.ndarray, moved: float = MOVED) -> tuple[np.ndarray, RowScale]:
        """X (n, d) at the scale to learn from (X itself if that is its own), and the scale after these rows."""
        with np.errstate(over="ignore"):
            squares = np.vecdot(X, X)
        low, high = self.typical / moved, self.typical * moved
        if low * low <= float(squares.min()) and 0 < float(squares.max()) <= high * high < np.inf:
            exponent = self.exponent  # no row is out of the ordinary, so their median is not
            return times_power_of_two(X, exponent) if exponent else X, self
        lengths = row_lengths(X, squares)
        nonzero = np.sort(lengths[lengths > 0])
        if not len(nonzero):
            return X, self
        scale = self.follow(float(nonzero[(len(nonzero) - 1) // 2]), moved)
        return scale._rescaled(X, lengths), scale

    def reapply(self, X: np.ndarray) -> np.ndarray:
        """Rows X (n, d) that were learned before, at the scale at which they were, unless the scale has moved since."""
        with np.errstate(over="ignore"):
            lengths = row_lengths(X, np.vecdot(X, X))
        return self._rescaled(X, lengths) if self.typical else X

    def _rescaled(self, X: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        exponents = np.full(len(X), self.exponent)
        long = lengths > LONG * self.typical
        exponents[long] = np.rint(log2(self.learned) - np.log2(lengths[long]))
        return times_power_of_two(X, exponents) if exponents.any() else X

    def follow(self, length: float, moved: float = MOVED) -> RowScale:
        """The scale after rows whose median length is `length`; 0 where all rows are zero."""
        if not self.typical and length:
            return RowScale(length, min(max(length, 1 / SQUARABLE), SQUARABLE))
        if not length or self.typical / moved <= length <= self.typical * moved:
            return self
        return replace(self, typical=length)


def row_lengths(X: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """(n,) float64, also of rows whose `squares` overflow or vanish; at most the largest finite number."""
    lengths = np.sqrt(squares, dtype=np.float64)
    poor = np.flatnonzero(~((squares > SQUARABLE**-2) & (squares < np.inf)))
    largest = np.abs(X[poor]).max(axis=1, initial=0).astype(np.float64)
    unit = X[poor] / np.where(largest > 0, largest, 1)[:, None]
    with np.errstate(over="ignore"):
        lengths[poor] = largest * np.sqrt(np.vecdot(unit, unit))
    return np.minimum(lengths, np.finfo(np.float64).max)


def times_power_of_two(values: np.ndarray, exponent: Any) -> np.ndarray:
    """values (n, d) times two to the power of `exponent`: one for all, or one for each row."""
    exponent = np.reshape(exponent, (-1, 1))
    half = exponent // 2  # the whole power may be beyond the precision
    one = values.dtype.type(1)
    product: np.ndarray = values * np.ldexp(one, half) * np.ldexp(one, exponent - half)
    return product
