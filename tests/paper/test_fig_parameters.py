"""fig-parameters: one parameter moves at a time, divergence is marked, the paper's points are where it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_studies import small_study

from hashstream.evaluate.protocols import SETTINGS
from hashstream.hashers import FCOH
from hashstream.paper.experiments import fig_parameters
from hashstream.paper.experiments.fig_parameters import (
    EXPERIMENT,
    FEW,
    GRID,
    MU,
    PRINTED_MU,
    READINGS,
    centre,
    grid,
    points,
)


def test_a_quick_sweep_is_part_of_the_full_one() -> None:
    for parameter, values in FEW.items():
        assert set(values) <= set(GRID[parameter])


@pytest.mark.parametrize("dataset", ["mnist", "cifar10", "places205"])
def test_the_centre_is_the_paper_s_setting(dataset: str) -> None:
    hasher = FCOH.from_paper(dataset, 32)
    for reading in READINGS:
        settings = centre(dataset, reading)
        for parameter in ("batch_size", "lambda1", "lambda2"):
            assert settings[parameter] == getattr(hasher, parameter)
            assert settings[parameter] in GRID[parameter]
        assert settings["learning_rate"] in GRID["learning_rate"]
    assert centre(dataset, hasher.gradient_scale)["learning_rate"] == hasher.learning_rate
    assert MU["none"][dataset] in PRINTED_MU[dataset]


def test_one_parameter_moves_at_a_time(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="mnist", runs=2)
    found = points(study)
    assert len(found) == len(READINGS) * sum(map(len, grid(study).values()))
    assert max(grid(study)["batch_size"]) == 200  # rows between two checkpoints
    digits = replace(study, data=replace(study.data, setting=SETTINGS["digits"]))
    assert grid(digits)["batch_size"] == (100,)
    mnist = replace(study, data=replace(study.data, setting=SETTINGS["mnist"]))
    assert grid(mnist)["batch_size"] == GRID["batch_size"]
    assert any("with n_t = 1,500 the last batch" in note for note in EXPERIMENT.show(mnist).notes)
    for point in found:
        base = centre("mnist", point.reading)
        changed = {name for name in base if base[name] != point.settings[name]}
        assert changed <= {point.parameter}
        assert point.settings[point.parameter] == point.value
        assert point.job(0).method(n_bits=32, **point.settings).get_params()[point.parameter] == point.value


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        ("lambda1", 0, 0.605),
        ("lambda2", 0, 0.637),
        ("lambda1", 0.1, 0.786),
        ("lambda1", 0.01, None),
        ("learning_rate", 0.1, 0.786),
        ("learning_rate", 0.01, 0.786),
        ("learning_rate", 0.001, None),
        ("batch_size", 100, 0.786),
        ("batch_size", 500, None),
    ],
)
def test_printed_points(parameter: str, value: float, expected: float | None) -> None:
    assert fig_parameters._printed("mnist", parameter, value, "mAP") == expected
    assert fig_parameters._printed("", parameter, value, "mAP") is None


def test_measured_once_shown_with_what_diverged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"batch_size": (100,), "lambda1": (0, 0.1), "lambda2": (0, 0.01), "learning_rate": (1e-3, 0.1)}
    monkeypatch.setattr(fig_parameters, "FEW", few)
    study = small_study(tmp_path, name="mnist")
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text

    section = EXPERIMENT.show(study)
    (sheet,) = section.sheets
    rows = {row[:2]: row[2:] for row in sheet.rows}
    assert list(rows) == [
        ("n_t", "100"),
        ("λ1", "0"),
        ("λ1", "0.1"),
        ("λ2", "0"),
        ("λ2", "0.01"),
        ("μ", "0.001"),
        ("μ", "0.1"),
    ]
    for reading, shown in zip(READINGS, rows["λ2", "0"], strict=False):
        label = next(
            p.label for p in points(study) if (p.parameter, p.value, p.reading) == ("lambda2", 0, reading)
        )
        value = study.values(label, "mAP", bits=32)
        assert shown.startswith("diverged\n" if value is None else str(value))
    assert rows["μ", "0.1"][0].startswith("diverged\n")  # the equations as printed
    assert rows["n_t", "100"][-1] == "0.786"
    auto = study.values("FCOH", "mAP", bits=32)
    assert f"Auto reaches {auto}" in section.finding
    (figure,) = section.figures.values()
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(fig_parameters.SYMBOLS.values())


def test_a_reading_that_always_diverges_has_no_best_figure(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="mnist")
    for point in points(study):
        if point.reading == "none":
            study.add("paper", point.label, 32, 0, 100, diverged_rows=100.0)
        else:
            study.add("paper", point.label, 32, 0, 600, **{"mAP[paper]": 0.25 if point.value else 0.125})
    section = EXPERIMENT.show(study)
    n = sum(map(len, grid(study).values()))
    assert (
        f"As printed: {n} of {n} settings diverge. Terms / r: 0 of {n} settings diverge." in section.finding
    )
    assert "At the paper's setting 0.250; 0.125 with λ1 = 0 and 0.125 with λ2 = 0." in section.finding
    assert {row[2] for row in section.sheets[0].rows} == {"diverged\nafter 100 rows"}
    assert section.figures
    assert section.verdict == "holds in part"
    assert section.brief.startswith("Without similar pairs -0.125, without dissimilar ones -0.125")


@pytest.mark.parametrize(
    ("name", "drawn"), [("mnist", "paper"), ("tinyimagenet200", "paper, Places205"), ("digits", "")]
)
def test_the_paper_s_figures_are_shown_only_for_its_data(tmp_path: Path, name: str, drawn: str) -> None:
    study = small_study(tmp_path, name=name)
    for point in points(study):
        study.add("paper", point.label, 32, 0, 600, **{f"{study.headline}[paper]": 0.5})
    section = EXPERIMENT.show(study)
    assert section.sheets[0].columns[5:] == ((drawn,) if drawn else ())
    (figure,) = section.figures.values()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [label for label in labels if label.startswith("paper")] == ([drawn] if drawn else [])
    assert (f"The {drawn}: " in section.finding) is bool(drawn)
    assert "0.786" in section.finding if name == "mnist" else "0.786" not in section.finding


def test_surviving_runs_are_not_the_best_without_a_word(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="mnist", runs=2)
    for point in points(study):
        best = (point.reading, point.parameter, point.value) == ("none", "learning_rate", 0.001)
        study.add("paper", point.label, 32, 0, 600, **{"mAP[paper]": 0.75 if best else 0.5})
        if best:
            study.add("paper", point.label, 32, 1, 100, diverged_rows=100.0)
    assert "The best figure is 0.750 (μ = 0.001, 1 of 2 runs)." in EXPERIMENT.show(study).finding


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    section = EXPERIMENT.show(small_study(tmp_path))
    assert section.finding == "Nothing is measured yet."
    assert not section.figures
