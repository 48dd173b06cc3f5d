"""The hash functions of one version of a model, frozen: what turns rows into codes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashstream import hamming
from hashstream.hashers.features import FeatureMap
from hashstream.hashers.threads import on_one_thread
from hashstream.hashers.validation import check_finite

__all__ = ["Encoder", "block_rows"]

BLOCK_BYTES = 1 << 20  # of X: a block that is still in the cache when it has been checked
BLOCK_ROWS = 256  # and no fewer rows, where rows are long, or the matrix product suffers

let_others_run = getattr(os, "sched_yield", lambda: None)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Hash functions that encode and never learn; made by `OnlineHasher.encoder`, which shares its arrays.

    It takes rows that were checked: X is (n, d), float32 or float64, with the model's number of features.

    version : `version_` of the model. n_bits : r. n_features : d. dtype : "float32" or "float64".
    feature_map : applied to rows first, or None.
    projection : W, (d, r) after the feature map, where the method has one.
    project : rows (n, d) after the feature map -> the real values (n, r) whose signs are the bits.
    model : a hasher that cannot learn, whose `project` this is; None where values are X @ projection and nothing else.
    """

    version: int
    n_bits: int
    n_features: int
    dtype: str
    feature_map: FeatureMap | None
    projection: np.ndarray | None
    project: Callable[[np.ndarray], np.ndarray]
    model: Any = None

    @property
    def matrix(self) -> np.ndarray | None:
        """W where bits are the signs of X @ W, with no feature map before and nothing after it; otherwise None."""
        return self.projection if self.model is None and self.feature_map is None else None

    @property
    def width(self) -> int:
        """Bytes per code."""
        return -(-self.n_bits // 8)

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Real values whose signs are the bits, (n, n_bits)."""
        if len(X) > block_rows(X):
            return self._values(X)
        return on_one_thread(lambda: self._values(X))

    def encode(self, X: np.ndarray) -> np.ndarray:
        """Codes, (n, ceil(n_bits / 8)) uint8, bits in the order of `np.packbits`; ValueError for NaN and infinity.

        X is encoded block by block, so a memory-mapped X needs no more memory than its codes. After a whole block, a
        thread that waits for this core gets it: the system itself would let it wait for some ticks.
        """
        codes = np.empty((len(X), self.width), np.uint8)
        encode = self._encode if self.matrix is None else self._encode_product
        if len(X) <= block_rows(X):  # for so few rows, waking more threads costs more than they save
            on_one_thread(lambda: encode(X, codes))
        else:
            encode(X, codes)
        return codes

    def _values(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused as such
            X = check_finite(X.astype(self.dtype, copy=False))
        return self.project(X if self.feature_map is None else self.feature_map.transform(X))

    def _encode(self, X: np.ndarray, codes: np.ndarray) -> None:
        step = block_rows(X)
        for start in range(0, len(X), step):
            with np.errstate(invalid="ignore", over="ignore"):
                values = self._values(X[start : start + step])
            codes[start : start + step] = np.packbits(values > 0, axis=1)
            if len(values) == step:
                let_others_run()

    def _encode_product(self, X: np.ndarray, codes: np.ndarray) -> None:
        """`_encode` where bits are signs of a product: into one buffer, and from there into the codes.

        A product with NaN or infinity is not finite, so the fewer numbers of the product are checked.
        """
        matrix, n, step = self.matrix, len(X), block_rows(X)
        assert matrix is not None
        values = np.empty((min(step, n), self.n_bits), self.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, n, step):
                block, some = X[start : start + step], codes[start : start + step]
                if block.dtype != self.dtype:
                    block = block.astype(self.dtype)
                product = np.matmul(block, matrix, out=values[: len(block)])
                if not hamming.pack_signs(product, some):
                    check_finite(block)
                    some[...] = np.packbits(product > 0, axis=1)
                if len(block) == step:
                    let_others_run()

    def arrays(self) -> list[np.ndarray]:
        """The learned arrays, in a fixed order: equal where a model was learned again to the last bit."""
        if self.model is None:
            return [] if self.projection is None else [self.projection]
        found = {name: value for name, value in vars(self.model).items() if isinstance(value, np.ndarray)}
        return [found[name] for name in sorted(found) if name[-1] == "_" and found[name].dtype != object]


def block_rows(X: np.ndarray) -> int:
    """Rows of X that are encoded at once."""
    return max(BLOCK_ROWS, BLOCK_BYTES // (X.itemsize * X.shape[1]))
