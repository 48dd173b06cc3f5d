"""Learning of parts on Ray: `ray_map`, a `map` for `hashstream.fit_parts`.

Ray places tasks, and moves arguments and results; a task whose process or machine is lost is repeated. A task learns
one part on one core. The hasher to start with is sent once per machine, and a part as what it is: of a `FilePart` only
the path, which every machine must be able to read. Learners come back as the bytes that `hashstream.save` writes.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

from hashstream.hashers import OnlineHasher, PartProgress, fit_parts
from hashstream.hashers.parts import Learned, Part, PartError, Task
from hashstream.scale.connection import connected, import_ray

__all__ = ["fit_parts_on_ray", "ray_map"]

log = logging.getLogger("hashstream.scale")

H = TypeVar("H", bound=OnlineHasher)

AHEAD = 2
"""Tasks per core that are handed to Ray: more would fill its memory with learners that wait to be merged."""

DEATHS = 10  # of the processes of one task
PAUSE = 0.5  # seconds after the first of them; doubled after each: others may need the memory for some time
LONGEST_PAUSE = 60.0


def fit_parts_on_ray(
    hasher: H,
    parts: Iterable[Part],
    *,
    address: str | None = None,
    workers: int | None = None,
    work: str | os.PathLike[str] | None = None,
    keep: bool = True,
    rows: int | None = None,
    names: Sequence[str] | None = None,
    progress: Callable[[PartProgress], None] | None = None,
) -> H:
    """`hashstream.fit_parts` on Ray, with the same result, bit for bit on processors of one kind.

    address : of a running Ray; None starts one on this machine for the call, with `workers` processes (one per core by
        default), unless this process is connected already.
    work, keep, rows, names, progress : as in `fit_parts`. The folder `work` is only used by this process.
    """
    with connected(address, workers):
        return fit_parts(
            hasher, parts, map=ray_map, work=work, keep=keep, rows=rows, names=names, progress=progress
        )


def ray_map(function: Callable[[Task], Learned], tasks: Iterable[Task]) -> Iterator[Learned]:
    """Like the built-in `map`, on the Ray that this process is connected to; results come as they are finished.

    A task whose process or machine is lost is done again, after a pause; `PartError` names one that was lost `DEATHS`
    times. An exception of the function is raised here as it is. Both end what runs.
    """
    ray = import_ray()
    remote = ray.remote(num_cpus=1, max_retries=0)(
        _call
    )  # Ray's own retries where memory runs out have no limit
    shared = ray.put(function)
    left = iter(tasks)
    running: dict[Any, Task] = {}
    lost: list[tuple[float, Task]] = []  # when they are to be done again
    deaths: Counter[int] = Counter()
    try:
        while True:
            now, room = time.monotonic(), AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
            again = [task for when, task in lost if when <= now]
            lost = [one for one in lost if one[0] > now]
            for task in chain(again, islice(left, max(0, room - len(running) - len(again) - len(lost)))):
                running[remote.options(name=f"learn {task.name}").remote(shared, task)] = task
            pause = min(when for when, _ in lost) - now if lost else None
            if not running:
                if pause is None:
                    return
                time.sleep(pause)
                continue
            done, _ = ray.wait(list(running), num_returns=1, timeout=pause)
            for one in done:
                task = running.pop(one)
                try:
                    learned = _result(ray, one)
                except _losses(ray) as error:
                    deaths[task.number] += 1
                    lost.append((_after(task, deaths[task.number], error), task))
                else:
                    yield learned
    finally:
        for one in running:
            ray.cancel(one, force=True)


def _call(function: Callable[[Task], Learned], task: Task) -> Learned:
    return function(task)


def _result(ray: Any, one: Any) -> Learned:
    try:
        learned: Learned = ray.get(one)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    return learned


def _losses(ray: Any) -> tuple[type[Exception], ...]:
    """The errors of a task whose process or machine was lost, also after it was done."""
    known = ray.exceptions
    return known.WorkerCrashedError, known.NodeDiedError, known.OutOfMemoryError, known.ObjectLostError


def _after(task: Task, deaths: int, error: Exception) -> float:
    """When a task that was lost is done again; `PartError` where it was lost too often."""
    why = (str(error).strip().splitlines() or [""])[0]
    if deaths >= DEATHS:
        raise PartError(
            f"{task.name}: the process that learned it was lost {deaths} times, as where memory runs out or compiled "
            f"code crashes ({type(error).__name__}: {why}). With smaller parts or fewer workers it needs less memory"
        ) from error
    log.warning(
        "%s: its process was lost, %d of %d times: it is learned again (%s)", task.name, deaths, DEATHS, why
    )
    return time.monotonic() + min(PAUSE * 2.0 ** (deaths - 1), LONGEST_PAUSE)
