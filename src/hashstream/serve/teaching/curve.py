"""How good a table's answers are as labels come in: the learning curve of a person who teaches it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hashstream.serve.kinds import Servable
from hashstream.serve.teaching.sampled import (
    MOST_ITEMS,
    class_counts,
    label_key,
    labelled_ids,
    members,
    thinned,
)

__all__ = ["Curve", "Point", "average_precisions"]

MOST_POINTS = 400
MOST_QUERIES = 200
RECENT = 50
PATIENCE = 20
"""The answers are measured again only after so many times as long as the last measurement took."""
LEAST_LABELLED = 20  # as in the table's own figures


@dataclass(frozen=True)
class Point:
    """One point of the curve.

    labels : labelled items. time : Unix time. map : mean average precision of labelled items as queries, ranked among
    the other labelled ones: most of these were learned from. tested : that of the new labels alone, each tested before
    it was learned. recent : the mean over the last 50 that were tested. Each is None where it was not measured.
    """

    labels: int
    time: float
    map: float | None
    tested: float | None
    recent: float | None


class Curve:
    """The curve of one table, for any number of threads; it begins with the service, and is not stored.

    tested = curve.before(table, ids, labels)
    table.label(ids, labels)
    curve.after(table, tested)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: list[Point] = []
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._next = 0.0  # of the monotonic clock, before which nothing is measured

    def before(self, table: Servable, ids: Sequence[Any], labels: Any) -> list[float]:
        """Average precision of items that are about to get their first label, as queries among the labelled ones.

        Queries are compared with stored codes exactly as a search does it, and have not been learned from: an honest
        figure. Items that have a label already, that nothing shares a label with, or that are not stored are left out;
        so are all where the table keeps no features. At most 200 items are tested, against 1,000 at most.
        """
        with suppress(KeyError, ValueError):  # removed meanwhile, or bad input, of which `label` will tell
            pairs = zip(ids, map(label_key, labels), strict=True)
            wanted = [pair for pair in pairs if pair[1] is not None]
            wanted = [
                wanted[at]
                for at in thinned(np.arange(len(wanted)), MOST_ITEMS).tolist()
                if wanted[at][0] in table
            ]
            known = labelled_ids(table)
            if wanted and len(known) and table.keeps_features:
                stored = table.get([one for one, _ in wanted], features=False).labels
                new = [pair for pair, label in zip(wanted, stored, strict=True) if label is None]
                some = [new[at] for at in thinned(np.arange(len(new)), MOST_QUERIES).tolist()]
                if some:
                    return average_precisions(
                        table, [one for one, _ in some], [label for _, label in some], known
                    )
        return []

    def after(self, table: Servable, tested: Sequence[float] = ()) -> Point:
        """Add a point, with what `before` has returned for the labels that have been learned since.

        mAP is measured unless that would take more than one part in twenty of the time.
        """
        n, value = table.count({"label": {"$exists": True}}), None
        if time.monotonic() >= self._next and n >= LEAST_LABELLED and table.keeps_features:
            clock = time.monotonic()
            with suppress(KeyError):  # an item was removed meanwhile
                value = labelled_map(table)
            done = time.monotonic()
            self._next = done + PATIENCE * (done - clock)
        with self._lock:
            self._recent.extend(tested)
            point = Point(n, time.time(), value, _mean(tested), _mean(self._recent))
            self._points.append(point)
            if len(self._points) > MOST_POINTS:  # every second one, so that old ones lie farther apart
                self._points = self._points[:-1][::2] + self._points[-1:]
        return point

    def points(self) -> list[Point]:
        """The points, oldest first."""
        with self._lock:
            return list(self._points)

    def teaching(self, table: Servable) -> dict[str, Any]:
        """Points and classes, as the service answers."""
        return {"points": [asdict(point) for point in self.points()], "classes": class_counts(table)}


def labelled_map(table: Servable) -> float | None:
    """Mean average precision of at most 200 labelled items as queries, each without itself among the answers."""
    known = labelled_ids(table)
    queries = thinned(known, MOST_QUERIES)
    labels = [label_key(label) for label in table.get(queries, features=False).labels]
    return _mean(average_precisions(table, queries.tolist(), labels, known))


def average_precisions(
    table: Servable, ids: Sequence[Any], labels: Sequence[Any], among: np.ndarray
) -> list[float]:
    """Average precision of stored items as queries with these labels, ranked among others by a search; of items that
    share a label with one of the others.

    Equal distances are ranked by insertion, as a search returns them and as `stats` counts them. A query that is among
    the others is left out of its own answers.
    """
    stored = table.get(among, features=False).labels
    has, _ = members([*labels, *stored])
    related = has[: len(labels)] @ has[len(labels) :].T > 0
    place = {one: at for at, one in enumerate(among.tolist())}
    X = table.get(ids).features
    assert X is not None
    answers = table.search(X, len(among), where={"id": {"$in": among.tolist()}}).ids
    places = np.array([place[one] for one in answers.ravel().tolist()], np.intp).reshape(answers.shape)
    itself = places == np.array([[place.get(one, -1)] for one in ids])
    hits = np.take_along_axis(related, places, axis=1) & ~itself
    ranks = np.arange(1, answers.shape[1] + 1) - itself.cumsum(axis=1)  # as if the query were not there
    found = hits.cumsum(axis=1)
    total = found[:, -1] if answers.size else np.zeros(len(answers))
    precision = np.where(hits, found / np.maximum(ranks, 1), 0.0).sum(axis=1)
    values: list[float] = (precision[total > 0] / total[total > 0]).tolist()
    return values


def _mean(values: Sequence[float] | deque[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None
