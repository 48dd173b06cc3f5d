"""The files of an open SQLite database, as others see them: what may happen to them, in sentences."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path

from hashstream._files import lock_holder
from hashstream.table.errors import REOPEN, Closed, DiskFull, TableError, failed
from hashstream.table.storage.folder.lock import LOCK

__all__ = ["OpenFiles", "explained"]

PROBE = 1 << 16  # bytes


class OpenFiles:
    """The database at `path`, its log and the index of its log, watched while they are open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, os.stat_result] = {}

    def check(self) -> None:
        """TableError where a file of the database was deleted, replaced or cut while it was open: what is written to it
        would be lost.

        SQLite maps `-shm`, so to read what was cut off would end the process. It is an index of the log, which SQLite
        makes again where it finds zeros, so its length is restored.
        """
        for name in (str(self.path), f"{self.path}-wal", f"{self.path}-shm"):
            known = self._known.get(name)
            try:
                found = os.stat(name)
            except FileNotFoundError:
                if known is not None:
                    raise TableError(f"{name} was deleted while the table was open: {REOPEN}") from None
                continue
            if known is not None and (found.st_ino, found.st_dev) != (known.st_ino, known.st_dev):
                raise TableError(f"{name} was replaced while the table was open: {REOPEN}")
            if known is not None and found.st_size < known.st_size:
                if not name.endswith("-shm"):
                    raise TableError(f"{name} was cut while the table was open: {REOPEN}")
                os.truncate(name, known.st_size)
                continue
            self._known[name] = found


def explained(path: Path, error: sqlite3.Error, wait: float) -> TableError:
    """A sentence about an error of SQLite. wait : seconds that it waits for a lock."""
    text = str(error)
    if isinstance(error, sqlite3.ProgrammingError):  # a connection that was closed, by another thread perhaps
        return (Closed if "closed" in text else TableError)(f"{path} cannot be used: {text}")
    if "full" in text:
        return DiskFull(f"the disk is full: {path} could not be written. The table is as it was before.")
    if "readonly" in text:
        return TableError(
            f"{path} cannot be used: this user lacks permission to write to {path.parent}, which SQLite "
            "needs even to read. Change its permissions, or copy the table to where you may write."
        )
    if "unable to open" in text and path.exists() and not os.access(path, os.R_OK):
        text = "this user lacks permission to read it. Change its permissions, or run this as its owner."
    if "locked" in text:
        return TableError(
            f"{path} has been locked for {wait} seconds by {lock_holder(path.with_name(LOCK))}, which may "
            "have been stopped while it was closing the table: let it go on, or end it, and try again"
        )
    if any(words in text for words in ("lacks permission", "unable to open", "disk I/O error")):
        return (DiskFull if _is_full(path.parent) else TableError)(
            f"{path} cannot be read or written: {text}"
        )
    return TableError(f"{path} is damaged: {text}. Restore it from a copy; nothing was changed.")


def _is_full(folder: Path) -> bool:
    """Whether nothing more can be written: of a quota that is used up, SQLite only says that there was an error."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE))
            file.flush()
    except OSError as error:
        return failed(error) is DiskFull
    return False
