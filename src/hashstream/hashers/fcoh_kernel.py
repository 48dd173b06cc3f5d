"""The C kernel of FCOH's class steps; `fcoh_steps.py` holds its twin and says what the fields mean."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from hashstream._native import lib

if TYPE_CHECKING:
    from hashstream.hashers.fcoh_steps import Batch, Rate

__all__ = ["KERNEL", "kernel_gather", "kernel_steps"]


class _CBatch(ctypes.Structure):
    _fields_ = (
        ("m", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("classes", ctypes.c_int64),
        ("r", ctypes.c_int64),
        ("first", ctypes.c_void_p),
        ("similar", ctypes.c_void_p),
        ("dissimilar", ctypes.c_void_p),
        ("center_weight", ctypes.c_double),
        ("class_wise", ctypes.c_int64),
        ("passes", ctypes.c_int64),
    )


class _CRate(ctypes.Structure):
    _fields_ = (
        ("automatic", ctypes.c_int64),
        ("rate", ctypes.c_double),
        ("pull", ctypes.c_double),
        ("slowing", ctypes.c_double),
        ("horizon", ctypes.c_double),
        ("taken", ctypes.c_double),
        ("curvature", ctypes.c_double),
        ("steepest", ctypes.c_double),
    )


def check_classes(first: np.ndarray, n: int) -> None:
    """ValueError unless `first` (classes + 1,) ascends from 0 and ends at n at most: the kernels index rows by it."""
    bounds = first.tolist()
    if first.ndim != 1 or not bounds or bounds[0] != 0 or sorted(bounds) != bounds or bounds[-1] > n:
        raise ValueError(f"first must ascend from 0 to at most {n}, the first row of each class and the end")


def kernel_steps(batch: Batch, rate: Rate) -> np.ndarray:
    """`fcoh_steps.take_steps` in C: P and `rate` move in place, and C (m, r) comes back."""
    m, r = batch.P.shape
    first = np.ascontiguousarray(batch.first, np.int64)
    similar = np.ascontiguousarray(batch.similar, np.float64)
    dissimilar = np.ascontiguousarray(batch.dissimilar, np.float64)
    K = np.ascontiguousarray(batch.K)
    if not (batch.P.flags.c_contiguous and batch.P.dtype == K.dtype and K.shape == (m, m)):
        raise ValueError("K and P must be C-contiguous and of one dtype")
    classes = len(first) - 1
    check_classes(first, m - classes)
    if similar.shape != (classes,) or dissimilar.shape != (classes,):
        raise ValueError(f"similar and dissimilar must have a weight for each of {classes} classes")
    C = np.zeros_like(batch.P)
    c_batch = _CBatch(
        m, int(first[-1]), classes, r, first.ctypes.data, similar.ctypes.data, dissimilar.ctypes.data,
        batch.center_weight, bool(batch.class_wise), batch.passes,
    )  # fmt: skip
    c_rate = _CRate(
        rate.automatic, rate.rate, rate.pull, rate.slowing, rate.horizon, rate.taken, rate.curvature
    )
    call = KERNEL[K.dtype.char]
    if call(ctypes.byref(c_batch), K.ctypes.data, batch.P.ctypes.data, C.ctypes.data, ctypes.byref(c_rate)):
        raise MemoryError("no memory for the class steps of this batch")
    rate.taken, rate.curvature = c_rate.taken, c_rate.curvature
    return C


def kernel_gather(X: np.ndarray, order: np.ndarray, first: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """`fcoh_steps.gather` in C."""
    X = np.ascontiguousarray(X)
    order, first = np.ascontiguousarray(order, np.int64), np.ascontiguousarray(first, np.int64)
    check_classes(first, min(len(order), len(Z)))
    if len(order) and order.view(np.uint64).max() >= len(X):  # a negative row counts as a huge one
        raise ValueError(f"order must hold rows of X, from 0 to {len(X) - 1}")
    sums = np.empty((len(first) - 1, X.shape[1]), X.dtype)
    if not (Z.flags.c_contiguous and Z.dtype == X.dtype and Z.shape[1] == X.shape[1]):
        raise ValueError("Z must be C-contiguous and of X's dtype and width")
    GATHER[X.dtype.char](
        X.ctypes.data,
        order.ctypes.data,
        first.ctypes.data,
        len(sums),
        X.shape[1],
        Z.ctypes.data,
        sums.ctypes.data,
    )
    return sums


KERNEL: dict[str, Any] = {}
"""dtype character -> the kernel; empty where there is none, and the twin serves."""
GATHER: dict[str, Any] = {}

if lib is not None and hasattr(lib, "hs_fcoh_f32") and hasattr(lib, "hs_fcoh_gather_f32"):
    KERNEL = {"f": lib.hs_fcoh_f32, "d": lib.hs_fcoh_f64}
    GATHER = {"f": lib.hs_fcoh_gather_f32, "d": lib.hs_fcoh_gather_f64}
    for _function in KERNEL.values():
        _function.argtypes = [ctypes.c_void_p] * 5
        _function.restype = ctypes.c_int
    for _function in GATHER.values():
        _function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 2
        _function.restype = None
