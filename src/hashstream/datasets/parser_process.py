"""Parsers that run in a separate process, for files that may crash them.

SciPy's reader of MATLAB files, HDF5 and Arrow are large C and C++ programs, and some damaged files crash the process
that reads them. A parser is a script (`mat_parser`, `parquet_parser`) that imports nothing of hashstream. It gets its
task as JSON, has limits of memory and time, and answers with lines of JSON and raw bytes through a pipe. Its answers
are not trusted. Starting it takes about half a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from hashstream._machine import available_memory
from hashstream.datasets.errors import DatasetError, reading

__all__ = ["Answers", "parser"]

SECONDS, BYTES_PER_SECOND = 60.0, 1e6  # how long a parser may be silent, and more for a large file


class Answers:
    """The answers of a parser. It is killed if it keeps the reader waiting for too long. Time that the caller takes
    between two answers does not count."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: IO[bytes], path: Path, seconds: float) -> None:
        self._process, self._pipe, self._path = process, pipe, path
        self.seconds, self.late = seconds, False

    def _stop(self) -> None:
        self.late = True
        self._process.kill()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        timer = threading.Timer(self.seconds, self._stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def line(self, most: int = 1 << 22) -> dict[str, Any]:
        """The next line, of at most `most` bytes. An error from the parser is raised."""
        with self._waiting():
            raw = self._pipe.readline(most)
        if not raw.endswith(b"\n"):
            raise EOFError("the reader stopped early" if len(raw) < most else "its names are too long")
        fields = json.loads(raw)
        if not isinstance(fields, dict):
            raise ValueError("unexpected answer of the reader")
        if "error" in fields:
            if "refused" in fields:
                colon = "" if fields["error"].startswith(("has ", "is ")) else ":"
                raise DatasetError(f"{self._path}{colon} {fields['error']}")
            raise ValueError(fields["error"])
        return fields

    def bytes(self, n: int) -> bytes:
        """The next n bytes."""
        with self._waiting():
            raw = self._pipe.read(n)
        if len(raw) < n:
            raise EOFError("the reader stopped early")
        return raw


@contextmanager
def parser(script: str, path: Path, what: str, most: int, **task: Any) -> Iterator[Answers]:
    """Start a parser of the file; it ends with the block. Errors become a DatasetError that names the file.

    what : such as "Parquet file". most : bytes of memory that it may use beyond its libraries, if available.
    task : for the script, as JSON.
    """
    with reading(path, what):
        size = path.stat().st_size
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # other pools reserve more than they use
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        process = subprocess.Popen(
            [sys.executable, "-P", script, str(path), str(min(available_memory(), most)), json.dumps(task)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent alone
        )
        assert process.stdout is not None
        answers = Answers(process, process.stdout, path, SECONDS + size / BYTES_PER_SECOND)
        try:
            yield answers
        except EOFError as error:
            code = process.wait()  # its output has ended, so it ends as well
            if answers.late:
                raise ValueError(f"reading it took longer than {answers.seconds:.0f} seconds") from error
            if code:
                how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                raise ValueError(f"the reader crashed on it, {how}") from error
            raise
        finally:
            process.stdout.close()
            process.kill()
            process.wait()
