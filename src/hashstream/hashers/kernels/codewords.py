"""Steps towards codewords, of HCOH, HMOH and OSH: binding of `_native/codewords.c`, and twins, one for each rule."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np

from hashstream.hashers.kernels.binding import (
    POINTER,
    address,
    bind,
    check_arrays,
    check_indices,
    choice,
    structure,
)

RULES = ("hcoh", "hmoh", "osh_boost", "osh_hinge")

Averaging = tuple[np.ndarray, np.ndarray, np.ndarray]
"""total (d, r), held (r,) int64 and mistakes (r,) int64 of HMOH, written in place; see `hmoh_steps`."""

# ---- binding

KERNEL = bind("codewords", *[POINTER] * 4)

_CSteps = structure("_CSteps", "size rule n d r batch", "real rate", "pointer rows codebook held mistakes")


def compiled_take_steps(
    rule: str,
    X: np.ndarray,
    rows: np.ndarray,
    codebook: np.ndarray,
    W: np.ndarray,
    rate: float,
    batch: int = 1,
    averaging: Averaging | None = None,
) -> None:
    X, rows = np.ascontiguousarray(X), np.ascontiguousarray(rows, np.int64)
    codebook = np.ascontiguousarray(codebook, np.int8)
    shape = (X.shape[1], codebook.shape[1])
    check_arrays(X.dtype, {"W": (W, shape)})
    check_arrays(np.int64, {"rows": (rows, (len(X),))})
    check_indices("rows", rows, len(codebook))
    if (averaging is not None) != (rule == "hmoh"):
        raise ValueError(f"averaging belongs to the rule hmoh, and to no other: the rule is {rule}")
    total, held, mistakes = averaging or (None, None, None)
    if total is not None and held is not None and mistakes is not None:
        check_arrays(X.dtype, {"total": (total, shape)})
        check_arrays(np.int64, {"held": (held, shape[1:]), "mistakes": (mistakes, shape[1:])})
    if batch < 1:
        raise ValueError(f"batch must be at least 1, not {batch}")
    steps = _CSteps(
        RULES.index(rule), len(X), *W.shape, min(int(batch), max(1, len(X))), rate,
        address(rows), address(codebook), address(held), address(mistakes),
    )  # fmt: skip
    if KERNEL[X.dtype.char](ctypes.byref(steps), address(X), address(W), address(total)):
        raise MemoryError("no memory for the steps of this piece")


# ---- twins: X (n, d), B (n, r) the codewords of the samples; W (d, r) is written in place


def hcoh_steps(X: np.ndarray, B: np.ndarray, W: np.ndarray, rate: float, batch: int) -> None:
    """Gradient steps of |tanh(X W) - B|^2 / 2, the mean over each batch."""
    for x, b in batches(X, B, batch):
        F = np.tanh(x @ W)
        W -= x.T @ ((F - b) * (1 - F * F)) * W.dtype.type(rate / len(x))


def hmoh_steps(
    X: np.ndarray,
    B: np.ndarray,
    W: np.ndarray,
    rate: float,
    batch: int,
    total: np.ndarray,
    held: np.ndarray,
    mistakes: np.ndarray,
) -> None:
    """Perceptron steps for the wrong bits, the mean over each batch.

    The sum of W over all steps is `total + held * W`: a column is added to `total` (d, r) only when it moves, times
    the number of steps that it has stayed (`held`, (r,)). `mistakes` (r,) counts wrong bits.
    """
    for x, b in batches(X, B, batch):
        wrong = np.where(x @ W > 0, 1, -1) != b
        moves = wrong.any(axis=0)
        total += np.where(moves, held, 0).astype(W.dtype) * W
        W += x.T @ (wrong * b) * W.dtype.type(rate / len(x))
        held[:] = np.where(moves, 1, held + 1)
        mistakes += wrong.sum(axis=0)


def osh_boost_steps(X: np.ndarray, B: np.ndarray, W: np.ndarray, rate: float, batch: int = 1) -> None:
    """Online boosting: bit j moves by the exponential loss of all bits up to j, those before it already moved."""
    for x, b in zip(X, B, strict=True):
        p, squared = x @ W, x @ x
        g = np.empty_like(p)
        margin = p.dtype.type(0)  # sum of y_i w_i^T x over the bits so far
        for j in range(len(p)):
            margin += b[j] * p[j]
            step = p.dtype.type(rate) * np.exp(-margin)
            g[j] = step * b[j]
            margin += step * squared  # what the step adds to y_j w_j^T x, known without projecting again
        W += np.outer(x, g)


def osh_hinge_steps(X: np.ndarray, B: np.ndarray, W: np.ndarray, rate: float, batch: int = 1) -> None:
    """Each bit on its own: where y_j w_j^T x < 1, w_j moves by eta y_j x."""
    for x, b in zip(X, B, strict=True):
        W += np.outer(x, np.where(b * (x @ W) < 1, b * W.dtype.type(rate), 0))


def batches(X: np.ndarray, B: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(X), size):
        yield X[start : start + size], B[start : start + size]


TWINS: dict[str, Callable[..., None]] = {
    "hcoh": hcoh_steps,
    "hmoh": hmoh_steps,
    "osh_boost": osh_boost_steps,
    "osh_hinge": osh_hinge_steps,
}


def twin_take_steps(
    rule: str,
    X: np.ndarray,
    rows: np.ndarray,
    codebook: np.ndarray,
    W: np.ndarray,
    rate: float,
    batch: int = 1,
    averaging: Averaging | None = None,
) -> None:
    """Learn the samples of X (n, d), whose codewords are `codebook[rows]`, one batch after the other.

    rule : one of RULES. rows : (n,) int64. codebook : (m, r) int8. averaging : for "hmoh" alone.
    W (d, r) and `averaging` are written in place.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        TWINS[rule](X, codebook[rows].astype(W.dtype), W, rate, batch, *(averaging or ()))


# ---- choice

take_steps = choice(lambda: KERNEL, compiled_take_steps, twin_take_steps)
