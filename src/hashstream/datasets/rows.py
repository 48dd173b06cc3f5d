"""Rows in pieces: ids, features and labels, of arrays here and of files in `row_files`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hashstream.datasets.columns import Chosen, Kind
from hashstream.datasets.errors import DatasetError

__all__ = [
    "AlignedRows",
    "ArrayRows",
    "RowSource",
    "Rows",
    "check_features",
    "converted",
    "side_arrays",
]


@dataclass(frozen=True)
class Rows:
    """A piece of a file.

    first : index of its first row, from 0. X : (n, d) in the requested dtype.
    ids : (n,) int64, or object holding str; None if the file has none.
    y : (n,) int64, or object holding str; (n, C) of 0 and 1 if several columns are labels; None if there are none. If
        some rows have no label: object holding int or str, with None for those; a matrix of floats with NaN in their
        rows.
    read : how much of the file has been read, in the unit of `RowSource.total`.
    fields, payload : name -> n values as the file has them: text, or what JSON can hold; fields may be arrays. None for
        a missing one.
    lines : of a text file, the line of each row; otherwise None.
    """

    first: int
    X: np.ndarray
    ids: np.ndarray | None
    y: np.ndarray | None
    read: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    lines: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.X)


class RowSource(ABC):
    """A file that is read in pieces, as returned by `open_rows`.

    name : for messages. d : features per row. total : number of rows, or of bytes if the rows are not counted; unit :
    "rows" or "bytes". has_ids, has_labels : whether its rows have them. fields, payload : names of columns.
    chosen : the columns that are read, whether they were named or not; None for a source without names.
    side_files : the .npy files from which its "ids" and "labels" are read, if they are.
    """

    name: str
    d: int
    total: int
    unit: str = "rows"
    has_ids: bool
    has_labels: bool
    fields: Sequence[str] = ()
    payload: Sequence[str] = ()
    chosen: Chosen | None = None
    side_files: Mapping[str, Path] = {}

    @abstractmethod
    def pieces(self, size: int) -> Iterator[Rows]:
        """All rows in order, `size` at a time; the last piece may be shorter."""


class AlignedRows(RowSource):
    """A source with ids and labels as whole arrays, aligned with its rows.

    dtype : of the features. text : take ids and labels as text. A subclass may set the values of fields and payload.
    """

    _field_values: Mapping[str, Any] = {}
    _payload_values: Mapping[str, Sequence[Any]] = {}

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        stored: np.dtype,
        ids: np.ndarray | None,
        y: np.ndarray | None,
        dtype: DTypeLike,
        text: bool,
    ) -> None:
        check_features(name, shape, stored)
        self.name, self._dtype = name, np.dtype(dtype)
        self.total, self.d = shape
        self._ids, self._y = side_arrays(name, self.total, ids, y, text)
        self.has_ids, self.has_labels = self._ids is not None, self._y is not None

    def _piece(self, first: int, X: np.ndarray) -> Rows:
        part = slice(first, first + len(X))
        return Rows(
            first,
            converted(X, self._dtype),
            None if self._ids is None else self._ids[part],
            None if self._y is None else self._y[part],
            part.stop,
            {name: values[part] for name, values in self._field_values.items()},
            {name: values[part] for name, values in self._payload_values.items()},
        )


class ArrayRows(AlignedRows):
    """Arrays as a source: X (n, d), mapped or in memory, optionally ids (n,) and y (n,) or (n, C)."""

    def __init__(
        self,
        name: str,
        X: np.ndarray,
        ids: np.ndarray | None = None,
        y: np.ndarray | None = None,
        *,
        dtype: DTypeLike = np.float32,
        text: bool = False,
    ) -> None:
        super().__init__(name, X.shape, X.dtype, ids, y, dtype, text)
        self._X = X

    def pieces(self, size: int) -> Iterator[Rows]:
        for first in range(0, self.total, size):
            yield self._piece(first, self._X[first : first + size])


def check_features(name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if len(shape) == 2 and not shape[0]:
        raise DatasetError(f"{name} has no rows")
    if len(shape) != 2 or 0 in shape:
        raise DatasetError(
            f"{name}: the features have shape {shape}, but they have to be (n, d), one row per item"
        )
    if dtype.kind not in "fiub":
        raise DatasetError(f"{name}: the features are of type {dtype}, but they have to be numbers")


def converted(X: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in memory; numbers too large for the dtype become infinite, which a table refuses."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(X, dtype, order="C")


def side_arrays(
    name: str, n: int, ids: np.ndarray | None, y: np.ndarray | None, text: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Ids and labels of n rows as whole arrays, checked."""
    for what, array in (("ids", ids), ("labels", y)):
        if array is not None and not array.ndim:
            raise DatasetError(f"{name}: the {what} are one value, but there has to be one per row")
        if array is not None and len(array) != n:
            raise DatasetError(f"{name} has {n} rows, but there are {len(array)} {what}")
    if ids is not None:
        if ids.ndim != 1:
            raise DatasetError(f"{name}: the ids have shape {ids.shape}, but there has to be one per row")
        ids = Kind("id", text).of(ids, name)
    if y is not None and y.ndim > 2:
        raise DatasetError(f"{name}: the labels have shape {y.shape}: one per row, or a 0/1 matrix")
    if y is not None and y.ndim == 1:
        y = Kind("label", text).of(y, name)
    return ids, y
