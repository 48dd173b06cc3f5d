"""Candidates ranked again by their features, against a brute force over all items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never, TableError

HASHER = hs.FCOH(n_bits=16, batch_size=8, random_state=0)
METRICS = ["cosine", "dot", "euclidean"]
N = 60


def opened(path: Path | None = None, **settings: Any) -> HashTable:
    return HashTable.open(path, HASHER, **{"policy": Never(), **settings})


def data() -> tuple[np.ndarray, np.ndarray]:
    """With rows that are equal, and rows of zeros."""
    X, y = rows(np.random.default_rng(0), N)
    X[10:14], X[20], X[40] = X[3], 0, 0
    return X, y


def distance(q: np.ndarray, x: np.ndarray, metric: str) -> float:
    q, x = q.astype(np.float64), x.astype(np.float64)
    if metric == "euclidean":
        return float(np.sqrt(((q - x) ** 2).sum()))
    product = float((q * x).sum())
    if metric == "dot":
        return -product
    length = float(np.sqrt((q * q).sum()) * np.sqrt((x * x).sum()))
    return 1 - product / length if length else 1.0


def agrees(found: Any, Q: np.ndarray, kept: dict[int, np.ndarray], metric: str, page: slice) -> None:
    """The page of the ranking of all kept items; what is equally far away is in the order of `kept`, but for
    rounding."""
    assert found.distances.dtype == np.float64
    for i, q in enumerate(Q):
        far = {one: distance(q, x, metric) for one, x in kept.items()}
        ranking = sorted(far.values())[page]
        np.testing.assert_allclose(found.distances[i], ranking, rtol=1e-6, atol=1e-6)
        ids = found.ids[i].tolist()
        assert len(set(ids)) == len(ids)
        np.testing.assert_allclose([far[one] for one in ids], ranking, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("place", ["memory", "folder"])
def test_all_items_rescored_are_ranked_by_features(tmp_path: Path, place: str, metric: Any) -> None:
    X, y = data()
    Q = np.vstack([X[[3, 20]], rows(np.random.default_rng(1), 4)[0]])
    with opened(None if place == "memory" else tmp_path / "t") as table:
        table.ingest(range(30), X[:30], y[:30])
        table.ingest(range(30, N), X[30:], y[30:])
        held = {one: X[one] for one in range(N)}
        for rescore in (N, N + 1, 10**6):
            agrees(table.search(Q, N, rescore=rescore, metric=metric), Q, held, metric, slice(N))
            found = table.search(Q, 7, rescore=rescore, metric=metric, include=("labels",))
            agrees(found, Q, held, metric, slice(7))
            assert found.labels is not None
            assert found.labels.tolist() == y[found.ids].tolist()
            agrees(
                table.search(Q, 7, rescore=rescore, metric=metric, offset=5), Q, held, metric, slice(5, 12)
            )
            asymmetric = table.search(
                Q, 7, rescore=rescore, metric=metric, asymmetric=True, compare="current"
            )
            agrees(asymmetric, Q, held, metric, slice(7))
        where = {"id": {"$in": list(range(0, N, 7))}}
        kept = {one: X[one] for one in range(0, N, 7)}
        agrees(table.search(Q, 20, rescore=N, metric=metric, where=where), Q, kept, metric, slice(20))
        assert table.search(Q, 20, rescore=N, metric=metric, where={"id": -1}).ids.shape == (len(Q), 0)
        table.remove(range(0, N, 3))
        table.compact()
        held = {one: X[one] for one in range(N) if one % 3}
        agrees(table.search(Q, N, rescore=N, metric=metric), Q, held, metric, slice(N))


@pytest.mark.parametrize("metric", METRICS)
def test_some_candidates_are_the_nearest_by_code(metric: Any) -> None:
    X, y = data()
    Q = rows(np.random.default_rng(1), 3)[0]
    with opened() as table:
        table.ingest(range(N), X, y)
        whole = table.search(Q, 12, rescore=12, metric=metric).ids
        for k, rescore, offset in ((3, 12, 0), (3, 12, 4), (8, 12, 4)):
            found = table.search(Q, k, rescore=rescore, metric=metric, offset=offset)
            assert found.ids.tolist() == whole[:, offset : offset + k].tolist()  # pages of one ranking
            candidates = table.search(Q, rescore).ids
            assert found.ids.shape == (3, k)
            for i, q in enumerate(Q):
                kept = {one: X[one] for one in candidates[i].tolist()}
                wanted = sorted(distance(q, x, metric) for x in kept.values())[offset : offset + k]
                np.testing.assert_allclose(found.distances[i], wanted, rtol=1e-6, atol=1e-6)
                assert set(found.ids[i].tolist()) <= set(kept)


@pytest.mark.parametrize("metric", METRICS)
def test_ties_are_in_the_order_of_the_codes(metric: Any) -> None:
    """Items with the same features have the same code: the earliest comes first."""
    X, y = data()
    with opened() as table:
        table.ingest(range(N, 0, -1), X, y)
        ids = table.search(X[3:4], N, rescore=N, metric=metric).ids[0].tolist()
        same = [N - i for i in (3, 10, 11, 12, 13)]
        assert [one for one in ids if one in same] == same


def test_zeros_and_what_cannot_be_compared() -> None:
    X, y = data()
    with opened() as table:
        for empty in (True, False):
            found = table.search(X[:2], 3, rescore=5)
            assert found.distances.dtype == np.float64
            assert found.ids.shape == (2, 0 if empty else 3)
            for name, wrong in (("rescore", 0), ("rescore", 1.5), ("metric", "hamming"), ("metric", None)):
                with pytest.raises(ValueError, match=name):
                    table.search(X[:1], 3, **{"rescore": 5, name: wrong})
            if empty:
                table.ingest(range(N), X, y)
        assert (table.search(np.zeros_like(X[:1]), N, rescore=N).distances == 1).all()
        found = table.search(X[:1], N, rescore=N)
        assert found.distances[0][found.ids[0] == 20].tolist() == [1.0]
        for bad in (np.nan, np.inf):
            Q = X[:2].copy()
            Q[1, 2] = bad
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                table.search(Q, 3, rescore=5)
        large = np.full((1, X.shape[1]), 3e38, np.float32)
        assert np.isfinite(table.search(large, 3, rescore=5, metric="euclidean").distances).all()
        with pytest.raises(ValueError, match=r"0 sample"):
            table.search(X[:0], 3, rescore=5)


def test_a_table_without_features_cannot_rescore() -> None:
    X, y = data()
    with HashTable.open(None, HASHER, keep_features=False, policy="projected") as table:
        table.ingest(range(N), X, y)
        with pytest.raises(TableError, match="keeps no features"):
            table.search(X[:1], 3, rescore=5)


def test_a_reader_whose_features_a_compaction_has_deleted(tmp_path: Path) -> None:
    """It goes over to the state after the compaction, by itself, and answers from that."""
    X, y = data()
    with opened(tmp_path / "t") as table:
        table.ingest(range(N), X, y, payloads=[{"n": i} for i in range(N)])
        with HashTable.open(tmp_path / "t", mode="read") as reader:
            assert reader.search(X[:1], 1, rescore=N).ids.tolist() == [[0]]
            table.remove(range(0, N, 2))
            table.compact()
            found = reader.search(X[1:2], N, rescore=N, include=("payloads",))
            agrees(found, X[1:2], {one: X[one] for one in range(1, N, 2)}, "cosine", slice(N))
            assert found.payloads is not None
            assert [payload["n"] for payload in found.payloads[0]] == found.ids[0].tolist()
