"""Features on their way to a segment: written while the hash functions learn from them, synced now or later."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from hashstream.table.packing import checksum
from hashstream.table.segments import Segments

__all__ = ["Ahead"]

SMALL_BATCH = 1 << 20  # bytes of features that may go into the manifest too and are not synced at once, ...
UNSYNCED_BYTES = 16 << 20  # ... and of all those, before their segment is synced
TWICE = (
    3e-9  # seconds that a byte of features takes in the manifest: a sync that is waited for longer is put off
)
FIRST_WAIT, FADING = (
    3e-4,
    0.9,
)  # seconds that a sync is thought to take before one was seen; how that is forgotten


class Ahead:
    """Writes one batch at a time, for one writer.

    A sync of a batch's own has to be waited for; to put it off means that its features are written twice, to the
    manifest too. Whichever is quicker here: where a sync takes milliseconds, small batches go into the manifest.

    unsynced : bytes of features that are in the manifest too.
    """

    def __init__(self, sync: bool) -> None:
        """sync : whether commits are synced; if not, no small batch is."""
        self._sync = sync
        self.unsynced = 0
        self._waits = deque([FIRST_WAIT], 4)  # seconds that commits waited for their features
        self._thread = ThreadPoolExecutor(1, "hashstream-features")
        self._begun: Future[tuple[bool, int]] | None = None

    @property
    def busy(self) -> bool:
        """Whether features were begun with that nobody has asked for yet."""
        return self._begun is not None

    def begin(self, segments: Segments, X: np.ndarray) -> None:
        self._begun = self._thread.submit(self._write, segments, X)

    def finish(self, segments: Segments, X: np.ndarray) -> tuple[bool, int]:
        """Whether the features X, written now unless they were begun with, have yet to be synced; their checksum."""
        clock = time.perf_counter()
        if self._begun is None:
            later, crc = self._write(segments, X)
        else:
            later, crc = self._begun.result()
            self._begun = None
        self._waits.append(self._waits[0] * FADING if later else time.perf_counter() - clock)
        return later, crc

    def _write(self, segments: Segments, X: np.ndarray) -> tuple[bool, int]:
        small = X.nbytes <= SMALL_BATCH and self.unsynced + X.nbytes <= UNSYNCED_BYTES
        later = small and (not self._sync or min(self._waits) > X.nbytes * TWICE)
        segments.append(X, sync=not later)
        return later, checksum(X)

    def wait(self) -> None:
        """Until nothing is being written, whatever became of it."""
        if self._begun is not None:
            self._begun.exception()
            self._begun = None

    def close(self) -> None:
        self._thread.shutdown()
