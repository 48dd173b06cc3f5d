"""What a table says about itself, with signs of drift. What cannot be said yet is None, with the reason beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hashstream import hamming
from hashstream.hashers import OnlineHasher
from hashstream.table.codes import View, locate
from hashstream.table.reservoir import Reservoir

__all__ = ["Drift", "TableStats", "measure_drift", "stored_map_of"]

LEAST_ITEMS = 20  # of the reservoir, below which nothing is said
LEAST_OF_CLASS = 5
MOST_QUERIES = 200
NOT_THERE = 1 << 20  # more than any distance


@dataclass(frozen=True)
class Drift:
    """How far the functions and the data have moved, on the items of the table's reservoir.

    bit_flips : share of stored bits that the functions of now would set otherwise.
    centre_shift : how far the class centres of the newer half of the items lie from those of the older half, in units
        of the typical distance of an item from its centre; the root of the mean square over classes, less what chance
        alone gives: about 0 where nothing moves.
    mean_average_precision : of the table's own answers: labelled items as queries, ranked against the others by stored
        codes, exactly as `search` compares them.
    fresh_mean_average_precision : the same after a refresh.
    reasons : name -> why it is None.
    """

    bit_flips: float | None
    centre_shift: float | None
    mean_average_precision: float | None
    fresh_mean_average_precision: float | None
    n_items: int
    n_labelled: int
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableStats:
    """A table in figures.

    versions : version -> items whose code it made, oldest first. newest_version : of the functions of now.
    updates_behind : by how many updates the mean code is behind; most_updates_behind : the oldest.
    stale : share of items whose code is not of the newest version.
    memory_bytes : ids, codes and index. feature_bytes : stored features. disk_bytes : all files.
    map_history : (rows learned from, `drift.mean_average_precision`) as it was at checkpoints, oldest first, and is
        now; kept with the table, at most 200. Empty where there was too little data each time.
    """

    n_items: int
    n_slots: int
    n_bits: int | None
    versions: dict[int, int]
    newest_version: int | None
    updates_behind: float
    most_updates_behind: int
    stale: float
    n_seen: int
    commits: int
    memory_bytes: int
    feature_bytes: int
    disk_bytes: int
    drift: Drift
    map_history: tuple[tuple[int, float], ...]
    background_error: str | None = None


def measure_drift(view: View, reservoir: Reservoir) -> Drift:
    """The signs, from the items of the reservoir that are alive in the view."""
    slots, X, _ = reservoir.sample()
    labelled_slots, labelled_X, labels = reservoir.labelled()
    reasons: dict[str, str] = {}
    n, n_labelled = len(slots), len(labelled_slots)
    flips = shift = stored = fresh = None
    if view.newest < 0 or not len(view):
        reasons["bit_flips"] = "too little data: the table is empty"
    elif n < LEAST_ITEMS:
        reasons["bit_flips"] = f"too little data: {n} items in the reservoir, {LEAST_ITEMS} are needed"
    else:
        flips = bit_flips(view, slots, X)
    if n_labelled < LEAST_ITEMS:
        why = f"too little data: {n_labelled} labelled items in the reservoir, {LEAST_ITEMS} are needed"
        reasons.update(
            dict.fromkeys(("centre_shift", "mean_average_precision", "fresh_mean_average_precision"), why)
        )
    else:
        shift = centre_shift(labelled_slots, labelled_X, labels)
        if shift is None:
            reasons["centre_shift"] = (
                f"too little data: no class has {LEAST_OF_CLASS} items in the older and in the newer half"
            )
        stored = stored_map(view, labelled_slots, labelled_X, labels)
        fresh = (
            fresh_map(view.encoders[view.newest], labelled_slots, labelled_X, labels)
            if view.newest >= 0
            else None
        )
        for name, value in (("mean_average_precision", stored), ("fresh_mean_average_precision", fresh)):
            if value is None:
                reasons[name] = "too little data: no two items share a label"
    return Drift(flips, shift, stored, fresh, n, n_labelled, reasons)


def bit_flips(view: View, slots: np.ndarray, X: np.ndarray) -> float:
    newest = view.encoders[view.newest]
    codes = newest.transform(X)
    different = total = 0
    for part, at, rows in locate(view.parts, slots):
        different += int(np.bitwise_count(part.codes[rows] ^ codes[at]).sum())
        total += len(rows) * newest.n_bits_
    return different / total if total else 0.0


def centre_shift(slots: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float | None:
    """Of classes with enough items in both halves of the reservoir's items, by slot; a column is a class in a label
    matrix."""
    order = np.argsort(slots)
    newer = np.zeros(len(slots), bool)
    newer[order[len(order) // 2 :]] = True
    squares = []
    for members in class_members(labels).T:
        old, new = X[members & ~newer].astype(np.float64), X[members & newer].astype(np.float64)
        n, m = len(old), len(new)
        if min(n, m) < LEAST_OF_CLASS:
            continue
        a, b = old.mean(axis=0), new.mean(axis=0)
        variance = float(((old - a) ** 2).sum() + ((new - b) ** 2).sum()) / (n + m - 2)
        # Means of n and m items differ by chance: their squared distance is variance * (1/n + 1/m) on average.
        apart = float(((a - b) ** 2).sum())
        squares.append(apart / variance - (1 / n + 1 / m) if variance > 0 else 0.0)
    return max(0.0, float(np.mean(squares))) ** 0.5 if squares else None


def class_members(labels: np.ndarray) -> np.ndarray:
    """Which items have which label, (n, classes) bool, classes in order of appearance; or a label matrix itself."""
    if labels.ndim == 2:
        return labels > 0
    number: dict[Any, int] = {}
    numbers = np.array([number.setdefault(label, len(number)) for label in labels.tolist()], np.intp)
    return np.asarray(numbers[:, None] == np.arange(len(number)))


def stored_map_of(view: View, reservoir: Reservoir) -> float | None:
    """`Drift.mean_average_precision` alone."""
    slots, X, labels = reservoir.labelled()
    if len(slots) < LEAST_ITEMS or view.newest < 0:
        return None
    return stored_map(view, slots, X, labels)


def stored_map(view: View, slots: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float | None:
    """mAP with the codes as they are stored: each query is encoded for every version alive."""
    queries = min(MOST_QUERIES, len(slots))
    far = np.full((queries, len(slots)), NOT_THERE, np.int64)
    for part, at, rows in locate(view.parts, slots):
        codes = view.encoders[part.version].transform(X[:queries])
        far[:, at] = hamming.distances(codes, np.ascontiguousarray(part.codes[rows]))
    return mean_average_precision(far, slots, labels)


def fresh_map(newest: OnlineHasher, slots: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float | None:
    codes = newest.transform(X)
    far = hamming.distances(codes[: min(MOST_QUERIES, len(X))], codes).astype(np.int64)
    return mean_average_precision(far, slots, labels)


def mean_average_precision(far: np.ndarray, slots: np.ndarray, labels: np.ndarray) -> float | None:
    """Of rankings of all n items by (distance, slot) for the first q of them, each without itself; queries that
    nothing shares a label with are left out, and None where that is all of them.

    far : (q, n) int64, NOT_THERE for what is not there.
    """
    queries = np.arange(len(far))
    members = class_members(labels).astype(np.float32)
    related = (members[queries] @ members.T > 0) & (far < NOT_THERE)
    related[queries, queries] = False
    far = far.copy()
    far[queries, queries] = NOT_THERE  # itself comes last, and counts for nothing
    place = np.empty(len(slots), np.int64)
    place[np.argsort(slots)] = np.arange(len(slots))
    # Distance, place and whether it is a hit in one number: sorting those is much faster than an argsort.
    words = np.sort(far << 32 | place << 1 | related, axis=1)
    hits = (words & 1).astype(bool)
    found = np.cumsum(hits, axis=1)
    asked = found[:, -1] > 0
    if not asked.any():
        return None
    precision = np.where(hits, found / np.arange(1, len(slots) + 1), 0.0)
    return float((precision.sum(axis=1)[asked] / found[asked, -1]).mean())
