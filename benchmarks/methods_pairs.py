"""AdaptHash and OKH compared with the floor of their own matrix products.

The floors are plain BLAS products of the sizes that the published steps have, without the decisions in between:

- AdaptHash, for each pair: its projections, W^T W, W times that, and the outer products of the two samples.
- OKH, for all rows at once: the inner products with the 300 anchors, the projections of the kernel features, and the
  update of W by as many rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hashstream.hashers.adapthash import AdaptHash
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.okh import OKH

ANCHORS = 300


def adapthash_floor(X: np.ndarray, n_bits: int) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((X.shape[1], n_bits)).astype(X.dtype)
    weights = np.ones((2, n_bits), X.dtype)

    def products() -> None:
        for t in range(0, len(X) - 1, 2):
            pair = X[t : t + 2]
            _ = pair @ W, W @ (W.T @ W), pair.T @ weights

    return products


def okh_floor(X: np.ndarray, n_bits: int) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    anchors = rng.standard_normal((ANCHORS, X.shape[1])).astype(X.dtype)
    W = rng.standard_normal((ANCHORS, n_bits)).astype(X.dtype)
    weights = np.ones((len(X), n_bits), X.dtype)

    def products() -> None:
        K = X @ anchors.T
        _ = K @ W, K.T @ weights

    return products


def adapthash(n_bits: int) -> OnlineHasher:
    return AdaptHash(n_bits, random_state=0)


def okh(n_bits: int) -> OnlineHasher:
    return OKH(n_bits, random_state=0)


Make = Callable[[int], OnlineHasher]
Floor = Callable[[np.ndarray, int], Callable[[], object]]

METHODS: dict[str, tuple[Make, Floor, float | None]] = {
    "AdaptHash": (adapthash, adapthash_floor, 5.0),
    "OKH": (okh, okh_floor, 5.0),
}
"""Name -> the hasher of n_bits, the floor's products for X and n_bits, and how many times the floor it may take."""
