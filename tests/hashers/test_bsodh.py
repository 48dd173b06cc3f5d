"""BSODH: the published steps written out over all past samples, the two forms of the fit, corner cases."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS, class_stream
from hashstream.datasets import centred_unit
from hashstream.hashers import bsodh
from hashstream.hashers.bsodh import BSODH
from hashstream.hashers.registry import register

register(BSODH)


class PublishedBSODH:
    """The published steps as they stand: all past codes and labels kept, S formed. Samples are columns."""

    def __init__(self, W0, eta_s, eta_d, sigma, lambda_):
        self.W, self.eta_s, self.eta_d, self.sigma, self.lambda_ = W0, eta_s, eta_d, sigma, lambda_
        self.B_e, self.past = np.zeros((W0.shape[1], 0)), []
        self.last = np.zeros((W0.shape[1], 0)), []

    def partial_fit(self, X, y):
        r = self.W.shape[1]
        X_s = X.T
        self.B_e, self.past = np.hstack([self.B_e, self.last[0]]), [*self.past, *self.last[1]]
        B_s = np.where(self.W.T @ X_s >= 0, 1.0, -1.0)
        if self.past:
            for i, label in enumerate(y):
                if label in self.past:
                    B_s[:, i] = self.B_e[:, self.past.index(label)]
            S = r * np.where(y[:, None] == np.array(self.past), self.eta_s, -self.eta_d)
            P = r * self.B_e @ S.T + self.W.T @ X_s
            for k in range(r):
                others = np.arange(r) != k
                B_s[k] = np.where(P[k] - self.B_e[k] @ self.B_e[others].T @ B_s[others] >= 0, 1, -1)
            self.B_e = np.where(B_s @ S >= 0, 1.0, -1.0)
            A = self.sigma * X_s @ X_s.T + self.lambda_ * np.eye(len(X_s))
            self.W = self.sigma * np.linalg.solve(A, X_s @ B_s.T)
        self.last = B_s, y.tolist()


def unit_stream(n: int, d: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


# eta_s and eta_d are sums of powers of two here: S B_e is then exact in whatever order it is summed, ties included.
@pytest.mark.parametrize(("eta_s", "eta_d"), [(1.25, 0.25), (1.0, 0.0)])
@pytest.mark.parametrize(("n_bits", "d", "n_t"), [(5, 8, 30), (24, 40, 20), (33, 12, 50), (1, 6, 10)])
def test_equals_the_published_steps(n_bits: int, d: int, n_t: int, eta_s: float, eta_d: float) -> None:
    X, y = unit_stream(6 * n_t + n_t // 2, d, 7)
    y[: 3 * n_t][y[: 3 * n_t] == 4] = 1  # class 4 comes late
    W0 = np.random.default_rng(1).standard_normal((d, n_bits))
    published = PublishedBSODH(W0, eta_s, eta_d, 0.5, 0.6)
    ours = BSODH(n_bits, eta_s=eta_s, eta_d=eta_d, sigma=0.5, ridge=0.6, batch_size=n_t, init=W0)
    for start in range(0, len(X), n_t):  # the last batch is short
        published.partial_fit(X[start : start + n_t], y[start : start + n_t])
        ours.partial_fit(X[start : start + n_t], y[start : start + n_t])
        np.testing.assert_array_equal(ours.last_codes_.T, published.last[0])
        if start:
            numbers = [ours.classes_.index(label) for label in published.past]
            np.testing.assert_array_equal(ours.class_codes_[numbers].T, published.B_e)
        np.testing.assert_allclose(ours.projection_, published.W, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (1, 5), (12, 12)])
def test_both_forms_of_the_fit_are_one(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    X, B = rng.standard_normal(shape), np.where(rng.random((shape[0], 6)) < 0.5, -1.0, 1.0)
    expected = np.linalg.solve(X.T @ X + 0.3 * np.eye(shape[1]), X.T @ B)
    np.testing.assert_allclose(bsodh.fit(X, B, 0.3), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("r", [1, 7, 16, 17, 50])
def test_sweep_in_blocks_equals_bit_by_bit(r: int) -> None:
    rng = np.random.default_rng(r)
    B_e = np.where(rng.random((90, r)) < 0.5, -1.0, 1.0)
    codes = np.where(rng.random((40, r)) < 0.5, -1.0, 1.0)
    P = 30 * rng.standard_normal((40, r))
    expected = codes.copy()
    for k in range(r):
        others = np.arange(r) != k
        expected[:, k] = bsodh.signs(P[:, k] - expected[:, others] @ (B_e[:, others].T @ B_e[:, k]))
    swept = np.ascontiguousarray(codes.T)
    bsodh.sweep(swept, np.ascontiguousarray(P.T), B_e.T @ B_e)
    np.testing.assert_array_equal(swept.T, expected)


def test_first_batch_leaves_the_projection() -> None:
    X, y = unit_stream(100, 10, 4)
    W0 = np.random.default_rng(0).standard_normal((10, 8))
    hasher = BSODH(8, batch_size=50, init=W0).partial_fit(X[:50], y[:50])
    assert hasher.version_ == 0
    np.testing.assert_array_equal(hasher.projection_, W0)
    assert hasher.partial_fit(X[50:], y[50:]).version_ == 1


def test_state_does_not_grow_and_is_what_is_stated() -> None:
    X, y = unit_stream(2000, 10, 4)
    hasher = BSODH(8, batch_size=100, random_state=0).fit(X, y)
    arrays = {name: value.shape for name, value in vars(hasher).items() if isinstance(value, np.ndarray)}
    assert arrays == {
        "projection_": (10, 8),
        "class_codes_": (4, 8),
        "class_counts_": (4,),
        "last_codes_": (100, 8),
        "last_classes_": (100,),
    }
    assert hasher.class_counts_.sum() == 1900


def test_one_class_only() -> None:
    X, _ = unit_stream(90, 10, 3)
    hasher = BSODH(12, batch_size=30, random_state=0).fit(X, np.zeros(90, int))
    assert np.isfinite(hasher.projection_).all()
    assert (hasher.last_codes_ == hasher.last_codes_[0]).all()


def test_digits_are_learned() -> None:
    X, y = load_digits(return_X_y=True)
    X = centred_unit(X)
    scores = {}
    for hasher in (BSODH(32, batch_size=300, random_state=0), hs.LSH(32, random_state=0)):
        codes = hasher.fit(X[:1500], y[:1500]).transform(X)
        scores[type(hasher)] = hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500])["mAP"]
    assert scores[BSODH] > scores[hs.LSH] + 0.2


def test_features_without_bounds_raise_and_change_nothing() -> None:
    X, y = unit_stream(100, 10, 4)
    hasher = BSODH(8, batch_size=50, random_state=0).fit(X, y)
    before = hs.checks.state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="too large"):
        hasher.partial_fit(1e200 * X, y)
    assert hs.checks.state_of(hasher) == before


@pytest.mark.parametrize("dataset", ["mnist", "cifar10", "places205"])
def test_paper_settings(dataset: str) -> None:
    X, y = unit_stream(300, 30, 10)
    hasher = BSODH.from_paper(dataset, 24, random_state=0, batch_size=100)
    assert hasher.batch_size == 100
    assert np.isfinite(hasher.fit(X, y).projection_).all()
    assert BSODH.from_paper(dataset, 24).batch_size == (5000 if dataset == "places205" else 2000)
    with pytest.raises(ValueError, match="mnist, cifar10, places205"):
        BSODH.from_paper("imagenet", 24)


@pytest.mark.parametrize(
    "parameters",
    [
        {"eta_s": -1},
        {"eta_d": np.nan},
        {"sigma": 0},
        {"ridge": -2},
        {"ridge": "much"},
        {"init": np.eye(3)},
    ],
    ids=str,
)
def test_bad_settings(parameters: dict) -> None:
    X, y = unit_stream(20, 6, 3)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        BSODH(8, **parameters).fit(X, y)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check) -> None:
    check(BSODH(n_bits=12))


def test_more_classes_than_codes() -> None:
    X, y = class_stream(n=600, classes=40)
    assert np.isfinite(BSODH(3, batch_size=100, random_state=0).fit(X, y).projection_).all()


@parametrize_with_checks([BSODH(n_bits=12, random_state=0)])
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)
