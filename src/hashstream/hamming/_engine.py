"""The compiled kernel if it is available, otherwise its NumPy twin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np

from hashstream._native import warn_if_slow
from hashstream.hamming import _kernel, _twin
from hashstream.hamming._labels import Labels
from hashstream.hamming._types import Part


class Engine(Protocol):
    """The functions of both. Codes are C-contiguous uint8; `rows` are ascending rows of codes, or None for all."""

    def distances(self, a: np.ndarray, b: np.ndarray, n_threads: int) -> np.ndarray:
        """(n, m) uint16."""

    def topk(
        self, queries: np.ndarray, codes: np.ndarray, k: int, rows: np.ndarray | None, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances (q, min(k, n)) uint16 and rows of `codes` int64."""

    def parts(self, held: Sequence[Part]) -> Any:
        """Prepare sets of codes for `topk_parts`; they have to outlive the result."""

    def topk_parts(
        self, known: Any, queries: np.ndarray, k: int, n_threads: int, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances (q, m) uint16 and slots int64, by (distance, slot), for queries (sets, q, width); k is at most
        the number of codes that are not removed. mask : C-contiguous bool or uint8 by slot; m is k, or the number of
        codes that are marked and not removed where that is smaller and there is a query."""

    def topk_signs(
        self, known: Any, values: np.ndarray, k: int, n_threads: int, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The same for the signs of values (sets, q, r); None if a value is not finite."""

    def marked(self, mask: np.ndarray, most: int) -> np.ndarray | None:
        """The marked places of a C-contiguous bool or uint8 mask, ascending uint32; None if there are more than
        `most`."""

    def weighted(
        self, values: np.ndarray, codes: np.ndarray, k: int, rows: np.ndarray | None, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Costs (q, min(k, n)) float64 and rows of `codes` int64, by (cost, row), for finite C-contiguous float64
        values (q, r). A byte of a code costs the magnitudes of the values whose signs differ from its bits, added in
        the order of the bits; a code, what its bytes cost, in their order."""

    def pack_signs(self, values: np.ndarray, codes: np.ndarray) -> bool:
        """Fill codes (n, width) with the signs of values (n, r), both C-contiguous. Returns whether all values are
        finite; if not, the contents of `codes` are undefined."""

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
        """Both histograms; the sum of precisions at relevant ranks (q,) float64; the same sum within each cutoff, an
        int64 rank, (q, c) float64; the relevant codes within each cutoff (q, c) int64."""


class _SlowEngine:
    """The twin, which says so at its first use."""

    def __getattr__(self, name: str) -> Any:
        warn_if_slow()
        return getattr(_twin, name)


engine: Engine = _kernel if _kernel.available() else cast(Engine, _SlowEngine())
