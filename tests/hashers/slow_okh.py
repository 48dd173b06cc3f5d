"""OKH, one pair and one bit at a time, with nothing simplified: the four steps as `okh.py` states them."""

from __future__ import annotations

import math

import numpy as np


def sign(z: float) -> int:
    return 1 if z > 0 else -1


def hamming(g: list[int], h: list[int]) -> int:
    return sum(a != b for a, b in zip(g, h, strict=True))


def similarity_loss(g: list[int], h: list[int], s: int, t_s: float, t_d: float) -> float:
    return max(0.0, hamming(g, h) - t_s) if s == 1 else max(0.0, t_d - hamming(g, h))


def zero_loss_codes(
    p_i: list[float], p_j: list[float], s: int, t_s: float, t_d: float
) -> tuple[list[int], list[int]]:
    """The codes of the pair, corrected bit by bit, cheapest first, until there is no loss left."""
    g_i, g_j = [sign(p) for p in p_i], [sign(p) for p in p_j]
    wrong = [k for k in range(len(p_i)) if (g_i[k] != g_j[k]) == (s == 1)]
    for k in sorted(wrong, key=lambda k: min(abs(p_i[k]), abs(p_j[k]))):
        if similarity_loss(g_i, g_j, s, t_s, t_d) == 0:
            break
        if abs(p_i[k]) <= abs(p_j[k]):
            g_i[k] = -g_i[k]
        else:
            g_j[k] = -g_j[k]
    assert similarity_loss(g_i, g_j, s, t_s, t_d) == 0
    return g_i, g_j


def score(W: np.ndarray, x_i: np.ndarray, x_j: np.ndarray, g_i: list[int], g_j: list[int]) -> float:
    """g_i^T W^T x_i + g_j^T W^T x_j: how well a pair of codes fits."""
    return sum(g_i[k] * float(W[:, k] @ x_i) + g_j[k] * float(W[:, k] @ x_j) for k in range(W.shape[1]))


def learn_pair(
    W: np.ndarray, x_i: np.ndarray, x_j: np.ndarray, s: int, C: float, t_s: float, t_d: float
) -> tuple[np.ndarray, bool]:
    d, r = W.shape
    p_i = [float(W[:, k] @ x_i) for k in range(r)]
    p_j = [float(W[:, k] @ x_j) for k in range(r)]
    h_i, h_j = [sign(p) for p in p_i], [sign(p) for p in p_j]
    R = similarity_loss(h_i, h_j, s, t_s, t_d)
    if R == 0:
        return W, False
    g_i, g_j = zero_loss_codes(p_i, p_j, s, t_s, t_d)
    loss = score(W, x_i, x_j, h_i, h_j) - score(W, x_i, x_j, g_i, g_j) + math.sqrt(R)
    Q = np.zeros((d, r))
    for k in range(r):
        for j in range(d):
            Q[j, k] = x_i[j] * (g_i[k] - h_i[k]) + x_j[j] * (g_j[k] - h_j[k])
    squared = sum(Q[j, k] ** 2 for j in range(d) for k in range(r))
    if squared == 0:
        return W, False
    return W + min(C, loss / squared) * Q, True
