"""HCOH, HMOH and OSH compared with the floor of their own matrix products, for `hashstream perf methods`.

The floor is one projection X W and one update X^T G of the whole stream, as two large matrix products: the cost of the
same arithmetic where no sample has to wait for the one before it. (Sample by sample, one matrix-vector product and one
rank-1 update each through BLAS, takes several times that.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hashstream.hashers.hcoh import HCOH
from hashstream.hashers.hmoh import HMOH
from hashstream.hashers.osh import OSH

__all__ = ["METHODS"]

ROWS = 1000  # at a time, as the methods do: no n x r matrix for a long stream


def products(X: np.ndarray, n_bits: int) -> Callable[[], Any]:
    """X (n, d) -> a call that does X W and X^T (X W), the method's arithmetic without its rule."""
    W = np.random.default_rng(0).standard_normal((X.shape[1], n_bits)).astype(X.dtype)

    def floor() -> np.ndarray:
        update = np.zeros_like(W)
        for start in range(0, len(X), ROWS):
            part = X[start : start + ROWS]
            update += part.T @ (part @ W)
        return update

    return floor


METHODS: dict[
    str, tuple[Callable[[int], Any], Callable[[np.ndarray, int], Callable[[], Any]], float | None]
] = {
    "HCOH": (lambda n_bits: HCOH(n_bits, random_state=0), products, 5.0),
    "HMOH": (lambda n_bits: HMOH(n_bits, random_state=0), products, None),
    "OSH": (lambda n_bits: OSH(n_bits, random_state=0), products, 5.0),
}
"""Name -> how to make it, how to make its floor, and what the ratio should not exceed (None: no target)."""
