"""Rows of files with columns: .csv, .tsv and Parquet.

Text is read with the `csv` module rather than with `pyarrow.csv`: it needs no extra, bounds the memory of a record, and
an error names the line.
"""

from __future__ import annotations

import csv
import importlib.util
import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike

from hashstream._machine import check_memory
from hashstream.datasets.columns import FEATURES, Chosen, Columns, Kind, label_matrix, read_side_files
from hashstream.datasets.errors import DatasetError, reading
from hashstream.datasets.npy import MAX_RATIO
from hashstream.datasets.parser_process import Answers, parser
from hashstream.datasets.rows import Rows, RowSource, check_features, converted, side_arrays

MAX_RECORD = 1 << 24  # bytes of a record of text, which may be several lines
MAX_LINE = 1 << 30  # bytes of the ids, labels, fields and payloads of a piece of Parquet, as JSON
SPARE = 1 << 30  # bytes of memory that the parser of Parquet may use for a file of any size


class _TableRows(RowSource):
    """The common part of both: columns by name, optionally ids and labels from .npy files."""

    def __init__(self, path: Path, columns: Columns, *, dtype: DTypeLike, text: bool) -> None:
        self.name, self._path, self._dtype, self._text = str(path), path, np.dtype(dtype), text
        self._asked = columns
        self.side_files = columns.side_files()
        ids, y = read_side_files(self.side_files)
        n_rows = next((len(array) for array in (ids, y) if array is not None), 0)
        self._ids, self._y = side_arrays(self.name, n_rows, ids, y, text)

    def _from_file(self, which: np.ndarray | None, first: int, n: int, what: str) -> np.ndarray | None:
        """The entries of an .npy file for n rows."""
        if which is None:
            return None
        if first + n > len(which):
            raise DatasetError(
                f"{self.name} has more rows than the {len(which)} {what} that were given for it"
            )
        return which[first : first + n]

    def _choose(self, chosen: Chosen) -> None:
        self.chosen: Chosen = chosen
        self.has_ids = chosen.id is not None or self._ids is not None
        self.has_labels = bool(chosen.labels) or self._y is not None
        self.fields, self.payload = chosen.fields, chosen.payload

    def _piece(
        self,
        first: int,
        X: np.ndarray,
        ids: Any,
        labels: list[Any],
        kinds: tuple[Kind, Kind],
        read: int,
        more: Mapping[str, list[Any]],
        lines: list[int] | None = None,
    ) -> Rows:
        """Rows with the ids and labels of the table, or else of .npy files.

        ids, labels : columns of the table; None and empty where it has none. kinds : of ids and of labels.
        more : the columns of fields and payload.
        """
        if ids is None:
            ids = self._from_file(self._ids, first, len(X), "ids")
        else:
            ids = kinds[0].of(ids, self.name, first)
        if not labels:
            y = self._from_file(self._y, first, len(X), "labels")
        elif len(labels) == 1:
            y = kinds[1].of(labels[0], self.name, first)
        else:
            y = label_matrix([Kind("label").of(column, self.name, first) for column in labels])
        fields, payload = ({name: more[name] for name in some} for some in (self.fields, self.payload))
        return Rows(first, X, ids, y, read, fields, payload, lines)


class TextRows(_TableRows):
    """A .csv or .tsv file, in UTF-8. Progress is counted in bytes, since the number of rows is not known."""

    unit = "bytes"

    def __init__(self, path: Path, columns: Columns, *, header: bool, dtype: DTypeLike, text: bool) -> None:
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
        self._more_at = {name: place[name] for name in chosen.more}
        self.d = len(self._features_at)
        self._choose(chosen)

    def _check_header(self, head: list[str]) -> None:
        if "" in head and self._asked.features is None:
            raise DatasetError(
                f"{self.name}: column {head.index('') + 1} has no name, as pandas writes its index. Name the features "
                "with --features, or write the file with index=False"
            )
        numbers = [_number(name) for name in head]
        if None not in numbers and numbers != list(range(len(head))):
            raise DatasetError(
                f"the first line of {self.name} has numbers, not names: if it has no header, use --no-header"
            )

    @contextmanager
    def _records(self) -> Iterator[tuple[IO[bytes], Iterator[tuple[int, list[str]]]]]:
        with reading(self._path, "UTF-8 text file"), self._path.open("rb") as raw:
            lines = _Lines(raw)
            first = next(lines, "").removeprefix("\ufeff")
            records = csv.reader(itertools.chain([first], lines) if first else [], delimiter=self._between)
            yield raw, lines.bounded(records)

    def pieces(self, size: int) -> Iterator[Rows]:
        kinds, first = (Kind("id", self._text), Kind("label", self._text)), 0
        with self._records() as (raw, records):
            if self._header:
                next(records, None)
            while piece := self._some(records, size):
                X = self._features(piece)
                ids = None if self._id_at is None else [cells[self._id_at] for _, cells in piece]
                labels = [[cells[i] for _, cells in piece] for i in self._labels_at]
                more = {name: [cells[i] or None for _, cells in piece] for name, i in self._more_at.items()}
                lines = [line for line, _ in piece]
                yield self._piece(first, X, ids, labels, kinds, raw.tell(), more, lines)
                first += len(piece)
        for which, what in ((self._ids, "ids"), (self._y, "labels")):
            if which is not None and len(which) != first:
                raise DatasetError(f"{self.name} has {first} rows, but there are {len(which)} {what}")

    def _some(self, records: Any, size: int) -> list[tuple[int, list[str]]]:
        """The next records that are not blank, each with its line number."""
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
                f"{self.name}, line {line}: {self._names[i]} is {found}, not a number. If it is not a feature, "
                "name the features with --features, or store it as a field (--field) or payload (--payload)"
            ) from None
        return converted(numbers.reshape(len(piece), len(at)), self._dtype)


class _Lines:
    """The lines of a text, and its records, none longer than MAX_RECORD: a file without line ends, or with a quote that
    is never closed, is not read into memory as a whole."""

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
        """The last line number of each record, and its cells."""
        for cells in records:
            self._taken = 0
            yield self.line_num, cells


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


class ParquetRows(_TableRows):
    """A Parquet file, read by row groups. Features are several columns, or one column of lists.

    It is parsed in a separate process (`parser_process`): Arrow crashes on some damaged files, and a few bytes of
    Parquet can stand for any number of values.
    """

    def __init__(self, path: Path, columns: Columns, *, dtype: DTypeLike, text: bool) -> None:
        super().__init__(path, columns, dtype=dtype, text=text)
        with self._parser() as answers:
            head = answers.line(MAX_RECORD)
            self.total = int(head["total"])
            found = {str(name): (str(kind), what, width) for name, kind, what, width in head["columns"]}
            names = [str(name) for name, *_ in head["columns"]]
        lists = [name for name, (_, what, _) in found.items() if what == "list"]
        chosen = columns.among(names, self.name, lists)
        if self.total < 1:
            raise DatasetError(f"{path} has no rows")
        side_arrays(self.name, self.total, self._ids, self._y, text)
        self._choose(chosen)
        self._lists = len(chosen.features) == 1 and chosen.features[0] in lists
        self.d = len(chosen.features)
        if self._lists:
            width = found[chosen.features[0]][2]
            if width is None:
                raise DatasetError(f"{self.name}: {chosen.features[0]} is empty in row 0")
            self.d = int(width)
        else:
            for name in chosen.features:
                kind, what, _ = found[name]
                if what != "number":
                    usual = f"a column of lists called {' or '.join(FEATURES)}"
                    raise DatasetError(
                        f"{self.name}: {name} is of type {kind[:100]}, not a number. Name the features with "
                        f"--features; by default they are {usual}, or all columns but ids, labels, fields "
                        "(--field) and payload (--payload)"
                    )
        check_features(self.name, (self.total, self.d), self._dtype)

    def _parser(self, **task: Any) -> AbstractContextManager[Answers]:
        """Start a process that parses the file."""
        if importlib.util.find_spec("pyarrow") is None:
            raise DatasetError(
                f"{self._path}: reading Parquet needs pyarrow: pip install 'hashstream[parquet]'"
            )
        script = str(Path(__file__).with_name("parquet_parser.py"))
        with reading(self._path, "Parquet file"):
            most = SPARE + MAX_RATIO * self._path.stat().st_size
        return parser(script, self._path, "Parquet file", most, **task)

    def pieces(self, size: int) -> Iterator[Rows]:
        kinds, first = (Kind("id", self._text), Kind("label", self._text)), 0
        chosen, dtype = self.chosen, self._dtype
        task = {"size": size, "id": chosen.id, "labels": chosen.labels, "features": chosen.features}
        task["more"] = chosen.more
        with self._parser(**task, lists=self._lists, width=self.d, dtype=dtype.str) as answers:
            while "end" not in (line := answers.line(MAX_LINE)):
                n = int(line["rows"])
                columns = [*line["labels"], *line["more"]]
                whole = [isinstance(column, list) and len(column) == n for column in columns]
                if not 0 <= n <= size or whole != [True] * (len(chosen.labels) + len(chosen.more)):
                    raise ValueError("unexpected answer of the reader")
                check_memory(n * self.d * dtype.itemsize)
                X = np.frombuffer(bytearray(answers.bytes(n * self.d * dtype.itemsize)), dtype).reshape(
                    n, self.d
                )
                if not n:
                    continue
                ids = None if chosen.id is None else numbers_of(line["ids"])
                labels = [numbers_of(column) for column in line["labels"]]
                more = dict(zip(chosen.more, line["more"], strict=True))
                yield self._piece(first, X, ids, labels, kinds, first + n, more)
                first += n
        if first != self.total:
            raise DatasetError(f"{self._path} has {first} rows, but its footer says {self.total}")


def numbers_of(values: list[Any]) -> Any:
    """A column of floats as an array, with NaN for missing ones; any other column unchanged."""
    if any(isinstance(value, float) for value in values):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    return values
