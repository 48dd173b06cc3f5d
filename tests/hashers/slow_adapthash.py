"""AdaptHash, one number at a time: the objective of a pair by definition, its gradient by finite differences."""

from __future__ import annotations

import math

import numpy as np


def f(z: float) -> float:
    return 2 / (1 + math.exp(-z)) - 1


def objective(W: np.ndarray, x: np.ndarray, y: np.ndarray, s: int) -> float:
    """(f(W^T x) . f(W^T y) - r s)^2."""
    d, r = W.shape
    inner = 0.0
    for k in range(r):
        v = sum(W[j, k] * x[j] for j in range(d))
        u = sum(W[j, k] * y[j] for j in range(d))
        inner += f(v) * f(u)
    return (inner - r * s) ** 2


def overlap(W: np.ndarray) -> float:
    """|W^T W - I|_F^2 / 4, whose gradient is W (W^T W - I)."""
    d, r = W.shape
    total = 0.0
    for k in range(r):
        for m in range(r):
            inner = sum(W[j, k] * W[j, m] for j in range(d))
            total += (inner - (k == m)) ** 2
    return total / 4


def gradient(function, W: np.ndarray, step: float = 1e-5) -> np.ndarray:
    G = np.zeros_like(W)
    for j in range(W.shape[0]):
        for k in range(W.shape[1]):
            there, back = W.copy(), W.copy()
            there[j, k] += step
            back[j, k] -= step
            G[j, k] = (function(there) - function(back)) / (2 * step)
    return G


def learn_pair(
    W: np.ndarray, x: np.ndarray, y: np.ndarray, alike: bool, alpha: float, eta: float, lambda_: float
) -> tuple[np.ndarray, bool]:
    d, r = W.shape
    v = [sum(W[j, k] * x[j] for j in range(d)) for k in range(r)]
    u = [sum(W[j, k] * y[j] for j in range(d)) for k in range(r)]
    differing = [k for k in range(r) if (v[k] > 0) != (u[k] > 0)]
    agreeing = [k for k in range(r) if k not in differing]
    if alike:
        loss, candidates = len(differing) - (1 - alpha) * r, differing
    else:
        loss, candidates = alpha * r - len(differing), agreeing
    if loss <= 0:
        return W, False
    kept = sorted(candidates, key=lambda k: -max(abs(v[k]), abs(u[k])))[: math.ceil(loss)]
    # The published code has half of f' and a factor 2 in its place; together they are the true gradient.
    G = gradient(lambda V: objective(V, x, y, 1 if alike else -1), W)
    M = lambda_ * gradient(overlap, W)
    for k in kept:
        M[:, k] += eta * G[:, k]
    W = W - M
    for k in range(r):
        W[:, k] /= math.sqrt(sum(W[j, k] ** 2 for j in range(d)))
    return W, True
