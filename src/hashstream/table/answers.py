"""Answers to queries that have names: as JSON, as .csv and .npz files, and compared with the queries' labels."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hashstream._files import atomic_path
from hashstream.table.results import RadiusResult, SearchResult
from hashstream.table.state.labels import label_at

__all__ = ["ANSWER_FILES", "Answers"]

ANSWER_FILES = (".csv", ".npz")
DECIMALS = 6  # of a distance as text


@dataclass(frozen=True)
class Answers:
    """The items found for q queries; those of query i are at offsets[i]:offsets[i + 1], nearest first.

    queries : (q,) ids of the queries. offsets : (q + 1,) int64. distances, ids : (found,).
    labels : of the items, as JSON has them; None for a missing one, a list of 0 and 1 for a row of a matrix.
    per_query : items per query, if each has the same number, as `search` returns them; otherwise None.
    """

    queries: np.ndarray
    offsets: np.ndarray
    distances: np.ndarray
    ids: np.ndarray
    labels: list[Any]
    per_query: int | None = None

    @classmethod
    def of(cls, queries: np.ndarray, result: SearchResult | RadiusResult) -> Answers:
        """Results of a search for queries with these ids (q,); labels if the search included them."""
        q, per_query = len(queries), None
        if isinstance(result, SearchResult):
            per_query = result.ids.shape[1]
            offsets = per_query * np.arange(q + 1)
        else:
            offsets = result.offsets
        ids, labels = result.ids.ravel(), result.labels
        plain = [None] * len(ids) if labels is None else [_plain_label(one) for one in labels.ravel()]
        return cls(queries, offsets, result.distances.ravel(), ids, plain, per_query)

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """The answers of one search that was asked in several parts, of which there is at least one."""
        widths = {part.per_query for part in parts}
        counts = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            np.concatenate([part.queries for part in parts]),
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.distances for part in parts]),
            np.concatenate([part.ids for part in parts]),
            [label for part in parts for label in part.labels],
            widths.pop() if len(widths) == 1 else None,
        )

    def __len__(self) -> int:
        return len(self.queries)

    def records(self) -> Iterator[dict[str, Any]]:
        """One record per query, as JSON has it: query, ids, distances, labels.

        >>> found = SearchResult(np.array([[0, 3]]), np.array([[17, 4]]))
        >>> next(Answers.of(np.array(["q"]), found).records())
        {'query': 'q', 'ids': [17, 4], 'distances': [0, 3], 'labels': [None, None]}
        """
        for i, query in enumerate(self.queries.tolist()):
            part = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
            distances = self.distances[part].tolist()
            yield {
                "query": query,
                "ids": self.ids[part].tolist(),
                "distances": [round(one, DECIMALS) if isinstance(one, float) else one for one in distances],
                "labels": self.labels[part],
            }

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

        .csv : query,rank,id,distance,label. .npz : queries; ids, distances and labels, (q, per_query) each. If
        `per_query` is None, these are (found,), and there are offsets. Labels are left out if one is missing.
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
                writer.writerow(("query", "rank", "id", "distance", "label"))
                for one in self.records():
                    columns = zip(one["ids"], one["distances"], one["labels"], strict=True)
                    writer.writerows((one["query"], rank, *row) for rank, row in enumerate(columns, 1))

    def _arrays(self) -> dict[str, Any]:
        found = {"ids": self.ids, "distances": self.distances}
        if None not in self.labels:
            found["labels"] = np.array(self.labels)
        if self.per_query is not None:
            shape = (len(self), self.per_query)
            found = {name: array.reshape(*shape, *array.shape[1:]) for name, array in found.items()}
        else:
            found["offsets"] = self.offsets
        arrays = {"queries": self.queries, **found}
        return {name: array.astype(str) if array.dtype == object else array for name, array in arrays.items()}


def _plain_label(label: Any) -> Any:
    return label.astype(int).tolist() if isinstance(label, np.ndarray) else label


def _share(label: Any, other: Any) -> bool:
    """Whether a query's label, and an item's, are the same; of matrices, whether the rows have a 1 in common."""
    if isinstance(label, np.ndarray):
        return bool(np.any(label * np.asarray(other)))
    return bool(label == other)
