"""`hashstream bench`: what is measured, said and kept, alone and side by side, and mistakes told in a sentence."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import hashstream
from hashstream import cli, datasets, evaluate, pictures
from hashstream._extras import MissingExtraError
from hashstream.cli.common import choose
from hashstream.evaluate import protocols, watch_jobs, worker_count
from hashstream.hashers import registry
from hashstream.paper.contestants import contestants
from hashstream.pictures import export


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data folder, an empty cache, nobody to download from, room to print, and figures drawn but not written."""
    monkeypatch.setattr(pictures, "save", lambda figure, folder, name: "")
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HASHSTREAM_MNIST_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "200")


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def refused(*arguments: Any) -> str:
    """What is said to a mistake: on stderr, exit code 2, no traceback."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def bench(out: Path, *more: Any) -> Any:
    options = ["--dataset", "digits", "--runs", 2, "--checkpoints", "500,1500", "--out", out, "--workers", 1]
    return call("bench", *options, *more)


def test_bench_measures_summarises_and_goes_on(tmp_path: Path) -> None:
    first = bench(tmp_path, "--methods", "fcoh,LSH", "--bits", "16,8")
    assert first.exit_code == 0, first.output
    assert "0 of 8 measurements are already in" in first.output
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    asked = {("FCOH", "8"), ("FCOH", "16"), ("LSH", "8"), ("LSH", "16")}
    assert {(row["method"], row["bits"]) for row in rows} == asked
    assert {row["n_train"] for row in rows} == {"500", "1500"}
    assert {row["run"] for row in rows} == {"0", "1"}
    values = [
        float(row["value"])
        for row in rows
        if row["metric"] == "mAP[paper]"
        and row["n_train"] == "1500"
        and row["method"] == "FCOH"
        and row["bits"] == "16"
    ]
    mean, half = sum(values) / 2, abs(values[0] - values[1]) / 2**0.5
    assert f"{mean:.3f} ± {half:.3f}" in first.output
    again = bench(tmp_path, "--methods", "FCOH,LSH", "--bits", "8,16")
    assert again.exit_code == 0
    assert "8 of 8 measurements are already in" in again.output
    assert f"{mean:.3f} ± {half:.3f}" in again.output
    with (tmp_path / "results.csv").open() as file:
        assert list(csv.DictReader(file)) == rows


def test_settings_reach_the_method(tmp_path: Path) -> None:
    result = bench(
        tmp_path, "--methods", "FCOH", "--set", "learning_rate=0.001", "--set", "gradient_scale=class"
    )
    assert result.exit_code == 0, result.output
    assert "FCOH(gradient_scale='class', learning_rate=0.001)" in result.output


def test_a_run_that_diverges_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    result = bench(tmp_path, "--methods", "FCOH", "--set", "learning_rate=1e6")
    assert result.exit_code == 0, result.output
    assert "run 0:" in result.output
    assert "run 1:" in result.output
    assert "none" not in result.output
    assert {row["n_train"] for row in evaluate.Results(tmp_path / "results.csv").rows} == {0}
    head, below = result.output.splitlines()[-3:-1]
    assert head.split()[:3] == ["FCOH(learning_rate=1000000.0)", "32", "0"]
    assert head.count("diverged after") == 4
    assert below.count("0 rows") == 4
    assert "(2 diverged)" in below


def test_a_mistake_in_a_method_is_raised_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashstream.LSH, "_learn", lambda self, X, labels: 1 // 0)
    result = bench(tmp_path, "--methods", "LSH")
    assert isinstance(result.exception, ZeroDivisionError)
    assert result.exception.__notes__ == ["While measuring LSH, 32 bits, run 0"]
    assert not (tmp_path / "results.csv").exists()

    def refuse(self: Any, X: np.ndarray, labels: Any) -> bool:
        raise ValueError("not with me")

    monkeypatch.setattr(hashstream.LSH, "_learn", refuse)
    arguments = ["bench", "--dataset", "digits", "--methods", "LSH", "--out", tmp_path, "--workers", 1]
    assert refused(*arguments) == "hashstream: not with me While measuring LSH, 32 bits, run 0"


def test_only_the_runs_that_are_asked_for_are_summarised(tmp_path: Path) -> None:
    first = bench(tmp_path, "--methods", "LSH", "--runs", 1)
    bench(tmp_path, "--methods", "LSH", "--runs", 3)
    again = bench(tmp_path, "--methods", "LSH", "--runs", 1)
    lines = [[x for x in out.output.splitlines() if x.startswith("LSH")] for out in (first, again)]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 1
    assert "±" not in lines[0][0]


def test_another_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "mine.npz", X=rng.standard_normal((180, 6)), y=np.arange(180) % 3)
    options = ["--methods", "LSH", "--runs", 1, "--out", tmp_path / "out"]
    assert call("bench", "--dataset", tmp_path / "a" / "mine.npz", *options).exit_code == 0
    kept = (tmp_path / "out" / "results.csv").read_text()
    said = refused("bench", "--dataset", tmp_path / "b" / "mine.npz", *options)
    assert "has figures of another mine.npz" in said
    assert "has figures of another mine.npz" in refused(
        "tune", "--dataset", tmp_path / "b" / "mine.npz", "--method", "OSH", "--out", tmp_path / "out"
    )
    other_size = ["--dataset", tmp_path / "b" / "mine.npz", *options, "--stream", 100]
    assert "has figures of another mine.npz" in refused("bench", *other_size)
    assert (tmp_path / "out" / "results.csv").read_text() == kept
    np.savez(tmp_path / "one.npz", X=rng.standard_normal((180, 6)), y=np.zeros(180, int))
    assert "has one class, 0: there is nothing to tell apart" in refused(
        "bench", "--dataset", tmp_path / "one.npz", *options
    )


def test_methods_are_in_the_order_given() -> None:
    every = list(choose("all"))
    assert list(choose("LSH,ridgehash[rbf],FCOH")) == ["LSH", "RidgeHash[rbf]", "FCOH"]
    assert list(choose("LSH,all")) == ["LSH", *(name for name in every if name != "LSH")]


METHOD = "from hashstream import LSH\nclass {name}(LSH):\n    pass\n"


def test_a_method_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    (tmp_path / "methods").mkdir()
    file = tmp_path / "methods" / "of_my_own.py"
    file.write_text(METHOD.format(name="FromAFile"))
    options = ["--dataset", "digits", "--runs", 2, "--checkpoints", "500", "--out", tmp_path, "--bits", 8]
    result = call("bench", *options, "--methods", f"{file}:FromAFile", "--workers", 2)  # workers find it, too
    assert result.exit_code == 0, result.output
    rows = evaluate.Results(tmp_path / "results.csv").rows
    assert {(row["method"], row["run"]) for row in rows} == {("FromAFile", 0), ("FromAFile", 1)}
    del sys.modules["of_my_own"]
    (tmp_path / "methods" / "csv.py").write_text(METHOD.format(name="Taken"))
    for name, says in (
        ("nowhere.py:X", "there is no file"),
        (f"{tmp_path / 'methods' / 'csv.py'}:Taken", "another module named csv is imported already"),
        ("csv:Taken", "csv:Taken: there is no Taken in csv"),
        ("nomod:X", "nomod:X: No module named 'nomod'"),
        (":X", ":X: Empty module name"),
        ("csv:", "csv:: there is no name in csv"),
    ):
        assert says in refused("bench", *options, "--methods", name)


@pytest.mark.parametrize("command", [["bench", "--dataset", "digits"], ["paper", "table-map"]])
def test_a_file_that_cannot_be_imported_is_named_with_line_and_error(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "of_theirs.py").write_text("\n\ndef broken(:\n")
    for number, (text, line, error) in enumerate(
        (
            ("import os\nclass M(\n", 2, "SyntaxError: '(' was never closed"),
            ("\nimport no_such_module\n", 2, "ModuleNotFoundError: No module named 'no_such_module'"),
            ("def half():\n    1 / 0\n\nhalf()\n", 4, "ZeroDivisionError: division by zero"),
            ("raise KeyError\n", 1, "KeyError"),
            ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
            ("raise ValueError('two\\nlines')\n", 1, "ValueError: two lines"),
        )
    ):
        file = tmp_path / f"broken_{number}.py"
        file.write_text(text)
        said = refused(*command, "--out", tmp_path / "out", "--methods", f"{file}:M")
        assert said == f"hashstream: {file}:M: line {line} of {file}: {error}"
    file = tmp_path / "imports_theirs.py"
    file.write_text("import of_theirs\n")
    said = refused(*command, "--out", tmp_path / "out", "--methods", f"{file}:M")
    assert f"{file}:M: line 3 of {tmp_path / 'of_theirs.py'}: SyntaxError: " in said
    (tmp_path / "with_null.py").write_bytes(b"a = 1\n\0")
    said = refused(*command, "--out", tmp_path / "out", "--methods", f"{tmp_path / 'with_null.py'}:M")
    assert "null bytes" in said


def test_what_cannot_be_is_refused_before_data_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    monkeypatch.setattr(datasets, "load", lambda name, **_: loaded.append(name))
    for command, options, says in (
        ("bench", ["--bits", "8,2000"], "n_bits must be at least 1 and at most 1024, not 2000"),
        ("bench", ["--set", "batch_size=0"], "batch_size"),
        ("bench", ["--checkpoints", "many"], "--checkpoints 'many'"),
        ("bench", ["--protocol", "drift", "--checkpoints", "5"], "drift has checkpoints of its own"),
        ("tune", ["--by", "foo"], "by is 'foo': it has to be one of mAP"),
        ("tune", ["--try", "nope=1"], "--try nope: FCOH has no such parameter"),
        ("tune", ["--try", "batch_size=10,0"], "batch_size"),
    ):
        assert says in refused(command, "--dataset", "digits", "--out", tmp_path, *options)
    assert loaded == []


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = evaluate.bench.measure

    def stopped(job: Any, *rest: Any, **more: Any) -> Any:
        for i, seen in enumerate(measure(job, *rest, **more)):
            if (job.run, i) == (1, 1):
                raise KeyboardInterrupt
            yield seen

    with monkeypatch.context() as patch:
        patch.setattr(evaluate.bench, "measure", stopped)
        result = bench(tmp_path, "--methods", "LSH")
    assert result.exit_code == 130
    assert "Repeat the command to continue" in " ".join(result.stderr.split())
    kept = (tmp_path / "results.csv").read_text()
    assert bench(tmp_path, "--methods", "LSH").exit_code == 0
    assert (tmp_path / "results.csv").read_text().startswith(kept)


def test_bench_with_the_papers_settings(tmp_path: Path) -> None:
    options = ["--runs", "1", "--out", str(tmp_path), "--settings", "paper", "--checkpoints", "300"]
    result = call("bench", *options, "--dataset", "digits", "--methods", "LSH,HCOH", "--bits", "8")
    assert result.exit_code == 0, result.output
    assert "The paper has no settings for digits: using those for mnist." in result.output
    rows = evaluate.Results(tmp_path / "results.csv").rows
    assert {row["method"] for row in rows} == {"LSH", "HCOH[paper]"}
    found = {row["method"]: row["value"] for row in rows if row["metric"] == "mAP[paper]"}
    data = evaluate.PreparedDataset.of(datasets.load("digits"))
    other = evaluate.Results(tmp_path / "other.csv")
    paper = evaluate.Job("HCOH", partial(hashstream.HCOH.from_paper, "mnist"), 8, 0)
    (checkpoint,) = evaluate.measure(paper, data, [300], other)
    assert found["HCOH[paper]"] == checkpoint.scores["mAP"]


@pytest.mark.filterwarnings("ignore:only .* anchors")
def test_settings_by_name(tmp_path: Path) -> None:
    """The rows are those of the paper's contestant, whose settings and name are the same."""
    options = ["--dataset", "digits", "--methods", "ridgehash[RBF],RidgeHash", "--bits", 8, "--runs", 1]
    options += ["--out", tmp_path, "--checkpoints", 100, "--workers", 1]
    for settings in ("default", "paper"):
        result = call("bench", *options, "--settings", settings)
        assert result.exit_code == 0, result.output
    assert "RidgeHash[rbf][paper]" in result.output
    found = {
        row["method"]: row["value"]
        for row in evaluate.Results(tmp_path / "results.csv").rows
        if row["metric"] == "mAP[paper]"
    }
    assert set(found) == {f"RidgeHash{form}" for form in ("", "[rbf]", "[paper]", "[rbf][paper]")}
    assert found["RidgeHash[rbf]"] != found["RidgeHash"]
    data = evaluate.PreparedDataset.of(datasets.load("digits"))
    ridge = [one for one in contestants("digits") if one.name == "RidgeHash"]
    other = evaluate.Results(tmp_path / "other.csv")
    for one in ridge:
        (checkpoint,) = evaluate.measure(one.job(8, 0), data, [100], other)
        assert found[one.label] == checkpoint.scores["mAP"]
    assert "LSH, ClassifierHash, RidgeHash[rbf], or module:Class" in refused(
        "bench", *options, "--methods", "RidgeHash[fourier]"
    )


@pytest.mark.parametrize(
    ("protocol", "columns"),
    [
        ("unseen-classes", ["seen mAP", "unseen mAP", "unseen precision@10"]),
        ("class-incremental", ["old mAP", "new mAP", "forgetting"]),
        ("bursts:3", ["mAP@1000", "precision@10", "precision@H2"]),
        ("drift:0.5", ["moved mAP", "recovery rows"]),
        ("slow-drift:2", ["precision@10", "of mAP"]),
        ("label-noise:0.4", ["precision@H2", "of precision@K"]),
    ],
)
def test_protocols_by_name(tmp_path: Path, protocol: str, columns: list[str]) -> None:
    options = ["--dataset", "digits", "--methods", "LSH", "--bits", 8, "--runs", 1, "--out", tmp_path]
    result = call("bench", *options, "--protocol", protocol)
    assert result.exit_code == 0, result.output
    assert f"protocol {protocol}, ties 'paper'" in result.output
    for column in columns:
        assert column in result.output
    rows = evaluate.Results(tmp_path / "results.csv").rows
    assert {row["protocol"] for row in rows} == {protocol}
    again = call("bench", *options, "--protocol", protocol)
    assert "1 of 1 measurements are already in" in again.output


def test_areas_under_curves_are_printed(tmp_path: Path) -> None:
    result = bench(tmp_path, "--methods", "LSH", "--bits", 8, "--runs", 1)
    values = [
        row["value"]
        for row in evaluate.Results(tmp_path / "results.csv").rows
        if row["metric"] == "mAP[paper]"
    ]
    assert len(values) == 2
    assert "of precision@K" in result.output
    assert f"{sum(values) / 2:.3f}" in result.output


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(["cat", "dog", "yak"], 60)
    np.savez(tmp_path / "mine.npz", X=rng.standard_normal((180, 6)), y=y)
    options = ["--methods", "LSH", "--runs", 1, "--out", tmp_path / "out"]
    result = call("bench", "--dataset", tmp_path / "mine.npz", *options)
    assert result.exit_code == 0, result.output
    rows = evaluate.Results(tmp_path / "out" / "results.csv").rows
    assert {row["dataset"] for row in rows} == {"mine.npz"}
    assert {row["n_train"] for row in rows} == set(range(16, 161, 16))
    refused_by_hcoh = refused(
        "bench", "--dataset", tmp_path / "mine.npz", *options, "--methods", "HCOH", "--settings", "paper"
    )
    assert "not for 'mine.npz'" in refused_by_hcoh


def test_the_comparison_is_written_for_a_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.delitem(sys.modules, "for_a_paper", raising=False)
    monkeypatch.setattr(pictures, "save", export.save)
    (tmp_path / "for_a_paper.py").write_text(METHOD.format(name="My_Way"))
    out = tmp_path / "out"
    options = ["--methods", f"LSH,{tmp_path / 'for_a_paper.py'}:My_Way,FCOH", "--bits", "16"]
    result = bench(out, *options)
    assert result.exit_code == 0, result.output
    order = ["LSH", "My_Way", "FCOH"]
    assert [line.split()[0] for line in result.output.splitlines()[-4:-1]] == order
    assert "For a paper: table.tex and figure.pdf" in result.output
    table = (out / "table.tex").read_text()
    assert r"\label{tab:digits-paper-map}" in table
    rows = [line.split(" & ") for line in table.splitlines() if " & 16 & " in line]
    assert [row[0].strip() for row in rows] == ["LSH", "My\\_Way", "FCOH"]
    printed = result.output.splitlines()[-2].split()
    mean, _, spread = printed[6:9]  # mAP at the end
    assert f"\\textbf{{{mean} $\\pm$ {spread}}}" == rows[2][3]
    with (out / "figure.csv").open() as file:
        points = list(csv.DictReader(file))
    assert list(dict.fromkeys(point["method"] for point in points)) == order
    assert {point["n_train"] for point in points} == {"500", "1500"}
    assert f"{float(points[-1]['mean']):.3f} ± {float(points[-1]['sd']):.3f}" == f"{mean} ± {spread}"
    drawing = (out / "figure.svg").read_text()
    places = [drawing.rindex(f">{name}<") for name in order]
    assert places == sorted(places)
    assert (out / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert (out / "figure.png").stat().st_size > 5_000

    def missing(module: str, extra: str) -> None:
        raise MissingExtraError(f"{module} is not installed")

    monkeypatch.setattr("hashstream.pictures.figure.require", missing)
    again = bench(out, *options)
    assert again.exit_code == 0, again.output
    assert "table.tex; no figure, as matplotlib is not installed" in again.output


def test_long_tailed_data_and_sizes_of_one_s_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), [90, 60, 30, 4, 1])
    np.savez(tmp_path / "tail.npz", X=rng.standard_normal((185, 6)), y=y)
    options = ["--dataset", tmp_path / "tail.npz", "--methods", "LSH", "--runs", 1, "--out", tmp_path / "out"]
    result = call("bench", *options)
    assert result.exit_code == 0, result.output
    assert "9 queries, 3 of each of 3 classes (2 classes of fewer than 10 rows have none)" in result.output
    sized = call("bench", *options, "--queries", 20, "--stream", 100, "--min-class", 40)
    assert sized.exit_code == 0, sized.output
    assert "20 queries, 10 of each of 2 classes (3 classes of fewer than 40 rows have" in sized.output
    rows = evaluate.Results(tmp_path / "out" / "results.csv").rows
    assert {row["dataset"]: row["n_train"] for row in rows} == {
        "tail.npz": 170,
        "tail.npz[queries=20,stream=100,min_class=40]": 100,
    }
    assert "1 of 1 measurements are already in" in call("bench", *options).output
    assert "--queries" not in sized.output
    fewer = call("bench", *options, "--queries", 19, "--stream", 100, "--min-class", 40)
    assert "--queries 19: 18 are drawn, 9 of each of 2 classes." in fewer.output.splitlines()
    one_class = call("bench", *options, "--queries", 19, "--stream", 100, "--min-class", 70)
    assert "--queries" not in one_class.output  # all of the class that is left
    assert "queries is 2, but each of 3 classes of tail.npz needs at least one" in refused(
        "bench", *options, "--queries", 2
    )


def _gone(group: int) -> bool:
    """Whether all processes of a group end within some seconds (Python's own helper notices by itself, a bit later)."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        stats = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # that one has just ended
                stats.append(path.read_text().rpartition(")")[2].split())
        if stats and all(state == "Z" for state, _, of, *_ in stats if of == str(group)):
            return True  # ended, though nobody has asked how
        time.sleep(0.05)
    return False


def test_workers_give_the_same_and_end_with_ctrl_c(tmp_path: Path) -> None:
    """As a user starts it, at a terminal: Ctrl-C goes to all its processes."""
    options = ["--dataset", "digits", "--methods", "LSH,MIHash", "--bits", "16", "--out", "."]
    command = [sys.executable, "-c", "from hashstream.cli import app; app()", "bench", *options]
    started = subprocess.Popen(
        [*command, "--runs", "40", "--workers", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever starts the tests in the background may have it ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    file = tmp_path / "results.csv"
    while not (file.exists() and file.stat().st_size > 5_000) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert started.returncode == 130, out + err
    assert "Repeat the command to continue" in " ".join(err.split())
    assert "Traceback" not in err
    assert _gone(started.pid)
    kept = evaluate.Results(file).rows
    together = {(row["method"], row["run"], row["n_train"], row["metric"]): row["value"] for row in kept}
    alone = evaluate.Results(tmp_path / "alone.csv")
    data = evaluate.PreparedDataset.of(datasets.load("digits"))
    methods = {"LSH": hashstream.LSH, "MIHash": hashstream.MIHash}
    evaluate.run(evaluate.jobs(methods, bits=[16], runs=1), data, alone)
    same = [
        together[key] == row["value"]
        for row in alone.rows
        if (key := (row["method"], row["run"], row["n_train"], row["metric"])) in together
        and not row["metric"].endswith("_seconds")
    ]
    assert len(same) > 30
    assert all(same)


def test_little_to_do_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    assert worker_count(0, 1_500, 64) == 1
    assert worker_count(0, 20_000, 784) == 3
    assert worker_count(2, 1, 1) == 2


def test_workers_are_no_more_than_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for free, workers in ((1 << 62, 8), (10_000, 8), (3_999, 3), (10, 1)):
        monkeypatch.setattr(evaluate.workers, "available_memory", lambda free=free: free)
        assert worker_count(0, 20_000, 784, 1_000) == workers
        assert worker_count(5, 20_000, 784, 1_000) == 5  # who asks, gets
    monkeypatch.undo()
    free = evaluate.workers.available_memory()
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < free < whole
    assert "fewer if memory" in " ".join(call("bench", "--help").output.replace("│", "").split())


def test_the_bar_counts_rows_and_tells_errors() -> None:
    console = Console(file=io.StringIO(), width=100)
    job = evaluate.Job("M", dict, 8, 0)
    with watch_jobs(console, "what: ", 2, 200) as watch:
        watch(evaluate.JobProgress(job, rows=100))
        watch(evaluate.JobProgress(job, checkpoint=protocols.Checkpoint(100, {"mAP": 0.25}, "paper")))
        watch(evaluate.JobProgress(job, done=True))
        watch(evaluate.JobProgress(job, rows=100, error="it ran away", done=True))
        watch(evaluate.JobProgress(job, checkpoint=protocols.Checkpoint(100, {"old mAP": 0.5}, "paper")))
    said = console.file.getvalue()
    assert "M, 8 bits, run 0: it ran away" in said
    assert "what: 2 of 2: M, 8 bits, run 0, old mAP 0.500" in said
    assert "100 %" in said
