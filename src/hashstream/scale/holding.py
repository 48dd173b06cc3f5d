"""One program per cluster, unless its shards are shared on a running Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hashstream._files import lock, lock_holder
from hashstream.table.errors import TableLocked
from hashstream.table.storage.folder.lock import LOCK, WriterLock

__all__ = ["hold", "is_held", "patiently"]

T = TypeVar("T")

PATIENCE = 10.0  # seconds in which a process that was killed has to release its lock
MOMENT = 1.0  # seconds for which a program that looks whether a cluster is held may hold it


def patiently(
    take: Callable[[], T], folder: Path, *, path: Path | None = None, seconds: float | None = None
) -> T:
    """The value of a function that takes the lock of a folder, whose holder may be about to end.

    path : of the cluster or shard, for the error; the folder by default. seconds : to wait, PATIENCE by default.
    """
    end = time.monotonic() + (PATIENCE if seconds is None else seconds)
    while True:
        try:
            return take()
        except TableLocked:
            if time.monotonic() > end:
                raise TableLocked(
                    f"{path or folder} is open in another program, {lock_holder(folder / LOCK)}: close it there. To "
                    "use a cluster in several programs, run a Ray (`ray start --head`), and give its address to all of "
                    "them: address= of Cluster.open, --address of a command. docs/scale.md says how"
                ) from None
            time.sleep(0.1)


def is_held(folder: Path) -> bool:
    """Whether a program has the lock of a folder. Nothing is written there."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR)
    except OSError:  # never locked, or on a disk that cannot be written
        return False
    try:
        lock(handle)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def hold(folder: Path, *, shared: bool) -> WriterLock | None:
    """Take a cluster for this program; TableLocked where another one has it.

    shared : whether its shards are those of a running Ray, which take their locks themselves: then it only must not be
    held, and the result is None.
    """
    mine = _taken(folder, folder, MOMENT)
    if shared:
        mine.release()
        return None
    try:
        if (folder / "learner").is_dir():  # shards on a running Ray, or of a program that was killed just now
            _taken(folder / "learner", folder, PATIENCE).release()
    except BaseException:
        mine.release()
        raise
    return mine


def _taken(folder: Path, cluster: Path, seconds: float) -> WriterLock:
    return patiently(lambda: WriterLock(folder / LOCK), folder, path=cluster, seconds=seconds)
