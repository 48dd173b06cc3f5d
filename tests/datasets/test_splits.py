from __future__ import annotations

import numpy as np
import pytest

from hashstream.datasets import centred_unit, split


def test_a_split_covers_every_row_once_and_takes_equally_many_queries_of_each_class() -> None:
    y = np.random.default_rng(0).choice(["a", "b", "c"], 500, p=[0.6, 0.3, 0.1])
    part = split(y, per_class=20, stream=300, seed=4)
    both = np.concatenate([part.queries, part.retrieval])
    np.testing.assert_array_equal(np.sort(both), np.arange(500))
    assert dict(zip(*np.unique(y[part.queries], return_counts=True), strict=True)) == {
        "a": 20,
        "b": 20,
        "c": 20,
    }
    np.testing.assert_array_equal(part.stream, part.retrieval[:300])
    assert all(rows.dtype == np.int64 for rows in (part.queries, part.retrieval, part.stream))


def test_the_retrieval_set_is_shuffled_over_classes() -> None:
    y = np.repeat(np.arange(10), 200)
    part = split(y, per_class=10, stream=100, seed=0)
    counts = np.bincount(y[part.stream], minlength=10)
    assert counts.min() >= 1
    assert counts.max() <= 30


def test_the_seed_decides() -> None:
    y = np.repeat(np.arange(5), 100)
    one, same, other = (split(y, per_class=10, stream=50, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.queries, same.queries)
    np.testing.assert_array_equal(one.retrieval, same.retrieval)
    assert not np.array_equal(one.queries, other.queries)
    assert not np.array_equal(one.stream, other.stream)


def test_without_a_number_everything_is_streamed() -> None:
    part = split(np.repeat([0, 1], 30), per_class=5, stream=None)
    assert len(part.stream) == len(part.retrieval) == 50


def test_impossible_splits_say_why() -> None:
    y = np.repeat([0, 1], [30, 5])
    with pytest.raises(ValueError, match="class 1 has 5 rows: with per_class=5"):
        split(y, per_class=5, stream=3)
    with pytest.raises(ValueError, match="stream is 34: it has to be 1 to 33"):
        split(y, per_class=1, stream=34)
    for wrong, says in (
        ({"per_class": 0}, "per_class must be at least 1, not 0"),
        ({"per_class": 1.5}, "per_class must be a whole number, not 1.5"),
        ({"per_class": 1, "stream": True}, "stream must be a whole number, not True"),
        ({"per_class": 1, "min_class": "x"}, "min_class must be a whole number, not 'x'"),
    ):
        with pytest.raises(ValueError, match=says):
            split(y, **wrong)
    with pytest.raises(ValueError, match="one label per row"):
        split(np.zeros((3, 2)), per_class=1)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_centred_unit_against_its_definition(dtype: type) -> None:
    X = np.random.default_rng(0).integers(0, 256, (300, 20)).astype(dtype)
    before = X.copy()
    mean = X.astype(np.float64).mean(axis=0)
    expected = (X - mean) / np.linalg.norm(X - mean, axis=1, keepdims=True)
    unit = centred_unit(X)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(X, before)


def test_rows_at_the_mean_stay_zero() -> None:
    assert not centred_unit(np.full((4, 3), 7.0)).any()
    with pytest.raises(ValueError, match="rows of features"):
        centred_unit(np.zeros(3))


@pytest.mark.parametrize(
    ("sizes", "per_class", "stream"),
    [
        ([7_000] * 10, 100, 20_000),  # MNIST: 69,000 are searched
        ([6_000] * 10, 100, 20_000),  # CIFAR-10: 59,000
        ([1_000 + 10 * c for c in range(205)], 20, 100_000),  # Places205: classes of unequal size
    ],
)
def test_the_papers_splits(sizes: list[int], per_class: int, stream: int) -> None:
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    part = split(y, per_class=per_class, stream=stream, seed=1)
    assert np.bincount(y[part.queries]).tolist() == [per_class] * len(sizes)
    assert len(part.retrieval) == len(y) - per_class * len(sizes)
    times = np.bincount(np.concatenate([part.queries, part.retrieval]), minlength=len(y))
    assert (times == 1).all()
    np.testing.assert_array_equal(part.stream, part.retrieval[:stream])
    expected = stream * np.bincount(y[part.retrieval]) / len(part.retrieval)
    assert np.abs(np.bincount(y[part.stream]) - expected).max() < 6 * np.sqrt(expected.max())


def test_queries_are_drawn_from_the_whole_class() -> None:
    y = np.repeat([0, 1], 1_000)
    asked = np.concatenate([split(y, per_class=50, stream=10, seed=seed).queries for seed in range(200)])
    times = np.bincount(asked, minlength=2_000)  # 200 x 50 of 1,000: each row ten times, give or take
    assert times.min() >= 1
    assert times.max() <= 27
    assert abs(times[:500].sum() - times[500:1_000].sum()) < 600


def test_splits_stay_what_they_were() -> None:
    """Figures are published with their seeds: another NumPy call must not mean another split."""
    y = np.random.default_rng(7).integers(0, 3, 60)
    part = split(y, per_class=2, stream=5, seed=11)
    reference = np.random.default_rng(11)
    queries = np.concatenate([reference.choice(np.flatnonzero(y == c), 2, replace=False) for c in range(3)])
    np.testing.assert_array_equal(part.queries, queries)
    rest = reference.permutation(np.setdiff1d(np.arange(60), queries))
    np.testing.assert_array_equal(part.retrieval, rest)
