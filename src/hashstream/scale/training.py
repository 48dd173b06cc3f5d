"""Learning of parts on Ray: `ray_map`, a `map` for `hashstream.fit_parts`.

Ray places tasks, moves arguments and results, and repeats a task whose process or machine is lost. A task learns one
part on one core. The hasher to start with is sent once per machine, and a part as what it is: of a `FilePart` only the
path, which every machine must be able to read. Learners come back as the bytes that `hashstream.save` writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from hashstream.hashers import OnlineHasher, PartProgress, fit_parts
from hashstream.hashers.parts import Learned, Part, Task
from hashstream.scale.connection import connected, import_ray

__all__ = ["fit_parts_on_ray", "ray_map"]

H = TypeVar("H", bound=OnlineHasher)

AHEAD = 2
"""Tasks per core that are handed to Ray: more would fill its memory with learners that wait to be merged."""


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

    A task whose process or machine is lost is done again, as often as it takes. An exception of the function is raised
    here as it is, and ends what runs.
    """
    ray = import_ray()
    remote = ray.remote(num_cpus=1, max_retries=-1)(_call)
    shared = ray.put(function)
    left = iter(tasks)
    running: set[Any] = set()
    try:
        while True:
            room = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))) - len(running)
            for task in islice(left, max(0, room)):
                running.add(remote.options(name=f"learn {task.name}").remote(shared, task))
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            running.difference_update(done)
            yield from (_result(ray, one) for one in done)
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
