"""RidgeHash: the closed form, order, merging, forgetting, the low-rank form and its error, contract."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS
from hashstream.hashers.registry import register
from hashstream.hashers.ridge import RidgeHash

register(RidgeHash)


def class_rows(n: int, d: int = 14, classes: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d)) * 0.9 ** np.arange(d), y


def closed_form(
    hasher: RidgeHash, X: np.ndarray, y: np.ndarray, weights: np.ndarray | float = 1.0
) -> np.ndarray:
    T = hasher.codeword([hasher.classes_.index(label) for label in y.tolist()]).astype(float)
    weighted = (np.broadcast_to(weights, len(X))[:, None] * X).T
    return np.linalg.solve(weighted @ X + hasher.ridge * np.eye(X.shape[1]), weighted @ T)


@pytest.mark.parametrize("n_bits", [1, 8, 13, 32])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
def test_equals_the_closed_form(n_bits: int, ridge: float) -> None:
    X, y = class_rows(300)
    hasher = RidgeHash(n_bits, ridge=ridge, batch_size=70, random_state=0)
    for start in range(0, 300, 90):
        hasher.partial_fit(X[start : start + 90], y[start : start + 90])
        seen = start + 90
        expected = closed_form(hasher, X[:seen], y[:seen])
        np.testing.assert_allclose(hasher.projection_, expected, rtol=0, atol=1e-10)


def test_order_and_batches_do_not_matter() -> None:
    X, y = class_rows(400)
    whole = RidgeHash(24, classes=range(6), random_state=0).fit(X, y)
    for seed, rows in ((1, 7), (2, 1000), (3, 64)):
        order = np.random.default_rng(seed).permutation(400)
        other = RidgeHash(24, classes=range(6), batch_size=rows, random_state=0).fit(X[order], y[order])
        np.testing.assert_allclose(other.projection_, whole.projection_, rtol=0, atol=1e-11)
        np.testing.assert_array_equal(other.transform(X), whole.transform(X))
    assert whole.version_ == other.version_ == 400


def test_without_classes_only_the_codewords_follow_the_order() -> None:
    X, y = class_rows(200)
    forth = RidgeHash(16, random_state=0).fit(X, y)
    back = RidgeHash(16, random_state=0).fit(X[::-1], y[::-1])
    np.testing.assert_allclose(forth.gram_, back.gram_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(back.projection_, closed_form(back, X, y), rtol=0, atol=1e-10)


# ---- merging


@pytest.mark.parametrize("settings", [{}, {"forgetting": 0.99}, {"classes": [5, 4, 3]}], ids=str)
def test_merged_halves_equal_the_whole(settings: dict) -> None:
    """Also where the second half brings classes that the first has not met, and meets the others in another order."""
    X, y = class_rows(500)
    late = np.concatenate(
        [np.flatnonzero(y < 4)[:150], np.setdiff1d(np.arange(500), np.flatnonzero(y < 4)[:150])]
    )
    X, y = X[late], y[late]
    whole = RidgeHash(20, random_state=0, **settings).fit(X, y)
    first = RidgeHash(20, random_state=0, **settings).fit(X[:150], y[:150])
    second = RidgeHash(20, random_state=99, **settings).fit(X[150:], y[150:])
    before = hs.checks.state_of(second)
    assert first.merge(second) is first
    assert hs.checks.state_of(second) == before
    np.testing.assert_allclose(first.projection_, whole.projection_, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(first.transform(X), whole.transform(X))
    assert (first.n_seen_, first.version_) == (whole.n_seen_, whole.version_)
    assert set(first.classes_) == set(whole.classes_)
    assert first.codeword([first.classes_.index(c) for c in whole.classes_]).tolist() == (
        whole.codeword(range(len(whole.classes_))).tolist()
    )


def test_learning_goes_on_after_a_merge() -> None:
    X, y = class_rows(300)
    parts = [RidgeHash(12, random_state=0).fit(X[a : a + 100], y[a : a + 100]) for a in (0, 100)]
    merged = parts[0].merge(parts[1]).partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(merged.projection_, closed_form(merged, X, y), rtol=0, atol=1e-10)


def test_merging_with_itself_counts_twice() -> None:
    X, y = class_rows(100)
    hasher = RidgeHash(12, random_state=0).fit(X, y)
    twice = closed_form(hasher, np.vstack([X, X]), np.append(y, y))
    np.testing.assert_allclose(hasher.merge(hasher).projection_, twice, rtol=0, atol=1e-10)
    assert hasher.n_seen_ == 200


def test_only_alike_learners_merge() -> None:
    X, y = class_rows(60)
    hasher = RidgeHash(12, random_state=0).fit(X, y)
    before = hs.checks.state_of(hasher)
    for other, what in (
        (RidgeHash(13).fit(X, y), "n_bits"),
        (RidgeHash(12).fit(X[:, 1:], y), "n_features_in_"),
        (RidgeHash(12).fit(X.astype(np.float32), y), "dtype_"),
        (RidgeHash(12, forgetting=0.9).fit(X, y), "forgetting"),
        (RidgeHash(12, rank=4).fit(X, y), "rank"),
        (RidgeHash(12, feature_map="center").fit(X, y), "feature maps"),
    ):
        with pytest.raises(ValueError, match=what):
            hasher.merge(other)
    with pytest.raises(ValueError, match="not fitted"):
        hasher.merge(RidgeHash(12))
    assert hs.checks.state_of(hasher) == before
    alike = [RidgeHash(12, feature_map="center", random_state=0).fit(X, y) for _ in range(2)]
    assert alike[0].merge(alike[1]).n_seen_ == 120


# ---- forgetting


def test_forgetting_weighs_rows_by_their_age() -> None:
    X, y = class_rows(150)
    weights = 0.97 ** np.arange(149, -1, -1)
    for rows in (1, 40, 150):
        hasher = RidgeHash(10, forgetting=0.97, batch_size=rows, random_state=0).fit(X, y)
        np.testing.assert_allclose(hasher.projection_, closed_form(hasher, X, y, weights), rtol=0, atol=1e-10)


def test_forgetting_follows_a_moving_class() -> None:
    """Two classes change places half way: who forgets takes the new places, who does not is torn."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    centre = np.array([[3.0, 0, 0, 0], [0, 3.0, 0, 0]])
    X = rng.standard_normal((2000, 4)) + np.concatenate([centre[y[:1000]], centre[1 - y[1000:]]])
    now = rng.standard_normal((400, 4)) + centre[1 - (labels := rng.integers(2, size=400))]
    right = {}
    for forgetting in (1.0, 0.99):
        hasher = RidgeHash(16, forgetting=forgetting, random_state=0).fit(X, y)
        told = hasher.codeword([0, 1]) @ hasher.decision_function(now).T  # the nearer codeword
        right[forgetting] = np.mean(np.array(hasher.classes_)[told.argmax(axis=0)] == labels)
    assert right[0.99] > 0.95
    assert right[1.0] < 0.8


# ---- low rank


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_low_rank_is_exact_where_the_rank_fits(dtype: type) -> None:
    rng = np.random.default_rng(0)
    X, y = class_rows(400, d=5)
    X = (X @ rng.standard_normal((5, 40))).astype(dtype)
    full, low = (RidgeHash(16, rank=rank, random_state=0).fit(X, y) for rank in (None, 12))
    assert low.sketch_.shape[0] <= 12
    atol = 1e-9 if dtype is np.float64 else 2e-3
    np.testing.assert_allclose(low.projection_, full.projection_, rtol=0, atol=atol)


@pytest.mark.parametrize("forgetting", [1.0, 0.995])
def test_low_rank_error_is_what_is_stated(forgetting: float) -> None:
    X, y = class_rows(600, d=30)
    full, low = (RidgeHash(8, rank=r, forgetting=forgetting, random_state=0).fit(X, y) for r in (None, 10))
    lost = low.sketch_lost_
    assert lost <= 2 / 10 * np.trace(full.gram_)
    approximate = low.sketch_.T @ low.sketch_ + lost / 2 * np.eye(30) + np.eye(30)
    L = np.linalg.inv(np.linalg.cholesky(approximate))
    factors = np.linalg.eigvalsh(L @ (full.gram_ + np.eye(30)) @ L.T)
    e = lost / (2 + lost)
    assert 1 - e - 1e-9 <= factors[0]
    assert factors[-1] <= 1 + e + 1e-9
    expected = np.linalg.solve(approximate, full.class_sums_.T @ full.codeword(range(6)))
    np.testing.assert_allclose(low.projection_, expected, rtol=0, atol=1e-9)


def test_low_rank_does_not_depend_on_the_cutting_and_merges() -> None:
    X, y = class_rows(300, d=30)
    settings = {"rank": 12, "forgetting": 0.999, "random_state": 0}
    one, other = (RidgeHash(8, batch_size=rows, **settings).fit(X, y) for rows in (17, 300))
    np.testing.assert_allclose(one.projection_, other.projection_, rtol=0, atol=1e-9)
    first, second = (RidgeHash(8, **settings).fit(X[a : a + 150], y[a : a + 150]) for a in (0, 150))
    exact = RidgeHash(8, forgetting=0.999, random_state=0).fit(X, y).gram_
    first.merge(second)
    error = np.linalg.eigvalsh(exact - first.sketch_.T @ first.sketch_)
    assert error[0] > -1e-9
    assert error[-1] < first.sketch_lost_ + 1e-9


# ---- classes and codewords


def test_a_late_class_and_more_classes_than_rows_leave_codewords() -> None:
    X, y = class_rows(900, classes=40)
    hasher = RidgeHash(8, n_classes=4, random_state=0).fit(X[y < 5], y[y < 5])
    before = hasher.codeword(range(5)).copy()
    hasher.partial_fit(X[y >= 5], y[y >= 5])
    np.testing.assert_array_equal(hasher.codeword(range(5)), before)
    assert len(np.unique(hasher.codeword(range(40)), axis=0)) == 40
    np.testing.assert_allclose(
        hasher.projection_,
        closed_form(hasher, np.vstack([X[y < 5], X[y >= 5]]), np.append(y[y < 5], y[y >= 5])),
        rtol=0,
        atol=1e-10,
    )


def test_fixed_classes_take_their_rows_whenever_they_come() -> None:
    X, y = class_rows(120)
    names = np.array(["a", "b", "c", "d", "e", "f"])[y]
    codebook = np.where(np.random.default_rng(0).random((8, 9)) < 0.5, -1, 1)
    hasher = RidgeHash(9, classes=["f", "b"], codebook=codebook, random_state=0).fit(X, names)
    for label, row in (("f", 0), ("b", 1)):
        np.testing.assert_array_equal(hasher.codeword([hasher.classes_.index(label)])[0], codebook[row])
    assert sorted(hasher.class_rows_) == list(range(6))


def test_one_class_only() -> None:
    X, _ = class_rows(50)
    hasher = RidgeHash(8, random_state=0).fit(X, np.zeros(50, int))
    assert np.isfinite(hasher.projection_).all()


def test_digits() -> None:
    X, y = load_digits(return_X_y=True)
    for settings in ({}, {"rank": 30}, {"feature_map": "center"}):
        hasher = RidgeHash(32, random_state=0, **settings).fit(X[:1500], y[:1500])
        codes = hasher.transform(X)
        score = hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500])["mAP"]
        assert score > (0.7 if settings.get("rank") else 0.8), settings


def test_single_precision_with_features_of_any_scale() -> None:
    X, y = load_digits(return_X_y=True)
    for scale in (1e-3, 1.0, 1e4):
        hasher = RidgeHash(16, ridge=1e-3, random_state=0).fit((scale * X).astype(np.float32), y)
        assert np.isfinite(hasher.projection_).all()


def test_projection_is_current() -> None:
    """W is solved for when asked: never one of before, also after fit forgets, a failed call, or a load."""
    X, y = class_rows(100)
    hasher = RidgeHash(8, random_state=0).fit(X[:50], y[:50])
    first = hasher.projection_
    hasher.fit(X[50:], y[50:])
    np.testing.assert_allclose(hasher.projection_, closed_form(hasher, X[50:], y[50:]), atol=1e-10)
    assert not np.allclose(hasher.projection_, first)


@pytest.mark.parametrize(
    "parameters",
    [
        {"ridge": 0},
        {"ridge": "some"},
        {"forgetting": 0},
        {"forgetting": 1.1},
        {"rank": 5},
        {"rank": 0},
        {"n_classes": 0},
        {"classes": [1, 1]},
        {"codebook": np.zeros((4, 8))},
    ],
    ids=str,
)
def test_bad_settings(parameters: dict) -> None:
    X, y = class_rows(20)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        RidgeHash(8, **parameters).fit(X, y)


@pytest.mark.parametrize("dataset", ["mnist", "cifar10", "places205"])
def test_paper_settings(dataset: str) -> None:
    assert RidgeHash.from_paper(dataset, 24, ridge=2.0).ridge == 2.0
    with pytest.raises(ValueError, match="mnist, cifar10, places205"):
        RidgeHash.from_paper("imagenet", 24)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "hasher",
    [RidgeHash(n_bits=12), RidgeHash(n_bits=16, rank=8), RidgeHash(n_bits=9, forgetting=0.99)],
    ids=repr,
)
def test_contract(hasher: hs.OnlineHasher, check) -> None:
    check(hasher)


@parametrize_with_checks([RidgeHash(n_bits=12, random_state=0), RidgeHash(n_bits=8, rank=4, random_state=0)])
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)
