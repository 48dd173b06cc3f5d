"""PosteriorHash, labels corrected and taken back while it keeps all rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.hashers.posterior_cases import digits, precision, small

import hashstream as hs
from hashstream.checks import class_stream, state_of
from hashstream.hashers.serialization import from_bytes, to_bytes

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # feature maps that are warmed up on few rows


def none(n: int) -> np.ndarray:
    return np.full(n, None, object)


def learned(X: np.ndarray, y: np.ndarray, size: int = 130, **parameters) -> hs.PosteriorHash:
    hasher = small(**parameters)
    for start in range(0, len(X), size):
        hasher.partial_fit(X[start : start + size], y[start : start + size])
    return hasher


def state_without_version(hasher: hs.OnlineHasher) -> dict:
    return {**state_of(hasher), "version_": None}


@pytest.mark.thinned("values")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feature_map", [None, "center", hs.features.RBFAnchors(40)], ids=str)
def test_as_if_the_labels_had_been_right(feature_map, dtype) -> None:
    """Bit for bit, with the random state, and also what is learned afterwards, past the first 1,000 rows."""
    X, y = class_stream(1400, d=20, classes=6)
    X = X.astype(dtype)
    rng = np.random.default_rng(1)
    wrong = y.copy()
    rows = 20 + rng.permutation(780)[:160]
    wrong[rows] = (wrong[rows] + rng.integers(1, 6, len(rows))) % 6
    hasher, right = (learned(X[:800], labels[:800], feature_map=feature_map) for labels in (wrong, y))
    before, rows = hasher, rng.permutation(rows)
    while len(rows):
        some, rows = np.split(rows, [rng.integers(1, 31)])
        hasher = hasher.relabelled(X[some], wrong[some], y[some])
    assert not np.array_equal(before.transform(X), right.transform(X))
    assert state_without_version(hasher) == state_without_version(right)
    assert hasher.version_ > before.version_
    for one in (hasher, right):
        one.partial_fit(X[800:], y[800:])
    assert state_without_version(hasher) == state_without_version(right)
    assert not hasher.can_correct()


@pytest.mark.thinned(5)
@pytest.mark.parametrize("seed", range(12))
def test_random_streams(seed: int) -> None:
    """Learned, corrected and taken back in any order, saved in between: the rows are those that were left, and so are
    the functions, once both have changed after the same rows."""
    rng = np.random.default_rng(seed)
    X, y = class_stream(700, d=8, classes=3, seed=seed)
    X = X.astype(rng.choice(["float32", "float64"]))
    order = np.append(np.arange(3), 3 + rng.permutation(397))
    labels = {row: int(y[row]) for row in range(3)}  # the classes come in one order
    hasher = small(batch_size=int(rng.integers(1, 60))).partial_fit(X[order[:3]], y[order[:3]])
    at = 3
    while at < len(order):
        some = order[at : at + rng.integers(1, 40)]
        at += len(some)
        given = rng.integers(0, 3, len(some))
        hasher.partial_fit(X[some], given)
        labels |= dict(zip(some.tolist(), given.tolist(), strict=True))
        rows = rng.permutation([row for row in labels if row >= 3])[: rng.integers(0, 20)]
        if len(rows):
            old = np.array([labels[row] for row in rows])
            new = np.where(rng.random(len(rows)) < 0.4, np.nan, rng.integers(0, 3, len(rows)))
            hasher = hasher.relabelled(X[rows], old, new)
            for row, label in zip(rows.tolist(), new.tolist(), strict=True):
                labels[row] = int(label) if label == label else -1
            labels = {row: label for row, label in labels.items() if label >= 0}
        if rng.random() < 0.3:
            hasher = from_bytes(to_bytes(hasher), "bytes")
    rows, final = list(labels), np.array(list(labels.values()))
    right = small(batch_size=hasher.batch_size).partial_fit(X[rows], final)
    assert np.array_equal(hasher.recent_, X[rows])
    assert np.array_equal(hasher.recent_numbers_, final)
    assert (hasher.n_seen_, hasher.can_correct()) == (len(rows), True)
    assert np.array_equal(hasher.codewords_, right.codewords_)
    for one in (hasher, right):
        one.batch_size = 300
        one.partial_fit(X[400:], y[400:])
    assert state_without_version(hasher) == state_without_version(right)


def test_a_row_since_the_last_functions_changes_no_code() -> None:
    X, y = class_stream(120)
    hasher = learned(X[:110], y[:110], size=100)
    after = hasher.relabelled(X[104:106], y[104:106], np.array([y[105], None], object))
    assert after.version_ == hasher.version_
    assert np.array_equal(after.decision_function(X), hasher.decision_function(X))
    assert np.array_equal(np.delete(hasher.recent_, 105, axis=0), after.recent_)


def test_a_wrong_class_leaves_nothing_behind_but_its_name() -> None:
    """Codes are those without it, bit for bit, although it stays in `classes_`."""
    rows, y = digits()
    X = rows[:90]
    names = np.array(list("abcdefghij"), object)[y[:90]]
    right = small().partial_fit(X, names)
    hasher = right.copy()
    for i in range(3):
        hasher.partial_fit(rows[100 + i : 101 + i], ["typo"])
    assert not np.array_equal(hasher.transform(rows), right.transform(rows))
    after = hasher.relabelled(rows[100:103], np.full(3, "typo", object), none(3))
    assert np.array_equal(after.transform(rows), right.transform(rows))
    assert after.classes_ == [*right.classes_, "typo"]
    assert not after.codewords_[-1].any()
    after.partial_fit(rows[100:130], ["typo"] * 30)
    assert after.codewords_[-1].all()


def test_few_labels_put_right_are_as_good_as_right_ones() -> None:
    """Also where classes came in another order, and half of the first labels were wrong."""
    X, y = digits()
    wrong = y[:300].copy()
    wrong[:150] = (wrong[:150] * 3 + 1) % 10
    hasher, right = (learned(X[:300], labels, size=10, n_bits=32) for labels in (wrong, y[:300]))
    rows = np.flatnonzero(wrong != y[:300])
    after = hasher.relabelled(X[rows], wrong[rows], y[rows])
    scores = [precision(one, (X[:1000], y[:1000]), (X[1000:], y[1000:])) for one in (hasher, after, right)]
    assert scores[1] > scores[2] - 0.02 > scores[0] + 0.05


def test_label_matrices() -> None:
    """Rows with several labels, with none set, and equal rows."""
    X, y = class_stream(400, classes=5)
    rng = np.random.default_rng(0)
    right = np.zeros((400, 5))
    right[np.arange(400), y] = 1
    right[rng.random((400, 5)) < 0.2] = 1
    X[50:60] = X[40:50]
    wrong = right.copy()
    rows = 20 + rng.permutation(380)[:60]
    wrong[rows] = rng.random((60, 5)) < 0.3
    wrong[rows[:5]] = 0
    hasher = small(batch_size=400).partial_fit(X, wrong)
    new = right[rows]
    new[-20:, 2] = np.nan
    after = hasher.relabelled(X[rows], wrong[rows], new)
    kept = np.setdiff1d(np.arange(400), np.append(rows[:5], rows[-20:]))
    kept = np.append(kept, rows[:5])  # rows that had no label come last
    expected = small(batch_size=400).partial_fit(X[kept], right[kept])
    assert after.n_seen_ == 380
    order, same = (np.lexsort((*one.recent_.T, one.recent_numbers_)) for one in (after, expected))
    for name in ("recent_", "recent_numbers_", "recent_weights_"):
        assert np.array_equal(getattr(after, name)[order], getattr(expected, name)[same])
    assert state_of(from_bytes(to_bytes(after), "bytes")) == state_of(after)
    back = after.relabelled(X[rows[:40]], right[rows[:40]], wrong[rows[:40]])
    assert back.n_seen_ == 380


def test_more_labels_per_row_end_the_first_stage() -> None:
    X, y = class_stream(900, classes=5)
    one = np.eye(5)[y]
    hasher = small().partial_fit(X, one)
    after = hasher.relabelled(X, one, np.ones((900, 5)))
    assert not after.can_correct()
    assert state_of(from_bytes(to_bytes(after), "bytes")) == state_of(after)
    after.partial_fit(X, one).transform(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_in_another_precision_are_found(dtype) -> None:
    X, y = class_stream(200)
    hasher = small().partial_fit(X.astype(dtype), y)
    after = hasher.relabelled(X[:20].astype(np.float32), y[:20], none(20))
    assert after.n_seen_ == 180
    assert np.array_equal(after.recent_, X[20:].astype(dtype))


def test_rows_that_are_not_there_are_learned_in_addition() -> None:
    X, y = class_stream(200)
    hasher = small().partial_fit(X[:100], y[:100])
    assert state_of(hasher.relabelled(X[100:110], y[100:110], none(10))) == state_of(hasher)
    after = hasher.relabelled(X[100:110], y[100:110], y[101:111])
    assert state_of(after) == state_of(hasher.learned(X[100:110], y[101:111]))
    both = hasher.relabelled(X[[7, 150]], y[[7, 150]], y[[8, 151]])
    assert np.array_equal(both.recent_, X[[*range(100), 150]])
    assert both.n_seen_ == 101


def test_so_many_additions_that_rows_are_summed() -> None:
    """Rows of one call that come after that are learned in addition as well."""
    X, y = class_stream(1300)
    hasher = small().partial_fit(X[:950], y[:950])
    rows = np.append(np.arange(950, 1200), np.arange(100))
    after = hasher.relabelled(X[rows], y[rows], (y[rows] + 1) % 4)
    assert not after.can_correct()
    assert after.n_seen_ == 950 + len(rows)


def test_when_rows_are_kept() -> None:
    X, y = class_stream(2500)
    assert not small(sample=X[:100]).can_correct()
    assert not small(sample=X[:100]).partial_fit(X[:10], y[:10]).can_correct()
    hasher = small().partial_fit(X[:999], y[:999])
    assert hasher.can_correct()
    assert not hasher.copy().partial_fit(X[:1], y[:1]).can_correct()
    other = small().partial_fit(X[999:1010], y[999:1010])
    merged = small().partial_fit(X[:500], y[:500]).merge(other)
    assert merged.can_correct()
    assert merged.relabelled(X[999:1010], y[999:1010], none(11)).n_seen_ == 500
    assert not hasher.encoder().model.can_correct()
    changed = small().partial_fit(X, y)
    while not changed.changes_:
        changed.partial_fit(-X[:100], y[:100])
    assert not changed.can_correct()
    assert not small().partial_fit(X[:20], y[:20]).merge(changed).can_correct()
