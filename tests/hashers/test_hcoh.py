"""HCOH: the equation, its settings, classes that come late or in large numbers, and the contract."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import hadamard
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.hashers.hcoh import HCOH
from hashstream.hashers.registry import register

register(HCOH)


def unit_stream(n: int, d: int = 20, classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def slow(X: np.ndarray, B: np.ndarray, W: np.ndarray, eta: float, n_t: int) -> np.ndarray:
    """Entry by entry, as the equation is printed."""
    W = W.copy()
    for start in range(0, len(X), n_t):
        batch = range(start, min(start + n_t, len(X)))
        gradient = np.zeros_like(W)
        for i in batch:
            for k in range(W.shape[1]):
                f = np.tanh(sum(W[j, k] * X[i, j] for j in range(len(W))))
                for j in range(len(W)):
                    gradient[j, k] += X[i, j] * (f - B[i, k]) * (1 - f**2)
        W -= eta * gradient / len(batch)
    return W


@pytest.mark.parametrize("n_t", [1, 4])
def test_equals_the_equation(n_t: int) -> None:
    X, y = unit_stream(30, d=6, classes=3)
    W0 = np.random.default_rng(1).standard_normal((6, 5))
    hasher = HCOH(5, learning_rate=0.3, batch_size=n_t, init=W0, random_state=0).fit(X, y)
    B = hasher.codeword([hasher.classes_.index(c) for c in y])
    np.testing.assert_allclose(hasher.projection_, slow(X, B, W0, 0.3, n_t), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "hasher",
    [HCOH(n_bits=16), HCOH(n_bits=12, batch_size=3, rows="distinct"), HCOH(9, unit_length=False)],
    ids=repr,
)
def test_contract(hasher: HCOH) -> None:
    hs.checks.check_hasher(hasher)


@parametrize_with_checks([HCOH(n_bits=12, random_state=0)])
def test_scikit_learn(estimator: HCOH, check) -> None:
    check(estimator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cuts_leave_no_trace(dtype: type) -> None:
    """More classes than codewords, which come in any order: still the same W to the last bit."""
    X, y = unit_stream(2500, classes=40)
    X = X.astype(dtype)
    whole = HCOH(8, random_state=0).partial_fit(X, y)
    cut = HCOH(8, random_state=0)
    for start, stop in ((0, 1), (1, 2), (2, 1003), (1003, 1800), (1800, 2500)):
        cut.partial_fit(X[start:stop], y[start:stop])
    fitted = HCOH(8, random_state=0).fit(X, y)
    for other in (cut, fitted):
        assert np.array_equal(whole.projection_, other.projection_)
        assert np.array_equal(whole.codebook_, other.codebook_)
        assert whole.version_ == other.version_ == 2500


def test_bits_reach_their_codewords() -> None:
    X, y = load_digits(return_X_y=True)
    hasher = HCOH(32, feature_map="center", random_state=0).fit(X[:1500], y[:1500])
    wanted = hasher.codeword([hasher.classes_.index(c) for c in y[1500:]])
    right = (hasher.decision_function(X[1500:]) > 0) == (wanted > 0)
    assert right.mean() > 0.8


def test_the_length_of_a_row_plays_no_part() -> None:
    X, y = unit_stream(200)
    lengths = np.random.default_rng(2).uniform(0.1, 1000, size=(200, 1))
    one, other = HCOH(16, random_state=0).fit(X, y), HCOH(16, random_state=0).fit(X * lengths, y)
    np.testing.assert_allclose(one.projection_, other.projection_, rtol=1e-9)
    as_they_come = HCOH(16, random_state=0, unit_length=False).fit(X * lengths, y)
    assert not np.allclose(as_they_come.projection_, other.projection_)


def test_late_and_many_classes_keep_what_earlier_ones_have() -> None:
    X, y = unit_stream(400, classes=40)
    hasher = HCOH(16, random_state=0).fit(X[y < 16], y[y < 16])
    assert sorted(map(tuple, hasher.codebook_)) == sorted(map(tuple, hadamard(16)))
    before = hasher.codeword(range(16))
    hasher.partial_fit(X[y >= 16], y[y >= 16])
    after = hasher.codeword(range(40))
    assert np.array_equal(after[:16], before)
    assert len(np.unique(after, axis=0)) == 40


def test_one_class_only() -> None:
    X, _ = unit_stream(50)
    hasher = HCOH(7, random_state=0).fit(X, np.zeros(50))
    assert np.isfinite(hasher.projection_).all()
    assert hasher.class_rows_.tolist() == [0]


def test_a_given_codebook() -> None:
    X, y = unit_stream(60, classes=3)
    codebook = np.array([[1, 1, 1], [-1, -1, 1], [1, -1, -1]])
    hasher = HCOH(3, codebook=codebook, random_state=0).fit(X, y)
    seen = list(dict.fromkeys(y.tolist()))
    assert np.array_equal(hasher.codeword([hasher.classes_.index(c) for c in seen]), codebook)


def test_divergence_is_undone() -> None:
    X, y = unit_stream(40)
    hasher = HCOH(8, learning_rate=1e308, unit_length=False, init=np.zeros((20, 8)), random_state=0)
    hasher.partial_fit(np.zeros((20, 20)), y[:20])
    before = hs.checks.state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="learning_rate"):
        hasher.partial_fit(100 * X[20:], y[20:] + 10)
    assert hs.checks.state_of(hasher) == before


def test_papers_settings() -> None:
    hasher = HCOH.from_paper("places205", 64, random_state=3)
    assert (hasher.learning_rate, hasher.batch_size, hasher.random_state) == (0.1, 1, 3)
    X, y = unit_stream(20)
    assert hasher.fit(X, y).codebook_.shape == (256, 64)
    for n_bits, order in zip((8, 16, 32, 48, 64, 128), (16, 16, 32, 64, 64, 128), strict=True):
        assert len(HCOH.from_paper("mnist", n_bits).fit(X, y).codebook_) == order
    assert HCOH.from_paper("cifar10", 8, learning_rate=1.0).learning_rate == 1.0
    with pytest.raises(ValueError, match="imagenet"):
        HCOH.from_paper("imagenet", 8)


@pytest.mark.parametrize(
    "parameters",
    [
        {"learning_rate": 0},
        {"learning_rate": np.nan},
        {"rows": "any"},
        {"n_classes": 0},
        {"codebook": np.ones((3, 5))},
        {"codebook": np.zeros((3, 8))},
        {"init": np.zeros((2, 2))},
        {"batch_size": 0},
    ],
    ids=str,
)
def test_bad_settings(parameters: dict) -> None:
    X, y = unit_stream(20)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        HCOH(8, **parameters).fit(X, y)
