"""FCOH under readings of the paper's equations that `FCOH` itself does not offer, for the `readings` experiment."""

from __future__ import annotations

from typing import Any

import numpy as np

from hashstream.hashers import FCOH
from hashstream.hashers.features import FeatureMap
from hashstream.hashers.generators import RandomState

__all__ = ["DIVISORS", "ReadFCOH"]

DIVISORS = {
    "none": "as printed",
    "class": "terms / n_c",
    "batch": "terms / n_t",
    "bits": "terms / r",
    "inner": "terms / r²",
    "pairs": "means over pairs",
}
"""gradient_scale -> name. The first four are those of `FCOH`; "inner" divides the inner products by r before they are
compared with 1, "pairs" each term by the number of its own pairs."""


class WithOne(FeatureMap):
    """x -> (x, 1)."""

    def __init__(self) -> None:
        self.sample = None

    def _fit(self, X: np.ndarray, rng: np.random.Generator) -> None:
        pass

    def transform(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([X, np.ones(len(X), X.dtype)])

    def bounded(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        return self.transform(X), 0.0


class ReadFCOH(FCOH):
    """FCOH with the paper's steps, and three choices that the paper leaves open.

    Parameters
    ----------
    gradient_scale : one of DIVISORS
        Divisor of the inner-product terms: n_c^2 and n_c (n_t - n_c) for "pairs", r^2 for "inner".
    bias : bool
        Append a column of ones to the features.
    gaussian : bool
        Begin with independent standard Gaussian entries, instead of the same directions with unit length.
    n_bits, learning_rate, lambda1, lambda2, batch_size, random_state
        As in `FCOH`; numbers only.
    """

    passes = 1
    horizon = 1
    init = None

    def __init__(
        self,
        n_bits: int = 32,
        *,
        learning_rate: float = 0.1,
        lambda1: float = 0.1,
        lambda2: float = 0.01,
        batch_size: int = 100,
        gradient_scale: Any = "none",
        bias: bool = False,
        gaussian: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.learning_rate = learning_rate
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.batch_size = batch_size
        self.gradient_scale = gradient_scale
        self.bias = bias
        self.gaussian = gaussian
        self.random_state = random_state
        self.feature_map = WithOne() if bias else None

    def check_parameters(self) -> None:
        if self.gradient_scale not in DIVISORS:
            raise ValueError(
                f"gradient_scale must be one of {', '.join(DIVISORS)}, not {self.gradient_scale!r}"
            )
        scale, self.gradient_scale = self.gradient_scale, "none"
        try:
            super().check_parameters()
        finally:
            self.gradient_scale = scale

    def _start(self, X: np.ndarray) -> None:
        super()._start(X)
        if self.gaussian:  # the length of a Gaussian vector is independent of its direction
            d, r = self.iterate_.shape
            lengths = np.sqrt(self.rng_.chisquare(d, r)).astype(X.dtype)
            self.iterate_ = self.projection_ = self.iterate_ * lengths

    def _pair_weights(
        self, own: np.ndarray, other: np.ndarray, n_c: np.ndarray, n_t: int
    ) -> tuple[np.ndarray, np.ndarray]:
        similar = np.full(np.shape(own), float(self.lambda1))
        dissimilar = np.full(np.shape(own), float(self.lambda2))
        r, scale = self.n_bits, str(self.gradient_scale)
        if scale == "pairs":
            return similar / (n_c * n_c), dissimilar / (n_c * np.maximum(n_t - n_c, 1))
        divisor: Any = {"none": 1, "class": n_c, "batch": n_t, "bits": r, "inner": r * r}[scale]
        return similar / divisor, dissimilar / divisor
