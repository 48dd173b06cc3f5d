"""OKH: Online Hashing (Huang, Yang and Zheng, IJCAI 2013; TNNLS 2018, arXiv 1704.01897), online kernel hashing.

A pair x_i, x_j of the stream, after the kernel map, is similar (s = +1, one class) or not (s = -1); r is the number of
bits, W (d x r) the projection, h_i = sgn(W^T x_i) the code of x_i, D_h the Hamming distance of the pair's codes. For
each pair in turn:

1. Similarity loss. R = max(0, D_h - t_s) if s = +1, max(0, t_d - D_h) if s = -1. If R = 0 nothing moves (passive).
2. Zero-loss codes. g_i, g_j are h_i, h_j with p = ceil(R) bits corrected: of the bits that differ (s = +1) or agree
   (s = -1), those with the smallest min(|w_k^T x_i|, |w_k^T x_j|), in each of which the code of the smaller is flipped.
3. Prediction loss. l = h_i^T W^T x_i + h_j^T W^T x_j - g_i^T W^T x_i - g_j^T W^T x_j + sqrt(R).
4. Passive-aggressive step (aggressive). W <- W + min(C, l / |Q|_F^2) Q with Q = x_i (g_i - h_i)^T + x_j (g_j - h_j)^T:
   the smallest change for which the zero-loss codes win by the margin sqrt(R), and no longer than C allows.

Sources. The loss, the zero-loss codes and the step follow a summary of the publication: its full text was not available
to check them equation by equation. The learner's only public code is an obfuscated file, so nothing here could be
compared with a run of it either. The kernel map, the pairs and W0 are those of the published
wrapper around it (`gaussian_map.py`), read in its source.

The thresholds are a reading. The publication has one for similar pairs and one, a share of r, for dissimilar pairs; the
wrapper hands over a single number alpha. We take t_s = 0 and t_d = (1 - alpha) r: codes of one class shall be equal,
and alpha is what codes of two classes may share. t_s = `similar_slack` r is there to try another reading of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.gaussian_map import GaussianMap
from hashstream.hashers.generators import RandomState
from hashstream.hashers.kernels.okh import learn_pairs
from hashstream.hashers.pairs import PairHasher
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.registry import register
from hashstream.hashers.state_fields import Array, Field
from hashstream.hashers.validation import check_number, settings_for

__all__ = ["OKH"]


@register
class OKH(PairHasher):
    """Online kernel hashing: the smallest step that gives each pair of rows codes without loss.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    C : float
        The longest step. From about 0.01 the loss itself keeps the steps shorter. (The default of it and of `alpha`
        was the best on held-out rows of the MNIST and CIFAR-10 streams; the queries were not used.)
    alpha : float
        From 0 to 1: codes of two classes have to differ in (1 - alpha) r bits.
    similar_slack : float
        From 0 to 1: codes of one class may differ in `similar_slack` r bits.
    batch_size : int
        Rows learned at once. The steps do not depend on it, the method's own batch being a pair; but
        `fit` warms the feature map up on the first `batch_size` rows.
    init : (d, n_bits) array, optional
        W0, where d counts the features after the map, 301 by default; otherwise Gaussian with unit columns.
    feature_map : "okh", None, or as in every method
        "okh" is `GaussianMap()`, 300 anchors. It takes them from the first batch: give a first batch of some hundred
        rows, or ``GaussianMap(sample=rows)``.
    random_state
        As in every method.

    Attributes
    ----------
    projection_ : (d, n_bits) array
        W.
    waiting_, waiting_class_ : (1, d) array, int
        The row that waits for its partner, where the stream stopped between the two rows of a pair.

    Notes
    -----
    Labels are only compared with each other, so there is no limit on the number of classes, and a class may appear at
    any time. A stream of one class holds similar pairs only. `version_` grows by one per pair that moved W. Cost per
    pair: O(r d) after the map, and the map's 300 distances.

    Examples
    --------
    >>> from hashstream.hashers.okh import OKH
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = OKH(n_bits=32, random_state=0).fit(X, y)
    >>> hasher.transform(X).shape, hasher.projection_.shape
    ((1797, 4), (301, 32))
    """

    reference = "Huang, Yang and Zheng, IJCAI 2013 and TNNLS 2018"
    state_size = "300 (d + r)"
    colour = "#333333"
    marker = "*"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "C": (1.0, 0.1, 0.01, 0.001, 0.0001),
        "alpha": (0.1, 0.3, 0.5, 0.7),
    }
    state_fields: ClassVar[dict[str, Field]] = {"projection_": Array("d r")}

    def __init__(
        self,
        n_bits: int = 32,
        *,
        C: float = 0.1,
        alpha: float = 0.3,
        similar_slack: float = 0.0,
        batch_size: int = 2000,
        init: ArrayLike | None = None,
        feature_map: FeatureMapLike = "okh",
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.C = C
        self.alpha = alpha
        self.similar_slack = similar_slack
        self.batch_size = batch_size
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    @classmethod
    def from_paper(cls, dataset: str, n_bits: int, **changes: Any) -> Self:
        """The settings of the FCOH paper's comparison for "mnist", "cifar10" or "places205": (C, alpha).

        With the wrapper's kernel width, ``GaussianMap(width="published")``, under which those figures came about; our
        default, ``width="mean"``, gives better codes. The wrapper draws anchors from the whole training set before the
        stream begins; here they come from the first batch, unless a map with a `sample` is given.
        """
        settings: dict[str, dict[str, Any]] = {
            "mnist": {"C": 0.001, "alpha": 0.3},
            "cifar10": {"C": 0.001, "alpha": 0.3},
            "places205": {"C": 0.0001, "alpha": 0.7},
        }
        chosen = settings_for(dataset, settings)
        return cls(n_bits, **{"feature_map": GaussianMap(width="published"), **chosen, **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("C", self.C)
        for name in ("alpha", "similar_slack"):
            check_number(name, getattr(self, name), zero=True, most=1)

    def _start_pairs(self, X: np.ndarray) -> None:
        self.projection_ = initial_projection(self.init, self.rng_, X.shape[1], self.n_bits, X.dtype)

    def _learn_pairs(self, X: np.ndarray, similar: np.ndarray) -> int:
        allowed, wanted = self.similar_slack * self.n_bits, (1 - self.alpha) * self.n_bits
        W, moved = learn_pairs(self.projection_, X, similar, (allowed, wanted), float(self.C))
        if moved:
            self.projection_ = W
        return moved
