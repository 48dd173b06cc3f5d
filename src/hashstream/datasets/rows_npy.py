"""Rows of .npy and .npz files, a piece at a time."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from hashstream.datasets.columns import FEATURES, IDS, LABELS, Columns
from hashstream.datasets.folders import DatasetError, names_in_npz, read_npz, reason
from hashstream.datasets.rows import ArrayRows, Rows, RowSource, check_features, converted, side_arrays

__all__ = ["NpzRows", "open_npy"]


def open_npy(path: Path, columns: Columns, *, dtype: Any, text: bool) -> ArrayRows:
    """The features of an .npy file, mapped; ids and labels from files beside it."""
    if columns.features is not None:
        raise DatasetError(f"{path} has one array, without a name: --features cannot choose from it")
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read as an .npy file ({reason(error)})") from error
    if not isinstance(X, np.ndarray):
        X.close()
        raise DatasetError(f"{path} holds several arrays: rename it to .npz")
    for name, option in ((columns.id, "--id"), (columns.label, "--label")):
        if name is not None and not name.lower().endswith(".npy"):
            raise DatasetError(
                f"{path} has no columns: {option} has to be an .npy file with an entry for each row"
            )
    beside = {}
    for what, name in (("ids", columns.id), ("labels", columns.label)):
        usual = path.with_suffix(f".{what}.npy")
        beside[what] = str(usual) if name is None and usual.is_file() else name
    ids, y = Columns(beside["ids"], beside["labels"]).side_files()
    return ArrayRows(str(path), X, ids, y, dtype=dtype, text=text)


class NpzRows(RowSource):
    """An .npz file: its features are unpacked as they are read, ids and labels are read whole."""

    def __init__(self, path: Path, columns: Columns, *, dtype: Any, text: bool) -> None:
        self.name, self._path, self._dtype = str(path), path, np.dtype(dtype)
        there = names_in_npz(path)
        ids, y = columns.side_files()
        names = {}
        for what, option, asked, usual, given in (
            ("features", "--features", columns.features, FEATURES, None),
            ("ids", "--id", columns.id, IDS, ids),
            ("labels", "--label", columns.label, (*LABELS, "Y"), y),
        ):
            names[what] = None if given is not None else _one(there, asked, usual, path, option)
        if names["features"] is None:
            raise DatasetError(
                f"{path} has no features: call them {', '.join(FEATURES[:-1])} or {FEATURES[-1]}, or choose from "
                f"{', '.join(there) or 'nothing'} with --features"
            )
        self._member = names["features"]
        if names["ids"] is not None:
            ids = read_npz(path, names["ids"])[names["ids"]]
        if names["labels"] is not None:
            y = read_npz(path, names["labels"])[names["labels"]]
        with self._reading() as file:
            shape, self._fortran, self._stored = _head(file)
        check_features(self.name, shape, self._stored)
        self.total, self.d = shape
        self._ids, self._y = side_arrays(self.name, self.total, ids, y, text)
        self.has_ids, self.has_labels = self._ids is not None, self._y is not None

    def pieces(self, size: int) -> Iterator[Rows]:
        for first, X in self._features(size):
            part = slice(first, first + len(X))
            yield Rows(
                first,
                converted(X, self._dtype),
                None if self._ids is None else self._ids[part],
                None if self._y is None else self._y[part],
                part.stop,
            )

    def _features(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        if self._fortran:  # columns lie one after the other: a row is everywhere
            X = read_npz(self._path, self._member)[self._member]
            for first in range(0, len(X), size):
                yield first, X[first : first + size]
            return
        stride = self.d * self._stored.itemsize
        with self._reading() as file:
            _head(file)
            for first in range(0, self.total, size):
                n = min(size, self.total - first)
                raw = file.read(n * stride)
                if len(raw) < n * stride:
                    raise EOFError(f"it ends in row {first + len(raw) // stride}")
                yield first, np.frombuffer(raw, self._stored).reshape(n, self.d)
            file.read(1)  # only behind its last byte is a member compared with its checksum

    @contextmanager
    def _reading(self) -> Iterator[IO[bytes]]:
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(f"{self._member}.npy") as file:
                yield file
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise DatasetError(f"{self._path} cannot be read as an .npz file ({reason(error)})") from error


def _head(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns come first, and dtype of an array in the .npy format; the file then stands at its rows."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return shape, fortran and len(shape) > 1, dtype


def _one(there: list[str], asked: str | None, usual: tuple[str, ...], path: Path, option: str) -> str | None:
    if asked is not None:
        if asked not in there:
            raise DatasetError(f"{path} has no array {asked!r} ({option}): there is {', '.join(there)}")
        return asked
    found = [name for name in usual if name in there]
    if len(found) > 1:
        raise DatasetError(f"{path} has {' and '.join(found)}: say with {option} which is meant")
    return found[0] if found else None
