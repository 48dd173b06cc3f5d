"""Bodies of requests in each of their forms, right and wrong, and answers read back."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
IMAGE = "image/png"


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=True)
    return file.getvalue()


def npy_of(descr: str, shape: str, data: bytes = b"", *, pad: int = 64) -> bytes:
    """An .npy file whose header says what is given. pad : the data begins at a multiple of it."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % pad) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def npz(compression: int = zipfile.ZIP_STORED, **arrays: Any) -> bytes:
    """An .npz file; bytes are taken as they are for a member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", array if isinstance(array, bytes) else npy(array))
    return file.getvalue()


def arrow(columns: Any, **options: Any) -> bytes:
    """An Arrow stream. columns : name -> values, or a table. options : of `pyarrow.ipc.IpcWriteOptions`."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def vectors(X: np.ndarray) -> pa.Array:
    """A matrix as a column of Arrow."""
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])


def read_npz(raw: bytes) -> dict[str, Any]:
    """The arrays of an answer, and the values in its `json`."""
    with np.load(io.BytesIO(raw), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    return {**arrays, **json.loads(arrays.pop("json").item())}


def read_arrow(raw: bytes) -> pa.Table:
    with pa.ipc.open_stream(raw) as reader:
        return reader.read_all()
