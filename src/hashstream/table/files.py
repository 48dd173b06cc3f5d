"""Ingest of whole files, in batches that are each durable once stored; run again, it continues where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from hashstream.datasets.catalogue import CATALOGUE
from hashstream.datasets.catalogue import load as load_data
from hashstream.datasets.dataset import Dataset
from hashstream.datasets.errors import DatasetError
from hashstream.datasets.row_files import open_rows
from hashstream.datasets.rows import ArrayRows, Rows, RowSource
from hashstream.hashers import OnlineHasher
from hashstream.hashers.validation import all_finite, check_count
from hashstream.table.field_text import read_fields, read_payloads
from hashstream.table.results import Items
from hashstream.table.state.labels import label_at

__all__ = ["FileIngest", "Progress", "Tally", "check_file_rows", "check_sources", "listed", "open_source"]


@dataclass
class Tally:
    """Rows by what became of them: stored as new items, stored in place of others, or skipped as already stored."""

    new: int = 0
    replaced: int = 0
    known: int = 0

    @property
    def rows(self) -> int:
        return self.new + self.replaced + self.known


@dataclass(frozen=True)
class Progress:
    """After a batch: rows of `source` that are stored, and how much of it was read, in the unit of its `total`.

    source : None while stale items are re-encoded at the end; row is then their number so far, total that of all.
    """

    source: RowSource | None
    row: int
    read: int
    total: int


class Ingestible(Protocol):
    """The methods of a table that an ingest of files calls."""

    def ingest(
        self, ids: Any, X: Any, y: Any = None, *, fields: Any = None, payloads: Any = None
    ) -> None: ...

    def add(self, ids: Any, X: Any, y: Any = None, *, fields: Any = None, payloads: Any = None) -> None: ...

    def get(self, ids: Any, *, features: bool = True) -> Items: ...

    def __contains__(self, one: Any) -> bool: ...

    @property
    def fields(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Piece:
    """Rows of a file as the table takes them; fields and payloads as `Items` has them."""

    ids: np.ndarray
    X: np.ndarray
    y: np.ndarray | None
    fields: Mapping[str, list[Any]]
    payloads: list[dict[str, Any] | None] | None

    def of(self, rows: np.ndarray) -> Piece:
        """Some of the rows, by their numbers."""
        at = rows.tolist()
        return Piece(
            self.ids[rows],
            self.X[rows],
            None if self.y is None else self.y[rows],
            {name: [values[row] for row in at] for name, values in self.fields.items()},
            None if self.payloads is None else [self.payloads[row] for row in at],
        )


class FileIngest:
    """An ingest of files into a table, batch by batch.

    A row that is already stored with the same features, label, fields and payload is skipped; one that has changed
    replaces what is stored. So the same ingest, run again after an interruption, continues where it stopped. A row
    without a label is the same as a stored one that has got its label since (`HashTable.label`).

    batch : rows that are learned and made durable at a time.
    learn : False stores rows without their labels, and does not learn from them.
    resume : skip rows whose id is stored, without comparing. again : learn again from rows that are stored unchanged.
    first_id : id of the first row of files without ids; the others count up from it.
    tally : rows so far, by what became of them.
    """

    def __init__(
        self,
        table: Ingestible,
        *,
        batch: int = 1000,
        learn: bool = True,
        resume: bool = False,
        again: bool = False,
        first_id: int = 0,
    ) -> None:
        if resume and again:
            raise ValueError("resume skips stored rows, again learns from them once more: choose one of them")
        check_count("batch", batch, 1)
        self._table, self._batch, self._learn = table, batch, learn
        self._resume, self._again, self._next_id = resume, again, first_id
        self._unsure = False  # whether there was something that cannot be compared
        self.tally = Tally()

    def run(self, sources: Iterable[RowSource]) -> Iterator[Progress]:
        """Ingest all rows; yields at the start of a file, and after every batch, which is then durable.

        DatasetError if a source has no rows.
        """
        for source in sources:
            row = 0
            yield Progress(source, 0, 0, source.total)
            for rows in source.pieces(self._batch):
                check_file_rows(source, rows)
                self._take(source, rows)
                row = rows.first + len(rows)
                yield Progress(source, row, rows.read, source.total)
            if not row:
                raise DatasetError(f"{source.name} has no rows")

    def _take(self, source: RowSource, rows: Rows) -> None:
        counted = rows.ids is None
        ids = np.arange(self._next_id, self._next_id + len(rows)) if rows.ids is None else rows.ids
        self._next_id += len(rows) if counted else 0
        fields = read_fields(source, rows, self._table.fields)
        every = Piece(ids, rows.X, rows.y if self._learn else None, fields, read_payloads(source, rows))
        for part in apart(ids):
            piece = every.of(np.arange(part.start, part.stop))
            there, same = self._known(piece)
            if counted and not (self._resume or self._again) and (there & ~same).any():
                row = rows.first + part.start + int(np.argmax(there & ~same))
                raise ValueError(
                    f"{source.name} has no ids, so row {row} would be item {ids[row - rows.first]}, and the table has "
                    f"{'an' if self._unsure else 'another'} item with that id. Give ids (id, --id), start after the "
                    "stored ones (first_id, --first-id), skip what an earlier run has stored (resume, --resume), or "
                    "replace it (again, --again)"
                )
            take = ~there if self._resume else np.ones(len(there), bool) if self._again else ~same
            self.tally.known += int((~take).sum())
            if not take.any():
                continue
            new = piece.of(np.flatnonzero(take))
            store = self._table.ingest if self._learn else self._table.add
            store(new.ids, new.X, new.y, fields=new.fields, payloads=new.payloads)
            self.tally.replaced += int((take & there).sum())
            self.tally.new += int((take & ~there).sum())

    def _known(self, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
        """Which rows have an id that is stored, and which of them are stored just as they are, (n,) bool each.

        Where no features are kept, that cannot be told: then none is.
        """
        there = np.array([one in self._table for one in piece.ids.tolist()], bool)
        same = np.zeros(len(there), bool)
        if self._resume or self._again or not there.any():
            return there, same
        at = np.flatnonzero(there)
        given, held = piece.of(at), self._table.get(piece.ids[at])
        labels = [label_at(given.y, row) for row in range(len(at))]
        if held.features is None:
            self._unsure = True
            return there, same
        same[at] = (held.features == given.X).all(axis=1)
        same[at] &= [_same_label(a, b) for a, b in zip(held.labels, labels, strict=True)]
        nothing: list[Any] = [None] * len(at)
        for name, stored in held.fields.items():
            same[at] &= [a == b for a, b in zip(stored, given.fields.get(name, nothing), strict=True)]
        payloads = zip(held.payloads, given.payloads or nothing, strict=True)
        same[at] &= [json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True) for a, b in payloads]
        return there, same


def listed(files: Any) -> Iterable[Any]:
    """Files as they are given; a single one, which would be read letter by letter, as a list of it."""
    if isinstance(files, (str, os.PathLike, RowSource)):
        return [files]
    if isinstance(files, bytes) or not isinstance(files, Iterable):
        raise TypeError(f"files must be a path or a list of paths, not {files!r}")
    return files


def open_source(
    file: str | Path | RowSource,
    *,
    id: str | None,
    label: str | None,
    features: str | None,
    fields: Iterable[str] = (),
    payload: str | Sequence[str] = (),
    header: bool,
    text: bool,
    dtype: DTypeLike,
    load: Callable[[str], Dataset] = load_data,
) -> RowSource:
    """A file to read in pieces, or a data set by its name (`hashstream.datasets.CATALOGUE`), which is loaded."""
    if isinstance(file, RowSource):
        return file
    if str(file) not in CATALOGUE or Path(file).exists():
        return open_rows(
            file,
            id=id,
            label=label,
            features=features,
            fields=fields,
            payload=(payload,) if isinstance(payload, str) else payload,
            header=header,
            text=text,
            dtype=dtype,
        )
    if id is not None or label is not None or features is not None or payload:
        raise ValueError(f"{file} is a data set, not a file: it has no columns to choose from")
    data = load(str(file))
    return ArrayRows(str(file), data.X, y=data.y, dtype=dtype, text=text)


def check_sources(hasher: OnlineHasher, sources: Iterable[RowSource]) -> None:
    """ValueError, naming the file, where one has other features than the hasher."""
    for source in sources:
        d = getattr(hasher, "n_features_in_", source.d)
        if source.d != d:
            raise ValueError(f"{source.name} has {source.d} features per row, but the table has {d}")


def check_file_rows(source: RowSource, rows: Rows) -> None:
    """ValueError for NaN or infinity that names the row of the file, which a table does not know."""
    if not all_finite(rows.X) and len(odd := np.argwhere(~np.isfinite(rows.X))):
        row, column = odd[0].tolist()
        value = rows.X[row, column]
        large = "" if np.isnan(value) else f" as {rows.X.dtype}"  # it may have been a number in the file
        raise ValueError(
            f"{source.name}: feature {column} of row {rows.first + row} is {value}{large}: features must be finite"
        )


def apart(ids: np.ndarray) -> Iterator[slice]:
    """Cut a batch where an id comes a second time, so that the later row replaces the earlier one.

    >>> [ids.tolist() for ids in (np.array([1, 2, 1, 3])[part] for part in apart(np.array([1, 2, 1, 3])))]
    [[1, 2], [1, 3]]
    """
    seen: set[object] = set()
    start = 0
    for row, one in enumerate(ids.tolist()):
        if one in seen:
            yield slice(start, row)
            start = row
            seen.clear()
        seen.add(one)
    if start < len(ids):
        yield slice(start, len(ids))


def _same_label(held: object, given: object) -> bool:
    if given is None:  # what is stored may have been labelled since
        return True
    if held is None:
        return False
    if isinstance(held, np.ndarray) or isinstance(given, np.ndarray):
        return np.array_equal(np.asarray(held), np.asarray(given))
    return bool(held == given)
