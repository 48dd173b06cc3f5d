"""Ray's own messages kept away from the terminal."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hashstream.scale.connection import import_ray

__all__ = ["engine_hushed"]

STDERR = 2


@contextmanager
def engine_hushed() -> Iterator[None]:
    """Within the block, let everything that Ray says end up in a temporary file; end a Ray that was started in it.

    Ray writes from C++ and from threads, so the file descriptor is replaced. Python's `sys.stderr`, and so our own
    errors and bars, still reach the terminal.
    """
    was_up = _is_up()
    sys.stderr.flush()
    terminal = os.dup(STDERR)
    before, ours = sys.stderr, None
    with tempfile.TemporaryFile() as said, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray(\.|$)")
        os.dup2(said.fileno(), STDERR)
        with suppress(
            OSError, ValueError, AttributeError
        ):  # where a test has replaced it, it has no descriptor
            if before.fileno() == STDERR:
                with suppress(ImportError):
                    import_ray()  # its loggers take the stream that there is now
                ours = os.fdopen(os.dup(terminal), "w", buffering=1)
                sys.stderr = ours
        try:
            yield
        finally:
            if not was_up and _is_up():
                sys.modules["ray"].shutdown()
            before.flush()
            os.dup2(terminal, STDERR)
            os.close(terminal)
            sys.stderr = before
            if ours is not None:
                ours.close()


def _is_up() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())
