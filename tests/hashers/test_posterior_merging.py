"""PosteriorHash: learners that are merged, and the sample that gives them one map."""

from __future__ import annotations

import numpy as np
import pytest
from posterior_cases import X, Y, precision, small

import hashstream as hs
from hashstream import PosteriorHash
from hashstream.checks import class_stream, state_of
from hashstream.hashers.serialization import encoder_to_bytes, from_bytes, to_bytes


def parts(n: int = 3, **parameters) -> list[PosteriorHash]:
    """Learners of n parts of the stream, with one map."""
    return [small(sample=X[:500], **parameters).partial_fit(X[i::n], Y[i::n]) for i in range(n)]


def test_merged_sums_are_those_of_the_whole() -> None:
    whole = small(sample=X[:500]).partial_fit(X, Y)
    one = small(sample=X[:500]).partial_fit(X[:1], Y[:1])
    whole = whole.merge(one)  # which sums what was not summed yet
    first, *others = parts()
    states = [state_of(other) for other in others]
    for other in others:
        assert first.merge(other) is first
    assert [state_of(other) for other in others] == states
    assert first.merge(one).n_seen_ == 4001
    ranks = [first.classes_.index(label) for label in whole.classes_]
    np.testing.assert_allclose(first.sum_weights_[ranks], whole.sum_weights_)
    np.testing.assert_allclose(first.sum_means_[ranks], whole.sum_means_, atol=1e-9)
    np.testing.assert_allclose(first.sum_scatter_, whole.sum_scatter_, rtol=1e-9, atol=1e-8)
    assert len(first.sample_) == 200
    rows, labels = class_stream(n=4400)
    test = rows[4000:], labels[4000:]
    assert precision(first, (X, Y), test) > precision(whole, (X, Y), test) - 0.03


def test_a_change_keeps_the_map_of_the_sample() -> None:
    """So that a learner that noticed one still merges with the others."""
    first, second = (small(sample=X[:500]).partial_fit(X[:3000], Y[:3000]) for _ in range(2))
    turned = np.roll(X, 3, axis=1)
    first.partial_fit(turned, Y)
    assert first.changes_ == 1
    assert first.merge(second).n_seen_ == 10_000


def test_an_encoder_does_not_carry_the_sample() -> None:
    with_sample, without = small(sample=X[:500]), small()
    sizes = [len(encoder_to_bytes(one.partial_fit(X, Y).encoder())) for one in (with_sample, without)]
    assert sizes[0] < 1.1 * sizes[1]


def test_the_sample_follows_a_short_horizon() -> None:
    """Also where it is larger than the horizon: no row of it is from long ago."""
    stream = hs.datasets.Stream(12_000, 32, 10, drift=4.0, spread=1.0)
    hasher = PosteriorHash(16, width=16, sample_size=3000, random_state=0)
    for rows, labels in stream.batches(500):
        hasher.partial_fit(rows, labels)
    assert hasher.horizon_ < 3000
    assert np.quantile(hasher.sample_weights_, 0.25) > 1e-4


def test_only_learners_of_the_method_merge() -> None:
    hasher = small().partial_fit(X[:200], Y[:200])
    with pytest.raises(ValueError, match="the other learner is a FCOH"):
        hasher.merge(hs.FCOH(16, random_state=0).partial_fit(X[:200], Y[:200]))
    frozen = hasher.encoder().model
    for one, other in ((hasher, frozen), (frozen, hasher)):
        with pytest.raises(ValueError, match="which cannot learn"):
            one.merge(other)


def test_a_merged_learner_goes_on_and_is_saved() -> None:
    first, second, third = parts()
    version = first.version_
    merged = first.merge(second)
    assert merged.version_ > version
    loaded = from_bytes(to_bytes(merged), "a model")
    for one in (merged, loaded):
        one.partial_fit(X[:700], Y[:700]).merge(third)
    assert state_of(loaded) == state_of(merged)


@pytest.mark.parametrize(("mine", "theirs"), [(1500, 300), (300, 1500), (300, 400), (600, 700), (1, 1)])
def test_learners_without_a_map_merge_with_any(mine: int, theirs: int) -> None:
    one = small().partial_fit(X[:mine], Y[:mine])
    other = small(random_state=1).partial_fit(X[mine : mine + theirs], Y[mine : mine + theirs])
    before = state_of(other)
    one.merge(other)
    assert state_of(other) == before
    assert one.n_seen_ == mine + theirs
    drawn = max(mine, theirs, mine + theirs if mine < 1000 > theirs else 0) >= 1000
    assert (len(one.sum_scatter_) > 0) == drawn
    total = one.sum_weights_.sum() if drawn else one.recent_weights_.sum()
    assert total == pytest.approx(mine + theirs)
    assert state_of(from_bytes(to_bytes(one), "a model")) == state_of(one)
    one.partial_fit(X, Y)
    assert precision(one, (X, Y), (X[:200], Y[:200])) > 0.9


def test_merging_brings_new_classes() -> None:
    low = Y < 2
    one = small(sample=X[:500]).partial_fit(X[low], Y[low])
    other = small(sample=X[:500], random_state=0).partial_fit(X[~low], Y[~low])
    own = one.codewords_.copy()
    one.merge(other)
    assert one.classes_ == [0, 1, 2, 3]
    assert np.array_equal(one.codewords_[:2], own)
    assert one.codewords_.all()
    assert len(np.unique(one.codewords_, axis=0)) == 4
    assert precision(one, (X, Y), (X[:200], Y[:200])) > 0.9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_bits": 8}, "n_bits_"),
        ({"width": 15}, "width"),
        ({"sample": X[1:501]}, "maps differ"),
        ({"random_state": 1}, "maps differ"),
        ({"feature_map": "center"}, "feature maps differ"),
    ],
    ids=str,
)
def test_learners_that_cannot_be_merged(parameters: dict, message: str) -> None:
    one = small(sample=X[:500]).partial_fit(X[:1200], Y[:1200])
    other = small(**{"sample": X[:500], **parameters}).partial_fit(X[:1200], Y[:1200])
    before = state_of(one)
    with pytest.raises(ValueError, match=message):
        one.merge(other)
    assert state_of(one) == before


def test_other_inputs_cannot_be_merged() -> None:
    one = small().partial_fit(X[:100], Y[:100])
    for other, message in (
        (small().partial_fit(X[:100, :5], Y[:100]), "n_features_in_"),
        (small().partial_fit(X[:100].astype(np.float32), Y[:100]), "dtype_"),
        (small().partial_fit(X[:100], np.eye(4, dtype=int)[Y[:100]]), "0/1 matrices"),
    ):
        with pytest.raises(ValueError, match=message):
            one.merge(other)
