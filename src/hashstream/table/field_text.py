"""Fields and payloads as files and command lines have them: text is parsed by the type of its field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from hashstream.datasets.rows import Rows, RowSource
from hashstream.table.state.column_base import shown
from hashstream.table.state.columns import KINDS, FieldColumn, field_kinds, read_values

__all__ = ["parse_fields", "read_fields", "read_payloads"]

WHOLE = re.compile(r"[+-]?[0-9]{1,20}(\.0*)?")
BETWEEN = re.compile(r"[|;]")
BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

NEEDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true, false, yes, no, 1 or 0",
    "datetime": "a date and time as in ISO 8601, such as 2024-05-31T12:00:00Z",
    "list": 'strings separated by "|" or ";", or a JSON array of strings',
}


def parse_fields(texts: Iterable[str]) -> dict[str, str]:
    """Fields to declare, as name -> type; ValueError names the field and lists the types.

    >>> parse_fields(["tenant:str", "taken:datetime"])
    {'tenant': 'str', 'taken': 'datetime'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, colon, kind = text.rpartition(":")
        if not colon:
            raise ValueError(f"field {text!r} has no type: write {text}:TYPE; types are {', '.join(KINDS)}")
        if found.setdefault(name, kind) != kind:
            raise ValueError(f"field {name!r} is declared twice, as {found[name]} and as {kind}")
    return field_kinds(found)


def read_fields(source: RowSource, rows: Rows, kinds: Mapping[str, str]) -> dict[str, list[Any]]:
    """The values of the fields of a piece, None for a missing one; ValueError names file, line and field.

    kinds : of the fields that the table has.
    """
    place = _places(source, rows)
    return {
        name: _read(kinds[name], name, values, len(rows), place).take(np.arange(len(rows))).tolist()
        for name, values in rows.fields.items()
        if name in kinds
    }


def read_payloads(source: RowSource, rows: Rows) -> list[dict[str, Any] | None] | None:
    """The payloads of a piece without what is missing, None for an empty one; None where the file has no columns for
    them. ValueError names file, row and column of a number that JSON cannot hold."""
    if not rows.payload:
        return None
    place = _places(source, rows)
    found: list[dict[str, Any] | None] = []
    for row in range(len(rows)):
        payload = {name: values[row] for name, values in rows.payload.items() if values[row] is not None}
        for name, value in payload.items():
            if not _fits_json(value):
                raise ValueError(f"{place(row)}: {name} is {shown(value)}, which a payload cannot hold")
        found.append(payload or None)
    return found


def _places(source: RowSource, rows: Rows) -> Callable[[int], str]:
    """A function that says where a row of a piece is in its file."""
    if rows.lines is not None:
        lines = rows.lines
        return lambda row: f"{source.name}, line {lines[row]}"
    return lambda row: f"{source.name}, row {rows.first + row}"


def _read(kind: str, name: str, values: Any, n: int, place: Callable[[int], str]) -> FieldColumn:
    if not isinstance(values, np.ndarray):
        values = [
            _parsed(kind, name, value, row, place) if isinstance(value, str) else value
            for row, value in enumerate(values)
        ]
    try:
        return read_values(kind, name, values, n)
    except (TypeError, ValueError):
        for row in range(n):  # which one is it?
            try:
                read_values(kind, name, values[row : row + 1], 1)
            except (TypeError, ValueError):
                raise ValueError(_wrong(kind, name, _item(values, row), place(row))) from None
        raise


def _item(values: Any, row: int) -> Any:
    value = values[row]
    return value.item() if isinstance(value, np.generic) else value


def _wrong(kind: str, name: str, value: Any, where: str) -> str:
    needs = NEEDS.get(kind, "a string")
    return f"{where}: field {name!r} is {shown(value)}, but it is of type {kind}, which takes {needs}"


def _parsed(kind: str, name: str, text: str, row: int, place: Callable[[int], str]) -> Any:
    """A text as a value of a field, None for a missing one."""
    if kind == "str":
        return text
    word = text.strip()
    if not word:
        return None
    value: Any = None
    if kind == "bool":
        value = BOOLS.get(word.lower())
    elif kind == "int":
        value = int(word.partition(".")[0]) if WHOLE.fullmatch(word) else None
    elif kind == "float":
        value = _float(word)
    elif kind == "datetime":
        return word  # which the column reads
    else:
        value = _list(word)
    if value is None:
        raise ValueError(_wrong(kind, name, text, place(row)))
    return value


def _float(word: str) -> float | None:
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def _list(word: str) -> list[Any] | None:
    if not word.startswith("["):
        return [part for one in BETWEEN.split(word) if (part := one.strip())]
    try:
        found = json.loads(word)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else None


def _fits_json(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_fits_json, value.values()))
    return not isinstance(value, (list, tuple)) or all(map(_fits_json, value))
