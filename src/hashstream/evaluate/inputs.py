"""Validation of codes, labels and cut-offs."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from hashstream.hashers.labels import as_labels, missing_rows

_NUMBERS = "biuf"
_KINDS = {"U": "strings", "S": "byte strings", "O": "objects", "M": "dates", "m": "durations"}


def check_codes(codes: Any, name: str, n_bits: int | None) -> tuple[np.ndarray, int]:
    """The codes, (n, ceil(n_bits / 8)) uint8 with n >= 1, and n_bits, by default 8 per column.

    >>> codes, n_bits = check_codes(np.packbits([[1, 0, 1]], axis=1), "codes", 3)
    >>> codes, n_bits
    (array([[160]], dtype=uint8), 3)
    """
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.dtype != np.uint8:
        raise ValueError(
            f"{name} are {codes.dtype} of shape {codes.shape}: packed codes are uint8 of shape "
            "(n, ceil(n_bits / 8)), as np.packbits(bits, axis=1) makes them"
        )
    if codes.size == 0:
        raise ValueError(
            f"{name} are empty (shape {codes.shape}): at least one code of at least one byte is needed"
        )
    width = codes.shape[1]
    if n_bits is None:
        return codes, 8 * width
    (n_bits,) = check_cutoffs(n_bits, "n_bits", 1)
    if not 8 * (width - 1) < n_bits <= 8 * width:
        raise ValueError(
            f"n_bits is {n_bits}, but {name} have {width} bytes per code: {8 * width - 7} to {8 * width} bits"
        )
    padding = 0xFF >> (n_bits - 8 * (width - 1))
    if padding and (codes[:, -1] & padding).any():
        row = int((codes[:, -1] & padding).argmax())
        raise ValueError(
            f"{name}[{row}] has ones past bit {n_bits}: the padding of the last byte has to be 0"
        )
    return codes, n_bits


def check_cutoffs(values: int | Iterable[int], name: str, least: int) -> tuple[int, ...]:
    """One integer or several, each at least `least`, without duplicates.

    >>> check_cutoffs([10, 1, 10], "k", 1)
    (10, 1)
    """
    try:
        items = list(values) if isinstance(values, Iterable) else [values]
        numbers = tuple(dict.fromkeys(operator.index(value) for value in items))
    except TypeError:
        raise ValueError(f"{name} is {values!r}: it has to be an integer or several of them") from None
    if any(number < least for number in numbers):
        raise ValueError(f"{name} is {values!r}: each number has to be {least} or more")
    return numbers


def match_labels(
    query_labels: Any, db_labels: Any, n_queries: int, n_codes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The labels of queries and database as numbers that can be compared.

    1-D labels (numbers, strings, any hashable objects) become class numbers, int32: equal number, equal
    label. A label that only queries have gets a number that no item of the database has, and so does a missing
    one (None, NaN, NaT, pandas.NA), on either side: it is equal to nothing. 0/1 indicator matrices, (n, L) of any
    numeric or bool dtype, become uint8; a row with a missing entry shares no label.

    >>> match_labels(["cat", "yak", None], ["dog", "cat", "dog", None], 3, 4)
    (array([1, 3, 4], dtype=int32), array([0, 1, 0, 5], dtype=int32))
    """
    q, no_q = _as_labels(query_labels, "query_labels", n_queries)
    d, no_d = _as_labels(db_labels, "db_labels", n_codes)
    if q.ndim != d.ndim:
        raise ValueError(
            f"query_labels have shape {q.shape} and db_labels {d.shape}: give class labels (1-D) for both or "
            "0/1 indicator matrices (2-D) for both"
        )
    if q.ndim == 2:
        if q.shape[1] != d.shape[1]:
            raise ValueError(
                f"query_labels have {q.shape[1]} columns and db_labels {d.shape[1]}: an indicator matrix "
                "has one column for each label, the same on both sides"
            )
        return _indicators(q, no_q, "query_labels"), _indicators(d, no_d, "db_labels")
    known_q, known_d = (~no_q).any(), (~no_d).any()
    if known_q and known_d and _kind(q) != _kind(d) and "O" not in q.dtype.kind + d.dtype.kind:
        raise ValueError(
            f"query_labels are {_kind(q)} and db_labels {_kind(d)}: no label could be equal to another"
        )
    if q.dtype.kind != d.dtype.kind or q.dtype.kind == "O":
        # Promotion to one dtype would round large integers, and objects need not have an order.
        of_queries, numbers, n_classes = _number_objects(q, d)
    else:
        classes, numbers = np.unique(d, return_inverse=True)
        n_classes = len(classes)
        place = np.minimum(np.searchsorted(classes, q), n_classes - 1)
        of_queries = np.where(classes[place] == q, place, n_classes)
    of_queries = np.where(no_q, n_classes + 1, of_queries)
    return of_queries.astype(np.int32), np.where(no_d, n_classes + 2, numbers).astype(np.int32)


def _as_labels(given: Any, name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels as an array, and (n,) bool: which of them are missing."""
    labels = as_labels(given, name)
    if labels.ndim not in (1, 2):
        raise ValueError(
            f"{name} have shape {labels.shape}: give class labels (1-D) or a dense indicator matrix (2-D)"
        )
    if len(labels) != n:
        raise ValueError(
            f"{name} have {len(labels)} rows for {n} codes: one label (or row of labels) per code"
        )
    missing = missing_rows(labels)
    return labels, np.zeros(n, bool) if missing is None else missing


def _kind(labels: np.ndarray) -> str:
    return "numbers" if labels.dtype.kind in _NUMBERS else _KINDS.get(labels.dtype.kind, str(labels.dtype))


def _indicators(labels: np.ndarray, missing: np.ndarray, name: str) -> np.ndarray:
    wrong = None if labels.dtype.kind == "b" else (labels != 0) & (labels != 1) & ~missing[:, None]
    if wrong is not None and np.any(wrong):
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name}[{row}, {column}] is {labels[row, column]!r}: an indicator matrix holds 0 and 1 only "
            "(a single column of class labels has to be 1-D)"
        )
    if missing.any():
        labels = labels.copy()
        labels[missing] = 0
    return np.asarray(labels, np.uint8)


def _number_objects(q: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Class numbers in order of first appearance, by Python's own equality, and the number of classes in the
    database, which stands for a label that it does not have."""
    seen: dict[Any, int] = {}
    numbers = [seen.setdefault(label, len(seen)) for label in d.tolist()]
    of_queries = [seen.get(label, len(seen)) for label in q.tolist()]
    return np.array(of_queries, np.int64), np.array(numbers, np.int64), len(seen)
