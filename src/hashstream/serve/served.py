"""`Served`: a table that is served, with its writer, its figures over time, and what its page shows."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, TypeVar

from hashstream.serve.health import Health, Latencies
from hashstream.serve.images import Images
from hashstream.serve.kinds import TABLES, Servable, TableKind
from hashstream.serve.limits import Limits
from hashstream.serve.problems import Problem
from hashstream.serve.teaching.code_map import CodeMap
from hashstream.serve.teaching.curve import Curve
from hashstream.serve.worker import TableWorker, Task
from hashstream.table import Call, Closed, Commit, TableError, TableLocked, TableStats

__all__ = ["Served"]

log = logging.getLogger("hashstream.serve")

R = TypeVar("R")
STATS_AGE = 1.0  # seconds for which figures are not computed again, however many ask while the table changes
REOPENING = 30.0  # seconds that a reader waits for a table that is being reopened


class Served:
    """A table of the service. Methods may be called from any thread; those that write go through its worker."""

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        limits: Limits,
        read_only: bool,
        tell: Callable[[str, dict[str, Any]], None],
        images: Images | None = None,
        kind: TableKind = TABLES,
    ) -> None:
        self.name, self.path, self.read_only, self.kind = name, path, read_only, kind
        self.images = images or Images()
        self.state: Literal["opening", "open", "failed", "closed"] = "opening"
        self.error: str | None = None
        self.locked = False  # by another process, when it was to be opened
        self.latencies, self.health = Latencies(), Health()
        self.curve, self.code_map = Curve(), CodeMap()
        self.writes = self._counted = 0
        self.copying = threading.Lock()  # held while a snapshot is sent
        self._limits, self._tell = limits, tell
        self._table: Servable | None = None
        self._lost: str | None = None  # why it could not be reopened
        self._changing = threading.Lock()  # held while it is opened or closed
        self._worker: TableWorker | None = None
        self._reopened = threading.Condition()
        self._method: dict[str, Any] = {}
        self._stats: tuple[float, TableStats] | None = None
        self._pictured = (-1, self.images.may_exist)  # as of a commit
        self._measuring = threading.Lock()

    # ---- opening and closing

    def open(self) -> None:
        """Open the table, unless it was closed. What fails is kept in `error`: others are served meanwhile."""
        with self._changing:
            if self.state == "closed":
                return
            table = None
            try:
                table = self._open_table()
                self._method = _described(table)
                if not self.read_only:
                    self._worker = TableWorker(self.name, table, self._reopen, self._limits)
                self.state, self.error, self.locked = "open", None, False
            except Exception as error:
                log.exception("%s could not be opened", self.path)
                self.state, self.error, self.locked = "failed", str(error), isinstance(error, TableLocked)
                if table is not None:
                    table.close()

    def _open_table(self) -> Servable:
        table = self.kind.open(self.path, self.read_only, self._committed)
        with self._reopened:
            self._table, self._lost = table, None
            self._reopened.notify_all()
        return table

    def _reopen(self) -> Servable:
        try:
            return self._open_table()
        except Exception as error:
            with self._reopened:  # nobody needs to wait for it
                self._lost = str(error)
                self._reopened.notify_all()
            raise

    def close(self) -> None:
        """Finish the writes that wait, and close the table; where it is being opened, after that."""
        with self._changing:
            with self._reopened:
                self.state = "closed"
                self._reopened.notify_all()
            if self._worker is not None:
                self._worker.end()
                self._worker = None
            if self._table is not None:
                self._table.close()

    # ---- reading

    def table(self) -> Servable:
        """The table; `Problem` where it is not open."""
        match self.state:
            case "open" if self._lost is not None:
                raise Problem(
                    "starting", f"the table {self.name!r} could not be reopened: {self._lost}", retry_after=5
                )
            case "open":
                assert self._table is not None
                return self._table
            case "opening":
                raise Problem(
                    "starting", f"the table {self.name!r} is being opened: try again", retry_after=1
                )
            case "closed":
                raise Problem("closing", f"the table {self.name!r} is being closed", retry_after=1)
        raise Problem("table", f"the table {self.name!r} could not be opened: {self.error}")

    def read(self, question: Callable[[Servable], R]) -> R:
        """Ask the table something. Where it is reopened meanwhile, the new one is asked."""
        while True:
            table = self.table()
            try:
                return question(table)
            except Closed:
                if not self._await_other(table):
                    raise

    def _await_other(self, table: Servable) -> bool:
        """Wait until another table is in the place of this one, or none will be soon; whether that came in time."""
        with self._reopened:
            return self._reopened.wait_for(
                lambda: self._table is not table or self.state != "open" or self._lost is not None, REOPENING
            )

    def stats(self, age: float = STATS_AGE) -> TableStats:
        """The figures of the table, at most `age` seconds old where it has changed since."""
        with self._measuring:  # one thread computes them, others wait for it
            now = time.monotonic()
            if self._stats is not None:
                at, stats = self._stats
                if now - at < age or stats.commits == self._commits():
                    return stats
            stats = self.read(lambda table: table.stats())
            self._stats = now, stats
            return stats

    def _commits(self) -> int:
        return self.table().commits

    def info(self) -> dict[str, Any]:
        """As `TableInfo` describes it."""
        info: dict[str, Any] = {
            "name": self.name,
            "state": self.state,
            "error": self.error,
            "read_only": self.read_only,
            **self._method,
        }
        if self.state != "open" or self._lost is not None:
            return info | {"error": self._lost or self.error}
        table = self.table()
        return info | {
            "n_items": len(table),
            "n_features": table.n_features,
            "dtype": None if table.dtype is None else str(table.dtype),
            "ids": table.id_kind,
            "fields": table.fields,
            "commits": table.commits,
            "version": table.version,
            "images": self._has_images(table),
            "network": self.images.network is not None,
        }

    def _has_images(self, table: Servable) -> bool:
        """Whether items have thumbnails; asked again when the table has changed."""
        commits, found = self._pictured
        if not found and commits != table.commits:
            self._pictured = table.commits, self.images.found_in(table)
        return self._pictured[1]

    def ids_of(self, texts: list[str]) -> list[Any]:
        """Ids in an address, as the table has them."""
        if self.table().id_kind != "int":
            return list(texts)
        for text in texts:
            if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
                raise Problem("unknown-id", f"not in the table: {text!r} (its ids are whole numbers)")
        return [int(text) for text in texts]

    # ---- writing

    def submit(self, work: Call | Task, nbytes: int = 0) -> Future[Any]:
        """Queue a write; the future has its result when it is durable."""
        self.table()
        if self._worker is None:
            raise Problem("read-only", "this service is read-only: write where the table is written")
        return self._worker.submit(work, nbytes)

    @property
    def queued(self) -> int:
        return 0 if self._worker is None else len(self._worker)

    def _committed(self, commit: Commit) -> None:
        """After every commit, in the thread that writes."""
        self.writes += 1
        event = {
            "table": self.name,
            "seq": commit.seq,
            "added": commit.added,
            "removed": commit.removed,
            "recoded": commit.recoded,
            "labelled": commit.labelled,
            "learned": commit.learned,
            "version": commit.version,
            "n_items": len(self._table) if self._table is not None else None,
            "time": time.time(),
        }
        self._tell("commit", event)
        if commit.learned:
            self._tell("learned", event)
        if commit.recoded:
            self._tell("refreshed", event)

    # ---- over time

    def measure(self) -> None:
        """Add a point to the figures over time."""
        if self.state != "open":
            return
        try:
            stats = self.stats()
        except (Problem, TableError):
            return
        drift = stats.drift
        p50, p99 = self.latencies.quantiles()
        self.health.add(
            {
                "time": time.time(),
                "items": stats.n_items,
                "versions": len(stats.versions),
                "stale": stats.n_stale,
                "bit_flips": drift.bit_flips,
                "centre_shift": drift.centre_shift,
                "map": drift.mean_average_precision,
                "fresh_map": drift.fresh_mean_average_precision,
                "memory_bytes": stats.memory_bytes,
                "disk_bytes": stats.disk_bytes,
                "search_ms_p50": p50,
                "search_ms_p99": p99,
                "searches": self.latencies.since_last(),
                "writes": self._writes_since_last(),
                "queue": self.queued,
            }
        )

    def _writes_since_last(self) -> int:
        """Commits since this was last asked."""
        before, self._counted = self._counted, self.writes
        return self.writes - before

    def refresh_outlook(self) -> dict[str, Any]:
        """Items that a refresh would re-encode, and mAP before and after it."""
        stats = self.stats()
        drift = stats.drift
        return {
            "stale": stats.n_stale,
            "map": drift.mean_average_precision,
            "fresh_map": drift.fresh_mean_average_precision,
            "reason": drift.reasons.get("fresh_mean_average_precision"),
        }


def _described(table: Servable) -> dict[str, Any]:
    """The part of `TableInfo` that does not change."""
    hasher = table.hasher
    return {
        "method": type(hasher).__name__,
        "parameters": {
            name: value
            for name, value in hasher.get_params(deep=False).items()
            if value is None or isinstance(value, (bool, int, float, str))
        },
        "n_bits": hasher.n_bits,
        "policy": str(table.settings.policy),
        "settings": table.settings.to_fields(),
        "durability": table.settings.durability,
        "keeps_features": table.keeps_features,
    }
