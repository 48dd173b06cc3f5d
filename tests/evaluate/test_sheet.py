"""Tables as LaTeX and CSV: structure, escapes, bold; and the table and curves of a comparison."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hashstream import LSH, evaluate
from hashstream.evaluate import Sheet
from hashstream.evaluate.protocols import Paper


def test_every_row_has_every_column_and_the_best_is_bold() -> None:
    rows = (("a_b", "0.5 ± 0.1\n1 of 2 diverged", "-"), ("c & d", "0.4 ± 0.1", "7"))
    text = Sheet("50 % of {x}", ("method", "16 bits\nof all", "n"), rows, frozenset({(0, 1)})).latex("tab:x")
    assert re.findall(r"\\(begin|end){(.*?)}", text) == [
        ("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table"),
    ]  # fmt: skip
    assert "\\begin{tabular}{lrr}" in text
    assert [text.count(rule) for rule in ("\\toprule", "\\midrule", "\\bottomrule")] == [1, 1, 1]
    lines = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert all(len(re.findall(r"(?<!\\)&", line)) == 2 for line in lines)
    assert len(lines) == 2 + 2 + 1
    assert "a\\_b & \\textbf{0.5 $\\pm$ 0.1} & - \\\\" in text
    assert " & {\\tiny 1 of 2 diverged} &  \\\\" in text
    assert "c \\& d" in text
    assert "\\caption{50 \\% of \\{x\\}}" in text
    assert text.count("textbf") == 1


def test_nothing_in_a_name_is_a_command() -> None:
    text = evaluate.sheet.latex_text("\\input{x} $a$ #1 ~ ^ 100% λ1 “q” -0.5 to-do")
    assert text == (
        r"\textbackslash{}input\{x\} \$a\$ \#1 \textasciitilde{} \textasciicircum{} 100\% $\lambda$1 ``q'' $-$0.5 to-do"
    )


def test_a_wide_table_has_smaller_letters() -> None:
    def of(columns: int) -> str:
        return Sheet(
            "x", ("method", *("8 bits",) * columns), (("LSH", *("0.123 ± 0.012",) * columns),)
        ).latex()

    assert "small" not in of(1)
    assert "\\scriptsize" in of(5)
    assert "\\begin{table*}" in of(12)
    assert "\\end{table*}" in of(12)


def test_files(tmp_path: Path) -> None:
    rows = (("A", "1,234 ± 5", "0.5\npaper 0.6"), ("B", "never", "-"))
    Sheet("c", ("method", "rows", "mAP"), rows).write(tmp_path, "one", comment="made by me")
    text = (tmp_path / "one.tex").read_text()
    assert text.startswith("% made by me\n% \\usepackage{booktabs}\n\\begin{table}")
    assert "\\label{tab:one}" in text
    with (tmp_path / "one.csv").open() as file:
        assert list(csv.DictReader(file)) == [
            {"method": "A", "rows": "1234", "rows sd": "5", "mAP": "0.5", "mAP remark": "paper 0.6"},
            {"method": "B", "rows": "never", "rows sd": "", "mAP": "-", "mAP remark": ""},
        ]


def test_each_comparison_has_a_label_of_its_own(tmp_path: Path) -> None:
    one = compared(tmp_path, {("A", 0): 0.5, ("A", 1): 0.5})
    for changed, label in (
        ({}, "tab:d-paper-map"),
        ({"dataset": "My_data[queries=20].npz"}, "tab:my-data-queries-20-npz-paper-map"),
        ({"protocol": "label-noise:0.4", "ties": "aware"}, "tab:d-label-noise-0-4-map-aware"),
        ({"columns": ((20, "old mAP"),), "rows": ()}, "tab:d-paper-old-map"),
    ):
        replace(one, **changed).sheet().write(tmp_path, "table")
        assert f"\\label{{{label}}}" in (tmp_path / "table.tex").read_text()


def compared(folder: Path, values: dict[tuple[str, int], float]) -> evaluate.Comparison:
    """Of mAP by (method, run), the same after 10 and 20 rows."""
    results = evaluate.Results(folder / "results.csv")
    columns = {"dataset": "d", "protocol": "paper", "bits": 8}
    for (method, run), value in values.items():
        for n in (10, 20):
            named = {"mAP[paper]": value, "precision@H2[paper]": 1 - value, "train_seconds": value}
            results.append(
                [
                    {**columns, "method": method, "run": run, "n_train": n, "metric": metric, "value": found}
                    for metric, found in named.items()
                ]
            )
    jobs = evaluate.jobs(dict.fromkeys([method for method, _ in values], LSH), bits=[8], runs=2)
    return evaluate.compare(jobs, "d", [10, 20], results, protocol=Paper(), ties="paper", runs=2)


def test_a_comparison_is_in_the_order_of_the_jobs(tmp_path: Path) -> None:
    found = compared(tmp_path, {("Z", 0): 0.3, ("Z", 1): 0.5, ("A", 0): 0.6, ("A", 1): 0.7})
    sheet = found.sheet()
    assert [row[0] for row in sheet.rows] == ["Z", "A"]
    assert sheet.columns == (
        "method", "bits", "mAP\nafter 10", "mAP\nafter 20", "precision@H2\nafter 20", "train s\nafter 20",
    )  # fmt: skip
    assert sheet.rows[1][2] == "0.650 ± 0.071"
    assert sheet.best == {(1, 2), (1, 3), (0, 4)}  # none among times
    points = found.points()
    assert [(point["method"], point["n_train"]) for point in points] == [
        ("Z", 10), ("Z", 20), ("A", 10), ("A", 20),
    ]  # fmt: skip
    assert points[0]["mean"] == pytest.approx(0.4)
    assert points[0]["sd"] == pytest.approx(0.2 / 2**0.5)


def test_equal_figures_are_bold_and_those_of_some_runs_are_not(tmp_path: Path) -> None:
    values = {("A", 0): 0.5, ("A", 1): 0.6, ("B", 0): 0.50004, ("B", 1): 0.6, ("C", 0): 0.9}
    sheet = compared(tmp_path, values).sheet()
    assert {(row, column) for row, column in sheet.best if column == 3} == {(0, 3), (1, 3)}
