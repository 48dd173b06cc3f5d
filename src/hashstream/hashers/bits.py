"""`Bits`: packed codes as columns of single bits, for scikit-learn's distances and classifiers."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from hashstream import hamming
from hashstream.hashers.estimator import Transformer
from hashstream.hashers.validation import check_choice, check_count

__all__ = ["Bits", "Output", "as_output"]

Output = Literal["bits", "signs"]
OUTPUTS = get_args(Output)


def as_output(bits: np.ndarray, output: Output) -> np.ndarray:
    """Bits, 0 and 1, as they are, or as -1 and +1 in float32."""
    return bits if output == "bits" else np.where(bits, np.float32(1), np.float32(-1))


class Bits(Transformer):
    """Packed codes (n, width) uint8 -> one column per bit: the step of a scikit-learn pipeline after a hasher.

    A hasher packs eight bits into a byte, as tables and `hamming` take them. scikit-learn's distances would compare
    these bytes as numbers, without an error. `Bits` learns nothing: `transform` needs no `fit`, except for the names of
    columns, after `set_output(transform="pandas")`.

    Parameters
    ----------
    output : "bits" or "signs"
        "bits": 0 and 1, (n, n_bits) uint8, for `metric="hamming"`, `"jaccard"` and trees. "signs": -1 and +1,
        (n, n_bits) float32, for inner products, cosines and linear models.
    n_bits : int, optional
        Bits of a code. By default all of every byte. Only a length that is not a multiple of 8 makes a difference: its
        last byte is padded with zeros, which are columns, too. No two codes differ in them.

    Examples
    --------
    >>> import hashstream as hs
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hs.FCOH(n_bits=32, random_state=0)
    >>> pipeline = make_pipeline(hasher, hs.Bits(), KNeighborsClassifier(metric="hamming"))
    >>> pipeline.fit(X[:1500], y[:1500]).score(X[1500:], y[1500:]) > 0.8
    True
    >>> hs.Bits("signs", n_bits=4).transform(np.packbits([[1, 0, 0, 1]], axis=1))
    array([[ 1., -1., -1.,  1.]], dtype=float32)
    """

    def __init__(self, output: Output = "bits", *, n_bits: int | None = None) -> None:
        self.output = output
        self.n_bits = n_bits

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Note the width of codes, (n, width) uint8, which `transform` compares others with."""
        self.n_features_in_ = self._unpacked(X)[1]
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Bits of packed codes (n, width) uint8: (n, n_bits) uint8, or float32 for signs."""
        bits, width = self._unpacked(X)
        if width != self.__dict__.get("n_features_in_", width):
            raise ValueError(f"X has {width} bytes per code, but Bits was fitted with {self.n_features_in_}")
        found: np.ndarray = self._contained(as_output(bits, self.output), X)
        return found

    def _unpacked(self, X: ArrayLike) -> tuple[np.ndarray, int]:
        """The bits, 0 and 1, and the bytes per code; ValueError for parameters or codes that are none."""
        check_choice("output", self.output, OUTPUTS)
        if self.n_bits is not None:
            check_count("n_bits", self.n_bits, 1)
        codes = np.asarray(X)
        bits = hamming.unpack(codes, self.n_bits)
        if self.n_bits is not None and hamming.unpack(codes[:, -1:])[:, (self.n_bits - 1) % 8 + 1 :].any():
            raise ValueError(f"X has ones after bit {self.n_bits}: these codes have more than n_bits bits")
        return bits, codes.shape[1]

    @property
    def _n_features_out(self) -> int:
        return 8 * self.n_features_in_ if self.n_bits is None else int(self.n_bits)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        return tags
