"""AdaptHash: Adaptive Hashing for Fast Similarity Search (Cakir and Sclaroff, ICCV 2015).

In the paper's symbols: a pair x_i, x_j of the stream is similar (s = +1, one class) or not (s = -1); r is the number
of bits, W (d x r) the projection, D_h the Hamming distance of the two codes. For each pair in turn:

    v = W^T x_i,  u = W^T x_j,  D_h = |{k : (v_k > 0) != (u_k > 0)}|
    l = max(0, D_h - (1 - alpha) r)   if s = +1                                 (Eq. 5, the hinge-like loss)
        max(0, alpha r - D_h)         if s = -1

If l = 0 nothing moves. Otherwise the ceil(l) bits with the largest max(|v_k|, |u_k|) are corrected, among those that
differ (s = +1) or agree (s = -1). With the sigmoid f(z) = 2 / (1 + e^-z) - 1 in place of the sign, the objective of
the pair is (f(v)^T f(u) - r s)^2, and lambda/4 |W^T W - I|_F^2 keeps the hash functions apart (Eq. 7):

    g_k = 2 (f(v)^T f(u) - r s) (2 f(u_k) h(v_k) x_i + 2 f(v_k) h(u_k) x_j)     for the corrected bits, 0 for others
    W  <- W - eta g - lambda W (W^T W - I), then every column is scaled to unit length

h(z) = e^-z / (1 + e^-z)^2 is half of f'(z); the factor 2 is written out, as in the authors' published code, which also
leaves the last term unscaled by eta. Both are kept, so that eta and lambda mean what they mean there.

Nothing here departs from that code in a way that shows in the result. `kernels/adapthash.py` takes these steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.kernels.adapthash import PAIRS, Block, is_wide, learn_pairs
from hashstream.hashers.pairs import PairHasher
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.registry import register
from hashstream.hashers.state_fields import Array, Field, Whole
from hashstream.hashers.validation import check_number, settings_for

__all__ = ["AdaptHash"]


@register
class AdaptHash(PairHasher):
    """Adaptive hashing: one step per pair of rows whose codes are too far apart, or too near.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    alpha : float
        From 0 to 1: codes of one class may differ in (1 - alpha) r bits, codes of two classes must differ in alpha r.
    learning_rate : float
        eta, the length of a step.
    orthogonality : float
        lambda, the weight of the term that keeps the hash functions apart.
    batch_size : int
        Rows handed to the inner loop at once. The result does not depend on it: the method's own batch is a pair.
    init : (d, n_bits) array, optional
        W0; otherwise Gaussian with unit columns.
    feature_map, random_state
        As in every method.

    Attributes
    ----------
    projection_ : (d, n_bits) array
        W.
    waiting_, waiting_class_ : (1, d) array, int
        The row that waits for its partner, where the stream stopped between the two rows of a pair.
    base_, gram_, mixing_, samples_, filled_
        Where d is large, the form in which the compiled loop keeps W between calls (`Block` in `kernels/adapthash.py`).

    Notes
    -----
    Labels are only compared with each other, so there is no limit on the number of classes, and a class may appear at
    any time. A stream of one class holds similar pairs only. `version_` grows by one per pair that moved W.

    Examples
    --------
    >>> from hashstream.hashers.adapthash import AdaptHash
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X - X.mean(axis=0)
    >>> hasher = AdaptHash(n_bits=32, random_state=0).fit(X / 30, y)
    >>> hasher.transform(X).shape, hasher.projection_.shape
    ((1797, 4), (64, 32))
    """

    reference = "Cakir and Sclaroff, ICCV 2015"
    state_size = "2 d r + 64 d + 2 r^2 + 64 r"
    colour = "#3aa0dc"
    marker = "P"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "alpha": (0.7, 0.8, 0.9),
        "learning_rate": (0.2, 0.1, 0.05, 0.01),
        "orthogonality": (0.1, 0.01, 0.001),
    }
    state_fields: ClassVar[dict[str, Field]] = {
        "projection_": Array("d r"),
        "base_": Array("d r", optional=True),
        "gram_": Array("r r", optional=True),
        "mixing_": Array(f"r+{2 * PAIRS} r", optional=True),
        "samples_": Array(f"{2 * PAIRS} d", optional=True),
        "filled_": Whole(below=2 * PAIRS + 1, optional=True),
    }

    def __init__(
        self,
        n_bits: int = 32,
        *,
        alpha: float = 0.9,
        learning_rate: float = 0.1,
        orthogonality: float = 0.01,
        batch_size: int = 1000,
        init: ArrayLike | None = None,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.orthogonality = orthogonality
        self.batch_size = batch_size
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    @classmethod
    def from_paper(cls, dataset: str, n_bits: int, **changes: Any) -> Self:
        """The settings of the FCOH paper's comparison for "mnist", "cifar10" or "places205": (alpha, lambda, eta)."""
        settings: dict[str, dict[str, Any]] = {
            "mnist": {"alpha": 0.8, "orthogonality": 0.01, "learning_rate": 0.2},
            "cifar10": {"alpha": 0.9, "orthogonality": 0.01, "learning_rate": 0.1},
            "places205": {"alpha": 0.9, "orthogonality": 0.01, "learning_rate": 0.1},
        }
        return cls(n_bits, **{**settings_for(dataset, settings), **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("alpha", self.alpha, zero=True, most=1)
        check_number("learning_rate", self.learning_rate)
        check_number("orthogonality", self.orthogonality, zero=True)

    def check_state(self) -> None:
        block = [name for name in ("base_", "gram_", "mixing_", "samples_", "filled_") if hasattr(self, name)]
        if len(block) != 5 * is_wide(self.projection_):
            raise ValueError(
                "base_, gram_, mixing_, samples_ and filled_ must all be there for a wide projection_, "
                "and none of them for another"
            )
        if block and self.filled_ % 2:
            raise ValueError(
                f"filled_ counts the samples of whole pairs: it must be even, not {self.filled_}"
            )

    def _start_pairs(self, X: np.ndarray) -> None:
        W = initial_projection(self.init, self.rng_, X.shape[1], self.n_bits, X.dtype)
        self._keep(W, Block.of(W) if is_wide(W) else None)

    def _learn_pairs(self, X: np.ndarray, similar: np.ndarray) -> int:
        # As the published code computes them: 1 - 0.9 is not 0.1, and ceil(l) sees the difference.
        tolerances = (1 - self.alpha) * self.n_bits, self.alpha * self.n_bits
        W, block, moved = learn_pairs(
            self.projection_,
            self._block() if is_wide(self.projection_) else None,
            X,
            similar,
            tolerances,
            float(self.learning_rate),
            float(self.orthogonality),
        )
        if moved:
            self._keep(W, block)
            lengths = np.einsum("ij,ij->j", self.projection_, self.projection_)
            if not (np.abs(lengths - 1) < 0.1).all():
                raise DivergenceError(
                    f"learning_rate={self.learning_rate!r} or orthogonality={self.orthogonality!r} is too large for "
                    "this data: a hash function lost its direction. The model is as before the call."
                )
        return moved

    def _block(self) -> Block:
        return Block(self.base_, self.gram_, self.mixing_, self.samples_, self.filled_)

    def _keep(self, W: np.ndarray, block: Block | None) -> None:
        self.projection_ = W
        if block is not None:
            self.base_, self.gram_, self.mixing_ = block.base, block.gram, block.mixing
            self.samples_, self.filled_ = block.samples, block.filled
