"""Synthetic labelled streams of any length, generated as they are read, for tests and large runs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hashstream.datasets.dataset import Dataset

_BLOCK = 1024  # rows generated at once; the numbers depend on it, so it is not a parameter
_ROWS, _QUERIES, _WORLD = range(3)  # independent random streams
_RANK = 32  # dimensions in which classes differ; features of a network, too, use few of theirs
_SHARED = 4  # of them, those that have half of the variance within a class, the same for all classes
_FLOOR = 0.01  # share of the variance within a class that is spread over all d dimensions


class Stream:
    """n labelled vectors, (d,) float32 of one of `classes` classes each, in an order that never changes.

    Any part can be generated without the part before it, and a row does not depend on its batch: block k of 1,024 rows
    is drawn from a Philox generator with the key (seed, k). Memory is bounded by the batch, whatever n is. Rows depend
    on the NumPy version, as all of NumPy's distributions do.

    A row is its class's centre, a random unit vector in a subspace of 32 dimensions, plus Gaussian noise of mean
    squared length spread² in the same subspace (and a hundredth of it everywhere). Half of the noise lies in 4
    dimensions, the same for all classes: the largest variance carries no information about the class, like light and
    pose in photographs. Random projections follow it; a method that learns from labels can ignore it.

    Parameters
    ----------
    n, d, classes : rows, features, classes. Each row's class is drawn with equal chances.
    drift : how far the classes move. The centre of a class rotates at constant speed in a plane of its own, by drift
        quarter turns from the first row to the last: with 0 nothing moves, with 1 every centre ends at a right angle
        to where it began, 4 is a full turn.
    spread : length of the noise relative to the centre: with 0 the rows of a class are equal. At
        1.5 and 32 bits, after 5,000 rows of 10 classes in 64 dimensions, mAP is 0.28 for random projections and 0.96
        for FCOH; after 20,000 of 205 classes in 128, 0.03 and 0.17.
    unit : scale each row to length 1, as the papers' features are.
    seed : another seed gives other classes and rows.

    >>> stream = Stream(1_000_000_000, 16, classes=100, drift=1.0)
    >>> X, y = stream.rows(999_999_000, 999_999_003)
    >>> X.shape, X.dtype, y.dtype
    ((3, 16), dtype('float32'), dtype('int64'))
    >>> sum(len(y) for X, y in stream.batches(600, begin=0, end=2_000))
    2000
    """

    def __init__(
        self,
        n: int,
        d: int,
        classes: int,
        *,
        drift: float = 0.0,
        spread: float = 1.5,
        unit: bool = True,
        seed: int = 0,
    ) -> None:
        for name, value, least in (("n", n, 1), ("d", d, 2), ("classes", classes, 1), ("seed", seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} is {value!r}: it has to be an integer, {least} or more")
        if seed >= 1 << 64:
            raise ValueError(f"seed is {seed}: it has to be below 2**64")
        for name, size in (("drift", drift), ("spread", spread)):
            if not 0 <= size < math.inf:
                raise ValueError(f"{name} is {size!r}: it has to be a finite number, 0 or more")
        self.n, self.d, self.classes = int(n), int(d), int(classes)
        self.drift, self.spread, self.unit, self.seed = float(drift), float(spread), bool(unit), int(seed)
        world = self._random(_WORLD, 0)
        rank = min(_RANK, self.d)
        basis = np.linalg.qr(world.standard_normal((self.d, rank)))[0].T
        first, second = world.standard_normal((2, self.classes, rank)) @ basis
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        second -= np.sum(first * second, axis=1, keepdims=True) * first
        second /= np.linalg.norm(second, axis=1, keepdims=True)
        self._first, self._second = first.astype(np.float32), second.astype(np.float32)
        shared = min(_SHARED, rank)
        weights = np.full(rank, (0.5 - _FLOOR) / rank)
        weights[:shared] += 0.5 / shared
        self._within = (self.spread * np.sqrt(weights)[:, None] * basis).astype(np.float32)
        self._floor = np.float32(self.spread * math.sqrt(_FLOOR / self.d))
        self._last: tuple[int, np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        rest = "".join(
            f", {name}={value}"
            for name, value, usual in (
                ("drift", self.drift, 0.0),
                ("spread", self.spread, 1.5),
                ("unit", self.unit, True),
                ("seed", self.seed, 0),
            )
            if value != usual
        )
        return f"Stream({self.n}, {self.d}, {self.classes}{rest})"

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return self.batches()

    def batches(
        self, size: int = 1000, *, begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows `begin` to `end` (by default the end of the stream) in batches of `size`: X (size, d), y (size,).

        The last batch may be shorter.
        """
        end = self.n if end is None else end
        self._check_range(begin, end)
        if size < 1:
            raise ValueError(f"size is {size}: a batch has at least 1 row")
        for at in range(begin, end, size):
            yield self.rows(at, min(at + size, end))

    def rows(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows `begin` up to, not including, `end`: X (end - begin, d) float32, y (end - begin,) int64."""
        self._check_range(begin, end)
        X, y = np.empty((end - begin, self.d), np.float32), np.empty(end - begin, np.int64)
        at = begin
        while at < end:
            block, skip = divmod(at, _BLOCK)
            until = min(end, (block + 1) * _BLOCK)
            rows, labels = self._block(block)
            X[at - begin : until - begin] = rows[skip : skip + until - at]
            y[at - begin : until - begin] = labels[skip : skip + until - at]
            at = until
        return X, y

    def queries(self, n: int, *, at: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """n rows that are never in the stream, equally many per class: X (n, d) float32, y (n,) int64.

        at: the position in the stream whose class centres they have; by default its end. A larger n adds queries and
        keeps the first ones.
        """
        at = self.n if at is None else at
        if n < 1:
            raise ValueError(f"n is {n}: it has to be 1 or more")
        if not 0 <= at <= self.n:
            raise ValueError(f"at is {at}: it has to be 0 to {self.n}, a position in the stream")
        X, y = np.empty((n, self.d), np.float32), np.arange(n) % self.classes
        for begin in range(0, n, _BLOCK):
            part = slice(begin, min(begin + _BLOCK, n))
            random = self._random(_QUERIES, begin // _BLOCK)
            labels = np.resize(y[part], _BLOCK)
            X[part] = self._around(labels, np.full(_BLOCK, at, np.float64), random)[: part.stop - begin]
        return X, y.astype(np.int64)

    def centres(self, at: int = 0) -> np.ndarray:
        """(classes, d) float32: the centres of the classes, of length 1, at a position in the stream."""
        return self._centres(np.arange(self.classes), np.full(self.classes, at, np.float64))

    def as_dataset(self) -> Dataset:
        """All rows in memory, n x d x 4 bytes, as a data set. The order of the rows is the stream's."""
        X, y = self.rows(0, self.n)
        note = "Synthetic data: compare between methods only."
        return Dataset("stream", X, y, None, f"generated by {self!r}", note)

    def _check_range(self, begin: int, end: int) -> None:
        if not 0 <= begin <= end <= self.n:
            raise ValueError(f"rows {begin} to {end} were requested: the stream has rows 0 to {self.n}")

    def _random(self, who: int, block: int) -> np.random.Generator:
        key = np.array([self.seed, block], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=who << 192))  # never overlap

    def _block(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """A whole block. The last one is kept, for batches smaller than a block."""
        if (last := self._last) is not None and last[0] == number:
            return last[1], last[2]
        random = self._random(_ROWS, number)
        labels = random.integers(0, self.classes, _BLOCK)
        rows = self._around(
            labels, np.arange(number * _BLOCK, (number + 1) * _BLOCK, dtype=np.float64), random
        )
        self._last = number, rows, labels
        return rows, labels

    def _around(self, labels: np.ndarray, at: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """One row per label, around the centre that its class has at that position."""
        rows = random.standard_normal((len(labels), self.d), np.float32)
        rows *= self._floor
        rows += random.standard_normal((len(labels), len(self._within)), np.float32) @ self._within
        rows += self._centres(labels, at)
        if self.unit:
            length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
            np.divide(rows, length, out=rows, where=length > 0)
        return rows

    def _centres(self, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
        centres: np.ndarray = self._first[labels]
        if self.drift:
            angle = (0.5 * math.pi * self.drift / self.n) * at
            centres *= np.cos(angle).astype(np.float32)[:, None]
            centres += np.sin(angle).astype(np.float32)[:, None] * self._second[labels]
        return centres
