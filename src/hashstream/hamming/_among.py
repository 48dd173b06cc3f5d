"""Searches that read every code, of those that may be found among the codes of a `MultiIndex`."""

from __future__ import annotations

import numpy as np

from hashstream.hamming._engine import engine
from hashstream.hamming._types import Among

Found = tuple[np.ndarray, np.ndarray]


def scanned_topk(Q: np.ndarray, codes: np.ndarray, k: int, among: Among, n_threads: int) -> Found:
    """`topk` that reads every code."""
    mask, slots, dead, begin = among
    if slots is None or not k:
        rows = None if mask is None else np.flatnonzero(mask)
        return engine.topk(Q, codes, k, rows, n_threads)
    gone = np.empty(0, np.int64) if dead is None else dead[np.searchsorted(dead, begin) :] - begin
    parts = engine.parts([(0, codes[begin:], slots[begin:], gone)])
    return engine.topk_parts(parts, Q[None], k, n_threads, mask)


def scanned_weighted(V: np.ndarray, codes: np.ndarray, k: int, among: Among, n_threads: int) -> Found:
    """`weighted_topk` that reads every code."""
    mask, slots, dead, begin = among
    alive = None
    if mask is not None or dead is not None or begin:
        alive = np.ones(len(codes), bool)
        alive[:begin] = False
        if mask is not None:
            numbers = np.arange(len(codes)) if slots is None else slots
            within = numbers < len(mask)
            alive &= within
            alive[within] &= mask[numbers[within]] != 0
        if dead is not None:
            alive[dead] = False
    far, rows = engine.weighted(V, codes, k, None if alive is None else np.flatnonzero(alive), n_threads)
    return far, rows if slots is None else slots[rows].astype(np.int64)


def scanned_radius(
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
