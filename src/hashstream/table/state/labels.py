"""Labels as a table keeps them: exactly what was given, since the model may be learned from them again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from hashstream.hashers.labels import is_missing, missing_rows
from hashstream.table.state.number_columns import COMPARISONS
from hashstream.table.state.text_columns import Dictionary, TextColumn, looked_up

__all__ = ["LabelColumn", "label_at", "plain_labels"]

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


class LabelColumn(TextColumn):
    """The label of each slot, and whether the model has learned it; 0 is missing.

    The dictionary holds each label as JSON, which tells 1 from 1.0, True and "1", after a "+" where it was learned and
    a "-" where it was not. A row of a 0/1 matrix is a list.
    """

    kind, holds = "label", "labels: strings, numbers or booleans"

    @classmethod
    def of(cls, y: np.ndarray | None, n: int, *, learned: bool) -> Self:
        """The column of a batch's labels, as `plain_labels` returns them."""
        if y is None:
            return cls(np.zeros(n, np.uint8))
        words, sign = Dictionary(), "+" if learned else "-"
        if y.dtype.kind in "iub" and y.ndim == 1:  # none is missing, and few are distinct
            distinct, at = np.unique(y, return_inverse=True)
            numbers = np.array([words.number(sign + label_text(label)) for label in distinct.tolist()])
            return cls(numbers[at].astype(np.min_scalar_type(len(words))), words)
        known: dict[Any, int] = {}
        found = []
        for row, value in enumerate(map(bytes, y.astype(np.float64)) if y.ndim == 2 else y.tolist()):
            key = value if type(value) in (str, bytes) else (type(value), value)
            number = known.get(key)
            if number is None:
                label = label_at(y, row)
                number = 0 if label is None else words.number(sign + label_text(label))
                known[key] = number
            found.append(number)
        return cls(np.array(found, np.min_scalar_type(len(words))), words)

    @classmethod
    def check_text(cls, text: str) -> None:
        value = json.loads(text[1:]) if text[:1] in ("+", "-") else None
        row = value if isinstance(value, list) else [0]
        finite = not isinstance(value, float) or math.isfinite(value)
        if (
            value is None
            or isinstance(value, dict)
            or not finite
            or not all(entry in (0, 1) for entry in row)
        ):
            raise ValueError("a label is not one")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        column = super().from_arrays(arrays)
        shapes = {np.shape(label) for label in column.distinct()}
        if len(shapes) > 1:
            raise ValueError("labels are of two kinds")
        return column

    def distinct(self) -> list[Any]:
        """The labels of the dictionary."""
        return [self._value(text) for text in self._words.texts]

    def _value(self, text: str) -> Any:
        label = json.loads(text[1:])
        return np.array(label, bool) if isinstance(label, list) else label

    def texts(self, slots: np.ndarray) -> list[str]:
        """Texts that tell the labels of slots apart, and learned ones from others; "" for a missing one."""
        texts = ["", *self._words.texts]
        return [texts[number] for number in self._codes[slots].tolist()]

    def same(self, other: Self) -> np.ndarray:
        """Where another column of the same length has the same class, and it was learned in both or in none, bool; 1,
        1.0 and True are one class, as they are for a hasher."""
        every = np.arange(len(self))
        pairs = list(zip(self.texts(every), other.texts(every), strict=True))
        known = {pair: _same_class(*pair) for pair in set(pairs)}
        return np.array([known[pair] for pair in pairs], bool)

    def learned(self, slots: np.ndarray) -> np.ndarray | None:
        """The labels of slots (n,) that the model has learned, as `plain_labels` has them, missing for the others; None
        where it has learned none."""
        texts = self.texts(slots)
        values = [self._value(text) if text[:1] == "+" else None for text in texts]
        if all(value is None for value in values):
            return None
        if self.shape:  # rows of a matrix
            return np.array(
                [np.full(self.shape, np.nan) if one is None else one for one in values], np.float64
            )
        out = np.empty(len(values), object)
        out[:] = values
        return out

    def was_learned(self, slots: np.ndarray) -> np.ndarray:
        """Which slots have a label that the model has learned, bool."""
        return looked_up(
            np.array([False, *(text[0] == "+" for text in self._words.texts)], bool), self._codes[slots]
        )

    def unlearned(self) -> Self:
        """The same labels, of which none was learned."""
        words = Dictionary()
        numbers = [0, *(words.number("-" + text[1:]) for text in self._words.texts)]
        codes = np.array(numbers, np.min_scalar_type(len(words)))[self._codes[: self._n]]
        return type(self)(codes, words)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of a label: (), or (C,) for rows of a matrix; None before the first label."""
        # Of one that is used: a commit that failed may have left others in the dictionary.
        used = int(self._codes[: self._n].max(initial=0))
        return np.shape(self._value(self._words.texts[used - 1])) if used else None

    def operand(self, value: Any, name: str, row: int | None = None) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, (str, int, float)):
            raise self.wrong(name, row, value)
        return value

    def mask(self, op: str, operand: Any, first: int, last: int) -> np.ndarray:
        """Of rows of a matrix, "eq" and "in" ask whether a class is set."""
        codes = self._codes[first:last]
        if op == "exists":
            return np.asarray(codes != 0)
        wanted = operand if op == "in" else (operand,)
        compare = COMPARISONS.get(op, COMPARISONS["eq"])

        def holds(text: str) -> bool:
            label = json.loads(text[1:])
            if isinstance(label, list):
                classes = [one for one in wanted if type(one) is int and 0 <= one < len(label)]
                return op in ("eq", "in") and any(label[one] for one in classes)
            same = [one for one in wanted if isinstance(one, str) == isinstance(label, str)]
            return any(bool(compare(label, one)) for one in same)

        return looked_up(np.array([False, *map(holds, list(self._words.texts))], bool), codes)

    def take(self, slots: np.ndarray) -> np.ndarray:
        codes = self._codes[np.asarray(slots)]
        used, at = np.unique(codes, return_inverse=True)
        values = np.empty(len(used), object)
        for i, number in enumerate(used.tolist()):
            values[i] = self._value(self._words.texts[number - 1]) if number else None
        return values[at.ravel()].reshape(codes.shape)


def _same_class(a: str, b: str) -> bool:
    if a == b or a[:1] != b[:1]:
        return a == b
    return bool(json.loads(a[1:]) == json.loads(b[1:]))


def label_text(label: Any) -> str:
    """One label, or one row of a label matrix, as JSON."""
    return json.dumps(label.astype(int).tolist() if isinstance(label, np.ndarray) else label)
