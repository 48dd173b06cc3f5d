"""Small .npz files in memory, in both directions: the bodies that a client and a service exchange.

`numpy.savez` and `numpy.load` take longer than a search for one query does. These write and read the same format, with
stored members only, so that nothing that is read takes more memory than the bytes that came. Nothing is unpickled.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hashstream.datasets.npy import Header, read_header

__all__ = ["MAX_BYTES", "npy_bytes", "npz_bytes", "read_npz_bytes"]

MAX_BYTES = (1 << 32) - (1 << 20)  # of a file: without the extension for larger ones, sizes have 32 bits
MAX_MEMBERS = 64

LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")
LOCAL_MARK, CENTRAL_MARK, END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
VERSION, DAY = 20, 0x21  # of the format that is needed, and 1 January 1980


def npy_bytes(array: np.ndarray) -> bytes:
    """An array of numbers, truth values or text as an .npy file.

    >>> np.load(io.BytesIO(npy_bytes(np.eye(2, dtype=np.float32))))
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return _npy_header(array.dtype.str, fortran, array.shape) + array.tobytes("F" if fortran else "C")


@lru_cache(256)
def _npy_header(descr: str, fortran: bool, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": fortran, "shape": shape})
    return file.getvalue()


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as an .npz file; ValueError where it would be 4 GiB or more.

    >>> with np.load(io.BytesIO(npz_bytes({"ids": np.array([7, 8])}))) as file:
    ...     file["ids"]
    array([7, 8])
    """
    parts: list[bytes] = []
    index: list[bytes] = []
    at = 0
    for name, array in arrays.items():
        data, file = npy_bytes(array), f"{name}.npy".encode("ascii")
        if at + len(data) > MAX_BYTES:
            raise ValueError(
                f"{name} takes {array.nbytes:,} bytes, too many for one request: send fewer rows at a time"
            )
        crc, size = zlib.crc32(data), len(data)
        parts += [LOCAL.pack(LOCAL_MARK, VERSION, 0, 0, 0, DAY, crc, size, size, len(file), 0), file, data]
        fixed = (CENTRAL_MARK, VERSION, VERSION, 0, 0, 0, DAY, crc, size, size, len(file), 0, 0, 0, 0, 0, at)
        index += [CENTRAL.pack(*fixed), file]
        at += LOCAL.size + len(file) + size
    tail = b"".join(index)
    end = END.pack(END_MARK, 0, 0, len(arrays), len(arrays), len(tail), at, 0)
    return b"".join([*parts, tail, end])


def read_npz_bytes(raw: bytes | bytearray) -> dict[str, np.ndarray]:
    """The arrays of an .npz file whose members are stored, each in memory of its own; ValueError where it is none."""
    try:
        return {name: _array(data) for name, data in _members(memoryview(raw))}
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"the .npz file is damaged: {error}") from None


def _members(raw: memoryview) -> list[tuple[str, memoryview]]:
    mark, *_, count, _, at, comment = END.unpack_from(raw, max(0, len(raw) - END.size))
    if mark != END_MARK or comment or count > MAX_MEMBERS:
        raise ValueError("the .npz file is damaged: its directory is not at its end")
    found: dict[str, memoryview] = {}
    for _ in range(count):
        entry = CENTRAL.unpack_from(raw, at)
        mark, flags, method, packed, size = entry[0], entry[3], entry[4], entry[8], entry[9]
        n_name, n_extra, n_comment, start = entry[10], entry[11], entry[12], entry[16]
        name = bytes(raw[at + CENTRAL.size : at + CENTRAL.size + n_name]).decode().removesuffix(".npy")
        if mark != CENTRAL_MARK or name in found:
            raise ValueError("the .npz file is damaged: its directory is not one")
        if method or flags & 1 or packed != size:
            raise ValueError(f"{name[:80]!r} of the .npz file is compressed or encrypted")
        local = LOCAL.unpack_from(raw, start)
        begin = start + LOCAL.size + local[-2] + local[-1]
        if local[0] != LOCAL_MARK or begin + size > len(raw):
            raise ValueError(f"{name[:80]!r} of the .npz file is not where its directory says")
        found[name] = raw[begin : begin + size]
        at += CENTRAL.size + n_name + n_extra + n_comment
    return list(found.items())


def _array(data: memoryview) -> np.ndarray:
    """An array in the .npy format, copied: where it lies in the file, it is not aligned."""
    width = 2 if bytes(data[6:7]) == b"\1" else 4
    at = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    header = _read_header(bytes(data[: min(at, len(data))]))
    if at + header.nbytes > len(data):
        raise ValueError("an array of the .npz file is longer than its member")
    values = np.frombuffer(data, header.dtype, header.size, at)
    if header.dtype.kind == "b":
        values = values.view(np.uint8) != 0  # a byte may be 2, which is not a bool
    return values.reshape(header.shape, order="F" if header.fortran else "C").copy()


@lru_cache(256)
def _read_header(raw: bytes) -> Header:
    """Of an array whose size is compared later."""
    return read_header(io.BytesIO(raw), 1 << 62)
