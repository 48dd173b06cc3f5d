"""`Bits`: the bits of packed codes, for scikit-learn's distances, pipelines and searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline

import hashstream as hs
from hashstream.checks import class_stream


class Median(hs.OnlineHasher):
    """A method of a third party, with an `__init__` of its own: signs of single features about their median."""

    needs_labels = False

    def __init__(self, n_bits=8, *, batch_size=100, feature_map=None, random_state=None):
        self.n_bits, self.batch_size = n_bits, batch_size
        self.feature_map, self.random_state = feature_map, random_state

    def _start(self, X):
        self.median_ = np.median(X, axis=0)[: self.n_bits]

    def _learn(self, X, labels):
        return 1

    def _project(self, X):
        return X[:, : self.n_bits] - self.median_


@pytest.mark.parametrize("n_bits", [8, 12, 64])
def test_against_unpackbits(n_bits: int) -> None:
    X, y = class_stream(n=40)
    hasher = hs.FCOH(n_bits=n_bits, random_state=0).fit(X, y)
    codes, values = hasher.transform(X), hasher.decision_function(X)
    bits = hs.Bits().transform(codes)
    assert bits.dtype == np.uint8
    assert np.array_equal(bits, np.unpackbits(codes, axis=1))
    assert np.array_equal(hs.Bits(n_bits=n_bits).transform(codes), values > 0)
    signs = hs.Bits("signs", n_bits=n_bits).transform(codes)
    assert signs.dtype == np.float32
    assert np.array_equal(signs, np.where(values > 0, 1, -1))


@pytest.mark.parametrize("n_bits", [12, 64])
def test_scikit_learn_has_our_distances(n_bits: int) -> None:
    X, _ = class_stream(n=60)
    codes = hs.LSH(n_bits=n_bits, random_state=0).fit(X).transform(X)
    expected = hs.hamming.distances(codes, codes)
    for step in (hs.Bits(), hs.Bits(n_bits=n_bits)):
        bits = step.transform(codes)
        np.testing.assert_allclose(pairwise_distances(bits, metric="hamming") * bits.shape[1], expected)
    signs = hs.Bits("signs", n_bits=n_bits).transform(codes)
    np.testing.assert_allclose(n_bits - signs @ signs.T, 2 * expected)
    assert not np.allclose(pairwise_distances(codes, metric="hamming") * 8 * codes.shape[1], expected)


@pytest.mark.parametrize("hasher", [hs.FCOH(n_bits=20, random_state=0), Median(n_bits=10)], ids=repr)
def test_in_a_pipeline(hasher: hs.OnlineHasher) -> None:
    """The classifier sees the distances of `hamming.topk`, for a third party's method, too."""
    X, y = class_stream()
    given = make_pipeline(hasher, hs.Bits(), KNeighborsClassifier(5, metric="hamming", algorithm="brute"))
    pipeline = clone(given).fit(X[:200], y[:200])
    codes = pipeline[0].transform(X)
    far, _ = pipeline[-1].kneighbors(pipeline[:-1].transform(X[200:]))
    expected = hs.hamming.topk(codes[200:], codes[:200], k=5).distances
    np.testing.assert_allclose(far * 8 * codes.shape[1], expected)
    assert pipeline.score(X[200:], y[200:]) > 0.5
    with config_context(enable_metadata_routing=True):
        routed = clone(given).fit(X[:200], y[:200])
    np.testing.assert_array_equal(routed[0].transform(X), codes)
    names = pipeline[:-1].get_feature_names_out()
    assert names.tolist() == [f"bits{k}" for k in range(8 * codes.shape[1])]


def test_parameters_can_be_read_set_cloned_and_searched() -> None:
    X, y = class_stream()
    step = clone(hs.Bits("signs", n_bits=12))
    assert step.get_params() == {"output": "signs", "n_bits": 12}
    assert repr(step.set_params(output="bits")) == "Bits(n_bits=12)"
    pipeline = make_pipeline(hs.LSH(random_state=0), hs.Bits(), KNeighborsClassifier(metric="cosine"))
    grid = {"lsh__n_bits": [8, 30], "bits__output": ["bits", "signs"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert set(search.best_params_) == set(grid)


def test_a_saved_hasher_goes_on_in_a_pipeline(tmp_path: Path) -> None:
    X, y = class_stream()
    hs.save(hs.FCOH(n_bits=16, random_state=0).fit(X, y), tmp_path / "hasher")
    loaded = hs.load(tmp_path / "hasher")
    pipeline = make_pipeline(FrozenEstimator(loaded), hs.Bits(), NearestNeighbors(metric="hamming")).fit(X)
    assert loaded.n_seen_ == len(X)  # not learned again
    assert np.array_equal(pipeline[:-1].transform(X), np.unpackbits(loaded.transform(X), axis=1))


def test_data_frames() -> None:
    X, y = class_stream(n=40)
    pipeline = make_pipeline(hs.LSH(n_bits=12, random_state=0), hs.Bits(n_bits=12)).fit(X, y)
    bits = pipeline.transform(X)
    frame = pipeline.set_output(transform="pandas").transform(pd.DataFrame(X))
    assert list(frame) == [f"bits{k}" for k in range(12)]
    assert np.array_equal(frame.to_numpy(), bits)


@pytest.mark.parametrize(
    ("step", "codes", "says"),
    [
        (hs.Bits("bytes"), np.zeros((2, 1), np.uint8), "output must be 'bits' or 'signs', not 'bytes'"),
        (hs.Bits(None), np.zeros((2, 1), np.uint8), "output must be"),
        (hs.Bits(n_bits=0), np.zeros((2, 1), np.uint8), "n_bits must be at least 1"),
        (hs.Bits(n_bits="8"), np.zeros((2, 1), np.uint8), "n_bits must be a whole number"),
        (hs.Bits(n_bits=12), np.zeros((2, 1), np.uint8), "12"),
        (hs.Bits(n_bits=9), np.array([[0, 128], [1, 64]], np.uint8), "ones after bit 9"),
        (hs.Bits(), np.zeros((2, 3)), "packed codes of dtype uint8, got float64"),
        (hs.Bits(), np.zeros(3, np.uint8), "2-D"),
    ],
    ids=str,
)
def test_what_is_refused(step: hs.Bits, codes: np.ndarray, says: str) -> None:
    for call in (step.fit, step.transform):
        with pytest.raises(ValueError, match=says):
            call(codes)


def test_another_width_is_refused() -> None:
    step = hs.Bits().fit(np.zeros((2, 2), np.uint8))
    with pytest.raises(ValueError, match="3 bytes per code, but Bits was fitted with 2"):
        step.transform(np.zeros((2, 3), np.uint8))


def test_names_need_a_fit() -> None:
    with pytest.raises(NotFittedError):
        hs.Bits().get_feature_names_out()


def test_a_hasher_gives_them_as_well() -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 2
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(X, y)
    codes = hasher.transform(X)
    np.testing.assert_array_equal(hasher.transform(X, output="packed"), codes)
    for output in ("bits", "signs"):
        found = hasher.transform(X, output=output)
        np.testing.assert_array_equal(found, hs.Bits(output, n_bits=12).transform(codes))
        assert found.shape == (40, 12)
    with pytest.raises(ValueError, match="output"):
        hasher.transform(X, output="bytes")
