"""FCOH's gradient as loops over pairs, for any labels: the definition that the fast paths are held against."""

from __future__ import annotations

import numpy as np


def sign(p: np.ndarray) -> np.ndarray:
    return np.where(p > 0, 1.0, -1.0)


def class_gradient(
    W: np.ndarray, X: np.ndarray, Y: np.ndarray, c: int, mean: np.ndarray, lambda1: float, lambda2: float
) -> np.ndarray:
    """Gradient of class c's loss; Y is the (n, C) 0/1 matrix of labels.

    Every sample i of class c is pulled towards the code of every j with label c, and pushed from the code of every j
    that shares no label with i; a pair that shares another label but not c is left alone.
    """
    r = W.shape[1]
    p = W.T @ mean
    sigma = np.where((p > 1) | ((p > -1) & (p < 0)), 1.0, -1.0)
    gradient = np.outer(mean, sigma)
    for i in np.flatnonzero(Y[:, c]):
        for j in range(len(X)):
            b = sign(W.T @ X[j])
            inner = (W.T @ X[i]) @ b
            if Y[j, c]:
                gradient += 2 * lambda1 * (inner - r) * np.outer(X[i], b)
            elif not (Y[i] & Y[j]).any():
                gradient += 2 * lambda2 * (inner + r) * np.outer(X[i], b)
    return gradient


def learn(
    W: np.ndarray,
    batches: list[tuple[np.ndarray, np.ndarray]],
    mu: float,
    lambda1: float,
    lambda2: float,
    class_wise: bool,
) -> np.ndarray:
    """W after the batches (X, Y), class by class or with one step a batch."""
    C = batches[0][1].shape[1]
    sums, counts = np.zeros((C, len(W))), np.zeros(C)
    for X, Y in batches:
        sums += Y.T.astype(float) @ X
        counts += Y.sum(axis=0)
        total = np.zeros_like(W)
        for c in np.flatnonzero(Y.any(axis=0)):
            gradient = class_gradient(W, X, Y, c, sums[c] / counts[c], lambda1, lambda2)
            if class_wise:
                W = W - mu * gradient
            else:
                total += gradient
        W = W - mu * total
    return W


def discrete_step(
    W: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    c: int,
    lambda1: float,
    lambda2: float,
    nu: float,
    ridge: float,
    sweeps: int,
) -> np.ndarray:
    """FCOH_C's step of class c: codes bit by bit, sample by sample, then the proximal ridge in feature space."""
    r = W.shape[1]
    own, other = X[y == c], X[y != c]
    A, N = sign(own @ W), sign(other @ W)
    M = lambda1 * A.T @ A + lambda2 * N.T @ N
    q = r * (lambda1 * A.sum(axis=0) - lambda2 * N.sum(axis=0))
    codes = A.copy()
    for i, x in enumerate(own):
        for _ in range(sweeps):
            for k in range(r):
                rest = sum(M[k, bit] * codes[i, bit] for bit in range(r) if bit != k)
                codes[i, k] = 1.0 if q[k] + nu * (W[:, k] @ x) - rest > 0 else -1.0
    # argmin over V of nu |codes - own V|^2 + ridge |V - W|^2
    return W + np.linalg.solve(own.T @ own + ridge / nu * np.eye(len(W)), own.T @ (codes - own @ W))
