"""Candidates of a search ranked again by the features that a table keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

__all__ = ["METRICS", "Metric", "distances_to", "rescored"]

Metric = Literal["cosine", "dot", "euclidean"]
METRICS: tuple[Metric, ...] = get_args(Metric)


def rescored(
    Q: np.ndarray, slots: np.ndarray, read: Callable[[np.ndarray], np.ndarray], metric: Metric
) -> tuple[np.ndarray, np.ndarray]:
    """Rank candidates by their features: distances (q, m) float64 and slots (q, m), nearest first.

    Q : (q, d). slots : (q, m), in the order that decides between equal distances. read : the features of distinct
    slots. Distances are 1 - cosine (1 for a row of zeros), minus the dot product, or Euclidean.
    """
    if not slots.size:  # Q may have any number of columns where there are no items
        return np.empty(slots.shape), slots
    distinct, at = np.unique(slots, return_inverse=True)
    X, at = read(distinct), at.reshape(slots.shape)
    far = np.empty(slots.shape)
    for i, q in enumerate(Q.astype(np.float64)):
        far[i] = distances_to(q, X[at[i]].astype(np.float64), metric)
    order = np.argsort(far, axis=1, kind="stable")
    return np.take_along_axis(far, order, axis=1), np.take_along_axis(slots, order, axis=1)


def distances_to(q: np.ndarray, X: np.ndarray, metric: Metric) -> np.ndarray:
    """Distances (n,) of the rows of X (n, d) from q (d,), all float64. A row's does not depend on the other rows, so
    tables that share the candidates find what one table does."""
    if metric == "euclidean":
        return np.asarray(np.linalg.norm(X - q, axis=1))
    product = (X * q).sum(axis=1)  # BLAS adds up a row in other ways where there are more of them
    if metric == "dot":
        return np.asarray(-product)
    length = np.linalg.norm(X, axis=1) * np.linalg.norm(q)
    return np.asarray(1 - np.divide(product, length, out=np.zeros(len(X)), where=length > 0))
