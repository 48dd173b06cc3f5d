"""Rows that PosteriorHash still keeps as they came, to be found and given other labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hashstream.hashers.labels import Labels
from hashstream.hashers.posterior_functions import Rows

__all__ = ["Classes", "KeptRows", "class_sets"]

SAME = 1e-5
"""Features that differ by less, compared with the largest of their row, are the same: a feature map may round a row
differently in another batch, and a table may store float32."""

Classes = tuple[int, ...]
"""Class numbers of a row, ascending."""


@dataclass
class _Row:
    features: np.ndarray
    classes: Classes
    counted: bool


class KeptRows:
    """Rows in the order of the stream, each with its classes.

    counted : weight of the first rows, from which the current hash functions follow.
    """

    def __init__(self, rows: Rows, counted: float) -> None:
        self._like = rows[:0]
        self._rows: list[_Row] = []
        self._places: dict[tuple[bytes, Classes], list[int]] = {}
        self.changed = False
        """Whether any row is another one now."""
        self.functions_changed = False
        """Whether any of those that count for the current functions is."""
        weight, start = np.cumsum(rows.weights), 0
        while start < len(rows):
            end = min(len(rows), start + max(1, round(1 / float(rows.weights[start]))))
            classes = tuple(rows.numbers[start:end].tolist())
            self._put(_Row(rows.values[start], classes, bool(weight[end - 1] <= counted + 1e-9)))
            start = end

    def _put(self, row: _Row) -> None:
        self._places.setdefault((row.features.tobytes(), row.classes), []).append(len(self._rows))
        self._rows.append(row)

    def change(self, x: np.ndarray, old: Classes, new: Classes) -> bool:
        """Give other classes to a row, or take it out where it gets none; False where it is not there.

        A row that had no class was not kept: it is put after the others.
        """
        if old == new:
            return True
        if not old:
            self._put(_Row(x.copy(), new, False))
            self.changed = True
            return True
        at = self._find(x, old)
        if at is None:
            return False
        row = self._rows[at]
        row.classes = new
        if new:
            self._places.setdefault((row.features.tobytes(), new), []).append(at)
        self.changed = True
        self.functions_changed |= row.counted
        return True

    def _find(self, x: np.ndarray, classes: Classes) -> int | None:
        places = self._places.get((x.tobytes(), classes))
        if places:
            return places.pop(0)
        same = [at for at, row in enumerate(self._rows) if row.classes == classes]
        if not same:
            return None
        features = np.stack([self._rows[at].features for at in same]).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            distances = np.abs(features - x).max(axis=1)
        nearest = int(distances.argmin())
        if not distances[nearest] <= SAME * np.abs(x).max():
            return None
        row = self._rows[same[nearest]]
        self._places[row.features.tobytes(), classes].remove(same[nearest])
        return same[nearest]

    def rows(self) -> tuple[Rows, int]:
        """The rows as they are now, one entry for each class of a row; and how many of these are counted."""
        kept = [row for row in self._rows if row.classes]
        if not kept:
            return self._like, 0
        sizes = np.array([len(row.classes) for row in kept])
        values = np.stack([row.features for row in kept])
        rows = Rows(
            np.repeat(values, sizes, axis=0),
            np.array([number for row in kept for number in row.classes], np.int64),
            np.repeat(1 / sizes, sizes),
        )
        return rows, int(sizes[[row.counted for row in kept]].sum())


def class_sets(labels: Labels) -> list[Classes]:
    """The classes of each row of a batch."""
    if labels.indicator is None:
        return [(number,) for number in labels.ids[labels.rank].tolist()]
    return [tuple(np.flatnonzero(row).tolist()) for row in labels.indicator]
