"""The part of a table that teaching looks at: its sample, its labelled items, and codes that can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.serve.kinds import Servable

__all__ = [
    "MOST_ITEMS",
    "Looked",
    "class_counts",
    "label_key",
    "labelled_ids",
    "look",
    "members",
    "sample_ids",
    "thinned",
]

MOST_ITEMS = 1000
"""Items that are compared with one another at most, so that everything here takes milliseconds."""

MOST_COUNTED = 20_000  # labels that are counted one by one

HAS_LABEL = {"label": {"$exists": True}}


@dataclass(frozen=True)
class Looked:
    """Items with codes that can be compared: all of one version.

    ids : (n,). signs : (n, r) float32, the bits as -1 and +1. labels : None for a missing one.
    features : (n, d), or None where the table keeps none, or they were not asked for.
    version : the version of all codes; None where there are no items.
    """

    ids: np.ndarray
    signs: np.ndarray
    labels: list[Any]
    features: np.ndarray | None
    version: int | None

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: np.ndarray) -> Looked:
        """Those of a mask (n,) bool."""
        labels = [label for label, kept in zip(self.labels, keep.tolist(), strict=True) if kept]
        features = None if self.features is None else self.features[keep]
        return Looked(self.ids[keep], self.signs[keep], labels, features, self.version)


def thinned(ids: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of the ids, evenly spread over their order."""
    if len(ids) <= most:
        return ids
    return ids[np.arange(most) * len(ids) // most]


def sample_ids(table: Servable, most: int = MOST_ITEMS) -> np.ndarray:
    """Ids of the table's sample in the order of insertion, evenly thinned."""
    return thinned(table.sample_ids(), most)


def labelled_ids(table: Servable, most: int | None = MOST_ITEMS) -> np.ndarray:
    """Ids of all items that have a label in the order of insertion, evenly thinned; None for all."""
    ids = table.ids(HAS_LABEL)
    return ids if most is None else thinned(ids, most)


def look(table: Servable, ids: np.ndarray, *, features: bool = False) -> Looked:
    """Items by their ids, those that are still stored.

    Codes of different versions cannot be compared. Where there are several, items of older versions get the codes of
    the current functions, from their features; where the table keeps none, the items of the most common version remain.
    """
    while True:
        try:
            found = table.get(ids, features=features)
            break
        except KeyError:  # removed since the ids were read
            there = np.array([one in table for one in ids.tolist()], bool)
            ids = ids[there]
    codes, versions, X = found.codes, found.versions, found.features
    if not len(ids):
        return Looked(ids, np.empty((0, 0), np.float32), [], X, None)
    kinds, counts = np.unique(versions, return_counts=True)
    version = int(kinds[-1])
    keep: np.ndarray | None = None
    hasher = table.hasher
    if len(kinds) > 1 and table.keeps_features:
        version, stale = hasher.version_, np.flatnonzero(versions != hasher.version_)
        rows = table.get(ids[stale]).features if X is None else X[stale]
        assert rows is not None
        codes = codes.copy()
        codes[stale] = hasher.transform(rows)
    elif len(kinds) > 1:
        version = int(kinds[counts.argmax()])
        keep = versions == version
    signs = np.unpackbits(codes, axis=1, count=hasher.n_bits_).astype(np.float32) * 2 - 1
    items = Looked(ids, signs, list(found.labels), X, version)
    return items if keep is None else items.where(keep)


def label_key(label: Any) -> Any:
    """A label as JSON and dicts take it: a row of a label matrix as a tuple of 0 and 1, all else as Python's own."""
    if isinstance(label, (np.ndarray, list, tuple)):
        return tuple(int(one) for one in label)
    return label.item() if isinstance(label, np.generic) else label


def members(labels: Iterable[Any]) -> tuple[np.ndarray, list[Any] | None]:
    """Which items have which label, (n, classes) float32, and the classes in order of appearance.

    In a label matrix the columns are the classes, without names: None.
    """
    keys = [label_key(label) for label in labels]
    if any(isinstance(key, tuple) for key in keys):
        if len({len(key) if isinstance(key, tuple) else -1 for key in keys}) > 1:
            raise ValueError("rows of a label matrix cannot be compared with other labels")
        return np.array(keys, np.float32), None
    number: dict[Any, int] = {}
    numbers = np.array([number.setdefault(key, len(number)) for key in keys], np.intp)
    return (numbers[:, None] == np.arange(len(number))).astype(np.float32), list(number)


def class_counts(table: Servable) -> list[dict[str, Any]]:
    """Every label with the number of items that have it, the most common first; in a label matrix every column.

    Where more than 20,000 items have a label, labels that were never learned may be missing.
    """
    ids = labelled_ids(table, MOST_COUNTED)
    has, classes = members(table.get(ids, features=False).labels)
    names = list(range(has.shape[1])) if classes is None else classes
    counts = dict(zip(names, has.sum(axis=0).astype(int).tolist(), strict=True))
    if len(ids) == MOST_COUNTED and classes is not None:
        learned = [label_key(label) for label in getattr(table.hasher, "classes_", [])]
        counts = {label: table.count({"label": label}) for label in dict.fromkeys([*names, *learned])}
    return [
        {"label": label, "count": count}
        for label, count in sorted(counts.items(), key=lambda pair: -pair[1])
        if count
    ]
