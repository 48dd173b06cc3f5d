"""From a folder to a state: the last checkpoint of the items and the changes since, the last checkpoint of the model
and the batches since.

Codes are read, not encoded again. The model starts from its checkpoint and learns the later batches exactly as they
were ingested, which gives the same bits on the same machine with the same libraries, in any thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from hashstream.hashers import FormatError
from hashstream.hashers.serialization import encoder_from_bytes, from_bytes
from hashstream.table.errors import TableError
from hashstream.table.state.sample import Sample
from hashstream.table.state.state import Model, State
from hashstream.table.state.view import View
from hashstream.table.storage.folder.checks import (
    check_change,
    check_encoder,
    check_labels,
    check_model,
    check_sample,
    check_view,
)
from hashstream.table.storage.folder.database import Database
from hashstream.table.storage.folder.records import (
    BatchRow,
    Head,
    Identity,
    change_from_arrays,
    checked,
    items_from_arrays,
    model_checksum,
    unpack_labels,
)
from hashstream.table.storage.folder.segments import FileSegments

__all__ = ["Loader"]


@dataclass
class Loader:
    """Reads states within one block of `Database.reading`. replayed : rows that the model has learned again."""

    database: Database
    segments: FileSegments | None
    identity: Identity
    head: Head
    replayed: int = 0

    def load(self) -> State:
        """The state of the last commit."""
        saved = self.database.checkpoint()
        if saved is None:
            raise TableError(f"{self.database.path} is damaged: it has no checkpoint of the model")
        with self._naming():
            model = Model.of(from_bytes(saved.raw, "a saved hasher"))
        check_model(model, self.identity, self.head, saved.version)
        state = self._with_changes(self._items(model))
        check_view(state.view, self.head)
        return self._with_model(state, saved.seq)

    def catch_up(self, before: State) -> State | None:
        """The state of the last commit from an earlier one; None where the changes since are not there any more."""
        if self.head.items_seq > before.seq or self.head.renumbered != before.generation:
            return None
        return self._with_model(self._with_changes(before), before.seq)

    def _items(self, model: Model) -> State:
        """The state as of the last checkpoint of the items, with a model whose batches are not learned yet."""
        head, arrays = self.head, self.database.items()
        view, sample = View(self.identity.width), Sample(self.identity.sample_size)
        if head.items_seq:
            try:
                assert head.shape is not None
                view, sample = items_from_arrays(arrays, self.identity, head.shape.ids)
            except KeyError as error:
                raise TableError(f"{self.database.path} is damaged: its items lack {error}") from error
        return State(view, sample, model, head.memory, head.items_seq, head.renumbered)

    def _with_changes(self, state: State) -> State:
        """The state after all later changes."""
        head = self.head
        for seq, arrays in self.database.changes(state.seq):
            if seq != state.seq + 1:
                break
            change = change_from_arrays(arrays)
            check_change(change, state.view)
            state = state.after(change)
        if state.seq != head.seq:
            raise TableError(
                f"{self.database.path} is damaged: change {state.seq + 1} of {head.seq} is missing"
            )
        if len(state.view) != head.live or state.view.n_slots != head.n_slots:
            raise TableError(
                f"{self.database.path} is damaged: it should hold {head.live} items in {head.n_slots} slots, but has "
                f"{len(state.view)} in {state.view.n_slots}"
            )
        check_sample(state.sample, head)
        return replace(state, memory=head.memory)

    def _with_model(self, state: State, seq: int) -> State:
        """The state with the model after the batches later than `seq`, and the encoders of all versions alive."""
        needed, known, model = set(state.view.counts()), dict(state.view.encoders), state.model
        for row in self.database.encoders():
            if row.version in needed and row.version not in known:
                with self._naming():
                    encoder = encoder_from_bytes(row.raw, "saved hash functions")
                check_encoder(encoder, self.identity, self.head.shape, row.version)
                known[row.version] = encoder
        if model.encoder is not None:
            known.setdefault(model.version, model.encoder)
        for batch in self._batches_after(seq):
            if batch.learned:
                model = self._learn_again(model, batch)
                self.replayed += batch.n_rows
                if model.encoder is not None and model.version in needed:
                    known.setdefault(model.version, model.encoder)
        if lost := needed - {*known, model.version}:
            raise TableError(
                f"{self.database.path} is damaged: it lacks the hash functions of version {min(lost)}, which items have"
            )
        return state.with_model(model, known)

    def _batches_after(self, seq: int) -> Iterator[BatchRow]:
        """The batches after commit `seq`, of which none may be missing: they fill the slots up to the last."""
        before = self.database.last_batch(seq)
        end = 0 if before is None else before.end
        for batch in self.database.batches_after(seq):
            if batch.first_slot != end:
                break
            end = batch.end
            yield batch
        if end != self.head.n_slots:
            raise TableError(f"{self.database.path} is damaged: it lacks the batch of slot {end}")

    def _learn_again(self, model: Model, batch: BatchRow) -> Model:
        if self.segments is None:
            raise TableError(
                f"{self.database.path} is damaged: a table without features needs no batches learned again"
            )
        X = self.segments.take(np.arange(batch.first_slot, batch.end))
        where = f"slots {batch.first_slot} to {batch.end - 1}"
        checked(f"{self.segments.path_of(batch.first_slot)} ({where})", batch.features_crc, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # they were given when the batch was ingested
            learner = model.hasher.copy()
            y = check_labels(unpack_labels(batch.y), batch.n_rows)
            after = model.learned(learner.learned(*learner.check_batch(X, y)))
        if after.version != batch.version or model_checksum(after) != batch.model_crc:
            warnings.warn(
                f"{self.database.path.parent}: learning {where} again gave other bits than at first, as another "
                "machine or library does; the model goes on from what was learned now",
                UserWarning,
                stacklevel=4,
            )
        return after

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """A TableError that names the database in place of a FormatError."""
        try:
            yield
        except FormatError as error:
            raise TableError(f"{self.database.path}: {error}") from error
