"""The hash functions of one version of a model, frozen: what turns rows into codes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hashstream.hashers.features import FeatureMap
from hashstream.hashers.kernels.settle import Columns, columns_of, overflown, settle, squares
from hashstream.hashers.rounding import Bounded, bounded_product, narrowed, widened
from hashstream.hashers.threads import n_threads, on_one_thread
from hashstream.hashers.validation import all_finite, as_floats, check_finite

__all__ = ["Encoder", "Product", "block_rows"]

BLOCK_BYTES = 1 << 20  # of X: a block that is still in the cache when it has been checked
SHARED_BLOCK_BYTES = 1 << 22  # where several threads multiply it: they wait for one another after each block
BLOCK_ROWS = 256  # and no fewer rows, where rows are long, or the matrix product suffers
PRODUCT_BYTES = 1 << 22  # of the product of a block, where it has more columns than X
MANY_FEATURES = (
    48  # from here on, reading X once before the product makes the product faster by more than it takes
)

let_others_run = getattr(os, "sched_yield", lambda: None)


@dataclass(frozen=True, eq=False)
class Product:
    """Functions whose values are X @ matrix and nothing else; matrix (d, r)."""

    matrix: np.ndarray

    @property
    def columns(
        self,
    ) -> Columns:  # not `cached_property`, whose lock a thread may hold while the process is forked
        return columns_of(self.matrix)

    def multiply(
        self, X: np.ndarray, out: np.ndarray, codes: np.ndarray | None = None, *, alone: bool = True
    ) -> bool:
        """X @ matrix into `out` (n, r), with signs that depend on nothing but the row, unless a value is not finite.

        X : (n, d) in the dtype of the matrix. Call it where overflow is ignored. codes : (n, ceil(r / 8)), for the
        signs as bits. alone : False where several threads multiply. Returns False where there are codes and a value is
        not finite.
        """
        X = in_order(X)
        early = alone and codes is not None and len(X) >= BLOCK_ROWS and X.shape[1] >= MANY_FEATURES
        known = squares(X) if early else None
        np.matmul(X, self.matrix, out=out)
        return settle(X, self.columns, out, codes, known)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Hash functions that encode and never learn; made by `OnlineHasher.encoder`, which shares its arrays.

    It takes rows that were checked: X is (n, d) with the model's number of features, float32 or float64, or of numbers
    that `as_floats` takes as float32, block by block. The code of a row does not depend on the other rows, on their
    number, on the order of X in memory or on the number of threads; `rounding.py` says how far this is proven.

    version : `version_` of the model. n_bits : r. n_features : d. dtype : "float32" or "float64".
    feature_map : applied to rows first, or None.
    projection : W, (d, r) after the feature map, where the method has one.
    product : where bits are signs of X @ W, with no feature map before and nothing after it; otherwise None.
    project : rows (n, d) after the feature map -> the real values (n, r) whose signs are the bits, up to rounding.
    bounded : the same with bounds of the rounding; None where the values are X @ projection.
    model : a hasher that cannot learn, whose `project` this is; None where values are X @ projection and nothing else.
    """

    version: int
    n_bits: int
    n_features: int
    dtype: str
    feature_map: FeatureMap | None
    projection: np.ndarray | None
    product: Product | None
    project: Callable[[np.ndarray], np.ndarray]
    bounded: Callable[[np.ndarray], Bounded] | None = None
    model: Any = None

    @property
    def width(self) -> int:
        """Bytes per code."""
        return -(-self.n_bits // 8)

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Real values whose signs are the bits, (n, n_bits). Their last digits may depend on the other rows.

        X of another type than the model's is converted block by block.
        """
        if len(X) <= block_rows(X):
            return on_one_thread(lambda: self._values(X))
        if X.dtype == self.dtype:
            return self._values(X)
        values = np.empty((len(X), self.n_bits), self.dtype)
        step = block_rows(X, n_threads() <= 1)
        for start in range(0, len(X), step):
            values[start : start + step] = self._values(X[start : start + step], start)
        return values

    def encode(self, X: np.ndarray) -> np.ndarray:
        """Codes, (n, ceil(n_bits / 8)) uint8, bits in the order of `np.packbits`; ValueError for NaN and infinity.

        X is encoded block by block, so a memory-mapped X needs no more memory than its codes. After a whole block, a
        thread that waits for this core gets it: the system itself would let it wait for some ticks.
        """
        codes = np.empty((len(X), self.width), np.uint8)
        encode = self._encode if self.product is None else partial(self._encode_product, self.product)
        if len(X) <= block_rows(X):  # for so few rows, waking more threads costs more than they save
            on_one_thread(lambda: encode(X, codes))
        else:
            encode(X, codes)
        return codes

    def _values(self, X: np.ndarray, before: int = 0) -> np.ndarray:
        """Values of rows; `before` is the number of rows before them, for errors."""
        X = in_order(check_finite(self._cast(X), before))
        with np.errstate(invalid="ignore", over="ignore"):
            if self.product is None:
                return self._sure_values(X)
            values = np.empty((len(X), self.n_bits), self.dtype)
            self.product.multiply(X, values)
            if not all_finite(values):
                overflown(X, self.product.columns, values)
            return values

    def _cast(self, X: np.ndarray) -> np.ndarray:
        """X in the dtype of the model."""
        if X.dtype == self.dtype:
            return X
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused as such
            return as_floats(X).astype(self.dtype, copy=False)

    # ---- functions that are more than a product

    def _sure_values(self, X: np.ndarray) -> np.ndarray:
        """Values of checked rows; those that rounding could give another sign are computed again in float64."""
        found = self._bounded(X)
        if len(rows := found.unsure()):
            wide = self if self.dtype == "float64" else self._wide()
            again = wide._alone if wide is self else wide._sure_values
            values = narrowed(again(X[rows].astype(np.float64, copy=False)), self.dtype)
            wrong = ((values > 0) != (found.values[rows] > 0)).any(axis=1)  # others stay as they are
            found.values[rows[wrong]] = values[wrong]
        return found.values

    def _alone(self, X: np.ndarray) -> np.ndarray:
        """Values of rows, each computed in the same shape and on one thread."""
        return on_one_thread(lambda: np.concatenate([self._bounded(x[None].copy()).values for x in X]))

    def _bounded(self, X: np.ndarray) -> Bounded:
        off: np.ndarray | float = 0.0
        if self.feature_map is not None:
            X, off = self.feature_map.bounded(X)
            X = in_order(X)
        if self.bounded is None:
            assert self.projection is not None
            return bounded_product(self.projection, X, off)
        found = self.bounded(X)
        return found if self.feature_map is None else found._replace(rows=found.rows * (1 + off))

    def _wide(self) -> Encoder:
        """These functions in float64, kept: to make them takes longer than to encode some rows."""
        if (wide := _wide_encoders.get(self)) is None:
            wide = _wide_encoders[self] = self._widened()
        return wide

    def _widened(self) -> Encoder:
        if self.model is not None:
            wide: Encoder = self.model.widened().encoder()
            return wide
        assert self.projection is not None
        projection = self.projection.astype(np.float64)
        feature_map = None if self.feature_map is None else widened(self.feature_map)
        return replace(self, dtype="float64", feature_map=feature_map, projection=projection)

    # ---- in blocks

    def _encode(self, X: np.ndarray, codes: np.ndarray) -> None:
        step = block_rows(X)
        for start in range(0, len(X), step):
            values = self._values(X[start : start + step], start)
            codes[start : start + step] = np.packbits(values > 0, axis=1)
            if len(values) == step:
                let_others_run()

    def _encode_product(self, product: Product, X: np.ndarray, codes: np.ndarray) -> None:
        """`_encode` where bits are signs of a product: into one buffer, and from there into the codes.

        A product with NaN or infinity is not finite, so the fewer numbers of the product are checked.
        """
        n, size = len(X), np.dtype(self.dtype).itemsize * self.n_bits
        alone = n <= block_rows(X) or n_threads() <= 1
        step = min(block_rows(X, alone), max(BLOCK_ROWS, PRODUCT_BYTES // size))
        values = np.empty((min(step, n), self.n_bits), self.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, n, step):
                block, some = X[start : start + step], codes[start : start + step]
                if block.dtype != self.dtype:
                    block = self._cast(block)
                found = values[: len(block)]
                if not product.multiply(block, found, some, alone=alone):
                    overflown(in_order(check_finite(block, start)), product.columns, found)
                    some[...] = np.packbits(found > 0, axis=1)
                if len(block) == step:
                    let_others_run()

    def arrays(self) -> list[np.ndarray]:
        """The learned arrays, in a fixed order: equal where a model was learned again to the last bit."""
        if self.model is None:
            return [] if self.projection is None else [self.projection]
        found = {name: value for name, value in vars(self.model).items() if isinstance(value, np.ndarray)}
        return [found[name] for name in sorted(found) if name[-1] == "_" and found[name].dtype != object]


_wide_encoders: WeakKeyDictionary[Encoder, Encoder] = WeakKeyDictionary()  # apart, so that a copy is small


def block_rows(X: np.ndarray, alone: bool = True) -> int:
    """Rows of X that are encoded at once. alone : False where several threads multiply."""
    size = max(X.itemsize, 4)  # as narrower numbers are converted
    return max(BLOCK_ROWS, (BLOCK_BYTES if alone else SHARED_BLOCK_BYTES) // (size * X.shape[1]))


def in_order(X: np.ndarray) -> np.ndarray:
    """X, C-contiguous and aligned; copied only where it is not."""
    return X if X.flags.c_contiguous and X.flags.aligned else np.array(X, order="C")
