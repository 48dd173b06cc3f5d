"""PosteriorHash along a stream: quality, order, versions, saving, encoders and tables."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from posterior_cases import X, Y, digits, precision, small
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.table.filled_table import as_if_killed

import hashstream as hs
from hashstream import PosteriorHash
from hashstream.checks import CHECKS, check_hasher, class_stream, state_of
from hashstream.hashers.posterior_functions import Functions, Snapshot
from hashstream.hashers.serialization import encoder_from_bytes, encoder_to_bytes, from_bytes, to_bytes


def digits_score(hasher: hs.OnlineHasher, order: Any = slice(None)) -> float:
    rows, labels = digits()
    train = rows[:1400], labels[:1400]
    hasher.partial_fit(train[0][order], train[1][order])
    return precision(hasher, train, (rows[1400:], labels[1400:]))


# ---- the contract


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "hasher",
    [
        PosteriorHash(12, width=64),
        PosteriorHash(9, width=0, openness=0, drift=False, sample_size=50),
    ],
    ids=["usual", "linear"],
)
def test_contract(hasher: hs.OnlineHasher, check) -> None:
    check(hasher)


def test_contract_with_a_sample() -> None:
    skip = {
        "check_bounded_state": "recent rows are at most 1,000, and fewer when it looks first",
        "check_threads": "its rows have other features than the sample",
    }
    check_hasher(PosteriorHash(16, width=8, sample=X[:300], batch_size=37), skip=skip)


@parametrize_with_checks([PosteriorHash(12, width=32, random_state=0)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn(estimator: hs.OnlineHasher, check) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "parameters",
    [
        {"width": -1}, {"width": 8193}, {"width": 2.5}, {"sample_size": 49}, {"openness": -0.1},
        {"openness": np.inf}, {"drift": "yes"}, {"drift": None}, {"sample": "rows"},
    ],
    ids=str,
)  # fmt: skip
def test_bad_parameters(parameters: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        PosteriorHash(8, **parameters).fit(X[:20], Y[:20])


@pytest.mark.parametrize(
    "sample", [X[:, :5], X[0], X[:0], np.full((3, 12), np.nan)], ids=lambda s: str(s.shape)
)
def test_bad_samples(sample: np.ndarray) -> None:
    with pytest.raises(ValueError, match="sample"):
        PosteriorHash(8, width=8, sample=sample).fit(X[:20], Y[:20])


# ---- quality


def test_digits() -> None:
    ours = digits_score(PosteriorHash(32, width=256, random_state=0))
    assert ours > 0.9
    assert ours > digits_score(hs.FCOH(32, random_state=0)) + 0.03
    assert ours > digits_score(hs.LSH(32, random_state=0)) + 0.3


@pytest.mark.parametrize("factor", [1e5, 1e30])
def test_a_row_of_another_size_does_not_move_the_centre(factor: float) -> None:
    rows, labels = digits()
    train = rows[:1400].copy()
    train[10] *= np.float32(factor)
    hasher = PosteriorHash(32, random_state=0).partial_fit(train, labels[:1400])
    assert precision(hasher, (rows[:1400], labels[:1400]), (rows[1400:], labels[1400:])) > 0.95


@pytest.mark.parametrize(("wrong", "least"), [(0.2, 0.93), (0.4, 0.88), (0.6, 0.75)])
def test_wrong_labels_are_not_memorised(wrong: float, least: float) -> None:
    rows, labels = digits()
    rng = np.random.default_rng(0)
    given = np.where(
        rng.random(1400) < wrong, (labels[:1400] + rng.integers(1, 10, 1400)) % 10, labels[:1400]
    )
    hasher = PosteriorHash(32, random_state=0).partial_fit(rows[:1400], given)
    assert precision(hasher, (rows[:1400], labels[:1400]), (rows[1400:], labels[1400:])) > least


@pytest.mark.parametrize("width", [0, 128])
def test_class_by_class_is_close_to_shuffled(width: int) -> None:
    shuffled = digits_score(PosteriorHash(32, width=width, random_state=0))
    in_turn = np.argsort(digits()[1][:1400], kind="stable")
    assert digits_score(PosteriorHash(32, width=width, random_state=0), in_turn) > shuffled - 0.05


def test_sums_do_not_depend_on_the_order() -> None:
    order = np.random.default_rng(0).permutation(2600)
    one = small(sample=X[:300], drift=False).partial_fit(X[:2600], Y[:2600])
    other = small(sample=X[:300], drift=False).partial_fit(X[:2600][order], Y[:2600][order])
    ranks = [other.classes_.index(label) for label in one.classes_]
    assert one.sum_weights_.sum() == other.sum_weights_.sum() == 2600
    np.testing.assert_allclose(one.sum_weights_, other.sum_weights_[ranks])
    np.testing.assert_allclose(one.sum_means_, other.sum_means_[ranks], atol=1e-9)
    np.testing.assert_allclose(one.sum_scatter_, other.sum_scatter_, atol=1e-6)


def test_one_class_gives_codes_of_a_random_projection() -> None:
    hasher = small().partial_fit(X[:200], np.zeros(200))
    found = hasher.settled()
    a = found.functions().map.rows(X) @ found.dither_ - found.dither_offsets_
    assert np.array_equal(hasher.transform(X), np.packbits(a < 0, axis=1))
    random = hs.LSH(16, feature_map="center", random_state=0).partial_fit(X[:200])
    test = X[:200], Y[:200]
    assert precision(hasher, (X, Y), test) > precision(random, (X, Y), test)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows(rows: int) -> None:
    hasher = small().partial_fit(X[:rows], Y[:rows])
    codes = hasher.transform(X[:rows])
    assert codes.shape == (rows, 2)
    assert len(np.unique(codes, axis=0)) == rows
    assert state_of(from_bytes(to_bytes(hasher), "a model")) == state_of(hasher)


def test_equal_rows_are_learned() -> None:
    hasher = small().partial_fit(np.zeros((1300, 5)), np.arange(1300) % 3)
    assert hasher.transform(np.zeros((2, 5))).shape == (2, 2)
    assert np.isfinite(hasher.decision_function(np.ones((2, 5)))).all()


def test_rows_of_any_scale() -> None:
    codes = small().partial_fit(X[:1200], Y[:1200]).transform(X)
    scaled = small().partial_fit(1024 * X[:1200], Y[:1200]).transform(1024 * X)
    assert np.array_equal(codes, scaled)
    huge = small().partial_fit(X[:1200] * 1e300, Y[:1200])
    assert np.mean(np.unpackbits(huge.transform(X * 1e300) ^ codes)) < 0.01


def test_classes_that_come_late() -> None:
    rows, labels = class_stream(n=3000, classes=8)
    early = labels < 6
    hasher = small().partial_fit(rows[early][:1500], labels[early][:1500])
    before = hasher.version_
    late = np.flatnonzero(~early)
    hasher.partial_fit(rows[late[:9]], np.full(9, 6))
    assert hasher.version_ == before
    hasher.partial_fit(rows[late[:1]], [6])  # the tenth row
    assert hasher.version_ == before + 1
    hasher.partial_fit(rows[late[10:300]], labels[late[10:300]])
    found = precision(hasher, (rows, labels), (rows[late[300:]], labels[late[300:]]))
    assert found > 0.8


def test_a_thousand_classes() -> None:
    rows, labels = hs.datasets.Stream(3000, 32, 1000, spread=0.7).rows(0, 3000)
    hasher = PosteriorHash(32, width=32, random_state=0, batch_size=500).partial_fit(rows, labels)
    assert len(hasher.codewords_) == len(hasher.classes_) > 900
    assert hasher.codewords_.all()
    mixed = precision(
        hs.LSH(32, random_state=0).partial_fit(rows, labels), (rows, labels), (rows[:300], labels[:300])
    )
    assert precision(hasher, (rows, labels), (rows[:300], labels[:300])) > mixed + 0.1


# ---- labels


def test_a_row_with_several_labels_counts_in_shares() -> None:
    matrix = np.zeros((1200, 3), int)
    matrix[np.arange(1200), np.arange(1200) % 3] = 1
    matrix[:30] = [1, 1, 0]
    matrix[30:50] = 0
    matrix[50:56] = 1
    rows = X[:1200]
    hasher = small(sample=X[:300], drift=False).partial_fit(rows, matrix)
    hasher.partial_fit(rows, matrix)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    rest = hasher.recent_weights_[len(hasher.recent_) - hasher.unsummed_ :]
    assert hasher.sum_weights_.sum() + rest.sum() == pytest.approx(2 * shares.sum())
    assert set(np.round(np.unique(hasher.sample_weights_), 6)) <= {1.0, 0.5, 0.333333}
    assert hasher.n_seen_ == 2400


def test_indicators_of_one_label_give_the_codes_of_labels() -> None:
    one = small().partial_fit(X[:1700], Y[:1700])
    other = small().partial_fit(X[:1700], np.eye(4, dtype=int)[Y[:1700]])
    assert np.array_equal(one.transform(X), other.transform(X))


@pytest.mark.parametrize("sample", [None, X[:300]], ids=["none", "sample"])
def test_rows_with_no_label_set_are_not_learned(sample) -> None:
    """Before any other row codes are those of a random projection; after it nothing is changed by them."""
    nothing = np.zeros((7, 4), int)
    hasher = small(sample=sample).partial_fit(X[:7], nothing)
    assert len(np.unique(hasher.transform(X[:500]), axis=0)) > 200
    loaded = from_bytes(to_bytes(hasher), "a model")
    assert np.array_equal(loaded.transform(X), hasher.transform(X))
    merged = hasher.copy().merge(loaded)
    assert merged.transform(X[:3]).shape == (3, 2)
    for one in (hasher, loaded, merged):
        one.partial_fit(X[7:400], np.eye(4, dtype=int)[Y[7:400]])
    assert np.array_equal(loaded.transform(X), hasher.transform(X))
    codes, version = hasher.transform(X), hasher.version_
    hasher.partial_fit(X[:7], nothing)
    assert hasher.version_ == version
    assert np.array_equal(hasher.transform(X), codes)


def test_unlabelled_rows_are_ignored() -> None:
    labels = Y[:1800].astype(object)
    labels[::3] = None
    known = np.flatnonzero(np.arange(1800) % 3)
    one = small().partial_fit(X[:1800], labels)
    other = small().partial_fit(X[known], Y[known])
    assert np.array_equal(one.transform(X), other.transform(X))


# ---- versions


def test_functions_change_a_logarithmic_number_of_times() -> None:
    rows, labels = hs.datasets.Stream(16_000, 16, 5).rows(0, 16_000)
    hasher, versions = small(), []
    for end in (2000, 4000, 8000, 16_000):
        start = hasher.n_seen_ if versions else 0
        hasher.partial_fit(rows[start:end], labels[start:end])
        versions.append(hasher.version_)
    added = np.diff(versions)
    assert (added >= 2).all()
    assert (added <= 4).all()  # log(2) / log(1.25) = 3.1 for each time that the stream doubles
    assert hasher.horizon_ == np.inf


def test_codes_are_the_same_whenever_they_are_asked_for() -> None:
    asked, not_asked = small(), small()
    for start in range(0, 4000, 250):
        rows = slice(start, start + 250)
        asked.partial_fit(X[rows], Y[rows]).transform(X[:3])
        not_asked.partial_fit(X[rows], Y[rows])
    assert state_of(asked) == state_of(not_asked)
    again = small().partial_fit(X, Y)
    assert np.array_equal(again.transform(X), asked.transform(X))
    other = small(random_state=1).partial_fit(X, Y)
    assert not np.array_equal(other.transform(X), asked.transform(X))


def test_functions_are_computed_once_by_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher, calls, compute = small().partial_fit(X, Y), [], Snapshot.functions
    together = Barrier(4)

    def counted(snapshot: Snapshot) -> Functions:
        calls.append(snapshot)
        time.sleep(0.05)  # the others ask meanwhile
        return compute(snapshot)

    def encoded(view: PosteriorHash) -> np.ndarray:
        together.wait()
        return view.transform(X[:50])

    monkeypatch.setattr(Snapshot, "functions", counted)
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(encoded, [hasher] * 4))
    assert len(calls) == 1
    for other in codes[1:]:
        np.testing.assert_array_equal(other, codes[0])


def test_an_encoder_stays_as_it_was() -> None:
    hasher = small().partial_fit(X[:1100], Y[:1100])
    copy, encoder, expected = hasher.copy(), hasher.encoder(), hasher.transform(X)
    late = small().partial_fit(X[:1100], Y[:1100]).copy()  # its functions are computed after the other learns
    values = hasher.decision_function(X)
    hasher.partial_fit(X[1100:], Y[1100:])
    assert not np.array_equal(hasher.decision_function(X), values)
    assert np.array_equal(encoder.encode(X), expected)
    assert np.array_equal(copy.transform(X), expected)
    assert np.array_equal(late.transform(X), expected)


@pytest.mark.parametrize("d", [12, 150, 1600])
@pytest.mark.parametrize("rows", [40, 1500])
def test_a_loaded_encoder_gives_the_same_values_to_the_last_bit(d: int, rows: int) -> None:
    """Arrays in another order would round products in another way."""
    X, Y = class_stream(n=rows, d=d)
    encoder = small().partial_fit(X, Y).encoder()
    loaded = encoder_from_bytes(encoder_to_bytes(encoder), "functions")
    for some in (X[:1], X[:9], X[:40]):
        assert np.array_equal(encoder.decision_function(some), loaded.decision_function(some))


def test_many_features_are_saved_before_the_map_is_drawn(tmp_path: Path) -> None:
    X, Y = class_stream(n=60, d=1600)
    hasher = small().partial_fit(X, Y)
    loaded = from_bytes(to_bytes(hasher), "a model")
    assert np.array_equal(loaded.decision_function(X), hasher.decision_function(X))
    with hs.HashTable.open(tmp_path / "t", small()) as table:
        table.ingest(range(60), X, Y)
        assert len(table) == 60


def test_an_encoder_is_small() -> None:
    hasher = PosteriorHash(16, width=256, random_state=0).partial_fit(X[:2000], Y[:2000])
    encoder = encoder_to_bytes(hasher.encoder())
    assert len(encoder) < 60_000 < len(to_bytes(hasher)) / 4
    model = vars(hasher.encoder().model)
    assert not {"sum_scatter_", "sum_means_", "sample_", "recent_", "codewords_", "rng_"} & model.keys()
    assert np.array_equal(from_bytes(encoder, "an encoder").transform(X), hasher.transform(X))


def test_openness_softens_codes() -> None:
    """Codes that are softer take more values, and are better for classes that were never taught."""
    rows, labels = digits()
    taught = labels < 6
    counts, found = [], []
    for openness in (0.0, 20.0):
        hasher = PosteriorHash(32, width=64, openness=openness, random_state=0)
        hasher.partial_fit(rows[taught], labels[taught])
        counts.append(len(np.unique(hasher.transform(rows), axis=0)))
        new = rows[~taught], labels[~taught]
        found.append(precision(hasher, new, new))
    assert counts[1] > counts[0]
    assert found[1] > found[0]


# ---- saving


def moved(n: int = 2600) -> np.ndarray:
    """Rows whose features are in another order from row 1,500 on."""
    return np.concatenate([X[:1500], X[1500:n, ::-1]])


STAGES = {
    "one row": 1,
    "before the map": 999,
    "with the map": 1000,
    "not summed": 1230,
    "with tests": 1500,
    "after a change": 2100,
    "after both": 2500,
}


@pytest.mark.thinned("values")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("parameters", [{}, {"width": 0}, {"drift": False}, {"sample": X[:200]}], ids=str)
def test_it_goes_on_from_a_file_bit_for_bit(stage: str, parameters: dict) -> None:
    rows, n = moved(), STAGES[stage]
    hasher = small(**parameters).partial_fit(rows[:n], Y[:n])
    if stage.startswith("after") and parameters.get("drift", True):
        assert hasher.changes_ == 1
    loaded = from_bytes(to_bytes(hasher), "a model")
    assert state_of(loaded) == state_of(hasher)
    assert np.array_equal(loaded.transform(rows), hasher.transform(rows))
    assert loaded.horizon_ == hasher.horizon_
    for one in (loaded, hasher):
        one.partial_fit(rows[n:], Y[n : len(rows)])
    assert state_of(loaded) == state_of(hasher)
    assert np.array_equal(loaded.transform(rows), hasher.transform(rows))


# ---- in a table


def test_a_table_comes_back_to_the_bit(tmp_path: Path) -> None:
    """Closed and opened, and as a killed process leaves it: the log is learned again, through the map and a change."""
    rows = moved()
    hasher = small()
    alone = small()
    table = hs.HashTable.open(tmp_path / "t", hasher, checkpoint_rows=1 << 30)
    for start in range(0, 1200, 200):
        part = slice(start, start + 200)
        table.ingest(range(start, start + 200), rows[part], Y[part])
        alone.partial_fit(rows[part], Y[part])
    table.close()
    table = hs.HashTable.open(tmp_path / "t", checkpoint_rows=1 << 30)
    assert state_of(table.hasher) == state_of(alone)
    for start in range(1200, 2600, 200):
        part = slice(start, start + 200)
        table.ingest(range(start, start + 200), rows[part], Y[part])
        alone.partial_fit(rows[part], Y[part])
    assert alone.changes_ == 1
    held = table.get(np.arange(2600))
    with hs.HashTable.open(as_if_killed(table, tmp_path / "t", tmp_path / "killed")) as again:
        assert state_of(again.hasher) == state_of(alone)
        assert again.get(np.arange(2600)).codes.tobytes() == held.codes.tobytes()
        assert again.get(np.arange(2600)).versions.tolist() == held.versions.tolist()
        assert again.check()["rows"] == 2600
