"""`OnlineHasher.score`: the mAP of `evaluate.retrieval`, each query left out of what it searches."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score

import hashstream as hs
from hashstream.checks import class_stream
from hashstream.hashers import base


def slow_score(hasher: hs.OnlineHasher, X: np.ndarray, y: np.ndarray) -> float:
    """One call of `evaluate.retrieval` per query, without the query in the database."""
    codes, found = hasher.transform(X), []
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        scores = hs.evaluate.retrieval(
            codes[[i]], y[[i]], codes[others], y[others], n_bits=hasher.n_bits_, at=(), radius=(), k=()
        )
        found.append(scores["mAP"])
    return float(np.nanmean(found))


@pytest.mark.parametrize("n_bits", [4, 20, 64])
def test_against_the_evaluation(n_bits: int) -> None:
    X, y = class_stream(n=90, classes=5)
    X[::7] = X[0]  # equal codes
    y[-1] = 99  # a class of one row, which is left out
    hasher = hs.FCOH(n_bits=n_bits, random_state=0).fit(X[:40], y[:40])
    names = np.array([f"class {label}" for label in y])
    assert hasher.score(X, names) == pytest.approx(slow_score(hasher, X, names), rel=1e-12)


def test_label_matrices() -> None:
    X, _ = class_stream(n=60)
    Y = np.random.default_rng(0).random((60, 5)) < 0.2
    Y[:3] = False  # rows without any label set share none, not even with themselves
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(X, Y)
    assert hasher.score(X, Y) == pytest.approx(slow_score(hasher, X, Y), rel=1e-12)
    with pytest.raises(ValueError, match="HCOH takes one label per row, not a matrix"):
        hs.HCOH(n_bits=12, random_state=0).fit(X, np.arange(60) % 4).score(X, Y)


def test_rows_without_a_label_are_left_out() -> None:
    X, y = class_stream(n=90)
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(X, y)
    some = [None if i % 3 == 0 else int(label) for i, label in enumerate(y)]
    kept = np.arange(len(y)) % 3 != 0
    assert hasher.score(X, some) == hasher.score(X[kept], y[kept])


@pytest.mark.parametrize("row", [30, 31], ids=["without a label", "with a label"])
def test_an_error_names_the_row_of_X(row: int) -> None:
    X, y = class_stream(n=90)
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(X, y)
    X[row, 2] = np.nan
    with pytest.raises(ValueError, match=rf"X\[{row}, 2\] is nan"):
        hasher.score(X, [None if i % 3 == 0 else int(label) for i, label in enumerate(y)])


def test_a_method_without_labels_is_judged_by_them() -> None:
    X, y = class_stream(n=60)
    hasher = hs.LSH(n_bits=12, random_state=0).fit(X)
    assert hasher.score(X, y) == pytest.approx(slow_score(hasher, X, y), rel=1e-12)
    with pytest.raises(ValueError, match=r"LSH.score requires y"):
        hasher.score(X)


@pytest.mark.parametrize("y", [np.arange(20), [None] * 20], ids=["all differ", "all missing"])
def test_nothing_to_find(y) -> None:
    X, labels = class_stream(n=20)
    hasher = hs.FCOH(n_bits=12, random_state=0).fit(X, labels)
    with pytest.raises(ValueError, match="no two rows that share a label"):
        hasher.score(X, y)


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample is the same for every hasher and call, close to the whole, and bounds what is encoded."""
    X, y = class_stream(n=1200, classes=8)
    hashers = [hs.FCOH(n_bits=16, random_state=seed).fit(X, y) for seed in range(2)]
    whole = [hasher.score(X, y) for hasher in hashers]
    monkeypatch.setattr(base, "SCORED_ROWS", 300)
    rows: list[np.ndarray] = []
    encode = hs.hashers.Encoder.encode
    monkeypatch.setattr(hs.hashers.Encoder, "encode", lambda self, X: rows.append(X) or encode(self, X))
    scores = [hasher.score(X, y) for hasher in (*hashers, hashers[0])]
    assert scores[0] == scores[2] != scores[1]
    assert scores[:2] == pytest.approx(whole, abs=0.03)
    assert {len(some) for some in rows} == {300}
    assert all(np.array_equal(some, rows[0]) for some in rows)


def test_scikit_learn_chooses_the_number_of_bits() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    search = GridSearchCV(hs.FCOH(random_state=0), {"n_bits": [2, 32]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"n_bits": 32}
    few, many = search.cv_results_["mean_test_score"]
    assert 0 < few < many < 1
    assert search.best_estimator_.transform(X).shape == (600, 4)
    learned = cross_val_score(hs.FCOH(32, random_state=0), X, y, cv=3).mean()
    assert learned == many > cross_val_score(hs.LSH(32, random_state=0), X, y, cv=3).mean() + 0.1
