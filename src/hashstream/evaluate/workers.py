"""Jobs side by side: worker processes learn and judge, and send what they see to the one that asked.

Workers are started afresh ("spawn"), since a process with BLAS threads cannot be forked safely. They read the features
from a file that all of them map into memory, take one job at a time over a pipe of their own, and never touch the
results. A pipe for each, rather than a queue for all: a worker that is killed cannot leave a lock behind, and which job
it had is known.
"""

from __future__ import annotations

import io
import multiprocessing
import pickle
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from hashstream.evaluate.job import Job, run_job
from hashstream.evaluate.protocols import Checkpoint, PreparedDataset, Protocol
from hashstream.hashers import DivergenceError

__all__ = ["Ending", "WorkerError", "side_by_side"]

TELL_EVERY = 0.1  # seconds between two messages about rows
READY = "ready"


class WorkerError(ChildProcessError):
    """A worker process ended before its job did. The message names the job."""


@dataclass(frozen=True)
class Ending:
    """How a job ended.

    learned: rows until then. diverged, lost: in words, why the hasher could not go on, or why its process did not.
    """

    learned: int = 0
    diverged: str = ""
    lost: str = ""


Event = int | Checkpoint | Ending
"""What a job reports: rows learned since the last time, a look, its end."""


def side_by_side(
    todo: Sequence[tuple[Job, Sequence[int]]],
    field: PreparedDataset,
    protocol: Protocol,
    ties: str,
    workers: int,
) -> Generator[tuple[Job, Event]]:
    """Attend the jobs, each with its missing points, in `workers` processes, and yield what they report.

    Jobs begin in the given order, each as soon as a worker is free. A worker that is killed takes its job with it and
    is replaced; where the new one does not come up, those that are left go on. An exception in a job is raised here.
    Whatever ends this iterator (an exception, Ctrl-C, `close`), ends all workers at once.
    """
    waiting = deque((job, _sent((job, list(missing)), job)) for job, missing in todo)
    _sent(protocol, protocol)
    crew: list[_Worker] = []
    started = False  # whether any worker has
    with tempfile.TemporaryDirectory(prefix="hashstream-", ignore_cleanup_errors=True) as folder:
        features = Path(folder) / "X.npy"
        np.save(features, field.X)
        task = (str(features), replace(field, X=field.X[:0]), protocol, ties)
        try:
            while waiting or any(worker.job for worker in crew):
                while len(crew) < workers and len(waiting) > sum(worker.job is None for worker in crew):
                    crew.append(_Worker(task))
                for pipe in wait([worker.pipe for worker in crew]):
                    worker = next(worker for worker in crew if worker.pipe is pipe)
                    job, message = worker.job, worker.receive()
                    if message is None:
                        crew.remove(worker)
                        how = worker.how_it_ended()
                        if not worker.ready and not started:
                            raise WorkerError(_STILLBORN.format(how=how))
                        if not worker.ready:  # there is room for fewer than were asked for
                            workers = len(crew)
                            if not crew:
                                raise WorkerError(_NO_MORE.format(how=how, left=len(waiting)))
                        if job is not None:
                            yield job, Ending(lost=how)
                    elif isinstance(message, BaseException):
                        raise message
                    elif job is not None:
                        yield job, message
                    started = started or worker.ready
                    if message == READY or isinstance(message, Ending):
                        worker.take(waiting.popleft() if waiting else None)
        finally:
            for worker in crew:
                worker.end()


_STILLBORN = (
    "a worker process {how} before its first job. In a script, call with workers=1, or below "
    'if __name__ == "__main__": since every worker imports the script.'
)

_NO_MORE = (
    "a worker process {how} before it could take a job, and there is no other left; jobs that nobody began: {left}. "
    "What was measured is kept: the same call goes on from there, with fewer workers where memory was short."
)


class _Worker:
    """A worker process as its parent sees it.

    job: what it works at, None while it starts and when there is no more to do. ready: whether it has started.
    """

    def __init__(self, task: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.job: Job | None = None
        self.ready = False
        self.process = context.Process(target=_serve, args=(there, *task), daemon=True)
        with _without_interrupts():
            self.process.start()
        there.close()  # so that the pipe ends when the worker does

    def receive(self) -> Any:
        """The next message; None: there is none any more, the worker has ended."""
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.ready = True
        return message

    def take(self, work: tuple[Job, bytes] | None) -> None:
        """Begin with a job; None: there is none left."""
        self.job, data = work or (None, b"")
        if work is not None:
            with suppress(OSError):  # it has died, which the next `receive` finds
                self.pipe.send_bytes(data)

    def how_it_ended(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            killed = ", as the system does where memory runs out" if name == "SIGKILL" else ""
            return f"was killed ({name}{killed})"
        return f"ended with exit code {code}"

    def end(self) -> None:
        self.process.kill()  # at once: it has nothing to put away
        self.process.join()
        self.pipe.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C goes to all processes of a terminal. Those started here never see it: their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # with the first worker otherwise, and it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Pickler(pickle.Pickler):
    """Refuses what a fresh process could not find: functions and classes of a notebook or of the script that runs."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__":
            raise pickle.PicklingError(f"{thing.__qualname__} is defined in the script or notebook that runs")
        return NotImplemented


def _sent(thing: Any, name: object) -> bytes:
    """How a thing goes to a worker."""
    data = io.BytesIO()
    try:
        _Pickler(data).dump(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{name} cannot be sent to another process: {error}. Put the class into a module of its own and "
            "import it from there, or take workers=1."
        ) from error
    return data.getvalue()


# ---- in the worker


def _serve(pipe: Connection, features: str, field: PreparedDataset, protocol: Protocol, ties: str) -> None:
    """What a worker process does until its parent ends it, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        field = replace(field, X=np.load(features, mmap_mode="r"))
        pipe.send(READY)
        while True:
            pipe.send(_work(pipe, pipe.recv_bytes(), field, protocol, ties))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # nobody listens any more


def _work(
    pipe: Connection, data: bytes, field: PreparedDataset, protocol: Protocol, ties: str
) -> Ending | Exception:
    """Attend one job and report, up to its end, which is returned."""
    learned = told = 0
    clock = time.monotonic()

    def tell() -> None:
        nonlocal told, clock
        if learned > told:
            pipe.send(learned - told)
        told, clock = learned, time.monotonic()

    def count(rows: int) -> None:
        nonlocal learned
        learned += rows
        if time.monotonic() - clock > TELL_EVERY:
            tell()

    try:
        job, missing = pickle.loads(data)
        for look in run_job(job, field, protocol, missing, ties, count):
            tell()
            pipe.send(look)
        ending: Ending | Exception = Ending(learned)
    except BrokenPipeError:
        raise
    except DivergenceError as problem:
        ending = Ending(learned, diverged=str(problem) or type(problem).__name__)
    except Exception as problem:
        ending = _portable(problem)
    tell()
    return ending


def _portable(problem: Exception) -> Exception:
    """The exception with its traceback as a note; as a RuntimeError where it is of a kind that cannot be sent."""
    note = f"In a worker process:\n{''.join(traceback.format_exception(problem))}"
    try:
        problem.add_note(note)
        pickle.loads(pickle.dumps(problem))
    except Exception:
        problem = RuntimeError(f"{type(problem).__name__}: {problem}")
        problem.add_note(note)
    return problem
