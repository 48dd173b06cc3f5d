"""Answers of shards, merged, are those of one list sorted by distance and then by order of insertion."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hashstream.scale.merging import (
    SEQUENCES,
    ClusterRadiusResult,
    Found,
    FoundWithin,
    Listed,
    candidates,
    merge_ids,
    merge_radius,
    split_radius,
    split_search,
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Distances (q, n) with many ties, and the shard of each item."""
    q, n = draw(st.integers(1, 4)), draw(st.integers(0, 30))
    far = draw(st.lists(st.integers(0, 3), min_size=q * n, max_size=q * n))
    shards = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return np.array(far, np.uint16).reshape(q, n), np.array(shards, np.intp)


def nearest(far: np.ndarray, items: np.ndarray, k: int) -> Found:
    """The k nearest of some items, as a table finds them: by distance, then by slot."""
    order = np.argsort(far[:, items], axis=1, kind="stable")[:, :k]
    ids = items[order] if len(items) else np.empty((len(far), 0), np.int64)
    labels = np.char.add("label ", ids.astype(str)).astype(object)
    columns = {SEQUENCES: ids * 10, ("labels", ""): labels, ("fields", "price"): ids * 3}
    return Found(np.take_along_axis(far, ids, axis=1), ids, columns)


@given(worlds(), st.integers(1, 12), st.integers(0, 5))
@settings(deadline=None)
def test_merged_is_sorted_as_one(world: tuple[np.ndarray, np.ndarray], k: int, offset: int) -> None:
    far, shards = world
    most = k + offset
    found = [nearest(far, np.flatnonzero(shards == shard), most) for shard in range(4)]
    merged = candidates(found, range(4), most)
    one = nearest(far, np.arange(far.shape[1]), most)
    hits = merged.result(offset, k, ("labels", "fields", "sequences"), 0.25)
    page = slice(offset, most)
    assert hits.distances.tolist() == one.distances[:, page].tolist()
    assert hits.ids.tolist() == one.ids[:, page].tolist()
    assert hits.labels is not None
    assert hits.labels.tolist() == one.columns["labels", ""][:, page].tolist()
    assert hits.fields is not None
    assert hits.fields["price"].tolist() == one.columns["fields", "price"][:, page].tolist()
    assert hits.sequences is not None
    assert hits.sequences.tolist() == (one.ids[:, page] * 10).tolist()
    assert hits.payloads is None
    assert hits.missing == 0.25
    if merged.ids.size:
        assert (merged.shards == shards[merged.ids]).all()
    counts = [1, len(far) - 1]
    first, rest = split_search(hits, counts)
    assert np.concatenate([first.ids, rest.ids]).tolist() == hits.ids.tolist()
    assert first.fields is not None
    assert first.fields["price"].tolist() == hits.fields["price"][:1].tolist()
    assert (first.missing, rest.missing) == (0.25, 0.25)


def within(far: np.ndarray, items: np.ndarray, radius: int) -> FoundWithin:
    rows = [items[np.argsort(far[i, items], kind="stable")] for i in range(len(far))]
    rows = [ids[far[i, ids] <= radius] for i, ids in enumerate(rows)]
    ids = np.concatenate(rows).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in rows])])
    distances = np.concatenate([far[i, ids] for i, ids in enumerate(rows)])
    return FoundWithin(offsets, distances, ids, {SEQUENCES: ids * 10, ("labels", ""): ids.astype(object)})


@given(worlds(), st.integers(0, 3))
@settings(deadline=None)
def test_merged_radius_is_sorted_as_one(world: tuple[np.ndarray, np.ndarray], radius: int) -> None:
    far, shards = world
    found = [within(far, np.flatnonzero(shards == shard), radius) for shard in range(4)]
    merged = merge_radius(found, ("labels",), 0.0)
    one = within(far, np.arange(far.shape[1]), radius)
    for name in ("offsets", "distances", "ids"):
        assert getattr(merged, name).tolist() == getattr(one, name).tolist()
    assert merged.labels is not None
    assert merged.labels.tolist() == one.ids.tolist()
    assert merged.sequences is None
    parts = split_radius(merged, [1] * len(far))
    assert [part.ids.tolist() for part in parts] == [
        merged.ids[merged.offsets[i] : merged.offsets[i + 1]].tolist() for i in range(len(far))
    ]
    assert all(isinstance(part, ClusterRadiusResult) and part.offsets[0] == 0 for part in parts)


def test_ids_are_listed_in_order_of_insertion() -> None:
    listed = [
        Listed(np.array([5, 6]), np.array([10, 30])),
        Listed(np.empty(0, np.int64), np.empty(0, np.int64)),
        Listed(np.array([7, 8]), np.array([20, 40])),
    ]
    assert merge_ids(listed, 0, None).tolist() == [5, 7, 6, 8]
    assert merge_ids(listed, 1, 2).tolist() == [7, 6]
    assert merge_ids([listed[1]], 0, None).tolist() == []
    texts = Listed(np.array(["a"], object), np.array([1]))
    assert merge_ids([listed[1], texts], 0, None).tolist() == ["a"]
