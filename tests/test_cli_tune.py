"""`hashstream tune`: what it prints, what it keeps, and the command that it ends with."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hashstream import cli, evaluate


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def tune(*arguments: Any) -> Any:
    options = ["tune", "--dataset", "digits", "--workers", 1, *arguments]
    return CliRunner().invoke(cli.app, [str(option) for option in options])


def test_the_best_are_shown_and_the_command_sets_them(tmp_path: Path) -> None:
    grid = ["--try", "learning_rate=0.2,0.01,1e-6", "--try", "batch_size=1,10", "--runs", 2]
    options = ["--method", "hcoh", "--bits", 16, "--set", "rows=distinct", *grid, "--out", tmp_path]
    result = tune(*options)
    assert result.exit_code == 0, result.output
    assert "150 rows of the stream are queries, 1,350 are learned from and searched" in result.output
    rows = evaluate.Results(tmp_path / "results.csv").rows
    assert {row["protocol"] for row in rows} == {"validation"}
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["metric"] == "mAP[aware]":
            values.setdefault(row["method"], []).append(row["value"])
    assert len(values) == 7
    best = max(values, key=lambda method: sum(values[method]))
    assert best == "HCOH(rows='distinct')"  # so far ahead of the rest that a change of it should be looked at
    assert "Nothing is better than --set alone." in result.output
    lines = result.output.splitlines()
    table = [line.split() for line in lines[lines.index(next(x for x in lines if "place" in x)) + 1 :]][:7]
    assert [line[0] for line in table] == list("1234567")
    means = [float(line[-3]) for line in table]
    assert means == sorted(means, reverse=True)
    assert f"{sum(values[best]) / 2:.3f}" == f"{means[0]:.3f}"
    assert "0 of 14 measurements are already in" in result.output
    assert "About 83% of each run's queries were in the streams of the others" in result.output
    assert "--runs 2 " in result.output
    again = tune(*options)
    assert "14 of 14 measurements are already in" in again.output
    assert len(evaluate.Results(tmp_path / "results.csv").rows) == len(rows)
    assert table[0] in [line.split() for line in again.output.splitlines()]


def test_diverged_trials_are_marked_and_the_printed_command_runs(tmp_path: Path) -> None:
    result = tune(
        "--method", "FCOH", "--bits", 8, "--set", "gradient_scale=bits", "--set", "passes=1",
        "--set", "learning_rate=1e-5", "--try", "learning_rate=0.01,1e6", "--out", tmp_path / "tuning",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "The best of 3; 1 diverged" in result.output
    assert "1 of 1" in result.output
    assert "too large for this data" not in result.output  # the table says it
    (command,) = (line for line in result.output.splitlines() if line.startswith("hashstream bench"))
    assert "--set learning_rate=0.01" in command
    assert "run 0's queries, which were not used so far (of other runs' queries about 83%" in result.output
    assert "--runs 1 " in command
    arguments = [
        *shlex.split(command)[1:-1],
        str(tmp_path / "results"),
        "--checkpoints",
        "500",
    ]
    judged = CliRunner().invoke(cli.app, arguments)
    assert judged.exit_code == 0, judged.output
    methods = {row["method"] for row in evaluate.Results(tmp_path / "results" / "results.csv").rows}
    assert methods == {"FCOH(gradient_scale='bits', learning_rate=0.01, passes=1)"}


def test_the_bar_of_a_continued_tuning_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[list[int]] = []
    watch_jobs = cli.tune.__globals__["watch_jobs"]

    @contextmanager
    def counting(console: Any, what: str, jobs: int, rows: int) -> Any:
        bars.append([jobs, rows, 0, 0])
        with watch_jobs(console, what, jobs, rows) as watch:

            def count(news: evaluate.JobProgress) -> None:
                bars[-1][2] += news.done
                bars[-1][3] += news.rows
                watch(news)

            yield count

    monkeypatch.setitem(cli.tune.__globals__, "watch_jobs", counting)
    for tried in ("0.2", "0.2,0.1"):
        result = tune("--method", "HCOH", "--bits", 8, "--try", f"learning_rate={tried}", "--out", tmp_path)
        assert result.exit_code == 0, result.output
    assert [jobs for jobs, *_ in bars] == [done for _, _, done, _ in bars]
    assert [rows for _, rows, *_ in bars] == [rows for *_, rows in bars]
    assert bars[1][1] < bars[0][1] * 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--method", "FCOH,LSH"], "tune one method at a time"),
        (["--method", "LSH"], "LSH has no default grid: give values to try"),
        (["--method", "FCHO"], "there is no method FCHO"),
        (["--try", "learning_rate"], "it has to be name=value,value"),
        (["--try", "learning_rate="], "it has to be name=value,value"),
        (["--try", "speed=1,2"], "FCOH has no such parameter; it has"),
        (["--try", "batch_size=10,0"], "batch_size"),
        (["--by", "recall"], "it has to be one of mAP"),
    ],
)
def test_mistakes_in_tuning_are_answered_with_a_sentence(
    tmp_path: Path, options: list[str], says: str
) -> None:
    result = tune(*options, "--out", tmp_path)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert says in " ".join(result.stderr.split())
