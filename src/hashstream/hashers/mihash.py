"""MIHash: Online Hashing with Mutual Information (Cakir, He, Bargal and Sclaroff, ICCV 2017, arXiv 1703.08919).

x is an instance, x_1 ... x_R the items of a reservoir, a uniform sample of the stream so far; r the number of bits,
K + 1 the number of bins of a histogram of distances, their centres c_l = l r / K and their width Delta = r / K.

    Phi(x) = sigma(A W^T x),  sigma(z) = 1 / (1 + e^-z)                         relaxed code, A its steepness (Eq. 9)
    h_j    = (r - (2 Phi(x) - 1)^T (2 Phi(x_j) - 1)) / 2                        relaxed Hamming distance (Eq. 8)
    P+_l   = mean over related j of max(0, 1 - |h_j - c_l| / Delta)             likewise P-, and P over all (Eq. 7)
    I      = H(P) - p+ H(P+) - p- H(P-),  p+ the share of related items         what distance tells of labels (Eq. 3)
    W     <- W + eta dI/dW,  the relaxed codes of the reservoir held constant   (Eq. 5, 6, 10, 11)

then x enters the reservoir, or not. `kernels/mihash.py` takes these steps: its `gradient` has these lines.

Where this follows the authors' code rather than the publication, or departs from both:

- dh_j/dPhi is taken as -Phi(x_j) / 2 with Phi in (0, 1); the distance as defined would give 1/2 - Phi(x_j). Kept, as
  all published figures were made with it.
- The authors begin with a reservoir of R / 10 samples drawn from the whole training set, which a stream does not have.
  Here the first R / 10 rows of the stream fill the reservoir, and learning begins with the row after them.
- With an empty reservoir no step is taken (the authors' code would divide by zero).
- The gate that decides when a table is rebuilt (the publication's section 3.3, theta) is no part of learning:
  see `mutual_information.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.base import MAX_BITS, OnlineHasher
from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.kernels.mihash import Piece, take_steps
from hashstream.hashers.labels import Labels
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.registry import register
from hashstream.hashers.state_fields import Array, Either, Field, Real, Whole
from hashstream.hashers.validation import check_count, check_number, settings_for

__all__ = ["MIHash"]

PIECE_ROWS = 1000
MAX_BINS = 4 * MAX_BITS
"""Four per bit of the longest code: finer histograms have more bins than a reservoir has items."""
STEEPNESS = 10.0
"""A of the publication, for features of unit length."""


@register
class MIHash(OnlineHasher):
    """Online hashing with mutual information: distances to a reservoir should tell which items share a label.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    reservoir_size : int
        R, the size of the reservoir, a uniform sample of the stream.
    n_bins : int
        K, at most 4,096: distances are counted in K + 1 overlapping bins.
    steepness : "auto" or float
        A, of the sigmoid that stands for the sign. The published 10 is meant for features of unit length; "auto" is
        10 / (root mean squared length of the first rows, those that warm up), so that their scale does not matter.
    learning_rate : float
        eta, the length of the first step.
    decay : float
        The t-th step has length eta / (1 + decay t).
    warm_up : "auto" or int
        Number of rows at the beginning of the stream that enter the reservoir without a step of their own, so that the
        first gradients rest on more than a handful of items. "auto" is ceil(R / 10).
    batch_size : int
        The method learns from one instance at a time, and nothing it learns depends on this. 1, n_t of the
        publication, reads the rows of a call as they come; more reads them in pieces of that many, the first of which
        warms up the feature map.
    init : (d, n_bits) array, optional
        W0; otherwise Gaussian with unit columns.
    feature_map, random_state
        As in every method.

    Attributes
    ----------
    projection_ : (d, n_bits) array
        W.
    reservoir_ : (m, d) array, m at most R
        Features of the reservoir's items, after the feature map.
    reservoir_labels_ : (m,) int64 array, or (m, n_classes) bool array
        Their labels, as positions in `classes_`; with label matrices, their rows.
    reservoir_keys_ : (m,) float64 array
        The uniform draw that let each item in. A full reservoir keeps those with the smallest draws.
    steepness_ : float
        A; 0 until the first step.
    steps_ : int
        t, steps taken.

    Notes
    -----
    **Labels.** Two items are related where their labels are equal; with y a 0/1 matrix, where they share a label. A
    class that appears late is unrelated to all until one of its items has entered the reservoir. An instance without
    a related item, or without an unrelated one, still takes its step: the gradient is then close to zero.

    **Cost** per instance: O(R d + R r + d r), where the equations as written cost O(R d r).

    **Features** should be centred and of about the same length (``feature_map="center"`` does both on the stream).

    **Sensitivity.** log2 P of an almost empty bin has no bound on its slope, so that steps of length 1 amplify
    rounding: in double precision a relative change of W0 by 1e-8 moves some percent of the bits after a hundred steps
    (with small reservoirs; fewer with large ones), and so does single precision.

    Examples
    --------
    >>> import hashstream as hs
    >>> from hashstream.hashers.mihash import MIHash
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = MIHash(n_bits=32, reservoir_size=200, feature_map="center", random_state=0)
    >>> codes = hasher.fit(X[:1500], y[:1500]).transform(X)
    >>> codes.shape, hasher.version_, hasher.reservoir_.shape
    ((1797, 4), 1480, (200, 64))
    >>> random = hs.LSH(n_bits=32, feature_map="center", random_state=0).fit(X[:1500]).transform(X)
    >>> for c in random, codes:
    ...     print(round(hs.evaluate.retrieval(c[1500:], y[1500:], c[:1500], y[:1500])["mAP"], 1))
    0.5
    0.8
    """

    reference = "Cakir et al., ICCV 2017"
    state_size = "d r + R (d + r)"
    colour = "#009e73"
    marker = "^"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "learning_rate": (10.0, 3.0, 1.0, 0.3, 0.1),
        "steepness": ("auto", 1.0, 10.0),
    }
    state_fields: ClassVar[dict[str, Field]] = {
        "projection_": Array("d r"),
        "reservoir_": Array("m d"),
        "reservoir_labels_": Either(Array("m", "int64", low=0, below="C"), Array("m C", "bool")),
        "reservoir_keys_": Array("m", "float64", low=0, below=1),
        "reservoir_projections_": Array("m r"),
        "steepness_": Real(low=0),
        "steps_": Whole(),
    }
    multilabel = True

    def __init__(
        self,
        n_bits: int = 32,
        *,
        reservoir_size: int = 1000,
        n_bins: int = 16,
        steepness: float | Literal["auto"] = "auto",
        learning_rate: float = 1.0,
        decay: float = 0.0,
        warm_up: int | Literal["auto"] = "auto",
        batch_size: int = 1,
        init: ArrayLike | None = None,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.reservoir_size = reservoir_size
        self.n_bins = n_bins
        self.steepness = steepness
        self.learning_rate = learning_rate
        self.decay = decay
        self.warm_up = warm_up
        self.batch_size = batch_size
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    @classmethod
    def from_paper(cls, dataset: str, n_bits: int, **changes: Any) -> Self:
        """The settings of the FCOH paper for "mnist", "cifar10" or "places205": its tuple (theta, R, A).

        A = 10 everywhere and R = 1000, but 5000 for "places205". What the paper does not print is taken from the
        authors' code: 16 bins (a later fork has 64), learning rate 1 without decay. theta = 0 belongs to the gate of a
        table, not to the hasher.
        """
        sizes = {"mnist": 1000, "cifar10": 1000, "places205": 5000}
        settings = {
            "reservoir_size": settings_for(dataset, sizes),
            "n_bins": 16,
            "steepness": 10.0,
            "learning_rate": 1.0,
            "decay": 0.0,
        }
        return cls(n_bits, **{**settings, **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("reservoir_size", self.reservoir_size, 1)
        check_count("n_bins", self.n_bins, 1, MAX_BINS)
        if self.warm_up != "auto":
            check_count("warm_up", self.warm_up, 0, int(self.reservoir_size))
        check_number("steepness", self.steepness, word="auto")
        check_number("learning_rate", self.learning_rate)
        check_number("decay", self.decay, zero=True)

    def _piece_rows(self) -> int:
        return int(self.batch_size) if self.batch_size > 1 else PIECE_ROWS

    @property
    def _warm_up(self) -> int:
        return -(-int(self.reservoir_size) // 10) if self.warm_up == "auto" else int(self.warm_up)

    # ---- state

    def check_state(self) -> None:
        matrix = self.reservoir_labels_.ndim == 2
        if (self.n_seen_ and not len(self.reservoir_)) or matrix != bool(self.label_book_.multilabel):
            raise ValueError(
                "reservoir_labels_ must hold the labels of at least one item, as label_book_ has them"
            )

    def _start(self, X: np.ndarray) -> None:
        d = X.shape[1]
        self.projection_ = initial_projection(self.init, self.rng_, d, self.n_bits, X.dtype)
        self.reservoir_ = np.empty((0, d), X.dtype)
        self.reservoir_labels_ = np.empty(0, np.int64)
        self.reservoir_keys_ = np.empty(0)
        self.reservoir_projections_ = np.empty((0, self.n_bits), X.dtype)
        self.steepness_ = 0.0
        self.steps_ = 0

    def _draw(self, n: int) -> np.ndarray:
        """The uniform draws of n rows."""
        return self.rng_.random(n)

    def _steepness(self, first: np.ndarray) -> float:
        """A, from the rows that have warmed up (all of them sit in the reservoir, which they do not fill)."""
        if self.steepness != "auto":
            return float(self.steepness)
        length = float(np.sqrt(np.einsum("ij,ij->", first, first) / len(first)))
        return STEEPNESS / length if length > 0 else STEEPNESS

    # ---- learning

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        y = labels.ids[labels.rank] if labels.indicator is None else labels.indicator
        known = self.reservoir_labels_ if len(self.reservoir_) else y[:0]
        everyone = np.concatenate([known, y])
        if labels.indicator is None:
            related = y[:, None] == everyone
        else:
            related = (y.astype(np.float32) @ everyone.T.astype(np.float32)) > 0

        waiting = max(0, self._warm_up - self.n_seen_)
        if not waiting and not len(self.reservoir_):
            waiting = 1  # nothing to compare with
        rates = np.zeros(len(X))
        t = self.steps_ + 1 + np.arange(max(0, len(X) - waiting))
        rates[waiting:] = self.learning_rate / (1 + self.decay * t)
        if not self.steepness_ and len(t):
            self.steepness_ = self._steepness(np.concatenate([self.reservoir_, X[:waiting]]))
        most = max(int(self.reservoir_size), len(self.reservoir_))  # a smaller size set later evicts no item
        slots, keys = admit(self.reservoir_keys_, self._draw(len(X)), most)
        piece = Piece(
            X, self.reservoir_, related, slots, rates, self.steepness_, int(self.n_bins), self.n_seen_
        )
        with np.errstate(over="ignore", invalid="ignore"):
            W, P = take_steps(piece, self.projection_, self.reservoir_projections_)
            if not np.isfinite(np.einsum("ij,ij->", W, W)):
                raise DivergenceError(
                    f"learning_rate={self.learning_rate!r} is too large for this data: W is no longer finite. "
                    "The model is as before the call. Take features of unit length, or a smaller learning_rate."
                )
        self.projection_, self.reservoir_projections_, self.reservoir_keys_ = W, P, keys
        self.reservoir_ = replace_items(self.reservoir_, X, slots)
        self.reservoir_labels_ = replace_items(known, y, slots)
        self.steps_ += len(t)
        return len(t)


# ---- the reservoir


def admit(keys: np.ndarray, draws: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The slot of the reservoir that each row of a piece takes, (n,) int64 with -1 for none, and the keys after it.

    Reservoir sampling by random sort: every row draws a uniform key, and the `most` smallest keys stay. While there is
    room a row takes the next place; then it takes the place of the largest key, if its own is smaller.
    """
    slots, size = np.full(len(draws), -1, np.int64), len(keys)
    after = np.empty(min(most, size + len(draws)))
    after[:size] = keys
    largest = -1  # its place, once the reservoir is full
    for i, key in enumerate(draws):
        if size < most:
            slots[i], after[size] = size, key
            size += 1
            continue
        if largest < 0:
            largest = int(after.argmax())
        if after[largest] > key:
            slots[i], after[largest] = largest, key
            largest = -1
    return slots, after


def replace_items(items: np.ndarray, rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """The items (m, ...) after rows (n, ...) have taken their slots in turn; a new array where any has."""
    size = max(len(items), int(slots.max(initial=-1)) + 1)
    if (slots < 0).all():
        return items
    after = np.empty((size, *rows.shape[1:]), rows.dtype)
    after[: len(items)] = items
    for i in np.flatnonzero(slots >= 0):
        after[slots[i]] = rows[i]
    return after
