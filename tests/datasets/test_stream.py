"""Made streams: the same rows however they are asked for, in bounded memory, as hard as they say."""

from __future__ import annotations

import math
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

from hashstream.datasets import Stream
from hashstream.evaluate import retrieval
from hashstream.hashers import FCOH, LSH


@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_rows_are_the_same_whatever_the_batch(drift: float) -> None:
    stream = Stream(5_000, 12, 7, drift=drift, seed=3)
    X, y = stream.rows(0, 5_000)
    for size in (1, 100, 1_000, 1_024, 1_777, 9_999):
        parts = list(stream.batches(size, end=2_500 if size == 1 else None))
        n = 2_500 if size == 1 else 5_000
        assert [len(labels) for _, labels in parts] == [size] * (n // size) + ([n % size] if n % size else [])
        np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), X[:n])
        np.testing.assert_array_equal(np.concatenate([labels for _, labels in parts]), y[:n])
    rng = np.random.default_rng(0)
    for begin, end in np.sort(rng.integers(0, 5_001, (30, 2)), axis=1):
        alone = Stream(5_000, 12, 7, drift=drift, seed=3)  # has made nothing before
        part, labels = alone.rows(int(begin), int(end))
        np.testing.assert_array_equal(part, X[begin:end])
        np.testing.assert_array_equal(labels, y[begin:end])


def test_it_can_be_taken_up_anywhere() -> None:
    stream = Stream(3_000, 8, 4)
    whole = [X for X, _ in stream.batches(500)]
    again = [X for X, _ in stream.batches(500, begin=1_500)]
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(whole[3:]))
    assert len(list(stream)) == 3
    assert len(stream) == 3_000
    copy = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(copy.rows(7, 9)[0], stream.rows(7, 9)[0])


def test_what_comes_back_is_the_callers_own() -> None:
    stream = Stream(100, 8, 4)
    X, y = stream.rows(0, 50)
    kept = X.copy(), y.copy()
    X[:], y[:] = 0, 0
    again = stream.rows(0, 50)
    np.testing.assert_array_equal(again[0], kept[0])
    np.testing.assert_array_equal(again[1], kept[1])


def test_seeds_are_worlds_and_a_longer_stream_begins_as_the_shorter_one() -> None:
    X, y = Stream(2_000, 10, 5, seed=1).rows(0, 2_000)
    other_X, other_y = Stream(2_000, 10, 5, seed=2).rows(0, 2_000)
    assert not np.isclose(X, other_X).all(axis=1).any()
    assert 0.1 < (y == other_y).mean() < 0.3
    np.testing.assert_array_equal(Stream(9_000, 10, 5, seed=1).rows(0, 2_000)[0], X)
    assert len(np.unique(X, axis=0)) == 2_000  # nothing comes twice


def test_classes_have_equal_chances_and_types_are_fixed() -> None:
    X, y = Stream(20_000, 16, 10).rows(0, 20_000)
    assert X.dtype == np.float32
    assert y.dtype == np.int64
    counts = np.bincount(y, minlength=10)
    assert np.abs(counts - 2_000).max() < 5 * math.sqrt(1_800)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("d", [2, 5, 32, 200])
def test_centres_and_spread_are_what_the_docstring_says(d: int) -> None:
    stream = Stream(40_000, d, 4, spread=3.0, unit=False, seed=5)
    X, y = stream.rows(0, 40_000)
    centres = stream.centres()
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    within = X - centres[y]
    np.testing.assert_allclose(np.mean(np.sum(within**2, axis=1)), 9, rtol=0.05)
    for c in range(4):
        assert np.linalg.norm(X[y == c].mean(axis=0) - centres[c]) < 0.1
    if d == 200:
        widths = np.linalg.svd(within, compute_uv=False) ** 2 / len(X) / 9
        assert 0.5 < widths[:4].sum() < 0.6  # half in four directions, and those four's share of the rest
        np.testing.assert_allclose(widths[:32].sum(), 0.99 + 0.01 * 32 / 200, atol=0.005)


@pytest.mark.parametrize(("drift", "cosine"), [(0.0, 1.0), (0.5, math.sqrt(0.5)), (1.0, 0.0), (4.0, 1.0)])
def test_drift_is_counted_in_quarter_turns(drift: float, cosine: float) -> None:
    stream = Stream(10_000, 16, 6, drift=drift)
    begin, end = stream.centres(0), stream.centres(10_000)
    np.testing.assert_allclose(np.sum(begin * end, axis=1), cosine, atol=1e-5)
    places = np.stack([stream.centres(at) for at in range(0, 10_001, 1_000)])
    np.testing.assert_allclose(np.linalg.norm(places, axis=2), 1, atol=1e-5)
    steps = np.sum(places[1:] * places[:-1], axis=2)
    np.testing.assert_allclose(steps, math.cos(drift * math.pi / 20), atol=1e-5)  # constant speed


def test_rows_follow_their_classes() -> None:
    stream = Stream(8_192, 16, 3, drift=1.0, spread=0.0)
    X, y = stream.rows(0, 8_192)
    for row in (0, 3_000, 8_191):
        np.testing.assert_allclose(X[row], stream.centres(row)[y[row]], atol=1e-5)


def test_queries_are_never_in_the_stream_and_know_their_place() -> None:
    stream = Stream(4_000, 6, 5, drift=1.0)
    X, _ = stream.rows(0, 4_000)
    Q, q = stream.queries(2_500)
    assert np.bincount(q).tolist() == [500] * 5
    assert q.dtype == np.int64
    assert len(np.unique(np.concatenate([X, Q]), axis=0)) == 6_500
    fewer, labels = stream.queries(1_200)
    np.testing.assert_array_equal(fewer, Q[:1_200])
    np.testing.assert_array_equal(labels, q[:1_200])
    still = Stream(4_000, 6, 5, drift=1.0, spread=0.0)
    for at in (0, 1_000, 4_000):
        Q, q = still.queries(5, at=at)
        np.testing.assert_allclose(Q, still.centres(at)[q], atol=1e-6)
    np.testing.assert_array_equal(still.queries(5)[0], still.queries(5, at=4_000)[0])


def test_memory_is_bounded_by_the_batch() -> None:
    n, d = 200_000, 64
    Stream(10, d, 205).rows(0, 10)
    tracemalloc.start()
    try:
        seen = 0
        for X, _ in Stream(n, d, 205, drift=0.5).batches(1_000):
            seen += len(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == n
    assert peak < 5_000_000 < n * d * 4 / 10


def test_a_hasher_learns_and_encodes_a_stream_in_the_memory_of_a_batch() -> None:
    """A fortieth of Places205's rows, 128 features, 205 classes: 32 MB if it were held."""
    n, d = 62_500, 128
    stream, hasher = Stream(n, d, 205), FCOH(n_bits=32, random_state=0)
    hasher.partial_fit(*stream.rows(0, 1_000))
    codes = np.empty((n, 4), np.uint8)
    tracemalloc.start()
    try:
        for X, y in stream.batches(1_000, begin=1_000, end=20_000):
            hasher.partial_fit(X, y)
        for begin in range(0, n, 1_000):
            X, _ = stream.rows(begin, min(begin + 1_000, n))
            codes[begin : begin + len(X)] = hasher.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert hasher.n_seen_ == 20_000
    assert peak < 8_000_000 < n * d * 4 / 3
    at = [0, 31_250, n - 1]
    np.testing.assert_array_equal(
        codes[at], np.vstack([hasher.transform(stream.rows(i, i + 1)[0]) for i in at])
    )


def test_learning_beats_random_projections_and_spread_makes_it_harder() -> None:
    scores: dict[tuple[str, float], float] = {}
    for spread in (1.0, 2.0):
        stream = Stream(3_000, 48, 10, spread=spread)
        X, y = stream.rows(0, 3_000)
        Q, q = stream.queries(200)
        for method in (LSH, FCOH):
            hasher = method(n_bits=32, random_state=0).fit(X, y)
            found = retrieval(hasher.transform(Q), q, hasher.transform(X), y)
            scores[method.__name__, spread] = found["mAP"]
    assert scores["FCOH", 1.0] > scores["LSH", 1.0] + 0.2
    assert scores["FCOH", 2.0] > scores["LSH", 2.0] + 0.2
    assert scores["FCOH", 1.0] > scores["FCOH", 2.0]
    assert scores["LSH", 1.0] > scores["LSH", 2.0] > 0.1


def test_as_a_data_set() -> None:
    stream = Stream(300, 8, 3, drift=0.5, seed=9)
    data = stream.as_dataset()
    np.testing.assert_array_equal(data.X, stream.rows(0, 300)[0])
    np.testing.assert_array_equal(data.y, stream.rows(0, 300)[1])
    assert data.source == "generated by Stream(300, 8, 3, drift=0.5, seed=9)"
    assert repr(Stream(5, 2, 1)) == "Stream(5, 2, 1)"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n": 0}, "n is 0"),
        ({"d": 1}, "d is 1"),
        ({"classes": 0}, "classes is 0"),
        ({"n": 10.0}, "n is 10.0: it has to be an integer"),
        ({"classes": True}, "classes is True"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1 << 64}, "below 2"),
        ({"drift": -0.1}, "drift is -0.1"),
        ({"spread": math.nan}, "spread is nan"),
    ],
)
def test_impossible_streams_say_why(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Stream(**{"n": 10, "d": 4, "classes": 2, **arguments})


def test_impossible_parts_say_why() -> None:
    stream = Stream(10, 4, 2)
    for begin, end in ((-1, 5), (5, 4), (0, 11)):
        with pytest.raises(ValueError, match=r"the stream has rows 0 to 10"):
            stream.rows(begin, end)
    with pytest.raises(ValueError, match="size is 0"):
        next(stream.batches(0))
    with pytest.raises(ValueError, match="rows 0 to 11"):
        next(stream.batches(5, end=11))
    with pytest.raises(ValueError, match="n is 0"):
        stream.queries(0)
    with pytest.raises(ValueError, match="at is 11"):
        stream.queries(3, at=11)
    X, y = stream.rows(4, 4)
    assert X.shape == (0, 4)
    assert len(y) == 0
