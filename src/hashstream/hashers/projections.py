"""W0: the projection that a method begins with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

__all__ = ["initial_projection"]


def initial_projection(
    init: ArrayLike | None, rng: np.random.Generator, d: int, n_bits: int, dtype: DTypeLike
) -> np.ndarray:
    """W0 (d, n_bits): a copy of `init`, or else independent Gaussian entries with columns of unit length."""
    if init is None:
        W = rng.standard_normal((d, n_bits))
        return np.ascontiguousarray(W / np.linalg.norm(W, axis=0), dtype=dtype)
    W = np.array(init, dtype=dtype, order="C")
    if W.shape != (d, n_bits):
        raise ValueError(f"init must have shape ({d}, {n_bits}), features by bits, not {W.shape}")
    if not np.isfinite(W).all():
        raise ValueError("init contains NaN or infinity")
    return W
