"""Tuning: every combination once, judged by the stream alone, the best first."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hashstream import FCOH, LSH, DivergenceError, datasets, evaluate
from hashstream.evaluate import protocols, tuning
from hashstream.hashers import methods


class Flipping(LSH):
    """Random projections whose bits are flipped for a share of the rows, so that the best share is known: 0."""

    def __init__(
        self, n_bits: int = 32, *, flipped: float = 0.3, other: int = 0, random_state: Any = None
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.flipped, self.other = flipped, other

    def _learn(self, X: np.ndarray, labels: Any) -> bool:
        if self.other == 3 and self.random_state == 1:
            raise DivergenceError("it ran away")
        return super()._learn(X, labels)

    def transform(self, X: np.ndarray) -> np.ndarray:
        codes = super().transform(X)
        rows = np.random.default_rng(0).random(len(codes)) < self.flipped
        return np.where(rows[:, None], ~codes, codes)


@pytest.fixture(scope="module")
def data() -> evaluate.PreparedDataset:
    return evaluate.PreparedDataset.of(datasets.load("digits"))


def test_the_best_come_first_and_what_diverged_last(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    grid = {"flipped": (0.2, 0.0), "other": (1, 2, 3)}
    news: list[evaluate.JobProgress] = []
    found = evaluate.tune(
        "Flipping", Flipping, data, results, bits=16, grid=grid, runs=2, progress=news.append
    )
    assert len(found) == 7  # six, and the defaults
    assert [trial.diverged for trial in found] == [0] * 5 + [1] * 2
    assert [trial.settings.get("flipped") for trial in found[:5]] == [0.0, 0.0, 0.2, 0.2, None]
    assert [len(trial.values) for trial in found] == [2] * 5 + [1] * 2
    assert sum(item.done for item in news) == 14
    (end,) = protocols.Validation().points(data)
    value = {
        (row["method"], row["run"]): row["value"]
        for row in results.rows
        if row["metric"] == "mAP[aware]" and row["n_train"] == end and row["protocol"] == "validation"
    }
    for trial in found[:5]:
        label = evaluate.Job("Flipping", Flipping, 16, 0, trial.settings).label
        assert trial.values == (value[label, 0], value[label, 1])
        assert trial.mean == pytest.approx(np.mean(trial.values))
        assert trial.spread == pytest.approx(np.std(trial.values, ddof=1))
    text = results.path.read_text()
    again = evaluate.tune("Flipping", Flipping, data, results, bits=16, grid=grid, runs=2)
    assert again == found
    assert results.path.read_text() == text


def test_only_the_stream_is_read(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    """Test queries and the rest of the retrieval set are replaced by NaN, which every hasher refuses."""
    stream = data.split(0).stream
    X = np.full_like(data.X, np.nan)
    X[stream] = data.X[stream]
    hidden = evaluate.PreparedDataset("digits", X, data.y, data.setting)
    outcomes = [
        evaluate.tune(
            "FCOH",
            FCOH,
            one,
            evaluate.Results(tmp_path / name),
            bits=8,
            grid={"learning_rate": (0.01, 0.001)},
        )
        for name, one in (("whole.csv", data), ("hidden.csv", hidden))
    ]
    assert outcomes[0] == outcomes[1]
    assert {len(trial.values) for trial in outcomes[0]} == {1}
    with pytest.raises(ValueError, match="NaN"):
        evaluate.run(
            evaluate.jobs({"FCOH": FCOH}, bits=[8], runs=1),
            hidden,
            evaluate.Results(tmp_path / "paper.csv"),
            points=[1500],
        )


def test_the_papers_grid_is_fcohs_and_every_grid_fits_its_method() -> None:
    assert len(tuning.trials(FCOH.tuning_grid)) == 1 + 5**3
    assert {1e-1, 1e-2, 1e-3, 1e-4, 1e-5} == set(FCOH.tuning_grid["lambda1"])
    for name, method in methods().items():
        taken = inspect.signature(method).parameters
        assert bool(method.tuning_grid) == (name != "LSH")
        for parameter, values in method.tuning_grid.items():
            assert parameter in taken
            assert len(values) == len(set(values)) > 1
        for settings in tuning.trials(method.tuning_grid):
            method(8, **settings).check_parameters()


def test_settings_are_the_same_in_every_trial() -> None:
    tried = tuning.trials({"a": (1, 2)}, {"a": 2, "b": 3})
    assert tried == [{"a": 2, "b": 3}, {"a": 1, "b": 3}]


def test_what_cannot_be_tuned_is_refused(data: evaluate.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    with pytest.raises(ValueError, match="LSH has no tuning_grid"):
        evaluate.tune("LSH", LSH, data, results)
    with pytest.raises(ValueError, match="by is 'map': it has to be one of mAP, mAP@1000"):
        evaluate.tune("FCOH", FCOH, data, results, by="map")
    with pytest.raises(ValueError, match="no value of ridge"):
        evaluate.tune("FCOH", FCOH, data, results, grid={"ridge": ()})
    assert results.rows == []
