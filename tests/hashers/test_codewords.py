"""The kernel of HCOH, HMOH and OSH against its NumPy twins, on random input."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream.hashers.codeword_hasher import check_step, unit_rows
from hashstream.hashers.errors import DivergenceError
from hashstream.hashers.kernels import codewords
from hashstream.hashers.kernels.codewords import RULES, take_steps


def job(rule: str, dtype: type, n: int, d: int, r: int, classes: int = 7, seed: int = 0) -> tuple:
    rng = np.random.default_rng(seed)
    X = unit_rows(rng.standard_normal((n, d))).astype(dtype)
    if n > 1:
        X[0] = 0  # a row without direction must do no harm
    codebook = (2 * rng.integers(2, size=(classes, r)) - 1).astype(np.int8)
    W = (rng.standard_normal((d, r)) / np.sqrt(d)).astype(dtype)
    averaging = None
    if rule == "hmoh":
        averaging = rng.standard_normal((d, r)).astype(dtype), rng.integers(1, 9, r), rng.integers(9, size=r)
    return X, rng.integers(classes, size=n), codebook, W, averaging


@pytest.mark.skipif(not codewords.KERNEL, reason="installed without a C compiler: only the twin is there")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("n", "d", "r", "batch"),
    [(1, 1, 1, 1), (300, 17, 5, 1), (100, 33, 32, 1), (57, 20, 70, 7), (20, 40_000, 9, 1), (5, 3, 128, 50)],
)
def test_kernel_equals_twin(monkeypatch, dtype, rule, n, d, r, batch) -> None:
    batch = 1 if rule.startswith("osh") else batch
    results = []
    for kernel in (codewords.KERNEL, {}):
        monkeypatch.setattr(codewords, "KERNEL", kernel)
        X, rows, codebook, W, averaging = job(rule, dtype, n, d, r)
        before = W.copy()
        take_steps(rule, X, rows, codebook, W, 0.1, batch, averaging)
        results.append([W, *(averaging or ())])
        assert n == 1 or not np.array_equal(W, before)
    tolerance = 1e-9 if dtype is np.float64 else 2e-5
    for ours, twins in zip(*results, strict=True):
        assert ours.dtype == twins.dtype
        np.testing.assert_allclose(ours, twins, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cuts_leave_no_trace(rule: str, dtype: type) -> None:
    """To the last bit, wherever a stream of single samples is cut."""
    X, rows, codebook, W, averaging = job(rule, dtype, 200, 600, 21)
    cut_W, cut_averaging = W.copy(), averaging and tuple(array.copy() for array in averaging)
    take_steps(rule, X, rows, codebook, W, 0.1, 1, averaging)
    for start, stop in ((0, 1), (1, 2), (2, 50), (50, 51), (51, 200)):
        take_steps(rule, X[start:stop], rows[start:stop], codebook, cut_W, 0.1, 1, cut_averaging)
    for ours, cut in zip((W, *(averaging or ())), (cut_W, *(cut_averaging or ())), strict=True):
        if codewords.KERNEL:
            assert np.array_equal(ours, cut)
        else:
            np.testing.assert_allclose(ours, cut, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_hcoh_with_projections_of_every_size(scale: float) -> None:
    """Where the tanh is flat nothing moves, and nothing overflows."""
    X, rows, codebook, W, _ = job("hcoh", np.float64, 50, 10, 12)
    W *= scale
    twin = W.copy()
    take_steps("hcoh", X, rows, codebook, W, 0.2)
    codewords.hcoh_steps(X, codebook[rows].astype(float), twin, 0.2, 1)
    np.testing.assert_allclose(W, twin, rtol=1e-12, atol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    X, rows, codebook, W, _ = job("hcoh", np.float64, 10, 6, 8)
    if not codewords.KERNEL:
        pytest.skip("the twin relies on NumPy's own checks")
    with pytest.raises(ValueError, match=r"rows must be .* shape \(10,\), not int64 \(5,\)"):
        take_steps("hcoh", X, rows[:5], codebook, W, 0.1)
    with pytest.raises(ValueError, match=r"W must be .* shape \(3, 8\)"):
        take_steps("hcoh", X[:, :3], rows, codebook, W, 0.1)
    with pytest.raises(ValueError, match="contiguous"):
        take_steps("hcoh", X, rows, codebook, W.astype(np.float32), 0.1)


def test_unit_rows() -> None:
    X = np.array([[3.0, 4.0], [0.0, 0.0], [3e200, 4e200], [-1.0, 0.0]])
    expected = [[0.6, 0.8], [0, 0], [0.6, 0.8], [-1, 0]]
    np.testing.assert_allclose(unit_rows(X), expected, rtol=1e-15)
    assert unit_rows(X[:2].astype(np.float32)).dtype == np.float32
    many = np.random.default_rng(0).standard_normal((100, 37)).astype(np.float32)
    assert np.array_equal(unit_rows(many), np.vstack([unit_rows(row[None]) for row in many]))


def test_check_step() -> None:
    check_step(np.ones((2, 2)), 0.1)
    with pytest.raises(DivergenceError, match=r"learning_rate=0\.1"):
        check_step(np.array([[1.0, np.inf]]), 0.1)
