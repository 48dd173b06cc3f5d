"""Signs that do not depend on rounding: binding of `_native/settle.c`, and twins. `rounding.py` has the bounds.

`settle` is for values that are one matrix product. Whatever the order in which BLAS adds up d products x_i w_i in
floating point with unit roundoff u, it is off by at most

    d u / (1 - d u) sum |x_i w_i|  <=  d u / (1 - d u) |x| |w|,

so a value that is further from 0 than that has the sign of the exact value. The others are few. Each is computed again
in one fixed order: float32 in float64, float64 with a compensated sum. Where a value is sure in one order and not in
another, it is so far from 0 that both signs are that of the exact value. So the kernel may leave a value as it is where
a sum in many parts, which has fewer roundings in a row and a smaller bound, is sure of the same sign.

`unsure` finds the rows that have a value nearer to 0 than a bound, for functions that are more than a product.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import Any, Self

import numpy as np

from hashstream import hamming
from hashstream.hashers.kernels.binding import POINTER, SIZE, address, bind, check_arrays, choice, structure

PROVEN = 1024
"""Features up to which the bound above is used for float32. For more it would settle too many values, and
sqrt(1024 d) u takes its place: 32 times what independent roundings add up to (Higham and Mary, "A new approach to
probabilistic rounding error analysis", 2019)."""
MARGIN = 1.1
"""For the rounding of the bound itself, and of the sum in a fixed order."""


def roundings(d: int, dtype: np.dtype) -> float:
    """Units of rounding that a product of d terms may be off, relative to |x| |w|."""
    return sqrt(PROVEN * d) if dtype == np.float32 and d > PROVEN else d + 2.0


def product_bound(d: int, dtype: np.dtype) -> float:
    """How far a product of d terms may be off, relative to |x| |w|."""
    return MARGIN * roundings(d, dtype) * float(np.finfo(dtype).eps) / 2


def column_lengths(matrix: np.ndarray) -> np.ndarray:
    """|w_k| of the columns of a matrix (d, r), float64: infinite where it is too large, and 0 only where w_k is."""
    most = np.abs(matrix).max(axis=0, initial=0).astype(np.float64)
    scaled = matrix / np.where(most > 0, most, 1)  # in float64, so that no square is too large or too small
    with np.errstate(over="ignore"):
        lengths: np.ndarray = most * np.sqrt(np.einsum("ij,ij->j", scaled, scaled))
    return lengths


_Columns = structure("Columns", "size d r", "pointer W scale", "real base terms most")


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a matrix (d, r) as rows W (r, d), C-contiguous, and how near to 0 a product with x is not sure:
    it is sure where |x . w_k| scale_k > |x| + base. base counts numbers that are too small for the dtype. No product is
    infinite where |x|^2 < most."""

    W: np.ndarray
    scale: np.ndarray
    base: float
    most: float
    given: Any = field(init=False, repr=False)
    """This as the kernel takes it: asking for addresses takes longer than settling a row."""

    def __post_init__(self) -> None:
        (r, d), terms = self.W.shape, roundings(self.W.shape[1], self.W.dtype)
        addresses = self.W.ctypes.data, self.scale.ctypes.data
        object.__setattr__(self, "given", _Columns(d, r, *addresses, self.base, terms, self.most))

    @classmethod
    def of(cls, matrix: np.ndarray) -> Self:
        limits, (d, _), dtype = np.finfo(matrix.dtype), matrix.shape, matrix.dtype
        lengths, largest = column_lengths(matrix), float(limits.max)
        with np.errstate(over="ignore", divide="ignore"):
            scale = np.minimum(1 / (product_bound(d, dtype) * lengths), largest)
            base = min(2 * d * float(limits.tiny) * float(scale.max(initial=0)), largest)
            most = np.minimum(np.square(largest / (2 * lengths)), largest).min(initial=largest)
        return cls(np.ascontiguousarray(matrix.T), scale.astype(dtype), base, float(most))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.W, self.scale, self.base, self.most)  # a copy has addresses of its own


_known: dict[int, tuple[weakref.ref[np.ndarray], Columns]] = {}


def columns_of(matrix: np.ndarray) -> Columns:
    """The columns of a matrix that nobody writes into, kept while it is: they take longer than encoding a row."""
    key = id(matrix)
    found = _known.get(key)
    if found is None or found[0]() is not matrix:
        found = weakref.ref(matrix, partial(_forget, _known, key)), Columns.of(matrix)
        _known[key] = found
    return found[1]


def _forget(
    known: dict[int, tuple[weakref.ref[np.ndarray], Columns]], key: int, gone: weakref.ref[np.ndarray]
) -> None:
    """`known` is passed in: when the interpreter ends, matrices may outlive the names of this module."""
    found = known.get(key)
    if found is not None and found[0] is gone:
        del known[key]


# ---- binding

SQUARES = bind("squares", POINTER, *[SIZE] * 2, POINTER, result=None)
SETTLE = bind("settle", *[POINTER] * 2, SIZE, *[POINTER] * 3)
UNSURE = bind("unsure", POINTER, *[SIZE] * 2, *[POINTER] * 3, result=None)


def compiled_squares(X: np.ndarray) -> np.ndarray:
    if not (X.flags.c_contiguous and X.flags.aligned):
        raise ValueError("X must be C-contiguous and aligned")
    found = np.empty(len(X), X.dtype)
    SQUARES[X.dtype.char](X.ctypes.data, *X.shape, found.ctypes.data)
    return found


def compiled_settle(
    X: np.ndarray,
    columns: Columns,
    values: np.ndarray,
    codes: np.ndarray | None = None,
    squares: np.ndarray | None = None,
) -> bool:
    (n, d), (r, known), dtype = X.shape, columns.W.shape, columns.W.dtype
    if d != known or values.shape != (n, r) or not (X.dtype == values.dtype == dtype):
        raise ValueError(
            f"X {X.shape}, W {columns.W.shape} and values {values.shape} do not fit, or their dtypes"
        )
    if not (X.flags.c_contiguous and X.flags.aligned and values.flags.carray):
        raise ValueError("X and values must be C-contiguous and aligned, and values writeable")
    if codes is not None:
        check_arrays(np.uint8, {"codes": (codes, (n, -(-r // 8)))})
    if squares is not None:
        check_arrays(dtype, {"squares": (squares, (n,))})
    given = ctypes.byref(columns.given), X.ctypes.data, n, address(squares), values.ctypes.data
    return not SETTLE[dtype.char](*given, address(codes))


def compiled_unsure(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(values)
    (n, r), dtype = values.shape, values.dtype
    rows, columns, marks = (
        np.ascontiguousarray(rows, dtype),
        np.ascontiguousarray(columns, dtype),
        np.empty(n, np.bool_),
    )
    check_arrays(dtype, {"rows": (rows, (n,)), "columns": (columns, (r,))})
    UNSURE[dtype.char](values.ctypes.data, n, r, *(part.ctypes.data for part in (rows, columns, marks)))
    return marks


# ---- twin

PART = 1 << 18  # numbers that are multiplied at once


def twin_squares(X: np.ndarray) -> np.ndarray:
    """|x|^2 of every row of X (n, d), C-contiguous: (n,). Asked for before a product, it brings X into the cache faster
    than BLAS does."""
    with np.errstate(all="ignore"):
        found: np.ndarray = np.einsum("ij,ij->i", X, X)
    return found


def twin_settle(
    X: np.ndarray,
    columns: Columns,
    values: np.ndarray,
    codes: np.ndarray | None = None,
    squares: np.ndarray | None = None,
) -> bool:
    """Compute values (n, r), about X W^T, again in place where their sign is not sure, and pack the signs.

    X : (n, d) C-contiguous, float32 or float64 as the columns are. codes : (n, ceil(r / 8)) uint8, overwritten; None
    where signs need not be packed. squares : those of X, where they are known. Only the twin computes all again that
    are not finite; where there are any, `overflown` has to follow. Returns False where there are codes and a value is
    not finite.
    """
    squares = twin_squares(X) if squares is None else squares
    with np.errstate(all="ignore"):
        limits = (
            np.sqrt(squares + X.shape[1] * np.finfo(X.dtype).tiny) + columns.base
        )  # small squares may be lost
        sure = (np.abs(values * columns.scale) > limits[:, None]) & np.isfinite(values)
        rows, places = np.nonzero(~sure)
        step = max(1, PART // X.shape[1])
        for start in range(0, len(rows), step):
            i, k = rows[start : start + step], places[start : start + step]
            values[i, k] = (_dot_single if X.dtype == np.float32 else _dot_double)(X[i], columns.W[k])
    return codes is None or hamming.pack_signs(values, codes)


def _dot_single(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A (m, d) . B (m, d) by rows, in float64: number i is added to sum i mod 8."""
    m, d = A.shape
    products = np.zeros((m, -(-d // 8), 8))
    np.multiply(A, B, out=products.reshape(m, -1)[:, :d], dtype=np.float64)
    s = np.zeros((m, 8))
    for i in range(products.shape[1]):
        s += products[:, i]
    total = ((s[:, 0] + s[:, 4]) + (s[:, 2] + s[:, 6])) + ((s[:, 1] + s[:, 5]) + (s[:, 3] + s[:, 7]))
    return _with_sign(total.astype(np.float32), total)


def _dot_double(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A (m, d) . B (m, d) by rows: Dot2 of Ogita, Rump and Oishi, both scaled by powers of 2."""
    (A, a), (B, b) = _scaled(A), _scaled(B)
    total, rest = np.zeros((2, len(A)))
    for product, lost in _exact_products(A, B):
        after = total + product
        part = after - total
        off = total - (after - part)
        rest += (off + (product - part)) + lost
        total = after
    total = total + rest
    return _with_sign(np.ldexp(total, a + b), total)


def _scaled(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    most = np.abs(A).max(axis=1, initial=0)
    exponents = np.where(np.isfinite(most), np.frexp(most)[1], 0)
    return np.ldexp(A, -exponents[:, None]), exponents


def _exact_products(A: np.ndarray, B: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The products of column after column, rounded, and what rounding has lost, by Veltkamp's splitting."""
    for x, y in zip(A.T, B.T, strict=True):
        product = x * y
        (high, low), (high_y, low_y) = _halves(x), _halves(y)
        yield product, low * low_y - (((product - high * high_y) - low * high_y) - high * low_y)


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = 134217729.0 * x  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def _with_sign(values: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Values, those that became 0 as the smallest normal number with the sign of `exact`."""
    lost = (values == 0) & (exact != 0)
    values[lost] = np.copysign(np.finfo(values.dtype).tiny, exact[lost])
    return values


def twin_unsure(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Rows (n,) bool with a value that is nearer to 0 than rows[i] columns[k], or not finite; values (n, r)."""
    columns = columns.astype(values.dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = rows.astype(values.dtype, copy=False)[:, None]
        small = 4096 * np.finfo(columns.dtype).tiny  # room for numbers that are too small for the dtype
        limits = rows * columns + np.where((rows != 0) & (columns > 0), small, 0)
    marks: np.ndarray = ~((np.abs(values) >= limits) & np.isfinite(values)).all(axis=1)
    return marks


# ---- choice

squares = choice(lambda: SQUARES, compiled_squares, twin_squares)
settle = choice(lambda: SETTLE, compiled_settle, twin_settle)
unsure = choice(lambda: UNSURE, compiled_unsure, twin_unsure)
overflown = twin_settle
