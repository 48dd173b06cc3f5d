"""The errors of a table."""

from __future__ import annotations

import errno
from pathlib import Path

__all__ = [
    "REOPEN",
    "Closed",
    "DiskFull",
    "KeyReused",
    "OutcomeUnknown",
    "Overtaken",
    "ReadOnly",
    "SegmentMissing",
    "TableError",
    "TableLocked",
    "Unavailable",
    "failed",
    "forked",
    "not_opened",
    "not_written",
]

REOPEN = "nothing was changed. Close the table, restore the folder from a copy, and open it again."


class TableError(RuntimeError):
    """A table's folder is damaged, of another format, full or in use, or the table cannot do what was asked.

    The sentence names the file where there is one. What was stored before is untouched.
    """


class DiskFull(TableError):
    """A disk, or a quota, has no room for a change, which has not happened."""


class OutcomeUnknown(TableError):
    """A write was interrupted, or could not be synced: it may be stored or not. Closed and opened again, the table
    shows which."""


class ReadOnly(TableError):
    """The table was opened with `mode="read"`."""


class Closed(TableError):
    """The table is closed."""


class Unavailable(TableError):
    """A part of the table does not answer now. The call may be repeated; with its key, a write is done once."""


def failed(error: OSError) -> type[TableError]:
    """The class of the error about a file that could not be written."""
    return DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else TableError


def forked(path: Path, process: int) -> str:
    """The sentence about a table that a process has inherited by a fork."""
    return (
        f"{path} was opened by process {process}, of which this one is a fork: here it can only be searched. For more, "
        'fork before it is opened, or start processes afresh (multiprocessing\'s "spawn"), and open it there.'
    )


def not_written(path: Path, error: OSError) -> TableError:
    """The sentence about a write that failed."""
    kind = failed(error)
    what = "the disk is full" if kind is DiskFull else str(error)
    return kind(f"{what}: {path} could not be written. The table is as it was before the call.")


def not_opened(path: Path, error: OSError, *, write: bool) -> TableError:
    """The sentence about a file that could not be opened, `path` where the error does not name it."""
    file = error.filename or path
    if isinstance(error, PermissionError):
        access = "read and write" if write else "read"
        return TableError(
            f"{file} cannot be opened: this user lacks permission to {access} it. Change its permissions, or run this "
            "as its owner."
        )
    remedy = (
        ' To only read the table, open it with mode="read".' if write and error.errno == errno.EROFS else ""
    )
    return failed(error)(f"{file} cannot be opened: {error.strerror or error}.{remedy}")


class KeyReused(ValueError):
    """A key names a call that was done with other arguments: nothing was changed."""


class SegmentMissing(TableError):
    """A file of features is missing; a reader may find that because a writer has compacted the table meanwhile."""


class Overtaken(Exception):
    """Slots were renumbered, or commits were added, since the state that was asked about: reload and ask again."""


class TableLocked(TableError):
    """Another process (or another table in this one) writes to the folder; the sentence says which."""
