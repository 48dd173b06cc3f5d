"""Checks of a folder's content before it is used, whoever wrote it: checksums keep out accidents only."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hashstream.hashers import Encoder
from hashstream.table.errors import TableError
from hashstream.table.state.change import Change
from hashstream.table.state.sample import Sample
from hashstream.table.state.state import Model
from hashstream.table.state.view import View
from hashstream.table.storage.folder.records import Head, Identity, Shape, is_count, need, same_checksum
from hashstream.table.storage.folder.segments import FileSegments

__all__ = [
    "VerifiedBatches",
    "check_change",
    "check_encoder",
    "check_labels",
    "check_model",
    "check_sample",
    "check_view",
    "refuse_unless_file",
    "refusing",
]

WRONG = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""Exceptions that reading a damaged or altered folder may raise."""


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """A TableError that names `path` in the place of what reading it may raise."""
    try:
        yield
    except WRONG as error:
        if isinstance(error, MemoryError):
            raise TableError(f"{path} needs more memory than there is: {error}") from error
        why = str(error) or type(error).__name__
        raise TableError(f"{path} is damaged: {why}. Restore it from a copy; nothing was changed.") from error


def refuse_unless_file(path: Path) -> None:
    """TableError where there is something at `path` that is no file: a pipe would never end."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise TableError(f"{path} is not a file")


def check_view(view: View, head: Head) -> None:
    """The items: every slot alive is in one part, and no array leads out of another."""
    if view.column is None:
        need(not view.parts, "it has codes without ids")
        return
    view.column.check()
    kind = head.shape.ids if head.shape is not None else None
    need(view.column.kind == kind, f"ids are not {kind!r}")
    n, seen = len(view.column), 0
    for values in (view.labels, *view.fields.values()):
        need(len(values) == n, "values of items are missing")
    alive = np.zeros(n, bool)
    for part in view.parts:
        codes, slots = part.codes, part.slots
        need(
            codes.dtype == np.uint8 and codes.ndim == 2 and codes.shape[1] == view.width,
            "codes are not codes",
        )
        need(slots.dtype == np.uint32 and slots.ndim == 1, "slots are not slots")
        need(0 <= part.start < part.stop <= min(len(codes), len(slots)), "codes are missing")
        held = part.rows()[1]
        need(bool((np.diff(held.astype(np.int64)) > 0).all()) and int(held[-1]) < n, "slots are out of order")
        alive[held] = True
        seen += len(held)
        need(is_count(part.version), f"version is {part.version!r}")
    need(int(alive.sum()) == seen, "an item has two codes")


def check_change(change: Change, view: View) -> None:
    """Check that a change stays within the arrays of the view it is applied to."""
    n = view.n_slots
    relabelled = () if change.relabelled is None else (change.relabelled.slots,)
    for slots in (change.removed, *(piece.slots for piece in change.recoded), *relabelled):
        need(slots.dtype == np.uint32 and slots.ndim == 1, "slots are not slots")
        in_order = not len(slots) or (int(slots[-1]) < n and bool((slots[1:] > slots[:-1]).all()))
        need(in_order, "slots are out of order")
    for piece in change.recoded:
        need(len(piece.slots) == len(piece.codes), "codes are missing")
    for codes in (piece.codes for piece in (*change.recoded, change.added) if piece is not None):
        need(
            codes.dtype == np.uint8 and codes.ndim == 2 and codes.shape[1] == view.width,
            "codes are not codes",
        )
    need(change.added is None or change.added.first_slot == n, "items are added elsewhere than at the end")


def check_sample(sample: Sample, head: Head) -> None:
    """The sample: rows of the table's features, of slots that there are."""
    need(len(sample) == head.sampled, "the sample has lost items")
    need(sample.slots.dtype == np.int64 and sample.keys.dtype == np.uint64, "the sample is not one")
    need(bool((sample.slots < max(1, head.n_slots)).all()), "the sample has items that are not there")
    d = 0 if head.shape is None else head.shape.d
    for row in sample.rows:
        need(
            row is None or (row.shape == (d,) and row.dtype.kind == "f"),
            "the sample has rows of another shape",
        )
        need(row is None or bool(np.isfinite(row).all()), "the sample has NaN or infinity")
    kinds = {np.shape(label) for label in sample.labels if label is not None}
    need(len(kinds) <= 1, "the sample has labels of two kinds")


def check_model(model: Model, identity: Identity, head: Head, version: int) -> None:
    """A saved model of this table."""
    if model.encoder is None:
        need(model.hasher.n_bits == identity.n_bits, "its model has codes of another length")
        need(not head.n_slots, "its model has learned nothing")
    else:
        check_encoder(model.encoder, identity, head.shape, version)


def check_encoder(encoder: Encoder, identity: Identity, shape: Shape | None, version: int) -> None:
    """The hash functions of a version of this table."""
    need(encoder.n_bits == identity.n_bits, "its model has codes of another length")
    need(encoder.version == version, "its model is of another version")
    if shape is not None:
        need(encoder.n_features == shape.d, "its model takes other features")
        need(np.dtype(encoder.dtype) == np.dtype(shape.dtype), "its model takes another dtype")


def check_labels(y: np.ndarray | None, n_rows: int) -> np.ndarray | None:
    """The labels of a batch: y itself."""
    need(y is None or (y.ndim in (1, 2) and len(y) == n_rows), f"a batch of {n_rows} rows has other labels")
    return y


class VerifiedBatches:
    """Batches that were there when a folder was opened: each is compared with its checksum once, when it is first read.

    What this process wrote itself it need not verify.
    """

    def __init__(self, batches: list[tuple[int, int, int]], before: VerifiedBatches | None = None) -> None:
        """batches : (first slot, rows, checksum) of each, by slot. before : the first of them, some verified."""
        columns = np.array(batches, np.int64).reshape(-1, 3).T
        self._firsts, self._ends, self._crcs = columns[0], columns[0] + columns[1], columns[2]
        self._done = np.zeros(len(batches), bool)
        if before is not None:
            self._done[: len(before._done)] = before._done

    @property
    def end(self) -> int:
        """The slot after the last one."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def verify(self, segments: FileSegments, slots: np.ndarray, *, between: bool = False) -> int:
        """Compare the features of the batches that hold the slots (or those `between` the first and the last) with
        their checksums. Returns how many were read; a TableError names what is damaged."""
        firsts, ends = self._firsts, self._ends
        if not len(firsts) or not len(slots):
            return 0
        at = np.unique(np.searchsorted(firsts, slots[slots < ends[-1]], side="right") - 1)
        if between and len(at):
            at = np.arange(at[0], (at[-1] if slots[-1] < ends[-1] else len(firsts) - 1) + 1)
        at = at[~self._done[at]]
        for i in at.tolist():
            first, end = int(firsts[i]), int(ends[i])
            where = f"{segments.path_of(first)} (slots {first} to {end - 1})"
            same_checksum(where, int(self._crcs[i]), segments.checksum(first, end))
            self._done[i] = True
        return len(at)
