"""Items and queries in an Arrow stream. It is untrusted: a few bytes of it may stand for very many values."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from hashstream._extras import require
from hashstream.serve.json_text import read_json
from hashstream.serve.limits import Limits
from hashstream.serve.problems import Problem

__all__ = ["read_arrow"]

MOST_VALUES = 4_000_000  # in the lists of one column, vectors aside: each becomes an object


def read_arrow(body: bytes, limits: Limits) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and arrays of a stream with the columns id, vector, label, payload; all others are fields."""
    pa = require("pyarrow", "parquet")
    require("pyarrow.ipc", "parquet")
    require("pyarrow.compute", "parquet")
    try:
        columns = _columns(pa, body, limits)
        arrays: dict[str, Any] = {}
        if (vectors := columns.pop("vector", None)) is not None:
            arrays["vectors"] = _matrix(pa, vectors)
        if (ids := columns.pop("id", None)) is not None:
            if ids.null_count:
                raise ValueError("an id is missing")
            integers = pa.types.is_integer(ids.type)
            arrays["ids"] = ids.to_numpy(zero_copy_only=False) if integers else _values(pa, "id", ids, limits)
        if (labels := columns.pop("label", None)) is not None:
            arrays["labels"] = _values(pa, "label", labels, limits)
        settings: dict[str, Any] = {}
        if (payloads := columns.pop("payload", None)) is not None:
            settings["payloads"] = [
                None if text is None else read_json(text, f"payload {row}")
                for row, text in enumerate(_texts(pa, payloads, limits))
            ]
        if columns:
            settings["fields"] = {name: _values(pa, name, values, limits) for name, values in columns.items()}
        return settings, arrays
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, struct.error) as error:
        raise Problem("body", f"the body is not a valid Arrow stream of items: {error}") from None


def _columns(pa: Any, body: bytes, limits: Limits) -> dict[str, Any]:
    """The columns by name. Nothing is unpacked: they are views of the body."""
    with pa.BufferReader(body) as file:
        while (message := _next_message(pa, file)) is not None:
            if message.type in ("record batch", "dictionary") and _is_compressed(message):
                raise ValueError("its buffers are compressed, which is not supported here")
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        table = reader.read_all()
    if table.num_rows > limits.rows:
        raise Problem("too-large", f"{table.num_rows:,} rows at once are more than {limits.rows:,}")
    for field in table.schema:
        if not _is_plain(pa, field.type):
            raise ValueError(
                f"the column {field.name!r} is of the type {field.type}, which is not supported here"
            )
    table.validate(full=True)
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError("two columns have one name")
    return {name: table.column(name).combine_chunks() for name in table.column_names}


def _next_message(pa: Any, file: Any) -> Any:
    try:
        return pa.ipc.read_message(file)
    except EOFError:
        return None


def _is_compressed(message: Any) -> bool:
    """Whether the buffers of a message are compressed: a table of FlatBuffers says so, and pyarrow does not."""
    raw = message.metadata.to_pybytes()

    def entry(table: int, number: int) -> int:
        """The position of an entry of a table; 0 where it is missing."""
        directory = table - struct.unpack_from("<i", raw, table)[0]
        size = struct.unpack_from("<H", raw, directory)[0]
        at = 4 + 2 * number
        offset = struct.unpack_from("<H", raw, directory + at)[0] if at < size else 0
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + int(struct.unpack_from("<I", raw, at)[0])

    header = follow(entry(follow(0), 2))  # of Message: version, header_type, header
    if message.type == "dictionary":
        header = follow(entry(header, 1))  # of DictionaryBatch: id, data
    return bool(entry(header, 3))  # of RecordBatch: length, nodes, buffers, compression


def _is_plain(pa: Any, kind: Any) -> bool:
    """Whether a column takes bytes for each of its values, dictionaries aside."""
    types = pa.types
    if types.is_dictionary(kind):
        return _is_text(pa, kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_scalar(pa, kind.value_type)
    if types.is_fixed_size_list(kind):
        return bool(kind.list_size) and _is_scalar(pa, kind.value_type)
    return bool(types.is_null(kind) or types.is_temporal(kind) or _is_scalar(pa, kind))


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_scalar(pa: Any, kind: Any) -> bool:
    types = pa.types
    return bool(
        _is_text(pa, kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    )


def _values(pa: Any, name: str, column: Any, limits: Limits) -> list[Any]:
    """The values of a column, as objects."""
    if pa.types.is_dictionary(column.type):
        longest = pa.compute.max(pa.compute.binary_length(column.dictionary)).as_py() or 0
        if longest * len(column) > limits.body_bytes:
            raise Problem(
                "too-large", f"the column {name!r} unpacks to more than {limits.body_bytes:,} bytes"
            )
    elif pa.types.is_nested(column.type) and len(column.flatten()) > MOST_VALUES:
        raise Problem("too-large", f"the lists of the column {name!r} hold more than {MOST_VALUES:,} values")
    values: list[Any] = column.to_pylist()
    return values


def _texts(pa: Any, column: Any, limits: Limits) -> list[Any]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(pa, kind) or pa.types.is_null(kind)):
        raise ValueError(f"payload must be a column of JSON texts, not of the type {kind}")
    return _values(pa, "payload", column, limits)


def _matrix(pa: Any, column: Any) -> np.ndarray:
    """A column of lists of equal length as a matrix, without parsing."""
    kind, types = column.type, pa.types
    lists = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    if column.null_count or not lists:
        raise ValueError("vector must be a column of lists of numbers, none missing")
    if not (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        raise ValueError(f"vectors hold numbers, not {kind.value_type}")
    values = column.flatten()
    if values.null_count:
        raise ValueError("a vector has a missing number")
    flat = values.to_numpy(zero_copy_only=False)
    if types.is_fixed_size_list(kind):
        return np.reshape(flat, (len(column), kind.list_size))
    lengths = np.diff(column.offsets.to_numpy())
    if len(lengths) and (lengths != lengths[0]).any():
        raise ValueError("vectors have different lengths")
    return np.reshape(flat, (len(column), int(lengths[0]) if len(lengths) else 0))
