"""Tables and figures of accuracy, made of rows that the test has written: cells, bold, margins, areas, lines, notes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from zlib import crc32

import pytest
from small_studies import small_study

from hashstream.evaluate.protocols import SETTINGS, Setting
from hashstream.evaluate.protocols.paper import K
from hashstream.evaluate.results import DIVERGED
from hashstream.hashers import LSH, RidgeHash
from hashstream.paper import EXPERIMENTS, FULL, QUICK, Section, Sheet, Study, Value, notes
from hashstream.paper.accuracy import margin_sheet, margins, other_methods, paper_methods, value_sheet
from hashstream.paper.accuracy_plots import area
from hashstream.paper.contestants import Contestant, contestants
from hashstream.paper.experiments.table_map import EXPERIMENT
from hashstream.paper.study import quick

NAMES = ("table-map", "fig-map-instances", "fig-map-auc", "fig-precision-k", "fig-precision-auc")
METRICS = ("mAP", "mAP@1000", "precision@H2", *(f"precision@{k}" for k in K))


def score(label: str, metric: str, bits: int, run: int, n_train: int) -> float:
    """Some figure between 0 and 1 that is another for each row."""
    key = crc32(f"{label} {metric} {bits}".encode()) % 1009 / 1300
    return round(key + 0.02 * run + 0.1 * n_train / 20_000, 6)


def filled(folder: Path, name: str = "mnist", bits: tuple[int, ...] = (16, 64), runs: int = 2) -> Study:
    """A study of a data set at its own setting, with all its rows there."""
    study = small_study(folder, name=name)
    study = replace(
        study,
        data=replace(study.data, setting=SETTINGS[name]),
        scale=replace(QUICK, bits=bits, runs=runs),
    )
    study.results.append(
        [
            {
                "dataset": name,
                "protocol": "paper",
                "method": one.label,
                "bits": b,
                "run": run,
                "n_train": n,
                "metric": f"{metric}[paper]",
                "value": score(one.label, metric, b, run, n),
            }
            for one in study.contestants
            for b in bits
            for run in range(runs)
            for n in study.checkpoints
            for metric in METRICS
        ]
    )
    return study


def sheet_of(section: Section, begins: str) -> Sheet:
    (found,) = [sheet for sheet in section.sheets if sheet.caption.startswith(begins)]
    return found


def test_cells_are_mean_spread_the_paper_s_figure_and_the_difference(tmp_path: Path) -> None:
    study = filled(tmp_path)
    section = EXPERIMENT.show(study)
    sheet = sheet_of(section, "mAP, the paper's methods")
    assert sheet.columns == ("method", "16 bits", "64 bits")
    rows = {row[0]: row for row in sheet.rows}
    runs = [score("HCOH[paper]", "mAP", 64, run, 20_000) for run in (0, 1)]
    ours = mean(runs)
    assert rows["HCOH"][2] == f"{ours:.3f} ± {stdev(runs):.3f}\npaper 0.759 ({ours - 0.759:+.3f})"
    assert "paper 0.312" in rows["SketchHash (state lost)"][1]
    assert "paper" not in rows["SketchHash (state lost)"][2]  # the paper has no figure
    assert "paper" not in rows["FCOH (auto)"][1]  # not the paper's settings
    others = sheet_of(section, "mAP, methods that are not in the paper's tables")
    assert {row[0] for row in others.rows} >= {"OSH", "SketchHash", "LSH", "RidgeHash"}
    assert {row[0] for row in others.rows}.isdisjoint(rows)


def test_the_best_of_each_column_is_bold(tmp_path: Path) -> None:
    for sheet in EXPERIMENT.show(filled(tmp_path)).sheets:
        if sheet.columns[0] != "method":
            assert not sheet.best
            continue
        for column in (1, 2):
            values = [float(row[column][:5]) for row in sheet.rows]
            (best,) = [i for i, j in sheet.best if j == column]
            assert values[best] == max(values)


def test_all_that_are_printed_alike_are_bold(tmp_path: Path) -> None:
    study = filled(tmp_path)
    means = {
        "LSH": Value((0.6012,)),
        "FCOH (auto)": Value((0.6008,)),
        "HCOH": Value((0.9,), diverged=1),
        "BSODH": Value((0.6,)),
    }
    sheet = value_sheet(
        study,
        "mAP",
        [one for one in study.contestants if one.title in means],
        lambda one, bits: means[one.title],
    )
    assert {sheet.rows[i][0] for i, _ in sheet.best} == {"LSH", "FCOH (auto)"}
    assert {j for _, j in sheet.best} == {1, 2}


def test_margins_are_claimed_printed_and_measured(tmp_path: Path) -> None:
    study = filled(tmp_path, bits=(8, 16, 32, 48, 64, 128))
    sheet = sheet_of(
        EXPERIMENT.show(study), "mAP of FCOH compared with the best of the paper's seven other methods"
    )
    rows = dict(zip([row[0] for row in sheet.rows], [row[2] for row in sheet.rows], strict=True))
    assert rows["claimed by the paper for MNIST"] == rows["in the paper's table"] == "+1.76 %"

    def at(label: str, bits: int) -> float:
        return mean(score(label, "mAP", bits, run, 20_000) for run in (0, 1))

    baselines = [one.label for one in study.contestants if one.printed not in ("", "FCOH")]
    assert len(baselines) == 7
    for title, label in (("FCOH (paper)", "FCOH[paper]"), ("FCOH (auto)", "FCOH")):
        terms = [at(label, b) / max(at(name, b) for name in baselines) - 1 for b in study.scale.bits]
        assert rows[f"measured, {title}"] == f"{100 * mean(terms):+.2f} %"


def test_margins_over_one_rival(tmp_path: Path) -> None:
    study = filled(tmp_path)
    sheet = margin_sheet(
        study, "AUC of mAP", lambda one, bits: study.values(one.label, "mAP", bits=bits), "HCOH"
    )
    assert sheet is not None
    rows = {row[0]: row[2] for row in sheet.rows}
    assert rows["claimed by the paper for MNIST"] == "+9.83 %"
    terms = [
        mean(score("FCOH", "mAP", b, run, 20_000) for run in (0, 1))
        / mean(score("HCOH[paper]", "mAP", b, run, 20_000) for run in (0, 1))
        - 1
        for b in (16, 64)
    ]
    assert rows["measured, FCOH (auto)"] == f"{100 * mean(terms):+.2f} %"


def test_stand_ins_have_landmarks_without_differences(tmp_path: Path) -> None:
    section = EXPERIMENT.show(filled(tmp_path, "cifar10"))
    rows = {row[0]: row for row in sheet_of(section, "mAP, the paper's methods").rows}
    assert rows["HCOH"][2].endswith("\npaper 0.724")
    assert any("landmark" in note for note in section.notes)
    assert sheet_of(section, "mAP, the paper's methods").caption.endswith("below: paper, VGG-16 features")
    assert "printed figures" not in section.finding


def test_many_classes_are_judged_by_map_at_1000(tmp_path: Path) -> None:
    section = EXPERIMENT.show(filled(tmp_path, "tinyimagenet200", runs=1))
    rows = {row[0]: row for row in sheet_of(section, "mAP@1000, the paper's methods").rows}
    assert rows["MIHash"][1].endswith("\npaper 0.191")
    assert "3.84 %" in section.claim


def test_other_data_is_not_compared_with_the_paper_s_figures(tmp_path: Path) -> None:
    section = EXPERIMENT.show(filled(tmp_path, "digits"))
    assert not any("paper" in cell for row in section.sheets[0].rows for cell in row[1:])
    margin = sheet_of(section, "mAP of FCOH compared with")
    assert [row[0] for row in margin.rows] == ["measured, FCOH (paper)", "measured, FCOH (auto)"]


def test_how_many_printed_figures_are_met(tmp_path: Path) -> None:
    study = filled(tmp_path)
    printed = {"FCOH[paper]": 0.725, "HCOH[paper]": 0.708}
    study = replace(study, methods=("FCOH", "HCOH"), scale=replace(study.scale, bits=(16,)))
    away = {
        label: mean(score(label, "mAP", 16, run, 20_000) for run in (0, 1)) - figure
        for label, figure in printed.items()
    }
    near = sum(abs(difference) <= 0.03 for difference in away.values())
    assert f"{near} of 2 printed figures of mAP are reproduced within 0.03" in EXPERIMENT.show(study).finding
    assert f"{max(away.values(), key=abs):+.3f} (" in EXPERIMENT.show(study).finding


def test_runs_that_diverged_are_told(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="digits", runs=2)
    columns = {"dataset": "digits", "protocol": "paper", "bits": 8}
    for label, run in (("HCOH[paper]", 0), ("HCOH[paper]", 1), ("OKH[paper]", 1)):
        row = {**columns, "method": label, "run": run, "n_train": 300, "metric": DIVERGED, "value": 300.0}
        study.results.append([row])
    row = {**columns, "method": "OKH[paper]", "run": 0, "n_train": 600, "metric": "mAP[paper]", "value": 0.5}
    study.results.append([row])
    rows = {row[0]: row[1] for row in EXPERIMENT.show(study).sheets[0].rows}
    assert rows["HCOH"] == "diverged\nafter 300 rows"
    assert rows["OKH"] == "0.500\n1 of 2 runs"
    assert rows["BSODH"] == "-"
    assert "Without the runs that diverged: OKH, 8 bits (1 of 2 runs)." in EXPERIMENT.show(study).finding


def test_figures_say_whose_runs_diverged(tmp_path: Path) -> None:
    study = filled(tmp_path, runs=3)
    columns = {"dataset": "mnist", "protocol": "paper", "method": "HCOH[paper]", "bits": 64, "run": 2}
    study.results.rows[:] = [
        row
        for row in study.results.rows
        if any(row[name] != value for name, value in columns.items()) or row["n_train"] <= 6_000
    ]
    study.results.append([{**columns, "n_train": 6_500, "metric": DIVERGED, "value": 6_500.0}])
    value = study.values("HCOH[paper]", "mAP", bits=64)
    assert value is not None
    assert (len(value.runs), value.diverged) == (2, 1)
    early = study.values("HCOH[paper]", "mAP", bits=64, n_train=6_000)
    assert early is not None
    assert (len(early.runs), early.diverged) == (3, 0)
    for name in ("fig-map-instances", "fig-map-auc", "fig-precision-k", "fig-precision-auc"):
        figure = EXPERIMENTS[name].show(study).figures[name]
        below = " ".join(figure.get_supxlabel().split())
        assert below == "Without the runs that diverged: HCOH, 64 bits (2 of 3 runs).", name
    assert EXPERIMENTS["fig-map-auc"].show(study).finding.endswith("HCOH, 64 bits (2 of 3 runs).")


def test_no_margin_without_all_seven_baselines(tmp_path: Path) -> None:
    study = replace(filled(tmp_path), methods=("FCOH", "OSH"))
    section = EXPERIMENT.show(study)
    sheet = sheet_of(section, "mAP of FCOH compared with")
    rows = {row[0]: row[2] for row in sheet.rows}
    assert rows["claimed by the paper for MNIST"] == "+1.76 %"
    for title in ("FCOH (auto)", "FCOH (paper)"):
        assert rows[f"measured, {title}"].startswith("-\nno figures of OKH, SketchHash, AdaptHash, MIHash,")
        assert "%" not in rows[f"measured, {title}"]
    assert "than OSH (state lost) (no figures of OKH" in section.finding
    assert "best baseline" not in section.finding
    assert section.verdict == "undecided"
    alone = EXPERIMENT.show(replace(study, methods=("FCOH",)))
    assert "None of the paper's other methods has a mAP" in alone.finding
    for name in ("fig-map-instances", "fig-precision-k"):
        finding = EXPERIMENTS[name].show(study).finding
        assert "FCOH (auto), FCOH (paper) and OSH (state lost)" in finding, name
    everyone = EXPERIMENT.show(filled(tmp_path / "all"))
    assert "than all seven other methods of the paper at" in everyone.finding


def test_a_baseline_of_nothing_has_no_ratio(tmp_path: Path) -> None:
    study = filled(tmp_path)

    def value(one: Contestant, bits: int) -> Value:
        return Value((0.5 if one.name == "FCOH" or bits == 64 else 0.0,))

    found = margins(study, value)
    assert found["FCOH (auto)"] == found["FCOH (paper)"] == "no ratio to a baseline of 0 (16 bits)"
    sheet = margin_sheet(study, "mAP", value)
    assert sheet is not None
    assert [row[2] for row in sheet.rows[-2:]] == ["-\nno ratio to a baseline of 0 (16 bits)"] * 2


def test_the_verdict_is_made_of_who_is_first(tmp_path: Path) -> None:
    def verdict(folder: Path, best: str) -> Section:
        study = small_study(folder, name="mnist")
        for one in study.contestants:
            mine = {f"{m}[paper]": 0.9 if one.label == best else 0.5 for m in ("mAP", "precision@H2")}
            study.add("paper", one.label, 8, 0, 600, **mine)
        return EXPERIMENT.show(study)

    ours, theirs = verdict(tmp_path / "a", "FCOH[paper]"), verdict(tmp_path / "b", "HCOH[paper]")
    assert (ours.verdict, theirs.verdict) == ("holds", "does not hold")
    assert ours.brief.startswith("FCOH (paper) is first at 1 of 1 code lengths in mAP and 1 of 1")
    assert "FCOH (auto) is first at 0 of 1" in ours.brief


def test_areas_are_means_of_whole_curves(tmp_path: Path) -> None:
    study = filled(tmp_path)
    one = next(one for one in study.contestants if one.label == "MIHash[paper]")
    found = area(study, one, 64, {n: ("mAP", n) for n in study.checkpoints})
    assert found is not None
    points = [[score(one.label, "mAP", 64, run, n) for n in range(2_000, 20_001, 2_000)] for run in (0, 1)]
    assert found.runs == pytest.approx([mean(run) for run in points])
    # a run without its last checkpoint has no area, and is left out
    study.results.rows[:] = [r for r in study.results.rows if (r["run"], r["n_train"]) != (1, 20_000)]
    again = area(replace(study, _found={}, _read=[0]), one, 64, {n: ("mAP", n) for n in study.checkpoints})
    assert again is not None
    assert again.runs == found.runs[:1]


def test_figures_have_a_panel_for_each_length_and_a_line_for_each_method(tmp_path: Path) -> None:
    study = filled(tmp_path)
    section = EXPERIMENTS["fig-map-instances"].show(study)
    assert list(section.figures) == ["fig-map-instances", "fig-map-instances-others"]
    assert set(section.captions) == set(section.figures)
    axes = section.figures["fig-map-instances"].axes
    assert [one.get_title(loc="left") for one in axes] == ["16 bits", "64 bits"]
    names = [text.get_text() for text in axes[1].texts]
    paper, others = paper_methods(study), other_methods(study)
    assert sorted(names) == sorted([*(one.title for one in paper), "LSH"])
    (line,) = [
        line
        for line in axes[1].lines
        if len(line.get_xdata()) == 10
        and line.get_ydata()[0] == mean(score("HCOH[paper]", "mAP", 64, r, 2_000) for r in (0, 1))
    ]
    wanted = [mean(score("HCOH[paper]", "mAP", 64, r, n) for r in (0, 1)) for n in study.checkpoints]
    assert list(line.get_ydata()) == pytest.approx(wanted)
    crosses = {tuple(line.get_ydata()) for line in axes[1].lines if line.get_marker() == "x"}
    assert crosses == {(0.689,), (0.323,), (0.329,), (0.27,)}
    assert not [line for line in axes[0].lines if line.get_marker() == "x"]
    drawn = [text.get_text() for text in section.figures["fig-map-instances-others"].axes[0].texts]
    assert set(drawn) == {"FCOH (auto)", *(one.title for one in others)}


def test_the_early_table_has_the_text_s_figures(tmp_path: Path) -> None:
    section = EXPERIMENTS["fig-map-instances"].show(filled(tmp_path))
    rows = {row[0]: row for row in section.sheets[0].rows}
    assert "paper 0.329" in rows["HCOH"][2]
    assert "paper" not in rows["HCOH"][1]
    assert "0.689" in section.claim
    assert any("untrained projection" in note for note in section.notes)


@pytest.mark.parametrize("name", NAMES)
def test_methods_that_the_paper_does_not_have_are_shown_alone(tmp_path: Path, name: str) -> None:
    study = filled(tmp_path)
    label = next(one.label for one in study.contestants if one.name == "LSH")
    section = EXPERIMENTS[name].show(replace(study, methods=("LSH",)))
    shown = {row[0] for sheet in section.sheets for row in sheet.rows}
    assert label in shown
    assert not shown & {"FCOH (auto)", "FCOH (paper)", "HCOH", "MIHash"}
    assert section.finding == "None of the paper's methods took part."
    assert (section.verdict, section.brief) == ("undecided", "FCOH did not take part.")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_measured_is_shown_as_nothing(tmp_path: Path, name: str) -> None:
    section = EXPERIMENTS[name].show(small_study(tmp_path))
    assert not section.figures
    assert {
        cell for sheet in section.sheets for row in sheet.rows for cell in row[1:] if "%" not in cell
    } <= {
        "-",
        "8 to 128",
        "8",
    }
    assert "measured yet" in section.finding


def test_all_five_are_measured_at_once(tmp_path: Path) -> None:
    class Mine(LSH):
        """A method of one's own."""

    study = replace(small_study(tmp_path), methods=("LSH", Mine, "fcoh"))
    EXPERIMENT.measure(study)
    rows = study.results.path.read_text()
    metrics = ("mAP", "AUC of mAP", "precision@100", "AUC of precision@K")
    for name in NAMES:
        EXPERIMENTS[name].measure(study)
        section = EXPERIMENTS[name].show(study)
        assert "measured yet" not in section.finding
        assert any(metric in section.finding for metric in ("after 200 instances", *metrics))
        shown = {
            row[0]: row[1] for sheet in section.sheets for row in sheet.rows if "bits" in sheet.columns[1]
        }
        assert shown["LSH"] == shown["Mine"]
        assert all(0 < float(shown[title]) <= 1 for title in ("FCOH (auto)", "FCOH (paper)", "LSH"))
        if name != "table-map":
            (legend,) = section.figures[name].legends
            named = [
                text.get_text() for text in legend.get_texts()
            ]  # column by column, of which there are two
            assert [*named[::2], *named[1::2]] == ["LSH", "Mine", "FCOH (auto)", "FCOH (paper)"]
            points = [row["method"] for row in section.points[name]]
            assert list(dict.fromkeys(points)) == ["LSH", "Mine", "FCOH (auto)", "FCOH (paper)"]
    assert study.results.path.read_text() == rows
    assert {row["method"] for row in study.results.rows} == {"FCOH", "FCOH[paper]", "LSH", "Mine"}
    mine, lsh = (study.values(label, "mAP", bits=8) for label in ("Mine", "LSH"))
    assert mine == lsh is not None


def test_a_method_of_one_s_own_takes_part_once(tmp_path: Path) -> None:
    class LSH2(LSH):
        pass

    for dataset in ("mnist", "my.npz"):
        labels = [one.label for one in contestants(dataset, {"LSH": LSH2, "Mine": LSH2})]
        assert len(labels) == len(set(labels))
        assert labels.count("LSH") == labels.count("Mine") == 1
        assert next(one.method for one in contestants(dataset, {"LSH": LSH2}) if one.label == "LSH") is LSH2
    assert Contestant("Mine", "", LSH2).title == "Mine"


def test_ridgehash_takes_part_with_rbf_anchors_as_well(tmp_path: Path) -> None:
    for dataset, labels, classes in (
        ("mnist", ["RidgeHash[paper]", "RidgeHash[rbf][paper]"], 10),
        ("tinyimagenet200", ["RidgeHash[paper]", "RidgeHash[rbf][paper]"], 205),
        ("my.npz", ["RidgeHash", "RidgeHash[rbf]"], RidgeHash().n_classes),
    ):
        found = [one for one in contestants(dataset) if one.name == "RidgeHash"]
        assert [one.label for one in found] == labels
        assert [one.title for one in found] == ["RidgeHash", "RidgeHash (RBF)"]
        assert [one.printed for one in found] == ["", ""]
        linear, rbf = (one.method(n_bits=16, random_state=0) for one in found)
        assert linear.feature_map is None
        assert rbf.feature_map.n_anchors == 1000
        assert linear.n_classes == rbf.n_classes == classes
    study = filled(tmp_path)
    others = sheet_of(EXPERIMENT.show(study), "mAP, methods that are not in the paper's tables")
    cells = {row[0]: row[1] for row in others.rows}
    for title, label in (
        ("RidgeHash", "RidgeHash[paper]"),
        ("RidgeHash (RBF)", "RidgeHash[rbf][paper]"),
        ("PosteriorHash", "PosteriorHash"),
    ):
        assert cells[title].startswith(
            f"{mean(score(label, 'mAP', 16, run, 20_000) for run in (0, 1)):.3f} ±"
        )
        assert "paper" not in cells[title]


def test_a_method_of_one_s_own_replaces_every_form() -> None:
    labels = [one.label for one in contestants("mnist", {"RidgeHash": LSH})]
    assert [label for label in labels if label.startswith("RidgeHash")] == ["RidgeHash"]


def test_quick_is_a_part_of_full() -> None:
    assert set(QUICK.bits) <= set(FULL.bits)
    for setting in (*SETTINGS.values(), Setting(per_class=5, stream=500, every=50)):
        scale = quick(setting)
        assert scale.name == "quick"
        assert set(scale.bits) <= set(FULL.bits)
        assert scale.runs <= FULL.runs
        points = scale.checkpoints_of(setting)
        assert set(points) <= set(FULL.checkpoints_of(setting))
        assert points[-1] == setting.stream


def test_notes_belong_to_data_methods_and_metrics() -> None:
    early = notes.matching("mnist", ["HCOH"], ["early mAP"])
    assert len(early) == 1
    assert "0.329" in early[0]
    assert not notes.matching("digits", ["HCOH"], ["early mAP"])
    assert any("learning rate" in text for text in notes.matching("cifar10", ["FCOH"], ["mAP"]))
    assert any("12.51" in text for text in notes.matching("tinyimagenet200", ["OKH"], ["precision@H2"]))
    assert notes.matching("places205", ["OSH"], ["precision@K"])[0].startswith("OSH")
    every = notes.matching("mnist", ["FCOH", "BSODH", "OSH", "SketchHash"], ["mAP", "precision@H2"])
    assert len(every) == len(set(every))
