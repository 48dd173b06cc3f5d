"""ClassifierHash: the predicted class number in binary, a baseline that shows what a figure of label-mAP is worth.

Sablayrolles, Douze, Usunier and Jégou ("How should we evaluate supervised hashing?", ICASSP 2017, arXiv 1609.06753)
point out that where the items to be retrieved have the classes that were learned from, retrieval by label *is*
classification: ceil(log2 C) bits, the number of the predicted class, beat elaborate methods at any code length, and say
nothing about items of classes that were never seen. A method judged by label-mAP should be
compared with this one, and both should be tried on classes that neither has seen.

The classifier is multinomial logistic regression, learned online in one pass. m and e are the running mean and mean
squared distance from it of all rows so far, f(x) = ((x - m) / sqrt(e), 1). For each batch of n rows, Y their classes
as 0/1 rows:

    Q   = softmax(F V)                     (n, C)
    V  <- V - eta F^T (Q - Y) / n
    U  <- U + 2 / (t + 1) (V - U)          the running average, over t batches since the last new class appeared

and the predicted class is the largest entry of U^T f(x).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.labels import Labels
from hashstream.hashers.registry import register
from hashstream.hashers.rounding import Bounded, bounded_product
from hashstream.hashers.softmax import softmax
from hashstream.hashers.state_fields import Array, Field, Real, Whole
from hashstream.hashers.validation import check_number

__all__ = ["ClassifierHash"]


@register
class ClassifierHash(OnlineHasher):
    """Codes that spell the number of the class that an online linear classifier predicts.

    A baseline, not a way to search: the label-mAP that can be had without any notion of similarity.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    learning_rate : float
        eta of the logistic regression. Features are standardised, so that it depends on no unit. Chosen on held-out
        rows of the streams of MNIST and digits, where a third and three times of it cost 0.01 to 0.02 of accuracy.
    batch_size : int
        n: the rows of one gradient step.
    feature_map, random_state
        As in every method. Nothing is random in this one.

    Attributes
    ----------
    weights_ : (d + 1, C) array
        U, the averaged weights; the last row is the bias.
    numbers_ : (n_classes,) int64 array
        The number of each class of `classes_`: 0, 1, 2, ... in the order of the rows in which they first appeared.

    Notes
    -----
    **The code.** With C classes so far a number has b = max(1, ceil(log2 C)) bits, the lowest first. The b bits are
    repeated until r are full, and the last repetition is cut short: bit k of the code is bit k mod b of the number. So
    items of two classes differ in about r / b bits or more, and items of one predicted class in none. Where r is less
    than b, classes whose numbers agree in the lowest r bits share a code.

    **Late classes** take the next number and a column of zeros, and the average of the weights starts over, so that it
    does not lag. When C passes a power of two, b grows and all classes get new codes.

    **The value** of `decision_function` is the probability of the predicted class, with the sign of the bit.

    **Corrected labels** are learned in addition: a step that was taken for a wrong label is not taken back.

    **Cost** per row: O(d C). The state is V and U, and the mean.

    Examples
    --------
    All ten digits, queries held out: ten different codes, and a label-mAP that is above that of FCOH (0.83) at 32 bits.

    >>> import numpy as np, hashstream as hs
    >>> from hashstream.hashers.classifier import ClassifierHash
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> codes = ClassifierHash(32).fit(X[:1300], y[:1300]).transform(X)
    >>> len(np.unique(codes, axis=0))
    10
    >>> ours = hs.evaluate.retrieval(codes[1300:], y[1300:], codes[:1300], y[:1300])["mAP"]
    >>> codes = hs.FCOH(32, random_state=0).fit(X[:1300], y[:1300]).transform(X)
    >>> round(ours, 2), ours > hs.evaluate.retrieval(codes[1300:], y[1300:], codes[:1300], y[:1300])["mAP"]
    (0.86, True)

    Learn from the digits 0 to 4 only, and search among held out digits of these classes, then among the digits 5 to 9:
    there, a random projection, which has learned nothing, is better.

    >>> early = np.arange(len(X)) < 1000
    >>> learn, known, unknown = (y < 5) & early, (y < 5) & ~early, y >= 5
    >>> for hasher in hs.LSH(32, feature_map="center", random_state=0), ClassifierHash(32):
    ...     hasher = hasher.fit(X[learn], y[learn])
    ...     for rows in (known, unknown):
    ...         codes = hasher.transform(X[rows])
    ...         mAP = hs.evaluate.retrieval(codes, y[rows], codes, y[rows])["mAP"]
    ...         print(type(hasher).__name__, "known" if rows is known else "unknown", f"{mAP:.1f}")
    LSH known 0.7
    LSH unknown 0.6
    ClassifierHash known 0.8
    ClassifierHash unknown 0.3
    """

    reference = "Sablayrolles et al., ICASSP 2017"
    state_size = "2 d C"
    colour = "#117733"
    marker = "d"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "learning_rate": (100.0, 30.0, 10.0, 3.0, 1.0, 0.3),
        "batch_size": (1, 10, 100),
    }
    state_fields: ClassVar[dict[str, Field]] = {
        "mean_": Array("d"),
        "energy_": Real(low=0),
        "weights_": Array("d+1 K"),
        "iterate_": Array("d+1 K"),
        "averaged_": Whole(),
        "numbers_": Array("C", "int64", low=-1, below="K"),
    }

    def __init__(
        self,
        n_bits: int = 32,
        *,
        learning_rate: float = 10.0,
        batch_size: int = 10,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.feature_map = feature_map
        self.random_state = random_state

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("learning_rate", self.learning_rate)

    def check_state(self) -> None:
        numbered = np.sort(self.numbers_[self.numbers_ >= 0])
        if (self.n_seen_ and not len(numbered)) or not np.array_equal(
            numbered, np.arange(self.weights_.shape[1])
        ):
            raise ValueError("numbers_ must give each column of weights_ to one class")

    def _start(self, X: np.ndarray) -> None:
        d = X.shape[1]
        self.mean_ = np.zeros(d, X.dtype)
        self.energy_ = 0.0
        self.iterate_ = np.zeros((d + 1, 0), X.dtype)
        self.weights_ = np.zeros((d + 1, 0), X.dtype)
        self.averaged_ = 0
        self.numbers_ = np.zeros(0, np.int64)

    # ---- learning

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        dtype, n = X.dtype.type, len(X)
        classes = self._number(labels.ids[labels.rank])
        share = n / (self.n_seen_ + n)
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean_ = self.mean_ + dtype(share) * (X.mean(axis=0) - self.mean_)
            centred = X - self.mean_
            self.energy_ += share * (float(np.einsum("ij,ij->", centred, centred)) / n - self.energy_)
            F = self._standardised(X)
            error = softmax(F @ self.iterate_)
            error[np.arange(n), classes] -= 1
            self.iterate_ = self.iterate_ - dtype(self.learning_rate / n) * (F.T @ error)
            self.averaged_ += 1
            self.weights_ = self.weights_ + dtype(2 / (self.averaged_ + 1)) * (self.iterate_ - self.weights_)
            if not np.isfinite(self.energy_ + np.einsum("ij,ij->", self.iterate_, self.iterate_)):
                raise DivergenceError(
                    f"learning_rate={self.learning_rate!r} is too large for this data, or its squares are too large "
                    f"for {X.dtype}: the weights are no longer finite. The model is as before the call."
                )
        return 1

    def _number(self, ids: np.ndarray) -> np.ndarray:
        """The numbers of the rows' classes; classes seen for the first time take the next ones, row by row."""
        numbers = np.full(len(self.label_book_), -1, np.int64)
        numbers[: len(self.numbers_)] = self.numbers_
        before = count = self.weights_.shape[1]
        for c in ids:
            if numbers[c] < 0:
                numbers[c], count = count, count + 1
        if count > before:
            new = np.zeros((len(self.weights_), count - before), self.weights_.dtype)
            self.iterate_ = np.hstack([self.iterate_, new])
            self.weights_ = np.hstack([self.weights_, new])
            self.averaged_ = 0
        self.numbers_ = numbers
        return numbers[ids]

    def _standardised(self, X: np.ndarray) -> np.ndarray:
        """f(x) of every row, (n, d + 1)."""
        F = np.ones((len(X), X.shape[1] + 1), X.dtype)
        scale = 1 / np.sqrt(self.energy_) if self.energy_ > 0 else 1.0
        np.multiply(X - self.mean_, X.dtype.type(scale), out=F[:, :-1])
        return F

    # ---- encoding

    def _project(self, X: np.ndarray) -> np.ndarray:
        return self._bounded(X).values

    def _bounded(self, X: np.ndarray) -> Bounded:
        """Bits change where two classes are equally likely, not where the value is 0."""
        scores, rows, columns = bounded_product(self.weights_, self._standardised(X), off=4.0)
        gap = -np.diff(np.partition(-scores, 1, axis=1)[:, :2])[:, 0] if scores.shape[1] > 1 else np.inf
        tied = np.abs(gap) < 2 * rows * columns.max()
        values = self._values(scores)
        return Bounded(values, np.where(tied, np.inf, 0), np.ones(values.shape[1]))

    def _values(self, scores: np.ndarray) -> np.ndarray:
        probability = softmax(scores)
        predicted = probability.argmax(axis=1)
        width = max(1, (self.weights_.shape[1] - 1).bit_length())
        bits = predicted[:, None] >> (np.arange(self.n_bits_) % width) & 1
        return np.where(bits == 1, 1, -1).astype(scores.dtype) * probability.max(axis=1, keepdims=True)
