"""Arguments of a table's methods as the bodies of requests: arrays as .npy and .npz, everything else as JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import quote

import numpy as np

from hashstream.hashers.labels import LabelsLike, as_labels, is_missing
from hashstream.hashers.validation import as_array, without_names
from hashstream.serve.npz import npz_bytes
from hashstream.table.incoming import PayloadsLike, field_columns, payload_texts
from hashstream.table.state.columns import field_column
from hashstream.table.state.filters import IdValues
from hashstream.table.state.ids import column_of
from hashstream.table.state.labels import LabelColumn, plain_labels
from hashstream.table.state.where import ColumnLike, parse_where

__all__ = ["Body", "as_matrix", "json_bytes", "parameters", "plain_filter", "plain_value"]

MAX_DEPTH = 60  # of a filter that is sent without a check here: a table takes 50
NUMBERS = "iufb"  # kinds of arrays that travel as they are


class Body:
    """The body of a request, as an .npz file."""

    def __init__(self, **settings: Any) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._texts = {name: _text(value) for name, value in settings.items()}

    def put(self, name: str, value: Any) -> None:
        """A setting that JSON can hold."""
        self._texts[name] = _text(value)

    def put_ids(self, ids: np.ndarray) -> None:
        """Ids as `as_ids` returns them. Strings are JSON: an array of them would lose a NUL at the end of one."""
        if ids.dtype == object:
            self.put("ids", ids.tolist())
        else:
            self._arrays["ids"] = ids

    def put_vectors(self, X: np.ndarray) -> None:
        self._arrays["vectors"] = X

    def put_labels(self, y: LabelsLike) -> np.ndarray:
        """Labels, which are returned as a table has them; TypeError or ValueError for those that it cannot have."""
        labels = plain_labels(as_labels(y))
        if labels.dtype.kind in f"{NUMBERS}U":
            self._arrays["labels"] = _native(labels)
        else:
            self.put("labels", labels.tolist())
        return labels

    def put_fields(self, fields: Mapping[str, Any], kinds: Mapping[str, str], n: int) -> None:
        """Fields of n rows, checked as a table does. kinds : of its fields."""
        every = np.arange(n)
        columns = field_columns(fields, kinds, n)
        self.put("fields", {name: column.take(every).tolist() for name, column in columns.items()})

    def put_payloads(self, payloads: PayloadsLike, n: int) -> None:
        texts = ["null" if text is None else text for text in payload_texts(payloads, n)]
        self._texts["payloads"] = f"[{','.join(texts)}]"

    def to_bytes(self) -> bytes:
        inside = ",".join(f'"{name}":{text}' for name, text in self._texts.items())
        return npz_bytes({**self._arrays, "json": np.array(f"{{{inside}}}".encode("ascii"))})


def as_matrix(X: Any) -> np.ndarray | None:
    """Rows of numbers as they travel, (n, d); None where the library's own check has to look at them first."""
    X = without_names(X)
    if type(X) not in (np.ndarray, np.memmap):
        if isinstance(X, np.ndarray) or hasattr(X, "toarray"):
            return None
        X = as_array(X)
    if X.ndim != 2 or not X.size or X.dtype.kind not in NUMBERS or X.dtype.itemsize > 8:
        return None
    return _native(X)


def _native(array: np.ndarray) -> np.ndarray:
    """In the byte order of this machine."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def json_bytes(value: Any) -> bytes:
    return _text(value).encode("ascii")


def _text(value: Any) -> str:
    return json.dumps(value, default=plain_value, separators=(",", ":"))


def parameters(settings: Mapping[str, Any]) -> str:
    """Settings as the parameters of an address.

    >>> parameters({"k": 10, "asymmetric": True, "include": ("labels", "fields"), "where": {"tenant": "a"}})
    '?k=10&asymmetric=true&include=labels,fields&where=%7B%22tenant%22:%22a%22%7D'
    """
    parts = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            value = _text(value)
        elif isinstance(value, (tuple, list, set, frozenset)):
            value = ",".join(value)
        elif isinstance(value, bool):
            value = str(value).lower()
        parts.append(f"{name}={quote(str(value), safe=',:/')}")
    return f"?{'&'.join(parts)}" if parts else ""


# ---- filters


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether a part of a filter is just what JSON gives back."""
    kind = type(value)
    if kind is dict:
        return depth > 0 and all(
            type(name) is str and is_plain(one, depth - 1) for name, one in value.items()
        )
    if kind is list:
        return depth > 0 and all(is_plain(one, depth - 1) for one in value)
    return kind in (str, int, float, bool) or value is None


def plain_filter(where: Any, kinds: Mapping[str, str], ids: str | None) -> Any:
    """A filter whose values JSON does not have, checked as a table does, so that errors name them, and as JSON has it.

    kinds : of the table's fields. ids : "int", "str", or None before the first item.

    >>> plain_filter({"taken": {"$gte": date(2024, 5, 31)}}, {"taken": "datetime"}, None)
    {'taken': {'$gte': '2024-05-31'}}
    """
    columns: dict[str, ColumnLike] = {
        "id": IdValues(None if ids is None else column_of(ids)),
        "label": LabelColumn(),
        **{name: field_column(kind) for name, kind in kinds.items()},
    }
    parse_where(where, columns)
    return _plain(where)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str.__str__(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return plain_value(value)


def plain_value(value: Any) -> Any:
    """A value that JSON cannot hold as one that it can; TypeError where there is none."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if is_missing(value):
        return None
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, str):
        return str.__str__(value)  # of an enumeration, its value
    if isinstance(value, (bool, int, float, list)):
        return value
    raise TypeError(f"{value!r:.200} is a {type(value).__name__}, which cannot be sent to a service")
