"""Answers to queries that have names: as JSON, as .csv and .npz files, and compared with the queries' labels."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from hashstream._files import atomic_path
from hashstream.table.results import RadiusResult, SearchResult
from hashstream.table.state.labels import label_at

__all__ = ["ANSWER_FILES", "Answers", "cell_text", "plain_value"]

ANSWER_FILES = (".csv", ".npz")
DECIMALS = 6  # of a distance as text


@dataclass(frozen=True)
class Answers:
    """The items found for q queries; those of query i are at offsets[i]:offsets[i + 1], nearest first.

    queries : (q,) ids of the queries. offsets : (q + 1,) int64. distances, ids : (found,).
    labels : of the items, as JSON has them; None for a missing one, a list of 0 and 1 for a row of a matrix.
    per_query : items per query, if each has the same number, as `search` returns them; otherwise None.
    fields : name -> values of the items, times as ISO 8601. payloads : dicts. None for a missing value; both are None
        where they were not included.
    """

    queries: np.ndarray
    offsets: np.ndarray
    distances: np.ndarray
    ids: np.ndarray
    labels: list[Any]
    per_query: int | None = None
    fields: dict[str, list[Any]] | None = None
    payloads: list[dict[str, Any] | None] | None = None

    @classmethod
    def of(cls, queries: np.ndarray, result: SearchResult | RadiusResult) -> Answers:
        """Results of a search for queries with these ids (q,); labels, fields and payloads if they were included."""
        q, per_query = len(queries), None
        if isinstance(result, SearchResult):
            per_query = result.ids.shape[1]
            offsets = per_query * np.arange(q + 1)
        else:
            offsets = result.offsets
        ids, labels = result.ids.ravel(), result.labels
        plain = [None] * len(ids) if labels is None else [_plain_label(one) for one in labels.ravel()]
        fields = None
        if result.fields is not None:
            fields = {
                name: [plain_value(one) for one in values.ravel()] for name, values in result.fields.items()
            }
        payloads = None if result.payloads is None else result.payloads.ravel().tolist()
        return cls(queries, offsets, result.distances.ravel(), ids, plain, per_query, fields, payloads)

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """The answers of one search that was asked in several parts, of which there is at least one."""
        widths = {part.per_query for part in parts}
        fields = None
        if parts[0].fields is not None:
            names = dict.fromkeys(name for part in parts for name in part.fields or {})
            fields = {name: [one for part in parts for one in part.field(name)] for name in names}
        payloads = None
        if parts[0].payloads is not None:
            payloads = [payload for part in parts for payload in part.payloads or ()]
        counts = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            np.concatenate([part.queries for part in parts]),
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.distances for part in parts]),
            np.concatenate([part.ids for part in parts]),
            [label for part in parts for label in part.labels],
            widths.pop() if len(widths) == 1 else None,
            fields,
            payloads,
        )

    def __len__(self) -> int:
        return len(self.queries)

    def field(self, name: str) -> list[Any]:
        """The values of a field, which may have been declared while the search went on."""
        return (self.fields or {}).get(name, [None] * len(self.ids))

    def records(self) -> Iterator[dict[str, Any]]:
        """One record per query, as JSON has it: query, ids, distances, labels, and where they were included fields, as
        name -> values, and payloads.

        >>> found = SearchResult(np.array([[0, 3]]), np.array([[17, 4]]))
        >>> next(Answers.of(np.array(["q"]), found).records())
        {'query': 'q', 'ids': [17, 4], 'distances': [0, 3], 'labels': [None, None]}
        """
        for i, query in enumerate(self.queries.tolist()):
            part = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
            distances = self.distances[part].tolist()
            record = {
                "query": query,
                "ids": self.ids[part].tolist(),
                "distances": [round(one, DECIMALS) if isinstance(one, float) else one for one in distances],
                "labels": self.labels[part],
            }
            if self.fields is not None:
                record["fields"] = {name: values[part] for name, values in self.fields.items()}
            if self.payloads is not None:
                record["payloads"] = self.payloads[part]
            yield record

    def sharing(self, y: np.ndarray) -> tuple[int, int]:
        """How many answers share the label of their query, and how many are answers to queries that have a label.

        y : labels of the queries, (q,) or a 0/1 matrix (q, C); in a matrix, to share one class is enough.
        """
        hits = total = 0
        for i in range(len(self)):
            label = label_at(y, i)
            if label is None:
                continue
            found = self.labels[int(self.offsets[i]) : int(self.offsets[i + 1])]
            total += len(found)
            hits += sum(one is not None and _share(label, one) for one in found)
        return hits, total

    def save(self, path: Path) -> None:
        """Write a file, by its suffix.

        .csv : query,rank,id,distance,label, then a column per field and payload, which is JSON; lists are JSON as well.
        .npz : queries; ids, distances and labels, (q, per_query) each. If `per_query` is None, these are (found,), and
        there are offsets. Labels are left out if one is missing. Fields are arrays of their names, with NaN or "" for
        missing values; dates and times are ISO 8601, lists and payloads JSON.

        A field whose name the file uses already is called "field.NAME".
        """
        suffix = path.suffix.lower()
        if suffix not in ANSWER_FILES:
            raise ValueError(
                f"{path} ends in {suffix or 'nothing'}: answers are written to .csv or .npz files"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            if suffix == ".npz":
                with part.open("wb") as file:
                    np.savez(file, **self._arrays())
                return
            with part.open("w", newline="", encoding="utf-8") as text:
                writer = csv.writer(text, lineterminator="\n")
                head, fields = ["query", "rank", "id", "distance", "label"], self.fields or {}
                taken = {*head, "payload"}
                head += [f"field.{name}" if name in taken else name for name in fields]
                writer.writerow(head if self.payloads is None else [*head, "payload"])
                for one in self.records():
                    more = [list(map(cell_text, values)) for values in one.get("fields", {}).values()]
                    if self.payloads is not None:
                        more.append(list(map(cell_text, one["payloads"])))
                    columns = zip(one["ids"], one["distances"], one["labels"], *more, strict=True)
                    writer.writerows((one["query"], rank, *row) for rank, row in enumerate(columns, 1))

    def _arrays(self) -> dict[str, Any]:
        found = {"ids": self.ids, "distances": self.distances}
        if None not in self.labels:
            found["labels"] = np.array(self.labels)
        taken = {"queries", "ids", "distances", "labels", "offsets", "payloads", "file", "allow_pickle"}
        for name, values in (self.fields or {}).items():
            found[f"field.{name}" if name in taken else name] = _array(values)
        if self.payloads is not None:
            found["payloads"] = np.array(list(map(cell_text, self.payloads)), str)
        if self.per_query is not None:
            shape = (len(self), self.per_query)
            found = {name: array.reshape(*shape, *array.shape[1:]) for name, array in found.items()}
        else:
            found["offsets"] = self.offsets
        arrays = {"queries": self.queries, **found}
        return {name: array.astype(str) if array.dtype == object else array for name, array in arrays.items()}


def plain_value(value: Any) -> Any:
    """The value of a field as JSON has it."""
    return value.isoformat() if isinstance(value, datetime) else value


def cell_text(value: Any) -> Any:
    """A value of a field, or a payload, as a cell of text: "" for a missing one."""
    if value is None:
        return ""
    if isinstance(value, (bool, list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return value


def _array(values: list[Any]) -> np.ndarray:
    """The values of a field as an array without objects."""
    if any(isinstance(value, (str, list)) for value in values):
        return np.array([cell_text(value) for value in values], str)
    if None in values:
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(values)


def _plain_label(label: Any) -> Any:
    return label.astype(int).tolist() if isinstance(label, np.ndarray) else label


def _share(label: Any, other: Any) -> bool:
    """Whether a query's label, and an item's, are the same; of matrices, whether the rows have a 1 in common."""
    if isinstance(label, np.ndarray):
        return bool(np.any(label * np.asarray(other)))
    return bool(label == other)
