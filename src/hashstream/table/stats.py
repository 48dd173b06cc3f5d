"""What a table says about itself, with signs of drift. What cannot be said yet is None, with the reason beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hashstream import hamming
from hashstream.hashers import OnlineHasher
from hashstream.table.codes import View, locate
from hashstream.table.reservoir import Reservoir

__all__ = ["Drift", "TableStats", "measure_drift"]

LEAST_ITEMS = 20  # of the reservoir, below which nothing is said
LEAST_OF_CLASS = 5
MOST_QUERIES = 200


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
    map_history : (items ever stored, mAP of the reservoir) each time that `stats` was asked for since the table was
        opened.
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
    for members in class_members(labels):
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


def class_members(labels: np.ndarray) -> list[np.ndarray]:
    if labels.ndim == 2:
        return [column > 0 for column in labels.T]
    values: list[Any] = list(dict.fromkeys(labels.tolist()))
    listed = labels.tolist()
    return [np.array([label == value for label in listed]) for value in values]


def stored_map(view: View, slots: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float | None:
    """mAP with the codes as they are stored: each query is encoded for every version alive."""
    queries = np.arange(min(MOST_QUERIES, len(slots)))
    far = np.full((len(queries), len(slots)), np.inf)
    for part, at, rows in locate(view.parts, slots):
        codes = view.encoders[part.version].transform(X[queries])
        far[:, at] = hamming.distances(codes, np.ascontiguousarray(part.codes[rows]))
    return mean_average_precision(far, queries, slots, labels)


def fresh_map(newest: OnlineHasher, slots: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float | None:
    queries = np.arange(min(MOST_QUERIES, len(X)))
    codes = newest.transform(X)
    far = hamming.distances(codes[queries], codes).astype(np.float64)
    return mean_average_precision(far, queries, slots, labels)


def mean_average_precision(
    far: np.ndarray, queries: np.ndarray, slots: np.ndarray, labels: np.ndarray
) -> float | None:
    """Of rankings by (distance, slot), without the query itself; queries that nothing shares a label with are left
    out, and None where that is all of them. far : (q, n), inf for what is not there."""
    members = np.array(class_members(labels)).T.astype(np.float32)
    related = members[queries] @ members.T > 0
    scores = []
    for row, query in enumerate(queries):
        order = np.lexsort((slots, far[row]))
        order = order[(order != query) & np.isfinite(far[row][order])]
        hits = related[row][order]
        if hits.any():
            ranks = np.flatnonzero(hits) + 1
            scores.append(float(np.mean(np.arange(1, len(ranks) + 1) / ranks)))
    return float(np.mean(scores)) if scores else None
