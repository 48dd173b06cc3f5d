"""Row groups of a Parquet file, whoever wrote it: parsed in a separate process, one group in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hashstream._extras import require
from hashstream._machine import check_memory
from hashstream.datasets.errors import reading
from hashstream.datasets.npy import MAX_RATIO
from hashstream.datasets.parser_process import parser

__all__ = ["Group", "read_groups"]

Group = dict[str, "np.ndarray | list[Any]"]
"""Columns of a row group by name: numbers (n,) or (n, d), binary values (n, width) uint8, or n values of JSON."""

SPARE = 1 << 30  # bytes of memory that the parser may use for a file of any size
NUMBERS = {f"{order}{kind}" for order in "<>|" for kind in ("i1", "i2", "i4", "i8", "f4", "f8")}


def read_groups(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Group]]:
    """The rows of each row group, and the columns that are named; DatasetError where the file cannot be read.

    Moments are texts in ISO 8601, NaN is None among values of JSON.
    """
    require("pyarrow", "parquet")
    script = str(Path(__file__).with_name("parquet_parser.py"))
    with reading(path, "Parquet file"):
        most = SPARE + MAX_RATIO * path.stat().st_size
    with parser(script, path, "Parquet file", most, groups=list(columns)) as answers:
        while "end" not in (line := answers.line()):
            n = line["rows"]
            if type(n) is not int or n < 0 or len(line["columns"]) != len(columns):
                raise ValueError("unexpected answer of the reader")
            group: Group = {}
            for name, (form, size) in zip(columns, line["columns"], strict=True):
                check_memory(size)
                group[name] = _column(answers.bytes(size), form, n, name)
            yield n, group


def _column(raw: bytes, form: str, n: int, name: str) -> np.ndarray | list[Any]:
    if form == "json":
        values = json.loads(raw)
        if not isinstance(values, list) or len(values) != n:
            raise ValueError(f"{name} has not {n} values")
        return values
    if form != "bytes" and form not in NUMBERS:
        raise ValueError(f"{name} is of type {form[:20]}")
    array = np.frombuffer(raw, np.uint8 if form == "bytes" else np.dtype(form))
    width, rest = divmod(len(array), n) if n else (0, len(array))
    if rest:
        raise ValueError(f"{name} has not {n} values")
    return array if width == 1 and form != "bytes" else array.reshape(n, width)
