"""Suggestions, the map and the curve, against slow and plain computations of the same."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import hashstream as hs
from hashstream.serve.teaching.code_map import CodeMap, scaled, turn
from hashstream.serve.teaching.curve import MOST_POINTS, Curve, average_precisions, labelled_map
from hashstream.serve.teaching.sampled import class_counts, look, members, sample_ids, thinned
from hashstream.serve.teaching.suggestions import suggest
from hashstream.table import HashTable

CENTRES = np.eye(4, 16, dtype=np.float32) * 8


def blobs(n: int = 120, k: int = 4, spread: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return CENTRES[y] + rng.normal(0, spread, (n, 16)).astype(np.float32), y


def opened(X: np.ndarray, ids: Any = None, **settings: Any) -> HashTable:
    settings.setdefault("policy", "eager")
    table = HashTable.open(None, hs.RidgeHash(32, random_state=0), **settings)
    table.add(range(len(X)) if ids is None else ids, X)
    return table


# ---- suggestions


def test_first_suggestions_are_of_different_kinds() -> None:
    X, y = blobs()
    with opened(X) as table:
        found = suggest(table, 4)
    assert sorted(y[one.id] for one in found.items) == [0, 1, 2, 3]
    assert [one.guess for one in found.items] == [None] * 4
    assert all(one.uncertainty == 1 and one.why.startswith("No item has a label yet") for one in found.items)
    assert (found.n_labelled, found.n_items, found.confused) == (0, 120, [])


def test_a_kind_without_labels_comes_first() -> None:
    X, y = blobs()
    with opened(X) as table:
        taught = np.flatnonzero((y != 2) & (np.arange(120) < 60))
        table.label(taught, y[taught])
        found = suggest(table, 8)
    assert y[found.items[0].id] == 2
    known = [one for one in found.items if y[one.id] != 2]
    assert known
    assert all(one.guess == y[one.id] for one in known)
    unknown = [one.uncertainty for one in found.items if y[one.id] == 2]
    assert min(unknown) > max(one.uncertainty for one in known)
    assert all(0 <= one.uncertainty <= 1 and one.why.endswith(".") for one in found.items)


def test_suggestions_are_unlabelled_distinct_and_repeatable() -> None:
    X, y = blobs()
    with opened(X, [f"item {i}" for i in range(120)]) as table:
        table.label([f"item {i}" for i in range(30)], y[:30])
        first, second = suggest(table, 50), suggest(table, 50)
        assert first == second
        ids = [one.id for one in first.items]
        assert len(set(ids)) == 50
        assert not {f"item {i}" for i in range(30)} & set(ids)
        assert all(type(one) is str for one in ids)
        assert len(suggest(table, 200).items) == 90
        assert first.to_fields()["items"][0].keys() == {"id", "why", "uncertainty", "guess"}


def test_an_oddity_is_not_suggested_before_a_crowd() -> None:
    X, _ = blobs(k=2)
    X[0] = -50
    with opened(X) as table:
        assert 0 not in [one.id for one in suggest(table, 2).items]


def test_greedy_choice_equals_the_plain_one() -> None:
    X = np.random.default_rng(3).normal(size=(80, 16)).astype(np.float32)
    with opened(X, keep_features=False, policy="projected") as table:
        found = [one.id for one in suggest(table, 10).items]
        signs = look(table, table.ids()).signs
    apart = np.maximum(1 - signs @ signs.T / 32, 0)
    near, picked = np.ones(80), []
    for _ in range(10):
        gains = np.maximum(near - apart, 0).sum(axis=1)
        gains[picked] = -1
        picked.append(int(gains.argmax()))
        near = np.minimum(near, apart[picked[-1]])
    assert found == picked


def test_confused_classes_are_those_that_overlap() -> None:
    X, y = blobs(200)
    X[y == 1] = X[y == 0] + 0.1  # 0 and 1 cannot be told apart
    with opened(X) as table:
        table.label(range(200), np.array(["a", "b", "c", "d"])[y])
        (pair,) = suggest(table).confused
    assert (pair.a, pair.b) == ("a", "b")
    assert 0.5 < pair.share <= 1


def test_copies_of_labelled_items_come_last_and_say_so() -> None:
    X, _ = blobs(40)
    with opened(np.concatenate([X, X[:1]])) as table:
        table.label([0], ["a"])
        last = suggest(table, 50).items[-1]
    assert (last.id, last.guess) == (40, "a")
    assert last.uncertainty < 0.01
    assert "no other item of the sample is like this one" in last.why


def test_label_matrices_are_no_error() -> None:
    X, y = blobs(60)
    matrix = np.eye(4, dtype=int)[y]
    with HashTable.open(None, hs.PosteriorHash(32, random_state=0), policy="eager") as table:
        table.add(range(60), X)
        table.label(range(20), matrix[:20])
        found = suggest(table, 5)
        assert len(found.items) == 5
        assert found.confused == []
        assert all(one.guess == tuple(matrix[one.id]) for one in found.items)
        assert {row["label"]: row["count"] for row in class_counts(table)} == dict.fromkeys(range(4), 5)
        assert CodeMap().frame(table)["labels"][0] == (1, 0, 0, 0)


def test_tables_with_little_in_them() -> None:
    with HashTable.open(None, hs.RidgeHash(16, random_state=0)) as table:
        assert suggest(table).items == []
        assert CodeMap().frame(table)["ids"] == []
        assert Curve().before(table, [1], [0]) == []
        table.add([7], [[1.0, 2.0]])
        assert [one.id for one in suggest(table).items] == [7]
        assert CodeMap().frame(table)["x"] == [0.0]
        table.label([7], [3])
        found = suggest(table)
        assert found.items == []
        assert found.n_labelled == 1
        assert class_counts(table) == [{"label": 3, "count": 1}]


@pytest.mark.parametrize("n", [0, 201, 1.5])
def test_a_bad_number_of_suggestions(n: Any) -> None:
    with opened(blobs(8)[0]) as table, pytest.raises((ValueError, TypeError)):
        suggest(table, n)


def test_features_of_any_size() -> None:
    X, y = blobs(40)
    with HashTable.open(None, hs.RidgeHash(32, random_state=0)) as table:
        table.add(range(40), X.astype(np.float64) * 1e200)
        assert sorted(y[one.id] for one in suggest(table, 4).items) == [0, 1, 2, 3]
        table.add([40], [[0.0] * 16])
        assert len(suggest(table, 50).items) == 41


# ---- codes that can be compared


def test_codes_of_several_versions_are_those_of_the_current_functions() -> None:
    X, y = blobs()
    with opened(X, policy="never") as table:
        table.label(range(40), y[:40])
        table.add(range(200, 220), X[:20])
        assert len(table.stats().versions) > 1
        items = look(table, table.ids())
        table.refresh()
        assert np.array_equal(items.signs, look(table, table.ids()).signs)
        assert items.version == table.hasher.version_


def test_without_features_one_version_remains() -> None:
    X, y = blobs()
    with opened(X, policy="projected", keep_features=False) as table:
        table.ingest(range(120, 240), X, y)
        table.add(range(300, 310), X[:10])
        versions = table.get(table.ids(), features=False).versions
        items = look(table, table.ids())
        assert len(np.unique(versions)) > 1
        assert len(items) == (versions == items.version).sum()


def test_removed_items_are_left_out() -> None:
    with opened(blobs()[0]) as table:
        ids = table.ids()
        table.remove([3, 5])
        assert len(look(table, ids)) == 118


def test_thinning_is_even_and_keeps_few_ids() -> None:
    assert thinned(np.arange(5), 5).tolist() == [0, 1, 2, 3, 4]
    assert thinned(np.arange(1000), 4).tolist() == [0, 250, 500, 750]
    with opened(blobs()[0]) as table:
        assert len(sample_ids(table, 50)) == 50


# ---- the map


def test_the_map_is_the_classical_scaling_of_hamming_distances() -> None:
    signs = np.where(np.random.default_rng(0).normal(size=(40, 24)) > 0, 1.0, -1.0).astype(np.float32)
    far = (
        (signs[:, None] != signs[None]).sum(axis=2).astype(float)
    )  # squared Euclidean, but for a factor of 4
    centring = np.eye(40) - 1 / 40
    values, vectors = np.linalg.eigh(-0.5 * centring @ (4 * far) @ centring)
    slow = vectors[:, -2:] * np.sqrt(values[-2:])
    slow /= np.sqrt(values.sum() / 40)
    fast = scaled(signs)

    def apart(P: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.norm(P[:, None] - P[None], axis=2))

    assert np.allclose(apart(fast), apart(slow), atol=1e-6)


def test_each_frame_is_turned_to_the_one_before() -> None:
    X, y = blobs()
    with opened(X) as table:
        moving = CodeMap()
        first = moving.frame(table)
        table.label(range(60), y[:60])
        second = moving.frame(table)
        assert CodeMap().frame(table)["ids"] == second["ids"]
    then, now = (np.array([frame["x"], frame["y"]]).T for frame in (first, second))
    # The best rotation leaves a product that is symmetric and positive semi-definite: no other one moves items less.
    product = now.T @ then
    assert np.allclose(product, product.T, atol=0.05 * np.abs(product).max())
    assert np.linalg.eigvalsh((product + product.T) / 2).min() > -1e-6 * np.abs(product).max()


def test_a_mirrored_frame_is_turned_back() -> None:
    places = np.random.default_rng(0).normal(size=(50, 2))
    mirror = np.array([[0.0, -1.0], [-1.0, 0.0]])
    assert np.allclose(places @ turn(places, places @ mirror), places @ mirror)


def test_maps_are_repeatable_and_bounded() -> None:
    X, y = blobs()
    with opened(X) as table:
        table.label([0, 1], y[:2])
        frame = CodeMap().frame(table, 30)
        assert frame == CodeMap().frame(table, 30)
        assert {len(frame[name]) for name in ("ids", "x", "y", "labels")} == {30}
        assert frame["labels"][0] == 0
        assert frame["version"] == table.hasher.version_
        with pytest.raises(ValueError):
            CodeMap().frame(table, 0)


# ---- the curve


def slow_precision(table: HashTable, query: Any, label: Any, among: list[Any]) -> float | None:
    """Average precision, one answer after the other, from distances of codes by (distance, insertion)."""
    others = [one for one in among if one != query]
    labels = dict(zip(among, table.get(among, features=False).labels, strict=True))
    code = table.get([query], features=False).codes[0]
    far = {
        one: int(np.bitwise_count(table.get([one], features=False).codes[0] ^ code).sum()) for one in others
    }
    order = table.ids().tolist()
    hits, total, summed = 0, 0, 0.0
    for rank, one in enumerate(sorted(others, key=lambda one: (far[one], order.index(one))), 1):
        if labels[one] == label:
            hits, total = hits + 1, total + 1
            summed += hits / rank
    return summed / total if total else None


def test_new_labels_are_tested_before_they_are_learned() -> None:
    X, y = blobs(60, spread=6.0)
    with opened(X) as table:
        table.label(range(20), y[:20])
        curve = Curve()
        given = [*range(10, 40), 99]
        labels = [int(y[i]) for i in given[:-1]] + [0]
        labels[-2] = None  # type: ignore[call-overload]
        tested = curve.before(table, given, labels)
        slow = [slow_precision(table, i, y[i], list(range(20))) for i in range(20, 39)]
        assert np.allclose(tested, [value for value in slow if value is not None])
        assert 0 < np.mean(tested) < 1


def test_a_label_that_nothing_shares_is_not_tested() -> None:
    X, _ = blobs(60)
    with opened(X) as table:
        assert Curve().before(table, [1], [0]) == []
        table.label([0], ["a"])
        assert Curve().before(table, [1, 2], ["b", "a"]) == [1.0]


@pytest.mark.parametrize(
    ("ids", "labels"), [([1], []), ([1, 2], [0]), (["a"], [0]), ([40], [[1, 0]]), ([40, 41], [[1], [1, 0]])]
)
def test_bad_input_is_left_to_the_call_that_labels(ids: list[Any], labels: list[Any]) -> None:
    X, y = blobs(60)
    with opened(X) as table:
        table.label(range(30), y[:30])
        assert Curve().before(table, ids, labels) == []


def test_an_item_is_not_its_own_answer() -> None:
    X, y = blobs(60, spread=6.0)
    with opened(X) as table:
        table.label(range(30), y[:30])
        fast = average_precisions(table, list(range(30)), y[:30].tolist(), np.arange(30))
        slow = [slow_precision(table, i, y[i], list(range(30))) for i in range(30)]
        assert np.allclose(fast, slow)


def test_map_is_the_tables_own_where_the_sample_holds_all() -> None:
    X, y = blobs(100, spread=6.0)
    with opened(X, policy="never") as table:
        table.label(range(80), y[:80])
        table.add(range(100, 110), X[:10], y[:10])
        own = table.stats().drift.mean_average_precision
        assert own is not None
        assert labelled_map(table) == pytest.approx(own)


def test_points_of_the_curve() -> None:
    X, y = blobs(100)
    with opened(X) as table:
        curve = Curve()
        for start in (0, 10, 30):
            ids = list(range(start, start + 20 if start else 10))
            tested = curve.before(table, ids, y[ids].tolist())
            table.label(ids, y[ids])
            curve.after(table, tested)
        first, second, third = curve.points()
        assert (first.labels, second.labels, third.labels) == (10, 30, 50)
        assert first.map is None
        assert first.tested is None
        assert first.recent is None
        assert second.map == pytest.approx(1)
        assert second.tested == pytest.approx(1)
        assert third.recent is not None
        assert third.time >= second.time
        answer = curve.teaching(table)
        assert [row["count"] for row in answer["classes"]] == [13, 13, 12, 12]
        assert set(answer["points"][0]) == {"labels", "time", "map", "tested", "recent"}


def test_the_curve_is_bounded_and_safe_for_threads() -> None:
    with opened(blobs(30)[0]) as table:
        curve = Curve()
        threads = [
            threading.Thread(target=lambda: [curve.after(table, [0.5]) for _ in range(150)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        points = curve.points()
        assert 100 < len(points) <= MOST_POINTS
        assert points[-1].recent == 0.5


def test_a_table_without_features_is_not_tested() -> None:
    X, y = blobs(60)
    with opened(X, policy="projected", keep_features=False) as table:
        table.ingest(range(100, 140), X[:40], y[:40])
        curve = Curve()
        assert curve.before(table, [1], [0]) == []
        assert curve.after(table).map is None


# ---- classes


def test_classes_are_counted() -> None:
    assert members(["a", None, "a"])[1] == ["a", None]
    with opened(blobs(30)[0]) as table:
        table.label(range(5), ["b", "a", "a", "c", "a"])
        assert class_counts(table)[0] == {"label": "a", "count": 3}


def test_many_labels_are_counted_by_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = blobs(60)
    with opened(X) as table:
        table.label(range(60), y)
        whole = class_counts(table)
        monkeypatch.setattr("hashstream.serve.teaching.sampled.MOST_COUNTED", 10)
        assert sorted(map(str, class_counts(table))) == sorted(map(str, whole))
