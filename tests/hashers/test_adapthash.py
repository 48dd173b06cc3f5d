"""AdaptHash: the objective's gradient, the compiled block and the literal pairs, the stream however it is cut."""

from __future__ import annotations

import numpy as np
import pytest
import slow_adapthash
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS, check_hasher, class_stream, state_of
from hashstream.hashers.adapthash import AdaptHash
from hashstream.hashers.kernels import adapthash
from hashstream.hashers.kernels.adapthash import PAIRS, Block, is_wide, learn_pairs, twin_learn_pairs
from hashstream.hashers.registry import register

register(AdaptHash)


def unit_stream(n: int, d: int, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Centred unit-length rows of Gaussian classes, shuffled."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def first_projection(d: int, r: int) -> np.ndarray:
    W = np.random.default_rng(1).standard_normal((d, r))
    return W / np.linalg.norm(W, axis=0)


def learned(hasher: hs.OnlineHasher) -> dict:
    """The state without the order in which labels were numbered, which depends on the cuts."""
    book = ("label_book_", "waiting_class_")
    return {name: value for name, value in state_of(hasher).items() if name not in book}


# ---- the contract


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "hasher",
    [AdaptHash(n_bits=16), AdaptHash(n_bits=11, feature_map="center"), AdaptHash(n_bits=9, orthogonality=0)],
    ids=repr,
)
def test_contract_of_adapthash(hasher: hs.OnlineHasher, check) -> None:
    check(hasher)


def test_check_hasher() -> None:
    check_hasher(AdaptHash(n_bits=16))


@parametrize_with_checks([AdaptHash(n_bits=12, random_state=0)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)


# ---- the equations


@pytest.mark.parametrize(("n_bits", "alpha"), [(5, 0.9), (6, 0.6), (10, 0.8)])
def test_equals_the_gradient_of_the_objective(n_bits: int, alpha: float) -> None:
    X, y = unit_stream(24, 4, classes=2)
    W = first_projection(4, n_bits)
    hasher = AdaptHash(n_bits, alpha=alpha, learning_rate=0.05, orthogonality=0.02, init=W)
    moved = 0
    for t in range(0, 24, 2):
        W, one = slow_adapthash.learn_pair(W, X[t], X[t + 1], y[t] == y[t + 1], alpha, 0.05, 0.02)
        moved += one
        hasher.partial_fit(X[t : t + 2], y[t : t + 2])
        np.testing.assert_allclose(hasher.projection_, W, rtol=0, atol=1e-6)  # finite differences
    assert hasher.version_ == moved > 0


def test_the_hinge_sees_the_rounding_of_alpha() -> None:
    """1 - 0.9 is a little less than 0.1, so for 10 bits a distance of 1 is a loss, and one bit is corrected."""
    assert (1 - 0.9) * 10 < 1
    W = np.eye(10)
    x = np.ones(10)
    y = np.concatenate([[-1.0, 0.5], np.ones(8)])
    pair, tolerances = np.stack([x, y]), ((1 - 0.9) * 10, 9.0)
    literal, _, moved = twin_learn_pairs(W, None, pair, np.array([True]), tolerances, 0.1, 0.0)
    assert moved == 1
    assert np.array_equal(np.flatnonzero((literal != W).any(axis=0)), [0])
    ours = AdaptHash(10, alpha=0.9, orthogonality=0, init=W).fit(pair, [0, 0])
    np.testing.assert_allclose(ours.projection_, literal, atol=1e-12)


# ---- the compiled block and the literal pairs


needs_kernel = pytest.mark.skipif(
    not adapthash.KERNEL, reason="installed without a C compiler: only the twin is there"
)


@needs_kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lambda_", [0.0, 0.01, 0.1])
@pytest.mark.parametrize(("d", "r"), [(1, 3), (5, 1), (20, 7), (13, 40), (60, 40), (100, 32), (33, 70)])
def test_kernel_equals_twin(dtype, lambda_: float, d: int, r: int) -> None:
    pairs = 3 * PAIRS + 5 if dtype is np.float64 else PAIRS // 2
    X, y = unit_stream(2 * pairs, d)
    X = X.astype(dtype)
    X[6] = 0  # a row without direction must do no harm
    W0 = first_projection(d, r).astype(dtype)
    similar = y[0::2] == y[1::2]
    tolerances = (1 - 0.8) * r, 0.8 * r
    expected, _, moved = twin_learn_pairs(W0, None, X, similar, tolerances, 0.05, lambda_)
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    W, _, dense_moved = learn_pairs(W0, None, X, similar, tolerances, 0.05, lambda_)
    assert dense_moved == moved > 0
    np.testing.assert_allclose(W, expected, rtol=0, atol=tolerance)
    if is_wide(W0):
        W, block, block_moved = learn_pairs(W0, Block.of(W0), X, similar, tolerances, 0.05, lambda_)
        assert block_moved == moved
        np.testing.assert_allclose(W, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(block.gram, W.T @ W, rtol=0, atol=tolerance)
    assert np.array_equal(W0, first_projection(d, r).astype(dtype))


@needs_kernel
def test_kernel_and_twin_go_on_from_each_other(monkeypatch) -> None:
    """A model that was learned with the one may be loaded where the other serves."""
    X, y = unit_stream(300, 12)
    kernel = AdaptHash(9, random_state=0).fit(X, y)
    mixed = AdaptHash(9, random_state=0).partial_fit(X[:111], y[:111])
    with monkeypatch.context() as without:
        without.setattr(adapthash, "KERNEL", {})
        mixed.partial_fit(X[111:200], y[111:200])
    mixed.partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(mixed.projection_, kernel.projection_, rtol=0, atol=1e-9)
    assert mixed.version_ == kernel.version_


# ---- the stream


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("d", "r"), [(20, 7), (50, 33), (16, 64)])
def test_any_cut_of_the_stream_gives_the_same_bits(dtype, d: int, r: int) -> None:
    X, y = unit_stream(401, d)
    X = X.astype(dtype)
    whole = AdaptHash(r, random_state=0).partial_fit(X, y)
    rng = np.random.default_rng(0)
    for longest in (1, 2, 150):
        cut = AdaptHash(r, random_state=0, batch_size=int(rng.integers(1, 99)))
        start = 0
        while start < len(X):
            stop = start + int(rng.integers(1, longest + 1))
            cut.partial_fit(X[start:stop], y[start:stop])
            start = stop
        assert learned(cut) == learned(whole)


def test_the_unpaired_row_waits() -> None:
    X, y = unit_stream(3, 6)
    hasher = AdaptHash(8, random_state=0).partial_fit(X[:1], y[:1])
    assert hasher.version_ == 0
    assert np.array_equal(hasher.waiting_, X[:1])
    hasher.partial_fit(X[1:], y[1:])
    assert np.array_equal(hasher.waiting_, X[2:])
    hasher.partial_fit(X[:1], y[:1])
    assert hasher.waiting_class_ == -1
    assert hasher.n_seen_ == 4


def test_columns_stay_of_unit_length() -> None:
    X, y = class_stream(600)
    hasher = AdaptHash(24, random_state=0).fit(X, y)
    np.testing.assert_allclose(np.linalg.norm(hasher.projection_, axis=0), 1, atol=1e-12)


@pytest.mark.parametrize("d", [8, 80])
def test_one_class_only(d: int) -> None:
    X, _ = unit_stream(400, d)
    hasher = AdaptHash(16, random_state=0).fit(X, np.zeros(len(X)))
    assert np.isfinite(hasher.projection_).all()
    assert hasher.version_ > 0


@pytest.mark.parametrize("d", [8, 80])
@pytest.mark.parametrize("parameters", [{"orthogonality": 1e300}, {"learning_rate": 1e300}], ids=str)
def test_what_cannot_be_computed_raises_and_changes_nothing(d: int, parameters: dict) -> None:
    X, y = unit_stream(100, d)
    hasher = AdaptHash(12, random_state=0).fit(X, y).set_params(**parameters)
    before = state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="before the call"):
        hasher.partial_fit(X, y)
    assert state_of(hasher) == before


@pytest.mark.parametrize(
    "parameters",
    [{"alpha": -0.1}, {"alpha": 1.1}, {"alpha": "auto"}, {"learning_rate": 0}, {"orthogonality": -1}],
    ids=str,
)
def test_bad_parameters(parameters: dict) -> None:
    X, y = unit_stream(20, 4)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        AdaptHash(8, **parameters).fit(X, y)


def test_from_paper() -> None:
    hasher = AdaptHash.from_paper("mnist", 48, random_state=3)
    assert (hasher.alpha, hasher.orthogonality, hasher.learning_rate) == (0.8, 0.01, 0.2)
    assert (hasher.n_bits, hasher.random_state) == (48, 3)
    assert AdaptHash.from_paper("cifar10", 8, alpha=0.5).alpha == 0.5
    with pytest.raises(ValueError, match="places205"):
        AdaptHash.from_paper("imagenet", 8)
