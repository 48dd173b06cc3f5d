"""A table's sample in two dimensions, by the Hamming distance of its codes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from hashstream.hashers.validation import check_count
from hashstream.serve.kinds import Servable
from hashstream.serve.teaching.sampled import MOST_ITEMS, label_key, look, sample_ids

__all__ = ["MOST_POINTS", "CodeMap"]

MOST_POINTS = 10_000


class CodeMap:
    """Frames of a moving picture of one table, for any number of threads.

    A frame is the classical scaling of the Hamming distances. The Hamming distance of two codes is a quarter of the
    squared Euclidean distance of their bits as -1 and +1, so that these are the first two principal components of the
    bits. They are determined up to a rotation and a reflection: each frame takes those with which the items that it
    shares with the frame before move least, so that the picture moves smoothly while the table learns.

    Codes are those that are stored where all are of one version, and otherwise those of the current functions (see
    `teaching.look`): what a search would find after a refresh.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: tuple[dict[Any, int], np.ndarray] = {}, np.empty((0, 2))

    def frame(self, table: Servable, n: int = MOST_ITEMS) -> dict[str, Any]:
        """The next frame, of at most n items of the sample: ids, x, y and labels of the same length, and version.

        One unit is the root of the mean square distance of the items from their centre, in all dimensions.
        """
        check_count("n", n, 1, MOST_POINTS)
        items = look(table, sample_ids(table, n))
        ids = items.ids.tolist()
        with self._lock:
            places = self._turned(ids, scaled(items.signs))
            if ids:
                self._before = {one: at for at, one in enumerate(ids)}, places
        return {
            "ids": ids,
            "x": np.round(places[:, 0], 4).tolist(),
            "y": np.round(places[:, 1], 4).tolist(),
            "labels": [label_key(label) for label in items.labels],
            "version": items.version,
        }

    def _turned(self, ids: list[Any], places: np.ndarray) -> np.ndarray:
        """Places (n, 2) turned to the frame before."""
        known, before = self._before
        common = [(at, known[one]) for at, one in enumerate(ids) if one in known]
        if len(common) < 2:
            return places
        now, then = np.array(common).T
        return np.asarray(places @ turn(places[now], before[then]))


def turn(places: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The rotation or reflection (2, 2) of places (n, 2) that brings them nearest to others: orthogonal Procrustes."""
    left, _, right = np.linalg.svd(places.T @ before)
    return np.asarray(left @ right)


def scaled(signs: np.ndarray) -> np.ndarray:
    """The first two principal components (n, 2) float64 of bits (n, r) as -1 and +1; zeros where there are fewer."""
    places = np.zeros((len(signs), 2))
    if len(signs) < 2:
        return places
    centred = signs.astype(np.float64) - signs.mean(axis=0, dtype=np.float64)
    spread, axes = np.linalg.eigh(centred.T @ centred)  # ascending
    total = float(spread.sum()) / len(signs)
    if total <= 0:
        return places
    axes = axes[:, ::-1][:, :2]
    # The sign of an axis is arbitrary: the largest entry is positive, so that equal codes give an equal picture.
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1.0, 1.0)
    places[:, : axes.shape[1]] = centred @ axes / np.sqrt(total)
    return places
