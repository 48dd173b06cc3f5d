"""The C kernel of FCOH's class steps; `fcoh_steps.py` holds its twin and says what the fields mean."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from hashstream._native import lib

if TYPE_CHECKING:
    from hashstream.hashers.fcoh_steps import Batch, Rate

__all__ = ["KERNEL", "kernel_steps"]


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
        ("slowing", ctypes.c_double),
        ("horizon", ctypes.c_double),
        ("taken", ctypes.c_double),
        ("curvature", ctypes.c_double),
        ("steepest", ctypes.c_double),
        ("longest", ctypes.c_double),
    )


def kernel_steps(batch: Batch, rate: Rate) -> np.ndarray:
    """`fcoh_steps.take_steps` in C: P and `rate` move in place, and C (m, r) comes back."""
    m, r = batch.P.shape
    classes = len(batch.first) - 1
    first = np.ascontiguousarray(batch.first, np.int64)
    similar = np.ascontiguousarray(batch.similar, np.float64)
    dissimilar = np.ascontiguousarray(batch.dissimilar, np.float64)
    K = np.ascontiguousarray(batch.K)
    if not (batch.P.flags.c_contiguous and batch.P.dtype == K.dtype and K.shape == (m, m)):
        raise ValueError("K and P must be C-contiguous and of one dtype")
    C = np.zeros_like(batch.P)
    c_batch = _CBatch(
        m, int(first[-1]), classes, r, first.ctypes.data, similar.ctypes.data, dissimilar.ctypes.data,
        batch.center_weight, batch.class_wise, batch.passes,
    )  # fmt: skip
    c_rate = _CRate(rate.automatic, rate.rate, rate.slowing, rate.horizon, rate.taken, rate.curvature)
    call = KERNEL[K.dtype.char]
    if call(ctypes.byref(c_batch), K.ctypes.data, batch.P.ctypes.data, C.ctypes.data, ctypes.byref(c_rate)):
        raise MemoryError("no memory for the class steps of this batch")
    rate.taken, rate.curvature = c_rate.taken, c_rate.curvature
    return C


KERNEL: dict[str, Any] = {}
"""dtype character -> the kernel; empty where there is none, and the twin serves."""

if lib is not None and hasattr(lib, "hs_fcoh_f32"):
    KERNEL = {"f": lib.hs_fcoh_f32, "d": lib.hs_fcoh_f64}
    for _function in KERNEL.values():
        _function.argtypes = [ctypes.c_void_p] * 5
        _function.restype = ctypes.c_int
