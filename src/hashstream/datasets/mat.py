"""MATLAB files, version 5 to 7.2 (by SciPy) and 7.3 (which is HDF5, by h5py), one variable at a time.

Shapes are as MATLAB shows them. HDF5 keeps the dimensions of a MATLAB array in reverse, which is undone here.

Some damaged files end the process that reads them, within SciPy or HDF5. So a file is parsed in a process of its own
(`mat_parser`), with limits of memory and time, which hands numbers back through a pipe. A call takes about half a second
more for that.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from hashstream.datasets import mat_parser
from hashstream.datasets.folders import DatasetError, reading
from hashstream.datasets.memory import available_memory, check_memory

__all__ = ["Variable", "matrix", "variables", "vector"]

MAX_LINE = 1 << 22  # bytes of JSON in the child's answer: the names of a file
SECONDS, BYTES_PER_SECOND = 60.0, 2e6  # a child may take so long, and longer for a large file
SPARE = 1 << 28  # bytes of memory that a child may take whatever the size of the file


class Variable(NamedTuple):
    """What a file says of one variable: its size as MATLAB shows it, and MATLAB's class ("double", "cell", ...)."""

    shape: tuple[int, ...]
    kind: str

    def __str__(self) -> str:
        return mat_parser.shown(self)


def variables(path: Path) -> dict[str, Variable]:
    """The variables of a MATLAB file by name; only the headers are read."""
    with _child("variables", path) as answers:
        found = _line(answers, path)["variables"]
        return {name: Variable(tuple(int(side) for side in shape), str(kind)) for name, (shape, kind) in found.items()}


def matrix(path: Path, name: str, out: np.ndarray | None = None) -> np.ndarray:
    """The matrix `name`, (rows, columns) in C order: uint8 where it is stored as that, else float32.

    out: a C-ordered array of that shape to fill, as a view of a larger one.
    """
    with _child("matrix", path, name) as answers:
        return _array(answers, path, name, out)


def vector(path: Path, name: str) -> np.ndarray:
    """The numbers of `name`, a row or a column, as (n,) of the type in which they are stored."""
    with _child("vector", path, name) as answers:
        return _array(answers, path, name, None).reshape(-1)


def _array(answers: IO[bytes], path: Path, name: str, out: np.ndarray | None) -> np.ndarray:
    """An array from the tiles that a child sends. Nothing that it says is taken on trust."""
    head = _line(answers, path)
    shape, dtype = tuple(head["shape"]), np.dtype(str(head["dtype"]))
    if len(shape) != 2 or not all(type(side) is int and 0 <= side < 1 << 48 for side in shape):
        raise ValueError(f"{name} has the shape {shape}")
    if dtype.kind not in "iufb" or dtype.itemsize > 8:
        raise ValueError(f"{name} is of type {dtype}")
    if out is None:
        check_memory(math.prod(shape) * dtype.itemsize)
        out = np.empty(shape, dtype)
    elif out.shape != shape:
        raise DatasetError(f"{path}: {name} is {' x '.join(map(str, shape))}, but there is room for {out.shape}")
    left = math.prod(shape)
    while "end" not in (head := _line(answers, path)):
        top, bottom, first, last = (int(side) for side in head["tile"])
        n = (bottom - top) * (last - first)
        if not (0 <= top < bottom <= shape[0] and 0 <= first < last <= shape[1] and n <= left):
            raise ValueError(f"a part of {name} is out of place")
        raw = answers.read(n * dtype.itemsize)
        if len(raw) < n * dtype.itemsize:
            raise EOFError("the reader stopped early")
        out[top:bottom, first:last] = np.frombuffer(raw, dtype).reshape(bottom - top, last - first)
        left -= n
    if left:
        raise EOFError(f"{left:,} numbers of {name} are missing")
    return out


def _line(answers: IO[bytes], path: Path) -> dict[str, Any]:
    """The next line of an answer; an error that the child has sent is raised."""
    raw = answers.readline(MAX_LINE)
    if not raw.endswith(b"\n"):
        raise EOFError("the reader stopped early" if len(raw) < MAX_LINE else "it has too many variables")
    fields = json.loads(raw)
    if "error" in fields:
        if "refused" in fields:
            colon = "" if fields["error"].startswith(("has ", "is ")) else ":"
            raise DatasetError(f"{path}{colon} {fields['error']}")
        raise ValueError(fields["error"])
    return dict(fields)


@contextmanager
def _child(command: str, path: Path, name: str = "") -> Iterator[IO[bytes]]:
    """A process that parses the file, and its answers. It has ended when the block has."""
    with reading(path, "a MATLAB file"):
        size = path.stat().st_size
        if mat_parser.is_hdf5(str(path)) and importlib.util.find_spec("h5py") is None:
            raise DatasetError(
                f"{path} is a MATLAB 7.3 file, which is HDF5: install h5py to read it, pip install 'hashstream[mat]'"
            )
        most = min(available_memory(), SPARE + 2 * mat_parser.RATIO * size)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        process = subprocess.Popen(
            [sys.executable, "-P", mat_parser.__file__, command, str(path), name, str(most)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        seconds = SECONDS + size / BYTES_PER_SECOND
        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        assert process.stdout is not None
        try:
            yield process.stdout
        except EOFError as error:
            code = process.wait()  # its output has ended, so it has, or will at once
            if late.is_set():
                raise ValueError(f"reading it took longer than {seconds:.0f} seconds") from error
            if code:
                raise ValueError(f"the reader crashed on it, {_ending(code)}") from error
            raise
        finally:
            timer.cancel()
            process.stdout.close()
            process.kill()
            process.wait()


def _ending(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"
