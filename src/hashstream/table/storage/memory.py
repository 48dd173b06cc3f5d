"""A table in memory: features and labels by slot, nothing that survives the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hashstream.table.errors import Overtaken
from hashstream.table.settings import Settings
from hashstream.table.state.change import Batch, Change
from hashstream.table.state.labels import label_at
from hashstream.table.state.state import State
from hashstream.table.storage.base import Storage, StoredBatch, surviving
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
    """Keeps features and labels; the rest of a state needs no storage while the process lives."""

    survives = False

    def __init__(self, state: State, settings: Settings, *, keep_features: bool) -> None:
        """state : of a new table."""
        self.settings, self.keep_features = settings, keep_features
        self._first, self._generation = state, state.generation
        self._segments: Segments | None = None
        self._batches: list[StoredBatch] = []
        self._in_doubt = False
        self._since_checkpoint = 0  # rows learned

    def load(self) -> State:
        return self._first

    def commit(self, change: Change, after: State, batch: Batch | None = None) -> None:
        self._in_doubt = True
        if batch is None or change.added is None:
            return
        added = change.added
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
        self._batches.append(StoredBatch(after.seq, added.first_slot, len(batch.X), added.version, batch.y))

    def settled(self) -> None:
        self._in_doubt = False

    @property
    def in_doubt(self) -> bool:
        return self._in_doubt

    def features(self, slots: np.ndarray) -> np.ndarray:
        segments = self._segments
        return np.empty((len(slots), 0), np.float32) if segments is None else segments.take(slots)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        if self._segments is not None:
            yield from self._segments.blocks(first, last)

    def labels(self, slots: np.ndarray, generation: int) -> list[Any]:
        batches = self._batches
        if generation != self._generation:
            raise Overtaken
        at = np.searchsorted([batch.first_slot for batch in batches], slots, side="right") - 1
        return [
            label_at(batches[i].y, slot - batches[i].first_slot)
            for slot, i in zip(slots.tolist(), at.tolist(), strict=True)
        ]

    def read(self, slots: np.ndarray, generation: int) -> tuple[np.ndarray, list[Any]]:
        segments = self._segments  # before the generation is compared: `compact` replaces them after it
        labels = self.labels(slots, generation)
        if segments is None:
            return np.empty((len(slots), 0), np.float32), labels
        X = segments.take(slots)
        if generation != self._generation:
            raise Overtaken
        return X, labels

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
            batches.append(StoredBatch(left.seq, left.first_slot, len(left.slots), left.version, left.y))

        def go_over() -> None:
            self._in_doubt = True
            self._generation = after.generation  # first: who reads meanwhile notices that it has changed
            self._segments, self._batches = segments, batches

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
