"""RidgeHash: ridge regression to Hadamard codewords, exact at every point of the stream. Our own method.

Every class c has a codeword t_c of r signs. Two sums over the stream x_1, x_2, ... with classes c_1, c_2, ... are kept,

    G = sum of x x^T  (d x d),      s_c = sum of the x of class c  (d per class),

and W is the solution of the whole stream's regression from x to its class's codeword,

    W = (X^T X + ridge I)^-1 X^T T = (G + ridge I)^-1 (sum over c of s_c t_c^T).

It does not matter in which order or in which batches the rows came, and sums of two streams add up to those of both:
two learners can be merged (`RidgeHash.merge`). Keeping s_c rather than X^T T leaves the codewords out of the sums, so a
class may come late, and learners merge whatever codeword each has given a class. W is computed when it is asked for.

Squares would let one row of a wrong scale outweigh all others, so rows enter the sums as `row_scale.py` rescales them:
unchanged, as long as no row is more than 10 times as long as the typical row, and no batch's median row is more than 4
times longer or shorter. The exactness above holds for such streams; see the notes of `RidgeHash` for others.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import ArrayLike

from hashstream.hashers import linalg
from hashstream.hashers.codebooks import MAX_CLASSES, hadamard_codebook
from hashstream.hashers.codeword_hasher import CodewordHasher
from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.estimator import check_fitted
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.labels import LabelBook, Labels
from hashstream.hashers.merging import check_mergeable
from hashstream.hashers.registry import register
from hashstream.hashers.row_scale import LONG, MOVED, RowScale, times_power_of_two
from hashstream.hashers.sketch import MAX_SIZE, Sketch, check_places
from hashstream.hashers.state_fields import Array, Field, Real, Whole
from hashstream.hashers.threads import on_one_thread
from hashstream.hashers.validation import check_count, check_number, settings_for

__all__ = ["RidgeHash"]

FEW = 10
"""The median length of fewer rows is a poor estimate of the scale."""


@register
class RidgeHash(CodewordHasher):
    """Ridge regression to Hadamard codewords: exact, independent of the order of the stream, mergeable.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    ridge : float
        Weight of |W|^2, compared with the squared errors of all rows. (A rounding error of G is added to it.)
    forgetting : float
        In (0, 1]: the weight of everything learned is multiplied by it with every further row. 1 never forgets; with
        1 - 1/h about the last h rows count, which follows drift. Also independent of how the stream is divided
        into calls.
    rank : int, optional
        Keep G as a frequent-directions sketch of this many rows (even), not as d x d numbers, for large d: see Notes.
    n_classes : int
        Number of classes to expect; the Hadamard matrix is chosen so that each has a row. More may come.
    classes : sequence of labels, optional
        Labels whose codewords are fixed in advance: they take the rows of the codebook in this order, whenever they
        come. Otherwise, and for labels that are not among them, rows are taken in order of first appearance.
    codebook : (m, n_bits) array of -1 and 1, optional
        The codewords, instead of rows of a Hadamard matrix in random order. It grows where classes are more than rows;
        what a class has been given it keeps.
    batch_size : int
        Rows summed at once; affects only speed and rounding.
    feature_map, random_state
        As in every method.

    Attributes
    ----------
    projection_ : (d, n_bits) array
        W, computed when first asked for after learning.
    gram_ : (d, d) float64 array
        G; empty with `rank`.
    class_sums_ : (n_classes, d) float64 array
        s_c, in the order of `classes_`.
    typical_length_, learned_length_, longest_length_ : float
        The typical length of a row, its length in the sums, and the largest typical length so far: see `row_scale.py`.
    sketch_, sketch_squares_, sketch_taken_, sketch_lost_
        With `rank`, the sketch B of G, as in `SketchHash`; otherwise empty.
    codebook_, class_rows_
        The codewords, and the row of each class.

    Notes
    -----
    **Order.** W depends on the order of the stream only through the codewords, where classes first appear in another
    order; with `classes` it does not at all, beyond rounding.

    **Scale.** A row more than 10 times as long as the typical row (the median of the first batch) enters the sums at
    about the typical length. Where the median of a batch is more than 4 times longer or shorter (10 times for fewer
    than 10 rows), the scale has moved: rows enter the sums multiplied back to the first scale, `ridge` weighs what it
    would if the whole stream had the largest scale so far, and `projection_` is W times a positive number, which
    changes no code. For such streams W is the solution for the rows as rescaled, which depends on their order and
    batches; `merge` brings both sums to one scale.

    **Corrected labels** (`relabelled`) move from one class's sum to another's, so W is that of the right labels. Rows
    that were rescaled leave as they came. Only with `forgetting` = 1, and as long as the scale has not moved: otherwise
    it is not known how much a row counts, and it is learned again in addition (`can_correct`). A row of more than 10
    times the typical length that came by a merge may have been rescaled by another factor than here. A row whose label
    is taken back leaves its class's sum and G; the typical length stays that of the first rows. With `rank` it leaves
    the class's sum only: the sketch B, in which no row can be told from another, still has it. It then is a row without
    a codeword, and makes W a little shorter in its direction.

    **Low rank.** With `rank` = l, B^T B + (lost / 2) I stands for G, where lost, at most 2 / l of the sum of all
    squared lengths, is known (`sketch_lost_`). x^T (G + ridge I) x is then off, for every x, by a factor between 1 - e
    and 1 + e with e = lost / (2 ridge + lost). A merge adds the lost parts of both. Unlike G, B depends on the order.

    **Corner cases.** One class only: all rows are regressed to one codeword. A batch may be a single row. Where the
    number of bits is no power of two the codewords are signs of random projections of Hadamard rows, as in `HCOH`.

    **Cost**: O(n d^2) for n rows, with `rank` O(n d l); a solution O(d^3), with `rank` O(d l r), whenever W is asked
    for after learning.

    Examples
    --------
    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> from hashstream.hashers.ridge import RidgeHash
    >>> X, y = load_digits(return_X_y=True)
    >>> whole = RidgeHash(n_bits=32, random_state=0).fit(X[:1500], y[:1500])
    >>> one, other = (RidgeHash(n_bits=32, random_state=0).fit(X[a:b], y[a:b]) for a, b in ((0, 700), (700, 1500)))
    >>> codes = whole.transform(X)
    >>> bool((one.merge(other).transform(X) == codes).all())
    True
    >>> scores = hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500])
    >>> scores["mAP"] > 0.8
    True
    """

    reference = "hashstream"
    state_size = "d^2 + C d (with rank l: l d + C d)"
    colour = "#332288"
    marker = "p"
    corrects_labels = True
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "ridge": (10.0, 3.0, 1.0, 0.3, 0.1, 0.01),
        "forgetting": (1.0, 0.9999, 0.999),
    }
    state_fields: ClassVar[dict[str, Field]] = {
        "class_sums_": Array("C d", "float64"),
        "gram_": Array("g g", "float64"),
        "sketch_": Array("l d"),
        "sketch_squares_": Array("l", low=0, or_none=True),
        "sketch_taken_": Whole(),
        "sketch_lost_": Real(low=0),
        "longest_length_": Real(low=0),
        **RowScale.FIELDS,
    }
    rows = "distinct"
    sketch_lost_: float
    _solved: dict[str, np.ndarray]
    """W, once `projection_` has been asked for."""

    def __init__(
        self,
        n_bits: int = 32,
        *,
        ridge: float = 1.0,
        forgetting: float = 1.0,
        rank: int | None = None,
        n_classes: int = 16,
        classes: Sequence[Hashable] | None = None,
        codebook: ArrayLike | None = None,
        batch_size: int = 1000,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.forgetting = forgetting
        self.rank = rank
        self.n_classes = n_classes
        self.classes = classes
        self.codebook = codebook
        self.batch_size = batch_size
        self.feature_map = feature_map
        self.random_state = random_state

    @classmethod
    def from_paper(cls, dataset: str, n_bits: int, **changes: Any) -> Self:
        """The defaults, with as many classes as "mnist", "cifar10" or "places205" has: the method is in no paper."""
        sizes = {"mnist": 10, "cifar10": 10, "places205": 205}
        return cls(n_bits, **{"n_classes": settings_for(dataset, sizes), **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("ridge", self.ridge)
        check_number("forgetting", self.forgetting, most=1)
        if self.rank is not None and check_count("rank", self.rank, 2, MAX_SIZE) % 2:
            raise ValueError(f"rank must be even, as half of the sketch is freed at a time, not {self.rank}")
        if self.classes is not None:
            self._check_fixed()

    def _check_fixed(self) -> None:
        fixed = self._fixed()
        try:
            distinct = isinstance(fixed, list) and len(set(fixed)) == len(fixed)
        except TypeError:  # a class that is not hashable
            distinct = False
        if not distinct:
            raise ValueError("classes must hold every label once")
        if len(fixed) > MAX_CLASSES:
            raise ValueError(f"classes must hold at most {MAX_CLASSES} labels, not {len(fixed)}")

    # ---- codewords

    def _fixed(self) -> list[Any]:
        return [] if self.classes is None else np.asarray(self.classes).tolist()

    def _draw_codebook(self) -> np.ndarray:
        most = max(self.n_classes, len(self._fixed()))
        return hadamard_codebook(self.n_bits, most, self.rng_, self.rows)

    def _choose_rows(self, rows: np.ndarray, classes: np.ndarray) -> None:
        """As in the base; but `self.classes` have their rows in advance, and others take those after them."""
        fixed = self._fixed()
        place = {label: row for row, label in enumerate(fixed)}
        for c in classes:
            free = max(len(fixed), int(rows.max()) + 1)
            rows[c] = place.get(self.label_book_.classes[c], free)

    # ---- learning

    def check_state(self) -> None:
        super().check_state()
        check_places(self.sketch_, self.sketch_taken_)
        if len(self.gram_) != (self.class_sums_.shape[1] if self.rank is None else 0):
            raise ValueError("gram_ must be (d, d) without rank, and empty with it")
        if self.rank is None and len(self.sketch_):
            raise ValueError("sketch_ must be empty without rank")
        RowScale.of(self).check()

    def _start(self, X: np.ndarray) -> None:
        self._start_codebook()
        self._start_sums(X)

    def _start_over(self, none: np.ndarray) -> None:
        self.class_rows_ = self.class_rows_[:0]  # and the codebook stays
        self._start_sums(none)

    def _start_sums(self, X: np.ndarray) -> None:
        d = X.shape[1]
        self.typical_length_ = self.learned_length_ = self.longest_length_ = 0.0
        self.class_sums_ = np.zeros((0, d))
        self.gram_ = np.zeros((d, d) if self.rank is None else (0, 0))
        Sketch.empty(self.rank or 0, d, X.dtype).keep(self)
        self._solved = {}
        if len(X):  # learners that start from the same rows take long rows at the same scale
            self._keep_scale(RowScale().apply(X)[1])

    def _keep_scale(self, scale: RowScale) -> None:
        scale.keep(self)
        self.longest_length_ = max(self.longest_length_, scale.typical)

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        X, scale = RowScale.of(self).apply(X, MOVED if len(X) >= FEW else LONG)
        self._keep_scale(scale)
        n = len(X)
        if bool(len(self.gram_)) != (self.rank is None):
            raise ValueError(
                f"rank is {self.rank} now, but this model was fitted with another one: call fit to start over"
            )
        numbers = labels.ids[labels.rank]
        self._give_codewords(numbers)

        weights = np.full(n, float(self.forgetting)) ** np.arange(n - 1, -1, -1)
        member = linalg.csr_array(
            (weights.astype(X.dtype), (numbers, np.arange(n))), shape=(len(self.label_book_), n)
        )
        rows = X if self.forgetting == 1 else np.sqrt(weights).astype(X.dtype)[:, None] * X
        gram = rows.T @ rows if self.rank is None else self.gram_
        self._add(member @ X, gram, rows, float(self.forgetting) ** n)
        return n

    def _add(self, sums: np.ndarray, gram: np.ndarray, rows: np.ndarray, faded: float) -> None:
        """Add further sums to the current ones, whose weight is multiplied by `faded`.

        gram: what G grows by, without `rank`; rows: what goes into its sketch, with it.
        """
        sums = sums.astype(np.float64)
        sums[: len(self.class_sums_)] += faded * self.class_sums_
        self.class_sums_ = sums
        if self.rank is None:
            self.gram_ = faded * self.gram_ + gram if faded < 1 else self.gram_ + gram
        else:
            sketch = Sketch.of(self, self.rank or 0)
            if faded < 1:
                scale = sketch.rows.dtype.type(np.sqrt(faded))
                sketch = replace(sketch, rows=scale * sketch.rows, lost=faded * sketch.lost, squares=None)
            sketch.insert(rows).keep(self)
        self._solved = {}

    # ---- correcting

    def can_correct(self) -> bool:
        return self.forgetting == 1 and not (hasattr(self, "n_seen_") and RowScale.of(self).moved)

    def _relabel(self, X: np.ndarray, old: Labels, new: Labels) -> int:
        before, after = old.ids[old.rank], new.ids[new.rank]
        self._give_codewords(after)
        rows = RowScale.of(self).reapply(X).astype(np.float64)
        self._add_to_classes(np.append(after, before), np.concatenate([rows, -rows]))
        return int(np.count_nonzero(before != after))

    def _take_back(self, X: np.ndarray, old: Labels) -> int:
        rows = RowScale.of(self).reapply(X).astype(np.float64)
        self._add_to_classes(old.ids[old.rank], -rows)
        if self.rank is None:
            self.gram_ = self.gram_ - rows.T @ rows
        self.n_seen_ = max(0, self.n_seen_ - len(rows))
        return len(rows)

    def _add_to_classes(self, numbers: np.ndarray, rows: np.ndarray) -> None:
        member = linalg.csr_array(
            (np.ones(len(rows)), (numbers, np.arange(len(rows)))), shape=(len(self.label_book_), len(rows))
        )
        sums = member @ rows
        sums[: len(self.class_sums_)] += self.class_sums_
        self.class_sums_ = sums
        self._solved = {}

    # ---- merging

    def merge(self, other: RidgeHash) -> Self:
        """Add what another learner has learned, as if its stream had come after this one's.

        Codewords stay this learner's: classes that it does not know take its next ones, in the order in which `other`
        met them. Both must have the same bits, features, forgetting and rank; `other` is not changed.
        """
        check_mergeable(self, other, "forgetting", "rank")
        other = other.copy()  # of one version, also where another thread learns meanwhile
        return self._publish(
            lambda mine: on_one_thread(lambda: mine._merged(other)) if other.n_seen_ else None
        )

    def _merged(self, other: RidgeHash) -> Self:
        return self._learner(self.rng_)._merge(other)

    def _merge(self, other: RidgeHash) -> Self:
        self.__dict__.pop("initial_", None)
        learned = np.argsort(other.class_rows_, kind="stable")[np.count_nonzero(other.class_rows_ < 0) :]
        labels = [other.label_book_.classes[c] for c in learned]
        known = set(self.label_book_.classes)
        new = [other.label_book_.classes[c] for c in np.sort(learned)]  # as if they had been read here
        classes = self.label_book_.classes + [label for label in new if label not in known]
        self.label_book_ = LabelBook(classes, False)
        number = {label: c for c, label in enumerate(self.label_book_.classes)}
        numbers = np.array([number[label] for label in labels], np.intp)
        seen, gram, rows, lost = (
            other.class_sums_[learned], other.gram_, other.sketch_, other.sketch_lost_,
        )  # fmt: skip
        scale = RowScale.of(self).follow(RowScale.of(other).typical, LONG)
        if exponent := scale.exponent - RowScale.of(other).exponent:
            seen, rows = times_power_of_two(seen, exponent), times_power_of_two(rows, exponent)
            gram, lost = times_power_of_two(gram, 2 * exponent), lost * 4.0**exponent
        self._keep_scale(scale)
        self.longest_length_ = max(self.longest_length_, other.longest_length_)
        self._give_codewords(numbers)
        sums = np.zeros((len(number), seen.shape[1]))
        sums[numbers] = seen
        self._add(sums, gram, rows, float(self.forgetting) ** other.n_seen_)
        self.sketch_lost_ = self.sketch_lost_ + lost
        self.n_seen_ += other.n_seen_
        self.version_ += other.version_
        return self

    # ---- encoding

    @property
    def projection_(self) -> np.ndarray:  # type: ignore[override]
        check_fitted(self)
        view = self._view()  # of one version, also where another thread learns meanwhile
        if "W" not in view._solved:
            view._solved["W"] = on_one_thread(view._solve)
        return view._solved["W"]

    def _view(self) -> Self:
        self.__dict__.setdefault("_solved", {})  # shared by all views of a version; a loaded hasher has none
        return super()._view()

    def _solve(self) -> np.ndarray:
        """W = (G + ridge I)^-1 (sum over c of s_c t_c^T), times any positive number where the scale has moved; or
        DivergenceError."""
        scale = RowScale.of(self)
        largest = replace(scale, typical=max(self.longest_length_, scale.typical)).exponent
        ridge = float(np.ldexp(self.ridge, min(max(2 * largest, -900), 900)))
        learned = np.flatnonzero(self.class_rows_ >= 0)
        with np.errstate(over="ignore", invalid="ignore"):
            M = self.class_sums_[learned].T @ self.codeword(learned).astype(np.float64)
            W = self._solve_gram(M, ridge) if len(self.gram_) else self._solve_sketch(M, ridge)
            if scale.exponent and W.any():
                W = W / (np.abs(W).max() * self.learned_length_)
            W = np.ascontiguousarray(W, dtype=self.dtype_)
        if not np.isfinite(W).all():
            raise DivergenceError(
                f"the sums of the features are too large to be solved for in {self.dtype_}: scale the features down"
            )
        return W

    def _solve_gram(self, M: np.ndarray, ridge: float) -> np.ndarray:
        G = self.gram_.copy()
        G[np.diag_indices(len(G))] += ridge + np.finfo(self.dtype_).eps * np.trace(G)
        if not (np.isfinite(G).all() and np.isfinite(M).all()):
            return np.full_like(M, np.nan)
        try:
            factor = linalg.cho_factor(G, lower=True, overwrite_a=True, check_finite=False)
            return linalg.cho_solve(factor, M, check_finite=False)
        except LinAlgError:  # G is far from what its rounding allows: another basis, the same equations
            try:
                values, U = np.linalg.eigh(G)
            except LinAlgError:
                return np.full_like(M, np.nan)
            return U @ ((U.T @ M) / np.maximum(values, ridge)[:, None])

    def _solve_sketch(self, M: np.ndarray, ridge: float) -> np.ndarray:
        # Rows of B are orthogonal: (B^T B + t I)^-1 = (I - B^T diag(1 / (squares + t)) B) / t
        sketch = Sketch.of(self, self.rank or 0).ordered()
        assert sketch.squares is not None
        B, squares = sketch.rows.astype(np.float64), sketch.squares.astype(np.float64)
        t = ridge + sketch.lost / 2 + np.finfo(self.dtype_).eps * squares.sum()
        return (M - B.T @ ((B @ M) / (squares + t)[:, None])) / t
