"""SketchHash and the sketch it shares: row-by-row oracle, the error bound, ranks that are too small, contract."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS
from hashstream.hashers.registry import register
from hashstream.hashers.sketch import Sketch, centred, leading_directions, orthogonal_rows, random_rotation
from hashstream.hashers.sketchhash import SketchHash

register(SketchHash)


def stream(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows with a falling spectrum, around a mean that is not zero."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (rng.standard_normal((n, d)) * 0.85 ** np.arange(d)) @ turn + 0.7


class RowByRow:
    """The published insertion, one row after the other, with an SVD of all of B."""

    def __init__(self, size: int, d: int) -> None:
        self.size, self.B = size, np.zeros((0, d))
        self.mean, self.n = np.zeros(d), 0

    def partial_fit(self, X: np.ndarray) -> None:
        b, mu = len(X), X.mean(axis=0)
        rows = list(X - mu)
        if self.n:
            rows.append(np.sqrt(self.n * b / (self.n + b)) * (mu - self.mean))
        self.mean, self.n = (self.n * self.mean + b * mu) / (self.n + b), self.n + b
        counter, half = len(self.B), self.size // 2
        for row in rows:
            if counter < self.size:
                if counter == len(self.B):
                    self.B = np.vstack([self.B, row])
                else:
                    self.B[counter] = row
                counter += 1
            else:
                _, S, Vt = np.linalg.svd(self.B)
                S = np.append(S, np.zeros(self.size))[: self.size]
                lowered = np.sqrt(np.maximum(S**2 - S[half] ** 2, 0))
                self.B = np.zeros_like(self.B)
                k = min(self.size, len(Vt))
                self.B[:k] = lowered[:k, None] * Vt[:k]
                self.B[half] = row
                counter = half + 1

    def top(self, r: int) -> np.ndarray:
        return np.linalg.svd(self.B)[2][:r].T


@pytest.mark.parametrize(
    ("d", "size", "b", "r"), [(16, 12, 20, 5), (30, 10, 3, 4), (8, 20, 7, 6), (9, 12, 50, 9), (12, 2, 5, 1)]
)
def test_equals_row_by_row(d: int, size: int, b: int, r: int) -> None:
    X = stream(11 * b + b // 2, d)
    slow = RowByRow(size, d)
    ours = SketchHash(r, sketch_size=size, batch_size=b, random_state=0)
    for start in range(0, len(X), b):  # the last batch is short
        slow.partial_fit(X[start : start + b])
        ours.partial_fit(X[start : start + b])
        B = ours.sketch_
        np.testing.assert_allclose(B.T @ B, slow.B.T @ slow.B, rtol=0, atol=1e-9)
        np.testing.assert_allclose(ours.mean_, slow.mean, rtol=0, atol=1e-12)
        if np.linalg.matrix_rank(slow.B) >= r:
            W, V = ours.projection_, slow.top(r)
            np.testing.assert_allclose(W @ W.T, V @ V.T, rtol=0, atol=1e-7)


def test_compat_sees_the_last_batch_alone() -> None:
    X = stream(100, 16)
    hasher = SketchHash(6, sketch_size=60, batch_size=25, paper_compat=True, random_state=0).fit(X)
    V = np.linalg.svd(X[75:] - X[75:].mean(axis=0))[2][:6].T
    W = hasher.projection_
    np.testing.assert_allclose(W @ W.T, V @ V.T, rtol=0, atol=1e-9)
    assert not hasher.mean_.any()
    np.testing.assert_allclose(hasher.decision_function(X), X @ W, rtol=0, atol=1e-12)


def test_codes_are_around_the_running_mean() -> None:
    X = stream(90, 10)
    hasher = SketchHash(6, sketch_size=8, batch_size=20, random_state=0).fit(X)
    np.testing.assert_allclose(hasher.mean_, X.mean(axis=0), atol=1e-12)
    expected = (X - X.mean(axis=0)) @ hasher.projection_
    np.testing.assert_allclose(hasher.decision_function(X), expected, rtol=0, atol=1e-12)


# ---- the sketch


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [4, 10, 30])
def test_error_bound(size: int, dtype: type) -> None:
    """0 <= A^T A - B^T B <= lost <= 2 |A|_F^2 / l, for the scatter around the mean."""
    X = stream(700, 40).astype(dtype)
    hasher = SketchHash(4, sketch_size=size, batch_size=33, random_state=0).fit(X)
    A = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    B = hasher.sketch_.astype(np.float64)
    energy = (A**2).sum()
    error = np.linalg.eigvalsh(A.T @ A - B.T @ B)
    slack = energy * (1e-12 if dtype is np.float64 else 1e-5)
    assert error[0] >= -slack
    assert error[-1] <= hasher.sketch_lost_ + slack
    assert hasher.sketch_lost_ <= 2 * energy / size + slack


def test_nothing_is_lost_where_the_rank_fits() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 5)) @ rng.standard_normal((5, 30))
    hasher = SketchHash(4, sketch_size=14, batch_size=40, random_state=0).fit(X)
    A = X - X.mean(axis=0)
    np.testing.assert_allclose(hasher.sketch_.T @ hasher.sketch_, A.T @ A, rtol=0, atol=1e-8)
    assert hasher.sketch_lost_ < 1e-8


@pytest.mark.parametrize("shape", [(5, 12), (12, 5), (7, 7), (1, 4), (0, 4)])
def test_orthogonal_rows(shape: tuple[int, int]) -> None:
    B = np.random.default_rng(0).standard_normal(shape)
    squares, rows = orthogonal_rows(B)
    np.testing.assert_allclose(rows.T @ rows, B.T @ B, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rows @ rows.T, np.diag(squares), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.sqrt(squares), np.linalg.svd(B)[1], rtol=0, atol=1e-10)


def test_centred_rows_carry_the_scatter() -> None:
    X = stream(50, 6)
    scatter, mean, n = np.zeros((6, 6)), np.zeros(6), 0
    for piece in np.split(X, [1, 17, 18, 40]):
        rows, between, mean = centred(piece, mean, n)
        scatter += rows.T @ rows + (np.outer(between, between) if n else 0)
        n += len(piece)
    A = X - X.mean(axis=0)
    np.testing.assert_allclose(scatter, A.T @ A, rtol=0, atol=1e-10)
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=0, atol=1e-12)


def test_a_sketch_is_never_changed() -> None:
    X = stream(30, 6)
    old = Sketch.empty(8, 6, X.dtype).insert(X[:8])
    before = old.rows.copy()
    old.insert(X[8:])
    old.shrunk(4)
    np.testing.assert_array_equal(old.rows, before)


# ---- fewer directions than bits


@pytest.mark.parametrize(("rank", "r"), [(0, 4), (2, 4), (2, 10), (3, 25), (10, 10)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_completion(rank: int, r: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    B = (rng.standard_normal((12, rank)) @ rng.standard_normal((rank, 10))).astype(dtype)
    squares, rows = orthogonal_rows(B)
    V = leading_directions(rows, squares, r, rng)
    tolerance = 1e-10 if dtype is np.float64 else 1e-4
    assert V.shape == (10, r)
    assert V.dtype == dtype
    np.testing.assert_allclose(np.linalg.norm(V, axis=0), 1, atol=tolerance)
    np.testing.assert_allclose(V[:, :10].T @ V[:, :10], np.eye(min(r, 10)), atol=tolerance)
    k = min(rank, r)
    if k:
        exact = np.linalg.svd(B.astype(np.float64))[2][:k].T
        np.testing.assert_allclose(V[:, :k] @ V[:, :k].T, exact @ exact.T, atol=tolerance)


def test_rotation_is_orthogonal() -> None:
    Q = random_rotation(np.random.default_rng(0), 9, np.dtype(np.float64))
    np.testing.assert_allclose(Q @ Q.T, np.eye(9), atol=1e-12)


@pytest.mark.parametrize("n_bits", [3, 40, 130])
def test_more_bits_than_the_sketch_holds(n_bits: int) -> None:
    X = stream(200, 20)
    hasher = SketchHash(n_bits, sketch_size=6, batch_size=30, random_state=0).fit(X)
    assert np.isfinite(hasher.projection_).all()
    assert hasher.transform(X).shape == (200, -(-n_bits // 8))


def test_constant_features() -> None:
    hasher = SketchHash(8, random_state=0).fit(np.ones((60, 5)))
    assert np.isfinite(hasher.projection_).all()


# ---- the method


def test_digits_beat_a_random_projection() -> None:
    X, y = load_digits(return_X_y=True)
    scores = {"sketch": [], "random": []}
    for seed in range(3):
        for name, hasher in (
            ("sketch", SketchHash(16, sketch_size=40, random_state=seed)),
            ("random", hs.LSH(16, random_state=seed)),
        ):
            codes = hasher.fit(X[:1500]).transform(X)
            scores[name].append(hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500])["mAP"])
    assert np.mean(scores["sketch"]) > np.mean(scores["random"]) + 0.05


def test_features_without_bounds_raise_and_change_nothing() -> None:
    X = stream(100, 10)
    hasher = SketchHash(8, random_state=0).fit(X)
    before = hs.checks.state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="too large"):
        hasher.partial_fit(1e200 * X)
    assert hs.checks.state_of(hasher) == before


@pytest.mark.parametrize(("dataset", "size"), [("mnist", 200), ("cifar10", 100), ("places205", 200)])
def test_paper_settings(dataset: str, size: int) -> None:
    hasher = SketchHash.from_paper(dataset, 24, paper_compat=True)
    assert (hasher.sketch_size, hasher.batch_size, hasher.paper_compat) == (size, 50, True)
    assert np.isfinite(hasher.set_params(random_state=0).fit(stream(200, 30)).projection_).all()
    with pytest.raises(ValueError, match="mnist, cifar10, places205"):
        SketchHash.from_paper("imagenet", 24)


@pytest.mark.parametrize(
    "parameters",
    [{"sketch_size": 7}, {"sketch_size": 0}, {"sketch_size": 8.0}, {"paper_compat": 1}, {"init": np.eye(3)}],
    ids=str,
)
def test_bad_settings(parameters: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SketchHash(8, **parameters).fit(stream(20, 6))


HASHERS = [
    SketchHash(n_bits=12),
    SketchHash(n_bits=5, sketch_size=8, batch_size=20),
    SketchHash(n_bits=9, paper_compat=True),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("hasher", HASHERS, ids=repr)
def test_contract(hasher: hs.OnlineHasher, check) -> None:
    check(hasher)


@parametrize_with_checks([SketchHash(n_bits=12, random_state=0)])
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)
