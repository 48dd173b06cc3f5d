"""The paper's protocol, with small hashers whose codes are known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from hashstream import datasets, evaluate
from hashstream.evaluate import protocols


class Recorder:
    """A random projection to 12 bits that also keeps what it was given; `drift` moves it at each call."""

    n_bits = 12

    def __init__(self, drift: float = 0.0) -> None:
        self.drift, self.pieces, self.rng = drift, [], np.random.default_rng(0)

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        if not self.pieces:
            self.W = self.rng.standard_normal((X.shape[1], 12))
        self.W = self.W + self.drift * self.rng.standard_normal(self.W.shape)
        self.pieces.append((X.copy(), y.copy()))

    def transform(self, X: np.ndarray) -> np.ndarray:
        return np.packbits(X @ self.W > 0, axis=1)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, datasets.Split]:
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 100)
    X = rng.standard_normal((4, 10))[y] + rng.standard_normal((400, 10))
    return X, y, datasets.split(y, per_class=10, stream=300, seed=2)


Data = tuple[np.ndarray, np.ndarray, datasets.Split]


def test_the_stream_is_learned_in_order_once_and_nothing_else(data: Data) -> None:
    X, y, split = data
    hasher, told = Recorder(), []
    seen = list(protocols.paper(hasher, X, y, split, [50, 200, 300], rows_at_once=40, progress=told.append))
    assert [at.n_train for at in seen] == [50, 200, 300]
    np.testing.assert_array_equal(np.concatenate([p[0] for p in hasher.pieces]), X[split.stream])
    np.testing.assert_array_equal(np.concatenate([p[1] for p in hasher.pieces]), y[split.stream])
    assert told == [len(p[1]) for p in hasher.pieces] == [40, 10, 40, 40, 40, 30, 40, 40, 20]


@pytest.mark.parametrize("ties", ["paper", "aware"])
def test_a_checkpoint_is_what_retrieval_says(data: Data, ties: str) -> None:
    X, y, split = data
    hasher = Recorder(drift=0.3)
    for at in protocols.paper(hasher, X, y, split, [100, 300], ties=ties):
        expected = evaluate.retrieval(
            hasher.transform(X[split.queries]),
            y[split.queries],
            hasher.transform(X[split.retrieval]),
            y[split.retrieval],
            k=(1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
            ties=ties,
            n_bits=12,
        )
        assert dict(at.scores) == dict(expected)


def test_rows(data: Data) -> None:
    X, y, split = data
    (at,) = protocols.paper(Recorder(), X, y, split, [100])
    rows = at.rows(dataset="blobs", protocol="paper", method="random", bits=12, run=0)
    assert list(rows[0]) == ["dataset", "protocol", "method", "bits", "run", "n_train", "metric", "value"]
    assert {row["n_train"] for row in rows} == {100}
    assert tuple(row["metric"] for row in rows) == protocols.metric_names("paper")
    values = {row["metric"]: row["value"] for row in rows}
    assert values["mAP[paper]"] == at.scores["mAP"]
    assert values["train_seconds"] == at.train_seconds >= 0
    assert values["encode_seconds"] == at.encode_seconds >= 0


def test_skipped_checkpoints_do_not_change_what_comes_after(data: Data) -> None:
    X, y, split = data
    whole = list(protocols.paper(Recorder(drift=0.3), X, y, split, [70, 140, 300]))
    rest = list(protocols.paper(Recorder(drift=0.3), X, y, split, [70, 140, 300], skip=[70, 140]))
    assert [at.n_train for at in rest] == [300]
    assert dict(rest[0].scores) == dict(whole[2].scores)
    assert dict(whole[0].scores) != dict(whole[2].scores)


def test_training_time_only_grows(data: Data) -> None:
    X, y, split = data
    spent = [at.train_seconds for at in protocols.paper(Recorder(), X, y, split, [100, 200, 300])]
    assert spent == sorted(spent)


@pytest.mark.parametrize("checkpoints", [[], [0, 100], [100, 100], [200, 100], [301]])
def test_impossible_checkpoints_raise(data: Data, checkpoints: list[int]) -> None:
    X, y, split = data
    with pytest.raises(ValueError, match="checkpoint"):
        next(protocols.paper(Recorder(), X, y, split, checkpoints))


def test_every_data_set_has_a_setting_that_fits_it() -> None:
    assert set(protocols.PAPER) == set(datasets.CATALOGUE)
    for name, setting in protocols.PAPER.items():
        classes = 200 if name == "tinyimagenet200" else 10
        assert setting.stream <= datasets.CATALOGUE[name].rows - classes * setting.per_class
        assert setting.checkpoints[-1] == setting.stream
