"""AdaptHash's pairs in C: `dense_pairs` as they are written, `Block` without O(d r^2) for each.

A block leaves W where it is, and small matrices move in its place.

A pair changes W to (W T - x_i a^T - x_j b^T) N with T = (1 + lambda) I - lambda W^T W and N the diagonal matrix that
gives the columns unit length. So, for as long as we like,

    W = base S + Z^T C

with `base` the W at which we began, S (r x r), Z the samples of the pairs that moved W and C their weights: a pair
multiplies S and C by T N and appends two rows to Z and C. Projections come from those of `base`: x^T base S +
(Z x)^T C. The Gram matrix G = W^T W, which T and N need, follows without W: with v = W^T x_i and u = W^T x_j

    G <- N (T G T - T v a^T - a v^T T - T u b^T - b u^T T + [a b] [x_i x_j]^T [x_i x_j] [a b]^T) N

After PAIRS pairs that moved W it is put together, and Z begins anew. Blocks are counted along the stream, not by call,
and every sum is taken in the same order whatever the call, so a stream gives the same bits however it is cut. (No BLAS
for the products of a block: they are small, and its threads would spend longer waiting for each other.)

Not where d is small: it saves nothing there, and with r > d the Gram matrix has directions that W has not, in which
rounding would grow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hashstream._native import lib

__all__ = ["KERNEL", "PAIRS", "Block", "dense_pairs", "is_wide"]

PAIRS = 32


class _CBlock(ctypes.Structure):
    _fields_ = (
        ("d", ctypes.c_int64),
        ("r", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("filled", ctypes.c_int64),
        ("moved", ctypes.c_int64),
        ("allowed", ctypes.c_double),
        ("wanted", ctypes.c_double),
        ("eta", ctypes.c_double),
        ("lambda", ctypes.c_double),
    )


def is_wide(W: np.ndarray) -> bool:
    """Whether W (d, r) is large enough for a block to pay: 2 d r^2 products for a pair against some 3 r^3."""
    return W.shape[0] >= 1.5 * W.shape[1]


def check_arrays(dtype: np.dtype, shapes: Mapping[str, tuple[np.ndarray, tuple[int, ...]]]) -> None:
    """ValueError unless every array is C-contiguous, of this dtype and has its shape: kernels see addresses only."""
    for name, (array, shape) in shapes.items():
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise ValueError(
                f"{name} must be a C-contiguous array of {dtype} and shape {shape}, not {array.dtype} {array.shape}"
            )


def dense_pairs(
    W: np.ndarray,
    X: np.ndarray,
    similar: np.ndarray,
    tolerances: tuple[float, float],
    eta: float,
    lambda_: float,
) -> tuple[np.ndarray, int]:
    """`adapthash.learn_pairs` in C."""
    W = W.copy()
    similar = np.ascontiguousarray(similar, np.uint8)
    check_arrays(W.dtype, {"X": (X, (2 * len(similar), len(W)))})
    block = _CBlock(*W.shape, 0, 0, 0, *tolerances, eta, lambda_)
    call = KERNEL[X.dtype.char + "-dense"]
    if call(ctypes.byref(block), W.ctypes.data, X.ctypes.data, similar.ctypes.data, len(similar)) < 0:
        raise MemoryError("no memory for the pairs of this batch")
    return W, int(block.moved)


@dataclass
class Block:
    """W = base S + Z^T C.

    base : (d, r). gram : (r, r), W^T W. mixing : (r + 2 PAIRS, r), S and below it C. samples : (2 PAIRS, d), Z.
    filled : rows of Z and C that are in use; the others are zero in C.
    """

    base: np.ndarray
    gram: np.ndarray
    mixing: np.ndarray
    samples: np.ndarray
    filled: int

    @classmethod
    def of(cls, W: np.ndarray) -> Self:
        """A block that begins at W."""
        d, r = W.shape
        mixing = np.eye(r + 2 * PAIRS, r, dtype=W.dtype)
        return cls(W, W.T @ W, mixing, np.zeros((2 * PAIRS, d), W.dtype), 0)

    def copy(self) -> Self:
        """The same block, with arrays that may be written into."""
        return type(self)(
            self.base.copy(), self.gram.copy(), self.mixing.copy(), self.samples.copy(), self.filled
        )

    def check(self) -> None:
        """ValueError where the parts do not fit together, or more rows are in use than there are."""
        (d, r), rows = self.base.shape, len(self.samples)
        parts = {
            "base": (self.base, (d, r)),
            "gram": (self.gram, (r, r)),
            "mixing": (self.mixing, (r + rows, r)),
            "samples": (self.samples, (rows, d)),
        }
        check_arrays(self.base.dtype, parts)
        if rows % 2 or self.filled % 2 or not 0 <= self.filled <= rows:
            raise ValueError(f"filled must be an even number from 0 to {rows}, not {self.filled}")

    def projection(self) -> np.ndarray:
        """W, (d, r)."""
        self.check()
        W = np.empty_like(self.base)
        block = _CBlock(*W.shape, len(self.samples), self.filled)
        KERNEL[W.dtype.char + "-projection"](
            ctypes.byref(block), W.ctypes.data, self.base.ctypes.data, self.mixing.ctypes.data, self.samples.ctypes.data
        )  # fmt: skip
        return W

    def learn_pairs(
        self,
        X: np.ndarray,
        similar: np.ndarray,
        tolerances: tuple[float, float],
        eta: float,
        lambda_: float,
    ) -> int:
        """`adapthash.learn_pairs` in C; the block moves in place. Returns how many of the pairs moved W."""
        similar = np.ascontiguousarray(similar, np.uint8)
        self.check()
        check_arrays(self.base.dtype, {"X": (X, (2 * len(similar), len(self.base)))})
        block = _CBlock(*self.base.shape, len(self.samples), self.filled, 0, *tolerances, eta, lambda_)
        failed = KERNEL[X.dtype.char](
            ctypes.byref(block), self.base.ctypes.data, self.gram.ctypes.data, self.mixing.ctypes.data,
            self.samples.ctypes.data, X.ctypes.data, similar.ctypes.data, len(similar),
        )  # fmt: skip
        if failed:
            raise MemoryError("no memory for the pairs of this batch")
        self.filled = block.filled
        return int(block.moved)


KERNEL: dict[str, Any] = {}
"""dtype character, also with "-dense" and "-projection" -> the kernel; empty where there is none: then
`adapthash.learn_pairs` serves."""

if lib is not None and hasattr(lib, "hs_adapthash_f32"):
    for _char, _kind in (("f", "f32"), ("d", "f64")):
        KERNEL[_char] = getattr(lib, f"hs_adapthash_{_kind}")
        KERNEL[_char].argtypes = [ctypes.c_void_p] * 7 + [ctypes.c_int64]
        KERNEL[f"{_char}-dense"] = getattr(lib, f"hs_adapthash_dense_{_kind}")
        KERNEL[f"{_char}-dense"].argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64]
        KERNEL[f"{_char}-projection"] = getattr(lib, f"hs_adapthash_projection_{_kind}")
        KERNEL[f"{_char}-projection"].argtypes = [ctypes.c_void_p] * 5
    for _name, _function in KERNEL.items():
        _function.restype = None if "projection" in _name else ctypes.c_int64
