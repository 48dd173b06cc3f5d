"""The multi-index in C (hamming_multi*.c), called through ctypes, which releases the GIL. Arguments are checked."""

from __future__ import annotations

import secrets
from ctypes import POINTER, Structure, addressof, byref, c_char, c_double, c_int, c_int64, c_uint64, c_void_p
from typing import Any, NamedTuple, cast

import numpy as np

from hashstream.hamming import _kernel
from hashstream.hamming._substrings import LONGEST_OTHERS, LONGEST_TAG, Substring
from hashstream.hamming._types import Among

lib: Any = _kernel.lib
WORDS, LAST = 4, 1 << 31  # known to hamming_multi.h
NOTHING = np.empty(0, np.uint32)
GIVEN_UP = -1  # known to hamming_multi.h

Found = tuple[np.ndarray, np.ndarray, np.ndarray]


class _Table(Structure):
    """`table` of hamming_multi.h, field by field."""

    _fields_ = (
        *((name, c_int64) for name in ("length", "n_bits", "n_tag_bits", "shift")),
        *((name, c_void_p) for name in ("bits", "parts", "starts", "entries", "tags", "others")),
        ("mask", c_uint64 * WORDS),
    )


class _Multi(Structure):
    """`multi` of hamming_multi.h, field by field."""

    _fields_ = (
        *((name, c_void_p) for name in ("codes", "members")),
        *((name, c_int64) for name in ("n_codes", "n_entries", "width", "n_tables")),
        ("tables", POINTER(_Table)),
    )


if lib is not None:
    for name, result, *arguments in (
        ("multi_group", c_int64, c_void_p, c_uint64),
        ("multi_fill", c_int, c_void_p, c_int64),
        ("multi_topk", c_int, *[c_void_p] * 2, c_int64, *[c_double] * 2, *[c_void_p] * 3),
        ("multi_radius", c_int, *[c_void_p] * 2, c_int64, *[c_double] * 2, *[c_void_p] * 2),
        ("multi_weighted", c_int, *[c_void_p] * 2, *[c_int64] * 2, c_double, *[c_void_p] * 3),
        ("multi_take", None, *[c_void_p] * 2, c_int64, *[c_void_p] * 2),
    ):
        function = getattr(lib, f"hs_{name}")
        function.restype, function.argtypes = result, arguments


class _Filter(Structure):
    """`filter` of hamming_multi.h, field by field."""

    _fields_ = (
        *((name, c_void_p) for name in ("marks", "slots", "dead")),
        *((name, c_int64) for name in ("n_marks", "n_dead", "begin")),
    )


class _Asked(Structure):
    """`asked` of hamming_multi.h, field by field."""

    _fields_ = (
        *((name, c_void_p) for name in ("filter", "codes", "queries")),
        *((name, c_int64) for name in ("n_queries", "n_threads", "portable")),
    )


def address(array: np.ndarray) -> int:
    """Where a writable array that is not empty begins: `array.ctypes.data` in a third of its time, which counts where
    a query takes microseconds."""
    return addressof(c_char.from_buffer(cast(Any, array)))


class Place:
    """Codes (n, width), C-contiguous, and their address: to ask for it takes longer than to look a code up."""

    def __init__(self, codes: np.ndarray) -> None:
        self.codes, self.address = codes, codes.ctypes.data


class Asked:
    """Queries, or their real values, for codes, of which some may be found: all that must outlive a call."""

    def __init__(self, place: Place, queries: np.ndarray, among: Among, n_threads: int) -> None:
        self.queries, self.place, self.among = queries, place, among
        self._filter = NO_FILTER if among is EVERY else _filter(among)
        self._asked = _Asked(
            NO_FILTER_AT if among is EVERY else addressof(self._filter),
            place.address,
            address(queries) if queries.flags.writeable else queries.ctypes.data,
            len(queries),
            n_threads,
            _kernel.portable,
        )
        self.address = addressof(self._asked)


class Budget(NamedTuple):
    """Nanoseconds, in the units of the kernel, that the steps of a query may cost before it is given up; and, in
    addition, a step after which it is surely finished."""

    steps: float
    last: float


def _filter(among: Among) -> _Filter:
    """Addresses only: the arrays must outlive the result."""
    mask, slots, dead = (
        (None, 0) if one is None else (one.ctypes.data, len(one))
        for one in (among.mask, among.slots, among.dead)
    )
    return _Filter(mask[0], slots[0], dead[0], mask[1], dead[1], among.begin)


EVERY = Among()
NO_FILTER = _filter(EVERY)
NO_FILTER_AT = addressof(NO_FILTER)


class Tables:
    """The tables of all substrings, and which rows have equal codes.

    codes : (n, width). They are not kept: each search is given them again, wherever they lie by then.
    distinct : how many of them differ from one another.
    """

    def __init__(self, codes: np.ndarray) -> None:
        n, width = codes.shape
        self._members = np.empty(n, np.uint32)
        self._arrays: list[np.ndarray] = []
        self._multi = _Multi(codes.ctypes.data, self._members.ctypes.data, n, n, width, 0)
        self.distinct = int(lib.hs_multi_group(byref(self._multi), secrets.randbits(64)))
        _raise_if(self.distinct < 0)

    def fill(self, codes: np.ndarray, substrings: list[Substring], *, linked: bool) -> None:
        """Enter the codes into a table for each substring. linked : whether equal ones are entered once."""
        multi, width = self._multi, codes.shape[1]
        if not linked:
            self._members, multi.members = NOTHING, None
        n = multi.n_entries = self.distinct if linked else len(codes)
        tables = (_Table * len(substrings))()
        for table, substring in zip(tables, substrings, strict=True):
            bits, places, tag, others = substring
            parts, mask = _extraction(substring, width)
            arrays = {
                "bits": bits.astype(np.int32),
                "parts": parts,
                "starts": np.zeros((1 << places) + 1, np.uint32),
                "entries": np.empty(n, np.uint32),
                "tags": np.empty(n if tag else 0, np.uint8),
                "others": np.empty(n if len(others) else 0, np.uint16),
            }
            for name, array in arrays.items():
                setattr(table, name, array.ctypes.data if array.size else None)
            self._arrays += arrays.values()
            table.length, table.n_bits, table.n_tag_bits = len(bits), places, tag
            table.shift = _shift(substring)
            table.mask[:] = mask.tolist()
        multi.n_tables, multi.tables = len(substrings), tables
        for at in range(len(substrings)):
            _raise_if(lib.hs_multi_fill(byref(multi), at))
        multi.codes = None
        self._tables = tables  # keeps them alive
        self._address = addressof(multi)

    @property
    def nbytes(self) -> int:
        return self._members.nbytes + sum(array.nbytes for array in self._arrays)

    def topk(self, asked: Asked, k: int, budget: Budget) -> Found:
        """Distances and rows (q, k), and how many of these were found, or GIVEN_UP where the budget did not suffice."""
        q = len(asked.queries)
        far, where, counts = np.empty((q, k), np.uint16), np.zeros((q, k), np.int64), np.empty(q, np.int64)
        out = address(far), address(where), address(counts)
        _raise_if(lib.hs_multi_topk(self._address, asked.address, k, *budget, *out))
        return far, where, counts

    def weighted(self, asked: Asked, k: int, budget: float) -> Found:
        """As `topk`, for C-contiguous float64 values (q, r): costs float64 instead of distances. No step is known to be
        the last."""
        q, r = asked.queries.shape
        far, where, counts = np.empty((q, k)), np.zeros((q, k), np.int64), np.empty(q, np.int64)
        out = address(far), address(where), address(counts)
        _raise_if(lib.hs_multi_weighted(self._address, asked.address, r, k, budget, *out))
        return far, where, counts

    def radius(self, asked: Asked, radius: int, budget: Budget) -> Found:
        """Distances and rows of all that were found, and how many these are by query, or GIVEN_UP."""
        q = len(asked.queries)
        found, counts = (c_void_p * q)(), np.empty(q, np.int64)
        known = address(counts)
        failed = lib.hs_multi_radius(self._address, asked.address, radius, *budget, found, known)
        try:
            total = 0 if failed else sum(count for count in counts.tolist() if count > 0)
            far, where = np.empty(total, np.uint16), np.empty(total, np.int64)
        except MemoryError:
            failed = True
        out = (None, None) if failed else (far.ctypes.data, where.ctypes.data)
        lib.hs_multi_take(found, known, q, *out)
        _raise_if(failed)
        return far, where, counts


def _raise_if(failed: object) -> None:
    if failed:
        raise MemoryError("a multi-index ran out of memory")


def _shift(substring: Substring) -> int:
    """The bits of a value that are below those that are kept with an entry."""
    return 32 - (LONGEST_OTHERS if len(substring.others) else LONGEST_TAG)


def _extraction(substring: Substring, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The bits that each value of each byte adds to the value of a substring, (width, 256); and its bits as words."""
    bits, places, tag, others = substring
    values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.uint32)
    parts = np.zeros((width, 256), np.uint32)
    mask = np.zeros(64 * WORDS, np.uint8)
    mask[bits] = 1
    kept = np.concatenate([bits[places : places + tag], others])
    for first, some in ((0, bits[:places]), (_shift(substring), kept)):
        for at, bit in enumerate(some.tolist()):
            parts[bit // 8] |= values[:, bit % 8] << np.uint32(first + at)
    return parts, np.packbits(mask).view(np.uint64)
