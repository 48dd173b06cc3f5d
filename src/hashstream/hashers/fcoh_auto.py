"""Additions of ``learning_rate="auto"`` to FCOH: scaling of W0, and damping along the mean of the stream. Our own."""

from __future__ import annotations

import numpy as np


def scaled_to(X: np.ndarray, W: np.ndarray, damped: bool) -> np.ndarray:
    """W0 (d, r) scaled to the first rows X (n, d), so that a typical projection is of size 1.

    Codes do not depend on the size of W, but a W0 that is far too large would stay so. The median row decides, so that
    an outlier does not. damped : W0 is also damped along the mean of X.
    """
    squared = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    column = float(np.sqrt(np.mean(np.square(W, dtype=np.float64)) * len(W)))  # typical length; 1 at random
    size = column * float(np.sqrt(np.median(squared[squared > 0])))
    if damped:
        mean = X.mean(axis=0)
        W = damp(W, mean, mean_damping(mean, float(squared.mean()), X.shape[1])[1])
    return (W / size).astype(W.dtype) if size > 0 and np.isfinite(size) else W


def damp_rows(Z: np.ndarray, n: int, mean: np.ndarray) -> float:
    """Damp the rows of Z (m, d), of which the first n are samples, along `mean`, in place; returns the damping."""
    squared = np.einsum("ij,ij->i", Z, Z)
    damping, _ = mean_damping(mean, float(squared[:n].mean(dtype=np.float64)), Z.shape[1])
    # Rows are damped before their products, which would cancel far from the origin ...
    Z -= np.outer(Z @ mean, mean * Z.dtype.type(damping))
    # ... and a row of which only rounding errors are left has no direction to learn from.
    Z[np.einsum("ij,ij->i", Z, Z) <= (100 * np.finfo(Z.dtype).eps) ** 2 * squared] = 0
    return damping


def mean_damping(mean: np.ndarray, energy: float, d: int) -> tuple[float, float]:
    """Damping of the direction of the stream's mean (d,): that of features, and that of W0.

    Uncentred features share one long direction. Steps along it are useless, and their curvature limits all others.
    M = I - damping mean mean^T with damping = 1 / (|mean|^2 + v), v the energy of a typical direction, is strong where
    the mean stands out and almost the identity where features are centred. Returned are the damping of the square root
    of M, for features (steps with M are plain steps on features damped by its root), and of M itself.
    energy : mean squared length of a row.
    """
    squared = float(np.dot(mean.astype(np.float64), mean.astype(np.float64)))
    if not 0 < squared < np.inf:
        return 0.0, 0.0
    typical = max(energy - squared, 0.0) / d
    return (1 - np.sqrt(typical / (squared + typical))) / squared, 1 / (squared + typical)


def damp(W: np.ndarray, mean: np.ndarray, damping: float) -> np.ndarray:
    """(I - damping mean mean^T) W."""
    return W - np.outer(mean * W.dtype.type(damping), mean @ W)
