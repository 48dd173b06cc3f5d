"""The compiled kernel where it is there, its NumPy twin where it is not."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hashstream.hamming import _kernel, _twin
from hashstream.hamming._labels import Labels

__all__ = ["Engine", "engine"]


class Engine(Protocol):
    """What both can do. Codes are C-contiguous uint8; `rows` are ascending rows of codes, or None: all."""

    def distances(self, a: np.ndarray, b: np.ndarray, n_threads: int) -> np.ndarray:
        """(n, m) uint16."""

    def topk(
        self, queries: np.ndarray, codes: np.ndarray, k: int, rows: np.ndarray | None, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances (q, min(k, n)) uint16 and rows of `codes` int64."""

    def radius(
        self, queries: np.ndarray, codes: np.ndarray, radius: int, rows: np.ndarray | None, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offsets (q + 1) int64, distances (found) uint16, rows of `codes` (found) int64."""

    def histogram(
        self, queries: np.ndarray, codes: np.ndarray, labels: Labels | None, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Codes and relevant codes at each distance, (q, 8 * width + 1) int64."""

    def rank(self, queries: np.ndarray, codes: np.ndarray, n_threads: int) -> np.ndarray:
        """(q, n) int32."""

    def stable_scores(
        self, queries: np.ndarray, codes: np.ndarray, labels: Labels, cutoffs: np.ndarray, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Both histograms; the sum of precisions at relevant ranks (q,) float64; for each cutoff, an int64
        rank, the same sum within it (q, c) float64 and the relevant codes within it (q, c) int64."""


engine: Engine
if _kernel.available():
    engine = _kernel
else:
    engine = _twin
