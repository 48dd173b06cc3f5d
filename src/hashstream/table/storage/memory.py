"""A table in memory: features and labels by slot, nothing that survives the process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.table.errors import Overtaken
from hashstream.table.settings import Settings
from hashstream.table.state.change import Added, Batch, Change, Done, Feedback
from hashstream.table.state.state import State
from hashstream.table.storage.base import MOST_KEYS, Storage, StoredBatch, surviving
from hashstream.table.storage.features import Segment, Segments
from hashstream.table.storage.folder.create import save_as_folder

__all__ = ["MemorySegments", "MemoryStorage"]

SEGMENT_BYTES = 64 << 20


class MemorySegments(Segments):
    """Rows in memory, in arrays that double until they reach 64 MB."""

    def append(self, X: np.ndarray, *, sync: bool = True) -> None:
        last = self._segments[-1] if self._segments else None
        if last is None or last.array is None or last.rows + len(X) > len(last.array):
            room = max(len(X), min(SEGMENT_BYTES // self.stride, max(256, self.n_rows)))
            last = Segment(self.n_rows, 0, array=np.empty((room, self.d), self.dtype))
            self._segments.append(last)
        assert last.array is not None
        last.array[last.rows : last.rows + len(X)] = X
        last.rows += len(X)
        self._pending += len(X)

    def undo(self, *, cut: bool = True) -> None:
        if self._pending:
            self._segments[-1].rows -= self._pending
            self._pending = 0

    def _rows(self, segment: Segment, low: int, high: int, room: np.ndarray | None = None) -> np.ndarray:
        assert segment.array is not None
        return segment.array[low:high]


class MemoryStorage(Storage):
    """Keeps features and payloads; the rest of a state needs no storage while the process lives."""

    survives = False

    def __init__(self, state: State, settings: Settings, *, keep_features: bool) -> None:
        """state : of a new table."""
        self.settings, self.keep_features = settings, keep_features
        self._first, self._generation = state, state.generation
        self._segments: Segments | None = None
        self._batches: list[StoredBatch] = []
        self._payloads: dict[int, str] = {}
        self._done: OrderedDict[str, Done] = OrderedDict()  # unlike a dict, it drops its first entry fast
        self._in_doubt = False
        self._since_checkpoint = 0  # rows learned

    def load(self) -> State:
        return self._first

    def commit(
        self,
        change: Change,
        after: State,
        batch: Batch | None = None,
        feedback: Feedback | None = None,
        done: Sequence[Done] = (),
    ) -> None:
        self._in_doubt = True
        if feedback is not None:
            self._since_checkpoint += len(feedback.slots)
        if batch is not None and change.added is not None:
            self._keep(batch, change.added, after.seq)
        for call in done:
            self._done[call.key] = call
            if len(self._done) > MOST_KEYS:
                self._done.popitem(last=False)

    def _keep(self, batch: Batch, added: Added, seq: int) -> None:
        if self.keep_features:
            if self._segments is None:
                self._segments = MemorySegments(batch.X.shape[1], batch.X.dtype)
            try:
                self._segments.append(batch.X)
            except MemoryError:  # before anything has changed
                self._in_doubt = False
                raise
            self._segments.settle()
        if batch.learned:  # as in a folder, where the first batch is checkpointed with its commit
            first = not self._batches or not self.keep_features
            self._since_checkpoint = 0 if first else self._since_checkpoint + len(batch.X)
        for slot, text in enumerate(batch.payloads or (), added.first_slot):
            if text is not None:
                self._payloads[slot] = text
        self._batches.append(StoredBatch(seq, added.first_slot, len(batch.X), added.version))

    def settled(self) -> None:
        self._in_doubt = False

    @property
    def in_doubt(self) -> bool:
        return self._in_doubt

    def done(self, key: str) -> Done | None:
        return self._done.get(key)

    def all_done(self) -> Iterator[Done]:
        yield from list(self._done.values())

    def features(self, slots: np.ndarray) -> np.ndarray:
        segments = self._segments
        return np.empty((len(slots), 0), np.float32) if segments is None else segments.take(slots)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        if self._segments is not None:
            yield from self._segments.blocks(first, last)

    def payloads(self, slots: np.ndarray, generation: int) -> list[str | None]:
        payloads = self._payloads  # before the generation is compared: `compact` replaces them after it
        if generation != self._generation:
            raise Overtaken
        return [payloads.get(slot) for slot in slots.tolist()]

    def read(self, slots: np.ndarray, generation: int) -> np.ndarray:
        segments = self._segments
        if generation == self._generation:
            X = np.empty((len(slots), 0), np.float32) if segments is None else segments.take(slots)
        if generation != self._generation:
            raise Overtaken
        return X

    def batches(self) -> Iterator[StoredBatch]:
        yield from list(self._batches)

    def compact(self, state: State) -> tuple[State, Callable[[], None]]:
        after, live = state.renumbered()
        segments: Segments | None = None
        batches = []
        for left in surviving(self._batches, live):
            if self._segments is not None:
                segments = segments or MemorySegments(self._segments.d, self._segments.dtype)
                segments.append(self._segments.take(left.slots))
                segments.settle()
            batches.append(StoredBatch(left.seq, left.first_slot, len(left.slots), left.version))
        held = (
            [(new, self._payloads.get(slot)) for new, slot in enumerate(live.tolist())]
            if self._payloads
            else []
        )
        payloads = {slot: text for slot, text in held if text is not None}

        def go_over() -> None:
            self._in_doubt = True
            self._generation = after.generation  # first: who reads meanwhile notices that it has changed
            self._segments, self._batches, self._payloads = segments, batches, payloads

        return after, go_over

    def checkpoint_due(self) -> bool:
        return self._since_checkpoint >= self.settings.checkpoint_rows

    def checkpoint(self, state: State, history: dict[str, Any] | None, *, closing: bool = False) -> None:
        self._since_checkpoint = 0

    def snapshot(self, path: Path, state: State, history: dict[str, Any] | None) -> None:
        save_as_folder(self, path, state, history)

    @property
    def feature_bytes(self) -> int:
        return 0 if self._segments is None else self._segments.nbytes

    def close(self) -> None:
        if self._segments is not None:
            self._segments.close()
