"""The substrings of a multi-index: how many, and which bits each one has.

Few long substrings mean many values to look up, many short ones mean many codes to compare. What is best depends on how
far away the nearest codes are, and on how evenly the values of substrings occur; both are estimated on samples of the
codes. Bits that are correlated go to different substrings: together in one they would tell less.
"""

from __future__ import annotations

from math import comb

import numpy as np

__all__ = ["choose_substrings"]

LONGEST = 24
"""Bits of a substring: its table has 2^24 places then."""
MOST = 16
"""Substrings."""
PLACES, PLACES_PER_CODE = 1 << 20, 8
"""Bytes of all tables' places: so many, or so many per distinct code where that is more."""
PROBE, ENTRY = 10.0, 10.0
"""Costs in ns of looking up a value, and of comparing a code; known to hamming_multi.c."""

QUERIES, SAMPLE = 64, 16_384


def choose_substrings(
    codes: np.ndarray, n_bits: int, radius: float, distinct: int, *, seed: int = 0
) -> list[np.ndarray]:
    """The bits of each substring; nothing where the codes are too few for their length.

    codes : (n, width), some of them at least. radius : how far away the nearest codes are, typically. distinct : their
    number.
    """
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(codes), min(len(codes), SAMPLE + QUERIES), replace=False)
    bits = np.unpackbits(codes[rows], axis=1)[:, :n_bits]
    best: list[np.ndarray] = []
    least = np.inf
    fewest, most = -(-n_bits // LONGEST), min(MOST, n_bits)
    while fewest <= most and place_bytes(n_bits, fewest) > max(PLACES, PLACES_PER_CODE * distinct):
        fewest += 1
    usual = min(most, round(n_bits / max(4.0, np.log2(max(2, distinct)))))
    for m in range(max(fewest, usual - 1), min(most, max(fewest, usual + 1)) + 1):
        groups = spread(bits, m)
        cost = estimated(bits, groups, radius, distinct)
        if cost < least:
            best, least = groups, cost
    return best


def place_bytes(n_bits: int, m: int) -> int:
    """The memory of the places of m tables: 4 bytes for each value of a substring."""
    longer = n_bits % m
    return ((2 * longer + m - longer) << (n_bits // m)) * 4


def spread(bits: np.ndarray, m: int) -> list[np.ndarray]:
    """Divide bits (n, r) into m groups of nearly equal size, so that correlated ones are in different groups."""
    r = bits.shape[1]
    centred = bits - bits.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=0))
    centred /= np.where(scale > 0, scale, 1.0)
    alike = np.abs(centred.T @ centred)
    np.fill_diagonal(alike, 0.0)
    room = [len(part) for part in np.array_split(np.arange(r), m)]
    groups: list[list[int]] = [[] for _ in range(m)]
    shared = np.zeros((m, r))  # how much each bit is like those of a group
    for bit in np.argsort(-alike.sum(axis=0), kind="stable").tolist():
        open_ones = [at for at in range(m) if len(groups[at]) < room[at]]
        at = min(open_ones, key=lambda group: (shared[group, bit], len(groups[group])))
        groups[at].append(bit)
        shared[at] += alike[bit]
    return [np.array(sorted(group)) for group in groups]


def estimated(bits: np.ndarray, groups: list[np.ndarray], radius: float, distinct: int) -> float:
    """The time in ns that a search up to a radius takes, typically: of the first rows as queries among the others."""
    queries, others = bits[:QUERIES].astype(np.float32), bits[QUERIES:].astype(np.float32)
    if not len(others):
        return 0.0
    share = distinct / len(others)
    total = 0.0
    for at, group in enumerate(groups):
        a, b = queries[:, group], others[:, group]
        far = a.sum(axis=1)[:, None] + b.sum(axis=1)[None, :] - 2 * (a @ b.T)
        met = np.bincount(np.rint(far).astype(np.int64).ravel(), minlength=len(group) + 1) / len(queries)
        for flips in range(len(group) + 1):
            if flips * len(groups) + at > radius:
                break
            total += PROBE * comb(len(group), flips) + ENTRY * share * float(met[flips])
    return total
