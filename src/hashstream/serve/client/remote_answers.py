"""Answers of a service as the results that a `HashTable` returns. They are untrusted: a ValueError says what is odd."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from hashstream.serve.npz import read_npz_bytes
from hashstream.table.results import Items, RadiusResult, SearchResult
from hashstream.table.state.comparison import Comparison
from hashstream.table.stats import Drift, TableStats

__all__ = ["ArrayAnswer", "Kinds", "count_in", "read_object", "read_stats"]

Kinds = Callable[[list[str]], Mapping[str, str]]
"""A function that returns the kinds of the fields with these names, at least."""

DISTANCES = (np.dtype(np.uint16), np.dtype(np.float64))
FEATURES = (np.dtype(np.float32), np.dtype(np.float64))

T = TypeVar("T")


def read_object(raw: bytes | bytearray) -> dict[str, Any]:
    """An object in JSON."""
    try:
        found = json.loads(raw)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    except ValueError:
        raise ValueError("something else than JSON") from None
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__} in the place of an object")
    return found


def count_in(found: Mapping[str, Any], name: str) -> int:
    """A number of an answer, at least 0."""
    value = found.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(f"no number {name!r}")
    return value


class ArrayAnswer:
    """An answer as an .npz file: arrays, and everything else as JSON."""

    def __init__(self, raw: bytes | bytearray) -> None:
        self._arrays = read_npz_bytes(raw)
        text = self._arrays.pop("json", None)
        if text is not None and (text.ndim or text.dtype.kind not in "US"):
            raise ValueError("an .npz file whose array json is not a text")
        self._rest = {} if text is None else read_object(text.item())

    def search(self, q: int, kinds: Kinds) -> SearchResult:
        """The result of a search for q queries."""
        distances = self._array("distances", DISTANCES, (q, None))
        found = SearchResult(distances, self._ids(distances.shape))
        self._include(found, kinds)
        return found

    def radius(self, q: int, kinds: Kinds) -> RadiusResult:
        offsets = self._array("offsets", (np.dtype(np.int64),), (q + 1,))
        n = int(offsets[-1])
        if offsets[0] or (offsets[1:] < offsets[:-1]).any():
            raise ValueError("offsets that do not ascend")
        distances = self._array("distances", DISTANCES[:1], (n,))
        found = RadiusResult(offsets, distances, self._ids((n,)))
        self._include(found, kinds)
        return found

    def items(self, ids: np.ndarray, kinds: Kinds, *, features: bool) -> Items:
        """Stored data of items. ids : that were asked for."""
        shape = (len(ids),)
        X = self._array("features", FEATURES, (*shape, None)) if "features" in self._arrays else None
        return Items(
            ids,
            self._array("codes", (np.dtype(np.uint8),), (*shape, None)),
            self._array("versions", (np.dtype(np.int64),), shape),
            list(self._labels(shape)),
            X if features else None,
            {name: values.tolist() for name, values in self._fields(shape, kinds).items()},
            self._payloads(shape).tolist(),
        )

    def ids(self) -> np.ndarray:
        """Ids of items, (n,)."""
        known = self._arrays.get("ids", self._rest.get("ids"))
        if not isinstance(known, (np.ndarray, list)) or not np.ndim(known):
            raise ValueError("no ids")
        return self._ids((len(known),))

    # ---- parts

    def _array(self, name: str, dtypes: tuple[np.dtype, ...], shape: tuple[int | None, ...]) -> np.ndarray:
        """An array of one of these dtypes; None in the shape is any number."""
        array = self._arrays.get(name)
        if array is None:
            raise ValueError(f"no array {name!r}")
        fits = array.ndim == len(shape) and all(
            side in (None, there) for side, there in zip(shape, array.shape, strict=True)
        )
        if array.dtype not in dtypes or not fits:
            raise ValueError(f"an array {name!r} of shape {array.shape}, {array.dtype}")
        return array

    def _ids(self, shape: tuple[int, ...]) -> np.ndarray:
        if "ids" in self._arrays:
            return self._array("ids", (np.dtype(np.int64),), shape)
        return _objects("ids", self._rest.get("ids"), shape, _string, gaps=False)

    def _include(self, found: SearchResult | RadiusResult, kinds: Kinds) -> None:
        shape = found.ids.shape
        if self._rest.get("labels") is not None:
            found.labels = self._labels(shape)
        if self._rest.get("fields") is not None:
            found.fields = self._fields(shape, kinds)
        if self._rest.get("payloads") is not None:
            found.payloads = self._payloads(shape)
        missing = self._rest.get("missing", 0.0)
        if type(missing) not in (int, float) or not 0 <= missing <= 1:
            raise ValueError(f"the share {missing!r} of missing items")
        found.missing = float(missing)

    def _labels(self, shape: tuple[int, ...]) -> np.ndarray:
        return _objects("labels", self._rest.get("labels"), shape, _label)

    def _payloads(self, shape: tuple[int, ...]) -> np.ndarray:
        return _objects("payloads", self._rest.get("payloads"), shape, _payload)

    def _fields(self, shape: tuple[int, ...], kinds: Kinds) -> dict[str, np.ndarray]:
        given = self._rest.get("fields")
        if not isinstance(given, dict):
            raise ValueError("no fields")
        known = kinds(list(given))
        if unknown := [name for name in given if name not in known]:
            raise ValueError(f"the field {unknown[0][:80]!r}, which the table does not have")
        return {name: _objects(name, values, shape, VALUES[known[name]]) for name, values in given.items()}


def _objects(
    name: str, values: Any, shape: tuple[int, ...], value: Callable[[Any], Any], *, gaps: bool = True
) -> np.ndarray:
    """Lists within lists as an array of objects, each of which `value` checks and converts. gaps : None stays None."""
    if len(shape) == 2 and isinstance(values, list) and len(values) == shape[0]:
        fits = all(isinstance(row, list) and len(row) == shape[1] for row in values)
        values = [one for row in values for one in row] if fits else None
    elif not isinstance(values, list) or len(shape) != 1 or len(values) != shape[0]:
        values = None
    if values is None:
        raise ValueError(f"{name!r} that are not in lists of shape {shape}")
    found = np.empty(len(values), object)
    try:
        for i, one in enumerate(values):
            found[i] = None if one is None and gaps else value(one)
    except (TypeError, ValueError):
        raise ValueError(f"{name!r} of a wrong type: {values[i]!r:.80}") from None
    return found.reshape(shape)


# ---- values


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _label(value: Any) -> Any:
    if isinstance(value, list):
        if not all(type(one) in (int, bool) and one in (0, 1) for one in value):
            raise TypeError
        return np.array(value, bool)
    if not isinstance(value, (str, bool, int, float)):
        raise TypeError
    return value


def _payload(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _float(value: Any) -> float:
    if type(value) is bool:
        raise TypeError
    return float(value)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [_string(one) for one in value]


VALUES: dict[str, Callable[[Any], Any]] = {
    "str": _string,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "datetime": datetime.fromisoformat,
    "list": _texts,
}
"""Functions that read a value of a field, by its kind."""


# ---- figures


def read_stats(found: Mapping[str, Any]) -> TableStats:
    """The figures of a table, whose versions have strings for keys in JSON."""
    versions, history = found.get("versions"), found.get("map_history")
    if not isinstance(versions, dict) or not all(key.lstrip("-").isdigit() for key in versions):
        raise ValueError("no versions")
    if not isinstance(history, list) or not all(isinstance(one, list) and len(one) == 2 for one in history):
        raise ValueError("no map_history")
    return _record(
        TableStats,
        {
            **found,
            "versions": {int(key): count for key, count in versions.items()},
            "map_history": tuple(tuple(one) for one in history),
            "drift": _record(Drift, found.get("drift")),
            "comparison": _record(Comparison, found.get("comparison")),
        },
    )


def _record(cls: Callable[..., T], values: Any) -> T:
    """A dataclass with these values; ValueError where one is missing or of another type. Others are ignored."""
    hints = get_type_hints(cls)
    if not isinstance(values, Mapping):
        raise ValueError(f"no {cls.__name__}")
    for name, hint in hints.items():
        if name not in values or not _fits(values[name], hint):
            raise ValueError(f"no {name!r} of the right type")
    return cls(**{one.name: values[one.name] for one in fields(cls)})  # type: ignore[arg-type]


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else origin or hint)
