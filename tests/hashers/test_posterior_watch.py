"""The watch of PosteriorHash: sudden and slow change is noticed, and nothing else is taken for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hashstream as hs
from hashstream import PosteriorHash
from hashstream.datasets import Stream
from hashstream.hashers.posterior_steps import Map, Sums
from hashstream.hashers.posterior_watch import HORIZONS, NO_TEST, Watch, few_features, usual_mix

SMALL: dict[str, Any] = {"n_bits": 16, "width": 32, "sample_size": 200, "random_state": 0}


def learned(X: np.ndarray, y: np.ndarray, **parameters) -> PosteriorHash:
    return PosteriorHash(**{**SMALL, **parameters}).partial_fit(X, y)


def precision(hasher: hs.OnlineHasher, X: np.ndarray, y: np.ndarray) -> float:
    codes = hasher.transform(X)
    return float(hs.evaluate.retrieval(codes[::4], y[::4], codes, y, n_bits=16)["mAP"])


# ---- sudden change


@pytest.mark.parametrize("before", [3000, 6100])
def test_a_sudden_change_is_noticed_once(before: int) -> None:
    X, y = Stream(before + 4000, 24, 6, spread=1.0).rows(0, before + 4000)
    X[before:] = X[before:, np.random.default_rng(0).permutation(24)]
    hasher = learned(X[:before], y[:before])
    assert hasher.changes_ == 0
    noticed = None
    for start in range(before, before + 4000, 100):
        hasher.partial_fit(X[start : start + 100], y[start : start + 100])
        if hasher.changes_ and noticed is None:
            noticed = start + 100 - before
            assert len(hasher.recent_) <= noticed  # everything but rows since the change is forgotten
            assert len(hasher.sum_scatter_) == len(hasher.sample_) == 0
    assert hasher.changes_ == 1
    assert noticed is not None
    assert noticed <= 600
    total = hasher.sum_weights_.sum() + hasher.unsummed_
    assert 3400 <= total <= 4000
    deaf = learned(X, y, drift=False)
    assert deaf.changes_ == 0
    assert precision(hasher, X[-1000:], y[-1000:]) > precision(deaf, X[-1000:], y[-1000:]) + 0.01


def test_change_is_noticed_again() -> None:
    X, y = Stream(9000, 24, 6, spread=1.0).rows(0, 9000)
    X[3000:6000] = -X[3000:6000, ::-1]
    assert learned(X, y).changes_ == 2


def test_codewords_survive_a_change() -> None:
    X, y = Stream(4500, 24, 6, spread=1.0).rows(0, 4500)
    X[2500:] = X[2500:, ::-1]
    hasher = learned(X[:2500], y[:2500])
    before = hasher.codewords_
    hasher.partial_fit(X[2500:], y[2500:])
    assert hasher.changes_ == 1
    assert np.array_equal(hasher.codewords_, before)


# ---- slow change


def test_slow_drift_shortens_the_horizon() -> None:
    X, y = Stream(16_000, 24, 6, drift=4.0, spread=1.0).rows(0, 16_000)
    hasher, deaf = learned(X, y), learned(X, y, drift=False)
    assert hasher.horizon_ < np.inf
    assert hasher.sum_weights_.sum() < 1.2 * hasher.horizon_ + 500
    assert deaf.horizon_ == np.inf
    assert deaf.sum_weights_.sum() > 15_000
    assert hasher.changes_ == 0
    assert precision(hasher, X[-1000:], y[-1000:]) > precision(deaf, X[-1000:], y[-1000:]) + 0.05


def test_a_class_that_is_not_seen_keeps_its_mean() -> None:
    X, y = Stream(16_000, 24, 6, drift=4.0, spread=1.0).rows(0, 16_000)
    early = learned(X[:1000], y[:1000])
    kept = np.flatnonzero((y != 3) | (np.arange(16_000) < 1000))
    hasher = learned(X[kept], y[kept])
    assert hasher.horizon_ < np.inf
    c = hasher.classes_.index(3)
    assert hasher.sum_weights_[c] == pytest.approx(2.0)
    np.testing.assert_allclose(hasher.sum_means_[c], early.sum_means_[early.classes_.index(3)], atol=1e-5)


# ---- no change


def stationary(seed: int, n: int = 8000, spread: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    return Stream(n, 24, 8, spread=spread, seed=seed).rows(0, n)


@pytest.mark.parametrize("spread", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_false_alarm_on_a_stationary_stream(seed: int, spread: float) -> None:
    hasher = learned(*stationary(seed, spread=spread))
    assert (hasher.changes_, hasher.horizon_) == (0, np.inf)


@pytest.mark.parametrize("order", ["classes in turn", "topics", "bursts", "growing"])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_false_alarm_where_only_the_mix_of_classes_changes(seed: int, order: str) -> None:
    X, y = stationary(seed)
    rng, n = np.random.default_rng(seed), len(y)
    key = {
        "classes in turn": y,
        "topics": (y // 2 + 4 * (np.arange(n) * 5 // n)),  # two classes at a time, five times over
        "bursts": rng.permutation(n // 300 * 8 + 8)[y + 8 * (np.arange(n) // 300)],  # of one class at a time
        "growing": np.where(rng.random(n) < y / 8, 1, 0),  # the last classes come late
    }[order]
    rows = np.argsort(key, kind="stable")
    hasher = learned(X[rows], y[rows])
    assert (hasher.changes_, hasher.horizon_) == (0, np.inf)
    assert hasher.sum_weights_.sum() + hasher.unsummed_ == n


def test_random_labels_are_no_change() -> None:
    X, y = stationary(0, n=6000)
    hasher = learned(X, np.random.default_rng(0).permutation(y))
    assert (hasher.changes_, hasher.horizon_) == (0, np.inf)


# ---- its parts


def mix(weights: np.ndarray, numbers: np.ndarray) -> bool:
    return usual_mix(weights, numbers, np.ones(len(numbers)))


@pytest.mark.parametrize(("classes", "rows"), [(10, 200), (300, 200), (1000, 500)])
def test_a_block_of_one_class_is_not_usual(classes: int, rows: int) -> None:
    """Nor is one of a tenth of the classes; with many classes a sample of all of them is far from even."""
    rng, weights = np.random.default_rng(0), np.full(classes, 50.0)
    assert np.mean([mix(weights, rng.integers(classes, size=rows)) for _ in range(100)]) > 0.95
    assert not mix(weights, np.zeros(rows, int))
    assert not mix(weights, rng.integers(classes // 10, size=rows))


def test_rows_of_several_classes_count_by_their_shares() -> None:
    """Class 0 is always alone, the others always together: copies of these are four for one."""
    weights = np.array([100.0, 25, 25, 25, 25])
    numbers, shares = np.array([0, 1, 2, 3, 4] * 100), np.array([1, 0.25, 0.25, 0.25, 0.25] * 100)
    assert usual_mix(weights, numbers, shares)
    assert not usual_mix(weights, numbers, np.ones(500))


def test_usual_mix() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([4000.0, 3000.0, 2000.0, 1000.0])
    p = weights / weights.sum()
    assert np.mean([mix(weights, rng.choice(4, 500, p=p)) for _ in range(200)]) > 0.98
    assert np.mean([mix(weights, rng.choice(4, 500, p=p[::-1])) for _ in range(20)]) == 0
    assert not mix(weights, np.zeros(500, int))
    assert not mix(weights, np.full(500, 4))  # a class that the stream has not had
    assert not mix(np.zeros(0), np.arange(3))
    assert not mix(weights, np.zeros(0, int))


def test_few_features() -> None:
    rng = np.random.default_rng(0)
    for d, width, expected in ((10, 5, 15), (300, 200, 128), (300, 0, 64)):
        X = rng.standard_normal((100, d))
        drawn = Map.draw(X, width, rng)
        few = few_features(drawn, drawn.rows(X))
        assert few.shape == (100, expected)
        np.testing.assert_allclose(
            few[:, min(d, 64) :], drawn.features(drawn.rows(X))[:, d : d + 64], atol=1e-12
        )


def watched(n: int = 1500, seed: int = 0) -> tuple[Watch, np.ndarray, np.ndarray]:
    """A watch after three blocks, and all rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    Z = 3 * rng.standard_normal((4, 6))[y] + rng.standard_normal((n, 6))
    watch = Watch.empty(6, np.dtype(float))
    for start in range(0, n, 500):
        part = slice(start, start + 500)
        watch, wrong = watch.test(Z[part], y[part])
        watch = watch.learn(Z[part], y[part], np.ones(500), 4, wrong, True)
    return watch, Z, y


def test_horizons_fade_as_they_say() -> None:
    watch, Z, y = watched()
    for h, sums in zip(HORIZONS, watch.sums, strict=True):
        weights = np.exp(-(2 - np.arange(1500) // 500) * 500 / h)
        np.testing.assert_allclose(sums.weights, np.bincount(y, weights))
        means = [weights[y == c] @ Z[y == c] / weights[y == c].sum() for c in range(4)]
        np.testing.assert_allclose(sums.means, means, atol=1e-9)


def test_rows_of_known_classes_are_tested() -> None:
    watch, Z, y = watched()
    after, wrong = watch.test(Z[:50], y[:50])
    assert set(wrong) <= {0, 1}
    assert np.mean(wrong) < 0.2
    assert after.block.shape == (5, 5)
    _, wrong = watch.test(Z[:50], np.full(50, 4))
    assert (wrong == NO_TEST).all()
    _, wrong = Watch.empty(6, np.dtype(float)).test(Z[:50], y[:50])
    assert (wrong == NO_TEST).all()
    mixed = np.where(np.arange(50) < 20, 7, y[:50])
    _, wrong = watch.test(Z[:50], mixed)
    assert (wrong[:20] == NO_TEST).all()
    assert (wrong[20:] != NO_TEST).all()


def test_suspects_are_the_rows_since_the_errors_began() -> None:
    watch, _, _ = watched()
    wrong = np.zeros(800, np.int8)
    assert watch.suspects(wrong) == 0
    wrong[450:] = 1
    assert watch.suspects(wrong) == 350
    assert watch.suspects(wrong[:600]) == 0  # only 150 rows
    assert watch.suspects(np.full(800, NO_TEST, np.int8)) == 0


def test_rows_that_the_old_rule_cannot_predict_are_a_change_only_where_a_new_rule_can() -> None:
    watch, Z, y = watched()
    rows, ones = Z[:400], np.ones(400)
    _, right = watch.test(rows, y[:400])
    assert not watch.changed(rows, y[:400], ones, right)
    _, wrong = watch.test(-rows, y[:400])
    assert watch.changed(-rows, y[:400], ones, wrong)
    noise = np.random.default_rng(0).standard_normal(rows.shape)
    _, wrong = watch.test(noise, y[:400])
    assert not watch.changed(noise, y[:400], ones, wrong)


def test_a_watch_is_made_again_from_its_sums() -> None:
    watch, Z, y = watched()
    sums = tuple(Sums(one.weights, one.means, one.scatter) for one in watch.sums)
    again = Watch.of(sums, watch.lost, watch.block, watch.wrong, watch.tested, watch.horizon)
    assert np.array_equal(again.known, watch.known)
    for (W, offsets), (V, others) in zip(again.rules, watch.rules, strict=True):
        assert np.array_equal(W, V)
        assert np.array_equal(offsets, others)
    assert np.array_equal(again.test(Z, y)[1], watch.test(Z, y)[1])
