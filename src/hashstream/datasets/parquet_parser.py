"""The parser of Parquet files, which `rows_tables` runs in a separate process (see `parser_process`).

Run as a script: `python parquet_parser.py PATH MOST TASK`. Without `size` in the task, it answers with a line of JSON:
`total`, the number of rows, and `columns`: name, type as text, "number", "list" (of numbers) or "other", and the length
of the first list. With `size`, with a line for each batch, {"rows": n, "ids": [...], "labels": [[...], ...],
"more": [[...], ...]}, which is followed by the features as n x width numbers of the type `dtype`. The last line is
{"end": true}. More columns are those of fields and payload: moments come as ISO 8601, decimals as text, NaN as null.

With `groups`, a list of names, it answers with a line for each row group, {"rows": n, "columns": [[form, bytes], ...]},
which is followed by the bytes of each column: numbers as they are ("<i8"), binary values of one length ("bytes"), or
JSON ("json") for all else, and for numbers of which some are missing.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pyarrow.types as types


class Refused(Exception):
    """An error whose message the parent raises as it is."""


def main() -> None:
    path, most, task = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # libraries may print
    _limit(most)
    try:
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
            if "size" in task:
                _pieces(file, task, out)
            elif "groups" in task:
                _groups(file, task["groups"], out)
            else:
                _say(out, total=int(file.metadata.num_rows), columns=_columns(file))
    except Refused as error:
        _say(out, error=str(error), refused=True)
    except Exception as error:
        said = str(error) if not isinstance(error, MemoryError) else "it needs more memory than is available"
        _say(out, error=(said or type(error).__name__)[:500])
    out.flush()
    os._exit(0)  # no cleanup by libraries after a damaged file


def _columns(file: Any) -> list[list[Any]]:
    found: list[list[Any]] = []
    for column in file.schema_arrow:
        kind, width = "number" if _is_number(column.type) else "other", None
        if _is_list(column.type):
            kind = "list"
            head = next(file.iter_batches(batch_size=1, columns=[column.name], use_threads=False), None)
            if head is not None and head.num_rows and not head.column(0).null_count:
                lengths = pyarrow.compute.list_value_length(head.column(0))
                width = int(lengths[0].as_py())
        found.append([column.name, str(column.type), kind, width])
    return found


def _pieces(file: Any, task: dict[str, Any], out: Any) -> None:
    names = [
        *([task["id"]] if task["id"] is not None else []),
        *task["labels"],
        *task["features"],
        *task["more"],
    ]
    dtype, first = np.dtype(task["dtype"]), 0
    for batch in file.iter_batches(
        batch_size=task["size"], columns=list(dict.fromkeys(names)), use_threads=False
    ):
        X = _features(batch, first, task, dtype)
        _say(
            out,
            rows=batch.num_rows,
            ids=None if task["id"] is None else _values(batch.column(task["id"])),
            labels=[_values(batch.column(name)) for name in task["labels"]],
            more=[_json_values(batch.column(name)) for name in task["more"]],
        )
        out.write(X.data)
        first += batch.num_rows
    _say(out, end=True)


def _features(batch: Any, first: int, task: dict[str, Any], dtype: np.dtype) -> np.ndarray:
    n, names = batch.num_rows, task["features"]
    for name in names:
        column = batch.column(name)
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise Refused(f"{name} is empty in row {row}")
    X = np.empty((n, task["width"]), dtype)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # numbers too large become inf: the caller refuses them
        if not task["lists"]:
            for i, name in enumerate(names):
                X[:, i] = batch.column(name).to_numpy(zero_copy_only=False)
            return X
        column, width = batch.column(names[0]), task["width"]
        numbers = column.flatten()
        if not _is_number(numbers.type):
            raise Refused(f"{names[0]} is of type {column.type}, not a list of numbers")
        lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise Refused(
                f"{names[0]} has {lengths[row]} numbers in row {first + row}, but {width} in the first"
            )
        if numbers.null_count:
            at = int(np.argmax(numbers.is_null().to_numpy(zero_copy_only=False)))
            raise Refused(f"{names[0]} has an empty number in row {first + at // width}")
        X[:] = numbers.to_numpy(zero_copy_only=False).reshape(n, width)
    return X


def _groups(file: Any, names: list[str], out: Any) -> None:
    for name in names:
        if name not in file.schema_arrow.names:
            raise Refused(f"has no column {name}")
    for number in range(file.num_row_groups):
        group = file.read_row_group(number, columns=names, use_threads=False)
        columns = [_raw(group.column(name)) for name in names]
        _say(out, rows=group.num_rows, columns=[[form, len(raw)] for form, raw in columns])
        for _, raw in columns:
            out.write(raw)
    _say(out, end=True)


def _raw(column: Any) -> tuple[str, bytes]:
    """The form of a column of a row group, and its bytes."""
    column = pyarrow.concat_arrays(column.chunks) if column.num_chunks else pyarrow.array([], column.type)
    if types.is_fixed_size_binary(column.type) and not column.null_count:
        return "bytes", b"".join(column.to_pylist())
    numbers = column
    if types.is_fixed_size_list(column.type) and not column.null_count:
        numbers = column.flatten()
    if (types.is_integer(numbers.type) or types.is_floating(numbers.type)) and not numbers.null_count:
        values = numbers.to_numpy(zero_copy_only=False)
        return values.dtype.str, values.tobytes()
    return "json", json.dumps(_json_values(column)).encode()


def _values(column: Any) -> list[Any]:
    """Ids or labels: numbers, text, and None for missing ones."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (int, float, str)):
        return value
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _json_values(column: Any) -> list[Any]:
    """Values of any type as JSON has them, None for missing ones."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_timestamp(column.type):  # in Python's precision
        zone = None if column.type.tz is None else "UTC"
        column = column.cast(pyarrow.timestamp("us", zone), safe=column.type.unit != "ns")
    return [_json(value) for value in column.to_pylist()]


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value else None
    if isinstance(value, dict):
        return {str(name): _json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(one) for one in value]
    return value.isoformat() if hasattr(value, "isoformat") else _plain(value)


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


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
