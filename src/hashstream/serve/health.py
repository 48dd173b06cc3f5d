"""Figures of a table over time: latencies of its searches, and points that the page draws."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

__all__ = ["EVERY", "Health", "Latencies"]

EVERY = 5.0  # seconds between two points
MOST_POINTS = 720  # an hour
RECENT = 1000  # searches that quantiles are taken of


class Latencies:
    """Durations of the last searches."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=RECENT)
        self._count = self._told = 0

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)
        self._count += 1

    def since_last(self) -> int:
        """Searches since this was last asked."""
        before, self._told = self._told, self._count
        return self._told - before

    def quantiles(self) -> tuple[float | None, float | None]:
        """The median and the 99th percentile of the last searches, in milliseconds.

        >>> latencies = Latencies()
        >>> latencies.add(0.002)
        >>> latencies.quantiles()
        (2.0, 2.0)
        """
        ordered = sorted(self._seconds.copy())
        if not ordered:
            return None, None
        return 1e3 * ordered[len(ordered) // 2], 1e3 * ordered[len(ordered) * 99 // 100]


class Health:
    """Points of the last hour; when they become too many, every second one of the older half is dropped."""

    def __init__(self) -> None:
        self._points: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(self, point: dict[str, Any]) -> None:
        with self._lock:
            points = [*self._points, point]
            if len(points) > MOST_POINTS:
                half = len(points) // 2
                points = points[:half:2] + points[half:]
            self._points = points

    def points(self, since: float = 0.0) -> list[dict[str, Any]]:
        return [point for point in self._points if point["time"] > since]
