"""Codewords: the r-bit target that a class is given when it is first seen, for HCOH, HMOH, OSH and RidgeHash.

A codebook is an (m, r) int8 array of -1 and +1, a row for each codeword. The first class of the stream takes row 0, the
second row 1, and so on; what a class has been given it keeps. When the rows run out the codebook grows at its end.

The functions here are pure; `CodewordHasher` keeps the codebook and who has which row as state of a method.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.labels import Labels
from hashstream.hashers.state_fields import Array, Field
from hashstream.hashers.validation import check_count

__all__ = [
    "ROWS",
    "CodewordHasher",
    "check_codebook",
    "grow",
    "hadamard",
    "hadamard_codebook",
    "hadamard_order",
    "random_codebook",
    "sketch",
    "spanning_first",
]

ROWS = ("random", "distinct", "ordered")
TRIES = 20
MAX_CLASSES = 4096  # to expect, not to have: a Hadamard matrix of that order has 16 million entries


def hadamard(order: int) -> np.ndarray:
    """Sylvester's Hadamard matrix: (order, order) int8 of -1 and +1, any two rows orthogonal; order a power of two.

    >>> hadamard(4)
    array([[ 1,  1,  1,  1],
           [ 1, -1,  1, -1],
           [ 1,  1, -1, -1],
           [ 1, -1, -1,  1]], dtype=int8)
    """
    if order < 1 or order & (order - 1):
        raise ValueError(f"order must be a power of two, not {order}")
    H = np.ones((1, 1), np.int8)
    while len(H) < order:
        H = np.block([[H, H], [H, -H]])
    return H


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
    n_bits: int, n_classes: int, rng: np.random.Generator, rows: str = "random"
) -> np.ndarray:
    """Rows of the Hadamard matrix of order `hadamard_order(n_bits, n_classes)`: (order, n_bits) int8.

    rows : in which order classes take them: "random"; "distinct", which is random with `spanning_first`; or "ordered",
        where few classes of a long code leave many bits equal.

    Where the order is not n_bits, rows are sketched by a Gaussian (order, n_bits) matrix with unit columns. It is drawn
    again, up to 20 times, while two of the first n_classes codewords are equal; the best draw is taken.
    """
    order = hadamard_order(n_bits, n_classes)
    numbers = np.arange(order) if rows == "ordered" else rng.permutation(order)
    H = hadamard(order)[spanning_first(numbers) if rows == "distinct" else numbers]
    if order == n_bits:
        return H
    best, most = np.empty((0, n_bits), np.int8), -1
    for _ in range(TRIES):
        G = rng.standard_normal((order, n_bits))
        codebook = sketch(H, G / np.linalg.norm(G, axis=0))
        different = len(np.unique(codebook[:n_classes], axis=0))
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


def check_codebook(codebook: Any, n_bits: int) -> np.ndarray:
    """A user's codebook as (m, n_bits) int8, or a ValueError that says what is wrong with it."""
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


class CodewordHasher(OnlineHasher):
    """A method that learns towards a codeword for each class. It has the parameters `codebook` and `n_classes`.

    `_start` calls `_start_codebook()`; `_learn` calls `_take_codewords(labels)`, which gives every new class its
    codeword and returns the row of the codebook for each sample. Which row a class has follows the samples, one after
    the other, so it does not depend on how the stream is cut into calls.

    Attributes
    ----------
    codebook_ : (m, n_bits) int8 array
        The codewords, those without a class yet included.
    class_rows_ : (n_classes,) int64 array
        Row of the codebook of each class, in the order of `classes_`; -1 where no sample of it has been learned.
    """

    state_fields: ClassVar[dict[str, Field]] = {
        "codebook_": Array("m r", "int8", values=(-1, 1)),
        "class_rows_": Array("C", "int64", low=-1, below="m"),
    }

    codebook: Any
    n_classes: Any

    codebook_: np.ndarray
    class_rows_: np.ndarray

    def codeword(self, classes: Any) -> np.ndarray:
        """The codewords of class numbers (positions in `classes_`): (n, n_bits) int8."""
        codewords: np.ndarray = self.codebook_[self.class_rows_[np.asarray(classes, np.intp)]]
        return codewords

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_classes", self.n_classes, 1, MAX_CLASSES)
        if self.codebook is not None:
            check_codebook(self.codebook, self.n_bits)

    def _check_state(self) -> None:
        super()._check_state()
        if not len(self.codebook_):
            raise ValueError("codebook_ must have a row")

    def _draw_codebook(self) -> np.ndarray:
        """The codebook to begin with, where none is given."""
        return hadamard_codebook(self.n_bits, self.n_classes, self.rng_)

    def _start_codebook(self) -> None:
        given = self.codebook is not None
        self.codebook_ = check_codebook(self.codebook, self.n_bits) if given else self._draw_codebook()
        self.class_rows_ = np.empty(0, np.int64)

    def _take_codewords(self, labels: Labels) -> np.ndarray:
        """The row of the codebook for each sample of a piece, (n,) int64; new classes take theirs on the way.

        `codebook_` is another array afterwards where it had to grow: look rows up after the call.
        """
        numbers = labels.ids[labels.rank]
        known = len(self.label_book_)
        rows = np.append(self.class_rows_, np.full(known - len(self.class_rows_), -1, np.int64))
        if (new := rows[numbers] < 0).any():
            classes, first = np.unique(numbers[new], return_index=True)
            taken = int(np.count_nonzero(rows >= 0))
            rows[classes[np.argsort(first)]] = np.arange(taken, taken + len(classes))
            if taken + len(classes) > len(self.codebook_):
                self.codebook_ = grow(self.codebook_, taken + len(classes), self.rng_)
        self.class_rows_ = rows
        return rows[numbers]
