"""Checks of arguments. They raise before anything has changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np

T = TypeVar("T")

LARGEST_COUNT = 2**53
"""No count is larger: up to here floating point is exact, and 64-bit kernels cannot overflow."""

PART = 10_000
NARROW_PART = 1 << 17  # numbers that are converted at once


def check_rows(estimator: Any, X: Any, *, first: bool, narrow: bool = False) -> np.ndarray:
    """X as an (n, d) array of float32 or float64; see `as_floats` for other numbers, and `check_finite` for values.

    `first` sets the estimator's number (and names) of features; otherwise they are compared with what was set.
    `narrow` leaves an array of integers, float16 or bfloat16, or a tensor of bfloat16, as it is: a copy of it could be
    many times as large, and `as_floats` converts a block of rows just as well.
    """
    known = type(X) in (np.ndarray, np.memmap) and X.dtype in (np.float32, np.float64)
    if not known:
        X = detached(X)
        known = is_tensor(X) or (type(X) in (np.ndarray, np.memmap) and is_narrow(X.dtype))
    known = known and X.ndim == 2 and len(X) > 0
    named = "feature_names_in_" in estimator.__dict__
    if first and known and X.shape[1] and not named:
        estimator.n_features_in_ = X.shape[1]
    elif not known or named or X.shape[1] != estimator.__dict__.get("n_features_in_"):
        # scikit-learn's own check: its messages for lists, data frames, sparse, complex and empty input. Imported here,
        # as it takes a second.
        from sklearn.utils.validation import validate_data

        X = as_floats(X) if is_tensor(X) else X
        sparse = hasattr(X, "toarray")  # which scikit-learn's check refuses with a sentence
        given = X if sparse or isinstance(X, np.ndarray) else np.asarray(X)
        if given.ndim < 2:  # it would print all numbers
            raise ValueError(_not_rows(given))
        dtype: Any = [np.float64, np.float32]
        if is_narrow(given.dtype):
            dtype = None if type(X) in (np.ndarray, np.memmap) else np.float32
        X = validate_data(
            estimator, X, reset=first, dtype=dtype, ensure_all_finite=False, ensure_min_features=1
        )
    return X if narrow else as_floats(X)


def is_narrow(dtype: np.dtype) -> bool:
    """True for types whose numbers are taken as float32: integers, booleans, float16, and others that fit into it, such
    as bfloat16 of the package ml_dtypes."""
    return dtype.kind in "iub" or np.can_cast(dtype, np.float32)


def as_floats(X: Any) -> np.ndarray:
    """X, an array or a tensor, as an array of float32 or float64: itself, or as float32 where `is_narrow`."""
    if is_tensor(X):
        X = np.asarray(X.float())
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)


def is_tensor(X: Any) -> bool:
    """True for a tensor of PyTorch, or of a library with its methods."""
    return hasattr(X, "detach") and hasattr(X, "cpu")


def has_tensors(X: Any) -> TypeGuard[Sequence[Any]]:
    """True for a list or tuple in which there is a tensor, as a loop over batches or rows leaves it."""
    return isinstance(X, (list, tuple)) and any(map(is_tensor, X))


def detached(X: Any) -> Any:
    """X; a tensor as an array that shares its memory, or a copy where it is not in that of the CPU.

    Gradients do not count. A tensor of a type that NumPy lacks, such as bfloat16, stays a tensor: `as_floats` reads it.
    Tensors in a list become arrays.
    """
    if has_tensors(X):
        return [as_array(one) for one in X]
    if not is_tensor(X):
        return X
    X = X.detach().cpu()
    try:
        np.asarray(X[:0] if X.ndim else X)
    except TypeError:
        if X.is_floating_point():
            return X
        raise
    return np.asarray(X)


def as_array(X: Any) -> np.ndarray:
    """X as an array, whatever it is; a tensor of a type that NumPy lacks as float32."""
    X = detached(X)
    return as_floats(X) if is_tensor(X) else np.asarray(X)


def _not_rows(X: np.ndarray) -> str:
    """The error for a scalar or a 1-D array, in the words that scikit-learn's checks look for."""
    found = "scalar array" if X.ndim == 0 else "1D array"
    advice = ""
    if X.ndim == 1 and len(X):
        advice = (
            f". Reshape your data: X.reshape(1, -1) if it is one row of {len(X)} features, X.reshape(-1, 1) if it is "
            f"{len(X)} rows of one feature"
        )
    wanted = f"X has shape {X.shape}, and must be (n, d), one row per item"
    return f"Expected 2D array, got {found} instead: {wanted}{advice}"


def without_names(X: Any) -> Any:
    """X, where it is a data frame as an array: columns count by their position."""
    return np.asarray(X) if hasattr(X, "__dataframe__") else X


def all_finite(X: np.ndarray) -> bool:
    """True where X is free of NaN and infinity; False may also mean that it has very large numbers.

    One pass without a temporary, in parts that OpenBLAS does not wake its other threads for.
    """
    flat = X.ravel(order="K")
    with np.errstate(all="ignore"):
        for start in range(0, len(flat), PART):
            part = flat[start : start + PART]
            if not math.isfinite(part.dot(part)):
                return False
    return True


def check_finite(X: np.ndarray, before: int = 0) -> np.ndarray:
    """X (n, d) itself, or a ValueError that names its first NaN or infinity. before : number of rows before these."""
    if is_tensor(X) or (X.dtype not in (np.float32, np.float64) and is_narrow(X.dtype)):
        _check_finite_parts(X, before)
    elif not all_finite(X) and not (finite := np.isfinite(X)).all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(f"Input X contains NaN or infinity: X[{before + row}, {column}] is {X[row, column]}")
    return X


def _check_finite_parts(X: Any, before: int) -> None:
    """`check_finite` for numbers that are taken as float32; integers are finite."""
    if not is_tensor(X) and X.dtype.kind in "iub":
        return
    step = max(1, NARROW_PART // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        check_finite(as_floats(X[start : start + step]), before + start)


def check_count(name: str, value: Any, low: int, high: int | None = None) -> int:
    """`value` as an int in [low, high], or a ValueError that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    if value < low or value > (high or LARGEST_COUNT):
        most = f" and at most {high or LARGEST_COUNT}" if high or value > low else ""
        raise ValueError(f"{name} must be at least {low}{most}, not {str(value)[:40]}")
    return int(value)


def check_flag(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, not {value!r}")


def check_numbers(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is None or can be read as an array of numbers."""
    if value is None or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
        return
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers, not {str(value)[:80]}") from None


def is_positive(value: Any, zero: bool = False) -> bool:
    """True where value is a finite number above 0 (or 0, with `zero`)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        finite = math.isfinite(float(value))
    except OverflowError:  # a whole number beyond the range of floating point
        return False
    return finite and bool(value > 0 or (zero and value == 0))


def check_number(
    name: str, value: Any, *, zero: bool = False, most: float | None = None, word: str = ""
) -> None:
    """Raise ValueError unless `value` is a positive number, or `word`; `zero` allows 0, `most` is the largest."""
    if word and isinstance(value, str) and value == word:
        return
    if not is_positive(value, zero=zero) or (most is not None and value > most):
        kind = "a number of at least 0" if zero else "a positive number"
        kind += "" if most is None else f" and at most {most:g}"
        raise ValueError(f"{name} must be {f'{word!r} or ' * bool(word)}{kind}, not {value!r}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ValueError unless `value` is one of the strings in `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"{name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, not {value!r}"
        )


def settings_for(dataset: str, settings: Mapping[str, T]) -> T:
    """The settings of a data set of the paper; ValueError where there are none."""
    if dataset not in settings:
        raise ValueError(f"the paper has settings for {', '.join(settings)}, not for {dataset!r}")
    return settings[dataset]
