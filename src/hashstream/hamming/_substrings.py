"""The substrings of a multi-index: how many, which bits each one has, and what becomes of these.

Few long substrings mean many places to look up, many short ones mean many codes to compare. What is best depends on how
far away the nearest codes are, and on how evenly the values of substrings occur; both are estimated on samples of the
codes. Bits that are correlated go to different substrings: together in one they would tell less.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

__all__ = ["CODE", "Substring", "choose_substrings"]

LONGEST, LONGEST_TAG, LONGEST_OTHERS = 24, 8, 16
"""Bits that number a place, that are kept with an entry, and that are kept where they are all others; known to
hamming_multi.h."""
MOST = 16
"""Substrings; known to hamming_multi.h."""
PLACES = 1 << 20
"""Bytes that the places of all tables may take, however few codes there are."""
NEAR_BITS, NEAR_PLACE, PLACE, TAG, CODE = 18, 12.0, 30.0, 2.0, 16.0
"""Costs in ns: of looking up a place, in a table of at most 2^NEAR_BITS places and in a larger one, of comparing the
tag of an entry, and of comparing a code; known to hamming_multi.h."""


class Substring(NamedTuple):
    """Bits of a code: the first `places` of them number a place in a table, the next `tag` are kept with each entry.
    others : all other bits of a short code, which are kept instead; or none."""

    bits: np.ndarray
    places: int
    tag: int
    others: np.ndarray


def choose_substrings(
    queries: np.ndarray,
    others: np.ndarray,
    radii: np.ndarray,
    *,
    n_entries: int,
    room: float,
    scans: list[tuple[float, float]],
) -> list[Substring]:
    """The substrings that cost least; none where scanning costs less.

    queries, others : (q, r) and (n, r) bits of some codes, the latter all different. radii : how far away the nearest
    codes of some queries are. n_entries : codes that are entered into each table. room : bytes that all tables may
    take. scans : what a query costs in ns where codes are scanned, and at what cost it is given up and scanned; of
    several kinds, of which one has to gain.
    """
    n_bits = others.shape[1]
    best: list[Substring] = []
    least = 1.0  # of the cost of a scan
    for m in range(-(-n_bits // 64), min(MOST, -(-n_bits // 10)) + 1):
        groups = spread(others, m)
        longest = most_places(n_bits, m, n_entries, room)
        for places in range(longest, max(0, longest - 5), -2):
            found = [divided(group, places, n_bits) for group in groups]
            cost = estimated(queries, others, found, n_entries)[radii]
            share = min(
                float(np.where(cost < most, cost, max(0.0, most) + scan).mean()) / scan
                for scan, most in scans
            )
            if share < least:
                best, least = found, share
    return best


def most_places(n_bits: int, m: int, n_entries: int, room: float) -> int:
    """How many bits of each of m substrings can number a place; 0 where there is no room for their tables."""
    length = -(-n_bits // m)
    for places in range(min(LONGEST, length), 0, -1):
        kept = 1 if places < length else 2 if 0 < n_bits - n_bits // m <= LONGEST_OTHERS else 0
        left = room - m * n_entries * (4 + kept)
        if left >= 0 and (m * 4) << places <= max(PLACES, left):
            return places
    return 0


def divided(group: np.ndarray, places: int, n_bits: int) -> Substring:
    """The substring of a group of bits, of which so many number a place."""
    places = min(places, len(group))
    tag = min(LONGEST_TAG, len(group) - places)
    keep = not tag and places <= 32 - LONGEST_OTHERS and n_bits - len(group) <= LONGEST_OTHERS
    others = np.setdiff1d(np.arange(n_bits), group) if keep else np.empty(0, int)
    return Substring(group, places, tag, others)


def spread(bits: np.ndarray, m: int) -> list[np.ndarray]:
    """Divide bits (n, r) into m groups of nearly equal size, the longest first, so that correlated ones are in
    different groups; those that tell most come first in each."""
    r = bits.shape[1]
    centred = bits - bits.mean(axis=0, dtype=np.float32)
    scale = np.sqrt((centred**2).sum(axis=0))
    centred /= np.where(scale > 0, scale, 1)
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
    return [np.array(sorted(group, key=lambda bit: -scale[bit])) for group in groups]


def estimated(
    queries: np.ndarray, others: np.ndarray, substrings: list[Substring], n_entries: int
) -> np.ndarray:
    """The cost in ns of a search up to each radius, on average over the queries; (r + 1,)."""
    steps = []
    for bits, places, tag, rest in substrings:
        seen, unseen = places + tag, len(bits) - places - tag
        far = distances(queries[:, bits[:places]], others[:, bits[:places]])
        tags = distances(queries[:, bits[places:seen]], others[:, bits[places:seen]])
        counts = np.bincount((far * (tag + 1) + tags).ravel(), minlength=(places + 1) * (tag + 1))
        met = counts.reshape(places + 1, tag + 1) * (n_entries / len(others) / len(queries))
        i, t = np.indices(met.shape)
        for flips in range(len(bits) + 1):
            read = (i <= flips) & (i >= flips - tag - unseen)
            compared = (i + t <= flips) & (i + t >= flips - unseen)
            looked_up = sum(
                comb(places, n) for n in range(max(0, flips - tag - unseen), min(flips, places) + 1)
            )
            place = NEAR_PLACE if places <= NEAR_BITS else PLACE
            cost = place * looked_up + (CODE * met[compared].sum() if not len(rest) else 0.0)
            cost += TAG * met[read].sum() if tag or len(rest) else 0.0
            steps.append((flips, cost))
    steps.sort(key=lambda step: step[0])
    return np.cumsum([cost for _, cost in steps])


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamming distances (n, m) of bits (n, r) and (m, r)."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    far = a.sum(axis=1)[:, None] + b.sum(axis=1)[None, :] - 2 * (a @ b.T)
    whole: np.ndarray = np.rint(far).astype(np.int64)
    return whole
