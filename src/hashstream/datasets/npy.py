"""Arrays from untrusted .npy and .npz files.

A header is parsed strictly, and its size is compared with the file and with the available memory before anything is
allocated. Nothing is unpickled, and nothing but a DatasetError is raised.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from hashstream._machine import check_memory
from hashstream.datasets.errors import DatasetError, reading

__all__ = [
    "MAX_RATIO",
    "Header",
    "names_in_npz",
    "open_npy",
    "open_npz",
    "read_header",
    "read_npy",
    "read_npz",
]

MAGIC = b"\x93NUMPY"
MAX_HEADER = 1 << 16  # bytes; NumPy writes 118 for a matrix
MAX_DIMENSIONS = 32
PIECE = 1 << 24  # bytes that are read at a time
MAX_RATIO = 1100
"""Bytes that one byte of a compressed file can stand for: DEFLATE, which NumPy, MATLAB and HDF5 use, gives 1,032."""

_ITEM = re.compile(
    r"\s*(['\"])(?P<key>descr|fortran_order|shape)\1\s*:\s*"
    r"(?:(['\"])(?P<text>[^'\"\\]*)\3|(?P<flag>True|False)|\((?P<sides>[\d\s,]*)\)|(?P<list>\[))\s*(?:,|$)"
)
_TYPE = re.compile(r"[<>=|]?[?biufcSUmM]\d{0,9}(\[\w{1,8}\])?")


@dataclass(frozen=True)
class Header:
    """The shape and dtype of a stored array, and whether it is in Fortran order."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


def read_header(file: IO[bytes], size: int) -> Header:
    """The header of an array in the .npy format; the file is then at the array's first byte.

    size : bytes of the whole file. ValueError if the header is damaged or declares more data than there is.
    """
    start = file.read(8)
    if len(start) < 8 or start[:6] != MAGIC:
        raise ValueError("it does not start with the magic bytes")
    if tuple(start[6:]) not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"format version {start[6]}.{start[7]} is unknown")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MAX_HEADER:
        raise ValueError(f"its header is {length:,} bytes long, and at most {MAX_HEADER:,} are read")
    raw = file.read(length)
    if len(raw) < length:
        raise ValueError("it ends inside its header")
    header = _parsed(raw.decode("utf-8" if start[6] == 3 else "latin-1"))
    left = size - len(start) - width - length
    if header.nbytes > left:
        raise ValueError(
            f"its header declares {header.nbytes:,} bytes of data, but there are {max(left, 0):,}"
        )
    return header


def _parsed(text: str) -> Header:
    """A header such as `{'descr': '<f4', 'fortran_order': False, 'shape': (20, 4), }`."""
    text = text.strip()
    if text[:1] != "{" or text[-1:] != "}":
        raise ValueError("its header is damaged")
    inside, at, found = text[1:-1].rstrip(), 0, {}
    while at < len(inside):
        item = _ITEM.match(inside, at)
        if item is None or item["key"] in found:
            raise ValueError("its header is damaged")
        if item["list"]:
            raise ValueError("it holds records, not numbers or text")
        found[item["key"]] = item
        at = item.end()
    if len(found) < 3 or any(
        found[key][kind] is None
        for key, kind in (("descr", "text"), ("fortran_order", "flag"), ("shape", "sides"))
    ):
        raise ValueError("its header is damaged")
    header = Header(
        _shape(found["shape"]["sides"]),
        found["fortran_order"]["flag"] == "True",
        _dtype(found["descr"]["text"]),
    )
    if math.prod(max(side, 1) for side in header.shape) * max(header.dtype.itemsize, 1) >= 1 << 62:
        raise ValueError(f"its shape is {header.shape}, which no computer can hold")
    if not header.dtype.itemsize and header.size:
        raise ValueError("its entries have no bytes")
    return header


def _shape(sides: str) -> tuple[int, ...]:
    parts = [part.strip() for part in sides.split(",")]
    if len(parts) == 1 and parts[0]:
        raise ValueError("its header is damaged")  # (3) is a number, (3,) a shape
    if not parts[-1]:
        parts.pop()
    if len(parts) > MAX_DIMENSIONS or any(not part.isdigit() or len(part) > 19 for part in parts):
        raise ValueError("its header is damaged")
    return tuple(int(part) for part in parts)


def _dtype(text: str) -> np.dtype:
    if text.lstrip("<>=|")[:1] == "O":
        raise ValueError("it holds Python objects, not numbers or text")
    try:
        if not _TYPE.fullmatch(text):
            raise TypeError
        return np.dtype(text)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"its entries are of an unknown type, {text[:20]!r}") from None


def read_array(file: IO[bytes], header: Header) -> np.ndarray:
    """The array after a header, in memory."""
    check_memory(header.nbytes)
    raw = np.empty(header.nbytes, np.uint8)
    at = 0
    while at < len(raw):
        piece = file.read(min(PIECE, len(raw) - at))
        if not piece:
            raise EOFError(f"it ends after {at:,} of {len(raw):,} bytes")
        raw[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    values = raw.view(header.dtype) if header.size else np.empty(0, header.dtype)
    if header.dtype.kind == "b":
        values = raw != 0  # a byte may be 2, which is not a bool
    if header.dtype.kind == "U":
        points = raw.view(np.dtype(np.uint32).newbyteorder(header.dtype.byteorder))
        wrong = (points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))
        if wrong.any():
            raise ValueError(f"its text has a character {int(points[wrong][0]):#x}, which does not exist")
    return values.reshape(header.shape, order="F" if header.fortran else "C")


# ---- files


@contextmanager
def open_npy(path: Path) -> Iterator[tuple[IO[bytes], Header]]:
    """An .npy file, positioned at its array, and its header."""
    with reading(path, ".npy file"), path.open("rb") as file:
        if file.read(2) == b"PK":
            raise DatasetError(f"{path} holds several arrays: rename it to .npz")
        file.seek(0)
        yield file, read_header(file, os.fstat(file.fileno()).st_size)


def read_npy(path: Path) -> np.ndarray:
    """The array of an .npy file; DatasetError if the file is damaged or something else."""
    with open_npy(path) as (file, header):
        return read_array(file, header)


def names_in_npz(path: Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    with _archive(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def open_npz(path: Path, name: str) -> Iterator[tuple[IO[bytes], Header]]:
    """The array `name` of an .npz file as a stream, and its header. It is unpacked as it is read."""
    with _archive(path) as archive, _member(archive, path, name) as found:
        yield found


def read_npz(path: Path, *keys: str) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file; DatasetError if the file is damaged or lacks one."""
    arrays = {}
    with _archive(path) as archive:
        for key in keys:
            if f"{key}.npy" not in archive.NameToInfo:
                raise DatasetError(f"{path} has no array {key!r}: it needs {', '.join(keys)}")
            with _member(archive, path, key) as (file, header):
                arrays[key] = read_array(file, header)
                file.read(1)  # the checksum is verified only after the last byte
    return arrays


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with reading(path, ".npz file"), path.open("rb") as file:
        if file.read(6) == MAGIC:
            raise ValueError("it holds one array without a name")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            yield archive


@contextmanager
def _member(archive: zipfile.ZipFile, path: Path, name: str) -> Iterator[tuple[IO[bytes], Header]]:
    info = archive.getinfo(f"{name}.npy")
    if info.flag_bits & 1:
        raise ValueError(f"{name} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed by method {info.compress_type}, which is not NumPy's")
    packed = min(info.compress_size, path.stat().st_size)
    most = packed if info.compress_type == zipfile.ZIP_STORED else MAX_RATIO * packed
    if info.file_size > most:
        raise ValueError(f"{name} declares {info.file_size:,} bytes, packed into {packed:,}")
    with archive.open(info) as file:
        yield file, read_header(file, info.file_size)
