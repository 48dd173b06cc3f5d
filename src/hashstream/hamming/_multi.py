"""`MultiIndex`: exact search that does not read every code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hamming import _kernel
from hashstream.hamming._among import Found as Scanned
from hashstream.hamming._among import scanned_radius, scanned_topk, scanned_weighted
from hashstream.hamming._check import check_codes, check_k, check_mask, check_n_threads, check_values
from hashstream.hamming._engine import engine
from hashstream.hamming._multi_kernel import EVERY, GIVEN_UP, LAST, Asked, Budget, Place, Tables
from hashstream.hamming._substrings import CODE, Substring, choose_substrings
from hashstream.hamming._types import Among, TopK, WithinRadius

MOST_BITS = 256
LEAST_CODES = 4096
"""Fewer codes are scanned: that takes some microseconds."""
LINKED = 0.85
"""Equal codes are linked where at most this share is distinct; otherwise it takes less memory to enter all of them."""

SCAN = 0.06, 0.022
"""Costs in ns per byte of a scan by one thread: of a single query, and of each one in a batch. In the units of the
costs in hamming_multi.h."""
WEIGHTED = 0.07, 0.05
"""The same for real-valued queries."""
FEW, CALL = 4, 10e3
"""Fewer queries than this count as single ones, and what it costs to call the kernel for them, in ns."""
CACHED, IN_CACHE = 16 << 20, 0.55
"""Codes of so many bytes are in the cache, and scanned in that share of the time."""
GATHERED = 3.0
"""The cost of scanning a code that is picked out by a mask, in the cost of one among all."""
SHARE = 0.15
"""Share of the cost of a scan that a query may cost before it is given up and scanned, unless its next step is surely
the last: then all of it."""
MOST_NEIGHBOURS = 1000
"""By more, substrings are not chosen."""
SAMPLE, OTHERS = 64, 4096
"""Queries, and codes that these are compared with, by which substrings are chosen."""
ROOM, ROOM_PER_BYTE = 18, 2.25
"""Bytes per item that the tables may take: so many, or so many per byte of a code where that is more. 1 MB in all
however few items there are."""

ALL = slice(None)


class MultiIndex:
    """Codes that are looked up rather than scanned: multi-index hashing.

    Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with multi-index hashing", TPAMI 2014. Answers are
    those of `hamming.topk`, `radius` and `weighted_topk` to the last index. How long a search takes depends on how far
    away the nearest codes are. A query for which looking up would cost more than a share of a scan is scanned, so none
    takes much longer than with a scan.

    Parameters
    ----------
    codes : (n, width) uint8
        Packed codes, of 1 to 128 bytes; those of more than 32 bytes, and fewer than 4,096, are always scanned. They are
        not copied if they are C-contiguous, and must not be changed.
    k : int, default 10
        How many neighbours are asked for, typically; decides on the number of substrings.

    Attributes
    ----------
    codes : (n, width) uint8
        May be set to the same codes in another place.
    substrings : list of (s,) int
        The bits of each substring; empty where all searches scan.
    n_distinct : int
        Codes that differ from one another; n where these were not counted, as all searches scan.
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
        self._place, k = Place(check_codes(codes, "codes")), check_k(k)
        n, width = self.codes.shape
        self.n_distinct = n
        self.substrings: list[np.ndarray] = []
        self._tables: Tables | None = None
        self._dead: np.ndarray | None = None
        if not _kernel.available() or 8 * width > MOST_BITS or not LEAST_CODES <= n < LAST:
            return
        tables = Tables(self.codes)
        self.n_distinct = tables.distinct
        linked = tables.distinct <= LINKED * n
        found = _substrings_of(self.codes, tables, min(k, MOST_NEIGHBOURS), linked)
        if found:
            self.substrings = [one.bits for one in found]
            tables.fill(self.codes, found, linked=linked)
            self._tables = tables

    def __len__(self) -> int:
        return len(self._place.codes)

    @property
    def codes(self) -> np.ndarray:
        return self._place.codes

    @codes.setter
    def codes(self, codes: np.ndarray) -> None:
        codes, shape = np.asarray(codes), self._place.codes.shape
        if codes.dtype != np.uint8 or codes.shape != shape or not codes.flags.c_contiguous:
            raise ValueError(
                f"codes must stay C-contiguous uint8 of shape {shape}, got {codes.dtype} {codes.shape}"
            )
        self._place = Place(codes)

    @property
    def nbytes(self) -> int:
        return 0 if self._tables is None else self._tables.nbytes

    def topk(self, queries: ArrayLike, k: int, *, among: Among = EVERY, n_threads: int | None = None) -> TopK:
        """The k codes nearest to each query; as `hamming.topk`."""
        place, threads, Q = self._place, check_n_threads(n_threads), self._queries(queries)
        alive = self._alive(among)
        k = min(check_k(k), alive)

        def scan(left: slice | np.ndarray) -> Scanned:
            return scanned_topk(Q[left], place.codes, k, among, threads)

        if self._tables is None or not len(Q) or not k:
            return TopK(*scan(ALL))
        most = budget(place.codes, len(Q), threads, SCAN, self._share(among, alive))
        if k * CODE > most.steps:
            return TopK(*scan(ALL))
        return _completed(self._tables.topk(Asked(place, Q, among, threads), k, most), among, scan)

    def weighted_topk(
        self, values: ArrayLike, k: int, *, among: Among = EVERY, n_threads: int | None = None
    ) -> TopK:
        """The k codes that agree best with real values; as `hamming.weighted_topk`."""
        place, threads = self._place, check_n_threads(n_threads)
        V = check_values(values, place.codes.shape[1])
        alive = self._alive(among)
        k = min(check_k(k), alive)

        def scan(left: slice | np.ndarray) -> Scanned:
            return scanned_weighted(V[left], place.codes, k, among, threads)

        if self._tables is None or not len(V) or not k:
            return TopK(*scan(ALL))
        most = budget(place.codes, len(V), threads, WEIGHTED, self._share(among, alive)).steps
        if k * CODE > most:
            return TopK(*scan(ALL))
        return _completed(self._tables.weighted(Asked(place, V, among, threads), k, most), among, scan)

    def radius(
        self, queries: ArrayLike, radius: int, *, among: Among = EVERY, n_threads: int | None = None
    ) -> WithinRadius:
        """All codes at most `radius` away from each query; as `hamming.radius`."""
        place, threads, Q = self._place, check_n_threads(n_threads), self._queries(queries)
        alive = self._alive(among)
        if radius < 0:
            raise ValueError(f"radius must be at least 0, got {radius}")
        within = min(int(radius), 8 * place.codes.shape[1])
        if self._tables is None or not len(Q):
            return WithinRadius(*scanned_radius(Q, place.codes, within, among, threads))
        most = budget(place.codes, len(Q), threads, SCAN, self._share(among, alive))
        if most.steps < 0:
            return WithinRadius(*scanned_radius(Q, place.codes, within, among, threads))
        far, rows, counts = self._tables.radius(Asked(place, Q, among, threads), within, most)
        where = rows if among.slots is None else among.slots[rows].astype(np.int64)
        offsets = np.zeros(len(Q) + 1, np.int64)
        if min(counts.tolist()) != GIVEN_UP:
            np.cumsum(counts, out=offsets[1:])
            return WithinRadius(offsets, far, where)
        done = counts != GIVEN_UP
        np.cumsum(np.where(done, counts, 0), out=offsets[1:])
        left = np.flatnonzero(~done)
        others = scanned_radius(Q[left], place.codes, within, among, threads)
        return _joined(left, others, done, (offsets, far, where))

    def _queries(self, queries: ArrayLike) -> np.ndarray:
        Q = check_codes(queries, "queries")
        if Q.shape[1] != self.codes.shape[1]:
            raise ValueError(f"queries have {Q.shape[1]} bytes per row but codes have {self.codes.shape[1]}")
        return Q

    def _alive(self, among: Among) -> int:
        """Codes that may be found, apart from the mask; with it, where no slots are given."""
        if among is EVERY:
            return len(self)
        _check_among(among, len(self), self._dead)
        self._dead = among.dead  # a table asks with the same ones again and again
        if among.slots is None:
            return len(self) if among.mask is None else int(np.count_nonzero(among.mask))
        dead = among.dead
        gone = 0 if dead is None else len(dead) - int(np.searchsorted(dead, among.begin))
        return len(self) - among.begin - gone

    def _share(self, among: Among, alive: int) -> float:
        """How much of a scan of all codes a scan costs: only marked ones are read, where a row is its own slot."""
        if among.mask is None or among.slots is not None:
            return 1.0
        return min(1.0, GATHERED * alive / max(1, len(self)))


def _check_among(among: Among, n: int, known: np.ndarray | None) -> None:
    """Refuse what does not fit n codes. known : dead rows that were checked before."""
    mask, slots, dead, begin = among
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
        wrong = len(dead) and (dead[0] < 0 or dead[-1] >= n)
        if wrong or (dead is not known and (dead[1:] <= dead[:-1]).any()):
            raise ValueError(f"dead must be ascending rows from 0 to {n - 1}, each once")
    if not 0 <= begin <= n:
        raise ValueError(f"begin must be 0 to {n}, got {begin}")


def scan_cost(codes: np.ndarray, q: int, n_threads: int, scan: tuple[float, float] = SCAN) -> float:
    """Nanoseconds, in the units of the kernel, that scanning for one of q queries takes."""
    # A single query is scanned by all threads. Two count as one, or queries that are looked up well would be given up.
    per_byte = scan[1] if q >= FEW else scan[0] / max(1.0, n_threads / 2)
    return per_byte * codes.size * (IN_CACHE if codes.size <= CACHED else 1.0)


def budget(
    codes: np.ndarray, q: int, n_threads: int, scan: tuple[float, float] = SCAN, share: float = 1.0
) -> Budget:
    """The cost at which one of q queries is scanned instead, which reads a share of the codes; negative where it is not
    worthwhile to begin."""
    whole = share * scan_cost(codes, q, n_threads, scan)
    steps = SHARE * whole - (0 if q >= FEW else CALL)
    return Budget(steps, whole - steps)


def _different(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of at most OTHERS codes that differ from one another, drawn at random."""
    rows = rng.choice(len(codes), min(len(codes), 2 * OTHERS), replace=False)
    whole = codes[rows].view(np.dtype((np.void, codes.shape[1])))[:, 0]
    first = np.sort(np.unique(whole, return_index=True)[1])
    return rows[first[:OTHERS]]


def _used_bits(codes: np.ndarray) -> int:
    """The number of bits without those at the end that are zero in all codes, as padding is."""
    last = int(np.bitwise_or.reduce(codes[:, -1]))
    padding = (last & -last).bit_length() - 1 if last else 8
    return max(1, 8 * int(codes.shape[1]) - padding)


def _substrings_of(codes: np.ndarray, tables: Tables, k: int, linked: bool) -> list[Substring]:
    """The substrings that cost least for k neighbours, on samples of the codes."""
    n, width = codes.shape
    n_bits, rng = _used_bits(codes), np.random.default_rng(0)
    asked = rng.choice(n, min(n, SAMPLE), replace=False)
    other = _different(codes, rng)
    radii = engine.topk(codes[asked], codes, min(k + 1, n), None, 1)[0][:, -1]
    held = 4 * n if linked else 0
    room = max(ROOM, ROOM_PER_BYTE * width)
    queries, others = (np.unpackbits(codes[rows], axis=1)[:, :n_bits] for rows in (asked, other))
    return choose_substrings(
        queries,
        others,
        np.minimum(radii, n_bits),
        n_entries=tables.distinct if linked else n,
        room=room * n - held,
        scans=[(scan_cost(codes, q, 1), budget(codes, q, 1).steps) for q in (1, FEW)],
    )


def _completed(
    found: tuple[np.ndarray, np.ndarray, np.ndarray],
    among: Among,
    scan: Callable[[slice | np.ndarray], Scanned],
) -> TopK:
    """The results of looking up, with the queries that were given up, or have found too few, scanned."""
    far, rows, counts = found
    k = far.shape[1]
    where = rows if among.slots is None else among.slots[rows].astype(np.int64)
    if min(counts.tolist()) < k:
        if len(far) == 1:
            return TopK(*scan(ALL))
        left = np.flatnonzero(counts < k)
        others = scan(left)
        if others[0].shape[1] < k:  # fewer are marked, so no query has found k
            return TopK(*others)
        far[left], where[left] = others
    return TopK(far, where)


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
