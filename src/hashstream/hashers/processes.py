"""`in_processes`: a `map` for `fit_parts` that learns several parts at once, in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import Any

from hashstream.hashers.parts import Map

__all__ = ["in_processes"]

AHEAD = 2
"""Tasks per worker that are handed out: the one that runs and the next, so that few results are in memory."""


@contextmanager
def in_processes(workers: int) -> Iterator[Map]:
    """Start `workers` processes, and yield a function like the built-in `map`, whose results come as they are finished.

    ChildProcessError where a process is killed; the same `fit_parts` with a `work` folder continues. A script must call
    it below `if __name__ == "__main__":`, as every process imports the script.
    """
    # Spawned, as a process with BLAS threads cannot be forked safely.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)

    def unordered(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        left = iter(tasks)
        running: set[Future[Any]] = {pool.submit(function, task) for task in islice(left, AHEAD * workers)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    running |= {pool.submit(function, task) for task in islice(left, 1)}
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process was killed, as the system does when memory runs out. The same command or call "
                "continues; with fewer workers it needs less memory"
            ) from error

    try:
        yield unordered
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """In a worker: end when the parent is killed, which leaves no message in the pool's queue."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait_for([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
