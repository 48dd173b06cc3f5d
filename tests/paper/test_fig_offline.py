"""fig-offline: the objective and its gradients against slow and numeric ones, the learner, the stages, the seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_studies import SETTING, blobs, small_study

from hashstream import datasets, evaluate
from hashstream.evaluate import protocols
from hashstream.paper import Study
from hashstream.paper.experiments import fig_offline
from hashstream.paper.experiments.fig_offline import EXPERIMENT, entries, seconds, stages
from hashstream.paper.offline_mihash import OfflineMIHash, backward, forward, information, network


def slow_information(U: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """Row by row, bin by bin, from the definition."""
    n, r = U.shape
    width = r / bins

    def entropy(p: np.ndarray) -> float:
        return float(-sum(x * np.log2(x) for x in p if x > 0))

    total = 0.0
    for i in range(n):
        histograms = {True: np.zeros(bins + 1), False: np.zeros(bins + 1)}
        counts = {True: 0, False: 0}
        for j in range(n):
            if j == i:
                continue
            h = (r - U[i] @ U[j]) / 2
            same = bool(labels[i] == labels[j])
            counts[same] += 1
            for bin_ in range(bins + 1):
                histograms[same][bin_] += max(0.0, 1 - abs(h - bin_ * width) / width)
        total += entropy((histograms[True] + histograms[False]) / (n - 1))
        for same, count in counts.items():
            if count:
                total -= count / (n - 1) * entropy(histograms[same] / count)
    return total / n


@pytest.fixture
def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return np.tanh(rng.standard_normal((14, 6))), np.array([0, 0, 1, 2, 1, 0, 1, 1, 0, 2, 3, 1, 0, 0])


def test_information_is_what_it_says(batch: tuple[np.ndarray, np.ndarray]) -> None:
    U, y = batch
    value, _ = information(U, y[:, None] == y, 4)
    assert value == pytest.approx(slow_information(U, y, 4), abs=1e-12)
    alone, gradient = information(U, np.ones((14, 14), bool), 4)  # one class: distances tell nothing
    assert alone == pytest.approx(0, abs=1e-12)
    assert np.abs(gradient).max() < 1e-12


def test_gradient_of_information(batch: tuple[np.ndarray, np.ndarray]) -> None:
    U, y = batch
    related = y[:, None] == y
    _, gradient = information(U, related, 4)
    for i, k in [(0, 0), (3, 5), (10, 2), (13, 4)]:
        step = np.zeros_like(U)
        step[i, k] = 1e-6
        up, down = (information(U + sign * step, related, 4)[0] for sign in (1, -1))
        assert gradient[i, k] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_gradient_of_the_whole_network(hidden: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((12, 4)), np.arange(12) % 3
    related = y[:, None] == y
    layers = network(rng, [4, *hidden, 5], np.float64)

    def value() -> float:
        return information(np.tanh(forward(layers, X)[-1]), related, 4)[0]

    signals = forward(layers, X)
    U = np.tanh(signals[-1])
    gradients = backward(layers, signals, information(U, related, 4)[1] * (1 - U**2))
    for (W, b), (by_W, by_b) in zip(layers, gradients, strict=True):
        for part, slope in ((W, by_W), (b, by_b)):
            assert part.shape == slope.shape
            for at in ((0,) * part.ndim, (-1,) * part.ndim):
                before = part[at]
                part[at] = before + 1e-6
                up = value()
                part[at] = before - 1e-6
                down = value()
                part[at] = before
                assert slope[at] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-9)


def test_learning_again_from_all_rows_at_each_stage() -> None:
    X, y = blobs(300)
    X = datasets.centred_unit(X)
    settings = {"hidden": (8,), "epochs": 2, "least_steps": 5, "rows": 50, "random_state": 0}
    staged, once = OfflineMIHash(8, **settings), OfflineMIHash(8, **settings)
    staged.partial_fit(X[:100], y[:100])
    early = staged.transform(X)
    staged.partial_fit(X[100:], y[100:])
    once.partial_fit(X, y)
    np.testing.assert_array_equal(staged.transform(X), once.transform(X))
    assert (early != once.transform(X)).any()
    bits = forward(once.layers_, X * np.float32(4))[-1] > 0
    np.testing.assert_array_equal(once.transform(X), np.packbits(bits, axis=1))


@pytest.mark.parametrize("head", ["linear", "deep"])
def test_it_learns(head: str) -> None:
    X, y = blobs(600)
    X = datasets.centred_unit(X)
    hasher = OfflineMIHash(16, **{**fig_offline.HEADS[head], "least_steps": 60, "rows": 100}, random_state=0)
    hasher.partial_fit(X[:400], y[:400])
    scores = evaluate.retrieval(hasher.transform(X[400:]), y[400:], hasher.transform(X[:400]), y[:400])
    untrained = OfflineMIHash(16, epochs=1, least_steps=1, rows=400, learning_rate=1e-9, random_state=0)
    untrained.partial_fit(X[:400], y[:400])
    floor = evaluate.retrieval(untrained.transform(X[400:]), y[400:], untrained.transform(X[:400]), y[:400])
    assert scores["mAP"] > floor["mAP"] + 0.15
    assert hasher.information_ > untrained.information_ + 0.1


def quick_study(folder: Path, monkeypatch: pytest.MonkeyPatch, runs: int = 1) -> Study:
    for settings in fig_offline.HEADS.values():
        monkeypatch.setitem(settings, "least_steps", 4)
        monkeypatch.setitem(settings, "epochs", 1)
    return small_study(folder, name="mnist", runs=runs)


def test_stages_follow_the_checkpoints(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    assert stages(study) == [200, 600]
    full = replace(study, scale=replace(study.scale, name="full"))
    assert stages(full) == [200, 400, 600]
    many = replace(full, data=replace(full.data, setting=protocols.SETTINGS["places205"]))
    assert stages(many) == [25_000, 50_000, 75_000, 100_000]


def test_measured_once_and_a_quick_run_is_part_of_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = quick_study(tmp_path / "a", monkeypatch)
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text

    fresh = quick_study(tmp_path / "b", monkeypatch)
    full = replace(fresh, scale=replace(fresh.scale, name="full"))
    EXPERIMENT.measure(full)
    for one in entries(study):
        for n in stages(study):
            assert fig_offline.accuracy(study, one, n) == fig_offline.accuracy(full, one, n)


def test_what_is_shown_is_what_the_rows_say(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="mnist", runs=2)
    assert EXPERIMENT.show(study).finding == "Nothing is measured yet."
    figures = {"FCOH": (0.5, 1.2), "FCOH[paper]": (0.4, 0.6), "MIHash[paper]": (0.45, 3.0)}
    for run in (0, 1):
        for n in (200, 600):
            for label, (value, spent) in figures.items():
                rows = {"mAP[paper]": value, "train_seconds": spent * n / 600}
                study.add("fig-offline", label, 32, run, n, **rows)
            for head, value in (("linear", 0.6), ("deep", 0.75)):
                rows = {"mAP[paper]": value, "train_seconds": 99.0, "retrain_seconds": 4.0 * n / 600}
                study.add("fig-offline", f"OfflineMIHash[{head}]", 32, run, n, **rows)
    by_title = {one.title: one for one in entries(study)}
    every = SETTING.every / SETTING.stream
    assert seconds(study, by_title["FCOH (auto)"], 600) == pytest.approx(1.2 * every)
    assert seconds(study, by_title["MIHash (offline, deep)"], 600) == 4.0

    section = EXPERIMENT.show(study)
    values, times = section.sheets
    assert {row[0]: row[-1] for row in values.rows}["MIHash (offline, deep)"] == "0.750 ± 0.000"
    assert values.best == {(4, 1), (4, 2)}
    assert {row[0]: row[-1] for row in times.rows}["FCOH (auto)"] == "0.4"
    assert "MIHash (offline, deep): 0.750 ± 0.000, +50 %, for 10 times" in section.finding
    (figure,) = section.figures.values()
    assert [len(axes.lines) >= 5 for axes in figure.axes] == [True, True]
    assert section.verdict == "holds"
    assert (
        section.brief == "The deep head, offline: +50 % compared with FCOH (auto), for 10 times the seconds."
    )
    study.add("fig-offline", "FCOH", 32, 2, 300, diverged_rows=300.0)
    three = EXPERIMENT.show(replace(study, scale=replace(study.scale, runs=3)))
    assert {row[0]: row[-1] for row in three.sheets[0].rows}["FCOH (auto)"] == "0.500 ± 0.000\n2 of 3 runs"
    below = " ".join(three.figures["fig-offline"].get_supxlabel().split())
    assert below == "Without the runs that diverged: FCOH (auto) (2 of 3 runs)."
    assert three.finding.endswith(below)


def test_the_notes_say_on_what_settings_were_chosen() -> None:
    """Run 0's stream was used to choose: as many of another run's queries lie in it as rows of the data do."""
    y = np.repeat(np.arange(10), 700)  # a tenth of MNIST
    streams = datasets.split(y, per_class=10, stream=2_000, seed=0).stream
    shares = [
        np.isin(datasets.split(y, per_class=10, stream=2_000, seed=run).queries, streams).mean()
        for run in range(1, 40)
    ]
    assert np.mean(shares) == pytest.approx(0.29, abs=0.02)
    (note,) = [note for note in fig_offline.NOTES if "HEADS" in note]
    assert "about 29 %" in note
    assert "run 0's stream" in note
    assert "some 160 settings" in note
