"""One writer per folder: locks that the system drops when their holder dies, and a file that says who holds them."""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import suppress
from pathlib import Path

from hashstream._files import lock, lock_holder, write_holder
from hashstream.table.errors import TableError, TableLocked, not_opened

__all__ = ["LOCK", "WriterLock"]

LOCK = "lock"  # the name of the file

HELD = {
    errno.EAGAIN,
    errno.EWOULDBLOCK,
    errno.EACCES,
    errno.EDEADLK,
}  # what systems say of a lock that another has
NOT_FOLDERS = {errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS}


class WriterLock:
    """The right to write to a table's folder, taken on creation and given back by `release` or by the process's end.

    Two locks are held: one on the file `lock`, which names the holder, and one on the folder itself, which holds even
    if somebody deletes that file. File systems that cannot lock a folder have the first one only.

    Both are released by closing their handles, never by unlocking them: a forked process inherits the handles, and
    unlocking its copies would unlock the parent's. The file stays: only the system's lock on it counts, so there is
    nothing to clean up after a crash.
    """

    def __init__(self, path: Path) -> None:
        """path : of the file, in the folder to be locked."""
        self.path = path
        self._handles: list[int] = []
        try:
            self._lock(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0))
            if os.name != "nt":
                self._lock_folder(path.parent)
            write_holder(self._handles[0])
        except BaseException:  # an interrupt among them
            self.release()
            raise

    def _lock(self, path: Path, flags: int) -> None:
        try:
            self._handles.append(os.open(path, flags, 0o644))
        except OSError as error:
            raise not_opened(path, error, write=True) from error
        try:
            lock(self._handles[-1])
        except OSError as error:
            if error.errno not in HELD:
                raise TableError(
                    f"{path} cannot be locked: {error.strerror}. A table needs a file system that has locks: keep it "
                    "on a local disk."
                ) from error
            raise TableLocked(
                f"{self.path.parent} is open for writing by {lock_holder(self.path)}; close it there, or open it here "
                'with mode="read"'
            ) from None

    def _lock_folder(self, folder: Path) -> None:
        try:
            self._lock(folder, os.O_RDONLY)
        except TableError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in NOT_FOLDERS:
                raise

    def release(self) -> None:
        """Close the handles; in a forked process, the parent keeps the lock. May be called again."""
        # In one call, or an interrupt between two of them would leave a handle that nobody knows, or close one twice.
        with suppress(IndexError):
            deque(map(os.close, iter(self._handles.pop, None)), maxlen=0)

    def __del__(self) -> None:
        with suppress(AttributeError):  # not even begun
            self.release()  # of a table that was not closed
