"""`OnlineHasher.relabelled` with labels that are missing: they are taken back, and no other takes their place."""

from __future__ import annotations

import numpy as np
import pytest

import hashstream as hs
from hashstream.checks import class_stream, state_of
from hashstream.hashers.serialization import from_bytes, to_bytes

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # feature maps that are warmed up on few rows

METHODS = sorted(hs.methods(variants=True))


def none(n: int) -> np.ndarray:
    return np.full(n, None, object)


def assert_same_codes(one: hs.OnlineHasher, other: hs.OnlineHasher, X: np.ndarray, rounding: float) -> None:
    """Bits may differ only where the value is within rounding of 0."""
    values, expected = one.decision_function(X), other.decision_function(X)
    differ = (values > 0) != (expected > 0)
    assert np.abs(expected[differ]).max(initial=0) <= rounding * np.abs(expected).max()


@pytest.mark.parametrize("name", METHODS)
def test_every_method(name: str) -> None:
    """The hasher is left alone; the result can be saved, and goes on learning."""
    X, y = class_stream(300)
    hasher = hs.methods(variants=True)[name](16, random_state=0).partial_fit(X, y)
    before = state_of(hasher)
    new = y[40:60].astype(object)
    new[::2] = None
    after = hasher.relabelled(X[40:60], y[40:60], new)
    assert state_of(hasher) == before
    assert state_of(from_bytes(to_bytes(after), "bytes")) == state_of(after)
    assert after.version_ > hasher.version_ or np.array_equal(after.transform(X), hasher.transform(X))
    if not hasher.can_correct():
        assert state_of(after) == state_of(hasher.learned(X[41:60:2], y[41:60:2]))
        assert hasher.relabelled(X[:9], y[:9], none(9)) is hasher
    elif hasher.needs_labels:
        assert after.n_seen_ == 290
    else:
        assert state_of(after) == before
    after.partial_fit(X, y).transform(X)


@pytest.mark.parametrize("missing", [None, np.nan], ids=str)
@pytest.mark.parametrize(("dtype", "rounding"), [(np.float32, 1e-4), (np.float64, 1e-10)])
@pytest.mark.parametrize("feature_map", [None, "center", hs.features.RBFAnchors(40)], ids=str)
def test_ridge_is_as_if_rows_had_never_come(feature_map, dtype, rounding: float, missing) -> None:
    X, y = class_stream(900, d=20, classes=6)
    X = X.astype(dtype)
    rng = np.random.default_rng(3)
    gone = np.zeros(len(X), bool)
    gone[130 + rng.permutation(len(X) - 130)[:200]] = True
    hasher, right = (hs.RidgeHash(32, feature_map=feature_map, random_state=0) for _ in range(2))
    for start in range(0, len(X), 130):
        rows = slice(start, start + 130)
        hasher.partial_fit(X[rows], y[rows])
        right.partial_fit(X[rows][~gone[rows]], y[rows][~gone[rows]])
    rows = rng.permutation(np.flatnonzero(gone))
    new = np.full(len(rows), missing, object if missing is None else float)
    after = hasher.relabelled(X[rows[:50]], y[rows[:50]], new[:50])
    after = from_bytes(to_bytes(after), "bytes").relabelled(X[rows[50:]], y[rows[50:]], new[50:])
    assert not np.array_equal(hasher.transform(X), right.transform(X))
    assert_same_codes(after, right, X, rounding)
    np.testing.assert_allclose(after.gram_, right.gram_, atol=rounding * np.abs(right.gram_).max())
    assert (after.n_seen_, after.version_) == (700, hasher.version_ + 200)


def test_ridge_corrects_and_takes_back_in_one_call() -> None:
    X, y = class_stream(300)
    wrong = y.copy()
    wrong[100:140] = (y[100:140] + 1) % 4
    hasher = hs.RidgeHash(16, random_state=0).fit(X, wrong)
    new = y[100:140].astype(object)
    new[1::2] = None
    keep = np.ones(300, bool)
    keep[101:140:2] = False
    right = hs.RidgeHash(16, random_state=0).fit(X[keep], y[keep])
    assert_same_codes(hasher.relabelled(X[100:140], wrong[100:140], new), right, X, 1e-10)


def test_ridge_sketch_keeps_the_row_and_drops_its_label() -> None:
    X, y = class_stream(300)
    hasher = hs.RidgeHash(16, rank=8, random_state=0).fit(X, y)
    after = hasher.relabelled(X[:50], y[:50], none(50))
    assert np.array_equal(after.sketch_, hasher.sketch_)
    sums = [X[50:][y[50:] == c].sum(axis=0) for c in range(4)]
    np.testing.assert_allclose(after.class_sums_, sums, atol=1e-10)
    assert after.n_seen_ == 250


@pytest.mark.parametrize("settings", [{}, {"rank": 8}, {"feature_map": "center"}], ids=str)
@pytest.mark.parametrize("name", ["PosteriorHash", "RidgeHash"])
def test_the_last_row_that_is_taken_back_leaves_a_start(name: str, settings: dict) -> None:
    """Codes are again those before the first label; learning goes on as from there."""
    if name == "PosteriorHash" and "rank" in settings:
        pytest.skip("PosteriorHash has no rank")
    X, y = class_stream(300)
    started = hs.methods()[name](16, random_state=0, **settings).started(X[:100])
    hasher = started.learned(X[:30], y[:30])
    assert not np.array_equal(hasher.transform(X), started.transform(X))
    after = hasher.relabelled(X[20:30], y[20:30], none(10)).relabelled(X[:20], y[:20], none(20))
    assert (after.n_seen_, after.classes_) == (0, [])
    assert after.version_ > hasher.version_
    assert np.array_equal(after.transform(X), started.transform(X))
    with pytest.raises(ValueError, match="no row has been learned"):
        after.relabelled(X[:1], y[:1], y[:1])
    loaded = from_bytes(to_bytes(after), "bytes")
    assert state_of(loaded) == state_of(after)
    again, expected = (one.learned(X, y) for one in (loaded, started))
    if name == "RidgeHash":
        assert np.array_equal(again.transform(X), expected.transform(X))
    assert again.classes_ == expected.classes_
    codes, asked = again.transform(X), again.transform(X[:50])
    assert hs.evaluate.retrieval(asked, y[:50], codes, y)["mAP"] > 0.9
