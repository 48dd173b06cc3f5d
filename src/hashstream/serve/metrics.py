"""Prometheus metrics: requests and latencies as they happen, figures of the tables when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hashstream.serve.problems import Problem
from hashstream.serve.served import Served
from hashstream.table import TableError, TableStats

__all__ = ["Metrics"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
STATS_AGE = 10.0  # seconds

GAUGES: dict[str, tuple[str, Callable[[TableStats], float | None]]] = {
    "rows": ("Items in the table.", lambda stats: stats.n_items),
    "versions": ("Versions of the hash functions in use.", lambda stats: len(stats.versions)),
    "commits": ("Commits since the table was created.", lambda stats: stats.commits),
    "learned_rows": ("Rows learned from.", lambda stats: stats.n_seen),
    "stale_ratio": ("Share of items whose code is not current.", lambda stats: stats.stale),
    "updates_behind": ("Updates by which the mean code is behind.", lambda stats: stats.updates_behind),
    "memory_bytes": ("Ids, codes, labels, fields and index in memory.", lambda stats: stats.memory_bytes),
    "disk_bytes": ("All files of the table.", lambda stats: stats.disk_bytes),
    "sample_map": ("mAP on the table's sample.", lambda stats: stats.drift.mean_average_precision),
    "sample_fresh_map": ("The same after a refresh.", lambda stats: stats.drift.fresh_mean_average_precision),
    "drift_bit_flips_ratio": (
        "Share of stored bits that would be set otherwise.",
        lambda stats: stats.drift.bit_flips,
    ),
    "drift_centre_shift": ("How far class centres have moved.", lambda stats: stats.drift.centre_shift),
}


class _Tables(Collector):
    """Figures of all tables, computed when they are scraped, at most every ten seconds."""

    def __init__(self, tables: Callable[[], Iterable[Served]]) -> None:
        self._tables = tables

    def collect(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"hashstream_table_{name}", help, labels=["table"])
            for name, (help, _) in GAUGES.items()
        }
        queued = GaugeMetricFamily("hashstream_table_queued_writes", "Writes that wait.", labels=["table"])
        is_open = GaugeMetricFamily("hashstream_table_open", "1 if the table is open.", labels=["table"])
        for served in self._tables():
            is_open.add_metric([served.name], float(served.state == "open"))
            queued.add_metric([served.name], served.queued)
            try:
                stats = served.stats(STATS_AGE)
            except (Problem, TableError):
                continue
            for name, (_, figure) in GAUGES.items():
                value = figure(stats)
                if value is not None:
                    families[name].add_metric([served.name], value)
        yield from (*families.values(), queued, is_open)


class Metrics:
    """The metrics of a service, in a registry of their own."""

    def __init__(self, tables: Callable[[], Iterable[Served]]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "hashstream_requests", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "hashstream_request_seconds",
            "Seconds from the request's head to the end of its answer.",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge("hashstream_requests_in_flight", "Requests under way.", registry=self.registry)
        self.registry.register(_Tables(tables))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
