"""W0: the projection that a method begins with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

__all__ = ["initial_projection", "random_projection"]


def random_projection(rng: np.random.Generator, d: int, n_bits: int, dtype: DTypeLike) -> np.ndarray:
    """W0 (d, n_bits): independent Gaussian entries, every column scaled to unit length."""
    W = rng.standard_normal((d, n_bits))
    return np.ascontiguousarray(W / np.linalg.norm(W, axis=0), dtype=dtype)


def initial_projection(
    init: ArrayLike | None, rng: np.random.Generator, d: int, n_bits: int, dtype: DTypeLike
) -> np.ndarray:
    """W0 (d, n_bits): a copy of `init` where it is given, otherwise `random_projection`."""
    if init is None:
        return random_projection(rng, d, n_bits, dtype)
    W = np.array(init, dtype=dtype, order="C")
    if W.shape != (d, n_bits):
        raise ValueError(f"init must have shape ({d}, {n_bits}), features by bits, not {W.shape}")
    if not np.isfinite(W).all():
        raise ValueError("init contains NaN or infinity")
    return W
