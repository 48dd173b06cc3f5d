"""HCOH: Supervised Online Hashing via Hadamard Codebook Learning (Lin, Ji, Liu and Wu, ACM Multimedia 2018).

In the paper's symbols: every class has a row of a Hadamard matrix as its codeword, b in {-1, +1}^r. A batch of n_t
samples X (d x n_t) with the codewords B (r x n_t) of their classes moves W (d x r) once:

    F  = tanh(W^T X)                                          (sgn, relaxed)
    W <- W - eta X ((F - B) o (1 - F o F))^T / n_t            (the gradient of |F - B|_F^2 / 2)

The codebook (`codebooks.py`): the order of the Hadamard matrix is the smallest power of two that is at least r and the
number of classes; its rows are permuted at random. Where the order is not r, rows are reduced to r bits by the signs of
a random Gaussian projection.

Additions to the paper:

- A sample counts as x / |x|. The published experiments are on rows of unit length, where that changes nothing; longer
  rows would saturate the tanh, and the code of x does not depend on its length.
- Classes need not be known beforehand: each takes its codeword when it is first seen, and a codebook that is used up
  grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hashstream.hashers.codebooks import RowOrder
from hashstream.hashers.codeword_hasher import CodewordHasher, check_step, piece_rows, unit_rows
from hashstream.hashers.features import FeatureMapLike
from hashstream.hashers.generators import RandomState
from hashstream.hashers.kernels.codewords import take_steps
from hashstream.hashers.labels import Labels
from hashstream.hashers.registry import register
from hashstream.hashers.state_fields import Array, Field
from hashstream.hashers.validation import check_flag, check_number, settings_for

__all__ = ["HCOH"]


@register
class HCOH(CodewordHasher):
    """Hadamard codebook online hashing: each sample pulls its projections towards the codeword of its class.

    Parameters
    ----------
    n_bits : int
        r, the length of a code.
    learning_rate : float
        eta.
    batch_size : int
        n_t, the samples of one step. With 1, the paper's, W does not depend on how the stream is divided into calls.
    n_classes : int
        Number of classes to expect; the Hadamard matrix has at least as many rows. There may be more (see Notes).
    rows : "random", "distinct" or "ordered"
        In which order classes take the rows. "random" is the paper's; "distinct" puts rows first that tell all bits
        apart, so that no two bits learn the same while classes are few; "ordered" is the matrix as it is.
    unit_length : bool
        Learn from x / |x|. False takes rows as they come.
    codebook : (m, n_bits) array of -1 and 1, optional
        The codewords, instead of Hadamard ones: the first class of the stream takes row 0, the second row 1, ...
    init : (d, n_bits) array, optional
        W0; otherwise Gaussian with unit columns.
    feature_map, random_state
        As in every method. Centred features are better: ``feature_map="center"``.

    Attributes
    ----------
    projection_ : (d, n_bits) array
        W.
    codebook_ : (m, n_bits) int8 array
        The codewords, those without a class yet included.
    class_rows_ : (n_classes,) int64 array
        Which row of `codebook_` each of `classes_` has; `codeword` looks them up.

    Notes
    -----
    When there are more classes than codewords, the complements of the codewords follow (where r is the order, twice as
    many codewords as bits, any two of which differ in at least half of the bits), then random ones. Earlier classes
    keep theirs.

    **Cost** per sample: O(d r). The state is W and one byte per bit of the codebook; it does not grow with the samples.

    Examples
    --------
    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hs.HCOH(n_bits=32, feature_map="center", random_state=0)
    >>> for start in range(0, 1500, 100):
    ...     hasher = hasher.partial_fit(X[start : start + 100], y[start : start + 100])
    >>> hasher.transform(X).shape, hasher.version_, hasher.codebook_.shape
    ((1797, 4), 1500, (32, 32))
    """

    reference = "Lin et al., ACM Multimedia 2018"
    colour = "#d55e00"
    marker = "D"
    tuning_grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "learning_rate": (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01),
        "batch_size": (1, 10),
    }
    state_fields: ClassVar[dict[str, Field]] = {"projection_": Array("d r")}

    def __init__(
        self,
        n_bits: int = 32,
        *,
        learning_rate: float = 0.2,
        batch_size: int = 1,
        n_classes: int = 16,
        rows: RowOrder = "random",
        unit_length: bool = True,
        codebook: ArrayLike | None = None,
        init: ArrayLike | None = None,
        feature_map: FeatureMapLike = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_classes = n_classes
        self.rows = rows
        self.unit_length = unit_length
        self.codebook = codebook
        self.init = init
        self.feature_map = feature_map
        self.random_state = random_state

    @classmethod
    def from_paper(cls, dataset: str, n_bits: int, **changes: Any) -> Self:
        """The settings of the FCOH paper for "mnist", "cifar10" or "places205": eta, n_t = 1, and the classes.

        The orders of the Hadamard matrix that follow from the classes are those of the authors' scripts: 16, 16, 32,
        64, 64, 128 for 8 to 128 bits with 10 classes, and 256 with 205.
        """
        settings: dict[str, dict[str, Any]] = {
            "mnist": {"learning_rate": 0.2, "n_classes": 10},
            "cifar10": {"learning_rate": 0.2, "n_classes": 10},
            "places205": {"learning_rate": 0.1, "n_classes": 205},
        }
        return cls(n_bits, **{**settings_for(dataset, settings), **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("learning_rate", self.learning_rate)
        check_flag("unit_length", self.unit_length)

    def _piece_rows(self) -> int:
        return piece_rows(self.batch_size)

    def _learn(self, X: np.ndarray, labels: Labels) -> int:
        rows = self._take_codewords(labels)
        W = self.projection_.copy()
        X = unit_rows(X) if self.unit_length else X
        take_steps("hcoh", X, rows, self.codebook_, W, self.learning_rate, self.batch_size)
        check_step(W, self.learning_rate)
        self.projection_ = W
        return -(-len(X) // self.batch_size)
