"""Frequent directions: a matrix of l rows that stands for all the rows of a stream (Liberty, KDD 2013).

B (l x d) keeps B^T B near A^T A, where A are all the rows so far: a row takes a free place of B; where none is left, B
is turned to orthogonal rows S V^T (which leaves B^T B) and all squared singular values are lowered by the same theta,
so that half the places become free. Nothing is ever overestimated, and the loss is known:

    0  <=  A^T A - B^T B  <=  (sum of the thetas) I  <=  2 |A|_F^2 / l  I

`SketchHash`, `FROSH` and the low-rank form of `RidgeHash` keep such a sketch. Here are also the rows
that carry the scatter around a running mean, and hash functions from the first singular vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers import linalg
from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.rounding import Bounded, bounded_product
from hashstream.hashers.state_fields import Array, Field, Real, Whole
from hashstream.hashers.validation import check_count

PAPER_SIZES = {"mnist": 200, "cifar10": 100, "places205": 200}
"""Rows of the sketch on each data set of the FCOH paper."""
MAX_SIZE = 1 << 16
"""Rows of a sketch, at most: beyond 2 d they save nothing, and a sketch of so many takes gigabytes."""

TOO_LARGE = (
    "the features are too large: the squares of the sketch are not finite. "
    "The model is as before the call. Scale the features down."
)


@dataclass(frozen=True)
class Sketch:
    """B, without its zero rows. Immutable: every step returns a new one.

    rows : (m, d) array, m <= size
        B. After `ordered` they are orthogonal, of falling length.
    size : int
        l, an even number of places.
    taken : int
        Number of places that count as taken; the next row goes after them.
    lost : float
        The sum of all thetas, which bounds what B^T B lacks of A^T A.
    squares : (m,) array, or None
        The squared lengths of the rows, if the rows are orthogonal and of falling length.
    """

    rows: np.ndarray
    size: int
    taken: int = 0
    lost: float = 0.0
    squares: np.ndarray | None = None

    @classmethod
    def empty(cls, size: int, d: int, dtype: np.dtype) -> Self:
        return cls(np.zeros((0, d), dtype), size)

    @classmethod
    def of(cls, hasher: Any, size: int) -> Sketch:
        """The sketch that a method has kept as its state."""
        return cls(hasher.sketch_, size, hasher.sketch_taken_, hasher.sketch_lost_, hasher.sketch_squares_)

    def keep(self, hasher: Any) -> None:
        """Keep the sketch as a method's state."""
        hasher.sketch_, hasher.sketch_squares_ = self.rows, self.squares
        hasher.sketch_taken_, hasher.sketch_lost_ = self.taken, self.lost

    def insert(self, rows: np.ndarray) -> Sketch:
        """B with further rows, (n, d), one after the other."""
        sketch, start = self, 0
        while start < len(rows):
            if sketch.taken >= sketch.size:  # more, where the size was lowered meanwhile
                sketch = sketch.shrunk(sketch.size // 2)
            stop = min(len(rows), start + sketch.size - sketch.taken)
            together = np.concatenate([sketch.rows, rows[start:stop]])
            sketch = replace(sketch, rows=together, taken=sketch.taken + stop - start, squares=None)
            start = stop
        return sketch

    def ordered(self) -> Sketch:
        """The same B^T B from orthogonal rows of falling length."""
        if self.squares is not None:
            return self
        squares, rows = orthogonal_rows(self.rows)
        return replace(self, rows=rows, squares=squares)

    def shrunk(self, place: int) -> Sketch:
        """With the first l/2 places kept, all squared singular values lowered by that of `place` (from 0).

        `place` is l/2 in `SketchHash`, and l/2 - 1 in `FROSH`.
        """
        sketch, half = self.ordered(), self.size // 2
        assert sketch.squares is not None
        theta = sketch.squares[place] if place < len(sketch.squares) else sketch.squares.dtype.type(0)
        kept = sketch.squares[:half]
        squares = np.maximum(kept - theta, 0)
        scale = np.sqrt(np.divide(squares, kept, out=np.zeros_like(kept), where=kept > 0))
        rows = scale[:, None] * sketch.rows[:half]
        return Sketch(rows, self.size, half, self.lost + float(theta), squares)


def orthogonal_rows(B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) squared singular values of B (n, d), falling, and S V^T (m, d); m = min(n, d).

    Through the eigenvectors U of the smaller Gram matrix, a tenth of the time of an SVD. With few rows S V^T is U^T B:
    a rotation, so B^T B is kept to rounding, and rows are orthogonal to rounding *of the largest squared singular
    value*. Directions far below that are lost (see `leading_directions`).
    """
    n, d = B.shape
    with np.errstate(over="ignore", invalid="ignore"):
        gram = B @ B.T if n <= d else B.T @ B
        if not np.isfinite(gram).all():
            raise DivergenceError(TOO_LARGE)
        try:
            squares, U = np.linalg.eigh(gram)
        except np.linalg.LinAlgError:
            raise DivergenceError(TOO_LARGE) from None
        squares = np.maximum(squares[::-1], 0)
        turn = U.T[::-1]
        rows = turn @ B if n <= d else np.sqrt(squares)[:, None] * turn
    if not (np.isfinite(squares).all() and np.isfinite(rows).all()):  # an SVD of such rows may never end
        raise DivergenceError(TOO_LARGE)
    return squares, rows


def leading_directions(B: np.ndarray, squares: np.ndarray, r: int, rng: np.random.Generator) -> np.ndarray:
    """V (d, r): the first right singular vectors of B, completed by random directions where B has fewer.

    B : (m, d) orthogonal rows of falling squared length `squares`.

    A singular vector counts where its value is more than a rounding error of the largest. The completion is orthogonal
    to the singular vectors and in itself as long as there is room (r <= d); beyond that, columns are random
    unit vectors.
    """
    d, dtype = B.shape[1], B.dtype
    top = min(r, len(squares))
    eps = np.finfo(dtype).eps
    if top and squares[top - 1] > np.sqrt(eps) * squares[0]:
        V = (B[:top] / np.sqrt(squares[:top])[:, None]).T
    elif top and squares[0] > 0:
        _, values, Vt = linalg.svd(B, full_matrices=False, check_finite=False)
        V = Vt[: min(top, int((values > max(B.shape) * eps * values[0]).sum()))].T
    else:
        V = np.zeros((d, 0), dtype)
    # A singular vector has no sign of its own: its largest entry is made positive, whatever library found it.
    V = V * np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
    while V.shape[1] < r:
        room = d - V.shape[1] % d
        new = rng.standard_normal((d, min(room, r - V.shape[1])))
        if V.shape[1] < d:
            # Orthogonal to what is there; in double precision, and QR of all so that rounding cannot add up.
            new = np.linalg.qr(np.hstack([V.astype(np.float64), new]))[0][:, V.shape[1] :]
        else:
            new = np.linalg.qr(new)[0]
        V = np.hstack([V, new.astype(dtype)])
    return np.ascontiguousarray(V)


def random_rotation(rng: np.random.Generator, r: int, dtype: np.dtype) -> np.ndarray:
    """Q (r, r): a random orthogonal matrix, an orthonormal basis of a Gaussian one."""
    return np.linalg.qr(rng.standard_normal((r, r)).astype(dtype, copy=False))[0]


def centred(X: np.ndarray, mean: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows that a batch X (b, d) adds to the scatter around the mean of n rows before it; and the mean of all.

    Returns X minus the batch's mean (b, d), the row sqrt(n b / (n + b)) (batch's mean - mean) (d,), and the new mean:
    the scatter of all rows around their mean is that of before plus the squares of these b + 1 rows.
    """
    b, dtype = len(X), X.dtype.type
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite then is refused by the sketch
        batch_mean = X.mean(axis=0)
        apart = batch_mean - mean
        return X - batch_mean, dtype(np.sqrt(n * b / (n + b))) * apart, mean + dtype(b / (n + b)) * apart


def check_places(rows: np.ndarray, taken: int) -> None:
    """Raise ValueError where a loaded sketch has more rows than places that are taken."""
    if len(rows) > taken:
        raise ValueError(f"sketch_ has {len(rows)} rows, but sketch_taken_ is {taken}")


class SketchingHasher(OnlineHasher):
    """The base of `SketchHash` and `FROSH`: a sketch of the stream around its running mean, and W from it.

    A method's `_learn` hands its sketch to `_aim`, which computes W from it, and keeps it as state (`Sketch.keep`).
    """

    sketch_size: int
    init: ArrayLike | None

    needs = "nothing"
    needs_labels = False
    multilabel = True
    corrects_labels = True
    state_fields: ClassVar[dict[str, Field]] = {
        "projection_": Array("d r"),
        "mean_": Array("d"),
        "sketch_": Array("l d"),
        "sketch_squares_": Array("l", low=0),
        "sketch_taken_": Whole(),
        "sketch_lost_": Real(low=0),
    }

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("sketch_size", self.sketch_size, 2, MAX_SIZE)
        if self.sketch_size % 2:
            raise ValueError(
                f"sketch_size must be even, as half of it is freed at a time, not {self.sketch_size}"
            )

    def check_state(self) -> None:
        check_places(self.sketch_, self.sketch_taken_)

    def _start(self, X: np.ndarray) -> None:
        d = X.shape[1]
        self.projection_ = initial_projection(self.init, self.rng_, d, self.n_bits, X.dtype)
        self.mean_ = np.zeros(d, X.dtype)
        Sketch.empty(self.sketch_size, d, X.dtype).ordered().keep(self)

    def _aim(self, sketch: Sketch) -> None:
        """W = V Q: the first directions of an ordered sketch, rotated at random."""
        assert sketch.squares is not None
        V = leading_directions(sketch.rows, sketch.squares, self.n_bits, self.rng_)
        self.projection_ = V @ random_rotation(self.rng_, self.n_bits, V.dtype)

    def _project(self, X: np.ndarray) -> np.ndarray:
        """W^T (x - m)."""
        return self._bounded(X).values

    def _bounded(self, X: np.ndarray) -> Bounded:
        W, m = self.projection_, self.mean_
        return bounded_product(W, X, beyond=float(np.linalg.norm(m)), minus=m @ W)
