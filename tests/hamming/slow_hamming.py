"""The definitions, spelled out bit by bit: what both the C kernel and its NumPy twin must agree with."""

from __future__ import annotations

import numpy as np


def distance(a: np.ndarray, b: np.ndarray) -> int:
    return sum(int(x ^ y).bit_count() for x, y in zip(a.tolist(), b.tolist(), strict=True))


def ranking(query: np.ndarray, codes: np.ndarray, rows: list[int] | None = None) -> list[tuple[int, int]]:
    """All (distance, row), nearest first, ties by row."""
    return sorted((distance(query, codes[i]), i) for i in (range(len(codes)) if rows is None else rows))


def scores(
    query: np.ndarray, codes: np.ndarray, relevant: list[bool], cutoffs: list[int]
) -> tuple[float, list[float], list[int]]:
    """The sum of precisions at relevant ranks; the same, and the hits, within each cutoff."""
    order = [row for _, row in ranking(query, codes)]
    hits, terms = 0, []
    for rank, row in enumerate(order, start=1):
        hits += relevant[row]
        terms.append(hits / rank if relevant[row] else 0.0)
    return (
        sum(terms),
        [sum(terms[:cutoff]) for cutoff in cutoffs],
        [sum(relevant[row] for row in order[:cutoff]) for cutoff in cutoffs],
    )
