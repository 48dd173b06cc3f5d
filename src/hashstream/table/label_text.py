"""Labels for stored items as text, from a command line or a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hashstream.datasets.columns import Kind
from hashstream.datasets.errors import DatasetError, reading
from hashstream.table.id_text import find_ids
from hashstream.table.state.ids import as_ids

__all__ = ["find_labels", "parse_labels", "read_labels"]


class Labelled(Protocol):
    """The methods of a table that are needed here."""

    def count(self, where: Mapping[str, Any] | None = None) -> int: ...

    def __contains__(self, one: Any) -> bool: ...


def parse_labels(pairs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Ids and labels from texts such as "17=cat", which are divided at the first "=".

    >>> list(parse_labels(["17=cat"]))
    [('17', 'cat')]
    """
    for pair in pairs:
        one, equals, label = pair.partition("=")
        if not equals or not one or not label:
            raise ValueError(f"{pair!r} is not an id and a label: write ID=LABEL, as in 17=cat")
        yield one, label


def read_labels(path: Path) -> list[tuple[str, str]]:
    """Ids and labels from a .csv or .tsv file in UTF-8 that has columns `id` and `label`. Rows whose label is empty are
    left out."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        raise DatasetError(f"{path} ends in {path.suffix or 'nothing'}: labels are read from .csv or .tsv")
    if not path.is_file():
        raise DatasetError(f"there is no file {path}")
    found = []
    with reading(path, "UTF-8 text file"), path.open(encoding="utf-8-sig", newline="") as text:
        records = csv.DictReader(text, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        names = records.fieldnames or []
        if missing := [name for name in ("id", "label") if name not in names]:
            raise DatasetError(f"{path} has no column {missing[0]!r}: its columns are {', '.join(names)}")
        for record in records:
            if not record["id"] or record["label"] is None:
                raise DatasetError(f"{path}, line {records.line_num}, has no id or no label")
            if record["label"]:
                found.append((record["id"], record["label"]))
    return found


def find_labels(
    table: Labelled, pairs: Iterable[tuple[str, str]], *, text: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Stored ids and labels for `HashTable.label`, (n,) each; KeyError where an id is not stored.

    Labels are whole numbers if all of them look like that, and the table has no labels that are text. ValueError for
    an id with two labels, and for words where the table has numbers. text : take labels as text in any case.
    """
    chosen: dict[str, str] = {}
    for one, label in pairs:
        if chosen.setdefault(one, label) != label:
            raise ValueError(f"item {one} has two labels, {chosen[one]!r} and {label!r}")
    find_ids(table, chosen)  # names all that are missing
    ids = [find_ids(table, [one])[0] for one in chosen]
    words = text or table.count({"label": {"$gte": ""}}) > 0
    labels = Kind("label", words).of(list(chosen.values()), "labels")
    numbers = not words and table.count({"label": {"$gte": float("-inf")}}) > 0
    if numbers and labels.dtype.kind == "O":
        kinds = [Kind("label").of([label], "labels").dtype.kind for label in chosen.values()]
        row = kinds.index("O")
        raise ValueError(
            f"the label of item {list(chosen)[row]} is {labels[row]!r}, but the labels of this table are numbers. To "
            "give it all the same: --text"
        )
    return as_ids(ids), labels
