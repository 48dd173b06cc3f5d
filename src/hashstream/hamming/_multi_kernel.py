"""The multi-index in C (hamming_multi*.c), called through ctypes, which releases the GIL. Arguments are checked."""

from __future__ import annotations

from ctypes import POINTER, Structure, addressof, byref, c_double, c_int, c_int64, c_uint64, c_void_p
from typing import Any

import numpy as np

from hashstream.hamming import _kernel
from hashstream.hamming._types import Among

lib: Any = _kernel.lib
WORDS = 4
NOTHING = np.empty(0, np.uint32)


class _Table(Structure):
    """`table` of hamming_multi.h, field by field."""

    _fields_ = (
        ("n_bits", c_int64),
        *((name, c_void_p) for name in ("parts", "starts", "entries")),
        ("mask", c_uint64 * WORDS),
    )


class _Multi(Structure):
    """`multi` of hamming_multi.h, field by field."""

    _fields_ = (
        *((name, c_void_p) for name in ("codes", "next", "first")),
        *((name, c_int64) for name in ("n_codes", "n_entries", "width", "n_tables")),
        ("tables", POINTER(_Table)),
    )


if lib is not None:
    for name, result, *arguments in (
        ("multi_link", c_int64, c_void_p),
        ("multi_fill", None, c_void_p, c_int64),
        ("multi_topk", c_int, *[c_void_p] * 3, c_int64, c_double, *[c_void_p] * 4),
        ("multi_radius", c_int, *[c_void_p] * 3, c_int64, c_double, *[c_void_p] * 3),
        ("multi_take", None, *[c_void_p] * 2, c_int64, *[c_void_p] * 2),
    ):
        function = getattr(lib, f"hs_{name}")
        function.restype, function.argtypes = result, arguments


class _Filter(Structure):
    """`filter` of hamming_multi.c, field by field."""

    _fields_ = (
        *((name, c_void_p) for name in ("marks", "slots", "dead")),
        *((name, c_int64) for name in ("n_marks", "n_dead", "begin")),
    )


def _filter(among: Among) -> _Filter:
    """Addresses only: the arrays must outlive the result."""
    mask, slots, dead = (
        (None, 0) if one is None else (one.ctypes.data, len(one))
        for one in (among.mask, among.slots, among.dead)
    )
    return _Filter(mask[0], slots[0], dead[0], mask[1], dead[1], among.begin)


class Tables:
    """The tables of all substrings, and the links between equal codes.

    codes : (n, width). They are not kept: each search is given them again, wherever they lie by then.
    distinct : rows that have no equal one before them.
    """

    def __init__(self, codes: np.ndarray) -> None:
        n, width = codes.shape
        self._next = np.zeros(n, np.uint32)
        self._first = np.empty(n, np.uint32)
        self._arrays: list[np.ndarray] = []
        self._multi = _Multi(
            codes.ctypes.data, self._next.ctypes.data, self._first.ctypes.data, n, n, width, 0
        )
        self.distinct = int(lib.hs_multi_link(byref(self._multi)))
        _raise_if(self.distinct < 0)

    def fill(self, codes: np.ndarray, groups: list[np.ndarray], *, linked: bool) -> None:
        """Enter the codes into a table for each group of bits. linked : whether only distinct ones are entered."""
        multi, width = self._multi, codes.shape[1]
        if not linked:
            self._next = self._first = NOTHING
            multi.next = multi.first = None
        n = multi.n_entries = self.distinct if linked else len(codes)
        tables = (_Table * len(groups))()
        for table, bits in zip(tables, groups, strict=True):
            parts, mask = _extraction(bits, width)
            starts, entries = np.zeros((1 << len(bits)) + 1, np.uint32), np.empty(n, np.uint32)
            self._arrays += [parts, starts, entries]
            addresses = (array.ctypes.data for array in (parts, starts, entries))
            table.n_bits, (table.parts, table.starts, table.entries) = len(bits), addresses
            table.mask[:] = mask.tolist()
        multi.n_tables, multi.tables = len(groups), tables
        for at in range(len(groups)):
            lib.hs_multi_fill(byref(multi), at)
        self._first = NOTHING
        multi.codes = multi.first = None
        self._tables = tables  # keeps them alive

    @property
    def nbytes(self) -> int:
        return self._next.nbytes + sum(array.nbytes for array in self._arrays)

    def topk(
        self, codes: np.ndarray, queries: np.ndarray, k: int, among: Among, budget: float, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Distances and rows (q, k), how many of these were found, and which queries were finished within the budget,
        in ns."""
        q, known = len(queries), _filter(among)
        far, where = np.empty((q, k), np.uint16), np.zeros((q, k), np.int64)
        counts, done = np.zeros(q, np.int64), np.zeros(q, np.bool_)
        problem = _kernel.problem_of(queries, codes, n_threads)
        failed = lib.hs_multi_topk(
            addressof(problem), addressof(self._multi), addressof(known), k, budget, far.ctypes.data,
            where.ctypes.data, counts.ctypes.data, done.ctypes.data,
        )  # fmt: skip
        _raise_if(failed)
        return far, where, counts, done

    def radius(
        self,
        codes: np.ndarray,
        queries: np.ndarray,
        radius: int,
        among: Among,
        budget: float,
        n_threads: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Distances and rows of all that were found, how many these are by query, and which queries were finished."""
        q, known = len(queries), _filter(among)
        found = (c_void_p * q)()
        counts, done = np.zeros(q, np.int64), np.zeros(q, np.bool_)
        problem = _kernel.problem_of(queries, codes, n_threads)
        failed = lib.hs_multi_radius(
            addressof(problem), addressof(self._multi), addressof(known), radius, budget, found,
            counts.ctypes.data, done.ctypes.data,
        )  # fmt: skip
        try:
            total = 0 if failed else int(counts.sum())
            far, where = np.empty(total, np.uint16), np.empty(total, np.int64)
        except MemoryError:
            failed = True
        out = (None, None) if failed else (far.ctypes.data, where.ctypes.data)
        lib.hs_multi_take(found, counts.ctypes.data, q, *out)
        _raise_if(failed)
        return far, where, counts, done


def _raise_if(failed: object) -> None:
    if failed:
        raise MemoryError("a multi-index ran out of memory")


def _extraction(bits: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The parts (width, 256) that bytes add to the value of a substring, and its bits as words."""
    values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.uint32)
    parts = np.zeros((width, 256), np.uint32)
    mask = np.zeros(64 * WORDS, np.uint8)
    for place, bit in enumerate(bits.tolist()):
        parts[bit // 8] |= values[:, bit % 8] << np.uint32(place)
        mask[bit] = 1
    return parts, np.packbits(mask).view(np.uint64)
