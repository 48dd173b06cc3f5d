"""Labels of queries and codes, in the two forms that the engines read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Labels(NamedTuple):
    """1-D uint8 or int32 classes (relevant if equal), or 2-D uint64 bits (relevant if one is shared)."""

    queries: np.ndarray
    codes: np.ndarray


def pack_labels(indicators: ArrayLike) -> NDArray[np.uint64]:
    """Pack an (n, L) indicator matrix, non-zero where an item has a label, into (n, ceil(L / 64)) uint64 words.

    >>> pack_labels(np.array([[1, 0, 1], [0, 0, 0]]))
    array([[5],
           [0]], dtype=uint64)
    """
    indicators = np.asarray(indicators)
    if indicators.ndim != 2:
        raise ValueError(f"indicators must be 2-D, items by labels, got shape {indicators.shape}")
    n, n_labels = indicators.shape
    words = max(1, -(-n_labels // 64))
    packed = np.zeros((n, 8 * words), np.uint8)
    packed[:, : -(-n_labels // 8)] = np.packbits(indicators != 0, axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64, copy=False)


def check_labels(labels: tuple[ArrayLike, ArrayLike], n_queries: int, n_codes: int) -> Labels:
    """Return (query_labels, code_labels), as the user gave them, in a form that the engines read."""
    if not isinstance(labels, tuple) or len(labels) != 2:
        raise ValueError("labels must be a pair (query_labels, code_labels)")
    queries, codes = np.asarray(labels[0]), np.asarray(labels[1])
    if queries.ndim != codes.ndim or queries.ndim not in (1, 2):
        raise ValueError(
            "query and code labels must both be 1-D classes or both be 2-D indicators, "
            f"got shapes {queries.shape} and {codes.shape}"
        )
    for name, side, n in (("query", queries, n_queries), ("code", codes, n_codes)):
        if len(side) != n:
            raise ValueError(f"{n} {name} labels are needed, one per row, got {len(side)}")
    return _classes(queries, codes) if queries.ndim == 1 else _indicators(queries, codes)


def _classes(queries: np.ndarray, codes: np.ndarray) -> Labels:
    for side in (queries, codes):
        if len(side) and not np.issubdtype(side.dtype, np.integer) and side.dtype != np.bool_:
            raise ValueError(f"class labels must be integers, got dtype {side.dtype}")
    if not len(queries) or not len(codes):
        return Labels(np.zeros(len(queries), np.uint8), np.zeros(len(codes), np.uint8))
    low = min(int(queries.min()), int(codes.min()))
    high = max(int(queries.max()), int(codes.max()))
    if low < np.iinfo(np.int32).min or high > np.iinfo(np.int32).max:
        # Only equality matters: replace large numbers by their position among all that occur.
        if queries.dtype != codes.dtype:  # NumPy's common type of int64 and uint64 is float64, which rounds
            queries, codes = queries.astype(object), codes.astype(object)
        position = np.unique(np.concatenate([queries, codes]), return_inverse=True)[1]
        queries, codes = position[: len(queries)], position[len(queries) :]
        low, high = 0, position.max()
    dtype = np.uint8 if low >= 0 and high <= 255 else np.int32
    return Labels(np.ascontiguousarray(queries, dtype), np.ascontiguousarray(codes, dtype))


def _indicators(queries: np.ndarray, codes: np.ndarray) -> Labels:
    if queries.shape[1] != codes.shape[1]:
        raise ValueError(
            f"query labels have {queries.shape[1]} columns but code labels have {codes.shape[1]}"
        )
    if (queries.dtype == np.uint64) != (codes.dtype == np.uint64):
        raise ValueError(
            "query and code labels must both be packed (uint64) or both be unpacked indicator matrices"
        )
    if queries.dtype != np.uint64:
        queries, codes = pack_labels(queries), pack_labels(codes)
    elif queries.shape[1] == 0:
        raise ValueError("packed indicator matrices need at least one column")
    return Labels(np.ascontiguousarray(queries), np.ascontiguousarray(codes))
