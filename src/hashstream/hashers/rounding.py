"""How far rounding may move the values whose signs are the bits, and how bits are made independent of it.

The same row must get the same code with whatever other rows it is encoded, in whatever order they lie in memory, on any
number of threads: codes are compared between shards, copies and digests. Matrix products do not give that, as BLAS adds
up in another order for another shape. The signs of values that are further from 0 than rounding can move them do. A
row that has a value nearer to 0 is computed again in float64, together with others in the same case; where even that
value is nearer to 0 than the rounding of float64, by itself, so that the shape is always the same.

Proven, on any processor and with any BLAS that adds up products in float32 or float64:

- where bits are the signs of X W, for float64 and for float32 with up to 1,024 features (`kernels/settle.py`).

By a margin above what was measured, wherever float64 and float32 agree to the margin:

- X W in float32 with more features: 32 times what independent roundings would add up to;
- feature maps: `FeatureMap.bounded`; methods with functions of their own: `OnlineHasher._bounded`.

Rows that are computed by themselves in float64 have equal bits on one kind of processor and build of NumPy.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hashstream.hashers.kernels.settle import column_lengths, product_bound, squares, unsure

__all__ = ["Bounded", "bounded_product", "lengths", "narrowed", "unknown_bound", "widened"]

T = TypeVar("T")

UNKNOWN = 2.0**13
"""Units of rounding that values of unknown functions may be off, relative to the largest of their row."""


class Bounded(NamedTuple):
    """Values (n, r) whose signs are the bits, and how far rounding may have moved value k of row i: by less than
    rows[i] columns[k]; rows (n,), columns (r,)."""

    values: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    def unsure(self) -> np.ndarray:
        """Rows (m,) int64 of which a bit may be another with other rounding."""
        return unsure(self.values, self.rows, self.columns).nonzero()[0]


def lengths(X: np.ndarray) -> np.ndarray:
    """|x| of every row (n, d), from below only by what squares lose that are too small for the dtype."""
    with np.errstate(over="ignore", under="ignore"):
        return np.sqrt(squares(np.ascontiguousarray(X)))


def bounded_product(
    W: np.ndarray,
    X: np.ndarray,
    off: np.ndarray | float = 0.0,
    beyond: float = 0.0,
    minus: np.ndarray | None = None,
) -> Bounded:
    """X @ W, for rows X (n, d) that are themselves off by `off` (n,) units of rounding relative to |x|; `minus` (r,) is
    subtracted, which is a product of W with a row of length `beyond`."""
    known = lengths(X)  # before the product, which is faster then
    values = X @ W
    if minus is not None:
        values -= minus
    unit = float(np.finfo(X.dtype).eps) / 2
    rows = (known + beyond) * (1 + off * (unit / product_bound(len(W), X.dtype)))
    with np.errstate(over="ignore"):
        return Bounded(values, rows, (product_bound(len(W), X.dtype) * column_lengths(W)).astype(X.dtype))


def unknown_bound(values: np.ndarray) -> Bounded:
    """Values of functions of which nothing is known."""
    values = np.ascontiguousarray(values)
    most = np.abs(values).max(axis=1, initial=0)
    unit = np.finfo(values.dtype).eps / 2
    return Bounded(values, most, np.full(values.shape[1], UNKNOWN * unit, values.dtype))


def widened(fitted: T) -> T:
    """A copy of a fitted object that computes in float64: with its float32 arrays as float64."""
    wide = copy(fitted)
    wide.__dict__ = {name: _wide(value) for name, value in vars(fitted).items()}
    return wide


def _wide(value: Any) -> Any:
    single = isinstance(value, np.ndarray) and value.dtype == np.float32
    return value.astype(np.float64) if single else value


def narrowed(values: np.ndarray, dtype: np.dtype | str) -> np.ndarray:
    """Values of float64 in another dtype, none of them with another sign."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = values.astype(dtype, copy=False)
    lost = (narrow == 0) & (values != 0)
    if lost.any():
        narrow[lost] = np.copysign(np.finfo(narrow.dtype).tiny, values[lost])
    return narrow
