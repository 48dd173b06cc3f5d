"""Masks of filters that were used lately, extended as the table grows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

import numpy as np

from hashstream.table.state.ids import grown
from hashstream.table.state.where import ColumnLike, Filter

__all__ = ["MaskCache"]

LABEL = "label"


class _Key(NamedTuple):
    text: str
    generation: int
    label_epoch: int  # 0 for a filter that does not ask for labels


class _Kept(NamedTuple):
    """A mask: the first n bytes of a buffer, which never change; more may be written after them."""

    buffer: np.ndarray
    n: int


class MaskCache:
    """Masks by slot of the filters used last, (n_slots,) bool. Safe to use from several threads.

    size : filters. max_bytes : of all masks together; the ones used least recently go first.
    """

    def __init__(self, size: int = 64, max_bytes: int = 1 << 27) -> None:
        self.size, self.max_bytes = size, max_bytes
        self._lock = Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._nbytes = 0

    def mask(
        self,
        chosen: Filter,
        columns: Mapping[str, ColumnLike],
        n_slots: int,
        generation: int,
        label_epoch: int = 0,
    ) -> np.ndarray:
        """Which of the slots 0 to n_slots a filter keeps, bool, read-only. Only slots that no call saw are evaluated.

        generation : a number that grows whenever slots are numbered again. label_epoch : one that grows whenever a
        label of an old slot changes.
        """
        key = _Key(chosen.text, generation, label_epoch if LABEL in chosen.fields() else 0)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        known = 0 if kept is None else kept.n
        if kept is None or known < n_slots:
            more = chosen.mask(columns, known, n_slots)
            with self._lock:
                kept = self._entered(key, kept, more)
        return _read_only(kept.buffer[:n_slots])

    def clear(self) -> None:
        """Forget all masks."""
        with self._lock:
            self._kept.clear()
            self._nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def _entered(self, key: _Key, known: _Kept | None, more: np.ndarray) -> _Kept:
        """The mask `known` with `more` after it, which is kept; the caller has the lock."""
        start = 0 if known is None else known.n
        n = start + len(more)
        now = self._kept.get(key)
        if now is not None and now.n >= n:  # another thread was faster
            return now
        if now is not None and now.n >= start:
            kept = _extended(now, more[now.n - start :])
        elif known is None:
            kept = _Kept(more, n)
        else:  # removed meanwhile: another thread may be about to write to the same buffer
            kept = _Kept(np.concatenate([known.buffer[:start], more]), n)
        self._forget([key, *(other for other in self._kept if _useless(other, key))])
        self._kept[key] = kept
        self._nbytes += _size(key, kept)
        while len(self._kept) > self.size or (self._kept and self._nbytes > self.max_bytes):
            self._forget([next(iter(self._kept))])
        return kept

    def _forget(self, keys: list[_Key]) -> None:
        for key in keys:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._nbytes -= _size(key, kept)


def _extended(kept: _Kept, more: np.ndarray) -> _Kept:
    """In the same buffer where it has room: nobody reads it after its first n bytes."""
    return _Kept(grown(kept.buffer, kept.n, more), kept.n + len(more))


def _useless(other: _Key, key: _Key) -> bool:
    """Whether nobody who has the state of one key will ask for the other one again."""
    if other.generation != key.generation:
        return other.generation < key.generation
    return other.text == key.text and other.label_epoch < key.label_epoch


def _size(key: _Key, kept: _Kept) -> int:
    return kept.buffer.nbytes + len(key.text)


def _read_only(mask: np.ndarray) -> np.ndarray:
    mask.flags.writeable = False  # of this view
    return mask
