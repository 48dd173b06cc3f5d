"""Feature maps, applied before the projection of any hasher: its `feature_map=`.

A map is fitted once, on a warm-up, and frozen after that: the hasher's first batch, or a `sample` that is given to
the map. A map that kept changing would silently change the codes of everything that is stored.

Give a good warm-up: some hundred rows that look like the stream. A first `partial_fit` with a few rows warms up on
those few rows, and warns.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from copy import copy
from math import sqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.estimator import Estimator
from hashstream.hashers.state_fields import Array, Field, Real
from hashstream.hashers.validation import check_count, check_number, check_numbers

__all__ = [
    "CenterUnit",
    "FeatureMap",
    "FeatureMapLike",
    "RBFAnchors",
    "as_sample",
    "check_feature_map",
    "same_map",
    "warmed_up",
]

FEW_ROWS = 20
UNKNOWN_MAP = 1024.0
"""Units of rounding that the features of an unknown map may be off."""


class FeatureMap(Estimator, ABC):
    """A map (n, d) -> (n, d') that is fitted on a warm-up and frozen.

    What it has fitted lives in attributes that end with an underscore. `state_fields` declares them, as in a method;
    f is the number of features that come in.
    """

    state_fields: ClassVar[dict[str, Field]] = {}
    sample: ArrayLike | None

    def warm_up(self, X: np.ndarray, rng: np.random.Generator) -> Self:
        """Fit on the given `sample` or else on X (n, d), a hasher's first batch; `rng` is the hasher's."""
        if self.sample is not None:
            X = as_sample(self.sample, X.shape[1], X.dtype)
        elif len(X) < FEW_ROWS:
            warnings.warn(
                f"{type(self).__name__} is warmed up on {len(X)} row{'s' * (len(X) > 1)} and then frozen: start "
                "with a larger first batch, or give it a sample=",
                UserWarning,
                stacklevel=2,
            )
        self._fit(X, rng)
        return self

    def check_parameters(self) -> None:
        """Raise ValueError for a parameter that is out of range (call `super()` first)."""
        check_numbers("sample", self.sample)

    def check_state(self) -> None:
        """Raise ValueError, naming the entry, for a loaded state that fits `state_fields` and is still inconsistent."""

    @abstractmethod
    def _fit(self, X: np.ndarray, rng: np.random.Generator) -> None: ...

    @abstractmethod
    def transform(self, X: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, d') in the dtype of X."""

    def bounded(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """`transform`, and by how much each row of it may be off, (n,) or one number: in units of rounding, relative to
        the row's length."""
        return self.transform(X), UNKNOWN_MAP


def as_sample(sample: ArrayLike, d: int, dtype: Any) -> np.ndarray:
    """Rows that a user gave to fit something on, as (m, d); ValueError where they are not."""
    rows = np.array(sample, dtype=dtype)
    if rows.ndim != 2 or rows.shape[1] != d or not len(rows):
        raise ValueError(f"sample must be a matrix with {d} columns, not of shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("sample contains NaN or infinity")
    return rows


FeatureMapLike = FeatureMap | Literal["center", "rbf", "okh"] | None
"""Values of `feature_map=`: "center" is `CenterUnit()`, "rbf" `RBFAnchors()`, "okh" `GaussianMap()`."""


class CenterUnit(FeatureMap):
    """x -> (x - mean) / |x - mean|: the preprocessing of the paper, with the mean of the warm-up.

    Rows that equal the mean become zero.

    Parameters
    ----------
    sample : (m, d) array, optional
        Rows to warm up on, instead of the first batch.

    Examples
    --------
    >>> import numpy as np
    >>> map = CenterUnit(sample=[[0.0, 0.0], [2.0, 0.0]])
    >>> map.warm_up(np.zeros((1, 2)), np.random.default_rng(0)).transform(np.array([[1.0, 3.0], [4.0, 4.0]]))
    array([[0. , 1. ],
           [0.6, 0.8]])
    """

    state_fields: ClassVar[dict[str, Field]] = {"mean_": Array("f")}

    def __init__(self, sample: ArrayLike | None = None) -> None:
        self.sample = sample

    def _fit(self, X: np.ndarray, rng: np.random.Generator) -> None:
        self.mean_ = X.mean(axis=0, dtype=np.float64).astype(X.dtype)

    def transform(self, X: np.ndarray) -> np.ndarray:
        return _unit(X - self.mean_)[0]

    def bounded(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        return self.transform(X), 8 + 4 * sqrt(X.shape[1])  # 8 times what was measured, or more


class RBFAnchors(FeatureMap):
    """x -> exp(-|x - a_j|^2 / (2 width)) for anchors a_1 ... a_m, then centred and of unit length.

    Parameters
    ----------
    n_anchors : int
        m; anchors are rows of the warm-up, drawn without replacement (all of them where there are fewer).
    width : float or "auto"
        "auto" is a sixth of the mean squared distance between the warm-up and the anchors, which gives the 17.75
        that was published for MNIST pixels in [0, 1].
    sample : (n, d) array, optional
        Rows to warm up on, instead of the first batch.
    """

    state_fields: ClassVar[dict[str, Field]] = {
        "origin_": Array("f"),
        "anchors_": Array("m f"),
        "width_": Real(above=0),
        "mean_": Array("m"),
    }

    def __init__(
        self,
        n_anchors: int = 300,
        *,
        width: float | Literal["auto"] = "auto",
        sample: ArrayLike | None = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.width = width
        self.sample = sample

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("n_anchors", self.n_anchors, 1)
        check_number("width", self.width, word="auto")

    def _fit(self, X: np.ndarray, rng: np.random.Generator) -> None:
        self.check_parameters()
        n_anchors = int(self.n_anchors)
        if len(X) < n_anchors:
            warnings.warn(
                f"only {len(X)} of {n_anchors} anchors: the warm-up has no more rows",
                UserWarning,
                stacklevel=3,
            )
        rows = np.sort(rng.choice(len(X), size=min(n_anchors, len(X)), replace=False))
        # Distances are taken about the warm-up's mean: far from the origin the expansion below would cancel.
        self.origin_ = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        self.anchors_ = X[rows] - self.origin_
        squared = self._squared_distances(X)
        mean = float(squared.mean(dtype=np.float64))
        self.width_ = float(self.width) if self.width != "auto" else (mean / 6 or 1.0)
        self.mean_ = np.exp(squared / (-2 * self.width_)).mean(axis=0, dtype=np.float64).astype(X.dtype)

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        X = X - self.origin_
        inner = X @ self.anchors_.T
        squared: np.ndarray = (
            (X * X).sum(axis=1)[:, None] + (self.anchors_ * self.anchors_).sum(axis=1) - 2 * inner
        )
        return np.maximum(squared, 0, out=squared)

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self.bounded(X)[0]

    def bounded(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        features = np.exp(self._squared_distances(X) / (-2 * self.width_))
        off = gaussian_bound(self.anchors_, self.width_) * sqrt(len(self.anchors_))
        centred, lengths = _unit(features - self.mean_)
        return centred, off / np.where(lengths > 0, lengths, np.inf)


NAMES: dict[str, type[FeatureMap]] = {"center": CenterUnit, "rbf": RBFAnchors}


def check_feature_map(feature_map: Any) -> None:
    """Raise ValueError unless it is None, the name of a map, or a FeatureMap."""
    named = isinstance(feature_map, str) and feature_map in NAMES
    if not (feature_map is None or named or isinstance(feature_map, FeatureMap)):
        names = ", ".join(map(repr, NAMES))
        raise ValueError(f"feature_map must be None, {names} or a FeatureMap, not {feature_map!r}")
    if isinstance(feature_map, FeatureMap):
        feature_map.check_parameters()


def warmed_up(feature_map: FeatureMapLike, X: np.ndarray, rng: np.random.Generator) -> FeatureMap | None:
    """A copy of the map for one hasher, fitted on its sample or else on X. The sample itself is not kept."""
    if feature_map is None:
        return None
    own = NAMES[feature_map]() if isinstance(feature_map, str) else copy(feature_map)
    own.warm_up(X, rng)
    own.sample = None
    return own


def gaussian_bound(anchors: np.ndarray, width: float) -> float:
    """Units of rounding that exp(-|x - a|^2 / (2 width)) may be off, for anchors (m, d) about the origin.

    |x - a|^2 is a difference of numbers as large as |x|^2 + |a|^2. Where |x| is much larger than all |a|, the result is
    0; where it is not, |x| is about |a|. Against float64, on data of 4 to 2,048 features,
    float32 was off by at most a fifth of this, and mostly by less than a twentieth.
    """
    largest = float(np.einsum("ij,ij->i", anchors, anchors).max(initial=0))
    return (4 + sqrt(anchors.shape[1])) * (4 + largest / width)


def _unit(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X, a fresh array, with its rows scaled to unit length in place, and their lengths; zero rows stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X))
    X /= np.where(lengths > 0, lengths, 1)[:, None].astype(X.dtype)
    return X, lengths


def same_map(a: Any, b: Any) -> bool:
    """True where two fitted feature maps, or parts of them, are equal."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_map(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_map, a, b))
    return same_map(vars(a), vars(b)) if hasattr(a, "__dict__") else bool(a == b)
