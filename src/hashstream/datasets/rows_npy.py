"""Rows of .npy and .npz files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike

from hashstream._machine import check_memory
from hashstream.datasets.columns import ALL, FEATURES, IDS, LABELS, Chosen, Columns, read_side_files
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.npy import Header, names_in_npz, open_npy, open_npz, read_npz
from hashstream.datasets.rows import AlignedRows, Rows


class _StoredRows(AlignedRows):
    """A matrix of features in the .npy format, read as it is needed; ids and labels are in memory."""

    def __init__(
        self, path: Path, ids: np.ndarray | None, y: np.ndarray | None, *, dtype: DTypeLike, text: bool
    ) -> None:
        self._path = path
        with self._open() as (_, self._header):
            super().__init__(str(path), self._header.shape, self._header.dtype, ids, y, dtype, text)

    @abstractmethod
    def _open(self) -> AbstractContextManager[tuple[IO[bytes], Header]]:
        """The file, positioned at the matrix, and its header; errors within become a DatasetError."""

    def pieces(self, size: int) -> Iterator[Rows]:
        for first, X in self._features(size):
            yield self._piece(first, X)

    def _features(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        if self._header.fortran:
            yield from self._by_columns(size)
            return
        stored = self._header.dtype
        stride = self.d * stored.itemsize
        with self._open() as (file, header):
            self._check_same(header)
            check_memory(min(size, self.total) * stride)
            for first in range(0, self.total, size):
                n = min(size, self.total - first)
                raw = file.read(n * stride)
                if len(raw) < n * stride:
                    raise EOFError(f"it ends in row {first + len(raw) // stride}")
                yield first, np.frombuffer(raw, stored).reshape(n, self.d)
            file.read(1)  # a checksum of an .npz member is verified only after its last byte

    @abstractmethod
    def _by_columns(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of a matrix in Fortran order."""

    def _check_same(self, header: Header) -> None:
        if header != self._header:
            raise ValueError("it was replaced while it was being read")


class NpyRows(_StoredRows):
    """An .npy file; ids and labels are in separate files."""

    def __init__(self, path: Path, columns: Columns, *, dtype: DTypeLike, text: bool) -> None:
        for given, option in ((columns.features, "--features"), (columns.payload, "--payload")):
            if given:
                raise DatasetError(f"{path} has one array, without a name: {option} does not apply")
        for name, option in ((columns.id, "--id"), (columns.label, "--label")):
            if name is not None and not name.lower().endswith(".npy"):
                raise DatasetError(
                    f"{path} has no columns: {option} has to be an .npy file with one entry per row"
                )
        usual = {what: path.with_suffix(f".{what}.npy") for what in ("ids", "labels")}
        asked = columns.side_files()
        self.side_files = {what: file for what, file in usual.items() if file.is_file()} | asked
        ids, y = read_side_files(self.side_files)
        super().__init__(path, ids, y, dtype=dtype, text=text)
        self.chosen = Chosen(None, (), ())

    def _open(self) -> AbstractContextManager[tuple[IO[bytes], Header]]:
        return open_npy(self._path)

    def _by_columns(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        stored = self._header.dtype
        with self._open() as (file, header):
            self._check_same(header)
            start = file.tell()
            check_memory(min(size, self.total) * self.d * stored.itemsize)
            for first in range(0, self.total, size):
                X = np.empty((min(size, self.total - first), self.d), stored)
                for column in range(self.d):
                    file.seek(start + (column * self.total + first) * stored.itemsize)
                    raw = file.read(len(X) * stored.itemsize)
                    if len(raw) < len(X) * stored.itemsize:
                        raise EOFError(f"it ends in column {column}")
                    X[:, column] = np.frombuffer(raw, stored)
                yield first, X


class NpzRows(_StoredRows):
    """An .npz file: features are unpacked as they are read, ids and labels at once."""

    def __init__(self, path: Path, columns: Columns, *, dtype: DTypeLike, text: bool) -> None:
        there = names_in_npz(path)
        self.fields = columns.fields_among(there)
        free = [name for name in there if name not in self.fields]
        self.side_files = columns.side_files()
        ids, y = read_side_files(self.side_files)
        names = {}
        for what, option, asked, usual, given in (
            ("features", "--features", columns.features, FEATURES, None),
            ("ids", "--id", columns.id, IDS, ids),
            ("labels", "--label", columns.label, (*LABELS, "Y"), y),
        ):
            some = free if asked is None else there
            names[what] = None if given is not None else _one(some, asked, usual, path, option)
        if names["features"] is None:
            raise DatasetError(
                f"{path} has no features: call them {', '.join(FEATURES[:-1])} or {FEATURES[-1]}, or choose from "
                f"{', '.join(there[:100]) or 'nothing'} with --features"
            )
        self._member = names["features"]
        self.chosen = Chosen(names["ids"], tuple(filter(None, [names["labels"]])), (self._member,))
        if names["ids"] is not None:
            ids = read_npz(path, names["ids"])[names["ids"]]
        if names["labels"] is not None:
            y = read_npz(path, names["labels"])[names["labels"]]
        super().__init__(path, ids, y, dtype=dtype, text=text)
        self._take(columns, [name for name in free if name not in names.values()])

    def _take(self, columns: Columns, free: list[str]) -> None:
        """Read the arrays of fields and payload. free : names that the payload's patterns can match."""
        path = self._path
        arrays = read_npz(path, *self.fields)
        for name, array in arrays.items():
            if array.ndim not in (1, 2) or len(array) != self.total:
                raise DatasetError(
                    f"{path} has {self.total} rows, but field {name!r} has shape {array.shape}: one value per row"
                )
        self._field_values = {name: texts_of(array) for name, array in arrays.items()}
        chosen = columns.payload_among(names_in_npz(path), free, str(path))
        values = {}
        for name in dict.fromkeys((*chosen, *(free if ALL in columns.payload else ()))):
            with open_npz(path, name) as (_, header):
                aligned = header.shape[:1] == (self.total,)
            if aligned:
                values[name] = json_values(read_npz(path, name)[name], f"{path}: {name}")
            elif name in chosen:
                raise DatasetError(
                    f"{path} has {self.total} rows, but {name} (--payload) has shape {header.shape}"
                )
        self._payload_values, self.payload = values, tuple(values)

    def _open(self) -> AbstractContextManager[tuple[IO[bytes], Header]]:
        return open_npz(self._path, self._member)

    def _by_columns(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        """A compressed file can only be read in its own order: read all of it."""
        X = read_npz(self._path, self._member)[self._member]
        for first in range(0, len(X), size):
            yield first, X[first : first + size]


def texts_of(array: np.ndarray) -> Any:
    """Text as a list of strings, with None for empty ones, and of lists of strings; any other array unchanged."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "backslashreplace")
    if array.dtype.kind != "U":
        return array
    if array.ndim > 1:
        return [[text for text in texts if text] for texts in array.tolist()]
    return [text or None for text in array.tolist()]


def json_values(array: np.ndarray, what: str) -> list[Any]:
    """The rows of an array as JSON has them, None for a missing value. what : for messages."""
    if array.dtype.kind == "M":
        array = np.where(np.isnat(array), "", np.datetime_as_string(array))
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "backslashreplace")
    if array.dtype.kind not in "biufU":
        raise DatasetError(f"{what} is of type {array.dtype}, which a payload cannot hold")
    if array.dtype.kind == "f":
        if np.isinf(array).any():
            row = int(np.argwhere(np.isinf(array))[0][0])
            raise DatasetError(f"{what} is infinite in row {row}, which a payload cannot hold")
        array = np.where(np.isnan(array), None, array.astype(object))  # type: ignore[call-overload]
    found: list[Any] = texts_of(array) if array.ndim == 1 and array.dtype.kind == "U" else array.tolist()
    return found


def _one(there: list[str], asked: str | None, usual: tuple[str, ...], path: Path, option: str) -> str | None:
    if asked is not None:
        if asked not in there:
            listed = ", ".join(there[:100])
            raise DatasetError(f"{path} has no array {asked!r} ({option}): there is {listed}")
        return asked
    found = [name for name in usual if name in there]
    if len(found) > 1:
        raise DatasetError(f"{path} has {' and '.join(found)}: say with {option} which is meant")
    return found[0] if found else None
