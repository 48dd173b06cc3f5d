"""Random projection (locality-sensitive hashing): the floor that every learned method must clear."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.base import OnlineHasher
from hashstream.hashers.encoder import Encoder
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.labels import LabelBook, Labels
from hashstream.hashers.projections import initial_projection
from hashstream.hashers.registry import register
from hashstream.hashers.state_fields import Array, Field

__all__ = ["LSH"]


@register
class LSH(OnlineHasher):
    """Codes from the signs of random projections; nothing is learned and labels are ignored.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    init : (d, n_bits) array, optional
        The projection, instead of a random one.
    batch_size, feature_map, random_state
        As in every method.

    References
    ----------
    Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

    Examples
    --------
    >>> import numpy as np, hashstream as hs
    >>> X = np.random.default_rng(0).standard_normal((100, 16))
    >>> hs.LSH(n_bits=12, random_state=0).fit(X).transform(X).shape
    (100, 2)
    """

    reference = "Charikar, STOC 2002"
    needs = "nothing"
    needs_labels = False
    multilabel = True
    corrects_labels = True
    colour = "#8a8a8a"
    state_fields: ClassVar[dict[str, Field]] = {"projection_": Array("d r")}

    def __init__(
        self,
        n_bits: int = 32,
        *,
        batch_size: int = 100,
        init: ArrayLike | None = None,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.batch_size = batch_size
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    def _start(self, X: np.ndarray) -> None:
        self.projection_ = initial_projection(self.init, self.rng_, X.shape[1], self.n_bits, X.dtype)

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        return 0

    @classmethod
    def of(cls, encoder: Encoder) -> LSH:
        """The functions of an encoder whose values are X @ projection, as a hasher that cannot learn."""
        held = cls(n_bits=encoder.n_bits)
        held.n_bits_, held.version_, held.n_seen_ = encoder.n_bits, encoder.version, 1
        held.n_features_in_, held.dtype_ = encoder.n_features, encoder.dtype
        held.feature_map_, held.label_book_ = encoder.feature_map, LabelBook()
        assert encoder.projection is not None
        held.projection_ = encoder.projection
        return held
