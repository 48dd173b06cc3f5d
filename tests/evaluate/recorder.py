"""A hasher that records what a protocol does with it, and slow forms of the metrics."""

from __future__ import annotations

import numpy as np

from hashstream.evaluate import protocols
from hashstream.evaluate.protocols import Protocol

SEED = 3


class Recorder:
    """A random projection to 12 bits that moves by `drift` at each call, and keeps the rows it learned and encoded."""

    n_bits = 12

    def __init__(self, drift: float = 0.3) -> None:
        self.drift, self.rng, self.W = drift, np.random.default_rng(0), None
        self.learned: list[tuple[np.ndarray, np.ndarray]] = []
        self.encoded: list[np.ndarray] = []

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        start = self.rng.standard_normal((X.shape[1], 12)) if self.W is None else self.W
        self.W = start + self.drift * self.rng.standard_normal(start.shape)
        self.learned.append((X.copy(), y.copy()))

    def transform(self, X: np.ndarray) -> np.ndarray:
        self.encoded.append(X)
        return self.codes(X)

    def codes(self, X: np.ndarray) -> np.ndarray:
        return np.packbits(X @ self.W > 0, axis=1)

    @property
    def stream(self) -> tuple[np.ndarray, np.ndarray]:
        X, y = zip(*self.learned, strict=True)
        return np.concatenate(X), np.concatenate(y)


def rows_of(data: protocols.PreparedDataset, X: np.ndarray) -> np.ndarray:
    """Which rows of the data these are, also where features have exchanged places."""
    place = {row.tobytes(): i for i, row in enumerate(np.sort(data.X))}
    return np.array([place[row.tobytes()] for row in np.sort(X)])


def run_stream(
    protocol: Protocol, data: protocols.PreparedDataset, points: tuple[int, ...] | None = None
) -> tuple[Recorder, list[protocols.Checkpoint]]:
    hasher = Recorder()
    task, points = protocol.task(data, SEED), points or protocol.points(data)
    return hasher, list(protocols.run_stream(hasher, task, points, cuts=protocol.cuts(data)))


def average_precision(hasher: Recorder, query: np.ndarray, label: str, X: np.ndarray, y: np.ndarray) -> float:
    """By the book, ties in the order of the database."""
    unlike = np.unpackbits(hasher.codes(query[None]) ^ hasher.codes(X), axis=1).sum(axis=1)
    hits = y[np.argsort(unlike, kind="stable")] == label
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())


def mean_ap(
    hasher: Recorder, queries: tuple[np.ndarray, np.ndarray], database: tuple[np.ndarray, np.ndarray]
) -> float:
    return float(np.mean([average_precision(hasher, x, c, *database) for x, c in zip(*queries, strict=True)]))
