"""Feature maps: warmed up once, then frozen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import hashstream as hs
from hashstream.checks import class_stream
from hashstream.hashers.features import CenterUnit, RBFAnchors


def warmed(feature_map, X):
    return feature_map.warm_up(X, np.random.default_rng(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_center_unit(dtype) -> None:
    X = class_stream()[0].astype(dtype)
    Z = warmed(CenterUnit(), X).transform(X)
    expected = X - X.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(Z, expected, atol=1e-6)
    assert Z.dtype == dtype


def test_a_row_at_the_mean_becomes_zero() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert not warmed(CenterUnit(sample=X), X).transform(np.array([[2.0, 3.0]])).any()


def test_rbf_anchors_against_scikit_learn() -> None:
    X, _ = class_stream(n=400, d=6)
    X = X + 1000  # far from the origin, where squared distances by expansion would cancel
    feature_map = warmed(RBFAnchors(50), X)
    anchors = feature_map.anchors_ + feature_map.origin_
    assert {tuple(np.round(a, 6)) for a in anchors} <= {tuple(np.round(x, 6)) for x in X}
    squared = ((X[:, None] - anchors[None]) ** 2).sum(axis=2)
    assert feature_map.width_ == pytest.approx(squared.mean() / 6, rel=1e-9)
    features = rbf_kernel(X - 1000, anchors - 1000, gamma=1 / (2 * feature_map.width_))
    features -= features.mean(axis=0)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    np.testing.assert_allclose(feature_map.transform(X), features, atol=1e-9)


def test_the_published_width_for_mnist() -> None:
    """A sixth of the mean squared distance is the published 17.75 on MNIST pixels in [0, 1]."""
    from hashstream import datasets

    try:
        if datasets.find("mnist") is None:
            pytest.skip("MNIST is neither in HASHSTREAM_DATA nor in the cache")
        X = datasets.load("mnist").X
    except datasets.DatasetError as error:
        pytest.skip(str(error))
    rng = np.random.default_rng(0)
    sample = X[rng.choice(len(X), 3000, replace=False)].reshape(3000, -1).astype(np.float32) / 255
    assert warmed(RBFAnchors(300), sample).width_ == pytest.approx(17.75, rel=0.03)


def test_frozen_after_the_first_batch() -> None:
    X, y = class_stream()
    hasher = hs.FCOH(16, feature_map="center", random_state=0).partial_fit(X[:100], y[:100])
    mean = hasher.feature_map_.mean_.copy()
    np.testing.assert_allclose(mean, X[:100].mean(axis=0))
    hasher.partial_fit(X[100:] + 50, y[100:])
    assert np.array_equal(hasher.feature_map_.mean_, mean)


def test_a_given_sample_decides() -> None:
    X, _ = class_stream()
    hasher = hs.LSH(16, feature_map=CenterUnit(sample=X[:77]), random_state=0).partial_fit(X[200:203])
    np.testing.assert_allclose(hasher.feature_map_.mean_, X[:77].mean(axis=0))
    assert not hasattr(hasher.feature_map, "mean_"), "the caller's own map was fitted"


def test_a_poor_warm_up_is_said() -> None:
    X, y = class_stream()
    with pytest.warns(UserWarning, match="warmed up on 1 row and then frozen"):
        hs.FCOH(8, feature_map="center", random_state=0).partial_fit(X[:1], y[:1])
    with pytest.warns(UserWarning, match="only 100 of 300 anchors"):
        hs.FCOH(8, feature_map="rbf", random_state=0).partial_fit(X[:100], y[:100])


@pytest.mark.parametrize(
    "feature_map",
    [
        RBFAnchors(0),
        RBFAnchors(5, width=-1),
        RBFAnchors(5, width="wide"),
        CenterUnit(sample=np.ones((3, 2))),
        CenterUnit(sample=np.empty((0, 12))),
        CenterUnit(sample=np.full((3, 12), np.nan)),
        object(),
    ],
)
def test_bad_maps(feature_map) -> None:
    X, y = class_stream()
    hasher = hs.LSH(8, feature_map=feature_map)
    with pytest.raises(ValueError):
        hasher.fit(X, y)
    assert not hs.checks.state_of(hasher)


def test_rbf_beats_linear_where_classes_are_rings() -> None:
    """What the map is for: classes that no linear projection can tell apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1200)
    angle = rng.uniform(0, 2 * np.pi, 1200)
    X = (1 + 2 * y[:, None]) * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.standard_normal(
        (1200, 2)
    )
    score = {}
    for name, feature_map in (("linear", None), ("rbf", RBFAnchors(50, sample=X[:300]))):
        codes = hs.FCOH(16, feature_map=feature_map, random_state=0).fit(X[:900], y[:900]).transform(X)
        score[name] = hs.evaluate.retrieval(codes[900:], y[900:], codes[:900], y[:900])["mAP"]
    assert score["rbf"] > score["linear"] + 0.2
