"""Labels of any kind, turned into class numbers that stay the same for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["LabelBook", "Labels", "as_labels"]


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
    """Gives every label a number when it is first seen: 0, 1, 2, ... New classes may appear at any time; those that
    appear in one batch are numbered in ascending order.

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
        y = y if isinstance(y, np.ndarray) and y.dtype.kind in "iub" else as_labels(y)
        if y.ndim == 2:
            return self._read_indicator(y)
        if y.ndim != 1:
            raise ValueError(f"y must be one label a row, or a 0/1 matrix; its shape is {y.shape}")
        if self.multilabel:
            raise ValueError(
                f"y has one label a row, but this model has learned from 0/1 matrices of {len(self)} columns"
            )
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


def as_labels(y: Any) -> np.ndarray:
    """y as an array in which every label is still itself, checked: no NaN, hashable.

    NumPy alone would turn [1, "a"] into strings and a list of tuples into a matrix.
    """
    if hasattr(y, "toarray"):  # a sparse label matrix
        y = y.toarray()
    if isinstance(y, (list, tuple)):
        kinds = {type(label) for label in y}
        if tuple in kinds or frozenset in kinds or (len(kinds) > 1 and str in kinds):
            labels = np.empty(len(y), dtype=object)
            labels[:] = y
            y = labels
    y = np.asarray(y)
    if y.dtype.kind in "fc" and not np.isfinite(y).all():
        at = tuple(np.argwhere(~np.isfinite(y))[0])
        raise ValueError(f"Input y contains NaN or infinity: y[{', '.join(map(str, at))}] is {y[at]}")
    if y.dtype.kind in "mM" and np.isnat(y).any():
        raise ValueError(f"Input y contains NaT: y[{int(np.isnat(y).argmax())}]")
    if y.dtype.kind == "O":
        for row, label in enumerate(y.ravel()):
            try:
                hash(label)
                strange = not bool(label == label)
            except TypeError:
                raise ValueError(f"labels must be hashable: y[{row}] is a {type(label).__name__}") from None
            if strange:
                raise ValueError(f"Input y contains NaN: y[{row}] is {label!r}")
    return y


def _distinct(y: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The distinct labels of y as Python values, ascending where they are all numbers or all strings and in order of
    first appearance otherwise, and each row's position among them."""
    if y.dtype.kind in "iu" and len(y) and int(y.max()) - (low := int(y.min())) < 4 * len(y) + 100:
        # Whole numbers close together are counted, which is faster than sorting them.
        seen = np.bincount(y - low) > 0
        return (np.flatnonzero(seen) + low).tolist(), (np.cumsum(seen) - 1)[y - low]
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
