"""MIHash: the equations, the compiled steps and their twin, the reservoir, the contract."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS, class_stream, state_of
from hashstream.hashers.kernels import mihash
from hashstream.hashers.kernels.mihash import Piece, gradient, take_steps, twin_take_steps
from hashstream.hashers.mihash import MIHash, admit, replace_items
from hashstream.hashers.registry import register

register(MIHash)


def unit_stream(n: int, d: int = 20, classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


# ---- the equations


def slow_gradient(W, x, reservoir, related, A, K) -> np.ndarray:
    """The gradient of -I, bin by bin and item by item, with the sums as they are printed."""
    r, m = W.shape[1], len(reservoir)
    width = r / K

    def phi(v):
        return 1 / (1 + np.exp(-np.clip(A * (v @ W), -42, 42)))

    phi_x, p = phi(x), related.mean()
    P, P_pos, P_neg = np.zeros(K + 1), np.zeros(K + 1), np.zeros(K + 1)
    dP_pos, dP_neg = np.zeros((K + 1, r)), np.zeros((K + 1, r))
    for z, same in zip(reservoir, related, strict=True):
        h = (r - (2 * phi_x - 1) @ (2 * phi(z) - 1)) / 2
        for i in range(K + 1):
            c = i * width
            inside = c - width < h <= c + width
            pulse = (1 - abs(h - c) / width) * inside
            slope = (1 if c - width < h <= c else -1 if c < h <= c + width else 0) / width
            P[i] += pulse
            (P_pos if same else P_neg)[i] += pulse
            (dP_pos if same else dP_neg)[i] += slope * -phi(z) / 2
    P /= P.sum()
    if related.any():
        P_pos, dP_pos = P_pos / P_pos.sum(), dP_pos / related.sum()
    if not related.all():
        P_neg, dP_neg = P_neg / P_neg.sum(), dP_neg / (m - related.sum())
    by_phi = np.zeros(r)
    for i in range(K + 1):
        log = [1 + np.log2(q[i]) if q[i] > 0 else 1 for q in (P, P_pos, P_neg)]
        by_phi += log[0] * (p * dP_pos[i] + (1 - p) * dP_neg[i])
        by_phi -= p * log[1] * dP_pos[i] + (1 - p) * log[2] * dP_neg[i]
    return np.outer(x, A * phi_x * (1 - phi_x) * by_phi)


@pytest.mark.parametrize("related", ["some", "none", "all", "one item"])
@pytest.mark.parametrize(("r", "K"), [(1, 4), (7, 16), (16, 16), (12, 5)])
def test_gradient_equals_the_loops(r: int, K: int, related: str) -> None:
    rng = np.random.default_rng(r)
    X, y = unit_stream(30 if related != "one item" else 2)
    W = rng.standard_normal((20, r)) / 4
    same = {"none": np.zeros(len(y) - 1, bool), "all": np.ones(len(y) - 1, bool)}.get(related, y[1:] == y[0])
    expected = slow_gradient(W, X[0], X[1:], same, 10.0, K)
    np.testing.assert_allclose(gradient(W, X[0], X[1:], same, 10.0, K), expected, rtol=0, atol=1e-12)


def test_learning_raises_the_mutual_information_of_codes() -> None:
    from hashstream.hashers.mutual_information import sample_mutual_information

    X, y = unit_stream(3000, classes=6)
    hasher = MIHash(24, reservoir_size=300, random_state=0)
    scores = []
    for start in range(0, 3000, 1000):
        hasher.partial_fit(X[start : start + 1000], y[start : start + 1000])
        codes = hasher.transform(hasher.reservoir_)
        scores.append(sample_mutual_information(codes, hasher.reservoir_labels_, n_bits=24))
    random = hs.LSH(24, random_state=0).fit(X).transform(hasher.reservoir_)
    assert scores[-1] > scores[0]
    assert scores[-1] > 1.5 * sample_mutual_information(random, hasher.reservoir_labels_, n_bits=24)


# ---- the compiled steps and their twin


def random_piece(n: int, m: int, d: int, most: int, dtype: type, seed: int, **settings) -> Piece:
    rng = np.random.default_rng(seed)
    X, y = unit_stream(m + n, d=d, seed=seed)
    slots, _ = admit(rng.random(m), rng.random(n), most)
    related = y[m:, None] == y
    rates = 0.05 / (
        1 + 0.01 * np.arange(n)
    )  # short steps: long ones amplify rounding (see the class's notes)
    rates[: 2 if n > 2 else 0] = 0
    return Piece(
        X[m:].astype(dtype),
        X[:m].astype(dtype),
        related,
        slots,
        rates,
        **{"scale": 10.0, "bins": 16, **settings},
    )


@pytest.mark.skipif(not mihash.KERNEL, reason="installed without a C compiler: only the twin is there")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "m", "d", "r", "most"),
    [
        (1, 0, 3, 1, 5),
        (1, 7, 5, 13, 7),
        (40, 0, 9, 8, 100),
        (100, 30, 20, 32, 40),
        (70, 50, 33, 70, 50),
        (300, 10, 64, 16, 60),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"scale": 3.0, "bins": 7, "refresh": 11, "seen": 5}], ids=str)
def test_kernel_equals_twin(n, m, d, r, most, dtype, settings) -> None:
    piece = random_piece(n, m, d, most, dtype, seed=n + m, **settings)
    W = (np.random.default_rng(1).standard_normal((d, r)) / np.sqrt(d)).astype(dtype)
    before = W.copy()
    found_W, found_P = take_steps(piece, W, piece.reservoir @ W)
    twin_W, twin_P = twin_take_steps(piece, W, piece.reservoir @ W)
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    np.testing.assert_allclose(found_W, twin_W, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found_P, twin_P, rtol=0, atol=tolerance)
    assert found_W.dtype == dtype
    assert np.array_equal(W, before)
    assert n == 1 or not np.array_equal(found_W, W)


@pytest.mark.skipif(not mihash.KERNEL, reason="installed without a C compiler: only the twin is there")
def test_sigmoid_of_the_kernel() -> None:
    """Over the whole range of arguments, beyond the clip too, seen through one step on one item and one bit."""
    for p in [-100, -42.1, -42, -20.3, -1, -1e-9, 0, 1e-300, 0.3, 5, 41.9, 42, 1e6]:
        piece = Piece(
            np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[False, True]]),
            np.array([-1]), np.array([1.0]), scale=1.0, bins=1,
        )  # fmt: skip
        W = np.array([[0.5], [float(p)]])
        expected = gradient(W, piece.X[0], piece.reservoir, np.array([False]), 1.0, 1)
        found = W - take_steps(piece, W, piece.reservoir @ W)[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("native", [True, False])
def test_cuts_do_not_matter(monkeypatch, native: bool) -> None:
    """Rows one by one, in odd pieces and all at once: the same state to the last bit (to rounding in the twin)."""
    if not native:
        monkeypatch.setattr(mihash, "KERNEL", {})
    X, y = unit_stream(1300 if native else 200, d=17)
    y[:5] = range(5)  # so that classes are numbered alike, whether they come together or one by one
    models = []
    for cuts in ([len(X)], [1] * len(X), [7, 100, 64, 29] * 7):
        hasher, done = MIHash(13, reservoir_size=90, random_state=0), 0
        for cut in cuts:
            if done < len(X):
                hasher.partial_fit(X[done : done + cut], y[done : done + cut])
                done += cut
        models.append(hasher)
    for other in models[1:]:
        assert other.version_ == models[0].version_ == len(X) - 9
        if native and mihash.KERNEL:
            assert state_of(other) == state_of(models[0])
        np.testing.assert_allclose(other.projection_, models[0].projection_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_projections_follow_w(dtype: type) -> None:
    """The stored projections of the reservoir are X W, however long ago they were recomputed."""
    X, y = unit_stream(1999, d=30)
    hasher = MIHash(24, reservoir_size=200, random_state=0).fit(X.astype(dtype), y)
    expected = hasher.reservoir_ @ hasher.projection_
    tolerance = 1e-11 if dtype is np.float64 else 1e-3
    np.testing.assert_allclose(hasher.reservoir_projections_, expected, rtol=0, atol=tolerance)


# ---- the reservoir


def test_reservoir_keeps_the_smallest_draws() -> None:
    rng = np.random.default_rng(0)
    draws = rng.random(500)
    rows = np.arange(500)[:, None]
    items, keys = rows[:0], np.empty(0)
    for start in range(0, 500, 37):
        part = slice(start, start + 37)
        slots, keys = admit(keys, draws[part], 60)
        items = replace_items(items, rows[part], slots)
    assert set(items.ravel()) == set(np.argsort(draws)[:60])
    np.testing.assert_array_equal(draws[items.ravel()], keys)


def test_reservoir_is_a_uniform_sample_of_the_stream() -> None:
    counts = np.zeros(40)
    for seed in range(400):
        hasher = MIHash(1, reservoir_size=10, warm_up=10, random_state=seed)
        hasher.partial_fit(np.arange(1.0, 41)[:, None], np.zeros(40, int))
        counts[hasher.reservoir_.ravel().astype(int) - 1] += 1
    assert counts.sum() == 4000
    assert np.abs(counts - 100).max() < 45  # five standard deviations


def test_state_is_bounded_by_the_reservoir() -> None:
    X, y = unit_stream(500, d=30, classes=7)
    hasher = MIHash(16, reservoir_size=50, random_state=0).fit(X, y)
    arrays = {name: value.shape for name, value in vars(hasher).items() if isinstance(value, np.ndarray)}
    assert arrays == {
        "projection_": (30, 16),
        "reservoir_": (50, 30),
        "reservoir_labels_": (50,),
        "reservoir_keys_": (50,),
        "reservoir_projections_": (50, 16),
    }
    assert all(value.base is None for value in vars(hasher).values() if isinstance(value, np.ndarray))


def test_the_first_rows_only_fill_the_reservoir() -> None:
    X, y = unit_stream(60)
    hasher = MIHash(8, reservoir_size=200, random_state=0).partial_fit(X[:20], y[:20])
    W0 = hasher.projection_
    assert (hasher.version_, hasher.steps_, len(hasher.reservoir_)) == (0, 0, 20)
    hasher.partial_fit(X[20:], y[20:])
    assert (hasher.version_, hasher.steps_, len(hasher.reservoir_)) == (40, 40, 60)
    assert not np.array_equal(hasher.projection_, W0)
    without = MIHash(8, reservoir_size=200, warm_up=0, random_state=0).fit(X, y)
    assert (without.steps_, len(without.reservoir_)) == (59, 60)


def test_decay_counts_steps() -> None:
    X, y = unit_stream(12)
    W = W0 = np.random.default_rng(0).standard_normal((20, 4)) / 5
    hasher = MIHash(4, reservoir_size=50, warm_up=10, learning_rate=0.5, decay=0.25, init=W0).fit(X, y)
    for t in (1, 2):
        done = 9 + t
        same = y[:done] == y[done]
        W = W - 0.5 / (1 + 0.25 * t) * gradient(W, X[done], X[:done], same, 10.0, 16)
    np.testing.assert_allclose(hasher.projection_, W, rtol=0, atol=1e-12)


# ---- labels


def test_label_matrix_of_single_labels_is_the_same() -> None:
    X, y = unit_stream(200, classes=4)
    one = MIHash(12, reservoir_size=50, random_state=0).fit(X, y)
    other = MIHash(12, reservoir_size=50, random_state=0).fit(X, np.eye(4, dtype=int)[y])
    np.testing.assert_array_equal(one.projection_, other.projection_)
    np.testing.assert_array_equal(
        other.reservoir_labels_.argmax(axis=1), np.array(one.classes_)[one.reservoir_labels_]
    )


def test_shared_labels_are_related() -> None:
    X, _ = unit_stream(7)
    Y = np.random.default_rng(0).random((7, 3)) > 0.5
    W0 = np.random.default_rng(0).standard_normal((20, 4)) / 5
    hasher = MIHash(4, reservoir_size=50, warm_up=6, init=W0).fit(X, Y)
    expected = W0 - gradient(W0, X[6], X[:6], (Y[:6] & Y[6]).any(axis=1), 10.0, 16)
    np.testing.assert_allclose(hasher.projection_, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_bits", [1, 5, 12, 33])
def test_one_class_and_late_classes(n_bits: int) -> None:
    X, y = unit_stream(300)
    hasher = MIHash(n_bits, reservoir_size=40, random_state=0).partial_fit(X[:100], np.zeros(100, int))
    assert np.isfinite(hasher.projection_).all()
    hasher.partial_fit(X[100:], y[100:] + 1)
    assert np.isfinite(hasher.projection_).all()
    assert set(hasher.classes_) == {0, 1, 2, 3, 4, 5}
    assert len(set(hasher.reservoir_labels_.tolist())) == 6


# ---- settings, the contract


def test_divergence_is_undone() -> None:
    X, y = unit_stream(100)
    hasher = MIHash(8, reservoir_size=50, learning_rate=1e308, random_state=0).partial_fit(X[:5], y[:5])
    before = state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="learning_rate"):
        hasher.partial_fit(X[5:], y[5:])
    assert state_of(hasher) == before


@pytest.mark.parametrize("size", [1000, 5000])
def test_from_paper(size: int) -> None:
    hasher = MIHash.from_paper("places205" if size == 5000 else "mnist", 48, random_state=3)
    assert (hasher.n_bits, hasher.reservoir_size, hasher.steepness, hasher.random_state) == (48, size, 10, 3)
    with pytest.raises(ValueError, match="digits"):
        MIHash.from_paper("digits", 32)


@pytest.mark.parametrize(
    "parameters",
    [
        {"reservoir_size": 0},
        {"n_bins": 0},
        {"steepness": 0},
        {"learning_rate": "auto"},
        {"decay": -1},
        {"warm_up": 2000},
        {"warm_up": "some"},
    ],
    ids=str,
)
def test_bad_settings(parameters: dict) -> None:
    X, y = unit_stream(20)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        MIHash(8, **parameters).fit(X, y)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "hasher",
    [
        MIHash(n_bits=16),
        MIHash(n_bits=16, feature_map="center"),
        MIHash(n_bits=13, reservoir_size=40, learning_rate=0.1),
    ],
    ids=repr,
)
def test_contract(hasher: MIHash, check) -> None:
    check(hasher)


def test_contract_with_long_steps_and_a_small_reservoir() -> None:
    reason = "rounding grows to some percent of the bits, in double precision too: see the notes of the class"
    hs.checks.check_hasher(MIHash(n_bits=13, reservoir_size=40), skip={"check_precision": reason})


def test_scale_of_the_features_does_not_matter() -> None:
    """By a power of two, so that nothing is rounded otherwise."""
    X, y = unit_stream(300)
    one, other = (MIHash(12, reservoir_size=50, random_state=0).fit(scale * X, y) for scale in (1, 64))
    assert one.steepness_ == 64 * other.steepness_ == pytest.approx(10)
    np.testing.assert_allclose(one.projection_, other.projection_, rtol=0, atol=1e-12)
    nothing = MIHash(12, reservoir_size=50, random_state=0).fit(0 * X, y)
    assert np.isfinite(nothing.projection_).all()


def test_contract_without_a_compiler(monkeypatch) -> None:
    monkeypatch.setattr(mihash, "KERNEL", {})
    X, y = class_stream(n=200)
    hasher = MIHash(12, reservoir_size=30, random_state=0).fit(X, y)
    assert hasher.version_ == 197
    assert np.isfinite(hasher.decision_function(X)).all()


@parametrize_with_checks([MIHash(n_bits=12, reservoir_size=20, random_state=0)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn(estimator: MIHash, check) -> None:
    check(estimator)
