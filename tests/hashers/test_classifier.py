"""ClassifierHash: the classifier, the writing of its classes, the contract."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS, class_stream, state_of
from hashstream.hashers.classifier import ClassifierHash
from hashstream.hashers.registry import register

register(ClassifierHash)


def numbers(hasher: ClassifierHash, X: np.ndarray) -> np.ndarray:
    """The predicted class numbers, read back from the first repetition of a code."""
    width = max(1, int(np.ceil(np.log2(len(hasher.classes_)))))
    bits = (hasher.decision_function(X)[:, :width] > 0).astype(int)
    return bits @ (1 << np.arange(width))


def test_it_classifies() -> None:
    X, y = load_digits(return_X_y=True)
    hasher = ClassifierHash(32).fit(X[:1500], y[:1500])
    expected = hasher.numbers_[[hasher.classes_.index(label) for label in y[1500:]]]
    assert (numbers(hasher, X[1500:]) == expected).mean() > 0.85


def test_one_step_is_the_gradient() -> None:
    """The change of V by the first batch, against the loss's finite differences."""
    X, y = class_stream(n=10, d=4, classes=3)
    hasher = ClassifierHash(8, learning_rate=0.5).fit(X, y)
    centred = X - X.mean(axis=0)
    F = np.column_stack([centred / np.sqrt((centred**2).sum(axis=1).mean()), np.ones(10)])

    def loss(V: np.ndarray) -> float:
        scores = F @ V
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(10), y]))

    for i in range(5):
        for c in range(3):
            V = np.zeros((5, 3))
            V[i, c] = 1e-5
            slope = (loss(V) - loss(-V)) / 2e-5
            assert hasher.iterate_[i, c] == pytest.approx(-0.5 * slope, abs=1e-8)


@pytest.mark.parametrize("n_bits", [1, 2, 5, 8, 12, 33])
@pytest.mark.parametrize("classes", [1, 2, 3, 4, 5, 9])
def test_the_number_is_repeated(n_bits: int, classes: int) -> None:
    X, y = class_stream(n=40 * classes, classes=classes)
    hasher = ClassifierHash(n_bits).fit(X, y)
    width = max(1, int(np.ceil(np.log2(classes))))
    bits = hasher.decision_function(X) > 0
    for k in range(width, n_bits):
        np.testing.assert_array_equal(bits[:, k], bits[:, k - width])
    assert len(np.unique(hasher.transform(X), axis=0)) <= min(classes, 2**n_bits)
    if n_bits >= width and classes > 1:
        assert (numbers(hasher, X) == y).mean() > 0.9  # classes come in the order of their labels
    if classes == 1:
        assert not bits.any()


def test_values_are_probabilities() -> None:
    X, y = class_stream()
    values = np.abs(ClassifierHash(12).fit(X, y).decision_function(X))
    assert (values == values[:, :1]).all()
    assert values.min() >= 0.25 - 1e-12
    assert values.max() <= 1


def test_cuts_at_batches_do_not_matter() -> None:
    """Classes are numbered by the rows they appear in, not by the calls."""
    X, y = class_stream(n=120, classes=6)
    y[:60] %= 3
    y = 9 - y
    whole = ClassifierHash(12).partial_fit(X, y)
    parts = ClassifierHash(12)
    for start in range(0, 120, 10):
        parts.partial_fit(X[start : start + 10], y[start : start + 10])
    np.testing.assert_array_equal(whole.decision_function(X), parts.decision_function(X))
    assert dict(zip(whole.classes_, whole.numbers_.tolist(), strict=True)) == dict(
        zip(parts.classes_, parts.numbers_.tolist(), strict=True)
    )


def test_late_class_is_learned() -> None:
    X, y = class_stream(n=3000, classes=5)
    early = y < 4
    hasher = ClassifierHash(16).fit(X[early], y[early])
    before = numbers(hasher, X[early])
    hasher.partial_fit(X[:300], y[:300])
    assert hasher.weights_.shape == (13, 5)
    assert (numbers(hasher, X[y == 4]) == 4).mean() > 0.9
    assert (numbers(hasher, X[early]) == before).mean() > 0.9


def test_retrieval_of_learned_and_of_unknown_classes() -> None:
    """What the class is there to show: label-mAP of the learned classes is won, that of others is lost."""
    X, y = load_digits(return_X_y=True)
    learned = y < 5
    scores = {}
    for name, hasher in (
        ("class", ClassifierHash(32)),
        ("random", hs.LSH(32, feature_map="center", random_state=0)),
    ):
        hasher.fit(X[learned][:500], y[learned][:500])
        for rows, what in ((learned, "known"), (~learned, "unknown")):
            codes = hasher.transform(X[rows])
            scores[name, what] = hs.evaluate.retrieval(codes, y[rows], codes, y[rows])["mAP"]
    assert scores["class", "known"] > scores["random", "known"] + 0.2
    assert scores["class", "unknown"] < scores["random", "unknown"] - 0.05


def test_divergence_is_undone() -> None:
    X, y = class_stream()
    hasher = ClassifierHash(8).fit(X.astype(np.float32), y)
    before = state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="squares"):
        hasher.partial_fit(X.astype(np.float32) * 1e25, y)
    assert state_of(hasher) == before


def test_bad_settings() -> None:
    X, y = class_stream(n=20)
    with pytest.raises(ValueError, match="learning_rate"):
        ClassifierHash(8, learning_rate=0).fit(X, y)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "hasher", [ClassifierHash(n_bits=16), ClassifierHash(n_bits=13, feature_map="center")], ids=repr
)
def test_contract(hasher: ClassifierHash, check) -> None:
    check(hasher)


@parametrize_with_checks([ClassifierHash(n_bits=12, random_state=0)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn(estimator: ClassifierHash, check) -> None:
    check(estimator)
