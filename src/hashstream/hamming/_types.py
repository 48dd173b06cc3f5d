"""Results of searches, and the form in which `Parts` takes codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class TopK(NamedTuple):
    """The nearest codes of each query."""

    distances: NDArray[np.uint16] | NDArray[np.float64]
    """(q, min(k, n)), ascending in each row: uint16 bits, or float64 where bits are weighted."""
    indices: NDArray[np.int64]
    """(q, min(k, n)) int64: rows of the codes; equally distant codes by ascending row."""


class WithinRadius(NamedTuple):
    """All codes within a radius of each query. Those of query i are at `offsets[i]:offsets[i + 1]`."""

    offsets: NDArray[np.int64]
    """(q + 1,) int64."""
    distances: NDArray[np.uint16]
    """(found,) uint16, ascending for each query."""
    indices: NDArray[np.int64]
    """(found,) int64: rows of the codes; equally distant codes by ascending row."""


Part = tuple[int, np.ndarray, np.ndarray, np.ndarray]
"""A set of codes and the queries that it is compared with: the number of the set of queries, the codes (n, width)
uint8, their slots (n,) uint32 and the rows of removed codes, int64; slots and rows are ascending."""


class Among(NamedTuple):
    """The codes of a `MultiIndex` that may be found, and their numbers."""

    mask: np.ndarray | None = None
    """(s,) bool or uint8, C-contiguous, by slot: only marked codes are found, and none from s on. None: all."""
    slots: np.ndarray | None = None
    """(n,) uint32, ascending: the number of each code; results are slots then. None: a code's row is its slot."""
    dead: np.ndarray | None = None
    """(m,) int64, ascending: rows that are not found; only with slots."""
    begin: int = 0
    """Rows before this one are not found; only with slots."""
