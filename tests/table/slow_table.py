"""A table as a dict, searched by comparing every bit: slow, short, and the oracle of the fast one.

It shares no code with `hashstream.table`: it has a hasher of its own that learns the same batches, and a deep copy of
it for every version.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher


@dataclass
class Entry:
    order: int
    bits: np.ndarray
    version: int
    x: np.ndarray
    label: Any


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

    def ingest(self, ids: list[Any], X: np.ndarray, y: Any = None) -> None:
        self.hasher.partial_fit(X, y)
        self.of_version.setdefault(self.version, copy.deepcopy(self.hasher))
        self._store(ids, X, y)

    def add(self, ids: list[Any], X: np.ndarray) -> None:
        self._store(ids, X, None)

    def _store(self, ids: list[Any], X: np.ndarray, y: Any) -> None:
        bits = self.bits(self.version, X)
        for i, one in enumerate(ids):
            label = None if y is None else y[i]
            self.items[one] = Entry(self.inserted, bits[i], self.version, X[i], label)
            self.inserted += 1
            self.ever.add(one)

    def remove(self, ids: list[Any]) -> None:
        for one in ids:
            del self.items[one]

    def refresh(self, budget: int | None = None) -> int:
        stale = [entry for entry in self.items.values() if entry.version != self.version]
        stale.sort(key=lambda entry: (entry.version, entry.order))
        for entry in stale[:budget]:
            entry.bits, entry.version = self.bits(self.version, entry.x[None])[0], self.version
        return len(stale[:budget])

    def counts(self) -> dict[int, int]:
        versions = [entry.version for entry in self.items.values()]
        return {version: versions.count(version) for version in sorted(set(versions))}

    # ---- searching

    def ranking(self, q: np.ndarray, asymmetric: bool = False) -> list[tuple[float, int, Any]]:
        """(distance, order of insertion, id) of every item, ascending."""
        found = []
        versions = {entry.version for entry in self.items.values()}
        of_version = {
            v: self.of_version[v].decision_function(q[None])[0].astype(np.float64) for v in versions
        }
        for one, entry in self.items.items():
            values = of_version[entry.version]
            differs = (values > 0) != entry.bits
            if asymmetric:
                cost = np.abs(values) / np.abs(values).mean()
                found.append((float(cost[differs].sum()), entry.order, one))
            else:
                found.append((int(differs.sum()), entry.order, one))
        return sorted(found, key=lambda item: item[:2])
