"""Whether queries are compared with stored codes like with like or by the current functions: measured, not guessed.

Where a method steers each class to a code that stays (FCOH, RidgeHash, MIHash), old codes and a query's current code
agree, and after drift the current functions read the query better than old ones. Where functions rotate as they learn
(SketchHash), such codes have nothing in common. The table tries both on its own labelled sample: the newest items are
the queries, as they are what queries of today look like.
"""

from __future__ import annotations

import numpy as np

from hashstream import hamming
from hashstream.table.state.comparison import LEAST_ITEMS, Comparison
from hashstream.table.state.sample import Sample, label_array
from hashstream.table.state.state import State
from hashstream.table.state.view import View, locate
from hashstream.table.stats import NOT_THERE, mean_average_precision

__all__ = ["compared", "is_due"]

QUERIES = 100
MOST_ROWS = 5000  # learned between two measurements
LEAST_ROWS = 500


def is_due(state: State) -> bool:
    """Whether to measure again: there are several versions, and enough was learned since."""
    before = state.comparison.rows
    rows = state.model.n_seen - before
    several = len({*state.view.versions, state.view.newest}) > 1
    least = min(MOST_ROWS, max(LEAST_ROWS, before // 2))
    return several and not 0 <= rows < least  # fewer than before: functions that were learned elsewhere


def compared(state: State) -> Comparison:
    """Measure both on the sample, and choose the better one."""
    rows = state.model.n_seen
    like, current = both_maps(state.view, state.sample)
    if like is None or current is None:
        return Comparison(rows=rows)
    return Comparison("current" if current > like else "like", like, current, rows)


def both_maps(view: View, sample: Sample) -> tuple[float | None, float | None]:
    """mAP like with like and by the current functions, of the newest labelled items among all others."""
    places = np.flatnonzero([label is not None for label in sample.labels])
    if len(places) < LEAST_ITEMS or view.newest < 0:
        return None, None
    places = places[np.argsort(-sample.slots[places])]
    slots, labels = sample.slots[places], label_array([sample.labels[place] for place in places.tolist()])
    queries = np.stack(
        [row for place in places[:QUERIES].tolist() if (row := sample.rows[place]) is not None]
    )
    current = view.encoders[view.newest].encode(queries)
    far = np.full((2, len(queries), len(slots)), NOT_THERE, np.int64)
    for part, at, rows in locate(view.parts, slots):
        codes = np.ascontiguousarray(part.codes[rows])
        far[0][:, at] = hamming.distances(view.encoders[part.version].encode(queries), codes)
        far[1][:, at] = hamming.distances(current, codes)
    return mean_average_precision(far[0], slots, labels), mean_average_precision(far[1], slots, labels)
