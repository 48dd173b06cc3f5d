"""Rows of files that have columns: text with commas (or tabs) between, and Parquet."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from hashstream.datasets.columns import FEATURES, Columns, Kind, label_matrix
from hashstream.datasets.folders import DatasetError, reading
from hashstream.datasets.memory import check_memory
from hashstream.datasets.rows import Rows, RowSource, check_features, converted, side_arrays

__all__ = ["ParquetRows", "TextRows"]

MAX_RECORD = 1 << 24  # bytes of a line of text, or of several that are one record


class _TableRows(RowSource):
    """What both have: columns by name, and perhaps ids and labels from files beside."""

    def __init__(self, path: Path, columns: Columns, *, dtype: Any, text: bool) -> None:
        self.name, self._path, self._dtype, self._text = str(path), path, np.dtype(dtype), text
        self._asked = columns
        ids, y = columns.side_files()
        n_rows = next((len(array) for array in (ids, y) if array is not None), 0)
        self._ids, self._y = side_arrays(self.name, n_rows, ids, y, text)

    def _beside(self, which: np.ndarray | None, first: int, n: int, what: str) -> np.ndarray | None:
        """The entries for n rows of a file beside this one."""
        if which is None:
            return None
        if first + n > len(which):
            raise DatasetError(
                f"{self.name} has more rows than the {len(which)} {what} that were given for it"
            )
        return which[first : first + n]

    def _check_end(self, n_rows: int) -> None:
        for which, what in ((self._ids, "ids"), (self._y, "labels")):
            if which is not None and len(which) != n_rows:
                raise DatasetError(f"{self.name} has {n_rows} rows, but there are {len(which)} {what}")


class TextRows(_TableRows):
    """A .csv or .tsv file, in UTF-8. How far it is read is counted in bytes, since nobody knows its rows."""

    unit = "bytes"

    def __init__(self, path: Path, columns: Columns, *, header: bool, dtype: Any, text: bool) -> None:
        super().__init__(path, columns, dtype=dtype, text=text)
        self._between = "\t" if path.suffix.lower() == ".tsv" else ","
        self._header = header
        self.total = path.stat().st_size
        with self._records() as (_, records):
            _, head = next(records, (0, None))
            if head is None:
                raise DatasetError(f"{path} is empty")
        if header:
            self._check_header(head)
        self._names = head if header else [str(i) for i in range(len(head))]
        chosen = columns.among(self._names, self.name)
        place = {name: i for i, name in enumerate(self._names)}
        self._id_at = None if chosen.id is None else place[chosen.id]
        self._labels_at = [place[name] for name in chosen.labels]
        self._features_at = [place[name] for name in chosen.features]
        self.d = len(self._features_at)
        self.has_ids = self._id_at is not None or self._ids is not None
        self.has_labels = bool(self._labels_at) or self._y is not None

    def _check_header(self, head: list[str]) -> None:
        if "" in head and self._asked.features is None:
            raise DatasetError(
                f"{self.name}: column {head.index('') + 1} has no name, as pandas writes its index. Name the features "
                "with --features, or write the file without an index"
            )
        numbers = [_number(name) for name in head]
        if None not in numbers and numbers != list(range(len(head))):
            raise DatasetError(
                f"the first line of {self.name} has numbers and no names: if it has no header, say --no-header"
            )

    @contextmanager
    def _records(self) -> Iterator[tuple[IO[bytes], Iterator[tuple[int, list[str]]]]]:
        with reading(self._path, "text in UTF-8"), self._path.open("rb") as raw:
            lines = _Lines(raw)
            first = next(lines, "").removeprefix("\ufeff")
            records = csv.reader(itertools.chain([first], lines) if first else [], delimiter=self._between)
            yield raw, lines.bounded(records)

    def pieces(self, size: int) -> Iterator[Rows]:
        ids, labels, first = Kind("id", self._text), Kind("label", self._text), 0
        with self._records() as (raw, records):
            if self._header:
                next(records, None)
            while piece := self._some(records, size):
                n = len(piece)
                yield Rows(
                    first,
                    self._features(piece),
                    self._beside(self._ids, first, n, "ids")
                    if self._id_at is None
                    else ids.of([cells[self._id_at] for _, cells in piece], self.name, first),
                    self._beside(self._y, first, n, "labels")
                    if not self._labels_at
                    else self._labels(piece, labels, first),
                    raw.tell(),
                )
                first += n
        self._check_end(first)

    def _some(self, records: Any, size: int) -> list[tuple[int, list[str]]]:
        """The next records that are not blank, each with the number of its line."""
        piece: list[tuple[int, list[str]]] = []
        for line, cells in records:
            if not cells:
                continue
            if len(cells) != len(self._names):
                raise DatasetError(
                    f"{self.name}, line {line}, has {len(cells)} columns, but there are {len(self._names)} names"
                )
            piece.append((line, cells))
            if len(piece) == size:
                break
        return piece

    def _features(self, piece: list[tuple[int, list[str]]]) -> np.ndarray:
        at = self._features_at
        pick = itemgetter(*at) if len(at) > 1 else itemgetter(slice(at[0], at[0] + 1))
        try:
            cells = itertools.chain.from_iterable(pick(cells) for _, cells in piece)
            numbers = np.fromiter(map(float, cells), np.float64, len(piece) * len(at))
        except ValueError:
            line, i = next((line, i) for line, cells in piece for i in at if _number(cells[i]) is None)
            cell = next(cells[i] for number, cells in piece if number == line)
            found = repr(cell) if cell.strip() else "empty"
            raise DatasetError(
                f"{self.name}, line {line}: {self._names[i]} is {found}, not a number. If it is no feature, name "
                "those that are with --features"
            ) from None
        return converted(numbers.reshape(len(piece), len(at)), self._dtype)

    def _labels(self, piece: list[tuple[int, list[str]]], kind: Kind, first: int) -> np.ndarray:
        if len(self._labels_at) == 1:
            return kind.of([cells[self._labels_at[0]] for _, cells in piece], self.name, first)
        columns = [
            Kind("label").of([cells[i] for _, cells in piece], self.name, first) for i in self._labels_at
        ]
        return label_matrix(columns)


class _Lines:
    """The lines of a text, and the records made of them, none longer than MAX_RECORD: a file without an end of line, or
    with a quote that is never closed, is not taken into memory whole."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._taken, self.line_num = raw, 0, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._raw.readline(MAX_RECORD + 1 - self._taken)
        self._taken += len(line)
        if self._taken > MAX_RECORD:
            raise ValueError(f"line {self.line_num + 1} has more than {MAX_RECORD:,} bytes")
        if not line:
            raise StopIteration
        self.line_num += 1
        return line.decode("utf-8")

    def bounded(self, records: Any) -> Iterator[tuple[int, list[str]]]:
        """The number of the last line of each record, and its cells."""
        for cells in records:
            self._taken = 0
            yield self.line_num, cells


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


class ParquetRows(_TableRows):
    """A Parquet file, one row group after the other. Features are many columns, or one column of lists."""

    def __init__(self, path: Path, columns: Columns, *, dtype: Any, text: bool) -> None:
        super().__init__(path, columns, dtype=dtype, text=text)
        with self._reading() as file:
            self.total = int(file.metadata.num_rows)
            schema = file.schema_arrow
            lists = [field.name for field in schema if _is_list(field.type)]
            chosen = columns.among(schema.names, self.name, lists)
            if not self.total:
                raise DatasetError(f"{path} has no rows")
            side_arrays(self.name, self.total, self._ids, self._y, text)
            self._chosen = chosen
            self._check_declared(file.metadata)
            self._wide = len(chosen.features) == 1 and chosen.features[0] in lists
            if not self._wide:
                for name in chosen.features:
                    _check_number(self.name, name, schema.field(name).type)
            self.has_ids = chosen.id is not None or self._ids is not None
            self.has_labels = bool(chosen.labels) or self._y is not None
            self.d = len(chosen.features)
            if self._wide:
                head = next(file.iter_batches(batch_size=1, columns=[chosen.features[0]]), None)
                if head is None or not head.num_rows:
                    raise ValueError("its footer is damaged")
                self.d = self._features(head, 0, width=None).shape[1]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise DatasetError(
                f"{self._path}: reading Parquet needs pyarrow: pip install 'hashstream[parquet]'"
            ) from None
        with reading(self._path, "Parquet"):
            try:
                with pyarrow.parquet.ParquetFile(
                    self._path, pre_buffer=False, page_checksum_verification=True
                ) as file:
                    yield file
            except pyarrow.ArrowException as error:  # some are no built-in exceptions
                raise ValueError(error) from error

    def _check_declared(self, metadata: Any) -> None:
        """A few bytes of Parquet can stand for any number of values: those of a row group have to fit into memory."""
        if self.total < 0 or metadata.num_row_groups > self._path.stat().st_size:
            raise ValueError("its footer is damaged")
        wanted = {self._chosen.id, *self._chosen.labels, *self._chosen.features}
        for i in range(metadata.num_row_groups):
            group, n_bytes = metadata.row_group(i), 0
            for j in range(group.num_columns):
                column = group.column(j)
                if column.path_in_schema.partition(".")[0] in wanted:
                    n_bytes += max(0, column.num_values) * 8
            check_memory(n_bytes)

    def pieces(self, size: int) -> Iterator[Rows]:
        ids, labels, first = Kind("id", self._text), Kind("label", self._text), 0
        chosen = self._chosen
        wanted = list(dict.fromkeys([*([chosen.id] if chosen.id else []), *chosen.labels, *chosen.features]))
        with self._reading() as file:
            for batch in file.iter_batches(batch_size=size, columns=wanted):
                n = batch.num_rows
                yield Rows(
                    first,
                    self._features(batch, first, width=self.d),
                    self._beside(self._ids, first, n, "ids")
                    if chosen.id is None
                    else ids.of(_values(batch.column(chosen.id)), self.name, first),
                    self._beside(self._y, first, n, "labels")
                    if not chosen.labels
                    else self._labels(batch, labels, first),
                    first + n,
                )
                first += n

    def _labels(self, batch: Any, kind: Kind, first: int) -> np.ndarray:
        columns = [_values(batch.column(name)) for name in self._chosen.labels]
        if len(columns) == 1:
            return kind.of(columns[0], self.name, first)
        return label_matrix([Kind("label").of(column, self.name, first) for column in columns])

    def _features(self, batch: Any, first: int, *, width: int | None) -> np.ndarray:
        n = batch.num_rows
        names = self._chosen.features
        for name in names:
            column = batch.column(name)
            if column.null_count:
                row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise DatasetError(f"{self.name}: {name} is empty in row {row}")
        if not self._wide:
            X = np.empty((n, len(names)), self._dtype)
            for i, name in enumerate(names):
                X[:, i] = converted(batch.column(name).to_numpy(zero_copy_only=False), self._dtype)
            return X
        import pyarrow.compute

        column = batch.column(names[0])
        numbers = column.flatten()
        _check_number(self.name, names[0], numbers.type)
        lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
        wanted = int(lengths[0]) if width is None else width
        if (lengths != wanted).any():
            row = int(np.argmax(lengths != wanted))
            raise DatasetError(
                f"{self.name}: {names[0]} has {lengths[row]} numbers in row {first + row}, but {wanted} in the first"
            )
        if numbers.null_count:
            at = int(np.argmax(numbers.is_null().to_numpy(zero_copy_only=False)))
            raise DatasetError(f"{self.name}: {names[0]} has an empty number in row {first + at // wanted}")
        flat = numbers.to_numpy(zero_copy_only=False).reshape(n, wanted)
        check_features(self.name, flat.shape, flat.dtype)
        return converted(flat, self._dtype)


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _check_number(where: str, name: str, kind: Any) -> None:
    import pyarrow.types as types

    if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
        usual = f"a column of lists called {', '.join(FEATURES)}"
        raise DatasetError(
            f"{where}: {name} is of type {kind}, not a number. Name the features with --features; without, they are "
            f"{usual}, or all columns that are no ids and no labels"
        )


def _values(column: Any) -> Any:
    """Ids or labels of a column: an array of numbers, or a list of what is there."""
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_floating(column.type) or (types.is_integer(column.type) and not column.null_count):
        return column.to_numpy(zero_copy_only=False)  # a null among floats is NaN
    return column.to_pylist()
