"""Arrays, rows and labels as bytes with a checksum: what the manifest's blobs are made of."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import numpy as np

from hashstream.hashers.labels import is_missing, missing_rows
from hashstream.table.errors import TableError

__all__ = [
    "checked",
    "checksum",
    "label_at",
    "pack",
    "pack_label",
    "pack_labels",
    "plain_labels",
    "same_checksum",
    "unpack",
    "unpack_label",
    "unpack_labels",
]

ALIGN = 8


def checksum(*fields: Any) -> int:
    """CRC-32 over the fields in turn: bytes and arrays as they are, all else as it is printed."""
    crc, small = 0, ""  # what is printed is gathered, since a call takes longer than a few bytes
    for field in fields:
        if isinstance(field, np.ndarray):
            field = np.ascontiguousarray(field).data.cast("B") if field.size else b""
        elif not isinstance(field, (bytes, memoryview)):
            small += f"\0{field!r}"
            continue
        crc = zlib.crc32(field, zlib.crc32(small.encode(), crc) if small else crc)
        small = ""
    return zlib.crc32(small.encode(), crc) if small else crc


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as one blob: a JSON line of names, dtypes and shapes, then the bytes of each."""
    head = json.dumps([[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]).encode()
    parts: list[bytes | memoryview] = [len(head).to_bytes(4, "little"), head]
    parts.append(b"\0" * (-(4 + len(head)) % ALIGN))
    for array in arrays.values():
        raw = np.ascontiguousarray(array).data.cast("B") if array.size else b""
        parts += [raw, b"\0" * (-len(raw) % ALIGN)]
    return b"".join(parts)


def unpack(raw: bytes) -> dict[str, np.ndarray]:
    """What `pack` was given, as read-only views of `raw`."""
    size = int.from_bytes(raw[:4], "little")
    at = 4 + size + -(4 + size) % ALIGN
    arrays = {}
    for name, dtype, shape in json.loads(raw[4 : 4 + size]):
        count = math.prod(shape)
        if count < 0:
            raise ValueError(f"an array has the shape {shape}")
        arrays[name] = np.frombuffer(raw, dtype, count, at).reshape(shape)
        n_bytes = count * np.dtype(dtype).itemsize
        at += n_bytes + -n_bytes % ALIGN
    return arrays


# ---- labels: exactly what was given, since the model is learned from them again


LABELS = "a table takes labels that are strings, real numbers or booleans, and None or NaN for none"


def plain_labels(y: np.ndarray) -> np.ndarray:
    """Labels, (n,) or (n, C), in a copy that comes back the same from a folder; objects are what Python has for them.

    y : as `as_labels` returns it. A missing label stays NaN in an array of floats and None among objects; a matrix of
    objects becomes one of floats. A TypeError names a label that a folder cannot hold.
    """
    if y.dtype.kind == "f" and y.dtype.itemsize > 8:
        return y.astype(np.float64)  # of a longer float there is no form that every machine reads
    if y.dtype.kind in "iufbU" or not y.ndim:  # the hasher refuses a scalar
        return y.copy()
    if y.dtype.kind not in "OT":
        raise TypeError(f"y is of {y.dtype.name}: {LABELS}")
    if y.ndim == 2:
        values = np.array(
            [
                [np.nan if label is None else _plain(label, row) for label in labels]
                for row, labels in enumerate(y.tolist())
            ]
        )
        if values.dtype.kind not in "iufb":
            raise TypeError(f"y is a matrix of shape {y.shape} that does not hold numbers only: {LABELS}")
        return values
    out = np.empty(len(y), object)
    out[:] = [None if label is None else _plain(label, row) for row, label in enumerate(y.tolist())]
    return out


def label_at(y: np.ndarray | None, row: int) -> Any:
    """The label of one row of a batch as Python has it, None where it is missing; a row of a matrix is an array.

    >>> label_at(np.array([3.5, np.nan]), 0), label_at(np.array([3.5, np.nan]), 1), label_at(None, 0)
    (3.5, None, None)
    """
    if y is None:
        return None
    label = y[row]
    if y.ndim == 2:
        return label.copy() if missing_rows(y[row : row + 1]) is None else None
    label = label.item() if isinstance(label, np.generic) else label
    return None if is_missing(label) else label


def pack_labels(y: np.ndarray | None) -> bytes | None:
    """The labels of a batch as `plain_labels` has them."""
    if y is None:
        return None
    if y.dtype.kind != "O":
        return pack({"y": y})
    text = json.dumps(y.tolist())
    return pack({"json": np.frombuffer(text.encode(), np.uint8)})


def unpack_labels(raw: bytes | None) -> np.ndarray | None:
    if raw is None:
        return None
    arrays = unpack(raw)
    if "y" in arrays:
        return arrays["y"]
    values = json.loads(arrays["json"].tobytes())
    y = np.empty(len(values), object)
    y[:] = values
    return y


def pack_label(label: Any) -> str:
    """One label, or one row of a label matrix, as JSON."""
    if isinstance(label, np.ndarray):
        return json.dumps(label.astype(int).tolist())
    label = label.item() if isinstance(label, np.generic) else label
    return str(label) if type(label) is int else json.dumps(label)


def unpack_label(text: str) -> Any:
    label = json.loads(text)
    return np.array(label, bool) if isinstance(label, list) else label


def _plain(label: Any, row: int) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, str):
        return str.__str__(label)  # of an enumeration, its value
    if isinstance(label, (bool, int, float)):
        return label
    raise TypeError(f"y[{row}] is of type {type(label).__name__}: {LABELS}")


def checked(where: str, found: int, *fields: Any) -> None:
    """TableError that names `where`, unless the checksum of the fields is the one that was found beside them."""
    same_checksum(where, found, checksum(*fields))


def same_checksum(where: str, found: int, crc: int) -> None:
    """The same for a checksum that is known already."""
    if crc != found:
        raise TableError(
            f"{where} is damaged: its checksum does not match its content. Restore it from a copy; nothing was changed."
        )
