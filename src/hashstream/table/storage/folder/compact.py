"""All items of a table written again, without the rows of removed ones, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hashstream.hashers.serialization import encoder_to_bytes, to_bytes
from hashstream.table.state.state import State
from hashstream.table.storage.base import Source, surviving
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.failpoints import reach
from hashstream.table.storage.folder.records import (
    BatchRow,
    Head,
    ModelRow,
    SegmentRow,
    Shape,
    checksum,
    items_to_arrays,
    kinds_of,
)
from hashstream.table.storage.folder.segments import FileSegments

__all__ = ["Rewritten", "rewrite"]

PIECE = 10_000  # payloads that are copied at once


@dataclass(frozen=True)
class Rewritten:
    """A table with its slots numbered again, as it is in the database now, and the files of its features."""

    state: State
    head: Head
    segments: FileSegments | None


def rewrite(
    source: Source,
    database: Database,
    head: Head,
    state: State,
    begin: Callable[[Shape], FileSegments],
) -> Rewritten:
    """Write what is alive of `source`, whose state is given, to new files and to the database, in place of its rows.

    The commit is synced in any case: nothing is left of what was durable before. The files have yet to be put in the
    place of the old ones. head : of the database. begin : creates the new files.
    """
    after, live = state.renumbered()
    seq = max(head.seq, state.seq) + 1  # later than all batches, also where they are another storage's
    after = replace(after, seq=seq, generation=seq)
    shape = _shape(state)
    new = begin(shape) if source.keep_features and len(live) else None
    try:
        batches = list(_batches(source, new, live))
        if new is not None:
            new.sync_rows()
        reach("compact.written")
        head = _commit(
            database, head, new, batches, after, shape, partial(_put_payloads, source, state, live)
        )
    except BaseException:
        if new is not None and not database.in_doubt:
            new.delete()
        raise
    reach("compact.after")
    return Rewritten(after, head, new)


def _shape(state: State) -> Shape:
    encoder, column = state.model.encoder, state.view.column
    assert encoder is not None
    assert column is not None
    return Shape(encoder.n_features, np.dtype(encoder.dtype).str, column.kind)


def _batches(source: Source, new: FileSegments | None, live: np.ndarray) -> Iterator[BatchRow]:
    """The rows of the database for every batch that has items alive; their features go to `new`.

    None has to be learned from again: the model is checkpointed with them.
    """
    for left in surviving(source.batches(), live):
        crc = 0
        if new is not None:
            X = source.features(left.slots)
            new.append(X, sync=False)
            new.settle()
            crc = checksum(X)
        yield BatchRow(left.seq, left.first_slot, len(left.slots), 0, left.version, crc, 0, None)


def _commit(
    database: Database,
    head: Head,
    new: FileSegments | None,
    batches: list[BatchRow],
    after: State,
    shape: Shape,
    put_payloads: Callable[[Database, int], None],
) -> Head:
    """Put new rows in the place of all that are there, in one transaction."""
    view, seq = after.view, after.seq
    head = replace(
        head, seq=seq, live=len(view), n_slots=len(view), sampled=len(after.sample), items_seq=seq, log_bytes=0,
        renumbered=seq, next_segment=head.next_segment + (0 if new is None else len(new.first_slots)),
        memory=dict(after.memory), shape=shape, relabelled=after.relabelled, fields=kinds_of(view),
        comparison=after.comparison, adopted=after.adopted,
    )  # fmt: skip
    with database.transaction(sync=True, settle=False):
        if new is not None:
            new.check_files()  # they were written before: somebody may have deleted them
        database.forget_rows()
        for row in batches:
            database.put_batch(row)
        for i, first in enumerate([] if new is None else new.first_slots):
            assert new is not None
            database.put_segment(SegmentRow(new.first_number + i, first))
        arrays = items_to_arrays(view, after.sample, keep_features=new is not None)
        head = replace(head, items_bytes=database.put_items(arrays))
        database.put_checkpoint(ModelRow(view.newest, seq, to_bytes(after.model.hasher)))
        database.forget_encoders(database.encoder_versions())
        for version, encoder in view.encoders.items():
            if version != view.newest:
                database.put_encoder(ModelRow(version, seq, encoder_to_bytes(encoder)))
        put_payloads(database, seq)
        database.put_head(head)
    return head


def _put_payloads(
    source: Source, state: State, live: np.ndarray, database: Database, generation: int
) -> None:
    """Copy the payloads of the slots `live` to the slots 0, 1, 2, ... of a generation, and delete all others."""
    for start in range(0, len(live), PIECE):
        slots = live[start : start + PIECE]
        database.put_payloads(generation, start, source.payloads(slots, state.generation))
    database.forget_payloads(generation)
