"""Answers as bytes: JSON for people; .npz and Arrow for machines, by the Accept header."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from hashstream._extras import require
from hashstream.serve.bodies import ARROW, JSON, NPZ
from hashstream.serve.npz import npz_bytes
from hashstream.table import Items, RadiusResult, SearchResult, TableStats

__all__ = ["Answer", "answered", "items_answer", "search_answer", "stats_answer", "to_json", "wanted"]

Answer = dict[str, Any]
"""Names -> arrays, which stay arrays for machines, and values that JSON can hold."""


def wanted(accept: str) -> str:
    """The media type of the answer that a caller prefers: JSON, unless another one is named."""
    for part in accept.lower().split(","):
        if (kind := part.partition(";")[0].strip()) in (JSON, NPZ, ARROW):
            return kind
    return JSON


def answered(answer: Answer, kind: str) -> tuple[bytes, str]:
    """An answer as bytes, and its media type."""
    if kind == NPZ:
        return _npz(answer), NPZ
    if kind == ARROW:
        return _arrow(answer), ARROW
    return to_json(answer), JSON


def to_json(answer: Any) -> bytes:
    """A value as JSON, in ASCII; arrays become lists, codes hexadecimal texts, and times ISO 8601.

    Numbers that JSON does not have, such as an infinite value of a field, become null.
    """
    try:
        return json.dumps(answer, default=_plain, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return to_json(_finite(json.loads(_python_json(answer))))


def _python_json(answer: Any) -> bytes:
    """As `to_json`, with Infinity and NaN as Python's parser reads them."""
    return json.dumps(answer, default=_plain, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """A value that json cannot write by itself, as one that it can."""
    if isinstance(value, np.ndarray):
        if value.dtype == np.uint8 and value.ndim == 2:  # codes
            return [row.tobytes().hex() for row in value]
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def search_answer(found: SearchResult | RadiusResult, *, partial: bool = False) -> Answer:
    """The result of a search, by the names of its attributes; labels, fields and payloads where included, and the share
    that is missing where the answer may be partial."""
    answer: Answer = {"distances": found.distances, "ids": found.ids}
    if isinstance(found, RadiusResult):
        answer = {"offsets": found.offsets, **answer}
    if found.labels is not None:
        answer["labels"] = found.labels.tolist()
    if found.fields is not None:
        answer["fields"] = {name: values.tolist() for name, values in found.fields.items()}
    if found.payloads is not None:
        answer["payloads"] = found.payloads.tolist()
    if partial:
        answer["missing"] = found.missing
    return answer


def items_answer(items: Items) -> Answer:
    return {
        "ids": items.ids,
        "codes": items.codes,
        "versions": items.versions,
        "labels": items.labels,
        "fields": items.fields,
        "payloads": items.payloads,
        "features": items.features,
    }


def stats_answer(stats: TableStats) -> Answer:
    """All figures; versions have strings for keys, as in JSON."""
    figures = {**vars(stats)}
    figures["versions"] = {str(version): count for version, count in stats.versions.items()}
    figures["drift"] = vars(stats.drift)
    figures["comparison"] = vars(stats.comparison)
    for name, value in figures.items():  # of a cluster: its parts
        if isinstance(value, TableStats):
            figures[name] = stats_answer(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], TableStats):
            figures[name] = [stats_answer(one) for one in value]
    return figures


def _npz(answer: Mapping[str, Any]) -> bytes:
    """Arrays as they are, and everything else as JSON in the array `json`; texts are JSON as well."""
    rest = {
        name: value
        for name, value in answer.items()
        if not isinstance(value, np.ndarray) or value.dtype == object
    }
    arrays = {name: value for name, value in answer.items() if name not in rest}
    return npz_bytes({**arrays, "json": np.array(_python_json(rest))})


def _arrow(answer: Mapping[str, Any]) -> bytes:
    """One row per item found: query (its number), id, distance, label, fields, payload (as JSON). The share that is
    missing is in the metadata."""
    pa = require("pyarrow", "parquet")
    require("pyarrow.ipc", "parquet")
    ids = np.asarray(answer["ids"])
    shape = ids.shape
    columns: dict[str, Any] = {}
    if "distances" in answer:
        columns["query"] = (
            np.repeat(np.arange(shape[0]), shape[1])
            if ids.ndim == 2
            else np.repeat(np.arange(len(answer["offsets"]) - 1), np.diff(answer["offsets"]))
        )
    columns["id"] = ids.ravel().tolist() if ids.dtype == object else ids.ravel()
    for name, column in (("distances", "distance"), ("versions", "version")):
        if name in answer:
            columns[column] = np.asarray(answer[name]).ravel()
    if "codes" in answer:
        columns["code"] = [row.tobytes() for row in answer["codes"]]
    if answer.get("features") is not None:
        X = answer["features"]
        columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    if "labels" in answer:
        columns["label"] = _texts(_flat(answer["labels"], ids.ndim))
    for name, values in (answer.get("fields") or {}).items():
        columns[f"field.{name}" if name in columns or name == "payload" else name] = _flat(values, ids.ndim)
    if "payloads" in answer:
        columns["payload"] = [
            None if one is None else to_json(one).decode() for one in _flat(answer["payloads"], ids.ndim)
        ]
    metadata = {"missing": str(answer["missing"])} if "missing" in answer else None
    table = pa.table(columns, metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _flat(values: Any, depth: int) -> list[Any]:
    return [one for row in values for one in row] if depth == 2 else list(values)


def _texts(labels: list[Any]) -> list[Any]:
    """Labels of one type as they are, others as JSON: a column of Arrow has one type, and integers of 64 bits."""
    kinds = {type(label) for label in labels if label is not None}
    wide = kinds == {int} and any(label is not None and not -(1 << 63) <= label < 1 << 63 for label in labels)
    if len(kinds) < 2 and not wide and not kinds & {np.ndarray, list, tuple}:
        return labels
    return [None if label is None else to_json(label).decode() for label in labels]
