"""Fields: typed values by slot, in columns that grow at the end only, as that of the ids does.

A column never changes: `extended` returns another one, which shares the buffer. A batch's values are a column of their
own (`read_values`), which is what the log keeps. Missing values are allowed everywhere.

Filters ask a column for a mask: `column.operand` checks the right-hand side of a comparison, `column.mask` compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hashstream.table.state.column_base import FieldColumn, shown
from hashstream.table.state.number_columns import BoolColumn, FloatColumn, IntColumn, TimeColumn
from hashstream.table.state.text_columns import ListColumn, TextColumn

__all__ = [
    "KINDS",
    "RESERVED",
    "FieldColumn",
    "TextColumn",
    "check_number_of_fields",
    "field_column",
    "field_kinds",
    "read_values",
]

RESERVED = ("id", "label")  # what a filter calls the ids and the labels
PAYLOAD = "$payload"
"""The field of a table's own that says which items have a payload, so that a lost one is noticed; bool."""
SEQUENCE = "$sequence"
"""The field of a table's own with the sequence numbers that items were given; int."""
OWN = {PAYLOAD: "bool", SEQUENCE: "int"}
MAX_FIELDS = 100
MAX_NAME = 200  # characters

KINDS: dict[str, type[FieldColumn]] = {
    column.kind: column for column in (TextColumn, IntColumn, FloatColumn, BoolColumn, TimeColumn, ListColumn)
}
"""Kinds of fields, by the names of their types."""


def field_kinds(fields: Mapping[str, Any]) -> dict[str, str]:
    """Declared fields as name -> kind; ValueError or TypeError for a name or a type that no field can have.

    >>> field_kinds({"tenant": str, "taken": "datetime", "tags": list})
    {'tenant': 'str', 'taken': 'datetime', 'tags': 'list'}
    """
    if not isinstance(fields, Mapping):
        raise TypeError(f'fields must map names to types, as in {{"tenant": str}}, not {fields!r}')
    check_number_of_fields(len(fields))
    found = {}
    for name, given in fields.items():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or name.startswith("$"):
            raise ValueError(
                f"the name of a field is a string of 1 to {MAX_NAME} characters that does not begin with "
                f'"$", not {shown(name)}'
            )
        if not _has_utf8(name):
            raise ValueError(f"the name of a field cannot be {shown(name)}: UTF-8 cannot write it")
        if name in RESERVED:
            raise ValueError(
                f"a field cannot be named {name!r}: filters use that name for the item's own {name}"
            )
        kind = given if isinstance(given, str) else getattr(given, "__name__", None)
        if kind not in KINDS:
            raise ValueError(f"field {name!r} is of type {given!r}; types are {', '.join(KINDS)}")
        found[str.__str__(name)] = kind
    return found


def _has_utf8(text: str) -> bool:
    try:
        return bool(text.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def check_number_of_fields(n: int) -> None:
    """ValueError where a table cannot have so many."""
    if n > MAX_FIELDS:
        raise ValueError(f"a table takes {MAX_FIELDS} fields, not {n}: keep others in payloads")


def field_column(kind: str, arrays: Mapping[str, np.ndarray] | None = None) -> FieldColumn:
    """An empty column of a kind, or the one whose `arrays` these are."""
    return KINDS[kind]() if arrays is None else KINDS[kind].from_arrays(arrays)


def read_values(kind: str, name: str, values: Any, n: int) -> FieldColumn:
    """The column of a batch's values; ValueError or TypeError names the field and the row. n : rows of the batch."""
    ordered = hasattr(values, "__len__") and hasattr(values, "__iter__")
    if not ordered or isinstance(values, (str, bytes, bytearray, Mapping, set, frozenset)):
        raise TypeError(f"field {name!r} needs a sequence with one value per row, not {shown(values)}")
    dimensions = getattr(values, "ndim", 1)
    if dimensions != 1 and not (dimensions == 2 and kind == "list" and isinstance(values, np.ndarray)):
        raise ValueError(f"field {name!r} needs one value per row, not {dimensions} dimensions")
    if len(values) != n:
        raise ValueError(f"field {name!r} has {len(values)} values, but there are {n} rows")
    column = KINDS[kind].read(values, name)
    if len(column) != n:  # going through a frame, say, gives other things than its rows
        raise ValueError(f"field {name!r} gave {len(column)} values, but there are {n} rows")
    return column
