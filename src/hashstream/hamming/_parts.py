"""Several sets of codes, each compared with queries of its own, searched as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hashstream.hamming._check import check_codes, check_n_threads
from hashstream.hamming._engine import Part, engine

__all__ = ["Parts"]


class Parts:
    """Sets of codes that are searched again and again: what can be known beforehand is looked at once.

    Parameters
    ----------
    parts : sequence of (which, codes, slots, dead), at least one
        which: the number of the set of queries that these codes are compared with, from 0 on. codes (n, width) uint8,
        packed; the width is the same in all. slots (n,) uint32: a number for each code, ascending in a part, that no
        other code has. dead (m,) int64: ascending rows of the codes that may not be found.

    >>> codes = np.array([[0b1111], [0b0001], [0b0000]], np.uint8)
    >>> queries = np.array([[[0b0000]], [[0b1111]]], np.uint8)  # two sets of one
    >>> one = 0, codes, np.array([1, 4, 5], np.uint32), np.array([2])
    >>> two = 1, codes, np.array([0, 3, 7], np.uint32), np.array([], np.int64)
    >>> Parts([one, two]).topk(queries, 3)
    (array([[0, 1, 3]], dtype=uint16), array([[0, 4, 3]]))
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        if not parts:
            raise ValueError("there must be at least one part")
        held: list[Part] = []
        self._alive, self._width = 0, 0
        for which, codes, slots, dead in parts:
            codes = check_codes(codes, "codes")
            if slots.dtype != np.uint32 or slots.shape != (len(codes),) or not slots.flags.c_contiguous:
                raise ValueError(
                    f"slots must be uint32 of shape ({len(codes)},), got {slots.dtype} {slots.shape}"
                )
            if held and codes.shape[1] != self._width:
                raise ValueError(f"codes have {codes.shape[1]} bytes a row in one part, {self._width} before")
            self._width = codes.shape[1]
            held.append((which, codes, slots, np.ascontiguousarray(dead, np.int64)))
            self._alive += len(codes) - len(dead)
        self._n_sets = max(which for which, *_ in held) + 1
        self._held = held  # the engine may know them by their addresses only
        self._known = engine.parts(held)

    def topk(
        self, queries: np.ndarray, k: int, *, n_threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest among all codes, exactly.

        Parameters
        ----------
        queries : (sets, q, width) uint8
            What each set of queries has instead of the q queries.
        k : int, at least 1
        n_threads : int, optional
            Threads to use; all cores that the process may use by default.

        Returns
        -------
        distances : (q, min(k, n)) uint16
            Ascending in each row; n is the number of codes in all parts that are not dead.
        slots : (q, min(k, n)) int64
            Equally distant codes by ascending slot.
        """
        if queries.dtype != np.uint8:
            raise ValueError(f"queries must be packed codes of dtype uint8, got {queries.dtype}")
        k = self._check(queries, queries.shape[-1], k)
        return engine.topk_parts(self._known, queries, k, check_n_threads(n_threads))

    def topk_signs(
        self, values: np.ndarray, k: int, *, n_threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """`topk` of the queries' real values, whose signs are their bits, (sets, q, n_bits) float32 or float64; None
        where one of them is not finite."""
        if values.dtype not in (np.float32, np.float64):
            raise ValueError(f"values must be float32 or float64, got {values.dtype}")
        k = self._check(values, -(-values.shape[-1] // 8), k)
        return engine.topk_signs(self._known, values, k, check_n_threads(n_threads))

    def _check(self, given: np.ndarray, width: int, k: int) -> int:
        """How many can be found of k; a ValueError where what is given does not fit."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if given.ndim != 3 or not given.flags.c_contiguous:
            raise ValueError(f"what is asked must be C-contiguous, of three dimensions, not {given.shape}")
        if given.shape[0] < self._n_sets or width != self._width:
            raise ValueError(
                f"what is asked has shape {given.shape}: there must be {self._n_sets} sets, with {self._width} bytes a "
                "code"
            )
        return min(int(k), self._alive)
