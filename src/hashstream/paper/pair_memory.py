"""Memory that the pairs of a batch need, all at once and class by class: counted, and measured on the equations."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LAMBDA1, LAMBDA2 = 0.1, 0.01  # memory does not depend on them


def count(sizes: Sequence[int]) -> dict[str, float]:
    """Count the entries of pairs that must be in memory at once, as shares of the full n_t x n_t, for a batch whose
    classes have these sizes.

    across: n_c x n_n alone, the paper's count. one: the larger of n_c x n_n and n_c x n_c, one after the other.
    both: the two at once, n_c x n_t.

    >>> count([50, 50])
    {'across': 0.25, 'one': 0.25, 'both': 0.5}
    >>> count([90, 10])
    {'across': 0.09, 'one': 0.81, 'both': 0.9}
    """
    n = sum(sizes)
    across, within = max(c * (n - c) for c in sizes), max(c * c for c in sizes)
    return {"across": across / n**2, "one": max(across, within) / n**2, "both": max(sizes) / n}


def full_gradient(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The gradient (d, r) of the inner-product terms for all pairs at once, with S and the products of all codes."""
    r = W.shape[1]
    P = X @ W
    B = np.where(P > 0, 1.0, -1.0)
    same = y[:, None] == y
    S = np.where(same, float(r), -float(r))  # r S
    error = P @ B.T
    error -= S
    S.fill(2 * LAMBDA2)  # reused for the weights of the pairs
    np.copyto(S, 2 * LAMBDA1, where=same)
    error *= S
    gradient: np.ndarray = X.T @ (error @ B)
    return gradient


def lean_gradient(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The same (d, r) with the least memory that all pairs at once need: the products, without S.

    With the rows sorted by class, S is one number on square blocks along the diagonal and another elsewhere.
    """
    r, order = W.shape[1], np.argsort(y, kind="stable")
    X = X[order]
    P = X @ W
    B = np.where(P > 0, 1.0, -1.0)
    ends = np.cumsum(np.unique(y, return_counts=True)[1]).tolist()
    error = P @ B.T
    error += r
    error *= 2 * LAMBDA2
    for begin, end in zip([0, *ends], ends, strict=False):
        own = error[begin:end, begin:end]
        own /= 2 * LAMBDA2
        own -= 2 * r
        own *= 2 * LAMBDA1
    gradient: np.ndarray = X.T @ (error @ B)
    return gradient


def class_wise_gradient(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The same (d, r), class by class: one block of pairs at a time, within the class, then across."""
    r = W.shape[1]
    gradient = np.zeros_like(W)
    for c in np.unique(y):
        P = X @ W  # for every class again: in the algorithm W has changed
        B = np.where(P > 0, 1.0, -1.0)
        own = y == c
        for codes, wanted, weight in ((B[own], r, 2 * LAMBDA1), (B[~own], -r, 2 * LAMBDA2)):
            error = P[own] @ codes.T
            error -= wanted
            gradient += X[own].T @ (weight * (error @ codes))
            del error
    return gradient


def peak_bytes(call: Callable[[], Any]) -> int:
    """The peak of the bytes that a call allocates, as Python's `tracemalloc` sees them."""
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not already:
            tracemalloc.stop()
