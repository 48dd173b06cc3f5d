"""Signs that are settled and packed in one pass: by the kernel, by its twin and exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hashstream.hashers.kernels import settle as kernel
from hashstream.hashers.kernels.settle import Columns

compiled = pytest.mark.skipif(not kernel.SETTLE, reason="no C compiler")
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
N = 83
"""Rows: not a multiple of the eight that are packed at once."""


def near_ties(dtype: type, d: int, r: int, every: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and W (d, r) of many sizes; one row of `every` is orthogonal to a column, and some are 0."""
    rng = np.random.default_rng([d, r])
    W = (rng.standard_normal((d, r)) * 10.0 ** rng.integers(-3, 3, r)).astype(dtype)
    X = rng.standard_normal((N, d)) * 10.0 ** rng.integers(-3, 3, (N, 1))
    columns = W.T[np.arange(N) % r].astype(np.float64)
    along = (X * columns).sum(axis=1) / (columns * columns).sum(axis=1)
    X[::every] -= (along[:, None] * columns)[::every]
    X[20::40] = 0
    return X.astype(dtype), W


def codes_for(values: np.ndarray) -> np.ndarray:
    return np.full((len(values), -(-values.shape[1] // 8)), 0xA5, np.uint8)


def exact_product(x: np.ndarray, w: np.ndarray) -> Fraction:
    return sum((Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), w.tolist(), strict=True)), Fraction(0))


@compiled
@DTYPES
@pytest.mark.parametrize("d", [1, 5, 16, 33, 130, 1100])
@pytest.mark.parametrize("r", [1, 8, 13, 16, 24, 32, 40, 64, 72, 128])
@pytest.mark.parametrize("early", [False, True])
def test_codes_are_the_twins(early: bool, r: int, d: int, dtype: type) -> None:
    X, W = near_ties(dtype, d, r)
    columns, ours = Columns.of(W), X @ W
    twins = ours.copy()
    codes, expected = codes_for(ours), codes_for(twins)
    assert kernel.compiled_settle(X, columns, ours, codes, kernel.compiled_squares(X) if early else None)
    assert kernel.twin_settle(X, columns, twins, expected, kernel.twin_squares(X) if early else None)
    assert np.array_equal(codes, expected)
    assert np.array_equal(codes, np.packbits(ours > 0, axis=1))
    assert not codes[20::40].any()


@DTYPES
@pytest.mark.parametrize("d", [7, 40, 700])
def test_signs_are_exact_whatever_rounding_did(d: int, dtype: type) -> None:
    """Values that are off by as much as any order of summation may have them off."""
    X, W = near_ties(dtype, d, 32, every=1)
    bound = kernel.product_bound(d, np.dtype(dtype)) / kernel.MARGIN
    bounds = bound * np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(W, axis=0)
    near = np.argwhere(np.abs(X.astype(np.float64) @ W) < 2 * bounds)
    exact = [
        sum(Fraction(a) * Fraction(b) for a, b in zip(X[i].tolist(), W[:, k].tolist(), strict=True))
        for i, k in near
    ]
    for seed in range(3):
        off = np.random.default_rng(seed).choice([-1, 1], bounds.shape)
        values = (X.astype(np.float64) @ W + 0.99 * off * bounds).astype(dtype)
        wrong = sum((values[i, k] > 0) != (true > 0) for (i, k), true in zip(near, exact, strict=True))
        assert wrong > 10
        codes = codes_for(values)
        kernel.settle(X, Columns.of(W), values, codes, kernel.squares(X))
        bits = np.unpackbits(codes, axis=1)
        assert [bits[i, k] for i, k in near] == [true > 0 for true in exact]


@DTYPES
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("r", [13, 32, 64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [3, N - 1])
def test_rows_that_are_not_finite_are_told(row: int, bad: float, r: int, early: bool, dtype: type) -> None:
    X, W = near_ties(dtype, 50, r)
    X[row, 49] = bad
    with np.errstate(all="ignore"):
        values = X @ W
        given = kernel.squares(X) if early else None
        assert not kernel.settle(X, Columns.of(W), values, codes_for(values), given)


@DTYPES
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("power", [0.45, 0.7, 0.95])
def test_products_that_overflow_are_told(power: float, early: bool, dtype: type) -> None:
    """Finite rows and finite columns; only one product is too large."""
    largest = float(np.finfo(dtype).max)
    X, W = np.ones((N, 4), dtype), np.ones((4, 64), dtype)
    X[5], W[:, 60] = largest**power, 4 * largest ** (1 - power)
    with np.errstate(all="ignore"):
        values = X @ W
        assert np.isinf(values).sum() == 1
        given = kernel.squares(X) if early else None
        assert not kernel.settle(X, Columns.of(W), values, codes_for(values), given)


@compiled
def test_what_does_not_fit_is_refused() -> None:
    X, W = near_ties(np.float32, 8, 32)
    columns, values = Columns.of(W), X @ W
    codes, squares = codes_for(values), kernel.compiled_squares(X)
    for wrong in (codes[:5], codes[:, :2], codes.astype(np.int8), np.asfortranarray(codes)):
        with pytest.raises(ValueError, match="codes must be"):
            kernel.compiled_settle(X, columns, values, wrong)
    for wrong in (squares[:5], squares.astype(np.float64), np.repeat(squares, 2)[::2]):
        with pytest.raises(ValueError, match="squares must be"):
            kernel.compiled_settle(X, columns, values, codes, wrong)
    with pytest.raises(ValueError, match="C-contiguous"):
        kernel.compiled_squares(np.asfortranarray(X))


@DTYPES
def test_sums_that_overflow_on_the_way_decide_nothing(dtype: type) -> None:
    """The terms are finite and cancel, but no sum of those of one sign is finite."""
    largest = float(np.finfo(dtype).max)
    X, W = np.full((N, 512), largest**0.3, dtype), np.full((512, 32), largest**0.7 / 4, dtype)
    X[:, 256:] *= -1
    X[:, 0] *= np.where(np.arange(N) % 2, 1 + 2**-10, 1 - 2**-10)
    values = np.ones((N, 32), dtype)  # as another order may have them
    codes = codes_for(values)
    kernel.settle(X, Columns.of(W), values, codes, kernel.squares(X))
    assert np.array_equal(codes, np.where(np.arange(N) % 2, 255, 0)[:, None].repeat(4, axis=1))


def test_a_matrix_may_outlive_the_names_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    matrix = np.ones((3, 2), np.float32)
    kernel.columns_of(matrix)
    known = kernel._known
    monkeypatch.setattr("sys.unraisablehook", said.append)
    monkeypatch.setattr(kernel, "_known", None)  # as when the interpreter ends
    key = id(matrix)
    assert key in known
    del matrix
    assert (key in known, said) == (False, [])
