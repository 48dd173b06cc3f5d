"""FCOH as printed: the paper's matrix forms, class by class, in NumPy. The slow side of every comparison."""

from __future__ import annotations

import numpy as np

__all__ = ["LiteralFCOH"]


class LiteralFCOH:
    """Algorithm 1 of the paper with sums as printed (and `scale`, what the inner-product terms are divided by).

    W : (d, r); `means` and `counts` by class label.
    """

    def __init__(
        self, W0: np.ndarray, mu: float, lambda1: float, lambda2: float, scale: str = "none"
    ) -> None:
        self.W = W0.copy()
        self.mu, self.lambda1, self.lambda2, self.scale = mu, lambda1, lambda2, scale
        self.counts: dict[int, int] = {}
        self.means: dict[int, np.ndarray] = {}

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """One batch: X (n_t, d), y (n_t,)."""
        for c in np.unique(y):
            self._class_step(
                int(c), np.ascontiguousarray(X[y == c].T), np.ascontiguousarray(X[y != c].T), len(X)
            )

    def _class_step(self, c: int, X_c: np.ndarray, X_n: np.ndarray, n_t: int) -> None:
        W, dtype = self.W, self.W.dtype.type
        r, n_c = W.shape[1], X_c.shape[1]
        old = self.counts.get(c, 0)
        self.counts[c] = old + n_c
        total = X_c.sum(axis=1) if old == 0 else dtype(old) * self.means[c] + X_c.sum(axis=1)
        x = self.means[c] = total / dtype(self.counts[c])

        P_c = W.T @ X_c
        B_c = np.where(P_c > 0, 1, -1).astype(W.dtype)
        B_n = np.where(W.T @ X_n > 0, 1, -1).astype(W.dtype)
        p = W.T @ x
        sigma = np.where((p > 1) | ((p > -1) & (p < 0)), 1, -1).astype(W.dtype)
        size = dtype({"none": 1, "class": n_c, "batch": n_t, "bits": r}[self.scale])
        gradient = np.outer(x, sigma)
        gradient += dtype(2 * self.lambda1) / size * ((X_c @ (P_c.T @ B_c - dtype(r))) @ B_c.T)
        gradient += dtype(2 * self.lambda2) / size * ((X_c @ (P_c.T @ B_n + dtype(r))) @ B_n.T)
        self.W = W - dtype(self.mu) * gradient
