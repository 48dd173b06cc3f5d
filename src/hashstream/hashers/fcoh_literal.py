"""FCOH as the paper prints it: W <- W - mu dL/dW, class by class. Read this first.

X_c (d x n_c) are a batch's samples of class c and X_n all its others, xbar_c the running mean of class c over the
stream, r the number of bits. Each class of a batch takes one step, in ascending order of label, with the W that the
class before it has left:

    P_c = W^T X_c,  B_c = sgn(P_c),  B_n = sgn(W^T X_n),  p = W^T xbar_c        (Eq. b_current, b_past)
    L   = | |p| - 1 |_1                                                         (Eq. quantization)
          + lambda1 |P_c^T B_c - r|_F^2 + lambda2 |P_c^T B_n + r|_F^2           (Eq. semi_relax)
    dL/dW = xbar_c sigma(p)^T                                                   (Eq. derivative, the codes constant)
            + 2 lambda1 X_c (P_c^T B_c - r) B_c^T + 2 lambda2 X_c (P_c^T B_n + r) B_n^T

The first term quantises the class mean, the second pulls codes of one class together, the third pushes codes of two
classes apart. `fcoh.py` is the method to use: the same steps, many times faster, with a step size of its own. Tests and
benchmarks compare it with this file.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

__all__ = ["LiteralFCOH"]


class LiteralFCOH:
    """Algorithm 1 of the paper.

    W : (d, r) array. means, counts : xbar_c and the number of samples of each class label.
    scale : the divisor of both inner-product terms: 1, n_c, n_t or r for "none" (as printed), "class", "batch", "bits".
    """

    def __init__(
        self,
        W0: np.ndarray,
        mu: float,
        lambda1: float,
        lambda2: float,
        scale: Literal["none", "class", "batch", "bits"] = "none",
    ) -> None:
        self.W = W0.copy()
        self.mu, self.lambda1, self.lambda2, self.scale = mu, lambda1, lambda2, scale
        self.means: dict[int, np.ndarray] = {}
        self.counts: dict[int, int] = {}

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn from one batch: X (n_t, d), y (n_t,)."""
        for c in np.unique(y):
            self._update_mean(int(c), X[y == c])
            X_c, X_n = np.ascontiguousarray(X[y == c].T), np.ascontiguousarray(X[y != c].T)
            self.W = self.W - self.W.dtype.type(self.mu) * self.gradient(int(c), X_c, X_n)

    def _update_mean(self, c: int, rows: np.ndarray) -> None:
        old = self.counts.get(c, 0)
        total = rows.sum(axis=0) if old == 0 else rows.dtype.type(old) * self.means[c] + rows.sum(axis=0)
        self.counts[c] = old + len(rows)
        self.means[c] = total / rows.dtype.type(self.counts[c])

    def gradient(self, c: int, X_c: np.ndarray, X_n: np.ndarray) -> np.ndarray:
        """dL/dW (d, r) of class c, with its samples X_c (d, n_c) and the batch's others X_n (d, n_t - n_c)."""
        W, dtype = self.W, self.W.dtype.type
        r, n_c, n_n = W.shape[1], X_c.shape[1], X_n.shape[1]
        P_c, p = W.T @ X_c, W.T @ self.means[c]
        B_c, B_n = sign(P_c), sign(W.T @ X_n)
        sigma = np.where((p > 1) | ((p > -1) & (p < 0)), 1, -1).astype(W.dtype)  # slope of | |p| - 1 |
        size = dtype({"none": 1, "class": n_c, "batch": n_c + n_n, "bits": r}[self.scale])
        quantise = np.outer(self.means[c], sigma)
        pull = dtype(2 * self.lambda1) / size * ((X_c @ (P_c.T @ B_c - dtype(r))) @ B_c.T)
        push = dtype(2 * self.lambda2) / size * ((X_c @ (P_c.T @ B_n + dtype(r))) @ B_n.T)
        return quantise + pull + push


def sign(P: np.ndarray) -> np.ndarray:
    """+1 where P > 0 and -1 elsewhere."""
    return np.where(P > 0, 1, -1).astype(P.dtype)
