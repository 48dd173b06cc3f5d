"""HMOH: perceptrons and their average, bits that differ, and the contract."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.hashers.hmoh import HMOH
from hashstream.hashers.registry import register

register(HMOH)


def stream(n: int, d: int = 20, classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d)), y


def slow(X: np.ndarray, B: np.ndarray, eta: float, n_t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The perceptrons, the sum of their iterates, and their mistakes, bit by bit."""
    W = np.zeros((X.shape[1], B.shape[1]))
    total, mistakes = np.zeros_like(W), np.zeros(B.shape[1])
    for start in range(0, len(X), n_t):
        batch = range(start, min(start + n_t, len(X)))
        for k in range(B.shape[1]):
            step = np.zeros(len(W))
            for i in batch:
                if (1 if W[:, k] @ X[i] > 0 else -1) != B[i, k]:
                    step += B[i, k] * X[i]
                    mistakes[k] += 1
            W[:, k] += eta * step / len(batch)
        total += W
    return W, total, mistakes


@pytest.mark.parametrize("n_t", [1, 6])
def test_equals_the_loops(n_t: int) -> None:
    X, y = stream(100, d=7)
    hasher = HMOH(9, learning_rate=0.3, batch_size=n_t, random_state=0).fit(X, y)
    B = hasher.codeword([hasher.classes_.index(c) for c in y])
    W, total, mistakes = slow(X, B, 0.3, n_t)
    np.testing.assert_allclose(hasher.iterate_, W, rtol=0, atol=1e-11)
    assert np.array_equal(hasher.mistakes_, mistakes)
    np.testing.assert_allclose(hasher.projection_, total / np.maximum(mistakes, 1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("hasher", [HMOH(n_bits=16), HMOH(9, rows="ordered", batch_size=4)], ids=repr)
def test_contract(hasher: HMOH) -> None:
    hs.checks.check_hasher(hasher)


@parametrize_with_checks([HMOH(n_bits=12, random_state=0)])
def test_scikit_learn(estimator: HMOH, check) -> None:
    check(estimator)


def test_cuts_leave_no_trace() -> None:
    X, y = stream(2200, classes=40)
    whole = HMOH(8, random_state=0).partial_fit(X, y)
    cut = HMOH(8, random_state=0)
    for start, stop in ((0, 1), (1, 30), (30, 1200), (1200, 2200)):
        cut.partial_fit(X[start:stop], y[start:stop])
    for name in ("projection_", "iterate_", "total_", "held_", "mistakes_", "codebook_", "version_"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


def test_bits_differ_by_default() -> None:
    X, y = load_digits(return_X_y=True)
    distinct, ordered = (HMOH(32, rows=rows, random_state=0).fit(X, y) for rows in ("distinct", "ordered"))
    columns = [len(np.unique(model.codeword(range(10)).T, axis=0)) for model in (distinct, ordered)]
    assert columns == [32, 16]
    assert len(np.unique(np.round(ordered.projection_, 6), axis=1).T) == 16


def test_bits_reach_their_codewords() -> None:
    X, y = load_digits(return_X_y=True)
    hasher = HMOH(32, feature_map="center", random_state=0).fit(X[:1500], y[:1500])
    wanted = hasher.codeword([hasher.classes_.index(c) for c in y[1500:]])
    assert ((hasher.decision_function(X[1500:]) > 0) == (wanted > 0)).mean() > 0.8


def test_a_bit_without_mistakes_is_minus_one() -> None:
    X, _ = stream(30)
    hasher = HMOH(8, codebook=-np.ones((1, 8)), random_state=0).fit(X, np.zeros(30))
    assert not hasher.mistakes_.any()
    assert not hasher.projection_.any()
    assert not hasher.transform(X).any()


def test_the_learning_rate_changes_no_code() -> None:
    X, y = stream(300)
    one, other = (HMOH(16, learning_rate=rate, random_state=0).fit(X, y) for rate in (0.25, 64.0))
    assert np.array_equal(one.transform(X), other.transform(X))


def test_init_is_where_it_starts() -> None:
    X, y = stream(1)
    W0 = np.random.default_rng(0).standard_normal((20, 8))
    hasher = HMOH(8, init=W0, codebook=np.where(X @ W0 > 0, 1, -1)).fit(X, y)
    assert np.array_equal(hasher.iterate_, W0)
    assert np.array_equal(hasher.projection_, W0)


def test_divergence_is_undone() -> None:
    X, y = stream(40)
    hasher = HMOH(8, random_state=0).partial_fit(X[:20], y[:20])
    before = hs.checks.state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="learning_rate"):
        hasher.partial_fit(X[20:] * 1e307, y[20:] + 10)
    assert hs.checks.state_of(hasher) == before


def test_settings() -> None:
    assert HMOH.from_paper("mnist", 32).feature_map.n_anchors == 300
    assert HMOH.from_paper("cifar10", 32).learning_rate == 0.01
    assert HMOH.from_paper("places205", 32, feature_map=None).n_classes == 205
    with pytest.raises(ValueError, match="coco"):
        HMOH.from_paper("coco", 32)
    X, y = stream(20)
    for name, value in (("learning_rate", -1), ("rows", "any"), ("n_classes", 0), ("codebook", [[1, 1]])):
        with pytest.raises(ValueError, match=name):
            HMOH(8, **{name: value}).fit(X, y)
