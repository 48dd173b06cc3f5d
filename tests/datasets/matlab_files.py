"""MATLAB files as MATLAB writes them: version 5 by SciPy, 7.3 by h5py with what MATLAB puts around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io

VERSIONS = ("5", "5, compressed", "7.3", "7.3, chunked and compressed")

CLASSES = {"float64": "double", "float32": "single", "bool": "logical"}


def save(path: Path, version: str, **arrays: np.ndarray) -> None:
    """Matrices, each (rows, columns) as MATLAB would show it."""
    if version.startswith("5"):
        scipy.io.savemat(path, arrays, do_compression=version != "5")
        return
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            how: dict[str, Any] = {}
            if array.size and version != "7.3":
                how = {"chunks": tuple(min(side, 5) for side in array.T.shape), "compression": "gzip"}
            content = array.T if array.size else np.array(array.shape, np.uint64)
            stored = file.create_dataset(name, data=np.ascontiguousarray(content), **how)
            if not array.size:
                stored.attrs["MATLAB_empty"] = np.uint8(1)
            stored.attrs["MATLAB_class"] = np.bytes_(CLASSES.get(str(array.dtype), str(array.dtype)))
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
