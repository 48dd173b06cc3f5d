"""Where a table's state lives: the interface, and the one that keeps it in memory only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.table.change import Change
from hashstream.table.codes import View
from hashstream.table.errors import Overtaken
from hashstream.table.packing import label_at
from hashstream.table.reservoir import Reservoir, Seats
from hashstream.table.segments import MemorySegments, Segments

__all__ = ["Batch", "Store", "left_of"]


@dataclass(frozen=True)
class Batch:
    """Rows that were ingested or added in one call.

    X : (n, d) in the table's dtype. y : labels, of which some may be missing (see `label_at`), or None.
    learned : whether the hasher learned from those with a label. model : checksum of the hash functions after that.
    """

    X: np.ndarray
    y: np.ndarray | None
    learned: bool
    model: int


class Store:
    """Where a table's state lives. This one keeps features and labels in memory and forgets all else."""

    durable = False

    def __init__(self, keep_features: bool) -> None:
        self.keep_features = keep_features
        self.segments: Segments | None = None
        self.seq = 0
        self.generation = 0  # grows when slots are numbered anew
        self._batches: list[tuple[int, int, int, int, int, np.ndarray | None]] = []
        self._unsure = False

    @property
    def unsure(self) -> bool:
        """Whether a change was interrupted half-way, so that what is stored may not be what the table shows."""
        return self._unsure

    def refuse_in_fork(self, process: int) -> None:
        """TableError where a process that was forked from `process`, which opened this, must not use it."""

    def settled(self) -> None:
        """The change that was committed last is shown."""
        self._unsure = False

    def commit(
        self,
        change: Change,
        *,
        batch: Batch | None = None,
        seats: Seats | None = None,
        policy: dict[str, Any],
        live: int,
        model: OnlineHasher | None = None,
        old: dict[int, OnlineHasher] | None = None,
    ) -> None:
        """Make one change durable, whole or not at all. The store is unsure from then on until `settled` is called.

        policy : what the policy remembers. live : items alive afterwards.
        model, old : the hasher, and the encoders of older versions alive, to be checkpointed with it.
        """
        self._unsure = True
        if batch is not None:
            first = 0 if change.added is None else change.added.first_slot
            if self.keep_features:
                self._segments_for(batch.X).append(batch.X)
                self._segments_for(batch.X).settle()
            version = -1 if change.added is None else change.added.version
            self._batches.append((self.seq + 1, first, len(batch.X), version, batch.model, batch.y))
        self.seq += 1

    def _segments_for(self, X: np.ndarray) -> Segments:
        if self.segments is None:
            self.segments = MemorySegments(X.shape[1], X.dtype)
        return self.segments

    def batches(self) -> Iterator[tuple[int, int, int, int, int, np.ndarray | None]]:
        """seq, first slot, number of rows, version, checksum of the model and labels of every batch, in order."""
        yield from list(self._batches)

    def labels(self, slots: np.ndarray, generation: int) -> list[Any]:
        """The labels of slots, None where there is none; Overtaken where slots were renumbered since `generation`."""
        batches = self._batches
        if generation != self.generation:
            raise Overtaken
        at = np.searchsorted([first for _, first, *_ in batches], slots, side="right") - 1
        found = []
        for slot, i in zip(slots.tolist(), at.tolist(), strict=True):
            _, first, *_, y = batches[i]
            found.append(label_at(y, slot - first))
        return found

    def compacted(self, live: np.ndarray) -> Callable[[], None]:
        """What is left of features and labels where only the slots `live`, ascending, stay; a function that goes on
        with it."""
        segments: Segments | None = None
        batches = []
        for seq, first, slots, version, model, labels in left_of(self._batches, live):
            if self.segments is not None:
                segments = segments or MemorySegments(self.segments.d, self.segments.dtype)
                segments.append(self.segments.take(slots))
                segments.settle()
            batches.append((seq, first, len(slots), version, model, labels))

        def go_on() -> None:
            self._unsure = True
            self.seq += 1
            self.generation += 1  # before what is read by slots: see `HashTable.get`
            self.segments, self._batches = segments, batches

        return go_on

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        """The features of slots first to last in blocks: (first slot, (n, d)) of each, until the next is asked for."""
        if self.segments is not None:
            yield from self.segments.blocks(first, last)

    def features(self, slots: np.ndarray) -> np.ndarray:
        """The features of slots in any order, copied: (n, d)."""
        if self.segments is None:
            return np.empty((len(slots), 0), np.float32)
        return self.segments.take(slots)

    def wants_image(self, *, closing: bool = False) -> bool:
        return False

    def write_image(self, view: View, reservoir: Reservoir) -> None:
        """Draw all changes so far together."""

    def write_model(
        self, hasher: OnlineHasher, old: dict[int, OnlineHasher], history: dict[str, Any] | None = None
    ) -> None:
        """Checkpoint the hasher, and the encoders of older versions that are alive, and the history if given."""

    def write_history(self, history: dict[str, Any]) -> None:
        """The history alone."""

    def flush(self) -> None:
        """Sync features that have been left to the system so far."""

    def harden(self) -> None:
        """Make all commits so far durable, where they are not as a rule."""

    def nbytes(self) -> int:
        """On disk."""
        return 0

    def close(self) -> None:
        if self.segments is not None:
            self.segments.close()


def left_of(
    batches: Iterable[tuple[int, int, int, int, int, np.ndarray | None]], live: np.ndarray
) -> Iterator[tuple[int, int, np.ndarray, int, int, np.ndarray | None]]:
    """What is left of `Store.batches` where only the slots `live`, ascending, stay.

    Of each that has any: seq, its first slot as they are numbered anew, the slots that it had, version, checksum of the
    model, labels.
    """
    first = 0
    for seq, start, n_rows, version, model, y in batches:
        slots = live[np.searchsorted(live, start) : np.searchsorted(live, start + n_rows)]
        if len(slots):
            yield seq, first, slots, version, model, None if y is None else y[slots - start]
            first += len(slots)
