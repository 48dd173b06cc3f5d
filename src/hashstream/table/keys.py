"""Keys of calls: names that callers choose, so that a call that is repeated is done once.

A storage remembers each key with a fingerprint of the call's arguments and with what the call returned. The fingerprint
is a CRC-32 of the arguments as the table takes them, so it does not depend on whether ids were a list or an array.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from hashstream.table.errors import KeyReused
from hashstream.table.incoming import Incoming
from hashstream.table.state.change import Done

__all__ = ["check_key", "fingerprint", "removal_fingerprint", "result_of"]

LONGEST = 200  # characters


def check_key(key: Any) -> str:
    """The key itself; a TypeError or ValueError where it cannot be one."""
    if not isinstance(key, str):
        raise TypeError(f"key must be a string such as a UUID, not {type(key).__name__}")
    if not 1 <= len(key) <= LONGEST or not key.isprintable():
        raise ValueError(f"key must have 1 to {LONGEST} printable characters, not {key[: LONGEST + 1]!r}")
    return str.__str__(key)


def fingerprint(kind: str, rows: Incoming) -> int:
    """Of a call that stores rows, or labels them, with checked arguments."""
    parts: list[Any] = [kind, rows.ids, rows.X, rows.y]
    for name in sorted(rows.fields):
        column = rows.fields[name]
        parts += [name, column.kind, *column.arrays().values()]
    return _checksum(*parts, rows.payloads)


def removal_fingerprint(ids: np.ndarray | None, where: Any) -> int:
    """Of a call that removes items. ids : distinct, ascending."""
    return _checksum("remove", ids, where)


def result_of(before: Done, mark: int | None) -> int | None:
    """The result of a call that was done before, for one with the same key; `KeyReused` unless `mark` is the
    fingerprint of its arguments."""
    if mark != before.fingerprint:
        raise KeyReused(
            f"the key {before.key!r} names a call that was done with other arguments: repeat a call with the same "
            "arguments, and give every other call a key of its own"
        )
    return before.result


def _checksum(*parts: Any) -> int:
    crc = 0
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind in "iub" and part.ndim == 1:
            part = part.astype(np.int64, copy=False)  # a label is the same as a number of any size
        if isinstance(part, np.ndarray) and part.dtype.kind not in "OU":
            crc = zlib.crc32(f"{part.dtype.str}{part.shape}".encode(), crc)
            crc = zlib.crc32(np.ascontiguousarray(part).data.cast("B") if part.size else b"", crc)
            continue
        value = part.tolist() if isinstance(part, np.ndarray) else part
        crc = zlib.crc32(json.dumps(value, sort_keys=True, default=repr).encode(), crc)
    return crc
