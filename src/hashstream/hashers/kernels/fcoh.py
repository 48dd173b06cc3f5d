"""FCOH's class steps on one batch: binding of `_native/fcoh.c`, and twin. `fcoh_steps.py` derives what they compute."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import numpy as np

from hashstream.hashers.fcoh_steps import Batch, Rate, class_steps, descend, walk
from hashstream.hashers.kernels.binding import (
    POINTER,
    SIZE,
    bind,
    check_arrays,
    check_indices,
    choice,
    structure,
)

# ---- binding

KERNEL = bind("fcoh", *[POINTER] * 5)
GATHER = bind("fcoh_gather", *[POINTER] * 3, *[SIZE] * 2, *[POINTER] * 2, result=None)

_CBatch = structure(
    "_CBatch",
    "size m n classes r",
    "pointer first similar dissimilar",
    "real center_weight",
    "size class_wise passes",
)
_CRate = structure("_CRate", "size automatic", "real rate pull slowing horizon taken curvature steepest")


def compiled_take_steps(batch: Batch, rate: Rate) -> np.ndarray:
    (m, r), classes = batch.P.shape, len(batch.first) - 1
    first = np.ascontiguousarray(batch.first, np.int64)
    similar = np.ascontiguousarray(batch.similar, np.float64)
    dissimilar = np.ascontiguousarray(batch.dissimilar, np.float64)
    K = np.ascontiguousarray(batch.K)
    _check_classes(first, m - classes)
    check_arrays(K.dtype, {"K": (K, (m, m)), "P": (batch.P, (m, r))})
    check_arrays(np.float64, {"similar": (similar, (classes,)), "dissimilar": (dissimilar, (classes,))})
    C = np.zeros_like(batch.P)
    c_batch = _CBatch(
        m, int(first[-1]), classes, r, first.ctypes.data, similar.ctypes.data, dissimilar.ctypes.data,
        batch.center_weight, bool(batch.class_wise), batch.passes,
    )  # fmt: skip
    c_rate = _CRate(
        rate.automatic, rate.rate, rate.pull, rate.slowing, rate.horizon, rate.taken, rate.curvature
    )
    arrays = (K.ctypes.data, batch.P.ctypes.data, C.ctypes.data)
    if KERNEL[K.dtype.char](ctypes.byref(c_batch), *arrays, ctypes.byref(c_rate)):
        raise MemoryError("no memory for the class steps of this batch")
    rate.taken, rate.curvature = c_rate.taken, c_rate.curvature
    return C


def compiled_gather(X: np.ndarray, order: np.ndarray, first: np.ndarray, Z: np.ndarray) -> np.ndarray:
    X = np.ascontiguousarray(X)
    order, first = np.ascontiguousarray(order, np.int64), np.ascontiguousarray(first, np.int64)
    check_arrays(X.dtype, {"Z": (Z, (len(Z), X.shape[1]))})
    check_indices("order", order, len(X))
    _check_classes(first, min(len(order), len(Z)))
    sums = np.empty((len(first) - 1, X.shape[1]), X.dtype)
    GATHER[X.dtype.char](
        X.ctypes.data, order.ctypes.data, first.ctypes.data, *sums.shape, Z.ctypes.data, sums.ctypes.data
    )
    return sums


def _check_classes(first: np.ndarray, n: int) -> None:
    """Raise ValueError unless `first` (classes + 1,) ascends from 0 to at most n: the kernels index rows by it."""
    bounds = first.tolist()
    if first.ndim != 1 or not bounds or bounds[0] != 0 or sorted(bounds) != bounds or bounds[-1] > n:
        raise ValueError(f"first must ascend from 0 to at most {n}, the first row of each class and the end")


# ---- twin


def twin_take_steps(batch: Batch, rate: Rate) -> np.ndarray:
    """Take the step of every class of a batch: C (m, r), by which W grows as Z^T C.

    Moves `batch.P` by K C, and updates the counts of `rate`.
    """
    steps = list(class_steps(batch))
    return walk(batch.K, batch.P, steps, descend(rate), rate, batch.class_wise, batch.passes)


def twin_gather(X: np.ndarray, order: np.ndarray, first: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Write X[order] to the first rows of Z, and return the sum of each class's rows: (classes, d).

    first : (classes + 1,) int64, the first row in Z of each class, and the number of samples.
    """
    Z[: int(first[-1])] = X[order]
    return np.stack([Z[start:stop].sum(axis=0) for start, stop in pairwise(first)])


# ---- choice

take_steps = choice(lambda: KERNEL, compiled_take_steps, twin_take_steps)
gather = choice(lambda: KERNEL, compiled_gather, twin_gather)
