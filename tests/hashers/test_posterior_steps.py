"""The steps of PosteriorHash, each against a direct computation of what it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from threadpoolctl import threadpool_limits

import hashstream as hs
from hashstream.hashers import posterior_steps as steps
from hashstream.hashers.kernels import posterior as kernels
from hashstream.hashers.posterior_functions import _dither_directions
from hashstream.hashers.posterior_steps import Discriminant, Map, Sums


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in a hasher; small products are faster so, too."""
    with threadpool_limits(1, user_api="blas"):
        yield


# ---- 1. the map


def cloud(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Correlated rows, far from the origin."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / np.sqrt(d) + 3


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (-2.5, 100.0), (1e30, 0.0), (1e-30, 0.0), (1e150, -1e150)])
def test_scale_and_offset_of_the_features_do_not_matter(a: float, b: float) -> None:
    X = cloud(200, 10)
    one, other = (Map.draw(rows, 20, np.random.default_rng(0)) for rows in (X, a * X + b))
    Y = one.rows(X)
    np.testing.assert_allclose(other.rows(a * X + b), np.sign(a) * Y, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), np.sqrt(10))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_size_have_the_same_length(dtype) -> None:
    X = cloud(100, 7).astype(dtype)
    drawn = Map.draw(X, 5, np.random.default_rng(0))
    largest, tiny = np.finfo(dtype).max, np.finfo(dtype).tiny
    rows = np.array([[1e30] * 7, [-1e30] * 7, [1e-30] * 7, [0] * 7, [largest] * 7, [-largest] * 7], dtype)
    Y = drawn.rows(np.concatenate([rows, drawn.origin[None]]))
    np.testing.assert_allclose(np.linalg.norm(Y[:-1], axis=1), np.sqrt(7), rtol=1e-5)
    np.testing.assert_allclose(Y[0], -Y[1], rtol=1e-5)
    assert not Y[-1].any()  # a row at the origin has no direction
    centred = Map(np.zeros(7, dtype), None, None, drawn.directions)
    for size in (1e-30, 1e30, tiny, largest / 8):
        Y = centred.rows((X * dtype(size / 16)).astype(dtype))
        np.testing.assert_allclose(np.linalg.norm(Y, axis=1), np.sqrt(7), rtol=1e-5)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    X = cloud(60, 33).astype(np.float32)
    drawn = Map.draw(X, 5, np.random.default_rng(0))
    beside = np.concatenate([X, drawn.origin[None], np.full((1, 33), 1e38, np.float32)])
    assert np.array_equal(drawn.rows(beside)[:60], drawn.rows(X))


@pytest.mark.parametrize("d", [1, 128, 129, 1600])
def test_shapes_of_the_map(d: int) -> None:
    X = np.random.default_rng(0).standard_normal((90, d)).astype(np.float32)
    drawn = Map.draw(X, 30, np.random.default_rng(0))
    linear = 1024 if d > 1536 else d
    assert (drawn.reduction is None, drawn.basis is None) == (d <= 1536, d <= 128)
    assert drawn.size == linear + 30
    Y = drawn.rows(X)
    S = drawn.coordinates(Y)
    Z = drawn.features(Y, extra=3)
    assert Z.shape == (93, drawn.size)
    assert Z.dtype == np.float32
    assert np.array_equal(Z[:90, :linear], Y)
    np.testing.assert_allclose(Z[:90, linear:], np.maximum(S @ drawn.directions, 0))
    np.testing.assert_allclose(np.linalg.norm(drawn.directions, axis=0), 1, rtol=1e-5)
    for part in (drawn.reduction, drawn.basis):
        if part is not None:
            np.testing.assert_allclose(part.T @ part, np.eye(part.shape[1]), atol=1e-4)


def test_constant_features() -> None:
    X = cloud(50, 6)
    X[:, 2] = 7.5
    drawn = Map.draw(X, 8, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.rows(X)[:, 2], 0, atol=1e-12)
    assert np.isfinite(drawn.directions).all()
    same = Map.draw(np.full((50, 200), 2.0), 8, np.random.default_rng(0))
    assert np.isfinite(same.features(same.rows(X[:, :1] * np.ones(200)))).all()


@pytest.mark.parametrize(("n", "d"), [(300, 20), (15, 40), (1, 5)])
def test_principal_directions(n: int, d: int) -> None:
    Y = cloud(n, d) * np.linspace(1, 4, d)
    P = steps.principal(Y, 6)
    np.testing.assert_allclose(P.T @ P, np.eye(P.shape[1]), atol=1e-9)
    if n > 1:
        expected = np.linalg.svd(Y - Y.mean(axis=0))[2][:6].T
        np.testing.assert_allclose(np.abs(np.sum(P * expected, axis=0)), 1, atol=1e-8)


# ---- 2. the model


def labelled(
    n: int = 120, m: int = 9, classes: int = 5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows Z, class numbers of which the last has no row, and weights of 1, 1 / 2 and 1 / 3."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(classes - 1, size=n)
    Z = 2 * rng.standard_normal((classes, m))[numbers] + rng.standard_normal((n, m))
    return Z, numbers, 1 / rng.integers(1, 4, size=n)


def summed(
    Z: np.ndarray, numbers: np.ndarray, weights: np.ndarray, classes: int, start: Sums | None = None
) -> Sums:
    room = np.concatenate([Z, np.full((len(np.unique(numbers)), Z.shape[1]), np.nan, Z.dtype)])
    return (start or Sums.empty(Z.shape[1], Z.dtype)).plus_rows(room, numbers, weights, classes)


def direct(
    Z: np.ndarray, numbers: np.ndarray, weights: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n_c, mu_c and Sw by their definitions."""
    n, means = np.zeros(classes), np.zeros((classes, Z.shape[1]))
    scatter = np.zeros((Z.shape[1], Z.shape[1]))
    for c in range(classes):
        rows, w = Z[numbers == c], weights[numbers == c]
        if len(rows):
            n[c], means[c] = w.sum(), w @ rows / w.sum()
            scatter += (rows - means[c]).T @ np.diag(w) @ (rows - means[c])
    return n, means, scatter


def same(sums: Sums, other: tuple[np.ndarray, np.ndarray, np.ndarray] | Sums, rtol: float = 1e-11) -> None:
    if isinstance(other, Sums):
        other = other.weights, other.means, other.matrix()
    np.testing.assert_allclose(sums.weights, other[0], rtol=rtol)
    np.testing.assert_allclose(sums.means, other[1], rtol=0, atol=rtol * np.abs(other[1]).max())
    lower = np.tril(other[2])
    np.testing.assert_allclose(np.tril(sums.matrix()), lower, rtol=0, atol=rtol * np.abs(lower).max())


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 1e-5)])
@pytest.mark.parametrize("size", [1, 7, 50, 120])
def test_sums_by_their_definition_in_any_blocks_and_order(dtype, rtol: float, size: int) -> None:
    Z, numbers, weights = labelled()
    expected = direct(Z, numbers, weights, 5)
    order = np.random.default_rng(1).permutation(120)
    for rows in (np.arange(120), order, np.argsort(numbers)):
        sums = Sums.empty(9, np.dtype(dtype))
        for start in range(0, 120, size):
            part = rows[start : start + size]
            sums = summed(Z[part].astype(dtype), numbers[part], weights[part], 5, sums)
        assert sums.means.dtype == sums.scatter.dtype == dtype
        same(sums, expected, rtol)


def test_sums_of_more_classes_than_before() -> None:
    Z, numbers, weights = labelled()
    order = np.argsort(numbers, kind="stable")
    Z, numbers, weights = Z[order], numbers[order], weights[order]
    sums = Sums.empty(9, np.dtype(float))
    for c in range(4):
        part = numbers == c
        sums = summed(Z[part], numbers[part], weights[part], c + 1, sums)
    same(sums.grown(5), direct(Z, numbers, weights, 5))


def test_sums_add_up() -> None:
    Z, numbers, weights = labelled()
    whole = direct(Z, numbers, weights, 5)
    for cut in (0, 1, 40, 119):
        first = summed(Z[:cut], numbers[:cut], weights[:cut], 5)
        second = summed(Z[cut:], numbers[cut:], weights[cut:], 5)
        same(first.plus(second, np.arange(5), 5), whole)
    turned = np.array([3, 0, 4, 1])  # class i of the other is turned[i] here
    other = summed(Z[40:], np.argsort(turned)[numbers[40:] % 4], weights[40:], 4)
    mine = summed(Z[:40], numbers[:40], weights[:40], 4)
    both = np.concatenate([numbers[:40], turned[np.argsort(turned)[numbers[40:] % 4]]])
    same(mine.plus(other, turned, 5), direct(Z, both, weights, 5))


def test_faded_sums() -> None:
    Z, numbers, weights = labelled()
    sums = summed(Z, numbers, weights, 5)
    same(sums.faded(0.5), direct(Z, numbers, weights / 2, 5))  # no class falls below a weight of 2
    late = sums.faded(1e-6)
    assert np.array_equal(late.weights, [2, 2, 2, 2, 0])
    assert np.array_equal(late.means, sums.means)
    assert Sums(np.array([0.5, 9.0]), sums.means[:2], sums.scatter).faded(0.1).weights.tolist() == [0.5, 2.0]


# ---- 3. the posterior


@pytest.mark.parametrize(("n", "m", "classes"), [(30, 3, 3), (60, 12, 3), (200, 25, 9), (40, 60, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_refitting_without_the_row(n: int, m: int, classes: int, weighted: bool) -> None:
    Z, numbers, weights = labelled(n, m, classes)
    if not weighted:
        weights = np.ones(n)
    classes -= 1  # the last one has no row
    n_c, means, scatter = direct(Z, numbers, weights, classes)
    found = Discriminant.fit(scatter, means, float(n_c.sum()), 3.0)
    rows = np.flatnonzero(n_c[numbers] > weights * (1 + 1e-9))
    G, within = steps.leave_one_out(found, n_c, Z[rows], numbers[rows], weights[rows])
    np.testing.assert_allclose(within, found.logits(Z[rows]), rtol=1e-9, atol=1e-9 * np.abs(within).max())
    ridge = found.L @ found.L.T - scatter  # with the floor, which depends on the scatter
    squares = np.sum(np.linalg.solve(scatter + ridge, Z[rows].T) * Z[rows].T, axis=0)
    D = -2 / found.freedom * G + squares[:, None]
    for i, row in enumerate(rows):
        others = np.arange(n) != row
        _, means, without = direct(Z[others], numbers[others], weights[others], classes)
        gaps = Z[row] - means
        expected = np.sum(gaps.T * np.linalg.solve(without + ridge, gaps.T), axis=0)
        np.testing.assert_allclose(D[i], expected, rtol=1e-9)


def test_logits_are_those_of_the_gaussian_model() -> None:
    Z, numbers, weights = labelled(classes=4)
    n_c, means, scatter = direct(Z, numbers, weights, 3)
    found = Discriminant.fit(scatter, means, float(n_c.sum()), 10.0)
    freedom = n_c.sum() - 3
    A = (scatter + 10 * np.eye(9)) / freedom
    gaps = Z[:, None] - means
    densities = -0.5 * np.einsum("ncj,jk,nck->nc", gaps, np.linalg.inv(A), gaps)
    np.testing.assert_allclose(steps.softmax(found.logits(Z)), steps.softmax(densities), atol=1e-5)


def test_a_scatter_that_rounding_has_spoilt_is_solved() -> None:
    scatter = np.diag([1e9, 1e9, -1e4])
    found = Discriminant.fit(scatter, np.eye(3), 100.0, 2.0)
    assert np.isfinite(found.W).all()


def test_temperature_against_a_grid() -> None:
    rng = np.random.default_rng(0)
    own = rng.integers(4, size=300)
    for size in (0.1, 1.0, 30.0):
        G = size * (rng.standard_normal((300, 4)) + 2 * np.eye(4)[own])
        grid = np.exp(np.linspace(*np.log(steps.TEMPERATURES), 1000))
        losses = [(logsumexp(tau * G, axis=1) - tau * G[np.arange(300), own]).mean() for tau in grid]
        assert steps.temperature(G, own) == pytest.approx(grid[np.argmin(losses)], rel=0.01)


# ---- 4. the code


def codewords(classes: int, n_bits: int, seed: int = 0) -> np.ndarray:
    rng, T = np.random.default_rng(seed), np.zeros((0, n_bits), np.int8)
    for _ in range(classes):
        T = np.concatenate([T, steps.next_codeword(T, n_bits, rng)[None]])
    return T


def least_distance(T: np.ndarray) -> int:
    distances = (T.shape[1] - T.astype(int) @ T.T.astype(int)) // 2
    return int(distances[~np.eye(len(T), dtype=bool)].min())


@pytest.mark.parametrize(("classes", "n_bits"), [(2, 1), (2, 32), (10, 16), (10, 32), (60, 48), (300, 64)])
def test_codewords_are_far_from_each_other(classes: int, n_bits: int) -> None:
    T = codewords(classes, n_bits)
    assert T.dtype == np.int8
    assert np.isin(T, (-1, 1)).all()
    rng = np.random.default_rng(1)
    random = [least_distance(rng.choice([-1, 1], (classes, n_bits))) for _ in range(20)]
    assert least_distance(T) > np.mean(random) + (0.15 * n_bits if 2 < classes <= 10 else 0)
    if classes == 2:
        assert least_distance(T) == n_bits


def test_a_codeword_beside_thousands() -> None:
    rng = np.random.default_rng(0)
    T = rng.choice(np.array([-1, 1], np.int8), (4000, 32))

    def energy(t: np.ndarray) -> float:
        return float(np.exp(-10 / 32 * (32 - T.astype(int) @ t.astype(int)) / 2).sum())

    chosen = [energy(steps.next_codeword(T, 32, rng)) for _ in range(5)]
    assert max(chosen) < min(energy(t) for t in rng.choice([-1, 1], (200, 32)))


def test_energies_of_flips_without_exponentials() -> None:
    rng = np.random.default_rng(0)
    T = rng.choice([-1.0, 1.0], (300, 32))
    for t in rng.choice([-1.0, 1.0], (5, 32)):
        distance = (32 - T @ t) / 2
        np.testing.assert_allclose(steps._flipped_fast(T, t, distance), steps._flipped(T, t, distance))


def test_dither_is_nearly_the_normal_distribution() -> None:
    a = np.linspace(-6, 6, 2001)
    u = steps.dither(a[:, None], np.ones((1, 1)), np.zeros(1))[:, 0]
    np.testing.assert_allclose(u, 1 - 2 * norm.cdf(a), atol=1e-3)


def test_dither_is_uniform_over_the_stream() -> None:
    S = cloud(4000, 30)
    directions, offsets = _dither_directions(S, np.ones(4000), 16, np.random.default_rng(0))
    a = S @ directions - offsets
    np.testing.assert_allclose(a.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(a.var(axis=0), 1, rtol=1e-3)
    u = np.sort(steps.dither(S, directions, offsets), axis=0)
    assert np.abs(u - np.linspace(-1, 1, 4000)[:, None]).max() < 0.1


def test_mean_bits() -> None:
    T = codewords(4, 12).astype(float)
    G = np.random.default_rng(0).standard_normal((50, 4))
    assert np.array_equal(steps.mean_bits(G, T, 1.0, True), T[G.argmax(axis=1)])
    P = np.exp(2 * G) / np.exp(2 * G).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(steps.mean_bits(2 * G, T, 1.0, False), P @ T)
    np.testing.assert_allclose(
        steps.mean_bits(2 * G, T, steps.gain_of(0.3), False), np.clip(P @ T / 0.4, -1, 1)
    )


def test_expected_distance_is_affine_in_the_probability_of_a_common_class() -> None:
    """Section 4, with signs that are drawn: simplex codewords, Monte Carlo over the signs."""
    T = np.array([[-1, 1, 1, 1], [1, -1, 1, 1], [1, 1, -1, 1], [1, 1, 1, -1]]) * [1, -1, 1, -1]
    T = np.concatenate([T, T, T], axis=1)  # any two of them differ in half of the bits: rho is 0
    assert np.array_equal(T @ T.T, 12 * np.eye(4))
    rng = np.random.default_rng(0)
    P, Q = rng.dirichlet(np.full(4, 0.5), (2, 40))
    draws = 4000
    ones, others = (np.where(rng.random((draws, 40, 12)) < (1 + M @ T) / 2, 1, -1) for M in (P, Q))
    distances = (ones != others).sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(distances, 6 - 6 * np.sum(P * Q, axis=1), atol=5 * np.sqrt(12 / 4 / draws))


def test_sure_rows_have_their_codeword_whatever_the_dither() -> None:
    T = codewords(6, 24).astype(float)
    u = np.random.default_rng(0).uniform(-1, 1, (6, 24))
    assert np.array_equal(np.sign(kernels.diffuse(T, u, steps.feedback(T))), T)


def test_diffused_bits_are_nearer_to_the_mean_distance() -> None:
    """Distances to codewords and to other rows, against those of bits that are drawn one by one."""
    rng = np.random.default_rng(0)
    T = codewords(5, 32).astype(float)
    M, N = rng.dirichlet(np.ones(5), (2, 4000)) @ T
    u, v = rng.uniform(-1, 1, (2, 4000, 32))

    def errors(K: np.ndarray) -> tuple[float, float]:
        s, t = (np.where(kernels.diffuse(mean, dither, K) > 0, 1, -1) for mean, dither in ((M, u), (N, v)))
        return float(np.std((s - M) @ T.T)), float(np.std(np.sum(s * t - M * N, axis=1)))

    diffused, drawn = errors(steps.feedback(T)), errors(np.zeros((32, 32)))
    assert diffused[0] < 0.5 * drawn[0]
    assert diffused[1] < drawn[1]


# ---- the kernel


@pytest.mark.skipif(not kernels.KERNEL, reason="installed without a C compiler: only the twin is there")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("r", [1, 2, 7, 32, 65, 128])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 32, 33, 200])
def test_kernel_equals_twin(dtype, n: int, r: int) -> None:
    rng = np.random.default_rng(n + r)
    T = codewords(6, r)
    M = (rng.dirichlet(np.full(6, 0.3), n) @ T).astype(dtype)
    u = rng.uniform(-1, 1, (n, r)).astype(dtype)
    K = steps.feedback(T)
    before = M.copy(), u.copy()
    values, expected = kernels.compiled_diffuse(M, u, K), kernels.twin_diffuse(M, u, K)
    assert values.dtype == expected.dtype == dtype
    # A value so near to 0 that rounding decides its sign changes all bits after it.
    sure = np.abs(expected).min(axis=1, initial=1) > (1e-9 if dtype is np.float64 else 1e-3)
    assert sure.sum() >= 0.7 * n
    np.testing.assert_allclose(
        values[sure], expected[sure], rtol=0, atol=1e-10 if dtype is np.float64 else 1e-4
    )
    assert np.array_equal(M, before[0])
    assert np.array_equal(u, before[1])


@pytest.mark.skipif(not kernels.KERNEL, reason="installed without a C compiler: only the twin is there")
def test_kernel_refuses_shapes() -> None:
    M, K = np.zeros((5, 8)), np.zeros((8, 8))
    for u in (np.zeros((5, 7)), np.zeros((6, 8)), np.zeros((2, 5, 8))):
        with pytest.raises(ValueError):
            kernels.compiled_diffuse(M, u, K)
    with pytest.raises(ValueError, match="u must be"):
        kernels.compiled_diffuse(M[:1], np.zeros((5, 8)), K)
    for other in (K[:7], K[:, :7], K[0], np.zeros((9, 9))):
        with pytest.raises(ValueError, match="K must be"):
            kernels.compiled_diffuse(M, M, other)


def test_kernel_reads_arrays_of_any_layout() -> None:
    rng = np.random.default_rng(0)
    T = codewords(3, 10)
    M, u, K = rng.dirichlet(np.ones(3), 20) @ T, rng.uniform(-1, 1, (20, 10)), steps.feedback(T)
    expected = kernels.diffuse(M, u, K)
    for order in (np.asfortranarray, lambda array: np.repeat(array, 2, axis=1)[:, ::2]):
        assert np.array_equal(kernels.diffuse(order(M), order(u), order(K)), expected)


def test_the_twin_serves_where_there_is_no_kernel(monkeypatch) -> None:
    X, y = hs.checks.class_stream(n=200)
    ours = hs.PosteriorHash(16, width=20, random_state=0).fit(X, y)
    monkeypatch.setattr(kernels, "KERNEL", {})
    twin = hs.PosteriorHash(16, width=20, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), twin.decision_function(X), atol=1e-6)


# ---- 5. the choice of settings


def test_score_of_codes_against_retrieval() -> None:
    rng = np.random.default_rng(0)
    codes, asked = rng.integers(0, 2, (80, 7)), rng.integers(0, 2, (30, 7))
    labels, questions = rng.integers(4, size=80), rng.integers(5, size=30)  # nothing is of class 4
    D = (asked[:, None] != codes).sum(axis=2)
    score = steps._code_score(D, questions[:, None] == labels, 7)
    some = questions < 4
    found = hs.evaluate.retrieval(
        np.packbits(asked[some], axis=1),
        questions[some],
        np.packbits(codes, axis=1),
        labels,
        k=3,
        n_bits=7,
    )
    assert score == pytest.approx(found["mAP"] + found["precision@3"] + found["precision@H2"] / 2, abs=1e-12)


def test_score_of_codes_over_all_orders_of_ties() -> None:
    D, relevant = np.array([1, 0, 1, 1, 2, 4]), np.array([True, False, True, False, True, True])
    scores = []
    for order in map(list, permutations(range(6))):
        if (np.diff(D[order]) >= 0).all():
            hits = relevant[order]
            precisions = np.cumsum(hits) / np.arange(1, 7)
            scores.append(precisions[hits].mean() + hits[:3].mean() + relevant[D <= 2].mean() / 2)
    assert len(scores) == 6
    assert steps._code_score(D[None], relevant[None], 5) == pytest.approx(np.mean(scores))


def test_score_without_anything_to_find() -> None:
    assert steps._code_score(np.zeros((3, 4), int), np.zeros((3, 4), bool), 8) == 0


def test_ranking_is_mean_average_precision() -> None:
    rng = np.random.default_rng(0)
    own = rng.integers(3, size=41)
    P, Q = rng.dirichlet(np.ones(3), (2, 41))
    values = []
    for i in range(41):
        others = np.arange(41)[(i + 1) % 2 :: 2]
        ranked = others[np.argsort(-(Q[others] @ P[i]), kind="stable")]
        values.append(hs.evaluate.average_precision((own[ranked] == own[i])[None])[0])
    assert steps._ranking(P, Q, own) == pytest.approx(np.mean(values))


@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_the_chosen_rounding_is_the_best(noise: float) -> None:
    """Scores of all roundings by `retrieval`, of rows that were not learned."""
    rng = np.random.default_rng(0)
    own, T = rng.integers(6, size=400), codewords(6, 16)
    G = 3 * np.eye(6)[own] + noise * rng.standard_normal((400, 6))
    u = rng.uniform(-1, 1, (400, 16))
    chosen = steps.choose_rounding(G, G, own, np.zeros(400, bool), T, u, 0.0, rng)

    def score(rounding: tuple[float, float]) -> float:
        t, lo = rounding
        means = steps.mean_bits(G if np.isinf(t) else t * G, T.astype(float), steps.gain_of(lo), np.isinf(t))
        bits = kernels.diffuse(means, u, steps.feedback(T)) > 0
        codes = np.packbits(bits, axis=1)
        total = 0.0
        for a, b in ((0, 1), (1, 0)):
            found = hs.evaluate.retrieval(codes[a::2], own[a::2], codes[b::2], own[b::2], k=3)
            total += (found["mAP"] + found["precision@3"] + found["precision@H2"] / 2) / 2
        return total

    scores = [score(rounding) for rounding in steps.ROUNDINGS]
    assert len(set(np.round(scores, 6))) > 5
    assert scores[steps.ROUNDINGS.index(chosen)] >= max(scores) - steps.TOLERANCE


@pytest.mark.parametrize(
    ("right", "wrong_labels", "found"),
    [
        (0.99, 0.0, False),
        (0.5, 0.0, False),
        (0.95, 0.2, True),
        (0.95, 0.4, True),
        (0.5, 0.2, False),
        (0.95, 0.7, True),
    ],
)
def test_wrong_labels_are_told_from_hard_classes(right: float, wrong_labels: float, found: bool) -> None:
    """Predictions are right with probability `right`, and the more certain ones always."""
    rng = np.random.default_rng(0)
    n, classes = 1000, 10
    true = rng.integers(classes, size=n)
    certain = rng.random(n)
    predicted = np.where(certain < 1 - right, (true + rng.integers(1, classes, n)) % classes, true)
    G = 8 * certain[:, None] * np.eye(classes)[predicted]
    own = np.where(rng.random(n) < wrong_labels, (true + rng.integers(1, classes, n)) % classes, true)
    assert steps.mislabelled(G, own) == found


def test_few_rows_or_one_class_take_the_usual_settings() -> None:
    Z, numbers, weights = labelled(n=15, classes=4)
    _, means, scatter = direct(Z, numbers, weights, 3)

    def fit(ridge: float) -> Discriminant:
        return Discriminant.fit(scatter, means, 15.0, ridge)

    sample = (Z, numbers, weights)
    found = steps.choose(
        fit, np.ones(3), codewords(3, 8), sample, np.zeros((15, 8)), 0.5, np.random.default_rng(0)
    )
    assert (found.tau, found.rounding) == (1.0, steps.FIRST_ROUNDING)
