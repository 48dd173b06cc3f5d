"""`MultiIndex`: exact search that does not read every code."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hamming import _kernel
from hashstream.hamming._check import check_codes, check_k, check_mask, check_n_threads
from hashstream.hamming._engine import engine
from hashstream.hamming._multi_kernel import Tables
from hashstream.hamming._substrings import ENTRY, choose_substrings
from hashstream.hamming._types import Among, TopK, WithinRadius

MOST_BITS = 256
LEAST_CODES = 4096
"""Fewer codes are scanned: that takes some microseconds."""
LINKED = 0.85
"""Equal codes are linked where at most this share is distinct; otherwise it takes less memory to enter all of them."""

SCAN = 0.036, 0.018
"""Costs in ns per byte of a scan by one thread: of a single query, and of each one in a batch. In the units of the
costs in hamming_multi.c."""
SHARE = 0.15
"""Share of the cost of a scan that a query may cost before it is given up and scanned."""
SAMPLE = 32

Found = tuple[np.ndarray, np.ndarray]
EVERY = Among()


class MultiIndex:
    """Codes that are looked up rather than scanned: multi-index hashing.

    Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with multi-index hashing", TPAMI 2014. Answers are
    those of `hamming.topk` and `hamming.radius` to the last index. How long a search takes depends on how far away the
    nearest codes are. A query for which looking up would cost more than a share of a scan is scanned, so none takes
    much longer than with a scan.

    Parameters
    ----------
    codes : (n, width) uint8
        Packed codes, of 1 to 128 bytes; those of more than 32 bytes, and few ones, are always scanned. They are not
        copied if they are C-contiguous, and must not be changed.
    k : int, default 10
        How many neighbours are asked for, typically; decides on the number of substrings.

    Attributes
    ----------
    codes : (n, width) uint8
        May be set to the same codes in another place.
    substrings : list of (s,) int
        The bits of each substring; empty where all searches scan.
    n_distinct : int
        Codes that differ from one another; n where all searches scan.
    nbytes : int
        Memory beside the codes.

    >>> from hashstream import hamming
    >>> codes = np.random.default_rng(0).integers(0, 256, (10_000, 4), np.uint8)
    >>> index = MultiIndex(codes)
    >>> found, wanted = index.topk(codes[:2], 3), hamming.topk(codes[:2], codes, 3)
    >>> np.array_equal(found.indices, wanted.indices) and np.array_equal(found.distances, wanted.distances)
    True
    """

    def __init__(self, codes: ArrayLike, *, k: int = 10) -> None:
        self._codes = check_codes(codes, "codes")
        n, width = self.codes.shape
        self.n_distinct = n
        self.substrings: list[np.ndarray] = []
        self._tables: Tables | None = None
        if not _kernel.available() or 8 * width > MOST_BITS or not LEAST_CODES <= n < 1 << 32:
            return
        tables = Tables(self.codes)
        self.n_distinct = tables.distinct
        radius = _typical_radius(self.codes, check_k(k))
        self.substrings = choose_substrings(self.codes, _used_bits(self.codes), radius, tables.distinct)
        if self.substrings:
            tables.fill(self.codes, self.substrings, linked=tables.distinct <= LINKED * n)
            self._tables = tables

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def codes(self) -> np.ndarray:
        return self._codes

    @codes.setter
    def codes(self, codes: np.ndarray) -> None:
        if codes.dtype != np.uint8 or codes.shape != self._codes.shape or not codes.flags.c_contiguous:
            raise ValueError(
                f"codes must stay C-contiguous uint8 of shape {self._codes.shape}, got {codes.dtype} {codes.shape}"
            )
        self._codes = codes

    @property
    def nbytes(self) -> int:
        return 0 if self._tables is None else self._tables.nbytes

    def topk(self, queries: ArrayLike, k: int, *, among: Among = EVERY, n_threads: int | None = None) -> TopK:
        """The k codes nearest to each query; as `hamming.topk`."""
        codes, threads, k = self.codes, check_n_threads(n_threads), check_k(k)
        Q = self._queries(queries)
        self._check(among)
        k = min(k, self._alive(among))
        most = budget(codes, len(Q), threads)
        if self._tables is None or not len(Q) or not k or k * ENTRY > most:
            return TopK(*_scanned(Q, codes, k, among, threads))
        far, rows, counts, done = self._tables.topk(codes, Q, k, among, most, threads)
        where = rows if among.slots is None else among.slots[rows].astype(np.int64)
        left = np.flatnonzero(~done | (counts < k))
        if len(left):
            others = _scanned(Q[left], codes, k, among, threads)
            if others[0].shape[1] < k:  # fewer are marked, so no query has found k
                return TopK(*others)
            far[left], where[left] = others
        return TopK(far, where)

    def radius(
        self, queries: ArrayLike, radius: int, *, among: Among = EVERY, n_threads: int | None = None
    ) -> WithinRadius:
        """All codes at most `radius` away from each query; as `hamming.radius`."""
        codes, threads = self.codes, check_n_threads(n_threads)
        Q = self._queries(queries)
        self._check(among)
        if radius < 0:
            raise ValueError(f"radius must be at least 0, got {radius}")
        within = min(int(radius), 8 * codes.shape[1])
        if self._tables is None or not len(Q):
            return WithinRadius(*_scanned_radius(Q, codes, within, among, threads))
        most = budget(codes, len(Q), threads)
        far, rows, counts, done = self._tables.radius(codes, Q, within, among, most, threads)
        where = rows if among.slots is None else among.slots[rows].astype(np.int64)
        offsets = np.zeros(len(Q) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if done.all():
            return WithinRadius(offsets, far, where)
        left = np.flatnonzero(~done)
        others = _scanned_radius(Q[left], codes, within, among, threads)
        return _joined(left, others, done, (offsets, far, where))

    def _queries(self, queries: ArrayLike) -> np.ndarray:
        Q = check_codes(queries, "queries")
        if Q.shape[1] != self.codes.shape[1]:
            raise ValueError(f"queries have {Q.shape[1]} bytes per row but codes have {self.codes.shape[1]}")
        return Q

    def _check(self, among: Among) -> None:
        mask, slots, dead, begin = among
        n = len(self)
        if mask is not None and len(check_mask(mask)) != n and slots is None:
            raise ValueError(f"a mask needs one entry per code: got {len(mask)} for {n} codes")
        if slots is None:
            if dead is not None or begin:
                raise ValueError("dead and begin need slots")
        elif slots.dtype != np.uint32 or slots.shape != (n,) or not slots.flags.c_contiguous:
            raise ValueError(f"slots must be uint32 of shape ({n},), got {slots.dtype} {slots.shape}")
        if dead is not None:
            if dead.dtype != np.int64 or dead.ndim != 1 or not dead.flags.c_contiguous:
                raise ValueError(f"dead must be 1-D int64, got {dead.dtype} {dead.shape}")
            if len(dead) and (dead[0] < 0 or dead[-1] >= n or (dead[1:] <= dead[:-1]).any()):
                raise ValueError(f"dead must be ascending rows from 0 to {n - 1}, each once")
        if not 0 <= begin <= n:
            raise ValueError(f"begin must be 0 to {n}, got {begin}")

    def _alive(self, among: Among) -> int:
        """Codes that may be found, apart from the mask; with it, where no slots are given."""
        if among.slots is None:
            return len(self) if among.mask is None else int(np.count_nonzero(among.mask))
        dead = among.dead
        gone = 0 if dead is None else len(dead) - int(np.searchsorted(dead, among.begin))
        return len(self) - among.begin - gone


def budget(codes: np.ndarray, q: int, n_threads: int) -> float:
    """Nanoseconds, in the units of the kernel, that looking up one of q queries may cost before it is scanned."""
    alone = q < 4
    threads = n_threads if alone else 1  # a single query is scanned by all threads, and looked up by one
    return SHARE * SCAN[0 if alone else 1] * codes.size / threads


def _used_bits(codes: np.ndarray) -> int:
    """The number of bits without those at the end that are zero in all codes, as padding is."""
    last = int(np.bitwise_or.reduce(codes[:, -1]))
    padding = (last & -last).bit_length() - 1 if last else 8
    return max(1, 8 * int(codes.shape[1]) - padding)


def _typical_radius(codes: np.ndarray, k: int) -> float:
    """How far away the k-th other code is, at the median of a sample."""
    rows = np.random.default_rng(0).choice(len(codes), SAMPLE, replace=False)
    most = min(k + 1, len(codes))
    return float(np.median(engine.topk(codes[rows], codes, most, None, 1)[0][:, -1]))


def _scanned(Q: np.ndarray, codes: np.ndarray, k: int, among: Among, n_threads: int) -> Found:
    """`topk` that reads every code."""
    mask, slots, dead, begin = among
    if slots is None or not k:
        rows = None if mask is None else np.flatnonzero(mask)
        return engine.topk(Q, codes, k, rows, n_threads)
    gone = np.empty(0, np.int64) if dead is None else dead[np.searchsorted(dead, begin) :] - begin
    parts = engine.parts([(0, codes[begin:], slots[begin:], gone)])
    return engine.topk_parts(parts, Q[None], k, n_threads, mask)


def _scanned_radius(
    Q: np.ndarray, codes: np.ndarray, radius: int, among: Among, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`radius` that reads every code."""
    mask, slots, dead, begin = among
    if slots is None:
        rows = None if mask is None else np.flatnonzero(mask)
        return engine.radius(Q, codes, radius, rows, n_threads)
    offsets, far, rows = engine.radius(Q, codes[begin:], radius, None, n_threads)
    found = slots[begin:][rows].astype(np.int64)
    keep = np.ones(len(rows), bool) if dead is None else ~np.isin(rows + begin, dead)
    if mask is not None:
        keep &= found < len(mask)
        keep[keep] = mask[found[keep]] != 0
    counted = np.concatenate([[0], np.cumsum(keep)])
    return counted[offsets], far[keep], found[keep]


def _joined(
    left: np.ndarray,
    scanned: tuple[np.ndarray, np.ndarray, np.ndarray],
    done: np.ndarray,
    looked_up: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> WithinRadius:
    """The results of queries that were scanned (numbers `left`) and of those that were looked up, in their order."""
    counts = np.diff(looked_up[0])
    counts[left] = np.diff(scanned[0])
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    owners = np.repeat(done, counts)
    far, where = np.empty(offsets[-1], np.uint16), np.empty(offsets[-1], np.int64)
    for mine, (_, distances, rows) in ((owners, looked_up), (~owners, scanned)):
        far[mine], where[mine] = distances, rows
    return WithinRadius(offsets, far, where)
