"""Helpers of all bindings: look up a kernel, check arrays before C sees their addresses, and choose binding or twin."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hashstream._native import lib, warn_if_slow

P = ParamSpec("P")
R = TypeVar("R")

POINTER, SIZE, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double

Kernel = dict[str, Any]
"""dtype character ("f" or "d") -> C function; empty where the package was installed without a C compiler."""


def bind(name: str, *arguments: Any, result: Any = ctypes.c_int) -> Kernel:
    """Look up `hs_<name>_f32` and `hs_<name>_f64` and declare their arguments."""
    found: Kernel = {}
    for char, kind in (("f", "f32"), ("d", "f64")):
        function = getattr(lib, f"hs_{name}_{kind}", None)
        if function is not None:
            function.argtypes, function.restype = list(arguments), result
            found[char] = function
    return found


def choice(kernel: Callable[[], Kernel], compiled: Callable[P, R], twin: Callable[P, R]) -> Callable[P, R]:
    """The function that methods call: `compiled` where there is a kernel, and `twin` otherwise."""

    @wraps(twin)
    def chosen(*args: P.args, **kwargs: P.kwargs) -> R:
        if kernel():
            return compiled(*args, **kwargs)
        warn_if_slow()
        return twin(*args, **kwargs)

    return chosen


def structure(name: str, *fields: str) -> Any:
    """A C structure: each of `fields` is a type (size, real or pointer) and the names of the fields that have it.

    >>> structure("Point", "size n", "real x y")(3, 0.5, 1.5).y
    1.5
    """
    types = {"size": ctypes.c_int64, "real": ctypes.c_double, "pointer": POINTER}
    listed = [(field, types[line.split()[0]]) for line in fields for field in line.split()[1:]]
    return type(name, (ctypes.Structure,), {"_fields_": listed})


def address(array: np.ndarray | None) -> int | None:
    """The address of an array's first entry; None for no array."""
    return None if array is None else array.ctypes.data


def check_arrays(dtype: Any, arrays: Mapping[str, tuple[np.ndarray, tuple[int, ...]]]) -> None:
    """Raise ValueError unless every array (name -> array, expected shape) is C-contiguous and of this dtype."""
    for name, (array, shape) in arrays.items():
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise ValueError(
                f"{name} must be a C-contiguous array of {np.dtype(dtype)} and shape {shape}, "
                f"not {array.dtype} {array.shape}"
            )


def check_indices(name: str, indices: np.ndarray, size: int) -> None:
    """Raise ValueError unless all of `indices` (int64) are from 0 to size - 1."""
    if len(indices) and indices.view(np.uint64).max() >= size:  # a negative index counts as a huge one
        raise ValueError(f"{name} must be from 0 to {size - 1}")
