"""FCOH: the equations, the kernel and its twin, the variants, labels of several kinds."""

from __future__ import annotations

import signal
from functools import cache
from types import FrameType

import numpy as np
import pytest
import slow_fcoh
from sklearn.datasets import load_digits

import hashstream as hs
from hashstream.hashers import FCOH_C, FCOH_S
from hashstream.hashers.fcoh_literal import LiteralFCOH
from hashstream.hashers.fcoh_steps import Batch, Rate, distinct_rows
from hashstream.hashers.kernels import fcoh
from hashstream.hashers.kernels.fcoh import take_steps


def unit_stream(n: int, d: int = 20, classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Centred unit-length rows of Gaussian classes, shuffled."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((classes, d))[y] + rng.standard_normal((n, d))
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def first_projection(d: int, r: int, seed: int = 1) -> np.ndarray:
    W = np.random.default_rng(seed).standard_normal((d, r))
    return W / np.linalg.norm(W, axis=0)


# ---- the equations


@pytest.mark.parametrize("scale", ["none", "class", "batch", "bits"])
@pytest.mark.parametrize("n_bits", [3, 8, 40])
def test_equals_the_literal_equations(scale: str, n_bits: int) -> None:
    X, y = unit_stream(330)
    W0 = first_projection(20, n_bits)
    mu, lambda1, lambda2 = 0.002, 0.1, 0.02
    literal = LiteralFCOH(W0, mu, lambda1, lambda2, scale)
    ours = hs.FCOH(
        n_bits,
        learning_rate=mu,
        lambda1=lambda1,
        lambda2=lambda2,
        gradient_scale=scale,
        batch_size=60,
        init=W0,
    )
    for start in range(0, 330, 60):  # the last batch is short
        literal.partial_fit(X[start : start + 60], y[start : start + 60])
        ours.partial_fit(X[start : start + 60], y[start : start + 60])
    np.testing.assert_allclose(ours.projection_, literal.W, rtol=0, atol=1e-10)
    assert np.array_equal(ours.transform(X), np.packbits(X @ literal.W > 0, axis=1))
    for c, mean in literal.means.items():
        number = ours.classes_.index(c)
        np.testing.assert_allclose(ours.class_means_[number], mean, atol=1e-12)
        assert ours.class_counts_[number] == literal.counts[c]


@pytest.mark.parametrize("class_wise", [True, False])
def test_equals_the_loops_over_pairs(class_wise: bool) -> None:
    X, y = unit_stream(48, d=6, classes=3)
    Y = np.eye(3, dtype=bool)[y]
    W0 = first_projection(6, 7)
    batches = [(X[s : s + 16], Y[s : s + 16]) for s in range(0, 48, 16)]
    expected = slow_fcoh.learn(W0, batches, 0.01, 0.1, 0.03, class_wise)
    method = hs.FCOH if class_wise else FCOH_S
    ours = method(7, learning_rate=0.01, lambda1=0.1, lambda2=0.03, batch_size=16, init=W0).fit(X, y)
    np.testing.assert_allclose(ours.projection_, expected, rtol=0, atol=1e-10)


def test_class_wise_and_batch_wise_differ_only_in_second_order() -> None:
    """FCOH_S is the sum of the class gradients at one W: the difference falls with the square of mu."""
    X, y = unit_stream(60)
    W0 = first_projection(20, 8)

    def difference(mu: float) -> float:
        settings = {"learning_rate": mu, "lambda1": 0.1, "lambda2": 0.01, "init": W0}
        one, other = (method(8, **settings).fit(X, y) for method in (hs.FCOH, FCOH_S))
        return float(np.abs(one.projection_ - other.projection_).max())

    assert 50 < difference(1e-5) / difference(1e-6) < 200


@pytest.mark.parametrize("seed", range(3))
def test_discrete_variant_equals_its_definition(seed: int) -> None:
    X, y = unit_stream(40, d=9, classes=3, seed=seed)
    W = W0 = first_projection(9, 6, seed)
    for c in range(3):
        W = slow_fcoh.discrete_step(W, X, y, c, 0.1, 0.02, nu=2.0, ridge=10.0, sweeps=3)
    ours = FCOH_C(6, lambda1=0.1, lambda2=0.02, fit_weight=2.0, ridge=10.0, init=W0)
    np.testing.assert_allclose(ours.fit(X, y).projection_, W, rtol=0, atol=1e-10)


# ---- the kernel and its twin


@pytest.mark.skipif(not fcoh.KERNEL, reason="installed without a C compiler: only the twin is there")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize("class_wise", [True, False])
@pytest.mark.parametrize(
    ("n", "classes", "n_bits", "absent"), [(1, 1, 5, 0), (40, 6, 13, 2), (90, 40, 32, 0), (33, 3, 70, 4)]
)
def test_kernel_equals_twin(monkeypatch, dtype, automatic, class_wise, n, classes, n_bits, absent) -> None:
    rng = np.random.default_rng(n)
    counts = 1 + rng.multinomial(n - classes, np.full(classes, 1 / classes))
    Z = rng.standard_normal((n + classes + absent, 25)).astype(dtype)
    if n > 1:
        Z[0] = 0  # a row without direction must do no harm

    def run() -> tuple[np.ndarray, np.ndarray, Rate]:
        batch = Batch(
            K=Z @ Z.T,
            P=Z @ first_projection(25, n_bits).astype(dtype),
            first=np.concatenate([[0], np.cumsum(counts)]),
            similar=np.linspace(0.05, 0.1, classes),
            dissimilar=np.linspace(0.02, 0.2, classes),
            center_weight=float(automatic),
            class_wise=class_wise,
            passes=2,
        )
        rate = Rate(automatic, 1.0 if automatic else 1e-5)
        return take_steps(batch, rate), batch.P, rate

    C, P, rate = run()
    monkeypatch.setattr(fcoh, "KERNEL", {})
    twin_C, twin_P, twin_rate = run()
    tolerance = 1e-9 if dtype is np.float64 else 2e-3
    np.testing.assert_allclose(C, twin_C, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(P, twin_P, rtol=tolerance, atol=tolerance)
    assert rate.taken == twin_rate.taken
    np.testing.assert_allclose(rate.curvature, twin_rate.curvature, rtol=1e-3)
    assert C.any()


# ---- the step that scales itself


@cache
def shuffled_digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@pytest.fixture
def digits() -> tuple[np.ndarray, np.ndarray]:
    return shuffled_digits()


def retrieval(hasher: hs.OnlineHasher, X: np.ndarray, y: np.ndarray) -> float:
    """mAP of the last 297 digits against the 1,500 before them."""
    codes = hasher.transform(X)
    return hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500], n_bits=hasher.n_bits)["mAP"]


@cache
def floor(n_bits: int, centred: bool = False) -> float:
    """mAP of random projections of the digits; the same for all settings of a method."""
    X, y = shuffled_digits()
    X = X - X.mean(axis=0) if centred else X
    return float(np.mean([retrieval(hs.LSH(n_bits, random_state=s).fit(X), X, y) for s in range(3)]))


LAMBDAS = [
    {},
    {"lambda1": 1e-2, "lambda2": 1e-2},
    {"lambda1": 1e-1, "lambda2": 1e-2},
    {"lambda1": 1e-1, "lambda2": 1e-1},
]
MARGIN = 0.1


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("lambdas", LAMBDAS, ids=str)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("n_bits", [8, 16, 32, 64, 128, 256] if fcoh.KERNEL else [8, 32])
def test_auto_holds_for_all_features(digits, n_bits: int, centred: bool, lambdas: dict) -> None:
    """Clearly better than a random projection of the same features, and the same whatever their scale."""
    X, y = digits
    X = X - X.mean(axis=0) if centred else X
    scores = []
    for scale in (1e-3, 1.0, 1e3):
        hasher = hs.FCOH(n_bits, random_state=0, **lambdas).partial_fit(scale * X[:1500], y[:1500])
        assert np.isfinite(hasher.projection_).all()
        scores.append(retrieval(hasher, scale * X, y))
    assert min(scores) > floor(n_bits, centred) + MARGIN
    assert max(scores) - min(scores) < 0.02


@pytest.mark.thinned("pairs")
@pytest.mark.parametrize("lambdas", LAMBDAS, ids=str)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 500, 2000])
def test_auto_holds_for_all_batches(digits, rows: int, centred: bool, lambdas: dict) -> None:
    X, y = digits
    X = X - X.mean(axis=0) if centred else X
    for n_bits in (8, 64):
        hasher = hs.FCOH(n_bits, batch_size=rows, random_state=0, **lambdas).fit(X[:1500], y[:1500])
        assert np.isfinite(hasher.projection_).all()
        assert retrieval(hasher, X, y) > floor(n_bits, centred) + MARGIN


def test_auto_learns_from_one_class_at_a_time(digits) -> None:
    """Batches of a single class hold no dissimilar pair; the means of the other classes stand in for them."""
    X, y = digits
    rng = np.random.default_rng(0)
    hasher = hs.FCOH(32, random_state=0)
    for batch in range(70):
        rows = rng.choice(np.flatnonzero(y[:1500] == batch % 10), size=20, replace=False)
        hasher.partial_fit(X[rows], y[rows])
    assert retrieval(hasher, X, y) > floor(32) + MARGIN


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            lambda X: np.concatenate([np.zeros((1, 64)), 1000 * X[1:]]), id="zero first row, large scale"
        ),
        pytest.param(lambda X: np.concatenate([np.zeros((150, 64)), 1000 * X[150:]]), id="zero first batch"),
        pytest.param(lambda X: np.concatenate([1e4 * X[:1], X[1:]]), id="outlier first row"),
        pytest.param(lambda X: (X + 10_000).astype(int), id="integers far from zero"),
        pytest.param(lambda X: X.astype(np.float32) * np.float32(1e15), id="huge"),
    ],
)
def test_auto_bears_a_bad_start(digits, spoil) -> None:
    X, y = digits
    spoilt = spoil(X)
    hasher = hs.FCOH(32, random_state=0).fit(spoilt[:1500], y[:1500])
    codes = hasher.transform(spoilt)
    score = hs.evaluate.retrieval(codes[1500:], y[1500:], codes[200:1500], y[200:1500])["mAP"]
    assert score > floor(32) + MARGIN


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_auto_takes_any_scale_of_init(digits, scale: float) -> None:
    X, y = digits
    hasher = hs.FCOH(32, init=scale * first_projection(64, 32)).fit(X[:1500], y[:1500])
    assert retrieval(hasher, X, y) > 0.6


def test_auto_with_lambdas_beyond_the_precision_raises() -> None:
    X, y = unit_stream(50)
    with pytest.raises(hs.DivergenceError, match="smaller lambda1"):
        hs.FCOH(8, lambda1=1e308, lambda2=1e308, random_state=0).fit(X, y)


def test_a_batch_without_any_label_moves_nothing_but_the_mean() -> None:
    X, Y = label_stream(40)
    for method in (hs.FCOH, FCOH_S, FCOH_C):
        hasher = method(8, random_state=0).fit(X, Y)
        before = hasher.iterate_
        hasher.partial_fit(X, np.zeros_like(Y))
        assert np.array_equal(hasher.iterate_, before)


def test_constant_features_do_no_harm() -> None:
    X = np.ones((50, 4))
    hasher = hs.FCOH(8, random_state=0).fit(X, np.arange(50) % 3)
    assert np.isfinite(hasher.projection_).all()
    assert np.isfinite(hs.FCOH(8, random_state=0).fit(0 * X, np.arange(50) % 3).projection_).all()


# ---- divergence


def test_too_large_a_rate_raises_and_changes_nothing() -> None:
    """The paper's text for MNIST: mu = 0.1 with the printed sums runs away on centred unit-length pixels."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=400)
    pixels = np.maximum(rng.standard_normal((10, 784))[y] + 0.5 * rng.standard_normal((400, 784)), 0)
    X = pixels - pixels.mean(axis=0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    hasher = hs.FCOH(32, learning_rate=0.1, lambda1=0.1, lambda2=0.01, gradient_scale="none", random_state=0)
    with pytest.raises(hs.DivergenceError, match=r"learning_rate=0\.1 is too large"):
        hasher.fit(X, y)
    assert not hs.checks.state_of(hasher)

    learned = hs.FCOH(32, learning_rate=1e-4, lambda1=0.1, lambda2=0.01, random_state=0).fit(X[:100], y[:100])
    learned.set_params(learning_rate=0.1)
    before, codes = hs.checks.state_of(learned), learned.transform(X)
    with pytest.raises(hs.DivergenceError):
        learned.partial_fit(X[100:], y[100:])
    assert hs.checks.state_of(learned) == before
    assert np.array_equal(learned.transform(X), codes)
    learned.set_params(learning_rate=1e-4).partial_fit(X[100:], y[100:])
    assert np.isfinite(learned.projection_).all()


def test_overflow_is_divergence_not_a_warning() -> None:
    X, y = unit_stream(40)
    with pytest.raises(hs.DivergenceError):
        hs.FCOH(8, learning_rate=1e300, lambda2=0.1, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("dataset", "scale", "mu"),
    [("mnist", "bits", 0.1), ("cifar10", "none", 0.01), ("places205", "none", 1e-4)],
)
def test_the_paper_s_text_gives_mu(dataset: str, scale: str, mu: float) -> None:
    hasher = hs.FCOH.from_paper(dataset, 32)
    assert (hasher.gradient_scale, hasher.learning_rate) == (scale, mu)
    assert hs.FCOH.from_paper(dataset, 32, learning_rate=0.5).learning_rate == 0.5


@pytest.mark.parametrize(
    ("dataset", "n_bits"),
    [(dataset, bits) for dataset in ("mnist", "places205") for bits in (8, 32, 128)]
    + [("cifar10", 8), ("cifar10", 32)],
)
def test_paper_settings_stay_finite(dataset: str, n_bits: int) -> None:
    X, y = unit_stream(2000, d=128, classes=205 if dataset == "places205" else 10)
    hasher = hs.FCOH.from_paper(dataset, n_bits, random_state=0).fit(X, y)
    assert np.isfinite(hasher.projection_).all()
    with pytest.raises(ValueError, match="mnist, cifar10, places205"):
        hs.FCOH.from_paper("imagenet", n_bits)


def test_the_printed_equations_may_diverge_with_long_codes() -> None:
    """On the CIFAR-10 features they do not; on these rows they do."""
    X, y = unit_stream(2000, d=128, classes=10)
    with pytest.raises(hs.DivergenceError, match='learning_rate="auto"'):
        hs.FCOH.from_paper("cifar10", 128, random_state=0).fit(X, y)


# ---- several labels a row


def label_stream(n: int, d: int = 24, labels: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with one to three labels; a row is the mean of its labels' directions, and noise."""
    rng = np.random.default_rng(seed)
    directions = 3 * rng.standard_normal((labels, d))
    Y = np.zeros((n, labels), int)
    for row, k in zip(Y, rng.integers(1, 4, size=n), strict=True):
        row[rng.choice(labels, size=k, replace=False)] = 1
    X = Y @ directions / Y.sum(axis=1, keepdims=True) + rng.standard_normal((n, d))
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), Y


@pytest.mark.parametrize("class_wise", [True, False])
def test_multilabel_equals_its_definition(class_wise: bool) -> None:
    X, Y = label_stream(36, d=6, labels=4)
    Y[5] = 0  # a row without any label is dissimilar to all
    W0 = first_projection(6, 5)
    batches = [(X[s : s + 12], Y[s : s + 12].astype(bool)) for s in range(0, 36, 12)]
    expected = slow_fcoh.learn(W0, batches, 0.01, 0.1, 0.03, class_wise)
    method = hs.FCOH if class_wise else FCOH_S
    ours = method(5, learning_rate=0.01, lambda1=0.1, lambda2=0.03, batch_size=12, init=W0).fit(X, Y)
    np.testing.assert_allclose(ours.projection_, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("method", "settings"), [(hs.FCOH, {"learning_rate": 1e-3}), (hs.FCOH, {}), (FCOH_S, {}), (FCOH_C, {})]
)
@pytest.mark.parametrize("kernel", [True, False])
def test_one_label_per_row_is_the_single_label_path(
    monkeypatch, method, settings: dict, kernel: bool
) -> None:
    """Also through the steps of the multi-label path itself, which a batch of single labels would not take."""
    X, y = unit_stream(300)
    Y = np.eye(5, dtype=int)[y]
    single = method(16, random_state=0, **settings).fit(X, y)
    assert single.classes_ == list(range(5))
    if not kernel:
        monkeypatch.setattr(hs.FCOH, "_single_labels", staticmethod(lambda labels: labels))
    matrix = method(16, random_state=0, **settings).fit(X, Y)
    np.testing.assert_allclose(matrix.projection_, single.projection_, rtol=0, atol=1e-9)


def test_multilabel_stream_is_learned() -> None:
    """Rows that share labels come to share bits: held-out rows are ranked far closer to perfectly."""
    X, Y = label_stream(2400)
    learned = hs.FCOH(32, random_state=0).partial_fit(X[:2000], Y[:2000])
    scores = {}
    for name, hasher in (("learned", learned), ("random", hs.LSH(32, random_state=0).fit(X))):
        codes = hasher.transform(X)
        scores[name] = hs.evaluate.retrieval(codes[2000:], Y[2000:], codes[:2000], Y[:2000])
    assert 1 - scores["learned"]["mAP"] < 0.6 * (1 - scores["random"]["mAP"])
    assert 1 - scores["learned"]["nDCG"] < 0.75 * (1 - scores["random"]["nDCG"])


def test_label_kinds_do_not_mix() -> None:
    X, Y = label_stream(50)
    hasher = hs.FCOH(8, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="one label per row"):
        hasher.partial_fit(X, np.zeros(50, int))
    with pytest.raises(ValueError, match="7 columns"):
        hasher.partial_fit(X, Y[:, :7])
    bad = Y.copy()
    bad[3, 1] = 2
    with pytest.raises(ValueError, match=r"y\[3, 1\]"):
        hasher.partial_fit(X, bad)


# ---- state


def test_state_is_projections_means_and_counts() -> None:
    """What is kept: W (twice with "auto"), a mean and a count for each class, the stream's mean, a few numbers."""
    X, y = unit_stream(500, d=30, classes=7)
    hasher = hs.FCOH(16, random_state=0).fit(X, y)
    arrays = {name: value.shape for name, value in vars(hasher).items() if isinstance(value, np.ndarray)}
    assert arrays == {"projection_": (30, 16), "iterate_": (30, 16), "mean_": (30,), "class_counts_": (7,)}
    assert hasher.class_means_.shape == (7, 30)
    assert all(row.base is None for row in hasher.mean_rows_)


def test_many_absent_classes_stand_in_by_a_bounded_draw() -> None:
    X, y = unit_stream(600, d=12, classes=300)
    hasher = hs.FCOH(8, random_state=0).fit(X, y)
    rows = hasher._stack(X[:2], hasher.label_book_.read(y[:2])[1])
    assert len(rows.absent) == 100
    assert not set(rows.absent) & set(rows.classes)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (hs.FCOH, {"learning_rate": 0}),
        (hs.FCOH, {"learning_rate": "fast"}),
        (hs.FCOH, {"learning_rate": np.nan}),
        (hs.FCOH, {"lambda1": -1}),
        (hs.FCOH, {"lambda2": "some"}),
        (hs.FCOH, {"gradient_scale": "rows"}),
        (hs.FCOH, {"passes": 0}),
        (hs.FCOH, {"passes": 2**64}),
        (hs.FCOH, {"horizon": 0}),
        (FCOH_S, {"passes": 0}),
        (FCOH_C, {"lambda1": -1}),
        (FCOH_C, {"sweeps": 0}),
        (FCOH_C, {"fit_weight": 0}),
        (FCOH_C, {"ridge": -1}),
    ],
)
def test_bad_settings(method: type[hs.FCOH], parameters: dict) -> None:
    X, y = unit_stream(20)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        method(8, **parameters).fit(X, y)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (40, 2), (60, 9), (200, 17)])
def test_distinct_rows_are_those_of_numpy(shape: tuple[int, int]) -> None:
    for seed in range(5):
        rows = np.random.default_rng(seed).random(shape) < 0.3
        distinct, which = distinct_rows(rows)
        expected, inverse = np.unique(rows, axis=0, return_inverse=True)
        np.testing.assert_array_equal(distinct, expected)
        np.testing.assert_array_equal(which, inverse.ravel())


def test_an_interrupt_while_labels_are_grouped_stays_one() -> None:
    """NumPy's own np.unique(axis=0) makes a TypeError of one in twelve."""
    rows = np.random.default_rng(0).random((50, 5)) < 0.5
    rng = np.random.default_rng(1)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def group() -> None:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 3e-4))
        while True:
            distinct_rows(rows)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(300):
            with pytest.raises(KeyboardInterrupt):
                group()
    finally:
        signal.signal(signal.SIGALRM, before)
