"""Splits into queries, database and stream, and the preprocessing of the paper's experiments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.labels import as_labels, missing_rows
from hashstream.hashers.validation import check_count


@dataclass(frozen=True)
class Split:
    """Row numbers, each array int64.

    queries: never learned from; sorted by class, equally many of each class that is asked for.
    retrieval: all other rows, shuffled: the database, in its order.
    stream: the first rows of `retrieval`, in the order in which they are learned.
    """

    queries: np.ndarray
    retrieval: np.ndarray
    stream: np.ndarray


def split(
    y: ArrayLike, *, per_class: int = 100, stream: int | None = 20_000, min_class: int = 0, seed: int = 0
) -> Split:
    """Split as in the paper's experiments: `per_class` random rows of each class are queries, the rest the database.

    y: (n,) labels. stream: number of rows to learn from; None for the whole database. min_class: classes with fewer
    rows are not asked for; all their rows are in the database. The same seed gives the same split.

    >>> part = split(np.repeat(["cat", "dog"], 50), per_class=5, stream=40, seed=1)
    >>> len(part.queries), len(part.retrieval), len(part.stream)
    (10, 90, 40)
    >>> np.array_equal(part.stream, part.retrieval[:40])
    True
    """
    labels = as_labels(y)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"y has shape {labels.shape}: a split needs at least one row and one label per row")
    if (missing := missing_rows(labels)) is not None:
        raise ValueError(
            f"y[{int(missing.argmax())}] is missing: a split needs a label for every row; remove the "
            f"{int(missing.sum())} rows without one"
        )
    classes, number, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    per_class, min_class = check_count("per_class", per_class, 1), check_count("min_class", min_class, 0)
    asked = sizes >= min_class
    if not asked.any():
        raise ValueError(
            f"min_class is {min_class}: no class has as many rows, the largest has {sizes.max()}"
        )
    if sizes[asked].min() <= per_class:
        few = np.where(asked, sizes, sizes.max()).argmin()
        raise ValueError(
            f"class {classes[few]!s} has {sizes[few]} rows: with per_class={per_class} none would be left to search; "
            f"with min_class={sizes[few] + 1} it is not asked for"
        )
    rng = np.random.default_rng(seed)
    by_class = np.split(np.argsort(number, kind="stable"), np.cumsum(sizes)[:-1])
    drawn_from = (rows for rows in by_class if len(rows) >= min_class)
    queries = np.concatenate([rng.choice(rows, per_class, replace=False) for rows in drawn_from])
    others = np.ones(len(labels), bool)
    others[queries] = False
    retrieval = rng.permutation(np.flatnonzero(others))
    stream = len(retrieval) if stream is None else check_count("stream", stream, 0)
    if not 1 <= stream <= len(retrieval):
        raise ValueError(
            f"stream is {stream}: it has to be 1 to {len(retrieval)}, the rows that are not queries"
        )
    return Split(queries, retrieval, retrieval[:stream])


def centred_unit(X: ArrayLike) -> np.ndarray:
    """(n, d) float32: X minus the mean of all its rows, each row then scaled to length 1.

    Rows that are zero after centring stay zero. The public loaders of the online hashing literature do this first, so
    the paper's figures are of such features. "All rows" includes the queries: a small leak, kept so that figures can be
    compared. In production use a feature map that is fitted on the first batch and then frozen.

    >>> centred_unit([[0, 0], [6, 8], [3, 4]])
    array([[-0.6, -0.8],
           [ 0.6,  0.8],
           [ 0. ,  0. ]], dtype=float32)
    """
    X = np.asarray(X)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"X has shape {X.shape}: rows of features, (n, d), are needed")
    mean = X.mean(axis=0, dtype=np.float64)
    centred: np.ndarray = X.astype(np.float32)  # always a copy
    centred -= mean.astype(np.float32)
    length = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
    np.divide(centred, length, out=centred, where=length > 0)
    return centred
