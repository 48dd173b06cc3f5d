"""The base of the methods that learn towards codewords: HCOH, HMOH, OSH and RidgeHash."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.codebooks import MAX_CLASSES, ROWS, RowOrder, check_codebook, grow, hadamard_codebook
from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.labels import Labels
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.state_fields import Array, Field
from hashstream.hashers.validation import check_choice, check_count


class CodewordHasher(OnlineHasher):
    """A method that learns towards one codeword per class. It has the parameters `codebook` and `n_classes`.

    `_start` calls `_start_codebook()`; `_learn` calls `_take_codewords(labels)`, which gives every new class its
    codeword and returns the row of the codebook for each sample. Which row a class has follows the samples, one after
    the other, so it does not depend on how the stream is divided into calls.

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

    codebook: ArrayLike | None
    n_classes: int
    rows: RowOrder = "random"
    """Order in which classes take the rows of a Hadamard matrix."""
    init: ArrayLike | None

    codebook_: np.ndarray
    class_rows_: np.ndarray

    def codeword(self, classes: ArrayLike) -> np.ndarray:
        """The codewords of class numbers (positions in `classes_`): (n, n_bits) int8."""
        codewords: np.ndarray = self.codebook_[self.class_rows_[np.asarray(classes, np.intp)]]
        return codewords

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("n_classes", self.n_classes, 1, MAX_CLASSES)
        check_choice("rows", self.rows, ROWS)
        if self.codebook is not None:
            check_codebook(self.codebook, self.n_bits)

    def check_state(self) -> None:
        super().check_state()
        if not len(self.codebook_):
            raise ValueError("codebook_ must have a row")

    def _start(self, X: np.ndarray) -> None:
        self.projection_ = initial_projection(self.init, self.rng_, X.shape[1], self.n_bits, X.dtype)
        self._start_codebook()

    def _draw_codebook(self) -> np.ndarray:
        """The codebook to begin with, where none is given."""
        return hadamard_codebook(self.n_bits, self.n_classes, self.rng_, self.rows)

    def _start_codebook(self) -> None:
        if self.codebook is None:
            self.codebook_ = self._draw_codebook()
        else:
            self.codebook_ = check_codebook(self.codebook, self.n_bits)
        self.class_rows_ = np.empty(0, np.int64)

    def _take_codewords(self, labels: Labels) -> np.ndarray:
        """The row of the codebook for each sample of a piece, (n,) int64; new classes take theirs on the way.

        `codebook_` is another array afterwards where it had to grow: look rows up after the call.
        """
        numbers = labels.ids[labels.rank]
        self._give_codewords(numbers)
        return self.class_rows_[numbers]

    def _give_codewords(self, numbers: np.ndarray) -> None:
        """Give a row of the codebook to each class that has none yet, in the order of first appearance."""
        known = len(self.label_book_)
        rows = np.append(self.class_rows_, np.full(known - len(self.class_rows_), -1, np.int64))
        if (new := rows[numbers] < 0).any():
            classes, first = np.unique(numbers[new], return_index=True)
            self._choose_rows(rows, classes[np.argsort(first)])
            if rows.max() >= len(self.codebook_):
                self.codebook_ = grow(self.codebook_, int(rows.max()) + 1, self.rng_)
        self.class_rows_ = rows

    def _choose_rows(self, rows: np.ndarray, classes: np.ndarray) -> None:
        """Set rows[c] of each of the new classes, in this order, to the next row of the codebook."""
        taken = int(np.count_nonzero(rows >= 0))
        rows[classes] = np.arange(taken, taken + len(classes))


def piece_rows(batch: int) -> int:
    """Number of samples to hand to `take_steps` at once: about 1,000, in whole batches."""
    return int(batch) * max(1, 1000 // int(batch))


def unit_rows(X: np.ndarray) -> np.ndarray:
    """X with every row of length 1; rows that are zero stay zero."""
    with np.errstate(over="ignore"):
        squared = np.einsum("ij,ij->i", X, X)
    if not (fits := np.isfinite(squared)).all():  # rows too long for the square of their length
        X = X / np.where(fits, 1, np.abs(X).max(axis=1)).astype(X.dtype)[:, None]
        squared = np.where(fits, squared, np.einsum("ij,ij->i", X, X))
    length = np.sqrt(np.where(squared > 0, squared, 1)).astype(X.dtype)
    unit: np.ndarray = X / length[:, None]
    return unit


def check_step(W: np.ndarray, learning_rate: float) -> None:
    """Raise DivergenceError where W is not finite."""
    if not np.isfinite(W).all():
        raise DivergenceError(
            f"learning_rate={learning_rate!r} is too large for this data: the projection is no longer finite. "
            "The model is as before the call. Take a smaller learning_rate, or rows of unit length "
            '(feature_map="center").'
        )
