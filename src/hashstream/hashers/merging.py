"""Learners of parts of a stream, merged: the checks that RidgeHash and PosteriorHash have in common."""

from __future__ import annotations

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.estimator import check_fitted
from hashstream.hashers.features import same_map

__all__ = ["check_mergeable"]


def check_mergeable(mine: OnlineHasher, other: OnlineHasher, *same: str) -> None:
    """Raise ValueError unless two learners are of one method, can learn, and agree in their input, their feature map,
    their kind of labels and the attributes `same`."""
    if type(other) is not type(mine):
        raise ValueError(f"cannot merge: the other learner is a {type(other).__name__}")
    for one in (mine, other):
        check_fitted(one)
        if not hasattr(one, "rng_"):
            raise ValueError(
                "cannot merge: one has the hash functions of one version only, which cannot learn"
            )
    for name in ("n_bits_", "n_features_in_", "dtype_", *same):
        here, there = getattr(mine, name), getattr(other, name)
        if here != there:
            raise ValueError(f"cannot merge: {name} is {here!r} here and {there!r} in the other learner")
    if not same_map(mine.feature_map_, other.feature_map_):
        raise ValueError(
            "cannot merge: the feature maps differ, because they were fitted on different first batches"
        )
    if len({one.label_book_.multilabel for one in (mine, other) if one.n_seen_}) > 1:
        raise ValueError("cannot merge: one has learned from one label per row, the other from 0/1 matrices")
