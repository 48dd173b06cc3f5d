"""OKH: the per-pair oracle, the kernel and its twin, the stream however it is cut, the kernel map."""

from __future__ import annotations

import numpy as np
import pytest
import slow_okh
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS, check_hasher, state_of
from hashstream.hashers.gaussian_map import GaussianMap
from hashstream.hashers.kernels import okh as kernel_of_okh
from hashstream.hashers.okh import OKH
from hashstream.hashers.registry import register

register(OKH)


def pairs(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """2n rows of three Gaussian classes, and which of the n pairs are of one class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=2 * n)
    X = rng.standard_normal((3, d))[y] + rng.standard_normal((2 * n, d))
    return X, y[0::2] == y[1::2]


def learned(hasher: hs.OnlineHasher) -> dict:
    """The state without the order in which labels were numbered, which depends on the cuts."""
    book = ("label_book_", "waiting_class_")
    return {name: value for name, value in state_of(hasher).items() if name not in book}


# ---- the contract


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "hasher",
    [
        OKH(n_bits=16),
        OKH(n_bits=12, feature_map=None),
        OKH(n_bits=12, feature_map=GaussianMap(20, width="published")),
        OKH(n_bits=9, C=1.0, alpha=0.5, similar_slack=0.1, feature_map=GaussianMap(20)),
    ],
    ids=repr,
)
def test_contract_of_okh(hasher: hs.OnlineHasher, check) -> None:
    check(hasher)


def test_check_hasher() -> None:
    check_hasher(OKH(n_bits=16))


@parametrize_with_checks([OKH(n_bits=12, random_state=0), OKH(n_bits=9, feature_map=None, random_state=0)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)


# ---- the steps


@pytest.mark.parametrize("C", [1e-3, 10.0])
@pytest.mark.parametrize(("alpha", "slack"), [(0.3, 0.0), (0.2, 0.25), (0.7, 0.0), (0.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("n_bits", [1, 5, 12])
def test_equals_the_oracle(n_bits: int, alpha: float, slack: float, C: float) -> None:
    X, similar = pairs(40, 6)
    W = np.random.default_rng(1).standard_normal((6, n_bits))
    hasher = OKH(n_bits, C=C, alpha=alpha, similar_slack=slack, init=W, feature_map=None)
    moved = 0
    for t in range(40):
        x_i, x_j = X[2 * t], X[2 * t + 1]
        s = 1 if similar[t] else -1
        W, one = slow_okh.learn_pair(W, x_i, x_j, s, C, slack * n_bits, (1 - alpha) * n_bits)
        moved += one
        hasher.partial_fit(X[2 * t : 2 * t + 2], [0, 0] if similar[t] else [0, 1])
        np.testing.assert_allclose(hasher.projection_, W, rtol=0, atol=1e-9)
    assert hasher.version_ == moved
    assert moved > 0 or alpha == 1.0


def test_a_long_step_reaches_the_zero_loss_codes() -> None:
    """With C out of the way the zero-loss codes win by the margin sqrt(R), exactly."""
    X, similar = pairs(50, 30)
    W = np.random.default_rng(1).standard_normal((30, 8))
    for t in range(50):
        x_i, x_j, s = X[2 * t], X[2 * t + 1], 1 if similar[t] else -1
        p_i, p_j = (x_i @ W).tolist(), (x_j @ W).tolist()
        h_i, h_j = [slow_okh.sign(p) for p in p_i], [slow_okh.sign(p) for p in p_j]
        R = slow_okh.similarity_loss(h_i, h_j, s, 0, 5.6)
        g_i, g_j = slow_okh.zero_loss_codes(p_i, p_j, s, 0, 5.6)
        W, moved = kernel_of_okh.learn_pairs(W, X[2 * t : 2 * t + 2], similar[t : t + 1], (0, 5.6), 1e9)
        assert moved == (R > 0)
        won = slow_okh.score(W, x_i, x_j, g_i, g_j) - slow_okh.score(W, x_i, x_j, h_i, h_j)
        np.testing.assert_allclose(won, np.sqrt(R), atol=1e-9)


@pytest.mark.skipif(not kernel_of_okh.KERNEL, reason="installed without a C compiler: only the twin is there")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [1e-3, 1.0])
@pytest.mark.parametrize(("d", "r"), [(1, 3), (5, 1), (20, 7), (13, 40), (301, 32), (33, 70)])
def test_kernel_equals_twin(dtype, C: float, d: int, r: int) -> None:
    X, similar = pairs(150 if dtype is np.float64 else 20, d)
    X = X.astype(dtype)
    X[6] = X[10] = X[11] = 0  # rows without direction must do no harm
    W0 = np.random.default_rng(1).standard_normal((d, r)).astype(dtype)
    before = W0.copy()
    W, moved = kernel_of_okh.learn_pairs(W0, X, similar, (0.0, 0.7 * r), C)
    expected, expected_moved = kernel_of_okh.twin_learn_pairs(W0, X, similar, (0.0, 0.7 * r), C)
    assert moved == expected_moved > 0
    np.testing.assert_allclose(W, expected, rtol=0, atol=1e-9 if dtype is np.float64 else 1e-4)
    assert np.array_equal(W0, before)


def test_the_twin_serves_where_there_is_no_kernel(monkeypatch) -> None:
    X, similar = pairs(100, 9)
    y = np.ravel([(0, 0) if alike else (0, 1) for alike in similar])
    ours = OKH(8, random_state=0, feature_map=None).fit(X, y)
    monkeypatch.setattr(kernel_of_okh, "KERNEL", {})
    twin = OKH(8, random_state=0, feature_map=None).fit(X, y)
    np.testing.assert_allclose(ours.projection_, twin.projection_, rtol=0, atol=1e-9)
    assert ours.version_ == twin.version_


# ---- the stream


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("longest", [1, 2, 150])
def test_any_cut_of_the_stream_gives_the_same_bits(dtype, longest: int) -> None:
    X, _ = pairs(200, 17)
    X = X[:399].astype(dtype)
    y = np.random.default_rng(2).integers(3, size=len(X))
    whole = OKH(33, random_state=0, feature_map=None).partial_fit(X, y)
    rng = np.random.default_rng(0)
    cut = OKH(33, random_state=0, feature_map=None, batch_size=int(rng.integers(1, 99)))
    start = 0
    while start < len(X):
        stop = start + int(rng.integers(1, longest + 1))
        cut.partial_fit(X[start:stop], y[start:stop])
        start = stop
    assert learned(cut) == learned(whole)
    assert np.array_equal(whole.waiting_, X[-1:])


def test_one_class_pulls_codes_together() -> None:
    X, _ = pairs(300, 8)
    hasher = OKH(16, C=1.0, random_state=0, feature_map=None)
    start = hasher.partial_fit(X[:1], [0]).transform(X)
    codes = hasher.partial_fit(X[1:], np.zeros(len(X) - 1)).transform(X)
    assert len(np.unique(codes, axis=0)) < len(np.unique(start, axis=0))


def test_learns_digits() -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]

    def score(**settings) -> float:
        codes = OKH(32, random_state=0, **settings).partial_fit(X[:1500], y[:1500]).transform(X)
        return hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500], n_bits=32)["mAP"]

    assert score() > score(C=1e-12) + 0.1  # the second hardly moves from W0


def test_what_cannot_be_computed_raises_and_changes_nothing() -> None:
    X, _ = pairs(50, 8)
    hasher = OKH(12, C=1e-6, init=np.ones((8, 12)), feature_map=None).fit(X, np.arange(100) % 3)
    before = state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="before the call"):
        hasher.partial_fit(np.full((2, 8), 1e308) * [[1], [-1]], [0, 0])
    assert state_of(hasher) == before


@pytest.mark.parametrize(
    "parameters", [{"C": 0}, {"C": -1.0}, {"alpha": 1.1}, {"alpha": None}, {"similar_slack": -0.1}], ids=str
)
def test_bad_parameters(parameters: dict) -> None:
    X, _ = pairs(10, 4)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        OKH(8, **parameters).fit(X, np.zeros(20))


def test_from_paper() -> None:
    hasher = OKH.from_paper("places205", 48, random_state=3)
    assert (hasher.C, hasher.alpha, hasher.feature_map.width) == (0.0001, 0.7, "published")
    assert OKH.from_paper("mnist", 8, feature_map=None).feature_map is None
    with pytest.raises(ValueError, match="places205"):
        OKH.from_paper("imagenet", 8)


# ---- the kernel map


@pytest.mark.parametrize(("width", "expected"), [("mean", "m"), ("published", "m**2"), (3.5, "3.5")])
def test_map_by_its_definition(width, expected: str) -> None:
    X = np.random.default_rng(0).standard_normal((90, 5)) + 100
    kernel = GaussianMap(20, width=width).warm_up(X, np.random.default_rng(1))
    anchors = kernel.anchors_ + kernel.origin_
    places = [int(np.abs(X - anchor).sum(axis=1).argmin()) for anchor in anchors]
    assert len(set(places)) == 20
    assert max(places) < 45  # the first half
    squared = ((X[45:, None] - anchors) ** 2).sum(axis=2)
    np.testing.assert_allclose(kernel.mean_squared_, squared.mean(), rtol=1e-9)
    value = eval(expected, {"m": squared.mean()})
    features = kernel.transform(X[:7])
    by_hand = np.exp(-((X[:7, None] - anchors) ** 2).sum(axis=2) / (2 * value))
    np.testing.assert_allclose(features[:, :-1], by_hand, rtol=1e-8)
    assert (features[:, -1] == 1).all()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_map_of_few_rows(rows: int) -> None:
    X = np.random.default_rng(0).standard_normal((rows, 5)).astype(np.float32)
    with pytest.warns(UserWarning, match="anchors|warmed up"):
        kernel = GaussianMap().warm_up(X, np.random.default_rng(1))
    features = kernel.transform(X)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert features.shape == (rows, max(1, rows // 2) + 1)


def test_map_takes_at_most_2000_rows_for_its_width() -> None:
    X = np.zeros((4100, 1))
    X[2050:, 0] = np.arange(2050)
    kernel = GaussianMap(1).warm_up(X, np.random.default_rng(1))
    assert kernel.mean_squared_ != np.mean(np.arange(2050) ** 2)


@pytest.mark.parametrize("parameters", [{"n_anchors": 0}, {"width": 0}, {"width": "median"}], ids=str)
def test_bad_map(parameters: dict) -> None:
    X, _ = pairs(50, 4)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        OKH(8, feature_map=GaussianMap(**parameters)).fit(X, np.zeros(100))


def test_map_serves_other_methods_by_name_and_is_loaded(tmp_path) -> None:
    X, _ = pairs(100, 6)
    hasher = hs.LSH(8, feature_map=GaussianMap(30), random_state=0).fit(X)
    hs.save(hasher, tmp_path / "hasher")
    loaded = hs.load(tmp_path / "hasher")
    assert np.array_equal(loaded.transform(X), hasher.transform(X))
    assert isinstance(
        hs.LSH(8, feature_map="okh", batch_size=800).fit(np.tile(X, (4, 1))).feature_map_, GaussianMap
    )
