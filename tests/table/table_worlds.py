"""Small streams and comparisons that the tests of the table share."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.table.fingerprints import learned
from tests.table.plain_filters import matches
from tests.table.slow_table import SlowTable

from hashstream.table import HashTable

D, CLASSES = 12, 4


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, D) float32 around class centres that never change, and labels."""
    centres = np.random.default_rng(7).standard_normal((CLASSES, D)) * 2
    y = rng.integers(CLASSES, size=n)
    return (centres[y] + rng.standard_normal((n, D))).astype(np.float32), y


def same_answers(table: HashTable, model: SlowTable, Q: np.ndarray, k: int = 7) -> None:
    """Every answer of the table is the model's."""
    assert len(table) == len(model.items)
    assert table.stats().versions == model.counts()
    far, ids = table.search(Q, k)
    assert ids.shape == far.shape == (len(Q), min(k, len(model.items)))
    asymmetric = table.search(Q, k, asymmetric=True)
    offsets, near_far, near_ids = table.search_radius(Q, 3)
    for i, q in enumerate(Q):
        wanted = model.ranking(q)
        assert ids[i].tolist() == [one for _, _, one in wanted[:k]]
        assert far[i].tolist() == [distance for distance, _, _ in wanted[:k]]
        within = [(distance, one) for distance, _, one in wanted if distance <= 3]
        found = slice(offsets[i], offsets[i + 1])
        assert list(zip(near_far[found].tolist(), near_ids[found].tolist(), strict=True)) == within
        weighted = model.ranking(q, asymmetric=True)
        np.testing.assert_allclose(
            asymmetric.distances[i], [d for d, _, _ in weighted[:k]], rtol=1e-5, atol=1e-6
        )
        by_id = {one: distance for distance, _, one in weighted}
        np.testing.assert_allclose(
            asymmetric.distances[i],
            [by_id[one] for one in asymmetric.ids[i].tolist()],
            rtol=1e-5,
            atol=1e-6,
        )


def same_items(table: HashTable, model: SlowTable) -> None:
    """Every item of the table is the model's: code, version, features, label, fields, payload."""
    ids: list[Any] = list(model.items)
    got = table.get(ids)
    for i, one in enumerate(ids):
        entry = model.items[one]
        assert one in table
        assert got.versions[i] == entry.version
        assert got.codes[i].tolist() == np.packbits(entry.bits).tolist()
        assert got.labels[i] == entry.label
        given = entry.label.item() if isinstance(entry.label, np.generic) else entry.label
        assert type(got.labels[i]) is type(given)
        assert got.payloads[i] == entry.payload
        for name, values in got.fields.items():
            assert values[i] == entry.fields.get(name)
            assert type(values[i]) is type(entry.fields.get(name))
        if got.features is not None:
            assert got.features[i].tolist() == entry.x.tolist()
    for one in model.ever - set(ids):
        assert one not in table


def same_matches(table: HashTable, model: SlowTable, Q: np.ndarray, where: dict[str, Any]) -> None:
    """Every answer about the items that pass a filter is the model's."""
    wanted = model.ids(lambda item: matches(where, item))
    assert table.count(where) == len(wanted), where
    assert table.ids(where).tolist() == wanted, where
    assert table.ids(where, offset=1, limit=3).tolist() == wanted[1:4]
    keep = set(wanted)
    for compare in ("like", "current"):
        found = table.search(Q, 4, where=where, compare=compare, offset=2, include=("labels", "fields"))
        offsets, far, ids = radius = table.search_radius(
            Q, 6, where=where, compare=compare, include=("payloads", "labels", "fields")
        )
        assert found.payloads is None
        assert radius.labels is not None
        assert radius.payloads is not None
        for i, q in enumerate(Q):
            ranking = [one for one in model.ranking(q, compare=compare) if one[2] in keep]
            page = ranking[2:6]
            assert found.ids[i].tolist() == [one for _, _, one in page], where
            assert found.distances[i].tolist() == [distance for distance, _, _ in page]
            _same_included(found, i, [one for _, _, one in page], model)
            near = [(distance, one) for distance, _, one in ranking if distance <= 6]
            part = slice(offsets[i], offsets[i + 1])
            assert list(zip(far[part].tolist(), ids[part].tolist(), strict=True)) == near, where
            payloads = [model.items[one].payload for _, one in near]
            assert radius.payloads[part].tolist() == payloads
            assert radius.labels[part].tolist() == [model.items[one].label for _, one in near]


def _same_included(found: Any, i: int, ids: list[Any], model: SlowTable) -> None:
    assert found.labels[i].tolist() == [model.items[one].label for one in ids]
    for name, values in found.fields.items():
        assert values[i].tolist() == [model.items[one].fields.get(name) for one in ids]


def same_model(table: HashTable, model: SlowTable) -> None:
    """The hasher has learned the same, to the last bit."""
    assert learned(table.hasher) == learned(model.hasher)
    assert table.hasher.version_ == model.version
