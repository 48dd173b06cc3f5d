"""Feeding a cluster with files and batches, several of them under way at once; given again, it goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.datasets.errors import DatasetError
from hashstream.datasets.rows import Rows, RowSource
from hashstream.hashers.validation import check_count
from hashstream.scale.engine import Actor
from hashstream.scale.learner import Begun
from hashstream.scale.members import Members
from hashstream.scale.writing import Storer, numbers_of
from hashstream.table.field_text import read_fields, read_payloads
from hashstream.table.files import Progress, apart, check_file_rows, check_sources, listed, open_source
from hashstream.table.state.ids import kind_of

__all__ = ["Batch", "Fed", "Feed", "Parts", "file_mark"]

Batch = tuple[Any, ...]
"""(ids, X) or (ids, X, y)."""

Parts = str | Path | RowSource | Iterable[str | Path | RowSource | Batch]
"""A file, or files and batches."""


@dataclass
class Fed:
    """Counts of parts that were fed and of their rows; of parts that were skipped because the feed log has them, and of
    the rows of those."""

    parts: int = 0
    rows: int = 0
    skipped: int = 0
    known: int = 0


@dataclass(frozen=True)
class _Sent:
    """Rows under way. ends : the part that is complete with them, and its rows."""

    calls: list[tuple[Any, Actor]]
    ends: tuple[int, int] | None


class Feed:
    """One run of `Cluster.feed`."""

    def __init__(
        self,
        members: Members,
        storer: Storer,
        *,
        name: str,
        learn: bool,
        batch: int,
        force: bool,
        in_flight: int,
        first_id: int,
        columns: Mapping[str, Any],
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._members, self._storer, self._name, self._learn = members, storer, name, learn
        self._batch, self._force = check_count("batch", batch, 1), force
        self._in_flight = check_count("in_flight", in_flight, 1)
        self._next_id = self._first_id = first_id
        self._columns, self._tell = columns, progress or (lambda step: None)
        self._sent: deque[_Sent] = deque()
        self.fed = Fed()

    def run(self, parts: Parts) -> Fed:
        """Feed all parts; returns when all shards have them."""
        every: Iterable[str | Path | RowSource | Batch] = listed(parts)
        for at, part in enumerate(every):
            if isinstance(part, (str, os.PathLike, RowSource)):
                self._file(part)
            elif isinstance(part, (tuple, list)) and len(part) in (2, 3):
                self._rows(f"{self._name} {at}", *part)
            else:
                raise TypeError(
                    f"part {at} is a {type(part).__name__}: feed takes files, and tuples of (ids, X) or (ids, X, y)"
                )
        self._settle(0)
        return self.fed

    # ---- one batch is a part

    def _rows(self, name: str, ids: Any, X: Any, y: Any = None) -> None:
        rows = self._storer.checked(ids, X, y, learn=self._learn)
        begun = self._storer.begin(name, rows, "feed", key=False)
        if self._skips(begun):
            return
        numbers = numbers_of(begun.part.number, 0, len(rows.ids))
        calls = self._storer.send(rows, numbers, learn=self._learn, begun=begun)
        self._send(_Sent(calls, (begun.part.number, len(rows.ids))))
        self._tell(Progress(None, self.fed.rows, self.fed.rows, 0))

    # ---- a file is a part

    def _file(self, file: str | Path | RowSource) -> None:
        hasher = self._storer.template.model.hasher
        columns = dict(self._columns)
        dtype = columns.pop("dtype", None)
        precision = np.dtype(getattr(hasher, "dtype_", np.float32 if dtype is None else dtype))
        kinds = self._members.read_each("facts", {0: ()})[0]["fields"]
        source = open_source(file, dtype=precision, fields=tuple(kinds), **columns)
        check_sources(hasher, [source])
        name, mark = f"file {file_name(file)}", self._mark(file, source)
        if not self._learn and not self._members.learn("knows", name, mark):
            mark += " not learned"  # so that it can be learned later
        self._refuse_accidents(source, name, mark)
        begun: Begun = self._members.learn("begin", name, mark, None)
        self._storer.see(begun)
        self._tell(Progress(source, 0, 0, source.total))
        if self._skips(begun):
            self._next_id += 0 if source.has_ids else begun.part.rows
            self._tell(Progress(source, begun.part.rows, source.total, source.total))
            return
        done = 0
        for rows in source.pieces(self._batch):
            check_file_rows(source, rows)
            begun = self._piece(source, rows, begun)
            done = rows.first + len(rows)
            self._tell(Progress(source, done, rows.read, source.total))
        if not done:
            raise DatasetError(f"{source.name} has no rows")
        self._send(_Sent([], (begun.part.number, done)))

    def _piece(self, source: RowSource, rows: Rows, begun: Begun) -> Begun:
        """Send a piece of a file, cut where an id comes twice."""
        ids = np.arange(self._next_id, self._next_id + len(rows)) if rows.ids is None else rows.ids
        self._next_id += len(rows) if rows.ids is None else 0
        fields = read_fields(source, rows, self._storer.fields)
        payloads = read_payloads(source, rows)
        for cut in apart(ids):
            some = {name: values[cut] for name, values in fields.items()}
            y = None if rows.y is None else rows.y[cut]
            texts = None if payloads is None else payloads[cut]
            checked = self._storer.checked(ids[cut], rows.X[cut], y, some, texts, learn=self._learn)
            if (
                not begun.started or not rows.first
            ):  # the kind of the ids, and functions that are there by now
                begun = self._members.learn("go_on", begun.part, kind_of(checked.ids))
                self._storer.see(begun)
            numbers = numbers_of(begun.part.number, rows.first + cut.start, len(checked.ids))
            self._send(_Sent(self._storer.send(checked, numbers, learn=self._learn, begun=begun), None))
        return begun

    def _refuse_accidents(self, source: RowSource, name: str, mark: str) -> None:
        """ValueError where rows without ids would replace items of another part."""
        if source.has_ids or self._force or self._members.learn("knows", name, mark):
            return
        ends = {0, source.total - 1} if source.unit == "rows" and source.total else {0}
        for row in sorted(ends):
            if self._storer.has(np.array([self._next_id + row])).any():
                raise ValueError(
                    f"{source.name} has no ids, so row {row} would be item {self._next_id + row}, and the cluster has "
                    "an item with that id. Give ids (id, --id), start after the stored ones (first_id, --first-id), or "
                    "replace them (force, --force)"
                )

    def _mark(self, file: str | Path | RowSource, source: RowSource) -> str:
        """The content of a file, and how it is read: with other columns it has other rows."""
        read = {"learn": self._learn, "fields": sorted(source.fields), "payload": list(source.payload)}
        read |= {name: self._columns[name] for name in ("header", "text")}
        if self._first_id and not source.has_ids:
            read["first_id"] = int(self._first_id)
        chosen, path = source.chosen, Path(file_name(file))
        if chosen is not None:
            read |= {"id": chosen.id, "labels": chosen.labels, "features": chosen.features}
        how = json.dumps(read, sort_keys=True)
        if not path.is_file():
            return f"{source.total} {source.unit} of {source.d} features, {how}"
        marks = [file_mark(path), hashlib.blake2b(how.encode(), digest_size=12).hexdigest()]
        marks += [f"{what} {file_mark(beside)}" for what, beside in sorted(source.side_files.items())]
        return " ".join(marks)

    # ---- what is under way

    def _skips(self, begun: Begun) -> bool:
        if begun.part.done and not self._force:
            self.fed.skipped += 1
            self.fed.known += begun.part.rows
            return True
        return False

    def _send(self, sent: _Sent) -> None:
        self._sent.append(sent)
        if sent.ends is not None:
            self.fed.parts += 1
            self.fed.rows += sent.ends[1]
        self._settle(self._in_flight)

    def _settle(self, left: int) -> None:
        """Wait for the oldest batches until at most so many are under way, and note parts that are complete."""
        while len(self._sent) > left:
            sent = self._sent.popleft()
            self._members.finish(sent.calls)
            if sent.ends is not None:
                self._members.learn("finish", *sent.ends, None)


def file_name(file: str | Path | RowSource) -> str:
    """The name under which the feed log knows a file: its path, however it was typed. Other sources have names."""
    name = file.name if isinstance(file, RowSource) else os.fspath(file)
    path = Path(name).expanduser()
    return str(path.resolve()) if path.is_file() else name


def file_mark(path: Path) -> str:
    """A file's content in short: its size, and a hash of all of it."""
    with path.open("rb") as file:
        content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=12))
    return f"{path.stat().st_size} {content.hexdigest()}"
