"""Several sets of codes, each compared with queries of its own, searched as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hashstream.hamming._check import check_codes, check_mask, check_n_threads
from hashstream.hamming._engine import engine
from hashstream.hamming._types import Part


class Parts:
    """Sets of codes that are searched many times: they are checked and prepared once.

    Parameters
    ----------
    parts : sequence of (which, codes, slots, dead), at least one
        which: the number, from 0, of the set of queries that these codes are compared with. codes: (n, width) uint8,
        packed, of the same width in all parts. slots: (n,) uint32, a number for each code, ascending in a part and
        unique over all parts. dead: (m,) int64, ascending rows of removed codes, which are never found.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000]], np.uint8)
    >>> queries = np.array([[[0b0000]], [[0b1111]]], np.uint8)  # two sets of one query
    >>> one = 0, codes, np.array([1, 4, 5], np.uint32), np.array([2])
    >>> two = 1, codes, np.array([0, 3, 7], np.uint32), np.array([], np.int64)
    >>> Parts([one, two]).topk(queries, 3)
    (array([[0, 1, 3]], dtype=uint16), array([[0, 4, 3]]))
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        if not parts:
            raise ValueError("parts must not be empty")
        held: list[Part] = []
        self._alive, self._width = 0, 0
        for which, codes, slots, dead in parts:
            codes = check_codes(codes, "codes")
            if slots.dtype != np.uint32 or slots.shape != (len(codes),) or not slots.flags.c_contiguous:
                raise ValueError(
                    f"slots must be uint32 of shape ({len(codes)},), got {slots.dtype} {slots.shape}"
                )
            if held and codes.shape[1] != self._width:
                raise ValueError(
                    f"codes have {codes.shape[1]} bytes per row in one part and {self._width} in another"
                )
            self._width = codes.shape[1]
            held.append((which, codes, slots, np.ascontiguousarray(dead, np.int64)))
            self._alive += len(codes) - len(dead)
        self._n_sets = max(which for which, *_ in held) + 1
        self._held = held  # keeps them alive: the engine may hold addresses only
        self._known = engine.parts(held)

    def topk(
        self, queries: np.ndarray, k: int, *, mask: np.ndarray | None = None, n_threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k codes nearest to each query among all parts, exactly.

        Parameters
        ----------
        queries : (sets, q, width) uint8
            The same q queries, encoded once for each set.
        k : int, at least 1
        mask : (s,) bool or uint8, C-contiguous, optional
            By slot: only marked codes are found. Slots from s on are not marked; those of no code may be.
        n_threads : int, optional
            By default, all cores that the process may use.

        Returns
        -------
        distances : (q, min(k, n)) uint16
            Ascending in each row; n is the number of codes in all parts that are marked and not removed.
        slots : (q, min(k, n)) int64
            Equally distant codes by ascending slot.
        """
        if queries.dtype != np.uint8:
            raise ValueError(f"queries must be packed codes of dtype uint8, got {queries.dtype}")
        k = self._check(queries, queries.shape[-1], k, mask)
        return engine.topk_parts(self._known, queries, k, check_n_threads(n_threads), mask)

    def topk_signs(
        self, values: np.ndarray, k: int, *, mask: np.ndarray | None = None, n_threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """`topk` of real values (sets, q, n_bits), float32 or float64, whose signs are the queries' bits; None if one
        is not finite."""
        if values.dtype not in (np.float32, np.float64):
            raise ValueError(f"values must be float32 or float64, got {values.dtype}")
        k = self._check(values, -(-values.shape[-1] // 8), k, mask)
        return engine.topk_signs(self._known, values, k, check_n_threads(n_threads), mask)

    def _check(self, given: np.ndarray, width: int, k: int, mask: np.ndarray | None) -> int:
        """Return the number of codes to find: k, or all where there are fewer."""
        if k < 1:  # here, not in a function: a search is timed in microseconds
            raise ValueError(f"k must be at least 1, got {k}")
        if given.ndim != 3 or not given.flags.c_contiguous:
            raise ValueError(
                f"queries must be C-contiguous and 3-D (sets, queries, ...), got shape {given.shape}"
            )
        if given.shape[0] < self._n_sets or width != self._width:
            raise ValueError(
                f"queries of shape {given.shape} do not fit: at least {self._n_sets} sets are needed, with "
                f"{self._width} bytes per code"
            )
        k = min(int(k), self._alive)
        if mask is None:
            return k
        check_mask(mask)
        return k if given.shape[1] else min(k, self._count(mask))  # a search counts them, but there is none

    def _count(self, mask: np.ndarray) -> int:
        """Codes that are marked and not removed."""
        alive = [np.delete(slots, dead) for _, _, slots, dead in self._held]
        return sum(int(np.count_nonzero(mask[slots[slots < len(mask)]])) for slots in alive)


def marked(mask: np.ndarray, most: int) -> np.ndarray | None:
    """The marked places of a mask that marks few; None, and sooner, where it marks more than `most`.

    Parameters
    ----------
    mask : (s,) bool or uint8, C-contiguous
    most : int, at least 0

    Returns
    -------
    (m,) uint32, ascending, or None

    >>> marked(np.array([False, True, False, True]), 2)
    array([1, 3], dtype=uint32)
    """
    return engine.marked(check_mask(mask), most)
