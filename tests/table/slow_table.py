"""A table as a dict, searched by comparing every bit: slow, short, and the oracle of the fast one.

It shares no code with `hashstream.table`: it has a hasher of its own that learns the same batches and labels, and a
deep copy of it for every version.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher


@dataclass
class Entry:
    """An item. learned : whether the hasher has learned its label."""

    order: int
    bits: np.ndarray
    version: int
    x: np.ndarray
    label: Any
    learned: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    payload: Any = None


class SlowTable:
    def __init__(self, hasher: OnlineHasher) -> None:
        self.hasher = copy.deepcopy(hasher)
        self.of_version: dict[int, OnlineHasher] = {}
        self.items: dict[Any, Entry] = {}
        self.inserted = 0
        self.ever: set[Any] = set()

    def bits(self, version: int, X: np.ndarray) -> np.ndarray:
        return self.of_version[version].decision_function(X) > 0

    @property
    def version(self) -> int:
        return int(self.hasher.version_)

    # ---- writing

    def ingest(
        self,
        ids: list[Any],
        X: np.ndarray,
        y: Any = None,
        fields: dict[str, list[Any]] | None = None,
        payloads: list[Any] | None = None,
    ) -> None:
        labels = [None] * len(ids) if y is None else list(y)
        learned = any(label is not None for label in labels) or not self.hasher.needs_labels
        if learned:
            self.hasher.partial_fit(X, y)
        self._store(ids, X, labels, learned, fields, payloads)

    def add(
        self,
        ids: list[Any],
        X: np.ndarray,
        y: Any = None,
        fields: dict[str, list[Any]] | None = None,
        payloads: list[Any] | None = None,
    ) -> None:
        self._store(ids, X, [None] * len(ids) if y is None else list(y), False, fields, payloads)

    def _store(
        self,
        ids: list[Any],
        X: np.ndarray,
        labels: list[Any],
        learned: bool,
        fields: dict[str, list[Any]] | None,
        payloads: list[Any] | None,
    ) -> None:
        self.hasher = self.hasher.started(X)  # for rows that come before the first label
        self.of_version.setdefault(self.version, copy.deepcopy(self.hasher))
        bits = self.bits(self.version, X)
        for i, one in enumerate(ids):
            entry = Entry(self.inserted, bits[i], self.version, X[i].copy(), labels[i])
            entry.learned = learned and self.hasher.needs_labels and labels[i] is not None
            entry.fields = {name: values[i] for name, values in (fields or {}).items()}
            entry.payload = None if payloads is None else payloads[i]
            self.items[one] = entry
            self.inserted += 1
            self.ever.add(one)

    def label(self, ids: list[Any], y: list[Any]) -> int:
        """Items whose label is new are learned in the order of insertion: first those that were never learned. None
        takes a label back, which only some methods unlearn."""
        pairs = [(self.items[one], label) for one, label in zip(ids, y, strict=True)]
        need = self.hasher.needs_labels
        new = [
            pair
            for pair in pairs
            if pair[0].label != pair[1] or (need and pair[1] is not None and not pair[0].learned)
        ]
        new.sort(key=lambda pair: pair[0].order)
        corrects = self.hasher.can_correct()
        first = [pair for pair in new if not pair[0].learned and pair[1] is not None]
        again = [pair for pair in new if pair[0].learned and (pair[1] is not None or corrects)]
        if need and first:
            self.hasher.partial_fit(*_rows(first))
        if need and again:
            X, labels = _rows(again)
            old = _objects([entry.label for entry, _ in again])
            self.hasher = self.hasher.relabelled(X, old, labels)
        for entry, label in new:
            entry.label, entry.learned = label, need and label is not None
        self.of_version.setdefault(self.version, copy.deepcopy(self.hasher))
        return len(new)

    def remove(self, ids: list[Any]) -> None:
        for one in ids:
            del self.items[one]

    def refresh(self, budget: int | None = None) -> int:
        stale = [entry for entry in self.items.values() if entry.version != self.version]
        stale.sort(key=lambda entry: (entry.version, entry.order))
        for entry in stale[:budget]:
            entry.bits, entry.version = self.bits(self.version, entry.x[None])[0], self.version
        return len(stale[:budget])

    def renumber(self) -> None:
        """As a compaction does."""
        for order, entry in enumerate(sorted(self.items.values(), key=lambda entry: entry.order)):
            entry.order = order
        self.inserted = len(self.items)

    # ---- looking

    def counts(self) -> dict[int, int]:
        versions = [entry.version for entry in self.items.values()]
        return {version: versions.count(version) for version in sorted(set(versions))}

    def ids(self, keep: Callable[[dict[str, Any]], bool] = lambda item: True) -> list[Any]:
        """The ids of the items that a function of their values keeps, in the order of insertion."""
        ordered = sorted(self.items.items(), key=lambda pair: pair[1].order)
        return [
            one for one, entry in ordered if keep({**entry.fields, "id": one, "label": entry.label})
        ]  # fmt: skip

    def ranking(
        self, q: np.ndarray, asymmetric: bool = False, compare: str = "like"
    ) -> list[tuple[float, int, Any]]:
        """(distance, order of insertion, id) of every item, ascending."""
        found = []
        versions = {entry.version for entry in self.items.values()}
        of_version = {
            v: self.of_version[v if compare == "like" else self.version].decision_function(q[None])[0]
            for v in versions
        }
        for one, entry in self.items.items():
            values = of_version[entry.version].astype(np.float64)
            differs = (values > 0) != entry.bits
            if asymmetric:
                cost = np.abs(values) / np.abs(values).mean()
                found.append((float(cost[differs].sum()), entry.order, one))
            else:
                found.append((int(differs.sum()), entry.order, one))
        return sorted(found, key=lambda item: item[:2])


def _rows(pairs: list[tuple[Entry, Any]]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([entry.x for entry, _ in pairs]), _objects([label for _, label in pairs])


def _objects(labels: list[Any]) -> np.ndarray:
    out = np.empty(len(labels), object)
    out[:] = labels
    return out
