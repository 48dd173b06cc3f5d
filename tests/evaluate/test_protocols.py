"""The paper's protocol, with small hashers whose codes are known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recorder import Recorder

from hashstream import datasets, evaluate
from hashstream.evaluate import protocols

SECONDS = ("train_seconds", "encode_seconds")


@pytest.fixture(scope="module")
def data() -> protocols.PreparedDataset:
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 100)
    X = rng.standard_normal((4, 10))[y] + rng.standard_normal((400, 10))
    return protocols.PreparedDataset("blobs", X, y, protocols.Setting(per_class=10, stream=300, every=100))


def stream(
    hasher: Recorder, data: protocols.PreparedDataset, points: list[int], ties: str = "paper", **options: Any
) -> Any:
    return protocols.run_stream(hasher, protocols.Paper().task(data, 2, ties=ties), points, **options)


def test_the_stream_is_learned_in_order_once_and_nothing_else(data: protocols.PreparedDataset) -> None:
    X, y, split = data.X, data.y, data.split(2)
    hasher, told = Recorder(drift=0), []
    seen = list(stream(hasher, data, [50, 200, 300], rows_at_once=40, progress=told.append))
    assert [at.n_train for at in seen] == [50, 200, 300]
    np.testing.assert_array_equal(np.concatenate([p[0] for p in hasher.learned]), X[split.stream])
    np.testing.assert_array_equal(np.concatenate([p[1] for p in hasher.learned]), y[split.stream])
    assert told == [len(p[1]) for p in hasher.learned] == [40, 10, 40, 40, 40, 30, 40, 40, 20]


@pytest.mark.parametrize("ties", ["paper", "aware"])
def test_a_checkpoint_is_what_retrieval_says(data: protocols.PreparedDataset, ties: str) -> None:
    X, y, split = data.X, data.y, data.split(2)
    hasher = Recorder()
    for at in stream(hasher, data, [100, 300], ties=ties):
        expected = evaluate.retrieval(
            hasher.transform(X[split.queries]),
            y[split.queries],
            hasher.transform(X[split.retrieval]),
            y[split.retrieval],
            k=(1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
            ties=ties,
            n_bits=12,
        )
        assert {name: at.scores[name] for name in expected} == dict(expected)
        assert set(at.scores) - set(expected) == set(SECONDS)


def test_rows(data: protocols.PreparedDataset) -> None:
    (at,) = stream(Recorder(drift=0), data, [100])
    rows = at.rows(dataset="blobs", protocol="paper", method="random", bits=12, run=0)
    assert list(rows[0]) == ["dataset", "protocol", "method", "bits", "run", "n_train", "metric", "value"]
    assert {row["n_train"] for row in rows} == {100}
    assert tuple(row["metric"] for row in rows) == tuple(
        protocols.metric_row(name, "paper") for name in protocols.Paper().metrics()
    )
    values = {row["metric"]: row["value"] for row in rows}
    assert values["mAP[paper]"] == at.scores["mAP"]
    assert values["train_seconds"] == at.scores["train_seconds"] >= 0
    assert values["encode_seconds"] == at.scores["encode_seconds"] >= 0


def test_which_points_are_judged_changes_no_figure(data: protocols.PreparedDataset) -> None:
    """Also of points within a piece, which end no piece."""
    cuts = {"cuts": [70, 140, 300], "rows_at_once": 50}
    whole = {at.n_train: at for at in stream(Recorder(), data, [70, 100, 140, 150, 190, 300], **cuts)}
    figures = [name for name in whole[70].scores if name not in SECONDS]
    for points in ([300], [70, 300], [100], [190], [100, 150, 300]):
        hasher, told = Recorder(), []
        seen = list(stream(hasher, data, points, progress=told.append, **cuts))
        assert [at.n_train for at in seen] == points
        for at in seen:
            assert [at.scores[name] for name in figures] == [
                whole[at.n_train].scores[name] for name in figures
            ]
        assert sum(told) == points[-1]
        assert [len(y) for _, y in hasher.learned] == told
    assert told == [50, 20, 50, 20, 50, 50, 50, 10]
    assert (
        len({at.scores["mAP"] for at in whole.values()}) == 5
    )  # it steps once a call: 150 and 190 are alike


def test_training_time_only_grows(data: protocols.PreparedDataset) -> None:
    spent = [at.scores["train_seconds"] for at in stream(Recorder(drift=0), data, [100, 200, 300])]
    assert spent == sorted(spent)


@pytest.mark.parametrize("checkpoints", [[], [0, 100], [100, 100], [200, 100], [301]])
def test_impossible_checkpoints_raise(data: protocols.PreparedDataset, checkpoints: list[int]) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        next(stream(Recorder(drift=0), data, checkpoints))


def test_impossible_cuts_raise(data: protocols.PreparedDataset) -> None:
    with pytest.raises(ValueError, match=r"cuts are \[100, 50\]"):
        next(stream(Recorder(drift=0), data, [100], cuts=[100, 50]))


def test_every_data_set_has_a_setting_that_fits_it() -> None:
    assert set(datasets.CATALOGUE) <= set(protocols.SETTINGS)
    for name in datasets.CATALOGUE:
        setting = protocols.SETTINGS[name]
        classes = {"tinyimagenet200": 200, "places205": 205}.get(name, 10)
        assert setting.stream <= datasets.CATALOGUE[name].rows - classes * setting.per_class
        assert setting.checkpoints[-1] == setting.stream
