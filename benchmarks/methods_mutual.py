"""The floors of MIHash and ClassifierHash: their own matrix products, as plain BLAS.

MIHash compares every instance with a reservoir of R items. Its products for n instances, W moved by all of them:

- the inner products of the instances with the reservoir (R d each), the cheapest exact way to know how the
  reservoir's projections move: one matrix product for each thousand instances;
- the instances' projections and the update of W (2 d r each): two matrix products for each thousand instances, though
  the method, whose every step depends on the one before, cannot do them together;
- for every instance three passes over R x r numbers: the distances (matrix by vector), the gradient (vector by
  matrix), the move of the projections (rank one).

The R r sigmoids of an instance are not in the floor; nor are the R d r multiplications of projecting the reservoir
again for every instance, as the equations are written (`literal_floor`), which is never necessary.

ClassifierHash: the scores of a batch and their gradient, for ten classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.blas import dger, sger

from hashstream.hashers.classifier import ClassifierHash
from hashstream.hashers.mihash import MIHash

__all__ = ["METHODS", "literal_floor"]

RESERVOIR = 1000
TOGETHER = 1000
CLASSES = 10


def mihash(n_bits: int) -> MIHash:
    return MIHash.from_paper("mnist", n_bits, random_state=0)


def mihash_floor(X: np.ndarray, n_bits: int) -> Callable[[], object]:
    d = X.shape[1]
    rng = np.random.default_rng(0)
    reservoir = X[rng.integers(len(X), size=RESERVOIR)]
    W = rng.standard_normal((d, n_bits)).astype(X.dtype)
    P = np.zeros((RESERVOIR, n_bits), X.dtype)
    phi = rng.random((RESERVOIR, n_bits)).astype(X.dtype)
    code = np.ones(n_bits, X.dtype)
    rank_one = sger if X.dtype == np.float32 else dger

    def floor() -> object:
        moved = W
        for start in range(0, len(X), TOGETHER):
            batch = X[start : start + TOGETHER]
            K = batch @ reservoir.T
            G = batch @ moved
            for inner, g in zip(K, G, strict=True):
                distances = phi @ code
                g = distances @ phi
                rank_one(1e-9, g, inner, a=P.T, overwrite_a=True)
            moved = moved + 1e-9 * (batch.T @ G)
        return moved

    return floor


def literal_floor(X: np.ndarray, n_bits: int) -> Callable[[], object]:
    """The reservoir projected again for every instance, and nothing else."""
    rng = np.random.default_rng(0)
    reservoir = X[rng.integers(len(X), size=RESERVOIR)]
    W = rng.standard_normal((X.shape[1], n_bits)).astype(X.dtype)

    def floor() -> object:
        for _ in range(len(X)):
            P = reservoir @ W
        return P

    return floor


def classifier(n_bits: int) -> ClassifierHash:
    return ClassifierHash(n_bits)


def classifier_floor(X: np.ndarray, n_bits: int) -> Callable[[], object]:
    V = np.random.default_rng(0).standard_normal((X.shape[1], CLASSES)).astype(X.dtype)

    def floor() -> object:
        moved = V
        for start in range(0, len(X), 10):
            batch = X[start : start + 10]
            moved = moved + 1e-9 * (batch.T @ (batch @ moved))
        return moved

    return floor


METHODS: dict[
    str, tuple[Callable[[int], Any], Callable[[np.ndarray, int], Callable[[], object]], float | None]
]
METHODS = {
    "MIHash": (mihash, mihash_floor, 10.0),
    "ClassifierHash": (classifier, classifier_floor, None),
}
"""Name -> (bits -> hasher, (X, bits) -> the floor as a call, how many times the floor the hasher may take)."""
