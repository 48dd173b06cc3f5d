"""Labels as a table keeps them: exactly what was given, since the model may be learned from them again."""

from __future__ import annotations

from typing import Any

import numpy as np

from hashstream.hashers.labels import is_missing, missing_rows

__all__ = ["label_at", "plain_labels"]

LABELS = "a table takes labels that are strings, real numbers or booleans, and None or NaN for none"


def plain_labels(y: np.ndarray) -> np.ndarray:
    """Labels, (n,) or (n, C), in a copy that comes back the same from a folder; objects are what Python has for them.

    y : as `as_labels` returns it. A missing label stays NaN in an array of floats and None among objects; a matrix of
    objects becomes one of floats. A TypeError names a label that a folder cannot hold.
    """
    if y.dtype.kind == "f" and y.dtype.itemsize > 8:
        return y.astype(np.float64)  # of a longer float there is no form that every machine reads
    if y.dtype.kind in "iufbU" or not y.ndim:  # the hasher refuses a scalar
        return y.copy()
    if y.dtype.kind not in "OT":
        raise TypeError(f"y is of {y.dtype.name}: {LABELS}")
    if y.ndim == 2:
        values = np.array(
            [
                [np.nan if label is None else _plain(label, row) for label in labels]
                for row, labels in enumerate(y.tolist())
            ]
        )
        if values.dtype.kind not in "iufb":
            raise TypeError(f"y is a matrix of shape {y.shape} that does not hold numbers only: {LABELS}")
        return values
    out = np.empty(len(y), object)
    out[:] = [None if label is None else _plain(label, row) for row, label in enumerate(y.tolist())]
    return out


def label_at(y: np.ndarray | None, row: int) -> Any:
    """The label of one row of a batch as Python has it, None where it is missing; a row of a matrix is an array.

    >>> label_at(np.array([3.5, np.nan]), 0), label_at(np.array([3.5, np.nan]), 1), label_at(None, 0)
    (3.5, None, None)
    """
    if y is None:
        return None
    label = y[row]
    if y.ndim == 2:
        return label.copy() if missing_rows(y[row : row + 1]) is None else None
    label = label.item() if isinstance(label, np.generic) else label
    return None if is_missing(label) else label


def _plain(label: Any, row: int) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, str):
        return str.__str__(label)  # of an enumeration, its value
    if isinstance(label, (bool, int, float)):
        return label
    raise TypeError(f"y[{row}] is of type {type(label).__name__}: {LABELS}")
