"""Every method, in every form worth the name, against our own contract and scikit-learn's."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import hashstream as hs
from hashstream.checks import CHECKS, check_hasher, class_stream
from hashstream.hashers import FCOH_C, FCOH_S

HASHERS = [
    hs.LSH(n_bits=12),
    hs.FCOH(n_bits=12),
    hs.FCOH(n_bits=16, learning_rate=1e-4, lambda2=0.01),
    FCOH_S(n_bits=16),
    FCOH_C(n_bits=16),
    hs.FCOH(n_bits=16, feature_map="center"),
    hs.FCOH(n_bits=16, feature_map=hs.features.RBFAnchors(20)),
]

EXPECTED_FAILURES: dict[str, dict[str, str]] = {}
"""Class name -> scikit-learn check -> the reason why it cannot apply. None is needed so far."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("hasher", HASHERS, ids=repr)
def test_contract(hasher: hs.OnlineHasher, check) -> None:
    check(hasher)


@parametrize_with_checks(
    [
        hs.LSH(n_bits=12, random_state=0),
        hs.FCOH(n_bits=12, random_state=0),
        FCOH_C(n_bits=9, random_state=0),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)


@pytest.mark.parametrize("name", sorted(hs.methods()))
def test_every_method_is_checked(name: str) -> None:
    """A method's own test file puts it through the contract and through scikit-learn's checks."""
    module = hs.methods()[name].__module__.split(".")[-1]
    own = Path(__file__).with_name(f"test_{module}.py")
    text = own.read_text() if own.exists() else ""
    checked = ("check_hasher" in text or "CHECKS" in text) and "parametrize_with_checks" in text
    assert checked or any(type(hasher).__name__ == name for hasher in HASHERS)


class Sloppy(hs.LSH):
    """Breaks the contract in one way at a time."""

    def __init__(self, n_bits=8, *, fault="", batch_size=100, init=None, feature_map=None, random_state=None):
        super().__init__(
            n_bits, batch_size=batch_size, init=init, feature_map=feature_map, random_state=random_state
        )
        self.fault = fault

    def _start(self, X):
        super()._start(X)
        self.kept_ = []

    def _initial_projection(self, d):
        return (
            np.zeros((d, self.n_bits)) if self.fault == "starts at zero" else super()._initial_projection(d)
        )

    def _learn(self, X, labels):
        if self.fault == "grows":
            self.kept_ = [*self.kept_, X.copy()]
        elif self.fault == "keeps a view":
            self.kept_ = [X]
        elif self.fault == "moves in silence":
            self.projection_ = self.projection_ * -1
        elif self.fault == "writes in place":
            self.projection_ += 1
        elif self.fault == "single precision":
            self.projection_ = self.projection_.astype(np.float32)
        elif self.fault == "corrects nothing":
            self.projection_ = self.projection_ + 0.1 * X[labels.ids[labels.rank] == 0].sum(axis=0)[:, None]
            return 1
        elif self.fault == "global random state":
            np.random.rand()  # noqa: NPY002
        return 0

    def _project(self, X):
        if self.fault == "single precision":
            X = X.astype(np.float32)
        if self.fault == "looks sideways":
            X = X - X.mean(axis=0)
        return super()._project(X)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("grows", "check_bounded_state"),
        ("keeps a view", "check_no_shared_state"),
        ("moves in silence", "check_version"),
        ("single precision", "check_precision"),
        ("global random state", "check_reproducible"),
        ("looks sideways", "check_codes"),
        ("writes in place", "check_undo"),
        ("corrects nothing", "check_relabelled"),
        ("starts at zero", "check_started"),
    ],
)
def test_a_broken_method_is_caught(fault: str, check: str) -> None:
    """The checks can fail: each fault is named by the check that is there for it."""
    others = {c.__name__: "not what this test is about" for c in CHECKS if c.__name__ != check}
    check_hasher(Sloppy(fault=""), skip=others)
    with pytest.raises(AssertionError, match=check):
        check_hasher(Sloppy(fault=fault), skip=others)


def test_an_unregistered_method_is_told_to_register() -> None:
    with pytest.raises(AssertionError, match="register"):
        check_hasher(Sloppy())


def test_skips_need_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        check_hasher(hs.LSH(), skip={"check_codes": " "})
    with pytest.raises(ValueError, match="check_codes"):
        check_hasher(hs.LSH(), skip={"check_nothing": "because"})


def test_in_a_pipeline() -> None:
    X, y = class_stream()
    pipeline = make_pipeline(StandardScaler(), hs.FCOH(n_bits=16, random_state=0)).fit(X, y)
    assert pipeline.transform(X).shape == (300, 2)
    assert pipeline[-1].get_feature_names_out().tolist() == ["fcoh0", "fcoh1"]


def test_a_failed_call_puts_everything_back() -> None:
    """A call that fails in its last piece undoes the pieces before it, draws from the generator included."""
    X, y = class_stream(n=200)
    hasher = hs.FCOH(n_bits=16, learning_rate=1e-3, lambda2=0.01, random_state=0, batch_size=50)
    hasher.partial_fit(X[:50] / 10, y[:50])
    before = hs.checks.state_of(hasher)
    exploding = np.concatenate([X[50:100] / 10, X[100:] * 100])
    with pytest.raises(hs.DivergenceError):
        hasher.partial_fit(exploding, y[50:])
    assert hs.checks.state_of(hasher) == before


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_bits": 0},
        {"n_bits": 1025},
        {"n_bits": 8.0},
        {"n_bits": True},
        {"batch_size": 0},
        {"feature_map": "fourier"},
        {"random_state": "seed"},
        {"random_state": -1},
        {"init": np.zeros((3, 3))},
        {"init": np.full((12, 8), np.nan)},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", [hs.LSH, hs.FCOH])
def test_bad_parameters(method, parameters: dict) -> None:
    X, y = class_stream(n=20)
    hasher = method(**{"n_bits": 8, **parameters})
    with pytest.raises(ValueError):
        hasher.fit(X, y)
    assert not hs.checks.state_of(hasher)


def test_n_bits_is_fixed_by_the_first_batch() -> None:
    X, y = class_stream()
    hasher = hs.FCOH(n_bits=8, random_state=0).fit(X, y)
    codes = hasher.transform(X)
    hasher.set_params(n_bits=32)
    assert np.array_equal(hasher.transform(X), codes)
    with pytest.raises(ValueError, match="n_bits is 32 now"):
        hasher.partial_fit(X, y)
    assert hasher.fit(X, y).transform(X).shape == (300, 4)


def test_one_transform_has_one_version() -> None:
    """Codes of one call come from one W, whatever another thread learns meanwhile."""
    X, y = class_stream(n=400)
    many = np.tile(X, (200, 1)).astype(np.float32)
    hasher = hs.FCOH(n_bits=16, random_state=0).fit(X.astype(np.float32), y)
    stop = threading.Event()

    def learn() -> None:
        while not stop.is_set():
            hasher.partial_fit(X.astype(np.float32), y)

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(5):
            codes = hasher.transform(many).reshape(200, 400, 2)
            assert (codes == codes[0]).all()
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X.tolist(),
        lambda X: np.asfortranarray(X),
        lambda X: X[:, ::-1][:, ::-1],
        lambda X: X.astype(">f8"),
        lambda X: pd.DataFrame(X, columns=["dtype", *map(str, range(11))]),
        lambda X: np.ma.masked_array(X),
    ],
    ids=["list", "Fortran", "strides", "big-endian", "data frame", "masked"],
)
def test_kinds_of_arrays(make) -> None:
    X, y = class_stream()
    expected = hs.FCOH(n_bits=16, random_state=0).fit(X, y)
    hasher = hs.FCOH(n_bits=16, random_state=0).fit(make(X), y)
    np.testing.assert_allclose(hasher.decision_function(make(X)), expected.decision_function(X), atol=1e-9)
    assert np.array_equal(hasher.transform(make(X)), expected.transform(X))


def test_numbers_that_overflow_in_single_precision_are_refused() -> None:
    X, y = class_stream()
    hasher = hs.FCOH(n_bits=16, random_state=0).fit(X.astype(np.float32), y)
    for encode in (hasher.transform, hasher.decision_function):
        with pytest.raises(ValueError, match="infinity"):
            encode(X * 1e39)
