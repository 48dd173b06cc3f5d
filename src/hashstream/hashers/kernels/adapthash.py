"""AdaptHash's pairs: binding of `_native/adapthash.c`, and twin.

The twin takes the steps as they are written in `adapthash.py`, at O(d r^2) for each pair that moves W. Where W is wide
(d well above r), the binding takes the same steps at O(d r + r^3), in blocks of pairs. A block leaves W where it is;
small matrices move in its place:

A pair changes W to (W T - x_i a^T - x_j b^T) N with T = (1 + lambda) I - lambda W^T W and N the diagonal matrix that
gives the columns unit length. So after any number of pairs

    W = base S + Z^T C

with `base` the W at the beginning of the block, S (r x r), Z the samples of the pairs that moved W and C their
weights: a pair multiplies S and C by T N and appends two rows to Z and C. Projections come from those of `base`:
x^T base S + (Z x)^T C. The Gram matrix G = W^T W, which T and N need, follows without W: with v = W^T x_i and
u = W^T x_j

    G <- N (T G T - T v a^T - a v^T T - T u b^T - b u^T T + [a b] [x_i x_j]^T [x_i x_j] [a b]^T) N

After PAIRS pairs that moved W, W is computed and the next block begins. Blocks are counted along the stream, not by
call, and every sum is taken in the same order whatever the call, so a stream gives the same bits however it is divided
into calls. (The products of a block do not use BLAS: they are small, and its threads would spend longer waiting for
each other.)

Blocks are not used where d is small. They would save nothing, and with r > d the Gram matrix has directions that W
lacks, in which rounding errors would grow.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Self

import numpy as np

from hashstream.hashers.kernels.binding import POINTER, SIZE, bind, check_arrays, choice, structure

PAIRS = 32


def is_wide(W: np.ndarray) -> bool:
    """True where W (d, r) is large enough for a block to pay: 2 d r^2 products per pair against some 3 r^3."""
    return W.shape[0] >= 1.5 * W.shape[1]


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
        """Raise ValueError where the parts do not fit together, or more rows are in use than there are."""
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


Tolerances = tuple[float, float]
"""The largest distance of a similar pair without loss, and the smallest of a dissimilar pair."""

# ---- binding

KERNEL = bind("adapthash", *[POINTER] * 7, SIZE, result=SIZE)
DENSE = bind("adapthash_dense", *[POINTER] * 4, SIZE, result=SIZE)
PROJECTION = bind("adapthash_projection", *[POINTER] * 5, result=None)

_CBlock = structure("_CBlock", "size d r capacity filled moved", "real allowed wanted eta lambda")


def compiled_learn_pairs(
    W: np.ndarray,
    block: Block | None,
    X: np.ndarray,
    similar: np.ndarray,
    tolerances: Tolerances,
    eta: float,
    lambda_: float,
) -> tuple[np.ndarray, Block | None, int]:
    similar = np.ascontiguousarray(similar, np.uint8)
    check_arrays(W.dtype, {"X": (X, (2 * len(similar), len(W)))})
    char, pairs = W.dtype.char, (X.ctypes.data, similar.ctypes.data, len(similar))
    if block is None:
        W = W.copy()
        call = _CBlock(*W.shape, 0, 0, 0, *tolerances, eta, lambda_)
        failed = DENSE[char](ctypes.byref(call), W.ctypes.data, *pairs)
    else:
        block.check()
        block = block.copy()
        call = _CBlock(*block.base.shape, len(block.samples), block.filled, 0, *tolerances, eta, lambda_)
        arrays = (block.base, block.gram, block.mixing, block.samples)
        failed = KERNEL[char](ctypes.byref(call), *(array.ctypes.data for array in arrays), *pairs)
    if failed:
        raise MemoryError("no memory for the pairs of this batch")
    if block is not None:
        block.filled = call.filled
        W = np.empty_like(block.base)
        arrays = (W, block.base, block.mixing, block.samples)
        PROJECTION[char](ctypes.byref(call), *(array.ctypes.data for array in arrays))
    return W, block, int(call.moved)


# ---- twin


def twin_learn_pairs(
    W: np.ndarray,
    block: Block | None,
    X: np.ndarray,
    similar: np.ndarray,
    tolerances: Tolerances,
    eta: float,
    lambda_: float,
) -> tuple[np.ndarray, Block | None, int]:
    """Learn from pairs in turn: the W after all of them, its block, and how many of the pairs moved it.

    W : (d, r). block : the same W as a block where it is wide, otherwise None. X : (2n, d), C-contiguous, pairs.
    similar : (n,) bool.
    """
    from scipy.special import expit  # here: the kernel does not need it, and importing it takes long

    r = W.shape[1]
    moved = 0
    for t, alike in enumerate(similar):
        x_i, x_j = X[2 * t], X[2 * t + 1]
        v, u = x_i @ W, x_j @ W
        differ = (v > 0) != (u > 0)
        distance = int(np.count_nonzero(differ))
        loss = distance - tolerances[0] if alike else tolerances[1] - distance
        if not loss > 0:
            continue
        bits = np.flatnonzero(differ if alike else ~differ)
        size = np.maximum(np.abs(v), np.abs(u))[bits]
        bits = bits[np.argsort(-size, kind="stable")][: int(np.ceil(loss))]
        f_v, f_u = 2 * expit(v) - 1, 2 * expit(u) - 1
        h_v, h_u = expit(v) * expit(-v), expit(u) * expit(-u)
        step = 2 * eta * (float(f_v @ f_u) - (r if alike else -r))
        a, b = np.zeros_like(v), np.zeros_like(u)
        a[bits] = step * 2 * (f_u * h_v)[bits]
        b[bits] = step * 2 * (f_v * h_u)[bits]
        W = W - np.outer(x_i, a) - np.outer(x_j, b) - lambda_ * (W @ (W.T @ W - np.eye(r, dtype=W.dtype)))
        W = (W / np.linalg.norm(W, axis=0)).astype(v.dtype)
        moved += 1
    return W, None if block is None else Block.of(W), moved


# ---- choice

learn_pairs = choice(lambda: KERNEL, compiled_learn_pairs, twin_learn_pairs)
