"""Steps towards codewords, one batch after the other: what HCOH, HMOH and OSH do with a piece of the stream.

Here are the rules as NumPy reads them, the twins of the C kernel `_native/codewords.c`, which serves where it was
compiled. X is (n, d), W (d, r), B (n, r) the codewords of the samples; W is written in place.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from hashstream._native import lib
from hashstream.hashers.errors import DivergenceError

__all__ = ["KERNEL", "RULES", "check_step", "piece_rows", "take_steps", "unit_rows"]

RULES = {"hcoh": 0, "hmoh": 1, "osh_boost": 2, "osh_hinge": 3}


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

    The sum of W over all steps is `total + held * W`: a column is added to `total` (d, r) only when it moves, as often
    as it has stood (`held`, (r,)). `mistakes` (r,) counts wrong bits.
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
            margin += step * squared  # what the step adds to y_j w_j^T x; no second look at W is needed
        W += np.outer(x, g)


def osh_hinge_steps(X: np.ndarray, B: np.ndarray, W: np.ndarray, rate: float, batch: int = 1) -> None:
    """Every bit by itself: where y_j w_j^T x < 1, w_j moves by eta y_j x."""
    for x, b in zip(X, B, strict=True):
        W += np.outer(x, np.where(b * (x @ W) < 1, b * W.dtype.type(rate), 0))


TWINS: dict[str, Any] = {
    "hcoh": hcoh_steps,
    "hmoh": hmoh_steps,
    "osh_boost": osh_boost_steps,
    "osh_hinge": osh_hinge_steps,
}


def batches(X: np.ndarray, B: np.ndarray, size: int) -> Any:
    for start in range(0, len(X), size):
        yield X[start : start + size], B[start : start + size]


def take_steps(
    rule: str,
    X: np.ndarray,
    rows: np.ndarray,
    codebook: np.ndarray,
    W: np.ndarray,
    rate: float,
    batch: int = 1,
    averaging: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> None:
    """Learn the samples of X, whose codewords are `codebook[rows]`; W moves in place, and so does `averaging`.

    rule : "hcoh", "hmoh", "osh_boost" or "osh_hinge".
    rows : (n,) int64. codebook : (m, r) int8. averaging : total, held and mistakes, for "hmoh" alone.
    """
    if not KERNEL:
        with np.errstate(over="ignore", invalid="ignore"):
            TWINS[rule](X, codebook[rows].astype(W.dtype), W, rate, batch, *(averaging or ()))
        return
    X, rows = np.ascontiguousarray(X), np.ascontiguousarray(rows, np.int64)
    codebook = np.ascontiguousarray(codebook, np.int8)
    total, held, mistakes = averaging or (None, None, None)
    for array, kind in ((W, X.dtype), (total, X.dtype), (held, np.int64), (mistakes, np.int64)):
        if array is not None and not (array.flags.c_contiguous and array.dtype == kind):
            raise ValueError("W and what is averaged must be C-contiguous and of the dtype of X")
    if W.shape != (X.shape[1], codebook.shape[1]) or rows.shape != (len(X),):
        raise ValueError(
            f"X {X.shape}, rows {rows.shape}, codebook {codebook.shape} and W {W.shape} disagree"
        )
    if len(rows) and rows.view(np.uint64).max() >= len(codebook):  # a negative row counts as a huge one
        raise ValueError(f"rows must be rows of the codebook, from 0 to {len(codebook) - 1}")
    shapes = [array.shape for array in averaging or ()]
    if shapes != [W.shape, W.shape[1:], W.shape[1:]] * (rule == "hmoh"):
        raise ValueError("what hmoh averages must have the shape of W, and one count per bit")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, not {batch}")
    batch = min(int(batch), max(1, len(X)))
    job = _Job(
        RULES[rule], len(X), *W.shape, batch, rate, _address(rows), _address(codebook), _address(held),
        _address(mistakes),
    )  # fmt: skip
    if KERNEL[X.dtype.char](ctypes.byref(job), _address(X), _address(W), _address(total)):
        raise MemoryError("no memory for the steps of this piece")


def piece_rows(batch: int) -> int:
    """How many samples to hand to `take_steps` at once: about 1,000, in whole batches."""
    return int(batch) * max(1, 1000 // int(batch))


def unit_rows(X: np.ndarray) -> np.ndarray:
    """X with every row of length 1; rows that are zero stay zero."""
    with np.errstate(over="ignore"):
        squared = np.einsum("ij,ij->i", X, X)
    if not (fits := np.isfinite(squared)).all():  # rows too long for the square of their length
        X = X / np.where(fits, 1, np.abs(X).max(axis=1)).astype(X.dtype)[:, None]
        squared = np.where(fits, squared, np.einsum("ij,ij->i", X, X))
    length = np.sqrt(np.where(squared > 0, squared, 1)).astype(X.dtype)
    unit: np.ndarray = X / length[:, None]
    return unit


def check_step(W: np.ndarray, learning_rate: float) -> None:
    """DivergenceError where W is not finite."""
    if not np.isfinite(W).all():
        raise DivergenceError(
            f"learning_rate={learning_rate!r} is too large for this data: the projection is no longer finite. "
            "The model is as before the call. Take a smaller learning_rate, or rows of unit length "
            '(feature_map="center").'
        )


def _address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


class _Job(ctypes.Structure):
    _fields_ = (
        ("rule", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("d", ctypes.c_int64),
        ("r", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("rate", ctypes.c_double),
        ("rows", ctypes.c_void_p),
        ("codebook", ctypes.c_void_p),
        ("held", ctypes.c_void_p),
        ("mistakes", ctypes.c_void_p),
    )


KERNEL: dict[str, Any] = {}
"""dtype character -> the kernel; empty where there is none, and the twins serve."""

if lib is not None and hasattr(lib, "hs_codewords_f32"):
    KERNEL = {"f": lib.hs_codewords_f32, "d": lib.hs_codewords_f64}
    for _function in KERNEL.values():
        _function.argtypes = [ctypes.c_void_p] * 4
        _function.restype = ctypes.c_int
