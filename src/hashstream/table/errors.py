"""The errors of a table."""

from __future__ import annotations

import errno
from pathlib import Path

__all__ = ["Overtaken", "SegmentMissing", "TableError", "TableLocked", "not_written"]


class TableError(RuntimeError):
    """A table's folder is damaged, of another format, full or in use, or the table cannot do what was asked.

    The sentence names the file where there is one. What was stored before is untouched.
    """


def not_written(path: Path, error: OSError) -> TableError:
    """The sentence about a write that failed."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    what = "the disk is full" if full else str(error)
    return TableError(f"{what}: {path} could not be written. The table is as it was before the call.")


class SegmentMissing(TableError):
    """A file of features is not there; for a reader, since a writer has written the folder anew meanwhile."""


class Overtaken(Exception):
    """What was looked up belongs to another state than the manifest's, which has moved on: look again."""


class TableLocked(TableError):
    """Another process (or another table in this one) writes to the folder; the sentence says which."""
