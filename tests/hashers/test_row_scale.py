"""Streams whose scale moves, and rows of a wrong scale: what is learned stays above an untrained projection."""

from __future__ import annotations

import numpy as np
import pytest

import hashstream as hs
from hashstream.hashers import FCOH_C
from hashstream.hashers.row_scale import MOVED, RowScale, times_power_of_two

TRAIN, QUERIES = 1000, 150
SLACK = 0.01
"""By how much the mean over the seeds may be below that of `LSH` before it counts as below."""


def classes(seed: int, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Five Gaussian classes in 20 dimensions, not centred: 1,000 rows to learn from, then 150 queries."""
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=TRAIN + QUERIES)
    return (2 * rng.standard_normal((5, 20))[y] + rng.standard_normal((len(y), 20))).astype(dtype), y


def rising(decades: float) -> np.ndarray:
    return 10.0 ** np.linspace(-decades, decades, TRAIN)


def per_batch(decades: float, rows: int = 50) -> np.ndarray:
    return 10.0 ** np.random.default_rng(0).uniform(-decades, decades, TRAIN // rows).repeat(rows)


def long_rows(factor: float, count: int = 5) -> np.ndarray:
    scale = np.ones(TRAIN)
    scale[np.linspace(30, TRAIN - 30, count).astype(int)] = factor
    return scale


def mean_score(
    method: type, scale: np.ndarray | float, n_bits: int, batch: int, dtype: type = np.float32
) -> float:
    """mAP of a method that learned rows of these scales, over two seeds. All is encoded at the last scale."""
    scores = []
    for seed in range(2):
        X, y = classes(seed, dtype)
        scales = np.broadcast_to(scale, TRAIN)
        Z = (X[:TRAIN] * scales[:, None]).astype(dtype)
        X = (X * scales[-1]).astype(dtype)
        hasher = method(n_bits, random_state=seed)
        for start in range(0, TRAIN, batch):
            hasher.partial_fit(Z[start : start + batch], y[start : start + batch])
        assert np.isfinite(hasher.projection_).all()
        database, queries = hasher.transform(X[:TRAIN]), hasher.transform(X[TRAIN:])
        result = hs.evaluate.retrieval(queries, y[TRAIN:], database, y[:TRAIN], n_bits=n_bits)
        scores.append(result["mAP"])
    return float(np.mean(scores))


STREAMS = [
    *(pytest.param(rising(k), 50, id=f"rising 1e-{k} to 1e{k}") for k in (1, 2, 5, 10)),
    *(pytest.param(rising(k)[::-1], 50, id=f"falling 1e{k} to 1e-{k}") for k in (2, 5)),
    *(pytest.param(per_batch(k), 50, id=f"drawn per batch, 1e-{k} to 1e{k}") for k in (1, 2, 5, 15)),
    *(pytest.param(long_rows(f), 100, id=f"5 rows of {f:g}") for f in (1e2, 1e3, 1e6, 1e12)),
    *(pytest.param(long_rows(f), TRAIN, id=f"5 rows of {f:g}, one batch") for f in (1e2, 1e12)),
    pytest.param(long_rows(1e12), 4, id="5 rows of 1e12, batches of 4"),
    pytest.param(long_rows(1e12, 1), 100, id="one row of 1e12"),
    pytest.param(np.r_[1e12, np.ones(TRAIN - 1)], 10, id="the first row is 1e12"),
    pytest.param(np.r_[np.full(100, 1e12), np.ones(TRAIN - 100)], 100, id="the first batch is 1e12"),
    pytest.param(np.r_[np.full(200, 0.01), np.ones(TRAIN - 200)], 50, id="a dark start"),
    pytest.param(np.r_[np.ones(400), np.full(TRAIN - 400, 1e5)], 50, id="up by 1e5 for good"),
    pytest.param(np.r_[np.zeros(100), np.full(TRAIN - 100, 1e5)], 50, id="zeros, then 1e5"),
]
METHODS = pytest.mark.parametrize("method", [hs.FCOH, hs.RidgeHash])


@pytest.fixture(scope="module")
def floor() -> dict[int, float]:
    """What an untrained projection scores; it does not depend on the scale."""
    return {n_bits: mean_score(hs.LSH, 1.0, n_bits, TRAIN) for n_bits in (16, 64)}


@METHODS
@pytest.mark.parametrize(("scale", "batch"), STREAMS)
def test_stays_level_with_an_untrained_projection(method, scale, batch, floor) -> None:
    for n_bits in floor:
        assert mean_score(method, scale, n_bits, batch) > floor[n_bits] - SLACK


@METHODS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("power", [-35, -31, -22, 15, 22, 37])
def test_features_near_the_limits_of_single_precision(method, dtype, power: int, floor) -> None:
    """Squares overflow or vanish; warnings are errors here."""
    assert mean_score(method, 10.0**power, 16, 100, dtype) > floor[16] - SLACK


@METHODS
@pytest.mark.parametrize("power", [-300, 300])
def test_features_near_the_limits_of_double_precision(method, power: int, floor) -> None:
    assert mean_score(method, 10.0**power, 16, 100, np.float64) > floor[16] - SLACK


def test_several_labels_per_row() -> None:
    """The multi-label path takes the same rescaled rows."""
    X, y = classes(0)
    Y = np.eye(6, dtype=int)[y]
    Y[:, 5] = X[:, 0] > 0
    plain, scaled = hs.FCOH(32, random_state=0), hs.FCOH(32, random_state=0)
    for start in range(0, TRAIN, 50):
        rows = slice(start, start + 50)
        plain.partial_fit(X[rows], Y[rows])
        scaled.partial_fit(X[rows] * np.float32(2.0 ** (3 * start // 50)), Y[rows])
    codes = [hs.evaluate.retrieval(h.transform(X[TRAIN:]), Y[TRAIN:], h.transform(X[:TRAIN]), Y[:TRAIN])["mAP"]
             for h in (plain, scaled)]  # fmt: skip
    assert codes[1] > codes[0] - SLACK


# ---- nothing changes for ordinary features


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [1, 30, 1000])
def test_ordinary_rows_are_returned_as_they_are(dtype: type, batch: int) -> None:
    X, _ = classes(0, dtype)
    X[7] = 0
    X[11] /= 1000  # short rows do no harm
    scale = RowScale()
    for start in range(0 if batch > 1 else 12, len(X), batch):
        rows = X[start : start + batch]
        learned, scale = scale.apply(rows)
        assert learned is rows
    assert scale.typical == scale.learned > 0


def test_literal_learning_is_left_alone() -> None:
    """A float `learning_rate` and the discrete variant follow the paper, whatever the rows."""
    X, y = classes(0, np.float64)
    X[3] *= 50
    for hasher in (hs.FCOH(8, learning_rate=1e-9, random_state=0), FCOH_C(8, random_state=0)):
        hasher.fit(X[:100], y[:100])
        np.testing.assert_allclose(
            hasher.class_means_[0], X[:100][y[:100] == hasher.classes_[0]].mean(axis=0)
        )
        assert hasher.typical_length_ == 0


@METHODS
def test_powers_of_two_change_nothing(method) -> None:
    """A scale that moves once by a power of two gives the codes of the stream that does not move, bit for bit."""
    X, y = classes(0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    still = method(24, random_state=0).partial_fit(X[:300], y[:300]).partial_fit(X[300:600], y[300:600])
    moved = method(24, random_state=0).partial_fit(X[:300], y[:300])
    moved.partial_fit(X[300:600] * np.float32(2.0**40), y[300:600])
    if method is hs.RidgeHash:  # its ridge weighs less compared with rows of the current scale
        np.testing.assert_array_equal(moved.gram_, still.gram_)
        np.testing.assert_array_equal(moved.class_sums_, still.class_sums_)
    else:
        np.testing.assert_array_equal(moved.projection_, still.projection_)


# ---- the rules


def test_the_typical_length_is_the_lower_median_of_rows_that_are_not_zero() -> None:
    X = np.diag([0.0, 3.0, 1.0, 2.0, 1e9])
    learned, scale = RowScale().apply(X)
    assert scale == RowScale(2.0, 2.0)
    np.testing.assert_array_equal(learned[:4], X[:4])
    assert 2 / np.sqrt(2) <= learned[4, 4] <= 2 * np.sqrt(2)


def test_rows_of_zeros_say_nothing() -> None:
    zeros = np.zeros((3, 2))
    for scale in (RowScale(), RowScale(1.0, 1.0)):
        learned, after = scale.apply(zeros)
        assert learned is zeros
        assert after == scale


def test_the_scale_moves_with_the_median_and_only_then() -> None:
    row = np.ones((1, 4))
    _, scale = RowScale().apply(row)
    for factor in (MOVED, 1 / MOVED):
        assert scale.apply(factor * row)[1] == scale
    learned, moved = scale.apply(1000 * row)
    assert moved == RowScale(2000.0, 2.0)
    assert moved.exponent == -10
    np.testing.assert_array_equal(learned, 1000 / 1024 * row)
    np.testing.assert_array_equal(
        moved.apply(800 * row)[0], 800 / 1024 * row
    )  # lengths keep their proportions
    assert moved.apply(row)[1] == scale  # and back


def test_times_power_of_two_is_exact_also_beyond_the_largest_power() -> None:
    smallest = np.float32([[1.5e-45], [3e38]])
    np.testing.assert_array_equal(times_power_of_two(smallest, [200, -200])[:, 0].astype(np.float64),
                                  np.ldexp(smallest[:, 0].astype(np.float64), [200, -200]))  # fmt: skip


def test_state_survives_saving_and_a_failed_call(tmp_path) -> None:
    X, y = classes(0)
    for method in (hs.FCOH, hs.RidgeHash):
        hasher = (
            method(16, random_state=0).partial_fit(X[:100], y[:100]).partial_fit(1e6 * X[100:200], y[100:200])
        )
        before = hs.checks.state_of(hasher)
        with pytest.raises(ValueError, match="rows"):
            hasher.partial_fit(1e-6 * X[200:300], y[:10])
        assert hs.checks.state_of(hasher) == before
        hs.save(hasher, tmp_path / "model")
        loaded = hs.load(tmp_path / "model")
        assert loaded.typical_length_ == hasher.typical_length_ > 1e6
        for model in (hasher, loaded):
            model.partial_fit(X[200:300], y[200:300])
        np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))


# ---- merging


@pytest.mark.parametrize("rank", [None, 20])
def test_merge_brings_both_sums_to_one_scale(rank: int | None) -> None:
    X, y = classes(0, np.float64)
    first, second = (hs.RidgeHash(32, rank=rank, random_state=0).fit(s * X[a : a + 500], y[a : a + 500])
                     for s, a in ((1.0, 0), (2.0**60, 500)))  # fmt: skip
    whole = hs.RidgeHash(32, rank=rank, random_state=0).partial_fit(X[:500], y[:500])
    whole.partial_fit(2.0**60 * X[500:TRAIN], y[500:TRAIN])
    first.merge(second)
    assert first.typical_length_ == whole.typical_length_
    codes = [hasher.transform(X) for hasher in (first, whole)]
    assert np.unpackbits(codes[0] ^ codes[1]).mean() < 1e-3


def test_merging_a_learner_of_zeros() -> None:
    X, y = classes(0)
    for first, second in ((X, 0 * X), (0 * X, X)):
        merged = hs.RidgeHash(16, random_state=0).fit(first, y).merge(hs.RidgeHash(16).fit(second, y))
        np.testing.assert_array_equal(
            merged.transform(X), hs.RidgeHash(16, random_state=0).fit(X, y).transform(X)
        )


def test_ridge_is_exact_for_the_rows_as_rescaled() -> None:
    X, y = classes(0, np.float64)
    X[40] *= 1e12
    hasher = hs.RidgeHash(16, random_state=0).fit(X, y)
    rows, _ = RowScale().apply(X[:1000])  # its batch size
    rows = np.vstack([rows, X[1000:]])
    T = hasher.codeword([hasher.classes_.index(label) for label in y.tolist()]).astype(float)
    expected = np.linalg.solve(rows.T @ rows + np.eye(20), rows.T @ T)
    np.testing.assert_allclose(hasher.projection_, expected, rtol=0, atol=1e-10)


def test_a_dark_end_does_not_make_the_ridge_heavy() -> None:
    """`ridge` weighs what it would compared with the longest rows, as it does where rows are not rescaled."""
    X, y = classes(0)
    plain = hs.RidgeHash(32, random_state=0).fit(X[:900], y[:900])
    dark = hs.RidgeHash(32, random_state=0).fit(X[:900], y[:900])
    dark.partial_fit(1e-10 * X[900:TRAIN], y[900:TRAIN])
    assert np.unpackbits(plain.transform(X) ^ dark.transform(X)).mean() < 0.02
