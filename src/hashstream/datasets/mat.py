"""MATLAB files, version 5 to 7.2 (by SciPy) and 7.3 (which is HDF5, by h5py), one variable at a time.

Shapes are as MATLAB shows them. HDF5 keeps the dimensions of a MATLAB array in reverse, which is undone here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.io

from hashstream.datasets.folders import DatasetError

__all__ = ["Variable", "matrix", "variables", "vector"]

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NUMBERS = (
    "double",
    "single",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_PIECE = 1 << 22  # numbers that are converted at a time: 32 MB of doubles

_UNREADABLE = (
    scipy.io.matlab.MatReadError,
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    RuntimeError,
    MemoryError,
    zlib.error,
)
"""What the readers raise on a file that is cut short, altered, or none of MATLAB's."""


class Variable(NamedTuple):
    """What a file says of one variable: its size as MATLAB shows it, and MATLAB's class ("double", "cell", ...)."""

    shape: tuple[int, ...]
    kind: str

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape))} {self.kind}"


def variables(path: Path) -> dict[str, Variable]:
    """The variables of a MATLAB file by name; only the headers are read."""
    with _reading(path):
        if not _is_hdf5(path):
            return {name: Variable(tuple(shape), kind) for name, shape, kind in scipy.io.whosmat(path)}
        with _h5py(path).File(path) as file:
            return {name: _variable(file[name]) for name in file if not name.startswith("#")}


def matrix(path: Path, name: str, out: np.ndarray | None = None) -> np.ndarray:
    """The matrix `name`, (rows, columns) in C order: uint8 where it is stored as that, else float32.

    Doubles are converted piece by piece, so beside the result there is one piece of a 7.3 file, or the one array
    of an older file, never two copies. out: a C-ordered array of that shape to fill, as a view of a larger one.
    """
    stored = _numbers(path, name)
    if len(stored.shape) != 2 or 0 in stored.shape:
        raise DatasetError(f"{path}: {name} is {stored}, which is no matrix")
    with _reading(path), np.errstate(over="ignore"):  # what float32 cannot hold becomes inf: the caller looks
        if out is None:
            out = np.empty(stored.shape, np.uint8 if stored.kind == "uint8" else np.float32)
        if _is_hdf5(path):
            with _h5py(path).File(path) as file:
                for rows, columns in _tiles(file[name]):
                    out[rows, columns] = file[name][columns, rows].T
        else:
            whole = scipy.io.loadmat(path, variable_names=[name])[name]
            step = max(1, _PIECE // whole.shape[1])
            for begin in range(0, len(whole), step):
                out[begin : begin + step] = whole[begin : begin + step]
    return out


def vector(path: Path, name: str) -> np.ndarray:
    """The numbers of `name`, a row or a column, as (n,) of the type in which they are stored."""
    stored = _numbers(path, name)
    if len(stored.shape) != 2 or 1 not in stored.shape:
        raise DatasetError(f"{path}: {name} is {stored}, which is neither a row nor a column")
    with _reading(path):
        if _is_hdf5(path):
            with _h5py(path).File(path) as file:
                return np.asarray(file[name]).reshape(-1)
        return np.asarray(scipy.io.loadmat(path, variable_names=[name])[name]).reshape(-1)


def _numbers(path: Path, name: str) -> Variable:
    """What is stored under `name`, which has to be a full array of numbers."""
    there = variables(path)
    if name not in there:
        listed = ", ".join(f"{other} ({what})" for other, what in there.items())
        raise DatasetError(f"{path} has no variable {name}: it has {listed or 'none'}")
    if there[name].kind not in _NUMBERS:
        raise DatasetError(f"{path}: {name} is {there[name]}, which is no full array of numbers")
    return there[name]


def _is_hdf5(path: Path) -> bool:
    """MATLAB begins a 7.3 file with 512 bytes of its own; other programs may not."""
    with path.open("rb") as file:
        begin = file.read(520)
    return begin.startswith(_HDF5) or begin[512:] == _HDF5


def _h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise DatasetError(
            f"{path} is a MATLAB 7.3 file, which is HDF5: install h5py to read it, pip install 'hashstream[mat]'"
        ) from error
    return h5py


def _variable(stored: Any) -> Variable:
    """What an HDF5 object says of itself; groups are structs and sparse matrices."""
    kind = stored.attrs.get("MATLAB_class", b"")
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if not hasattr(stored, "shape"):
        sparse = "MATLAB_sparse" in stored.attrs
        return Variable((), f"sparse {kind}" if sparse else kind or "struct")
    if "MATLAB_empty" in stored.attrs:  # what is stored is the size then
        return Variable(tuple(int(side) for side in np.asarray(stored).reshape(-1)), kind)
    if not kind:  # not written by MATLAB
        kind = {"float64": "double", "float32": "single"}.get(str(stored.dtype), str(stored.dtype))
    shape = stored.shape[::-1]
    return Variable(shape if len(shape) > 1 else (*shape, *(1,) * (2 - len(shape))), kind)


def _tiles(stored: Any) -> Iterator[tuple[slice, slice]]:
    """Rows and columns, as MATLAB counts them, of pieces that cover an HDF5 matrix.

    A piece is made of whole chunks, so that a compressed chunk is unpacked once.
    """
    d, n = stored.shape
    wide, tall = stored.chunks or (d, 1)
    tall *= max(1, _PIECE // (wide * tall))
    for left in range(0, d, wide):
        for top in range(0, n, tall):
            yield slice(top, min(top + tall, n)), slice(left, min(left + wide, d))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """An error of the readers becomes one that names the file."""
    try:
        yield
    except DatasetError:
        raise
    except _UNREADABLE as error:
        raise DatasetError(f"{path} cannot be read as a MATLAB file ({error})") from error
