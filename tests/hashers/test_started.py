"""`OnlineHasher.started`: hash functions before the first label, for every method."""

from __future__ import annotations

import numpy as np
import pytest

import hashstream as hs
from hashstream.checks import class_stream, state_of
from hashstream.hashers.serialization import (
    encoder_from_bytes,
    encoder_to_bytes,
    from_bytes,
    read_card,
    to_bytes,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # feature maps that are warmed up on few rows

METHODS = sorted(hs.methods(variants=True))
MAPS = [None, "center", hs.features.RBFAnchors(20)]
X, Y = class_stream(n=200)


def new(name: str, **parameters) -> hs.OnlineHasher:
    return hs.methods(variants=True)[name](n_bits=16, random_state=3, **parameters)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feature_map", MAPS, ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_codes_of_a_started_hasher_tell_rows_apart(name: str, feature_map, dtype) -> None:
    """A row is nearer to a copy of it with little noise than to other rows, though nothing has been learned."""
    rows = X.astype(dtype)
    started = new(name, feature_map=feature_map).started(rows)
    assert (started.version_, started.n_seen_, started.classes_) == (0, 0, [])
    codes = started.transform(rows)
    values = started.decision_function(rows)
    assert values.dtype == dtype
    assert np.array_equal(codes, np.packbits(values > 0, axis=1))
    share = np.unpackbits(codes, axis=1).mean(axis=0)
    assert ((share > 0.02) & (share < 0.98)).mean() > 0.8
    noise = 0.05 * np.random.default_rng(0).standard_normal(X.shape)
    near = np.unpackbits(codes ^ started.transform((X + noise).astype(dtype)), axis=1).mean()
    far = np.unpackbits(codes ^ np.roll(codes, 1, axis=0), axis=1).mean()
    assert near < 0.1 < far


@pytest.mark.parametrize("feature_map", MAPS, ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_learning_is_as_if_it_had_not_been_started(name: str, feature_map) -> None:
    """The same state bit for bit, random numbers included, as of a hasher that began with these rows; by way of a file,
    too. The version grows as soon as codes change."""
    bare = new(name, feature_map=feature_map)
    started = bare.started(X[:60])
    assert not state_of(bare)
    assert started.started(X[60:]) is started
    before = state_of(started)
    loaded = from_bytes(to_bytes(started), "bytes")
    assert state_of(loaded) == before
    expected = new(name, feature_map=feature_map).partial_fit(X[:60], Y[:60]).partial_fit(X[60:], Y[60:])
    for one in (started, loaded):
        codes = one.transform(X)
        first = one.copy().partial_fit(X[:60], Y[:60])
        assert first.version_ > 0 or np.array_equal(first.transform(X), codes)
        assert state_of(first.partial_fit(X[60:], Y[60:])) == state_of(expected)
        checked = one.copy().check_batch(X[:60], Y[:60])
        assert one.learned(*checked).n_seen_ == 60
    assert state_of(started) == before


@pytest.mark.parametrize("name", METHODS)
def test_same_bits_each_time_and_in_files(name: str, tmp_path) -> None:
    started = new(name).started(X)
    assert state_of(new(name).started(X)) == state_of(started)
    hs.save(started, tmp_path / "model")
    loaded = hs.load(tmp_path / "model")
    assert np.array_equal(loaded.transform(X), started.transform(X))
    encoder = encoder_from_bytes(encoder_to_bytes(started.encoder()), "bytes")
    assert encoder.version == 0
    assert np.array_equal(encoder.encode(X), started.transform(X))


@pytest.mark.parametrize("name", METHODS)
def test_rows_without_labels_start_nothing(name: str) -> None:
    """`partial_fit` as before: a first batch without any label leaves a hasher that is not fitted."""
    hasher = new(name).partial_fit(X[:20], [None] * 20)
    assert not state_of(hasher)
    started = new(name).started(X)
    assert started.learned(X[:20], np.array([None] * 20, object)) is started
    assert state_of(started.copy().partial_fit(X[:20], [None] * 20)) == state_of(started)


def test_one_row_starts_a_hasher() -> None:
    for name in METHODS:
        started = new(name).started(X[:1])
        assert started.transform(X).any()
        assert np.isfinite(started.copy().partial_fit(X[1:2], Y[1:2]).decision_function(X)).all()


def test_bad_parameters_and_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="ridge"):
        hs.RidgeHash(ridge=-1).started(X)
    with pytest.raises(ValueError, match="NaN"):
        hs.RidgeHash().started(np.full((3, 4), np.nan))
    started = hs.RidgeHash().started(X)
    with pytest.raises(ValueError, match="12 features"):
        started.partial_fit(X[:, 1:], Y)


def test_fit_forgets_the_start() -> None:
    for name in METHODS:
        assert state_of(new(name).started(X[:9]).fit(X, Y)) == state_of(new(name).fit(X, Y))


def test_the_rng_is_drawn_from_as_if_there_were_no_start() -> None:
    """A generator as `random_state` gives one seed, whether the model is started or learns at once."""
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    started = hs.RidgeHash(8, random_state=one).started(X).partial_fit(X, Y)
    assert state_of(started) == state_of(hs.RidgeHash(8, random_state=other).partial_fit(X, Y))
    assert one.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize("name", ["RidgeHash", "PosteriorHash"])
def test_started_learners_merge(name: str) -> None:
    started, learned = new(name).started(X), new(name).fit(X, Y)
    before = state_of(learned)
    assert state_of(learned.copy().merge(started)) == before
    assert state_of(started.copy().merge(started)) == state_of(started)
    merged = started.copy().merge(learned)
    assert merged.n_seen_ == len(X)
    assert merged.version_ > 0
    assert merged.classes_ == learned.classes_
    assert state_of(from_bytes(to_bytes(merged), "bytes")) == state_of(merged)
    merged.partial_fit(X, Y)


@pytest.mark.parametrize("name", ["RidgeHash", "ClassifierHash", "HMOH", "SketchHash"])
def test_forged_starts(name: str, tmp_path) -> None:
    """The initial projection is there before the first row and at no other time, and fits the model."""
    path = tmp_path / "model"
    started = new(name).started(X)
    for forged, what in (
        (np.zeros((12, 15)), "shape"),
        (np.full((12, 16), np.nan), "NaN"),
        (np.zeros((12, 16), np.float32), "float64"),
        (None, "initial_"),
    ):
        other = started.copy()
        other.initial_ = forged
        with pytest.raises(ValueError, match=what):
            hs.save(other, path)
    learned = new(name).fit(X, Y)
    learned.initial_ = started.initial_
    with pytest.raises(ValueError, match="initial_"):
        hs.save(learned, path)
    learned.n_seen_ = 0
    with pytest.raises(ValueError, match="label_book_"):
        hs.save(learned, path)
    if name != "HMOH":  # which has a projection, though it is zero
        other = started.copy()
        del other.initial_
        with pytest.raises(ValueError, match=r"initial_ is missing"):
            hs.save(other, path)


def test_the_initial_projection_is_stored_only_where_it_is_needed(tmp_path) -> None:
    for name in ("LSH", "HCOH", "FCOH", "PosteriorHash"):
        hs.save(new(name).started(X), tmp_path / name)
        assert "initial_" not in read_card(tmp_path / name)["hasher"]["state"]


def test_posterior_starts_with_the_map_of_its_sample() -> None:
    """Where `sample` gives a map, codes are centred by it, so that an offset of all features does no harm."""
    started = hs.PosteriorHash(32, width=20, sample=X + 100, random_state=0).started(X + 100)
    share = np.unpackbits(started.transform(X + 100), axis=1).mean(axis=0)
    assert ((share > 0.2) & (share < 0.8)).mean() > 0.8
    loaded = from_bytes(to_bytes(started), "bytes")
    expected = hs.PosteriorHash(32, width=20, sample=X + 100, random_state=0).partial_fit(X + 100, Y)
    for one in (started, loaded):
        assert state_of(one.partial_fit(X + 100, Y)) == state_of(expected)


def test_label_matrices_follow_a_start() -> None:
    matrix = np.eye(4, dtype=int)[Y]
    for name in (name for name in METHODS if hs.methods(variants=True)[name].multilabel):
        expected = new(name).partial_fit(X, matrix)
        assert state_of(new(name).started(X).partial_fit(X, matrix)) == state_of(expected)
        nothing = new(name).started(X).partial_fit(X, np.zeros_like(matrix))
        assert np.isfinite(nothing.decision_function(X)).all()
        assert state_of(from_bytes(to_bytes(nothing), "bytes")) == state_of(nothing)
