"""Codewords: the r-bit target that a class is given when it is first seen, for HCOH, HMOH, OSH and RidgeHash.

A codebook is an (m, r) int8 array of -1 and +1, a row for each codeword. The first class of the stream takes row 0, the
second row 1, and so on; what a class has been given it keeps. When the rows run out the codebook grows at its end.

The functions here are pure. `CodewordHasher` (`codeword_hasher.py`) keeps the codebook as state of a method.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import linalg

RowOrder = Literal["random", "distinct", "ordered"]
ROWS: tuple[RowOrder, ...] = ("random", "distinct", "ordered")
TRIES = 20
MAX_CLASSES = 4096  # to expect, not to have: a Hadamard matrix of that order has 16 million entries


def hadamard_order(n_bits: int, n_classes: int) -> int:
    """The smallest power of two that is at least n_bits and n_classes.

    >>> hadamard_order(8, 10), hadamard_order(48, 10), hadamard_order(64, 205)
    (16, 64, 256)
    """
    return 1 << (max(n_bits, n_classes) - 1).bit_length()


def spanning_first(rows: np.ndarray) -> np.ndarray:
    """Row numbers of a Hadamard matrix, reordered so that bits differ as early as they can.

    Columns k and l of the matrix are equal on row i, or opposite, by the parity of the bits of i & (k ^ l): no two
    columns are equal or opposite on a set of rows as soon as the numbers 2 i + 1 span their space over GF(2). The rows
    that add to the span are moved to the front, otherwise the order stays: log2(order) + 1 classes tell all bits apart.

    >>> spanning_first(np.array([0, 1, 2, 3, 4, 5, 6, 7]))
    array([0, 1, 2, 4, 3, 5, 6, 7])
    """
    pivots: dict[int, int] = {}  # highest bit -> a vector of the span that has it
    front: list[int] = []
    rest: list[int] = []
    for row in rows.tolist():
        vector = 2 * row + 1
        while vector and vector.bit_length() in pivots:
            vector ^= pivots[vector.bit_length()]
        if vector:
            pivots[vector.bit_length()] = vector
        (front if vector else rest).append(row)
    return np.array(front + rest, dtype=rows.dtype)


def sketch(rows: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Codewords of another length: +1 where rows @ G > 0 and -1 elsewhere; rows (m, h), G (h, r) -> (m, r) int8."""
    return np.where(rows.astype(G.dtype) @ G > 0, 1, -1).astype(np.int8)


def hadamard_codebook(
    n_bits: int, n_classes: int, rng: np.random.Generator, rows: RowOrder = "random"
) -> np.ndarray:
    """Rows of the Hadamard matrix of order `hadamard_order(n_bits, n_classes)`: (order, n_bits) int8.

    rows : in which order classes take them: "random"; "distinct", which is random with `spanning_first`; or "ordered",
        where few classes of a long code leave many bits equal.

    Where the order is not n_bits, rows are sketched by a Gaussian (order, n_bits) matrix with unit columns. It is drawn
    again, up to 20 times, while two of the first n_classes codewords are equal; the best draw is taken.
    """
    order = hadamard_order(n_bits, n_classes)
    numbers = np.arange(order) if rows == "ordered" else rng.permutation(order)
    H = linalg.hadamard(order, np.int8)[spanning_first(numbers) if rows == "distinct" else numbers]
    if order == n_bits:
        return H
    best, most = np.empty((0, n_bits), np.int8), -1
    for _ in range(TRIES):
        G = rng.standard_normal((order, n_bits))
        codebook = sketch(H, G / np.linalg.norm(G, axis=0))
        different = len({word.tobytes() for word in codebook[:n_classes]})
        if different > most:
            best, most = codebook, different
        if most == min(n_classes, order):
            break
    return best


def random_codebook(n_bits: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Codewords of fair, independent bits: (n_classes, n_bits) int8; a bit that is the same in all is drawn again."""
    codebook = _fair(n_classes, n_bits, rng)
    while n_classes > 1 and len(same := np.flatnonzero((codebook == codebook[0]).all(axis=0))):
        codebook[:, same] = _fair(n_classes, len(same), rng)
    return codebook


def grow(codebook: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """A codebook of at least `size` rows that begins with the given one.

    First come the complements of the rows there are, where none of these is in the codebook: next to orthogonal rows
    no codeword is farther from all of them. Then fair, independent bits, as many rows again as there are; a codeword
    that is in the codebook already is drawn again up to 20 times (short codes have no more than 2^r).
    """
    n_bits = codebook.shape[1]
    while len(codebook) < size:
        taken = {row.tobytes() for row in codebook}
        if not any(row.tobytes() in taken for row in -codebook):
            codebook = np.vstack([codebook, -codebook])
            continue
        new = _fair(len(codebook), n_bits, rng)
        for row in new:
            for _ in range(TRIES):
                if row.tobytes() not in taken:
                    break
                row[:] = _fair(1, n_bits, rng)[0]
            taken.add(row.tobytes())
        codebook = np.vstack([codebook, new])
    return codebook


def check_codebook(codebook: ArrayLike, n_bits: int) -> np.ndarray:
    """The codebook that a user gave, as (m, n_bits) int8; ValueError where it is not one."""
    given = np.asarray(codebook)
    if given.ndim != 2 or not len(given) or given.shape[1] != n_bits:
        raise ValueError(f"codebook must have shape (codewords, {n_bits}), not {given.shape}")
    odd = np.argwhere((given != 1) & (given != -1))
    if len(odd):
        row, bit = odd[0]
        raise ValueError(f"a codebook holds -1 and 1 only: codebook[{row}, {bit}] is {given[row, bit]!r}")
    return given.astype(np.int8)


def _fair(m: int, n_bits: int, rng: np.random.Generator) -> np.ndarray:
    return (2 * rng.integers(2, size=(m, n_bits), dtype=np.int8) - 1).astype(np.int8)
