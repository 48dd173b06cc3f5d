"""FROSH: the transform, that it is without bias, the error of the sketch, agreement with SketchHash, contract."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import hadamard
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS
from hashstream.hashers.frosh import FROSH, compress, walsh_hadamard
from hashstream.hashers.registry import register
from hashstream.hashers.sketchhash import SketchHash

register(FROSH)


def stream(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows with a falling spectrum, around a mean that is not zero."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (rng.standard_normal((n, d)) * 0.9 ** np.arange(d)) @ turn + 0.7


@pytest.mark.parametrize("q", [1, 2, 4, 32, 64, 512, 2048])
def test_transform_is_the_hadamard_matrix(q: int) -> None:
    A = np.random.default_rng(q).standard_normal((q, 3))
    np.testing.assert_allclose(walsh_hadamard(A), hadamard(q) @ A, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n", [64, 50])
def test_compression_has_no_bias(n: int) -> None:
    """The mean of (Phi A)^T (Phi A) over many draws goes to A^T A, with and without rows of zeros after A."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, 4))
    draws = np.array([(P := compress(A, 10, rng)).T @ P for _ in range(4000)])
    standard_error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - A.T @ A) < 5 * standard_error).all()


def test_all_rows_taken_is_a_rotation() -> None:
    A = np.random.default_rng(0).standard_normal((64, 5))
    P = compress(A, 64, np.random.default_rng(1))
    np.testing.assert_allclose(P.T @ P, A.T @ A, rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [20, 40])
def test_sketch_error(size: int) -> None:
    """Within the bound of frequent directions with one more of the same for the compression, at every seed."""
    X = stream(20_000, 40)
    A = X - X.mean(axis=0)
    for seed in range(5):
        hasher = FROSH(8, sketch_size=size, batch_size=512, random_state=seed).fit(X)
        error = np.linalg.norm(A.T @ A - hasher.sketch_.T @ hasher.sketch_, 2)
        assert error <= 2 * (2 / size) * (A**2).sum()
        np.testing.assert_allclose(hasher.mean_, X.mean(axis=0), atol=1e-10)


def test_error_falls_with_the_number_of_chunks() -> None:
    """Independent transforms: their errors cancel. Relative error of the compression alone, sketch large enough."""
    rng = np.random.default_rng(0)
    A = stream(64 * 256, 6) - 0.7
    errors = []
    for chunks in (4, 64):
        part = A[: chunks * 256]
        exact = part.T @ part
        repeated = []
        for _ in range(20):
            sketched = sum((P := compress(piece, 16, rng)).T @ P for piece in np.split(part, chunks))
            repeated.append(np.linalg.norm(sketched - exact, 2) / np.linalg.norm(exact, 2))
        errors.append(np.mean(repeated))
    assert 2 < errors[0] / errors[1] < 8  # sqrt(64 / 4) = 4


def test_short_chunks_are_inserted_as_they_are() -> None:
    """No more rows than half the sketch: nothing is random, and only the lowering loses anything."""
    X = stream(90, 12)
    hasher = FROSH(4, sketch_size=60, batch_size=30, random_state=0).fit(X)
    A = X - X.mean(axis=0)
    error = np.linalg.eigvalsh(A.T @ A - hasher.sketch_.T @ hasher.sketch_)
    assert error[0] > -1e-9
    assert error[-1] <= hasher.sketch_lost_ + 1e-9


def test_agrees_with_sketchhash_on_digits() -> None:
    X, y = load_digits(return_X_y=True)
    scores: dict[type, list[float]] = {SketchHash: [], FROSH: []}
    for seed in range(6):
        for method, rows in ((SketchHash, 50), (FROSH, 256)):
            hasher = method(16, sketch_size=60, batch_size=rows, random_state=seed)
            codes = hasher.fit(X[:1500]).transform(X)
            scores[method].append(
                hs.evaluate.retrieval(codes[1500:], y[1500:], codes[:1500], y[:1500])["mAP"]
            )
    spread = max(np.std(values) for values in scores.values())
    assert abs(np.mean(scores[FROSH]) - np.mean(scores[SketchHash])) < 2 * spread + 0.01


def test_state() -> None:
    hasher = FROSH(8, sketch_size=20, batch_size=128, random_state=0).fit(stream(1000, 30))
    arrays = {name: value.shape for name, value in vars(hasher).items() if isinstance(value, np.ndarray)}
    assert arrays == {"projection_": (30, 8), "mean_": (30,), "sketch_": (10, 30), "sketch_squares_": (10,)}


@pytest.mark.parametrize(("n_bits", "d"), [(1, 5), (7, 5), (50, 30), (130, 20)])
def test_any_number_of_bits(n_bits: int, d: int) -> None:
    hasher = FROSH(n_bits, sketch_size=8, batch_size=64, random_state=0).fit(stream(200, d))
    assert np.isfinite(hasher.projection_).all()
    assert hasher.projection_.shape == (d, n_bits)


def test_features_without_bounds_raise_and_change_nothing() -> None:
    X = stream(300, 10)
    hasher = FROSH(8, sketch_size=20, random_state=0).fit(X)
    before = hs.checks.state_of(hasher)
    with pytest.raises(hs.DivergenceError, match="too large"):
        hasher.partial_fit(1e200 * X)
    assert hs.checks.state_of(hasher) == before


@pytest.mark.parametrize(("dataset", "size"), [("mnist", 200), ("cifar10", 100), ("places205", 200)])
def test_paper_settings(dataset: str, size: int) -> None:
    assert FROSH.from_paper(dataset, 24).sketch_size == size
    with pytest.raises(ValueError, match="mnist, cifar10, places205"):
        FROSH.from_paper("imagenet", 24)


@pytest.mark.parametrize(
    "parameters", [{"sketch_size": 7}, {"sketch_size": 0}, {"init": np.eye(3)}, {"batch_size": 0}], ids=str
)
def test_bad_settings(parameters: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        FROSH(8, **parameters).fit(stream(20, 6))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "hasher", [FROSH(n_bits=12), FROSH(n_bits=5, sketch_size=16, batch_size=32)], ids=repr
)
def test_contract(hasher: hs.OnlineHasher, check) -> None:
    check(hasher)


@parametrize_with_checks([FROSH(n_bits=12, random_state=0)])
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)
