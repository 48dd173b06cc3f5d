"""Rows of a file in pieces, whatever its size: ids, features and labels from .npy, .npz, .csv, .tsv and Parquet.

`open_rows` looks at the head of a file and says what is in it; `pieces` then reads it from the beginning, some rows at
a time. An .npz file is unpacked as it is read, text parsed line by line, and Parquet comes by its row groups: memory is
bounded by the piece (and, in .npy and .npz files, by ids and labels). Files are not trusted: whatever is wrong with one
is a DatasetError that names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets.columns import Columns, Kind
from hashstream.datasets.errors import DatasetError

__all__ = [
    "SUFFIXES",
    "ArrayRows",
    "RowSource",
    "Rows",
    "check_features",
    "converted",
    "open_rows",
    "side_arrays",
]

SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".parquet", ".pq")


@dataclass(frozen=True)
class Rows:
    """A piece of a file.

    first : number of its first row, from 0. X : (n, d) in the dtype that was asked for.
    ids : (n,) int64, or object holding str; None where the file has none.
    y : (n,) int64, or object holding str; (n, C) of 0 and 1 where several columns are labels; None without. Where some
        rows have no label: object holding int or str, and None for those; a matrix of floats with NaN in their rows.
    read : how much of the file is read now, in the unit of `RowSource.total`.
    """

    first: int
    X: np.ndarray
    ids: np.ndarray | None
    y: np.ndarray | None
    read: int

    def __len__(self) -> int:
        return len(self.X)


class RowSource(ABC):
    """A file that is read in pieces. Made by `open_rows`.

    name : how it is called in a sentence. d : features a row. total : rows, or bytes where nobody has counted them;
    unit : which of both. has_ids, has_labels : whether its rows have them.
    """

    name: str
    d: int
    total: int
    unit: str = "rows"
    has_ids: bool
    has_labels: bool

    @abstractmethod
    def pieces(self, size: int) -> Iterator[Rows]:
        """The rows from the first to the last, `size` at a time; the last piece may be shorter."""


class ArrayRows(RowSource):
    """Arrays as a source: X (n, d), mapped or in memory, ids (n,) and y (n,) or (n, C) where there are any."""

    def __init__(
        self,
        name: str,
        X: np.ndarray,
        ids: np.ndarray | None = None,
        y: np.ndarray | None = None,
        *,
        dtype: Any = np.float32,
        text: bool = False,
    ) -> None:
        check_features(name, X.shape, X.dtype)
        self.name, self._X, self._dtype = name, X, np.dtype(dtype)
        self.total, self.d = X.shape
        self._ids, self._y = side_arrays(name, len(X), ids, y, text)
        self.has_ids, self.has_labels = self._ids is not None, self._y is not None

    def pieces(self, size: int) -> Iterator[Rows]:
        for first in range(0, self.total, size):
            part = slice(first, min(first + size, self.total))
            yield Rows(
                first,
                converted(self._X[part], self._dtype),
                None if self._ids is None else self._ids[part],
                None if self._y is None else self._y[part],
                part.stop,
            )


def open_rows(
    path: str | Path,
    *,
    id: str | None = None,
    label: str | None = None,
    features: str | None = None,
    header: bool = True,
    text: bool = False,
    dtype: Any = np.float32,
) -> RowSource:
    """A file by its ending; a DatasetError says what is wrong with it, or what is missing.

    .csv, .tsv, .parquet: columns by name. .npz: arrays by name. .npy: the features alone.

    id, label, features : the names to take. Where none is given: `id` or `ids`; `label`, `labels` or `y`; and for the
        features `features`, `x`, `X`, `embedding` or `vector` where such an array (or a Parquet column of lists) is
        there, and otherwise all other columns of a table. Features may be many names with commas between, and
        patterns such as `pixel*`; so may labels, and are then a matrix of 0 and 1.
        id and label may also be .npy files with an entry for each row. NAME.ids.npy and NAME.labels.npy beside
        NAME.npy are found by themselves.
    header : whether the first line of a .csv file has the names; without, they are 0, 1, 2, ...
    text : take ids and labels as text. Otherwise they are whole numbers where the first piece has nothing else.

    An empty cell, an empty string, a null or a NaN among the labels is a row without a label. Every row needs an id,
    where there are ids, and features.
    dtype : of the features.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "pets.csv"
    >>> _ = path.write_text("id,weight,height,label\\nrex,30.5,60,dog\\ntom,4,25,cat\\n")
    >>> (piece,) = open_rows(path).pieces(1000)
    >>> piece.ids.tolist(), piece.X.tolist(), piece.y.tolist()
    (['rex', 'tom'], [[30.5, 60.0], [4.0, 25.0]], ['dog', 'cat'])
    >>> folder.cleanup()
    """
    from hashstream.datasets import rows_npy, rows_tables

    path = Path(path).expanduser()
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DatasetError(f"{path} ends in {suffix or 'nothing'}: it has to be one of {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    columns = Columns(id, label, features)
    if suffix == ".npy":
        return rows_npy.NpyRows(path, columns, dtype=dtype, text=text)
    if suffix == ".npz":
        return rows_npy.NpzRows(path, columns, dtype=dtype, text=text)
    if suffix in (".csv", ".tsv"):
        return rows_tables.TextRows(path, columns, header=header, dtype=dtype, text=text)
    return rows_tables.ParquetRows(path, columns, dtype=dtype, text=text)


def check_features(name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if len(shape) == 2 and not shape[0]:
        raise DatasetError(f"{name} has no rows")
    if len(shape) != 2 or 0 in shape:
        raise DatasetError(
            f"{name}: the features have shape {shape}, but they have to be (n, d), a row an item"
        )
    if dtype.kind not in "fiub":
        raise DatasetError(f"{name}: the features are of type {dtype}, but they have to be numbers")


def converted(X: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in memory; what the dtype cannot hold becomes infinite, which a table refuses by row."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(X, dtype, order="C")


def side_arrays(
    name: str, n: int, ids: np.ndarray | None, y: np.ndarray | None, text: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Ids and labels that stand beside n rows as whole arrays, checked."""
    for what, array in (("ids", ids), ("labels", y)):
        if array is not None and not array.ndim:
            raise DatasetError(f"{name}: the {what} are one value, but there has to be one per row")
        if array is not None and len(array) != n:
            raise DatasetError(f"{name} has {n} rows, but there are {len(array)} {what}")
    if ids is not None:
        if ids.ndim != 1:
            raise DatasetError(f"{name}: the ids have shape {ids.shape}, but there has to be one a row")
        ids = Kind("id", text).of(ids, name)
    if y is not None and y.ndim > 2:
        raise DatasetError(f"{name}: the labels have shape {y.shape}: one per row, or a 0/1 matrix")
    if y is not None and y.ndim == 1:
        y = Kind("label", text).of(y, name)
    return ids, y
