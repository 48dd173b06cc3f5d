"""`OnlineHasher.relabelled`: labels that are corrected after they were learned."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import hashstream as hs
from hashstream.checks import class_stream, state_of
from hashstream.hashers.serialization import from_bytes, to_bytes

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # feature maps that are warmed up on few rows

METHODS = sorted(hs.methods(variants=True))
CORRECTING = ["FROSH", "LSH", "RidgeHash", "SketchHash"]
"""And PosteriorHash, while it has all rows: see test_posterior_corrections.py."""


def noisy_stream(n: int = 1500, d: int = 20, classes: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, right labels, and labels of which a fifth is wrong. The first rows are right: classes come in one order."""
    X, y = class_stream(n, d, classes)
    rng = np.random.default_rng(1)
    wrong = y.copy()
    rows = 20 + rng.permutation(n - 20)[: n // 5]
    wrong[rows] = (wrong[rows] + rng.integers(1, classes, len(rows))) % classes
    return X, y, wrong


def corrected(hasher: hs.OnlineHasher, X: np.ndarray, wrong: np.ndarray, y: np.ndarray) -> hs.OnlineHasher:
    """All wrong labels put right, in random order and in chunks of one to thirty rows."""
    rng = np.random.default_rng(2)
    rows = rng.permutation(np.flatnonzero(wrong != y))
    while len(rows):
        some, rows = np.split(rows, [rng.integers(1, 31)])
        hasher = hasher.relabelled(X[some], wrong[some], y[some])
    return hasher


def assert_same_codes(one: hs.OnlineHasher, other: hs.OnlineHasher, X: np.ndarray, rounding: float) -> None:
    """Bits may differ only where the value is within rounding of 0."""
    values, expected = one.decision_function(X), other.decision_function(X)
    differ = (values > 0) != (expected > 0)
    assert np.abs(expected[differ]).max(initial=0) <= rounding * np.abs(expected).max()


def test_methods_that_correct() -> None:
    every = hs.methods(variants=True)
    correcting = sorted([*CORRECTING, "PosteriorHash"])
    assert [name for name in METHODS if every[name].corrects_labels] == correcting
    assert all(every[name]().can_correct() == (name in correcting) for name in METHODS)


@pytest.mark.parametrize(("dtype", "rounding"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("feature_map", [None, "center", hs.features.RBFAnchors(40)], ids=str)
@pytest.mark.parametrize("name", CORRECTING)
def test_as_if_the_labels_had_been_right(name: str, feature_map, dtype, rounding: float) -> None:
    X, y, wrong = noisy_stream()
    X = X.astype(dtype)

    def learn(labels: np.ndarray) -> hs.OnlineHasher:
        hasher = hs.methods()[name](32, feature_map=feature_map, random_state=0)
        for start in range(0, len(X), 130):
            hasher.partial_fit(X[start : start + 130], labels[start : start + 130])
        return hasher

    noisy, right = learn(wrong), learn(y)
    after = corrected(noisy, X, wrong, y)
    assert_same_codes(after, right, X, rounding)
    assert after.n_seen_ == right.n_seen_
    if name == "RidgeHash":
        assert not np.array_equal(noisy.transform(X), right.transform(X))
        assert after.version_ == noisy.version_ + np.count_nonzero(wrong != y)
        more = after.copy().partial_fit(X[:100], y[:100])
        assert_same_codes(more, right.copy().partial_fit(X[:100], y[:100]), X, rounding)


@pytest.mark.parametrize("settings", [{"rank": 8}, {"batch_size": 1}, {"classes": [5, 4, 3]}], ids=str)
def test_ridge_settings(settings: dict) -> None:
    X, y, wrong = noisy_stream(600)
    noisy = hs.RidgeHash(24, random_state=0, **settings).fit(X, wrong)
    right = hs.RidgeHash(24, random_state=0, **settings).fit(X, y)
    after = corrected(noisy, X, wrong, y)
    assert_same_codes(after, right, X, 1e-12)
    for name in ("gram_", "sketch_"):
        assert np.array_equal(getattr(after, name), getattr(noisy, name))


def test_ridge_long_rows_enter_the_sums_as_they_left_them() -> None:
    """Rows that are far too long are learned at about the typical length, and corrected so."""
    X, y, wrong = noisy_stream(600)
    X[np.flatnonzero(wrong != y)[::3]] *= 1e4
    noisy, right = (hs.RidgeHash(24, random_state=0).fit(X, labels) for labels in (wrong, y))
    assert noisy.can_correct()
    assert_same_codes(corrected(noisy, X, wrong, y), right, X, 1e-12)


@pytest.mark.parametrize("moved", [{"forgetting": 0.999}, {}], ids=["forgetting", "scale"])
def test_ridge_learns_again_where_it_cannot_take_rows_out(moved: dict) -> None:
    """With a forgetting factor, or after the scale has moved, it is not known how much a row still counts."""
    X, y, wrong = noisy_stream(300)
    X = X.copy()
    if not moved:
        X[150:] *= 1000
    hasher = hs.RidgeHash(24, batch_size=50, random_state=0, **moved).fit(X, wrong)
    assert not hasher.can_correct()
    rows = np.flatnonzero(wrong != y)[:20]
    after = hasher.relabelled(X[rows], wrong[rows], y[rows])
    assert state_of(after) == state_of(hasher.learned(X[rows], y[rows]))


def test_ridge_classes_come_and_go() -> None:
    """A correction may bring a class, and take the last row of another; labels of any kind."""
    X, y = class_stream(200)
    names = np.array(["ant", "bee", "cat", "dog"], object)[y]
    typo = names.copy()
    typo[names == "dog"] = "dgo"
    typo[7] = "bee"
    hasher = hs.RidgeHash(16, random_state=0).fit(X, typo)
    rows = np.flatnonzero(typo != names)
    after = hasher.relabelled(X[rows], typo[rows], names[rows])
    assert after.classes_ == ["ant", "bee", "cat", "dgo", "dog"]
    assert np.abs(after.class_sums_[3]).max() < 1e-12
    np.testing.assert_allclose(after.class_sums_[4], X[y == 3].sum(axis=0), atol=1e-12)
    loaded = from_bytes(to_bytes(after), "bytes")
    assert state_of(loaded) == state_of(after)
    again = loaded.partial_fit(X, names)
    assert np.isfinite(again.decision_function(X)).all()
    back = after.relabelled(X[rows], names[rows], typo[rows])
    assert_same_codes(back, hasher, X, 1e-12)


def test_labels_that_were_never_learned_are_refused() -> None:
    X, y = class_stream(100)
    hasher = hs.RidgeHash(16, random_state=0).fit(X, y)
    before = state_of(hasher)
    for old, new in (([9, 1], [1, 2]), ([9, 1], [9, 2])):
        with pytest.raises(ValueError, match="label 9"):
            hasher.relabelled(X[:2], np.array(old), np.array(new))
    for name in METHODS:
        with pytest.raises(ValueError, match="no row has been learned"):
            hs.methods(variants=True)[name]().started(X).relabelled(X[:1], np.array([1]), np.array([2]))
    assert state_of(hasher) == before


@pytest.mark.parametrize("name", METHODS)
def test_bad_corrections_are_refused(name: str) -> None:
    X, y = class_stream(100)
    hasher = hs.methods(variants=True)[name](16, random_state=0)
    with pytest.raises(ValueError, match="not fitted"):
        hasher.relabelled(X[:2], y[:2], y[1:3])
    hasher.partial_fit(X, y)
    before = state_of(hasher)
    with pytest.raises(ValueError, match="one old and one new label per row"):
        hasher.relabelled(X[:2], y[:2], y[:1])
    with pytest.raises(ValueError, match=r"old\[1\] is missing"):
        hasher.relabelled(X[:2], np.array([1, None], object), y[:2])
    assert hasher.relabelled(X[:0], y[:0], y[:0]) is hasher
    assert state_of(hasher) == before


@pytest.mark.parametrize("name", METHODS)
def test_every_method(name: str) -> None:
    """The hasher is left alone; the result is the same each time, in every thread, and can be saved."""
    X, y, wrong = noisy_stream(300)
    hasher = hs.methods(variants=True)[name](16, random_state=0).partial_fit(X, wrong)
    rows = np.flatnonzero(wrong != y)
    before = state_of(hasher)
    with threadpool_limits(1, user_api="blas"):
        after = hasher.relabelled(X[rows], wrong[rows], y[rows])
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        there = pool.submit(hasher.relabelled, X[rows], wrong[rows], y[rows]).result()
    assert state_of(hasher) == before
    assert state_of(there) == state_of(after)
    assert state_of(from_bytes(to_bytes(after), "bytes")) == state_of(after)
    assert after.version_ > hasher.version_ or np.array_equal(after.transform(X), hasher.transform(X))
    if not hasher.can_correct():
        assert state_of(after) == state_of(hasher.learned(X[rows], y[rows]))
    unchanged = hasher.relabelled(X[:5], wrong[:5], wrong[:5])
    if hasher.can_correct():
        assert state_of(unchanged) == before


@pytest.mark.parametrize("name", ["LSH", "SketchHash"])
def test_labels_that_play_no_part(name: str) -> None:
    """A method that does not learn from labels has nothing to correct, also where it was given none."""
    X, y = class_stream(100)
    hasher = hs.methods()[name](16, random_state=0).fit(X)
    after = hasher.relabelled(X[:9], y[:9], y[1:10])
    assert after.version_ == hasher.version_
    assert np.array_equal(after.transform(X), hasher.transform(X))
