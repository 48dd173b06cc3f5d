"""A lock that lets one process at a time write a results file."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from hashstream._files import lock, lock_holder, write_holder

PATIENCE = 1.0  # seconds to wait: appending a few rows takes less


class WriterLock:
    """The right to write to `target`, held from creation until `release` or the end of the process.

    The lock is the operating system's, on the file TARGET.lock, which names the holder. A file left by a crash is not
    locked and blocks nobody.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.lock")
        deadline = time.monotonic() + PATIENCE
        while (handle := self._attempt()) is None:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"{target} is in use by {lock_holder(self.path)}: wait for it to finish, or use another folder"
                )
            time.sleep(0.02)
        self._handle = handle
        write_holder(handle)

    def _attempt(self) -> int | None:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644)
        try:
            lock(handle)
            if os.path.samestat(os.fstat(handle), self.path.stat()):
                return handle
        except OSError:  # another process holds it, or has just removed the file on releasing it
            pass
        os.close(handle)
        return None

    def release(self) -> None:
        if os.name != "nt":  # Windows does not remove an open file
            with suppress(OSError):
                self.path.unlink()
        os.close(self._handle)
