"""MATLAB files, version 5 to 7.2 (read by SciPy) and 7.3 (HDF5, read by h5py), one variable at a time.

Shapes are as in MATLAB; HDF5 stores the dimensions in reverse. SciPy and HDF5 crash on some damaged files, so a file is
parsed in a separate process (`parser_process`).
"""

from __future__ import annotations

import importlib.util
import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hashstream._machine import check_memory
from hashstream.datasets import mat_parser
from hashstream.datasets.errors import DatasetError, reading
from hashstream.datasets.parser_process import Answers, parser

__all__ = ["Variable", "matrix", "variables", "vector"]

SPARE = 1 << 28  # bytes of memory that a parser may use for a file of any size


class Variable(NamedTuple):
    """The size of a variable as MATLAB shows it, and MATLAB's class ("double", "cell", ...)."""

    shape: tuple[int, ...]
    kind: str

    def __str__(self) -> str:
        return mat_parser.shown(self)


def variables(path: Path) -> dict[str, Variable]:
    """The variables of a MATLAB file by name; only the headers are read."""
    with _parser("variables", path) as answers:
        found = answers.line()["variables"]
        return {
            name: Variable(tuple(int(side) for side in shape), str(kind))
            for name, (shape, kind) in found.items()
        }


def matrix(path: Path, name: str, out: np.ndarray | None = None) -> np.ndarray:
    """The matrix `name`, (rows, columns) in C order: uint8 if it is stored so, else float32.

    out: a C-ordered array of that shape to fill, such as a view of a larger one.
    """
    with _parser("matrix", path, name) as answers:
        return _array(answers, path, name, out)


def vector(path: Path, name: str) -> np.ndarray:
    """The row or column `name` as (n,), with the stored type."""
    with _parser("vector", path, name) as answers:
        return _array(answers, path, name, None).reshape(-1)


def _array(answers: Answers, path: Path, name: str, out: np.ndarray | None) -> np.ndarray:
    """An array from the tiles that the parser sends. Its answers are not trusted."""
    head = answers.line()
    shape, dtype = tuple(head["shape"]), np.dtype(str(head["dtype"]))
    if len(shape) != 2 or not all(type(side) is int and 0 <= side < 1 << 48 for side in shape):
        raise ValueError(f"{name} has the shape {shape}")
    if dtype.kind not in "iufb" or dtype.itemsize > 8:
        raise ValueError(f"{name} is of type {dtype}")
    if out is None:
        check_memory(math.prod(shape) * dtype.itemsize)
        out = np.empty(shape, dtype)
    elif out.shape != shape:
        raise DatasetError(f"{path}: {name} is {' x '.join(map(str, shape))}, but expected {out.shape}")
    left = math.prod(shape)
    while "end" not in (head := answers.line()):
        top, bottom, first, last = (int(side) for side in head["tile"])
        n = (bottom - top) * (last - first)
        if not (0 <= top < bottom <= shape[0] and 0 <= first < last <= shape[1] and n <= left):
            raise ValueError(f"a part of {name} is out of place")
        raw = answers.bytes(n * dtype.itemsize)
        out[top:bottom, first:last] = np.frombuffer(raw, dtype).reshape(bottom - top, last - first)
        left -= n
    if left:
        raise EOFError(f"{left:,} numbers of {name} are missing")
    return out


def _parser(command: str, path: Path, name: str = "") -> AbstractContextManager[Answers]:
    """Start a process that parses the file."""
    with reading(path, "MATLAB file"):
        size = path.stat().st_size
        if mat_parser.is_hdf5(str(path)) and importlib.util.find_spec("h5py") is None:
            raise DatasetError(
                f"{path} is a MATLAB 7.3 file, which is HDF5: reading it needs h5py: pip install 'hashstream[mat]'"
            )
    most = SPARE + 2 * mat_parser.RATIO * size
    return parser(mat_parser.__file__, path, "MATLAB file", most, command=command, name=name)
