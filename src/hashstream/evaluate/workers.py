"""Jobs in worker processes, which report their checkpoints to the parent.

Workers are spawned, since a process with BLAS threads cannot be forked safely. They map the features from one file,
take one job at a time over a pipe of their own, and never write results. One pipe per worker rather than a shared
queue: a worker that is killed cannot leave a lock behind, and its job is known.

joblib and `concurrent.futures` are not used: with both, one killed worker fails all jobs that are left, and neither
reports progress from within a job.
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

from hashstream._machine import available_memory, cores
from hashstream.evaluate.job import Job, run_job
from hashstream.evaluate.protocols import Checkpoint, PreparedDataset, Protocol
from hashstream.evaluate.scores import Ties
from hashstream.hashers import DivergenceError

__all__ = ["JobEnd", "WorkerError", "run_in_workers", "worker_count"]

TELL_EVERY = 0.1  # seconds between two messages about rows
LITTLE = 4_000_000  # numbers, learned in some seconds: 40 streams of digits, a quarter of one of MNIST
READY = "ready"


class WorkerError(ChildProcessError):
    """A worker process ended before its job. The message names the job."""


@dataclass(frozen=True)
class JobEnd:
    """The end of a job.

    learned: rows until then. diverged, lost: the reason why the hasher, or its process, could not continue.
    """

    learned: int = 0
    diverged: str = ""
    lost: str = ""


Event = int | Checkpoint | JobEnd
"""A message of a job: rows learned since the last message, a checkpoint, its end."""


def worker_count(asked: int, rows: int, features: int, copy: int = 0) -> int:
    """The number of workers: `asked`, or if it is 0 one per core that this process may use.

    In the latter case one if there is so little to learn (`rows` in all, of `features` numbers) that starting more
    takes longer, and no more than fit into the available memory, if each needs `copy` bytes.
    """
    if asked:
        return asked
    if rows * features < LITTLE:
        return 1
    return max(1, min(cores(), available_memory() // copy)) if copy else cores()


def run_in_workers(
    todo: Sequence[tuple[Job, Sequence[int]]],
    data: PreparedDataset,
    protocol: Protocol,
    ties: Ties,
    workers: int,
) -> Generator[tuple[Job, Event]]:
    """Run jobs, each with its pending checkpoints, in `workers` processes, and yield their messages.

    Jobs start in the given order, each as soon as a worker is free. A worker that is killed loses its job and is
    replaced; if the replacement does not start, the remaining ones continue. An exception in a job is raised here.
    Whatever ends this iterator (an exception, Ctrl-C, `close`) ends all workers at once.
    """
    waiting = deque((job, _sent((job, list(missing)), job)) for job, missing in todo)
    _sent(protocol, protocol)
    pool: list[_Worker] = []
    started = False  # whether any worker has
    with tempfile.TemporaryDirectory(prefix="hashstream-", ignore_cleanup_errors=True) as folder:
        features = Path(folder) / "X.npy"
        np.save(features, data.X)
        task = (str(features), replace(data, X=data.X[:0]), protocol, ties)
        try:
            while waiting or any(worker.job for worker in pool):
                while len(pool) < workers and len(waiting) > sum(worker.job is None for worker in pool):
                    pool.append(_Worker(task))
                for pipe in wait([worker.pipe for worker in pool]):
                    worker = next(worker for worker in pool if worker.pipe is pipe)
                    job, message = worker.job, worker.receive()
                    if message is None:
                        pool.remove(worker)
                        how = worker.how_it_ended()
                        if not worker.ready and not started:
                            raise WorkerError(_NOT_STARTED.format(how=how))
                        if not worker.ready:  # the machine has room for fewer
                            workers = len(pool)
                            if not pool:
                                raise WorkerError(_NONE_LEFT.format(how=how, left=len(waiting)))
                        if job is not None:
                            yield job, JobEnd(lost=how)
                    elif isinstance(message, BaseException):
                        raise message
                    elif job is not None:
                        yield job, message
                    started = started or worker.ready
                    if message == READY or isinstance(message, JobEnd):
                        worker.take(waiting.popleft() if waiting else None)
        finally:
            for worker in pool:
                worker.end()


_NOT_STARTED = (
    "a worker process {how} before its first job. In a script, call with workers=1, or below "
    'if __name__ == "__main__": since every worker imports the script.'
)

_NONE_LEFT = (
    "a worker process {how} before it could take a job, and there is no other left; jobs not started: {left}. "
    "The results so far are kept: repeat the call to continue, with fewer workers if memory was short."
)


class _Worker:
    """A worker process, in the parent.

    job: its current job, None while it starts and when there are no more. ready: whether it has started.
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
        """The next message, or None if the worker has ended."""
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.ready = True
        return message

    def take(self, work: tuple[Job, bytes] | None) -> None:
        """Start a job; None if there are no more."""
        self.job, packed = work or (None, b"")
        if work is not None:
            with suppress(OSError):  # it has died, as the next `receive` will find
                self.pipe.send_bytes(packed)

    def how_it_ended(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            killed = ", as the system does when memory runs out" if name == "SIGKILL" else ""
            return f"was killed ({name}{killed})"
        return f"ended with exit code {code}"

    def end(self) -> None:
        self.process.kill()  # it has nothing to clean up
        self.process.join()
        self.pipe.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all of them: their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # else the first worker starts it, which unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Pickler(pickle.Pickler):
    """Refuses functions and classes of the running script or notebook, which a new process could not import."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__":
            raise pickle.PicklingError(f"{thing.__qualname__} is defined in the running script or notebook")
        return NotImplemented


def _sent(thing: Any, name: object) -> bytes:
    """Pickle a thing for a worker; ValueError, with `name`, if that is impossible."""
    packed = io.BytesIO()
    try:
        _Pickler(packed).dump(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{name} cannot be sent to another process: {error}. Put the class into a module of its own and "
            "import it from there, or use workers=1."
        ) from error
    return packed.getvalue()


# ---- in the worker


def _serve(pipe: Connection, features: str, data: PreparedDataset, protocol: Protocol, ties: Ties) -> None:
    """Work in a worker process until the parent ends it or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        data = replace(data, X=np.load(features, mmap_mode="r"))
        pipe.send(READY)
        while True:
            pipe.send(_work(pipe, pipe.recv_bytes(), data, protocol, ties))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone


def _work(
    pipe: Connection, packed: bytes, data: PreparedDataset, protocol: Protocol, ties: Ties
) -> JobEnd | Exception:
    """Run one job, report its progress, and return its end."""
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
        job, missing = pickle.loads(packed)
        for checkpoint in run_job(job, data, protocol, missing, ties, count):
            tell()
            pipe.send(checkpoint)
        ending: JobEnd | Exception = JobEnd(learned)
    except BrokenPipeError:
        raise
    except DivergenceError as problem:
        ending = JobEnd(learned, diverged=str(problem) or type(problem).__name__)
    except Exception as problem:
        ending = _portable(problem)
    tell()
    return ending


def _portable(problem: Exception) -> Exception:
    """The exception with its traceback as a note; a RuntimeError if it cannot be pickled."""
    note = f"In a worker process:\n{''.join(traceback.format_exception(problem))}"
    try:
        problem.add_note(note)
        pickle.loads(pickle.dumps(problem))
    except Exception:
        problem = RuntimeError(f"{type(problem).__name__}: {problem}")
        problem.add_note(note)
    return problem
