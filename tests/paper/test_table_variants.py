"""table-variants: who stands in it, that nothing is measured twice, and that cells come from rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_studies import small_study

from hashstream.hashers import BSODH, FCOH, FCOH_C, FCOH_S
from hashstream.paper import Value
from hashstream.paper.experiments.table_variants import EXPERIMENT, finding, variants


def test_rows_are_the_paper_s_variants() -> None:
    made = {(one.row, one.settings): one.method(n_bits=32) for one in variants("mnist")}
    assert isinstance(made["BSODH", "paper"], BSODH)
    for settings in ("paper", "auto"):
        whole, full = made["FCOH_S", settings], made["FCOH", settings]
        assert (type(whole), type(full)) == (FCOH_S, FCOH)
        assert whole.get_params() == full.get_params()
    assert isinstance(made["FCOH_C", "paper"], FCOH_C)
    assert {made[row, "paper"].lambda2 for row in ("FCOH_S", "FCOH_C", "FCOH")} == {0.01}
    assert made["FCOH", "auto"].get_params() == FCOH(32).get_params()


def test_measures_each_variant_once_and_shows_what_was_measured(tmp_path: Path) -> None:
    study = small_study(tmp_path, runs=2, name="mnist")
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text

    (sheet,) = EXPERIMENT.show(study).sheets
    rows = {row[:2]: row for row in sheet.rows}
    assert len(rows) == 6
    value = study.values("FCOH[paper]", "mAP", bits=32)
    assert value is not None
    assert len(value.runs) == 2
    assert rows["FCOH", "paper"][3:] == (str(value), "0.786", f"{value.mean - 0.786:+.3f}")
    assert rows["FCOH", "auto"][4:] == ("-", "-")
    for settings in ("paper", "auto"):
        shown = [
            (float(row[3][:5]), i)
            for i, row in enumerate(sheet.rows)
            if row[1] == settings and row[3][0] == "0"
        ]
        assert (max(shown)[1], 3) in sheet.best


def test_no_difference_is_taken_from_other_data(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="digits")
    section = EXPERIMENT.show(study)
    rows = {row[:2]: row for row in section.sheets[0].rows}
    assert rows["FCOH_C", "paper"][2:] == ("-", "-")
    assert "paper" not in section.sheets[0].columns
    assert "The paper has no figures for digits. Methods use its settings for MNIST." in section.notes
    standing = EXPERIMENT.show(small_study(tmp_path / "stands for", name="tinyimagenet200"))
    assert standing.sheets[0].columns[4:] == ("paper, Places205", "ours - paper")
    assert {row[:2]: row for row in standing.sheets[0].rows}["FCOH_C", "paper"][4:] == ("0.262", "-")
    assert any("landmark" in note for note in standing.notes)
    assert section.finding == "Nothing is measured yet."


def test_a_variant_that_diverged_says_so(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="mnist")
    study.add("paper", "FCOH_S[paper]", 32, 0, 300, diverged_rows=300.0)
    study.add("paper", "FCOH[paper]", 32, 0, 600, **{"mAP[paper]": 0.5})
    section = EXPERIMENT.show(study)
    rows = {row[:2]: row for row in section.sheets[0].rows}
    assert rows["FCOH_S", "paper"][3] == "diverged\nafter 300 rows"
    assert "No figure: FCOH_C, FCOH_S, BSODH" in section.finding


@pytest.mark.parametrize(
    ("means", "verdict", "brief"),
    [
        (
            {"FCOH": 0.8, "FCOH_C": 0.7, "BSODH": 0.5},
            "holds in part",
            "FCOH > FCOH_C > BSODH; FCOH_S diverged",
        ),
        (
            {"FCOH": 0.7, "FCOH_C": 0.6, "BSODH": 0.8},
            "does not hold",
            "BSODH > FCOH > FCOH_C; FCOH_S diverged",
        ),
        ({}, "does not hold", "FCOH, FCOH_C, FCOH_S, BSODH diverged"),
        ({"FCOH": 0.8, "BSODH": 0.5}, "undecided", "2 of 4 variants have a figure."),
    ],
)
def test_a_variant_that_diverged_in_every_run_decides_like_a_figure(
    tmp_path: Path, means: dict[str, float], verdict: str, brief: str
) -> None:
    study = small_study(tmp_path, name="mnist")
    for row, mean in means.items():
        study.add("paper", f"{row}[paper]", 32, 0, 600, **{"mAP[paper]": mean})
    for row in ("FCOH", "FCOH_C", "FCOH_S", "BSODH") if not means else ("FCOH_S",):
        study.add("paper", f"{row}[paper]", 32, 0, 300, diverged_rows=300.0)
    section = EXPERIMENT.show(study)
    assert (section.verdict, section.brief.split("; the paper")[0]) == (verdict, brief)


@pytest.mark.parametrize(("bsodh", "agrees"), [(0.5, True), (0.9, False)])
def test_the_finding_compares_with_the_paper_s_order(bsodh: float, agrees: bool) -> None:
    values = {"FCOH": 0.8, "FCOH_C": 0.7, "FCOH_S": 0.6, "BSODH": bsodh}
    text = finding({row: Value((mean - 0.01, mean + 0.01)) for row, mean in values.items()})
    assert ("the paper's order." in text) is agrees
    assert "within 0.200" in text
    assert "up to 0.014" in text
    some = finding({"FCOH": Value((0.8, 0.8), diverged=1), "BSODH": Value((0.7,))})
    assert some.endswith("Without the runs that diverged: FCOH (2 of 3 runs).")
