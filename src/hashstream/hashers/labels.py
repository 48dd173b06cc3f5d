"""Labels of any kind, turned into class numbers that never change; and which rows have no label."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.validation import as_array, has_tensors, is_tensor

__all__ = ["LabelBook", "Labels", "LabelsLike", "as_labels", "is_missing", "labelled", "missing_rows"]


LabelsLike = ArrayLike | Sequence[Hashable]
"""Types of `y`: (n,) labels of any hashable kind, None for a missing one, or an (n, C) matrix of 0 and 1."""


@dataclass(frozen=True)
class Labels:
    """The labels of a batch of n rows, as class numbers.

    rank : (n,) intp
        Position of each row's label among the batch's distinct labels, in ascending order of label.
    ids : (distinct,) intp
        Class number of each of those distinct labels.
    indicator : (n, n_classes) bool, or None
        The 0/1 matrix of a multi-label batch (class number = column); `rank` and `ids` are then empty.
    """

    rank: np.ndarray
    ids: np.ndarray
    indicator: np.ndarray | None = None

    def __getitem__(self, rows: slice | np.ndarray) -> Labels:
        if self.indicator is not None:
            return Labels(self.rank, self.ids, self.indicator[rows])
        return Labels(self.rank[rows], self.ids)


class LabelBook:
    """Numbers for labels, in the order in which they are first seen: 0, 1, 2, ... New classes may appear at any time;
    those that appear in one batch are numbered in ascending order.

    A book is never changed: `read` returns a new one where a batch brings new classes, so that a call that fails
    later leaves the learner with the book that it had.

    >>> book, labels = LabelBook().read(np.array(["cat", "dog", "cat"]))
    >>> book.classes, labels.ids[labels.rank]
    (['cat', 'dog'], array([0, 1, 0]))
    """

    def __init__(self, classes: list[Any] | None = None, multilabel: bool | None = None) -> None:
        self.classes = list(classes or [])
        self.multilabel = multilabel
        self._number = {label: number for number, label in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self.classes)

    def read(self, y: LabelsLike) -> tuple[LabelBook, Labels]:
        """The book with `y`'s labels in it, and `y` as class numbers. `y` is (n,) labels or (n, C) of 0 and 1, none of
        them missing: see `labelled`."""
        y = y if isinstance(y, np.ndarray) and y.dtype.kind in "iub" else as_labels(y)
        if (missing := missing_rows(y)) is not None:
            raise ValueError(f"y[{int(missing.argmax())}] is missing: a book reads labels only")
        if y.ndim == 2:
            return self._read_indicator(y)
        if y.ndim != 1:
            raise ValueError(f"y must be one label per row, or a 0/1 matrix; its shape is {y.shape}")
        if self.multilabel:
            raise ValueError(
                f"y has one label per row, but this model has learned from 0/1 matrices of {len(self)} columns"
            )
        distinct, rank = _distinct(y)
        new = [label for label in distinct if label not in self._number]
        book = LabelBook(self.classes + new, False) if new or self.multilabel is None else self
        return book, Labels(rank, np.array([book._number[label] for label in distinct], np.intp))

    def _read_indicator(self, y: np.ndarray) -> tuple[LabelBook, Labels]:
        if self.multilabel is False:
            raise ValueError(
                f"y is a matrix of shape {y.shape}, but this model has learned from one label per row"
            )
        if y.shape[1] < 2:
            raise ValueError(f"y has shape {y.shape}: for one label per row pass y.ravel()")
        if self.multilabel and y.shape[1] != len(self):
            raise ValueError(f"y has {y.shape[1]} columns, but this model has learned from {len(self)}")
        odd = np.argwhere((y != 0) & (y != 1))
        if len(odd):
            row, column = odd[0]
            raise ValueError(f"a label matrix holds 0 and 1 only: y[{row}, {column}] is {y[row, column]!r}")
        book = self if self.multilabel else LabelBook(list(range(y.shape[1])), True)
        nothing = np.empty(0, np.intp)
        return book, Labels(nothing, nothing, y.astype(bool))


def as_labels(y: LabelsLike, name: str = "y") -> np.ndarray:
    """y as an array in which every label is still itself, and checked: labels are hashable and not infinite.

    (n,) labels or an (n, C) matrix. A missing label stays NaN or NaT in an array of that type, and is None in an array
    of objects; `missing_rows` finds both. NumPy alone would turn [1, "a"] into strings, a list of tuples into a matrix,
    2**53 + 1 next to a NaN into 2**53, and "a\\0" into "a". name : its name in errors.
    """
    if is_tensor(y):
        y = as_array(y)
    elif has_tensors(y):
        y = [as_array(one).tolist() if is_tensor(one) else one for one in y]
    if not isinstance(getattr(y, "dtype", None), (np.dtype, type(None))):  # pandas' own: not by way of floats
        y = np.asarray(y, dtype=object)
    if hasattr(y, "toarray"):  # a sparse label matrix
        y = y.toarray()
    if isinstance(y, np.ma.MaskedArray):
        y = _unmasked(y)
    elif isinstance(y, (list, tuple)):
        y = _from_list(y)
    y = np.asarray(y)
    if y.dtype.kind == "T":  # NumPy's strings of any length, whose missing value is any object
        y = y.astype(object)
    if y.dtype.kind in "fc" and (infinite := np.isinf(y)).any():
        at = tuple(np.argwhere(infinite)[0])
        raise ValueError(f"Input {name} contains infinity: {name}[{', '.join(map(str, at))}] is {y[at]}")
    return _checked_objects(y, name) if y.dtype.kind == "O" else y


def is_missing(label: Any) -> bool:
    """True where a label stands for "no label": None, NaN of any type, NaT, pandas.NA, or NumPy's `masked`.

    Everything else is a label, -1 and the empty string included.

    >>> [is_missing(label) for label in (None, float("nan"), np.datetime64("NaT"), -1, "", 0)]
    [True, True, True, False, False, False]
    """
    if label is None or label is np.ma.masked:
        return True
    kind = type(label)
    if kind in _NEVER_MISSING:
        return False
    if kind.__name__ == "NAType" and kind.__module__.partition(".")[0] == "pandas":
        return True
    if isinstance(label, Decimal):
        return label.is_nan()
    try:
        return not bool(label == label)
    except (TypeError, ValueError):  # arrays among others, which are no labels
        return False


def missing_rows(y: np.ndarray) -> np.ndarray | None:
    """(n,) bool: the rows of `as_labels(y)` that have no label; None where all have one.

    A row of a matrix has none if any entry is missing. A row of zeros is a row with no label *set*, which is known.
    """
    if y.dtype.kind in "fc":
        missing = np.isnan(y)
    elif y.dtype.kind in "mM":
        missing = np.isnat(y)
    elif y.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in y.ravel()], bool).reshape(y.shape)
    else:
        return None
    if missing.ndim > 1:
        missing = missing.any(axis=tuple(range(1, missing.ndim)))
    return missing if missing.any() else None


def labelled(X: np.ndarray, y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """The rows to learn from: those of X (n, d) and y that have a label; all of them where y is None.

    >>> labelled(np.array([[1.0], [2.0], [3.0]]), as_labels(["cat", None, "dog"]))
    (array([[1.],
           [3.]]), array(['cat', 'dog'], dtype=object))
    """
    missing = None if y is None else missing_rows(y)
    if y is None or missing is None:
        return X, y
    return X[~missing], y[~missing]


_NEVER_MISSING = frozenset({str, int, bool, bytes, tuple, frozenset})
_EXACT_INTEGERS = 1 << 53  # up to here a float64 holds every whole number


def _from_list(y: list[Any] | tuple[Any, ...]) -> Any:
    """A list as an array, by way of objects where NumPy would make other labels of these."""
    if any(type(label) is np.ndarray and not label.ndim for label in y):
        y = [label.item() if type(label) is np.ndarray and not label.ndim else label for label in y]
    kinds = {type(label) for label in y}
    rows = kinds & {list, np.ndarray}
    if rows and kinds <= {list, np.ndarray, type(None)}:  # of a matrix, perhaps with rows that are missing
        width = next(len(row) for row in y if row is not None and np.ndim(row))
        return [[None] * width if row is None else row for row in y] if type(None) in kinds else y
    objects = bool(kinds & {tuple, frozenset}) or (len(kinds) > 1 and not kinds <= _SMALL_NUMBERS)
    if kinds <= {int, bool}:
        objects = objects or min(y, default=0) < -(1 << 63) or max(y, default=0) >= 1 << 63
    elif kinds <= {int, bool, float}:
        objects = any(type(label) is int and abs(label) > _EXACT_INTEGERS for label in y)
    elif all(issubclass(kind, (str, bytes)) for kind in kinds):
        # NumPy takes `str` of an enumeration, truncated to the length of its value.
        objects = (
            objects
            or not kinds <= {str, bytes, np.str_, np.bytes_}
            or any(label[-1:] in ("\0", b"\0") for label in y)
        )
    if not objects:
        return y
    labels = np.empty(len(y), dtype=object)
    labels[:] = y
    return labels


_SMALL_NUMBERS = {int, bool, float, complex}


def _unmasked(y: np.ma.MaskedArray) -> np.ndarray:
    """A masked array with None where it is masked."""
    mask = np.ma.getmaskarray(y)
    data: np.ndarray = np.asarray(y.data)
    if mask.any():
        data = data.astype(object)
        data[mask] = None
    return data


def _checked_objects(y: np.ndarray, name: str) -> np.ndarray:
    """An array of objects with None for what is missing and Python's own numbers and strings for NumPy's."""
    out = np.empty(y.size, object)
    for row, label in enumerate(y.ravel()):
        if is_missing(label):
            continue
        if isinstance(label, _SCALARS):
            label = label.item()
        try:
            hash(label)
        except TypeError:
            raise ValueError(f"labels must be hashable: {name}[{row}] is a {type(label).__name__}") from None
        if isinstance(label, float) and np.isinf(label):
            raise ValueError(f"Input {name} contains infinity: {name}[{row}] is {label}")
        out[row] = label
    return out.reshape(y.shape)


_SCALARS = (np.bool_, np.integer, np.float16, np.float32, np.float64, np.str_, np.bytes_)


def _distinct(y: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The distinct labels of y as Python values, ascending where they are all numbers or all strings and in order of
    first appearance otherwise, and each row's position among them."""
    if y.dtype.kind in "iu" and len(y) and int(y.max()) - (low := int(y.min())) < 4 * len(y) + 100:
        # Whole numbers close together are counted, which is faster than sorting them.
        if y.dtype.itemsize < 8:  # the difference of two int8 does not fit into int8
            y = y.astype(np.int64)
        above = (y - y.dtype.type(low)).astype(np.intp, copy=False)
        seen = np.bincount(above) > 0
        return [low + step for step in np.flatnonzero(seen).tolist()], (np.cumsum(seen) - 1)[above]
    if y.dtype.kind != "O":
        values, rank = np.unique(y, return_inverse=True)
        return values.tolist(), rank
    position: dict[Any, int] = {}
    rank = np.array([position.setdefault(label, len(position)) for label in y.tolist()], np.intp)
    labels = list(position)
    if all(isinstance(label, str) for label in labels) or all(
        isinstance(label, (int, float)) for label in labels
    ):
        order = sorted(range(len(labels)), key=labels.__getitem__)
        return [labels[k] for k in order], np.argsort(order)[rank]
    return labels, rank
