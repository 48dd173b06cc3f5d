"""OSH: boosting against the loop that reads W again for every bit, the published behaviour, and the contract."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.hashers.osh import OSH
from hashstream.hashers.registry import register

register(OSH)


def unit_stream(n: int, d: int = 20, classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def slow(X: np.ndarray, B: np.ndarray, W: np.ndarray, eta: float, boost: bool) -> np.ndarray:
    """As printed: the margins of the bits before are computed from W again, O(r^2 d) per sample."""
    W = W.copy()
    for x, y in zip(X, B, strict=True):
        for j in range(W.shape[1]):
            if boost:
                c = np.exp(-sum(y[i] * (W[:, i] @ x) for i in range(j)))
                W[:, j] += eta * c * np.exp(-y[j] * (W[:, j] @ x)) * y[j] * x
            elif y[j] * (W[:, j] @ x) < 1:
                W[:, j] += eta * y[j] * x
    return W


@pytest.mark.parametrize("boost", [True, False])
@pytest.mark.parametrize("unit_length", [True, False])
def test_equals_the_printed_loop(boost: bool, unit_length: bool) -> None:
    X, y = unit_stream(60, d=8, classes=4)
    X = X if unit_length else 0.7 * X
    W0 = np.random.default_rng(1).standard_normal((8, 11)) / 3
    hasher = OSH(11, learning_rate=0.2, boost=boost, unit_length=unit_length, init=W0, random_state=0).fit(
        X, y
    )
    B = hasher.codeword([hasher.classes_.index(c) for c in y])
    np.testing.assert_allclose(hasher.projection_, slow(X, B, W0, 0.2, boost), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "hasher",
    [OSH(n_bits=16), OSH(n_bits=12, boost=False), OSH(n_bits=16, paper_compat=True), OSH(128)],
    ids=repr,
)
def test_contract(hasher: OSH) -> None:
    hs.checks.check_hasher(hasher)


@parametrize_with_checks([OSH(n_bits=12, random_state=0)])
def test_scikit_learn(estimator: OSH, check) -> None:
    check(estimator)


@pytest.mark.parametrize("boost", [True, False])
def test_cuts_and_batch_size_leave_no_trace(boost: bool) -> None:
    X, y = unit_stream(2200, classes=40)
    whole = OSH(24, boost=boost, random_state=0).partial_fit(X, y)
    cut = OSH(24, boost=boost, batch_size=7, random_state=0)
    for start, stop in ((0, 1), (1, 30), (30, 1200), (1200, 2200)):
        cut.partial_fit(X[start:stop], y[start:stop])
    assert np.array_equal(whole.projection_, cut.projection_)
    assert np.array_equal(whole.codebook_, cut.codebook_)
    assert whole.version_ == cut.version_ == 2200


def test_all_classes_have_one_codeword_in_the_published_code() -> None:
    X, y = unit_stream(50)
    compat = OSH(12, paper_compat=True, random_state=0).fit(X, y)
    assert np.array_equal(compat.codeword(range(5)), np.tile(compat.codebook_[0], (5, 1)))
    one_class = OSH(12, random_state=0).fit(X, np.zeros(50))
    assert np.array_equal(compat.projection_, one_class.projection_)
    assert len(np.unique(OSH(12, random_state=0).fit(X, y).codeword(range(5)), axis=0)) == 5


def test_codewords_are_better_than_none() -> None:
    X, y = load_digits(return_X_y=True)
    right, compat = (
        OSH(32, feature_map="center", paper_compat=compat, random_state=0).fit(X[:1500], y[:1500])
        for compat in (False, True)
    )
    scores = [
        hs.evaluate.retrieval(m.transform(X[1500:]), y[1500:], m.transform(X[:1500]), y[:1500], n_bits=32)[
            "mAP"
        ]
        for m in (right, compat)
    ]
    assert scores[0] > scores[1] + 0.2


def test_more_classes_than_codewords() -> None:
    X, y = unit_stream(300, classes=60)
    hasher = OSH(16, n_classes=4, random_state=0).fit(X[y < 4], y[y < 4])
    before = hasher.codeword(range(4))
    assert hasher.codebook_.shape == (4, 16)
    hasher.partial_fit(X[y >= 4], y[y >= 4])
    assert np.array_equal(hasher.codeword(range(4)), before)
    assert len(np.unique(hasher.codeword(range(60)), axis=0)) == 60


def test_divergence_is_undone() -> None:
    X, y = unit_stream(40)
    hasher = OSH(8, unit_length=False, random_state=0).partial_fit(X[:20], y[:20])
    before = hs.checks.state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="learning_rate"):
        hasher.partial_fit(X[20:] * 1e3, y[20:])
    assert hs.checks.state_of(hasher) == before


def test_settings() -> None:
    hasher = OSH.from_paper("mnist", 32, paper_compat=True)
    assert (hasher.learning_rate, hasher.boost, hasher.paper_compat, hasher.n_classes) == (
        0.1,
        True,
        True,
        10,
    )
    assert OSH.from_paper("places205", 32).n_classes == 205
    with pytest.raises(ValueError, match="coco"):
        OSH.from_paper("coco", 32)
    X, y = unit_stream(20)
    for name, value in (("learning_rate", 0), ("n_classes", 0), ("codebook", [[1, 1]])):
        with pytest.raises(ValueError, match=name):
            OSH(8, **{name: value}).fit(X, y)
