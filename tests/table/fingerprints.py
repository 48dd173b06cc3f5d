"""Everything that two tables must have in common to be the same table, to the last bit."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from hashstream.hashers import OnlineHasher
from hashstream.hashers.serialization import to_bytes
from hashstream.table import HashTable
from hashstream.table.digests import sum_of

CHOSEN_BY_TIME = {
    "codes",
    "versions",
    "encoders",
    "search",
    "commits",
    "policy",
    "comparison",
    "relabelled",
    "adopted",
    "digest",
}
"""What depends on how far a background thread has come."""

OPERANDS: dict[str, list[Any]] = {
    "str": ["a", {"$exists": False}],
    "float": [{"$lt": 0.5}],
    "int": [{"$gte": 5}],
    "bool": [True],
    "datetime": [{"$lt": "2024-01-05T00:00:00"}],
    "list": [{"$in": ["green", "blue"]}],
}
"""Right-hand sides of filters, by the kind of the field."""


def fingerprint(table: HashTable, Q: np.ndarray) -> dict[str, Any]:
    """Name -> what the table holds or answers, in values that can be compared by ==."""
    view = table._state.view
    slots = view.live()
    if view.column is None:
        hasher = learned(table._state.model.hasher)
        commits = table.stats().commits
        return {"ids": [], "hasher": hasher, "kinds": table.fields, "commits": commits, "keys": keys(table)}
    ids = view.column.take(slots)
    items = table.get(ids)
    sampled, X, labels = table._state.sample.items()
    far = max(1, len(view))
    return {
        "ids": ids.tolist(),
        "slots": [slots.tolist(), view.n_slots],
        "codes": items.codes.tobytes().hex(" ", items.codes.shape[1]),
        "versions": items.versions.tolist(),
        "labels": [_plain(label) for label in items.labels],
        "learned": view.labels.texts(slots),
        "kinds": table.fields,
        "fields": items.fields,
        "payloads": items.payloads,
        "filtered": [table.ids(one).tolist() for one in filters(table)],
        "relabelled": table._state.relabelled,
        "adopted": table._state.adopted,
        "sequences": [] if items.sequences is None else items.sequences.tolist(),
        "digest": [table.digest(), sum_of(table.codes(rows=5))],
        "comparison": table._state.comparison.to_fields(),
        "features": None if items.features is None else digest(items.features.tobytes()),
        "hasher": learned(table._state.model.hasher),
        "newest": view.newest,
        "encoders": {
            version: digest(encoder.decision_function(Q).tobytes())
            for version, encoder in view.encoders.items()
        },
        "policy": dict(table._state.memory),
        "sample": [sampled.tolist(), digest(X.tobytes()), [_plain(label) for label in labels]],
        "search": [
            [part.tolist() for part in found]
            for found in (
                table.search(Q, far),
                table.search(Q, 3),
                table.search(Q, far, asymmetric=True),
                table.search_radius(Q, 4),
            )
        ],
        "commits": table.stats().commits,
        "keys": keys(table),
    }


def keys(table: HashTable) -> list[tuple[Any, ...]]:
    """The calls that the table remembers."""
    return [tuple(call) for call in table._storage.all_done()]


def filters(table: HashTable) -> list[dict[str, Any]]:
    """Some that the table can answer."""
    found: list[dict[str, Any]] = [{"label": {"$exists": True}}]
    for name, kind in table.fields.items():
        found += [{name: value} for value in OPERANDS[kind]]
    return found


def learned(hasher: OnlineHasher) -> str:
    """The digest that a saved hasher carries: over its parameters, all of its state, and its random generator's."""
    raw = to_bytes(hasher)
    size = int.from_bytes(raw[:8], "little")
    return str(json.loads(raw[8 : 8 + size])["__metadata__"]["sha256"])


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _plain(label: Any) -> Any:
    return label.tolist() if isinstance(label, (np.ndarray, np.generic)) else label


def differences(found: dict[str, Any], wanted: dict[str, Any], lazy: bool = False) -> list[str]:
    """The names under which they differ; `lazy` : apart from what a background thread chooses."""
    names = (found.keys() | wanted.keys()) - (CHOSEN_BY_TIME if lazy else set())
    return sorted(name for name in names if found.get(name) != wanted.get(name))


def wrong_answers(table: HashTable, Q: np.ndarray) -> list[str]:
    """What is wrong with the table in itself: codes that their version does not make of the features, and searches that
    a comparison of every stored code does not confirm."""
    view = table._state.view
    if view.column is None:
        return []
    table.check(sample=1 << 20)  # every code against its features
    slots = view.live()
    ids = view.column.take(slots)
    items = table.get(ids)
    n_bits = next(iter(view.encoders.values())).n_bits
    bits = np.unpackbits(items.codes, axis=1, count=n_bits).astype(bool)
    far = np.empty((2, len(Q), len(ids)), int)
    for version, encoder in view.encoders.items():
        at = items.versions == version
        far[0][:, at] = ((encoder.decision_function(Q) > 0)[:, None] != bits[None, at]).sum(axis=2)
    far[1] = ((view.encoders[view.newest].decision_function(Q) > 0)[:, None] != bits[None]).sum(axis=2)
    wrong = []
    for how, away in zip(("like", "current"), far, strict=True):
        distances, found = table.search(Q, max(1, len(ids)), compare=how)
        for i in range(len(Q)):
            order = np.argsort(away[i], kind="stable")
            if found[i].tolist() != ids[order].tolist() or distances[i].tolist() != away[i][order].tolist():
                wrong.append(f"search {i}, {how}")
    if set(items.versions.tolist()) - set(view.encoders):
        wrong.append("an item of a version without functions")
    return wrong
