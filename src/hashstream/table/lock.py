"""One writer a folder: a lock that the system drops when its holder dies, and that says who holds it."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from hashstream.table.errors import TableError, TableLocked, not_opened

__all__ = ["WriterLock"]

HELD = {
    errno.EAGAIN,
    errno.EWOULDBLOCK,
    errno.EACCES,
    errno.EDEADLK,
}  # what systems say of a lock that another has

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 20  # a byte beyond the text, which others must be able to read

    def _take(file: IO[bytes]) -> None:
        file.seek(FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

    def _drop(file: IO[bytes]) -> None:
        file.seek(FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _take(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _drop(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)


class WriterLock:
    """The right to write to a table's folder, taken on creation and given back by `release` or by the process's end.

    The file stays when it is released: only the system's lock on it counts, so there is nothing to clean up after a
    crash.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            file = path.open("a+b", buffering=0)
        except OSError as error:
            raise not_opened(path, error, write=True) from error
        try:
            _take(file)
        except OSError as error:
            file.close()
            if error.errno not in HELD:
                raise TableError(
                    f"{path} cannot be locked: {error.strerror}. A table needs a file system that has locks: keep it "
                    "on a local disk."
                ) from error
            raise TableLocked(
                f"{path.parent} is open for writing by {_holder(path)}; close it there, or open it here with "
                'mode="read"'
            ) from None
        self._file: IO[bytes] | None = file
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }
        with suppress(OSError):  # on a full disk: the lock holds without a name
            file.truncate(0)
            file.write(json.dumps(me).encode())

    def release(self) -> None:
        if self._file is not None:
            _drop(self._file)
            self._file.close()
            self._file = None


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_bytes())
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
