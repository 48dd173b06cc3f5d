"""The parser of MATLAB files, which `mat` runs in a separate process (see `parser_process`).

Run as a script: `python mat_parser.py PATH MOST TASK`. It writes a line of JSON to its standard output and then,
for an array, tiles: a line of JSON with `tile` [top, bottom, left, right], and the bytes of that part in C order. The
last line is {"end": true}. An error is a line {"error": SENTENCE}. MOST is the number of bytes of memory that it may
use beyond its libraries.

It imports nothing of hashstream, so that it starts fast; `parquet_parser` repeats a few functions for the same reason.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

HDF5 = b"\x89HDF\r\n\x1a\n"
NUMBERS = {
    "double": 8,
    "single": 4,
    "logical": 1,
    **{f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)},
}
"""MATLAB's numeric classes, and their sizes in bytes."""
PIECE = 1 << 22  # numbers that are converted at a time: 32 MB of doubles
RATIO = 8 * 1100
"""Bytes that one byte of a file can stand for: DEFLATE gives 1,032, and a double may be stored in one byte."""


class Refused(Exception):
    """An error whose message the parent raises as it is."""


Variable = tuple[tuple[int, ...], str]
"""The size of a variable as MATLAB shows it, and MATLAB's class ("double", "cell", ...)."""


def is_hdf5(path: str) -> bool:
    """MATLAB begins a 7.3 file with 512 bytes of its own; other programs may not."""
    with open(path, "rb") as file:
        begin = file.read(520)
    return begin.startswith(HDF5) or begin[512:] == HDF5


def variables(path: str) -> dict[str, Variable]:
    """The variables of a MATLAB file by name; only the headers are read."""
    if is_hdf5(path):
        import h5py

        with h5py.File(path) as file:
            return {
                name: ((), "link") if _leads_elsewhere(file, name) else _variable(file[name])
                for name in file
                if not name.startswith("#")
            }
    import scipy.io

    return {name: (tuple(int(side) for side in shape), kind) for name, shape, kind in scipy.io.whosmat(path)}


def tiles_of_matrix(path: str, name: str) -> Iterator[Any]:
    """The shape and dtype of a matrix, then ((top, bottom, left, right), part) for parts that cover it.

    uint8 if it is stored so, else float32. Doubles are converted in pieces, so memory holds one piece of a 7.3 file, or
    the array of an older file.
    """
    shape, kind = _numbers(path, name)
    if len(shape) != 2 or 0 in shape:
        raise Refused(f"{name} is {shown((shape, kind))}, which is not a matrix")
    dtype = np.dtype(np.uint8 if kind == "uint8" else np.float32)
    yield shape, dtype
    with np.errstate(over="ignore"):  # numbers too large for float32 become inf, which the caller refuses
        if is_hdf5(path):
            import h5py

            with h5py.File(path) as file:
                for rows, columns in tiles(file[name]):
                    part = np.ascontiguousarray(file[name][columns, rows].T, dtype)
                    yield (rows.start, rows.stop, columns.start, columns.stop), part
        else:
            whole = _loaded(path, name, shape)
            step = max(1, PIECE // shape[1])
            for begin in range(0, len(whole), step):
                part = np.ascontiguousarray(whole[begin : begin + step], dtype)
                yield (begin, begin + len(part), 0, shape[1]), part


def tiles_of_vector(path: str, name: str) -> Iterator[Any]:
    """The same for a row or a column, with the stored type, as a matrix of one column."""
    shape, kind = _numbers(path, name)
    if len(shape) != 2 or 1 not in shape:
        raise Refused(f"{name} is {shown((shape, kind))}, which is neither a row nor a column")
    if is_hdf5(path):
        import h5py

        with h5py.File(path) as file:
            values = np.asarray(file[name]).reshape(-1)
    else:
        values = _loaded(path, name, shape).reshape(-1)
    if values.dtype.kind not in "iufb" or values.dtype.itemsize > 8 or len(values) != math.prod(shape):
        raise Refused(f"{name} does not match its header")
    values = values.astype(values.dtype.newbyteorder("<"))
    yield (len(values), 1), values.dtype
    yield (0, len(values), 0, 1), values


def tiles(stored: Any) -> Iterator[tuple[slice, slice]]:
    """Rows and columns, as MATLAB counts them, of pieces that cover an HDF5 matrix.

    A piece consists of whole chunks, so that a compressed chunk is unpacked once.
    """
    d, n = stored.shape
    wide, tall = stored.chunks or (d, 1)
    tall *= max(1, PIECE // (wide * tall))
    for left in range(0, d, wide):
        for top in range(0, n, tall):
            yield slice(top, min(top + tall, n)), slice(left, min(left + wide, d))


def shown(variable: Variable) -> str:
    """A variable for messages.

    >>> shown(((20, 5), "double"))
    '20 x 5 double'
    """
    shape, kind = variable
    return f"{' x '.join(map(str, shape))} {kind}"


def _loaded(path: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The array of a file that is not HDF5."""
    import scipy.io

    whole = scipy.io.loadmat(path, variable_names=[name])[name]
    if not isinstance(whole, np.ndarray) or whole.shape != shape or whole.dtype.kind not in "iufb":
        raise Refused(f"{name} does not match its header")
    return whole


def _numbers(path: str, name: str) -> Variable:
    """The variable `name`, which has to be a full array of numbers, of a size that the file can hold."""
    there = variables(path)
    if name not in there:
        listed = ", ".join(f"{other} ({shown(what)})" for other, what in list(there.items())[:100])
        raise Refused(f"has no variable {name}: it has {listed or 'none'}")
    shape, kind = there[name]
    if kind not in NUMBERS:
        raise Refused(f"{name} is {shown(there[name])}, which is not a full array of numbers")
    n_bytes, size = math.prod(shape) * NUMBERS[kind], os.path.getsize(path)
    if n_bytes > RATIO * size or any(side < 0 for side in shape):
        raise Refused(f"{name} is {shown(there[name])}, {n_bytes:,} bytes in a file of {size:,}")
    return shape, kind


def _leads_elsewhere(file: Any, name: str) -> bool:
    """Whether a name is a link to another file."""
    import h5py

    return isinstance(file.get(name, getlink=True), h5py.ExternalLink)


def _variable(stored: Any) -> Variable:
    """The size and class of an HDF5 object; groups are structs and sparse matrices."""
    kind = stored.attrs.get("MATLAB_class", b"")
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if not hasattr(stored, "shape"):
        sparse = "MATLAB_sparse" in stored.attrs
        return (), f"sparse {kind}" if sparse else kind or "struct"
    if "MATLAB_empty" in stored.attrs:  # the stored values are the size
        if stored.size > 32:
            raise Refused("is damaged: an empty array has a size of more than 32 numbers")
        return tuple(int(side) for side in np.asarray(stored).reshape(-1)), kind
    if stored.is_virtual or stored.external:  # both lead to other files
        return (), "link"
    if stored.dtype.kind not in "iufb":  # whatever MATLAB's class says
        kind = str(stored.dtype)
    elif not kind:  # not written by MATLAB
        kind = {"float64": "double", "float32": "single"}.get(str(stored.dtype), str(stored.dtype))
    shape = tuple(int(side) for side in stored.shape[::-1])
    return shape if len(shape) > 1 else (*shape, *(1,) * (2 - len(shape))), kind


def main() -> None:
    path, most, task = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    out = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # libraries may print
    try:
        _import_readers(path)
        _limit(most)
        if task["command"] == "variables":
            _say(out, variables={key: [list(shape), kind] for key, (shape, kind) in variables(path).items()})
        else:
            parts = (tiles_of_matrix if task["command"] == "matrix" else tiles_of_vector)(path, task["name"])
            shape, dtype = next(parts)
            _say(out, shape=list(shape), dtype=dtype.str)
            for place, part in parts:
                _say(out, tile=list(place))
                out.write(part.data)
            _say(out, end=True)
    except Refused as error:
        _say(out, error=str(error), refused=True)
    except Exception as error:
        said = str(error) if not isinstance(error, MemoryError) else "it needs more memory than is available"
        _say(out, error=(said or type(error).__name__)[:500])
    out.flush()
    os._exit(0)  # no cleanup by libraries after a damaged file


def _import_readers(path: str) -> None:
    """Import libraries before memory is limited: they reserve more than they use."""
    if is_hdf5(path):
        import h5py  # noqa: F401
    else:
        import scipy.io  # noqa: F401


def _limit(most: int) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm") as file:
            held = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + most, held + most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _say(out: Any, **fields: Any) -> None:
    out.write(json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    main()
