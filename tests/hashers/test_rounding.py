"""The code of a row does not depend on the rows that it is encoded with, on their order in memory or on threads."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import hashstream as hs
from hashstream.hashers import rounding
from hashstream.hashers.encoder import Product
from hashstream.hashers.kernels import settle as kernel
from hashstream.hashers.kernels.settle import Columns

METHODS = sorted(hs.methods())
MAPS = ["center", "rbf", "okh"]
CUTS = (1, 7, 16, 17, 64, 255)


def stream(n: int, d: int, dtype: type, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n)
    centres = rng.standard_normal((5, d))
    return (0.5 * centres[y] + rng.standard_normal((n, d)) + 0.3).astype(dtype), y


def learned(method: str, dtype: type, feature_map: str | None = None, d: int = 33) -> hs.OnlineHasher:
    X, y = stream(600, d, dtype)
    cls = hs.methods()[method]
    return cls(n_bits=24, feature_map=feature_map, random_state=0).partial_fit(X, y)


def near_ties(hasher: hs.OnlineHasher, n: int, d: int, dtype: type) -> np.ndarray:
    """Rows (m, d) at which a bit changes: found by halving the way between two rows until nothing is in between."""
    low, high = stream(2 * n, d, dtype, seed=1)[0].reshape(2, n, d)
    bits = np.unpackbits(hasher.transform(low), axis=1)
    differ = bits != np.unpackbits(hasher.transform(high), axis=1)
    rows = np.flatnonzero(differ.any(axis=1))
    bit = np.array([np.random.default_rng(i).choice(np.flatnonzero(differ[i])) for i in rows])
    low, high, known = low[rows], high[rows], bits[rows, bit]
    for _ in range(60 if dtype == np.float64 else 30):
        middle = (low + high) / 2
        same = np.unpackbits(hasher.transform(middle), axis=1)[np.arange(len(rows)), bit] == known
        low, high = np.where(same[:, None], middle, low), np.where(same[:, None], high, middle)
    return np.concatenate([low, high])


def orthogonal(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Rows made orthogonal, up to rounding, to one of the columns of W each."""
    columns = W.T[np.arange(len(X)) % W.shape[1]].astype(np.float64)
    along = (X * columns).sum(axis=1) / (columns * columns).sum(axis=1)
    return (X - along[:, None] * columns).astype(X.dtype)


def cuts(X: np.ndarray, tmp_path: Path) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The same rows in other pieces, and in other places and orders in memory."""
    for step in CUTS:
        yield f"{step} rows", [X[start : start + step] for start in range(0, len(X), step)]
    yield "Fortran", [np.asfortranarray(X)]
    yield "backwards", [X[start : start + 50][::-1][::-1] for start in range(0, len(X), 50)]
    yield "columns apart", [np.repeat(X, 2, axis=1)[:, ::2]]
    raw = np.zeros(X.nbytes + 1, np.uint8)
    shifted: np.ndarray = np.ndarray(X.shape, X.dtype, raw.data, offset=1)
    shifted[...] = X
    yield "not aligned", [shifted]
    np.save(tmp_path / "rows.npy", X)
    yield "mapped", [np.load(tmp_path / "rows.npy", mmap_mode="r")]


def check(hasher: hs.OnlineHasher, X: np.ndarray, tmp_path: Path) -> None:
    whole = hasher.transform(X)
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            assert np.array_equal(hasher.transform(X), whole)
            for name, pieces in cuts(X, tmp_path):
                codes = np.concatenate([hasher.transform(piece) for piece in pieces])
                assert np.array_equal(codes, whole), f"{name}, {threads} threads"
                values = np.concatenate([hasher.decision_function(piece) for piece in pieces])
                assert np.array_equal(np.packbits(values > 0, axis=1), whole), f"{name}, {threads} threads"


@pytest.mark.thinned("values")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
def test_codes_do_not_depend_on_the_cut(method: str, dtype: type, tmp_path: Path) -> None:
    hasher = learned(method, dtype)
    X = near_ties(hasher, 33, 33, dtype)
    assert len(X) > 30
    check(hasher, X, tmp_path)


@pytest.mark.thinned("values")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("method", ["FCOH", "PosteriorHash", "FROSH"])
def test_nor_with_a_feature_map(method: str, feature_map: str, dtype: type, tmp_path: Path) -> None:
    hasher = learned(method, dtype, feature_map)
    check(hasher, near_ties(hasher, 33, 33, dtype), tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [3, 128, 1500])
def test_products_near_0(d: int, dtype: type, tmp_path: Path) -> None:
    X, _ = stream(300, d, dtype)
    hasher = hs.LSH(n_bits=20, random_state=0).fit(X)
    X = orthogonal(X, hasher.projection_)
    check(hasher, X, tmp_path)


def test_these_rows_have_other_bits_without_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests above can fail."""
    X, _ = stream(2000, 128, np.float32)
    hasher = hs.LSH(n_bits=20, random_state=0).fit(X)
    X = orthogonal(X, hasher.projection_)
    monkeypatch.setattr(
        "hashstream.hashers.encoder.settle",
        lambda X, columns, values, codes, squares: hs.hamming.pack_signs(values, codes),
    )
    alone = np.concatenate([hasher.transform(x[None]) for x in X])
    assert (alone != hasher.transform(X)).any()


@pytest.mark.parametrize("feature_map", [None, "rbf"])
def test_nor_rows_without_bounds(feature_map: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = learned("PosteriorHash", np.float32, feature_map)
    X = near_ties(hasher, 1000, 33, np.float32)
    monkeypatch.setattr(rounding.Bounded, "unsure", lambda self: np.empty(0, np.int64))
    alone = np.concatenate([hasher.transform(x[None]) for x in X])
    assert (alone != hasher.transform(X)).any()


def test_functions_in_float64_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = learned("PosteriorHash", np.float32)
    X, made, encoder = near_ties(hasher, 100, 33, np.float32), [], hasher.encoder()
    widened = hs.PosteriorHash.widened
    monkeypatch.setattr(hs.PosteriorHash, "widened", lambda self: made.append(self) or widened(self))
    codes = encoder.encode(X)
    assert np.array_equal(encoder.encode(X), codes)
    assert len(made) == 1


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e18, 1e30, 1e36])
def test_rows_of_any_size(scale: float, tmp_path: Path) -> None:
    X, _ = stream(300, 40, np.float32)
    hasher = hs.LSH(n_bits=16, random_state=0).fit(X)
    X = orthogonal(X, hasher.projection_) * np.float32(scale)
    X[::7] = 0
    check(hasher, X, tmp_path)
    assert not hasher.transform(X[::7]).any()


def test_values_that_overflow_have_the_sign_of_the_exact_value() -> None:
    W = np.array([[1e38, -1e38], [-1e38, 1e38], [1e30, 1e30]], np.float32)
    hasher = hs.LSH(n_bits=2, init=W, random_state=0).fit(np.ones((5, 3), np.float32))
    X = np.array([[10, 10, 1], [10, 10, -1], [30, 10, 0], [10, 30, 0]], np.float32)
    bits = [[1, 1], [0, 0], [1, 0], [0, 1]]
    for rows in (X, np.repeat(X, 500, axis=0)):
        repeats = len(rows) // len(X)
        assert np.array_equal(np.unpackbits(hasher.transform(rows), axis=1)[::repeats, :2], bits)
        assert np.array_equal((hasher.decision_function(rows) > 0)[::repeats], bits)


def test_columns_of_0_and_rows_of_0() -> None:
    X, _ = stream(50, 8, np.float64)
    W = np.random.default_rng(0).standard_normal((8, 9))
    W[:, 3] = 0
    hasher = hs.LSH(n_bits=9, init=W, feature_map="center", random_state=0).fit(X)
    X[5] = hasher.feature_map_.mean_
    assert not (hasher.decision_function(X) > 0)[:, 3].any()
    assert not hasher.decision_function(X)[5].any()


# ---- the kernel and its twin


def products(dtype: type, d: int, seed: int, r: int = 13) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows near orthogonal to columns, the columns, and products off by a random rounding."""
    rng = np.random.default_rng(seed)
    W = (rng.standard_normal((d, r)) * 10.0 ** rng.integers(-3, 3, r)).astype(dtype)
    X = orthogonal((rng.standard_normal((100, d)) * 10.0 ** rng.integers(-3, 3, (100, 1))).astype(dtype), W)
    return X, W, X @ W


@pytest.mark.skipif(not kernel.SETTLE, reason="no C compiler")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 7, 8, 64, 130, 2000])
@pytest.mark.parametrize("r", [13, 16])
def test_the_kernel_is_its_twin(r: int, d: int, dtype: type) -> None:
    X, W, values = products(dtype, d, d, r)
    columns, ours, twins = Columns.of(W), values.copy(), values.copy()
    kernel.compiled_settle(X, columns, ours)
    kernel.twin_settle(X, columns, twins)
    assert (ours != values).any() or d == 1
    # Where only one of them was sure, within the rounding of the bound, the sign is the same.
    both = (ours != values) & (twins != values)
    assert np.array_equal(ours[both], twins[both])
    assert np.array_equal(ours > 0, twins > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_settled_signs_are_exact(dtype: type) -> None:
    X, W, values = products(dtype, 24, 0)
    kernel.settle(X, Columns.of(W), values)
    for i, k in np.ndindex(*values.shape):
        pairs = zip(X[i].tolist(), W[:, k].tolist(), strict=True)
        exact = sum(Fraction(a) * Fraction(b) for a, b in pairs)
        assert (values[i, k] > 0) == (exact > 0)


@pytest.mark.skipif(not kernel.UNSURE, reason="no C compiler")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("r", [1, 4, 8, 13, 64])
def test_unsure_rows_are_the_twins(r: int, dtype: type) -> None:
    rng = np.random.default_rng(r)
    values = rng.standard_normal((500, r)).astype(dtype)
    rows, columns = np.abs(rng.standard_normal((500,))).astype(dtype), rng.random(r).astype(dtype) / r / 10
    values[3, 0], values[5, -1], values[9], rows[9], rows[11] = np.nan, np.inf, 0, 0, np.inf
    columns[0] = 0
    found = kernel.compiled_unsure(values, rows, columns)
    assert np.array_equal(found, kernel.twin_unsure(values, rows, columns))
    assert found[[3, 5, 9, 11]].tolist() == [True, True, False, True]
    assert 0 < found.mean() < 1


def test_what_does_not_fit_is_refused() -> None:
    X, W, values = products(np.float32, 8, 0)
    columns = Columns.of(W)
    for wrong in (values[:5], values.astype(np.float64), values.T):
        with pytest.raises(ValueError, match=r"fit|must be"):
            kernel.compiled_settle(X, columns, wrong)
    with pytest.raises(ValueError, match="C-contiguous"):
        kernel.compiled_settle(np.asfortranarray(X), columns, values)


def test_a_copy_has_columns_of_its_own() -> None:
    X, W, values = products(np.float32, 64, 0)
    product = Product(W.copy())
    product.multiply(X, values)  # the addresses are known from now on
    for other in (copy.deepcopy(product), pickle.loads(pickle.dumps(product))):
        assert other.columns.given.W == other.columns.W.ctypes.data != product.columns.W.ctypes.data
    X, _ = stream(50, 8, np.float32)
    hasher = hs.LSH(n_bits=8, random_state=0).fit(X)
    codes = hasher.transform(X)
    assert np.array_equal(pickle.loads(pickle.dumps(hasher)).transform(X), codes)


# ---- tables


def test_a_query_has_the_code_of_its_item() -> None:
    """Few queries are only multiplied, many are encoded; items are encoded in a batch or again by a refresh."""
    X, _ = stream(600, 32, np.float32)
    W = np.random.default_rng(0).standard_normal((32, 24)).astype(np.float32)
    items = orthogonal(X, W)
    table = hs.HashTable.open(None, hasher=hs.LSH(n_bits=24, init=W, random_state=0))
    table.ingest(np.arange(10), X[:10])
    table.add(np.arange(1000, 1600), items)
    for step in (1, 5, 16, 17, 200):
        far = [table.search(items[i : i + step], k=1).distances for i in range(0, len(items), step)]
        assert not np.concatenate(far).any()
    table.close()


def test_columns_are_kept_while_their_matrix_is() -> None:
    W = np.random.default_rng(0).standard_normal((8, 5))
    known = len(kernel._known)
    columns = kernel.columns_of(W)
    assert kernel.columns_of(W) is columns
    assert len(kernel._known) == known + 1
    del W
    assert len(kernel._known) == known
