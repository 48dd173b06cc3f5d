"""From an export back to a table's folder, which appears only when everything in it has been verified."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np

from hashstream.table.errors import TableError, failed
from hashstream.table.export.columns import digest_of_view
from hashstream.table.export.manifest import MANIFEST, Manifest, read_manifest
from hashstream.table.export.reading import Exported, Piece
from hashstream.table.export.writing import ExportProgress
from hashstream.table.settings import Settings
from hashstream.table.state.change import Added, Change, Done
from hashstream.table.state.columns import OWN, PAYLOAD, read_values
from hashstream.table.state.comparison import Comparison
from hashstream.table.state.ids import column_of, kind_of, repeated
from hashstream.table.state.sample import FREE, MAX_SIZE, Sample, SampleChange
from hashstream.table.state.state import Model, State
from hashstream.table.state.view import BLOCK, Part, View
from hashstream.table.storage.base import StoredBatch
from hashstream.table.storage.folder.checks import refusing
from hashstream.table.storage.folder.create import save_as_folder
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.names import DATABASE, is_table
from hashstream.table.storage.folder.records import is_count, need
from hashstream.table.storage.folder.segments import sync_folder
from hashstream.table.storage.folder.storage import FolderStorage

__all__ = ["restore_folder", "was_restored"]

BATCH = 1 << 14  # rows that are stored as one batch
NO_SLOTS = np.empty(0, np.uint32)


def restore_folder(
    source: Path, path: Path, progress: Callable[[ExportProgress], None] | None = None
) -> None:
    """Restore the table of an export to a new folder; see `HashTable.restore`."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise TableError(f"{path} exists already: a table is restored to a new folder")
    exported = Exported(source)
    exported.verify()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f"{path.name}.", suffix=".part", dir=path.parent) as room:
            table = Path(room, "table")
            with refusing(source / MANIFEST), closing(Spill(Path(room), exported)) as spill:
                state = _state(exported, spill, progress or (lambda step: None))
                save_as_folder(spill, table, state, None)
            _compare(exported, table)
            _note_source(table, _mark(source))
            if path.exists():
                path.rmdir()
            table.rename(path)
            sync_folder(path.parent)
    except OSError as error:
        raise failed(error)(f"{path} cannot be written: {error.strerror or error}") from error


def was_restored(source: Path, path: Path) -> bool:
    """Whether there is a table that was restored from an export, whatever it has stored since."""
    if not is_table(path):
        return False
    read_manifest(source)
    with closing(Database(path / DATABASE, mode="read")) as database, database.reading():
        return database.source() == _mark(source)


def _mark(source: Path) -> str:
    """Of an export: a hash of its manifest, which has the checksums of all files."""
    with (source / MANIFEST).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note_source(table: Path, mark: str) -> None:
    with closing(Database(table / DATABASE, mode="write")) as database, database.transaction("create"):
        database.put_source(mark)


def _compare(exported: Exported, table: Path) -> None:
    """TableError unless the table that was written holds what was exported."""
    with closing(FolderStorage(table, mode="read")) as storage:
        view = storage.load().view
    if len(view) != len(exported) or digest_of_view(view) != exported.digest():
        raise TableError(
            f"{exported.folder} could not be restored: the table has not the items of the export"
        )


class Spill:
    """Features and payloads of an export in the order of its rows, in files; afterwards by slot: a `Source`.

    order : the row of each slot, where it is not the same.
    """

    def __init__(self, room: Path, exported: Exported) -> None:
        manifest = exported.manifest
        self.keep_features = manifest.features
        self.settings = _settings(manifest, exported.hasher.refresh_policy)
        self.order: np.ndarray | None = None
        self._d, self._dtype = manifest.n_features or 0, np.dtype(manifest.dtype or "float32")
        self._features, self._texts = (room / "features").open("w+b"), (room / "payloads").open("w+b")
        self._rows, self._ends = 0, [np.zeros(1, np.int64)]

    def append(self, piece: Piece) -> None:
        """Take the features and payloads of a piece."""
        self._rows += len(piece.ids)
        if piece.X is not None:
            self._features.write(np.ascontiguousarray(piece.X).data)
        texts = [b"" if text is None else text.encode() for text in piece.payloads or [None] * len(piece.ids)]
        self._texts.write(b"".join(texts))
        self._ends.append(self._ends[-1][-1] + np.cumsum([len(text) for text in texts], dtype=np.int64))

    def all_done(self) -> Iterator[Done]:
        return iter(())

    def batches(self) -> Iterator[StoredBatch]:
        for number, first in enumerate(range(0, self._rows, BATCH), 1):
            yield StoredBatch(number, first, min(BATCH, self._rows - first), 0)

    def features(self, slots: np.ndarray) -> np.ndarray:
        self._features.flush()
        held = np.memmap(self._features, self._dtype, "r", shape=(self._rows, self._d))
        return np.asarray(held[self._rows_of(slots)])

    def payloads(self, slots: np.ndarray, generation: int) -> list[str | None]:
        self._texts.flush()
        ends, found = self._all_ends(), list[str | None]()
        if not ends[-1]:
            return [None] * len(slots)
        for row in self._rows_of(slots).tolist():
            start, size = int(ends[row]), int(ends[row + 1] - ends[row])
            self._texts.seek(start)
            found.append(self._texts.read(size).decode() if size else None)
        return found

    def _rows_of(self, slots: np.ndarray) -> np.ndarray:
        return slots if self.order is None else self.order[slots]

    def _all_ends(self) -> np.ndarray:
        if len(self._ends) > 1:
            self._ends = [np.concatenate(self._ends)]
        return self._ends[0]

    def close(self) -> None:
        self._features.close()
        self._texts.close()


def _settings(manifest: Manifest, refresh_policy: str) -> Settings:
    """Those of the table that was exported; without features, by a policy that needs none."""
    keep, stored = manifest.features, Settings.from_fields(manifest.settings)
    if stored.policy.keeps_features != keep:
        stored = replace(stored, policy=Settings.default(refresh_policy, keep).policy)
    return stored


def _state(exported: Exported, spill: Spill, tell: Callable[[ExportProgress], None]) -> State:
    """The state of the table; features and payloads go to `spill`."""
    manifest, sampled = exported.manifest, exported.sample()
    size = manifest.sample_size
    need(is_count(size, MAX_SIZE), f"sample_size is {size!r}")
    model = Model.of(exported.hasher)
    state = State.empty(exported.hasher, size if manifest.features else max(1, size), manifest.fields)
    own = {name: kind for name, kind in OWN.items() if name[1:] in manifest.has}
    state = state.after(Change(state.sample.change(NO_SLOTS), declared=own))
    positions = [np.empty(0, np.int64)]
    for piece in exported.pieces():
        spill.append(piece)
        fields = dict(piece.fields)
        if piece.payloads is not None:
            given = np.array([text is not None for text in piece.payloads], bool)
            fields[PAYLOAD] = read_values("bool", PAYLOAD, given, len(given))
        first = state.view.n_slots
        added = Added(first, piece.ids, piece.version, piece.codes, piece.labels, fields)
        state = state.after(Change(_sampled(state.sample, first, piece, sampled), added=added))
        positions.append(piece.positions)
        tell(ExportProgress(state.view.n_slots, manifest.count))
    state = _arranged(state, np.concatenate(positions), spill).with_model(model, exported.encoders)
    view, sample = state.view, state.sample
    if view.column is not None and (twice := repeated(view.ids(np.arange(view.n_slots)))):
        raise ValueError(f"ids occur more than once: {', '.join(map(repr, twice[:10]))}")
    need(len({np.shape(label) for label in view.labels.distinct()}) <= 1, "labels are of two kinds")
    places = np.flatnonzero(sample.slots >= 0)
    labels = dict(zip(places.tolist(), view.labels.take(sample.slots[places]), strict=True))
    comparison = Comparison.from_fields(manifest.comparison)
    sample = sample.filled(sample.rows, labels)
    return replace(state, sample=sample, comparison=comparison, created=exported.created)


def _sampled(sample: Sample, first: int, piece: Piece, sampled: dict[Any, np.ndarray]) -> SampleChange:
    """The change of the sample with the items of a piece. sampled : features by id, where the export has no others."""
    keys = column_of(kind_of(piece.ids)).keys_of(piece.ids)
    if piece.X is not None:
        return sample.change(NO_SLOTS, first, keys, piece.X)
    rows = [row for row, one in enumerate(piece.ids.tolist()) if one in sampled]
    if not rows:
        return sample.change(NO_SLOTS)
    known = [sampled[one] for one in piece.ids[rows].tolist()]
    X = np.zeros((len(keys), len(known[0])), known[0].dtype)
    X[rows] = known
    others = np.full_like(keys, FREE)  # which are never taken
    others[rows] = keys[rows]
    return sample.change(NO_SLOTS, first, others, X)


def _arranged(state: State, positions: np.ndarray, spill: Spill) -> State:
    """The state with the items in the order of their positions, so that ties are ranked as they were."""
    if (positions[1:] >= positions[:-1]).all():
        return state
    order = np.argsort(positions, kind="stable")
    slots = np.empty_like(order)
    slots[order] = np.arange(len(order))
    spill.order, held = order, state.sample.as_change()
    sample = Sample(state.sample.size).after(replace(held, slots=slots[held.slots]))
    return replace(state, view=_view(state.view, order, slots), sample=sample)


def _view(view: View, order: np.ndarray, slots: np.ndarray) -> View:
    """A view with its items at other slots. order : the old slot of each new one. slots : the other way."""
    assert view.column is not None
    column = column_of(view.column.kind)
    for start in range(0, len(order), BLOCK):
        column = column.extended(view.column.take(order[start : start + BLOCK]))
    parts = []
    for part in view.parts:
        codes, held = part.rows()
        at = slots[held].astype(np.uint32)
        by = np.argsort(at)
        parts.append(Part(part.version, codes[by], at[by], 0, len(at)))
    fields = {name: values.chosen(order) for name, values in view.fields.items()}
    return replace(
        view,
        parts=tuple(parts),
        column=column,
        labels=view.labels.chosen(order),
        fields=MappingProxyType(fields),
    )
