"""The columns of a part: items of one version of a view as a batch of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from hashstream._extras import require
from hashstream.table.digests import sum_of
from hashstream.table.errors import TableError
from hashstream.table.results import Codes
from hashstream.table.state.columns import PAYLOAD, SEQUENCE, FieldColumn
from hashstream.table.state.labels import LabelColumn, label_text
from hashstream.table.state.view import View, locate

__all__ = ["Columns", "column_names", "digest_of_view"]

OWN = ("id", "version", "code", "label", "learned", "payload", "sequence", "position", "features")
INTS = range(-(1 << 63), 1 << 63)
PIECE = 1 << 16  # items that are read at once


def column_names(fields: Sequence[str]) -> dict[str, str]:
    """Field -> column: its own name, unless that is one of an item's other columns.

    >>> column_names(["tenant", "code"])
    {'tenant': 'tenant', 'code': 'field.code'}
    """
    names: dict[str, str] = {}
    for name in fields:
        column = name
        while column.lower() in OWN or column in names.values() or (column != name and column in fields):
            column = f"field.{column}"
        names[name] = column
    return names


class Columns:
    """The columns of every part of a view's export.

    labels : how labels are held, see `Part`. has : the optional columns of items. schema : of Arrow.
    """

    def __init__(self, view: View, n_features: int | None, dtype: str | None, *, features: bool) -> None:
        """n_features, dtype : of the table. features : whether they are exported."""
        pa = require("pyarrow", "parquet")
        self._pa, self._view, self._live = pa, view, view.live()
        self.names = column_names(list(view.user_fields))
        self.labels, label = _label_type(pa, view.labels)
        optional = {"payload": PAYLOAD, "sequence": SEQUENCE}
        self.has = tuple(name for name, field in optional.items() if field in view.fields)
        ids = pa.string() if view.column is not None and view.column.kind == "str" else pa.int64()
        columns = {"id": ids, "version": pa.int64(), "code": pa.binary(view.width)}
        columns |= {"label": label, "learned": pa.bool_()}
        for name, values in view.user_fields.items():
            columns[self.names[name]] = _field_type(pa, values, self._live)
        columns |= {name: pa.string() if name == "payload" else pa.int64() for name in self.has}
        columns["position"] = pa.int64()
        self.features = features and n_features is not None
        if self.features:
            columns["features"] = pa.list_(pa.float32() if dtype == "float32" else pa.float64(), n_features)
        self.schema = pa.schema(list(columns.items()))

    def codes(self, slots: np.ndarray) -> np.ndarray:
        """The codes (n, width) of slots."""
        codes = np.empty((len(slots), self._view.width), np.uint8)
        for part, at, rows in locate(self._view.parts, slots):
            codes[at] = part.codes[rows]
        return codes

    def batch(
        self,
        slots: np.ndarray,
        ids: np.ndarray,
        codes: np.ndarray,
        version: int,
        payloads: Sequence[str | None],
        X: np.ndarray | None,
    ) -> Any:
        """The items at slots (n,), ascending, which are of one version, as a RecordBatch."""
        pa, view = self._pa, self._view
        held = pa.py_buffer(np.ascontiguousarray(codes))
        values: dict[str, Any] = {
            "id": ids if ids.dtype != object else ids.tolist(),
            "version": np.full(len(slots), version, np.int64),
            "code": pa.Array.from_buffers(pa.binary(view.width), len(slots), [None, held]),
            "payload": list(payloads),
            "position": np.searchsorted(self._live, slots).astype(np.int64),
        }
        texts = view.labels.texts(slots)
        values["label"] = [_label(one, self.labels) for one in view.labels.take(slots)]
        values["learned"] = [text[0] == "+" if text else None for text in texts]
        for name, column in view.user_fields.items():
            values[self.names[name]] = column.take(slots).tolist()
        if "sequence" in self.has:
            values["sequence"] = view.fields[SEQUENCE].take(slots).tolist()
        if X is not None and self.features:
            flat = pa.array(np.ascontiguousarray(X).ravel())
            values["features"] = pa.FixedSizeListArray.from_arrays(flat, X.shape[1])
        return pa.record_batch([self._array(one, values[one.name]) for one in self.schema], self.schema)

    def _array(self, column: Any, values: Any) -> Any:
        if isinstance(values, self._pa.Array):
            return values
        if self._pa.types.is_string(column.type):
            values = [one.isoformat() if hasattr(one, "isoformat") else one for one in values]
        try:
            return self._pa.array(values, column.type)
        except UnicodeEncodeError as error:
            raise TableError(
                f"{column.name} holds {error.object[:100]!r}, which UTF-8 cannot write: replace it, and export again"
            ) from error


def _label_type(pa: ModuleType, labels: LabelColumn) -> tuple[str, Any]:
    """How labels are held, and the type of their column."""
    shape, values = labels.shape, labels.distinct()
    if shape:
        return "matrix", pa.list_(pa.bool_(), shape[0])
    types: Mapping[type, tuple[str, Any]] = {
        int: ("int", pa.int64()), float: ("float", pa.float64()), bool: ("bool", pa.bool_()), str: ("str", pa.string())
    }  # fmt: skip
    found = {type(value) for value in values}
    if len(found) > 1 or any(type(value) is int and value not in INTS for value in values):
        return "json", pa.string()
    return types[found.pop() if found else str]


def _label(label: Any, form: str) -> Any:
    if label is None or form not in ("json", "matrix"):
        return label
    return label_text(label) if form == "json" else label.tolist()


def _field_type(pa: ModuleType, values: FieldColumn, live: np.ndarray) -> Any:
    """A column of moments is one with a zone, one without, or text where some have one and others have none."""
    if values.kind == "datetime":
        zones = {one.tzinfo is not None for one in values.take(live).tolist() if one is not None}
        return pa.string() if len(zones) > 1 else pa.timestamp("us", "UTC" if True in zones else None)
    simple = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return simple[values.kind] if values.kind in simple else pa.list_(pa.string())


def digest_of_view(view: View) -> int:
    """As `HashTable.digest` of a table with this view."""
    return sum_of(_pieces(view))


def _pieces(view: View) -> Iterator[Codes]:
    for part in view.parts:
        codes, slots = part.rows()
        for start in range(0, len(slots), PIECE):
            some = slice(start, start + PIECE)
            yield Codes(view.ids(slots[some]), codes[some], part.version)
