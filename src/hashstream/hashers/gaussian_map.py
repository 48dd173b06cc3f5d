"""The Gaussian map of OKH: similarities to anchors, and a constant as the bias. Not centred, unlike `RBFAnchors`."""

from __future__ import annotations

import warnings
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.features import NAMES, FeatureMap, gaussian_bound
from hashstream.hashers.state_fields import Array, Field, Real
from hashstream.hashers.validation import check_count, check_number

__all__ = ["GaussianMap"]

VALIDATION_ROWS = 2000


class GaussianMap(FeatureMap):
    """x -> (exp(-|x - a_1|^2 / (2 width)), ..., exp(-|x - a_m|^2 / (2 width)), 1).

    As in the published wrapper of OKH, anchors are drawn from the first half of the warm-up, and the width comes from
    the distances of at most 2,000 rows of its second half to them, so that no distance of an anchor to itself counts.

    Parameters
    ----------
    n_anchors : int
        m; where the first half of the warm-up has fewer rows, all of them.
    width : "mean", "published" or float
        "mean": the mean squared distance. "published": its square, which is what the wrapper computes, since it takes
        the mean squared distance for a standard deviation. On unit-length rows all features are then near 0.8, codes
        hardly differ at first, and the map depends on the scale of the features.
    sample : (n, d) array, optional
        Rows to warm up on, instead of the first batch. (The wrapper takes the whole training set.)

    Attributes
    ----------
    anchors_ : (m, d) array
        The anchors, relative to `origin_`, the mean of the warm-up's second half: far from the origin the expansion of
        the squared distance would cancel.
    mean_squared_ : float
        The mean squared distance; the wrapper's sigma.
    width_ : float

    Examples
    --------
    >>> import numpy as np
    >>> kernel = GaussianMap.at(np.array([[0.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 3.0]]))
    >>> kernel.mean_squared_
    4.0
    >>> kernel.transform(np.array([[0.0, 0.0]])).round(3)
    array([[1.   , 0.607, 1.   ]])
    """

    state_fields: ClassVar[dict[str, Field]] = {
        "origin_": Array("f"),
        "anchors_": Array("m f"),
        "mean_squared_": Real(low=0),
        "width_": Real(above=0),
    }

    def __init__(
        self,
        n_anchors: int = 300,
        *,
        width: float | Literal["mean", "published"] = "mean",
        sample: ArrayLike | None = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.width = width
        self.sample = sample

    @classmethod
    def at(
        cls, anchors: np.ndarray, rows: np.ndarray, width: float | Literal["mean", "published"] = "mean"
    ) -> Self:
        """A fitted map: with these anchors (m, d), and a width from the distances of `rows` (n, d) to them."""
        kernel = cls(len(anchors), width=width)
        kernel.check_parameters()
        kernel._place(anchors, rows)
        return kernel

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("n_anchors", self.n_anchors, 1)
        if self.width != "published":
            check_number("width", self.width, word="mean")

    def _fit(self, X: np.ndarray, rng: np.random.Generator) -> None:
        self.check_parameters()
        n_anchors = int(self.n_anchors)
        half = max(1, len(X) // 2)
        if half < n_anchors:
            warnings.warn(
                f"only {half} of {n_anchors} anchors: the first half of the warm-up has no more rows",
                UserWarning,
                stacklevel=3,
            )
        anchors = np.sort(rng.choice(half, size=min(n_anchors, half), replace=False))
        others = X[half:] if len(X) > half else X
        rows = np.sort(rng.choice(len(others), size=min(VALIDATION_ROWS, len(others)), replace=False))
        self._place(X[anchors], others[rows])

    def _place(self, anchors: np.ndarray, rows: np.ndarray) -> None:
        self.origin_ = rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        self.anchors_ = anchors - self.origin_
        self.mean_squared_ = float(self._squared_distances(rows).mean(dtype=np.float64))
        if self.width == "mean":
            self.width_ = self.mean_squared_ or 1.0
        elif self.width == "published":
            self.width_ = self.mean_squared_ * self.mean_squared_ or 1.0
        else:
            self.width_ = float(self.width)

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        X = X - self.origin_
        squared: np.ndarray = X @ self.anchors_.T
        squared *= -2
        squared += np.einsum("ij,ij->i", X, X)[:, None]
        squared += np.einsum("ij,ij->i", self.anchors_, self.anchors_)
        return np.maximum(squared, 0, out=squared)

    def transform(self, X: np.ndarray) -> np.ndarray:
        features = np.ones((len(X), len(self.anchors_) + 1), X.dtype)
        squared = self._squared_distances(X)
        squared /= -2 * self.width_
        np.exp(squared, out=features[:, :-1])
        return features

    def bounded(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        return self.transform(X), gaussian_bound(self.anchors_, self.width_)


NAMES["okh"] = GaussianMap
