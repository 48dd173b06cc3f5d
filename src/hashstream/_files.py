"""Files that are written completely or not at all, and locks on files that name their holder."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["atomic_path", "lock", "lock_holder", "write_file", "write_holder"]


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`. The file written there replaces `path` unless the block raises.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder) / "notes.txt") as part:
    ...         _ = part.write_text("complete")
    ...     [file.name for file in Path(folder).iterdir()]
    ['notes.txt']
    """
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_file(path: Path, raw: bytes) -> None:
    """Write `raw` to `path`, whole or not at all, and wait until it is on the disk. An OSError names `path`."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file")
    if not path.parent.exists():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}")
    if not path.parent.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {path.parent} is not a folder")
    try:
        with atomic_path(path) as part, part.open("xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # which would name the temporary file
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error


if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 20  # a byte past the text, which other processes must be able to read

    def lock(handle: int) -> None:
        os.lseek(handle, FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def lock(handle: int) -> None:
        """Lock an open file exclusively; OSError if another process has it. Closing the file unlocks it."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_holder(handle: int) -> None:
    """Write into a locked file which process holds it."""
    me = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
    with suppress(OSError):  # on a full disk the lock works without a name
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(me).encode())


def lock_holder(path: Path) -> str:
    """The process that holds the lock on `path`, as the file says, for an error message."""
    try:
        found = json.loads(path.read_bytes())
        return f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
