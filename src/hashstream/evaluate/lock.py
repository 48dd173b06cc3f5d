"""One writer a results file: a lock that the system drops when its holder dies, and that says who holds it."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

__all__ = ["WriterLock"]

PATIENCE = 1.0  # seconds: as long as somebody may take to append some rows

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 20  # a byte beyond the text, which others must be able to read

    def _take(file: IO[bytes]) -> None:
        file.seek(FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriterLock:
    """The right to write to `target`, taken on creation and given back by `release` or by the process's end.

    It is a lock of the system's on a file beside the target, which names the holder. A file that a crash leaves behind
    is locked by nobody, and blocks nobody.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.lock")
        until = time.monotonic() + PATIENCE
        while (file := self._attempt()) is None:
            if time.monotonic() > until:
                raise ValueError(
                    f"{target} is being measured into by {_holder(self.path)}: wait for it, or take another folder"
                )
            time.sleep(0.02)
        self._file = file
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        with suppress(OSError):  # on a full disk: the lock holds without a name
            file.truncate(0)
            file.write(json.dumps(me).encode())

    def _attempt(self) -> IO[bytes] | None:
        file = self.path.open("a+b", buffering=0)
        try:
            _take(file)
            if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                return file
        except OSError:  # somebody has it, or has just removed the file on releasing it
            pass
        file.close()
        return None

    def release(self) -> None:
        with suppress(OSError):
            if sys.platform != "win32":  # which removes no file that is open
                self.path.unlink()
        self._file.close()


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_bytes())
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
