"""Labels of any kind, turned into class numbers that stay the same for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["LabelBook", "Labels"]


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

    def __getitem__(self, rows: slice) -> Labels:
        if self.indicator is not None:
            return Labels(self.rank, self.ids, self.indicator[rows])
        return Labels(self.rank[rows], self.ids)


class LabelBook:
    """Gives every label a number when it is first seen: 0, 1, 2, ... New classes may appear at any time.

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

    def read(self, y: Any) -> tuple[LabelBook, Labels]:
        """The book with `y`'s labels in it, and `y` as class numbers. `y` is (n,) labels or (n, C) of 0 and 1."""
        y = np.asarray(y)
        if y.ndim == 2:
            return self._read_indicator(y)
        if y.ndim != 1:
            raise ValueError(f"y must be one label a row, or a 0/1 matrix; its shape is {y.shape}")
        if self.multilabel:
            raise ValueError(
                f"y has one label a row, but this model has learned from 0/1 matrices of {len(self)} columns"
            )
        if y.dtype.kind in "fc":
            bad = np.flatnonzero(~np.isfinite(y))
            if len(bad):
                raise ValueError(f"Input y contains NaN or infinity: y[{bad[0]}] is {y[bad[0]]}")
        distinct, rank = _distinct(y)
        new = [label for label in distinct if label not in self._number]
        book = LabelBook(self.classes + new, False) if new or self.multilabel is None else self
        return book, Labels(rank, np.array([book._number[label] for label in distinct], np.intp))

    def _read_indicator(self, y: np.ndarray) -> tuple[LabelBook, Labels]:
        if self.multilabel is False:
            raise ValueError(
                f"y is a matrix of shape {y.shape}, but this model has learned from one label a row"
            )
        if y.shape[1] < 2:
            raise ValueError(f"y has shape {y.shape}: for one label a row pass y.ravel()")
        if self.multilabel and y.shape[1] != len(self):
            raise ValueError(f"y has {y.shape[1]} columns, but this model has learned from {len(self)}")
        odd = np.argwhere((y != 0) & (y != 1))
        if len(odd):
            row, column = odd[0]
            raise ValueError(f"a label matrix holds 0 and 1 only: y[{row}, {column}] is {y[row, column]!r}")
        book = self if self.multilabel else LabelBook(list(range(y.shape[1])), True)
        nothing = np.empty(0, np.intp)
        return book, Labels(nothing, nothing, y.astype(bool))


def _distinct(y: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The distinct labels of y as Python values, ascending where they can be ordered, and each row's position."""
    try:
        values, rank = np.unique(y, return_inverse=True)
        return values.tolist(), rank
    except TypeError:  # labels that have no order among them: first come, first served
        position: dict[Any, int] = {}
        rank = np.array([position.setdefault(label, len(position)) for label in y.tolist()], np.intp)
        return list(position), rank
