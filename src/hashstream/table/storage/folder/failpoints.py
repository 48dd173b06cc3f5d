"""Named moments at which a test may stop the process, or make a write fail.

`HASHSTREAM_FAILPOINT=commit.before:3` in the environment kills the process, as `kill -9` would, when it passes the
point `commit.before` for the third time. In one process, `on(name, action)` puts any callable there instead.
Where nothing is set, a point costs the look-up in an empty dict.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["NAMES", "OF_OLDER_FORMATS", "VARIABLE", "kill_at", "on", "reach"]

VARIABLE = "HASHSTREAM_FAILPOINT"

NAMES = (
    "create.before",  # a new table's database is written, under a name that does not count
    "create.after",
    "segment.create",  # before the file of a new segment is made
    "segment.write",  # before a batch's features are written
    "segment.written",  # they are written, but not yet on the disk
    "segment.synced",  # they are on the disk as far as fsync goes
    "commit.before",  # all rows are in the transaction, which is not yet committed
    "commit.after",  # it is committed, but the caller does not know
    "refresh.piece",  # a piece of a refresh is re-encoded, in memory
    "checkpoint.before",  # a checkpoint's rows are in its transaction
    "checkpoint.after",
    "snapshot.copied",  # the database of a snapshot is copied, its segments are not
    "compact.written",  # new segments are written, the database still names the old ones
    "compact.after",  # the database names the new ones, the old ones are still there
)

OF_OLDER_FORMATS = (
    "migrate.before",  # a database of an older format is stored in the format of today, in a transaction
    "migrate.after",
)
"""Those that only a folder of an older format passes."""

_actions: dict[str, Callable[[], None]] = {}


def reach(name: str) -> None:
    """Pass the point `name`."""
    if _actions and name in _actions:
        _actions[name]()


@contextmanager
def on(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Within the block, call `action` whenever the point is passed; what it raises is raised there."""
    if name not in NAMES + OF_OLDER_FORMATS:
        raise ValueError(f"there is no fail-point {name!r}; there are {', '.join(NAMES)}")
    before = _actions.get(name)
    _actions[name] = action
    try:
        yield
    finally:
        if before is None:
            del _actions[name]
        else:
            _actions[name] = before


def kill_at(text: str) -> None:
    """Set what the environment variable says: `name:count`, or `name` for the first time."""
    name, _, count = text.partition(":")
    if name not in NAMES + OF_OLDER_FORMATS or not (count or "1").isdigit():
        raise ValueError(
            f"{VARIABLE} is {text!r}: it has to be name:count, with a name among {', '.join(NAMES)}"
        )
    left = int(count or 1)

    def pass_or_die() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            _die()

    _actions[name] = pass_or_die


def _die() -> None:
    if hasattr(signal, "SIGKILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(137)


if os.environ.get(VARIABLE):
    kill_at(os.environ[VARIABLE])
