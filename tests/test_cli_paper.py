"""`hashstream paper`: what is made, that it goes on, what is said to mistakes; the same from Python."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from typer.testing import CliRunner

from hashstream import cli, evaluate, paper
from hashstream.datasets import DatasetError
from hashstream.hashers import LSH, registry
from hashstream.paper import EXPERIMENTS, Scale, runner
from hashstream.paper.experiments import fig_convergence, fig_offline, fig_parameters

ACCURACY = ("table-map", "fig-map-instances", "fig-map-auc", "fig-precision-k", "fig-precision-auc")


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data folder, an empty cache, nobody to download from, and room to print."""
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("HASHSTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HASHSTREAM_MNIST_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file of the user's own: three classes of 70 rows, so that everything is quick."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 70)
    X = rng.standard_normal((210, 8)) + 1.5 * rng.standard_normal((3, 8))[y]
    path = tmp_path / "own.npz"
    np.savez(path, X=X.astype(np.float32), y=y)
    return path


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, ["paper", *(str(argument) for argument in arguments)])


def refused(*arguments: Any) -> str:
    """What is said to a mistake: on stderr, exit code 2, no traceback."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))


def test_help_and_list_name_every_experiment() -> None:
    told, listed = call("--help"), call("list")
    assert told.exit_code == listed.exit_code == 0
    for name, experiment in EXPERIMENTS.items():
        assert name in told.output
        assert name in listed.output
        assert experiment.what[:40] in listed.output
    assert "Example:" in told.output
    assert set(ACCURACY) <= set(EXPERIMENTS)


def test_one_experiment_makes_rows_figures_and_a_report_and_goes_on(tmp_path: Path, own: Path) -> None:
    out = tmp_path / "out"
    arguments = [
        "fig-map-auc",
        "--dataset",
        own,
        "--out",
        out,
        "--methods",
        "fcoh,HCOH,mihash",
        "--workers",
        1,
    ]
    first = call(*arguments)
    assert first.exit_code == 0, first.output
    assert "AUC of mAP" in first.output
    assert f"Report: {out / 'fig-map-auc.html'}" in first.output
    files = {path.name for path in (out / "figures").iterdir()}
    assert files == {f"fig-map-auc.{kind}" for kind in ("png", "svg", "pdf", "csv")}
    rows = rows_of(out)
    assert {row["method"] for row in rows} == {"FCOH", "HCOH", "MIHash"}
    assert {row["dataset"] for row in rows} == {"own.npz"}
    assert {row["run"] for row in rows} == {"0", "1", "2"}
    page = (out / "fig-map-auc.html").read_text()
    assert "hashstream paper fig-map-auc --dataset own.npz --quick --out out" in page
    (entry,) = json.loads((out / "measured.json").read_text())
    assert (entry["first_row"], entry["rows"]) == (0, len(rows))
    assert call(*arguments).exit_code == 0
    assert rows_of(out) == rows
    assert json.loads((out / "measured.json").read_text()) == [entry]  # nothing was measured

    value = [
        float(row["value"])
        for row in rows
        if (row["method"], row["bits"], row["run"], row["metric"]) == ("HCOH", "32", "1", "mAP[paper]")
    ]
    assert len(value) == 10
    areas = [
        np.mean([float(r["value"]) for r in rows if (r["method"], r["bits"], r["run"], r["metric"])
                 == ("HCOH", "32", str(run), "mAP[paper]")])
        for run in range(3)
    ]  # fmt: skip
    assert f"{np.mean(areas):.3f} ± {np.std(areas, ddof=1):.3f}" in page
    assert f"{np.mean(areas):.3f} ± {np.std(areas, ddof=1):.3f}" in (out / "fig-map-auc.md").read_text()


def test_a_report_is_regenerated_from_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = ",".join(evaluate.COLUMNS)
    lines = [
        f"mnist,paper,{label},{bits},0,20000,{metric}[paper],{value}"
        for label, value in (("HCOH[paper]", 0.7), ("FCOH[paper]", 0.75))
        for bits in (16, 32, 64)
        for metric in ("mAP", "precision@H2")
    ]
    (tmp_path / "results.csv").write_text("\n".join([header, *lines, ""]))
    before = (tmp_path / "results.csv").read_text()
    result = call("table-map", "--from-rows", "--out", tmp_path)  # MNIST is not here, and not asked for
    assert result.exit_code == 0, result.output
    assert (tmp_path / "results.csv").read_text() == before
    page = (tmp_path / "table-map.html").read_text()
    assert "paper 0.756 (-0.056)" in page
    assert "0.750" in page


def test_compressed_rows_are_read_where_there_are_no_others(tmp_path: Path) -> None:
    header = ",".join(evaluate.COLUMNS)
    lines = [f"mnist,paper,HCOH[paper],{bits},0,20000,mAP[paper],0.7" for bits in (16, 32, 64)]
    packed = tmp_path / "results.csv.gz"
    packed.write_bytes(gzip.compress("\n".join([header, *lines, ""]).encode()))
    before = packed.read_bytes()
    assert call("table-map", "--from-rows", "--out", tmp_path).exit_code == 0
    assert "paper 0.756 (-0.056)" in (tmp_path / "table-map.html").read_text()
    assert packed.read_bytes() == before
    made = {"results.csv.gz", "figures", "tables", "table-map.html", "table-map.md", "cache"}
    assert {path.name for path in tmp_path.iterdir()} <= made
    assert "results.csv.gz" in call("--help").output

    (tmp_path / "results.csv").write_text("\n".join([header, lines[0].replace("0.7", "0.8"), ""]))
    assert call("table-map", "--from-rows", "--out", tmp_path).exit_code == 0
    assert "0.800" in (tmp_path / "table-map.html").read_text()  # what is not compressed comes first
    (tmp_path / "results.csv").unlink()
    packed.write_bytes(before[:-20])
    assert "cannot be decompressed" in refused("table-map", "--from-rows", "--out", tmp_path)


class Page(HTMLParser):
    """Every tag is closed in its turn; texts and ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.ids += [value or "" for name, value in attributes if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.words.append(text)


def test_everything_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`all` from the data to the page, on data so small that it takes seconds."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 75)
    X = rng.standard_normal((300, 8)) + 1.5 * rng.standard_normal((4, 8))[y]
    np.savez(tmp_path / "tiny.npz", X=X.astype(np.float32), y=y)
    scale = Scale("quick", bits=(8, 32), runs=1, checkpoints=(0, -1))
    monkeypatch.setattr(runner, "quick", lambda setting: scale)
    for settings in fig_offline.HEADS.values():
        monkeypatch.setitem(settings, "least_steps", 3)
        monkeypatch.setitem(settings, "epochs", 1)
    few = {"batch_size": (100,), "lambda1": (0, 0.1), "lambda2": (0, 0.01), "learning_rate": (1e-3, 0.1)}
    monkeypatch.setattr(fig_parameters, "FEW", few)
    monkeypatch.setattr(fig_convergence, "DRAWS", 5)
    out = tmp_path / "out"
    arguments = ["all", "--dataset", tmp_path / "tiny.npz", "--out", out, "--methods", "FCOH,MIHash,LSH"]
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text()
    read = Page(page)
    assert not read.open
    for where in (tmp_path, Path.cwd(), Path.home()):
        assert str(where) not in page + (out / "report.md").read_text() + (out / "measured.json").read_text()
    text = " ".join(read.words)
    assert "What holds, what does not" in text
    assert "measured yet" not in text.replace("Not measured yet", "")
    drawn = {path.stem for path in (out / "figures").glob("*.svg")}
    for kind in ("png", "pdf", "csv"):
        assert drawn == {path.stem for path in (out / "figures").glob(f"*.{kind}")}
    for file in (out / "figures").glob("*.csv"):
        with file.open() as lines:
            assert len(list(csv.DictReader(lines))) > 1, file.name
    tables = {path.stem for path in (out / "tables").glob("*.tex")}
    assert tables == {path.stem for path in (out / "tables").glob("*.csv")}
    assert "readings" not in page  # the paper has no figures for this data
    for name, experiment in EXPERIMENTS.items():
        if not experiment.fits("tiny.npz"):
            continue
        (link,) = re.findall(f'<a href="#([^"]+)">{name}</a>', page)
        anchor = unquote(link)
        assert anchor in read.ids
        begin = page.index(f'<h2 id="{anchor}">')
        section = page[begin : page.index("<h2", begin + 1)]
        assert section.count("<table>") >= 1, name
        figures = {one for one in drawn if one == name or one.startswith(f"{name}-")}
        assert section.count("<figure>") == len(figures)
        assert bool(figures) is (name.startswith("fig-") or name == "table-time"), name
        assert any(table == name or table.startswith(f"{name}-") for table in tables), name
        assert f"\n- [{name}](#{anchor}): **" in (out / "report.md").read_text()
        assert experiment.name == name
    assert {row["protocol"] for row in rows_of(out)} == {
        "paper", "table-time", "fig-offline", "fig-convergence", "table-storage",
    }  # fmt: skip
    rows = rows_of(out)
    assert call(*arguments, "--from-rows").exit_code == 0
    assert rows_of(out) == rows
    again = (out / "report.html").read_text()
    assert re.sub("report generated.*", "", again) == re.sub("report generated.*", "", page)


@pytest.mark.parametrize("given", ["my_paper_method:MyWay", "methods/my_other_method.py:MyWay"])
def test_a_method_of_one_s_own_takes_part(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    file = tmp_path / given.split(":")[0].replace(".py", "")
    file.parent.mkdir(exist_ok=True)
    file.with_suffix(".py").write_text(
        "from hashstream import LSH\n\n\nclass MyWay(LSH):\n    '''Another name.'''\n"
    )
    monkeypatch.chdir(tmp_path)
    scale = Scale("quick", bits=(16,), runs=2, checkpoints=(0, -1))
    monkeypatch.setattr(runner, "quick", lambda setting: scale)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(registry, "_METHODS", {**registry._METHODS})
    out = tmp_path / "out"
    arguments = ["--dataset", own, "--out", out, "--workers", 1]
    result = call("fig-map-instances", *arguments, "--methods", f"{given},hcoh,LSH")
    assert result.exit_code == 0, result.output
    rows = rows_of(out)
    mine, theirs = (
        [row["value"] for row in rows if row["method"] == name and row["metric"] == "mAP[paper]"]
        for name in ("MyWay", "LSH")
    )
    assert mine == theirs != []
    line = f"--methods {given},hcoh,LSH"
    assert line in (out / "fig-map-instances.html").read_text()
    with (out / "figures" / "fig-map-instances.csv").open() as file:
        points = list(csv.DictReader(file))
    assert list(dict.fromkeys(row["method"] for row in points)) == ["MyWay", "HCOH", "LSH"]  # as given
    values = [
        float(row["value"])
        for row in rows
        if (row["method"], row["bits"], row["n_train"], row["metric"]) == ("HCOH", "16", "18", "mAP[paper]")
    ]
    (point,) = [
        row
        for row in points
        if (row["method"], row["bits"], row["training instances"]) == ("HCOH", "16", "18")
    ]
    assert float(point["mAP"]) == pytest.approx(np.mean(values))
    assert float(point["sd"]) == pytest.approx(np.std(values, ddof=1))
    (table,) = [path.read_text() for path in (out / "tables").glob("*.tex")]
    assert [line.split(" & ")[0].strip() for line in table.splitlines() if "&" in line] == [
        "method", "MyWay", "HCOH", "LSH",
    ]  # fmt: skip
    assert line in table
    drawing = (out / "figures" / "fig-map-instances.svg").read_text()
    places = [drawing.rindex(f">{name}<") for name in ("MyWay", "HCOH", "LSH")]
    assert places == sorted(places)  # in the legend
    assert not (out / "figures" / "fig-map-instances-others.svg").exists()


def test_lengths_and_runs_are_chosen(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = Scale("quick", bits=(8,), runs=1, checkpoints=(-1,))
    monkeypatch.setattr(runner, "quick", lambda setting: scale)
    out = tmp_path / "out"
    arguments = ["table-map", "--dataset", own, "--out", out, "--methods", "LSH", "--workers", 1]
    assert call(*arguments).exit_code == 0
    first = rows_of(out)
    more = ["--bits", "16,8", "--runs", 2]
    assert call(*arguments, *more).exit_code == 0
    rows = rows_of(out)
    assert rows[: len(first)] == first  # nothing is measured twice
    found = [(row["bits"], row["run"]) for row in rows if row["metric"] == "mAP[paper]"]
    assert sorted(found) == [("16", "0"), ("16", "1"), ("8", "0"), ("8", "1")]
    page = (out / "table-map.html").read_text()
    assert "--bits 8,16 --runs 2" in page
    assert "over 2 runs" in page
    assert "at least 1" in refused(*arguments, "--bits", "0,8")
    for wrong, says in (
        ({"runs": 0}, "runs must be at least 1, not 0"),
        ({"runs": "x"}, "runs must be a whole number, not 'x'"),
        ({"bits": [8, 1.5]}, "bits must be a whole number, not 1.5"),
        ({"bits": []}, "bits is empty"),
    ):
        with pytest.raises(ValueError, match=says):
            runner.run("table-map", dataset=str(own), out=tmp_path / "none", **wrong)


def test_another_size_has_rows_of_its_own(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = Scale("quick", bits=(8,), runs=1, checkpoints=(-1,))
    monkeypatch.setattr(runner, "quick", lambda setting: scale)
    out = tmp_path / "out"
    arguments = ["table-map", "--dataset", own, "--out", out, "--methods", "LSH", "--workers", 1]
    size = ["--queries", 30, "--stream", 120, "--min-class", 20]
    for more in ([], size):
        result = call(*arguments, *more)
        assert result.exit_code == 0, result.output
    rows = rows_of(out)
    assert {(row["dataset"], row["n_train"]) for row in rows} == {
        ("own.npz", "180"),
        ("own.npz[queries=30,stream=120]", "120"),
    }
    page = (out / "table-map.html").read_text()
    assert "10 queries per class" in page
    uneven = call(*arguments, "--queries", 32, "--stream", 120, "--min-class", 20)
    assert "--queries 32: 30 are drawn, 10 of each of 3 classes." in uneven.output.splitlines()
    assert "--queries 30 --stream 120 --min-class 20" in page
    assert call(*arguments, *size, "--from-rows").exit_code == 0
    assert rows_of(out) == rows
    assert "stream is 1000: own.npz has 189 rows that are not queries" in refused(
        *arguments, "--stream", 1000
    )


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = evaluate.run

    def stopped(jobs: Any, *rest: Any, **more: Any) -> None:
        run(jobs[:2], *rest, **more)
        raise KeyboardInterrupt

    out = tmp_path / "out"
    arguments = ["table-map", "--dataset", own, "--out", out, "--methods", "LSH", "--workers", 1]
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "run", stopped)
        result = call(*arguments)
    assert result.exit_code == 130
    assert "The same command continues" in " ".join(result.stderr.split())
    kept = (out / "results.csv").read_text()
    assert kept.count("mAP[paper]") == 20
    assert call(*arguments).exit_code == 0
    assert (out / "results.csv").read_text().startswith(kept)


def test_mistakes_are_answered_with_a_sentence(tmp_path: Path, own: Path) -> None:
    assert "there is no experiment 'table-maps'" in refused("table-maps", "--out", tmp_path)
    assert "no method minhash" in refused(
        "table-map", "--dataset", own, "--methods", "minhash", "--out", tmp_path
    )
    assert "nowhere:Nothing" in refused("table-map", "--methods", "nowhere:Nothing", "--out", tmp_path)
    assert "results.csv nor results.csv.gz exists" in refused(
        "table-map", "--from-rows", "--out", tmp_path / "empty"
    )
    assert "no-such-data" in refused("table-map", "--dataset", "no-such-data", "--out", tmp_path)
    (tmp_path / "results.csv").write_text("not,a,results,file\n")
    assert "is not a results file" in refused("table-map", "--dataset", own, "--out", tmp_path)


def test_the_same_from_python(tmp_path: Path, own: Path) -> None:
    class Mine(LSH):
        """A method of one's own."""

    told: list[str] = []
    outcome = paper.run(
        "table-map",
        dataset=str(own),
        out=tmp_path / "out",
        methods=[Mine, "FCOH"],
        tell=lambda section: told.append(section.name),
    )
    assert told == ["table-map"]
    assert [section.name for section in outcome.sections] == ["table-map"]
    assert outcome.page.read_text().startswith("<!doctype html>")
    assert outcome.markdown.is_file()
    (sheet,) = [s for s in outcome.sections[0].sheets if s.caption.startswith("mAP, after")]
    assert [row[0] for row in sheet.rows] == ["Mine", "FCOH (auto)"]
    with pytest.raises(ValueError, match="choose from table-map"):
        paper.run("figure-1", out=tmp_path)
    with pytest.raises(DatasetError):
        paper.run("table-map", dataset="no-such-data", out=tmp_path / "other")
