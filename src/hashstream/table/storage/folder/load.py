"""From a folder to a state: the last checkpoint of the items and the changes since, the last checkpoint of the model
and the batches since.

Codes are read, not encoded again. The model starts from its checkpoint and learns the later batches exactly as they
were ingested, which gives the same bits on the same machine with the same libraries, in any thread.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import merge
from types import MappingProxyType

import numpy as np

from hashstream.hashers import FormatError
from hashstream.hashers.serialization import encoder_from_bytes, from_bytes
from hashstream.table.errors import TableError
from hashstream.table.state.change import Feedback
from hashstream.table.state.columns import field_column
from hashstream.table.state.labels import LabelColumn
from hashstream.table.state.sample import Sample
from hashstream.table.state.state import Model, State, taught
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
    OLDEST,
    BatchRow,
    FeedbackRow,
    Head,
    Identity,
    ModelRow,
    change_from_arrays,
    checked,
    items_from_arrays,
    model_checksum,
    need,
    unpack_labels,
)
from hashstream.table.storage.folder.segments import FileSegments

__all__ = ["Loader"]

log = logging.getLogger("hashstream.table")


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
        saved = self._checkpoint()
        model = self._saved_model(saved)
        state = self._with_changes(self._items(model))
        if self.database.format == OLDEST:
            state = self._with_labels(state)
        check_view(state.view, self.head)
        clock = time.perf_counter()
        state = replace(self._with_model(state, saved.seq), created=self.database.created())
        if self.replayed:
            seconds = time.perf_counter() - clock
            log.info("%s: learned %d rows again in %.3f s", self.database.path.parent, self.replayed, seconds)
        return state

    def _checkpoint(self) -> ModelRow:
        saved = self.database.checkpoint()
        if saved is None:
            raise TableError(f"{self.database.path} is damaged: it has no checkpoint of the model")
        return saved

    def _saved_model(self, saved: ModelRow) -> Model:
        with self._naming():
            model = Model.of(from_bytes(saved.raw, "a saved hasher"))
        check_model(model, self.identity, self.head, saved.version)
        return model

    def _with_labels(self, state: State) -> State:
        """The state with the labels of all batches, where a format has no others."""
        labels, learns = LabelColumn(), state.model.hasher.needs_labels
        for row in self.database.batches():
            y = check_labels(unpack_labels(row.y), row.n_rows)
            # A compaction wrote no checksum of a model, and did not keep whether rows had been learned: most had.
            learned = learns and (bool(row.learned) or row.model_crc == 0)
            labels = labels.extended(LabelColumn.of(y, row.n_rows, learned=learned))
        return replace(state, view=replace(state.view, labels=labels))

    def catch_up(self, before: State) -> State | None:
        """The state of the last commit from an earlier one; None where the changes since are not there any more."""
        if self.head.items_seq > before.seq or self.head.renumbered != before.generation:
            return None
        if self.database.format == OLDEST:  # its changes have no labels
            return None
        model, seq = before.model, before.seq
        underivable = max(self.head.relabelled, self.head.adopted) > seq
        if underivable and self.database.checkpoint_seq() > seq:
            saved = (
                self._checkpoint()
            )  # which has the feedback that was deleted with it, or functions from elsewhere
            model, seq = self._saved_model(saved), saved.seq
        created = self.database.created() if self.head.adopted > before.seq else before.created
        return self._with_model(replace(self._with_changes(before), model=model, created=created), seq)

    def _items(self, model: Model) -> State:
        """The state as of the last checkpoint of the items, with a model whose batches are not learned yet."""
        head, arrays = self.head, self.database.items()
        empty = {name: field_column(kind) for name, kind in head.fields.items()}
        view = View(self.identity.width, fields=MappingProxyType(empty))
        sample = Sample(self.identity.sample_size)
        if head.items_seq and head.shape is not None:  # without it, there are no items yet
            try:
                view, sample = items_from_arrays(arrays, self.identity, head.shape.ids, head.fields)
            except KeyError as error:
                raise TableError(f"{self.database.path} is damaged: its items lack {error}") from error
        return State(view, sample, model, head.memory, head.items_seq, head.renumbered, head.relabelled)

    def _with_changes(self, state: State) -> State:
        """The state after all later changes."""
        head = self.head
        for seq, arrays in self.database.changes(state.seq):
            if seq != state.seq + 1:
                break
            change = change_from_arrays(arrays, head.fields)
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
        state = replace(state, sample=self._filled(state))
        check_sample(state.sample, head)
        state = replace(state, memory=head.memory, relabelled=head.relabelled, comparison=head.comparison)
        return replace(state, adopted=head.adopted)

    def _filled(self, state: State) -> Sample:
        """The sample with the labels of its items, and with their features where it has checksums of them."""
        sample, view = state.sample, state.view
        places = np.flatnonzero(sample.slots >= 0)
        need(bool((sample.slots < view.n_slots).all()), "the sample has items that are not there")
        rows = list(sample.rows)
        empty = [place for place in places.tolist() if (row := rows[place]) is None or row.dtype == np.uint32]
        if empty:
            need(self.segments is not None, "the sample lacks features")
            assert self.segments is not None
            for place, row in zip(empty, self.segments.take(sample.slots[empty]), strict=True):
                slot, crc = int(sample.slots[place]), rows[place]
                where = f"{self.segments.path_of(slot)} (slot {slot})"
                checked(where, -1 if crc is None else int(crc[0]), row)
                rows[place] = row
        labels = view.labels.take(sample.slots[places])
        return sample.filled(rows, dict(zip(places.tolist(), labels, strict=True)))

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
        later: Iterator[BatchRow | FeedbackRow] = merge(
            self._batches_after(seq), self.database.feedback_after(seq), key=lambda lesson: lesson.seq
        )
        for lesson in later:
            if isinstance(lesson, FeedbackRow) or lesson.learned:
                model, n = self._learn_again(model, lesson)
                self.replayed += n
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

    def _learn_again(self, model: Model, row: BatchRow | FeedbackRow) -> tuple[Model, int]:
        """The model after a batch or feedback, and how many rows that has."""
        if self.segments is None:
            raise TableError(
                f"{self.database.path} is damaged: a table without features needs no batches learned again"
            )
        if isinstance(row, BatchRow):
            slots = np.arange(row.first_slot, row.end)
        else:
            slots = np.frombuffer(row.slots, np.uint32).astype(np.int64)
            need(
                len(slots) > 0 and bool((slots < self.head.n_slots).all()),
                "feedback has slots that are not there",
            )
        X = self.segments.take(slots)
        where = f"slots {slots[0]} to {slots[-1]}"
        checked(f"{self.segments.path_of(int(slots[0]))} ({where})", row.features_crc, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # they were given when the batch was ingested
            learner = model.hasher.copy()
            X, y = learner.check_batch(X, check_labels(unpack_labels(row.y), len(slots)))
            if isinstance(row, BatchRow):
                after = model.learned(learner.learned(X, y))
            else:
                old = check_labels(unpack_labels(row.old), len(slots))
                assert y is not None
                after = model.learned(taught(learner, Feedback(slots, X, y, old)))
        if after.version != row.version or model_checksum(after) != row.model_crc:
            warnings.warn(
                f"{self.database.path.parent}: learning {where} again gave other bits than at first, as another "
                "machine or library does; the model goes on from what was learned now",
                UserWarning,
                stacklevel=4,
            )
        return after, len(slots)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """A TableError that names the database in place of a FormatError."""
        try:
            yield
        except FormatError as error:
            raise TableError(f"{self.database.path}: {error}") from error
