"""`TableWorker`: the one thread that writes to a table. Requests that wait for it share commits."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from hashstream.serve.kinds import Servable
from hashstream.serve.limits import Limits
from hashstream.serve.problems import Problem
from hashstream.table import Call, OutcomeUnknown

__all__ = ["TableWorker"]

log = logging.getLogger("hashstream.serve")

REOPEN_AGAIN = 5.0  # seconds after which a table that could not be reopened is tried again

Task = Callable[[Servable], Any]


@dataclass(eq=False)
class _Job:
    """A call, which may share its commit with others, or a task of its own; nbytes : that it holds while it waits."""

    work: Call | Task
    nbytes: int
    future: Future[Any] = field(default_factory=Future)


class TableWorker:
    """Does the writes of a table in the order in which they came, in a thread of its own.

    The queue is bounded: a write that finds it full is refused, and changes nothing. Where a write was interrupted and
    its outcome is unknown, the table is reopened, which finds out; where that fails, that is tried again and again.
    """

    def __init__(self, name: str, table: Servable, reopen: Callable[[], Servable], limits: Limits) -> None:
        """reopen : opens the table again, after it was closed, and lets everybody use the new one."""
        self._table, self._reopen, self._limits = table, reopen, limits
        self._changed = threading.Condition()
        self._waiting: deque[_Job] = deque()
        self._nbytes = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"hashstream-write-{name}", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Writes that wait."""
        return len(self._waiting)

    def submit(self, work: Call | Task, nbytes: int = 0) -> Future[Any]:
        """Put a write into the queue. The future has the result when it is durable: of a call its `result`.

        `Problem` where the queue is full, or the worker ends.
        """
        job = _Job(work, nbytes)
        with self._changed:
            if self._ending:
                raise Problem("closing", "the table is being closed: try again", retry_after=1)
            full = len(self._waiting) >= self._limits.queue
            if full or (self._waiting and self._nbytes + nbytes > self._limits.queue_bytes):
                raise Problem(
                    "busy",
                    f"{len(self._waiting)} writes are waiting for this table: try again later",
                    retry_after=1,
                )
            self._waiting.append(job)
            self._nbytes += nbytes
            self._changed.notify()
        return job.future

    def end(self) -> None:
        """Do what waits, take nothing more, and end the thread."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()

    # ---- in the thread

    def _run(self) -> None:
        while (jobs := self._take()) is not None:
            if jobs:
                self._do(jobs)
            if self._table.in_doubt:
                try:
                    self._recover()
                except Exception as error:
                    log.warning("%s could not be reopened: %s", self._table.path, error)

    def _do(self, jobs: list[_Job]) -> None:
        try:
            if self._table.in_doubt:
                self._recover()
            writer = self._table.writer()
            while jobs:
                calls = _leading_calls(jobs)
                if calls:
                    writer.do([job.work for job in calls])  # type: ignore[misc]
                    for job in calls:
                        _settle(job)
                else:
                    _do_task(jobs[0], self._table)
                del jobs[: len(calls) or 1]
        except BaseException as error:
            log.exception("%s: a write failed", self._table.path)
            _fail(jobs, error)

    def _take(self) -> list[_Job] | None:
        """All writes that wait, as soon as there is one; none where it is time to reopen the table; None at the end."""
        with self._changed:
            patience = REOPEN_AGAIN if self._table.in_doubt else None
            self._changed.wait_for(lambda: self._waiting or self._ending, patience)
            jobs = list(self._waiting)
            self._waiting.clear()
            self._nbytes = 0
            return jobs or (None if self._ending else [])

    def _recover(self) -> None:
        """Reopen the table, since the outcome of its last write is unknown."""
        log.warning(
            "%s: the outcome of the last write is unknown, so the table is reopened", self._table.path
        )
        self._table.close()
        self._table = self._reopen()


def _leading_calls(jobs: list[_Job]) -> list[_Job]:
    """Those before the first one that is not a call."""
    for i, job in enumerate(jobs):
        if not isinstance(job.work, Call):
            return jobs[:i]
    return list(jobs)


def _settle(job: _Job) -> None:
    call = job.work
    assert isinstance(call, Call)
    if call.error is None:
        job.future.set_result(call.result)
    else:
        job.future.set_exception(call.error)


def _do_task(job: _Job, table: Servable) -> None:
    assert not isinstance(job.work, Call)
    try:
        job.future.set_result(job.work(table))
    except Exception as error:
        job.future.set_exception(error)


def _fail(jobs: list[_Job], error: BaseException) -> None:
    """Give the calls that are left an error that concerns all: nobody waits for ever."""
    unknown = OutcomeUnknown(
        "the write failed and its outcome is unknown: repeat it with its Idempotency-Key"
    )
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(error if isinstance(error, Exception) else unknown)
