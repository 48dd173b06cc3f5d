"""table-time: the gate's count against brute force, the paper's model of rebuilds, and ratios made of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_studies import blobs, small_study
from threadpoolctl import threadpool_info, threadpool_limits

from hashstream import LSH, datasets
from hashstream.evaluate import JobProgress
from hashstream.evaluate.protocols import SETTINGS
from hashstream.hashers import MIHash
from hashstream.paper import Study
from hashstream.paper.experiments.table_time import gate, model
from hashstream.paper.experiments.table_time.experiment import EXPERIMENT, finding
from hashstream.paper.experiments.table_time.gate import gated_rebuilds
from hashstream.paper.experiments.table_time.model import Time, rows_between_rebuilds, times
from hashstream.paper.printed import METHODS, SECONDS


def information(bits: np.ndarray, labels: np.ndarray) -> float:
    """Mean over items of what distances tell about labels, pair by pair; distances r-1 and r share a bin."""
    n, r = bits.shape

    def entropy(found: list[int]) -> float:
        p = np.unique(found, return_counts=True)[1] / len(found)
        return float(-(p * np.log2(p)).sum())

    total = 0.0
    for i in range(n):
        distance = [min(int((bits[i] != bits[j]).sum()), r - 1) for j in range(n)]
        own = [h for h, label in zip(distance, labels, strict=True) if label == labels[i]]
        other = [h for h, label in zip(distance, labels, strict=True) if label != labels[i]]
        rest = len(other) / n * entropy(other) if other else 0.0
        total += max(0.0, entropy(distance) - len(own) / n * entropy(own) - rest)
    return total / n


@pytest.mark.parametrize("every", [1, 7, 25])
def test_gate_counts_as_brute_force_does(every: int) -> None:
    X, y = blobs(120, classes=3, d=6)
    X = datasets.centred_unit(X)
    hashers = [MIHash(8, reservoir_size=20, random_state=3) for _ in range(2)]

    slow, tables, expected = hashers[1], [], 0
    for i in range(len(X)):
        slow.partial_fit(X[i : i + 1], y[i : i + 1])
        W = slow.projection_
        tables = tables or [W]
        if (i + 1) % every == 0 and np.abs(W - tables[-1]).sum() >= 1e-6:
            seen = slow.reservoir_
            new, old = (information(seen @ M > 0, slow.reservoir_labels_) for M in (W, tables[-1]))
            if new > old + 1e-12:
                tables.append(W)
                expected += 1
    assert gated_rebuilds(hashers[0], X, y, every=every) == expected
    assert 0 < expected < 120 // every + 1


def test_a_high_threshold_never_rebuilds() -> None:
    X, y = blobs(120, classes=3, d=6)
    assert gated_rebuilds(MIHash(8, reservoir_size=20, random_state=0), X, y, every=10, theta=9.0) == 0


@pytest.mark.parametrize(
    ("dataset", "stream", "constant"), [("mnist", 20_000, 0.04), ("cifar10", 20_000, 0.16)]
)
def test_the_paper_s_table_seconds_are_rebuilds_by_a_constant(
    dataset: str, stream: int, constant: float
) -> None:
    for method in METHODS:
        rows = rows_between_rebuilds(method, dataset)
        if rows is None:
            assert method == "MIHash"
        else:
            assert stream / rows * constant == pytest.approx(SECONDS[dataset][method][1])


def test_the_model_holds_on_places_too() -> None:
    for method in ("FCOH", "BSODH", "HCOH", "SketchHash"):
        rows = rows_between_rebuilds(method, "places205")
        assert rows is not None
        assert 100_000 / rows * 0.25 == pytest.approx(SECONDS["places205"][method][1])


def test_each_method_is_timed_once_and_alone(tmp_path: Path) -> None:
    class Mine(LSH):
        """A method of one's own."""

    study = small_study(tmp_path, name="mnist", checkpoints=(-1,))
    study = type(study)(**{**vars(study), "methods": ("FCOH", "MIHash", "HCOH", Mine), "workers": 2})
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text

    found = {t.title: t for t in times(study)}
    assert set(found) == {"FCOH (auto)", "FCOH (paper)", "HCOH", "MIHash", "Mine"}
    assert (found["FCOH (paper)"].rebuilds, found["HCOH"].rebuilds, found["Mine"].rebuilds) == (6, 600, 0)
    hasher = MIHash.from_paper("mnist", 32, random_state=0)
    split = study.data.split(0)
    X, y = study.data.X[split.stream], study.data.y[split.stream]
    assert found["MIHash"].rebuilds == gated_rebuilds(hasher, X, y, every=100)
    assert all(t.functions > 0 and t.rebuild > 0 for t in found.values())

    section = EXPERIMENT.show(study)
    functions, tables, *_ = section.sheets
    rows = {row[0]: row for row in functions.rows}
    assert rows["HCOH"][3:] == ("4.01", "2.4")  # the paper's seconds, and over its FCOH
    assert functions.columns[2] == "ours / FCOH (paper)"
    assert rows["FCOH (paper)"][2] == "1"
    assert {row[0]: row[1] for row in tables.rows}["HCOH"] == "600"
    assert list(section.figures) == ["table-time", "table-time-policies"]


def timed(folder: Path, name: str) -> Study:
    """A study with times of everybody, made up."""
    study = small_study(folder, name=name, runs=3)
    for one in study.contestants:
        for run in range(3):
            rows = {"train_seconds": 0.5, "encode_seconds": 0.01, "updates[paper]": 14.0}
            study.add("table-time", one.label, 32, run, 600, **rows)
            if one.name == "MIHash":
                study.add("table-time", one.label, 32, run, 600, **{"gated_rebuilds@100": 4.0})
    return study


@pytest.mark.parametrize(
    ("name", "column"), [("mnist", "paper"), ("cifar10", "paper, VGG-16 features"), ("digits", "")]
)
def test_the_paper_s_seconds_are_shown_only_for_its_data(tmp_path: Path, name: str, column: str) -> None:
    section = EXPERIMENT.show(timed(tmp_path, name))
    functions, tables = section.sheets
    assert functions.columns[3:] == ((f"{column}, s", f"{column} / FCOH") if column else ())
    assert tables.columns[6:] == ((f"{column}: table, s", f"{column}: total, s") if column else ())
    (figure,) = section.figures.values()
    hollow = [line for axes in figure.axes for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert len(hollow) == (16 if column else 0)
    assert ("hollow" in figure.get_suptitle()) is bool(column)
    assert ("Hollow" in section.captions["table-time"]) is bool(column)


def test_rebuilds_are_of_the_batches_that_were_fed(tmp_path: Path) -> None:
    study = timed(tmp_path, "mnist")  # a checkpoint after every 200 rows, BSODH's batches have 2,000
    found = {t.title: t for t in times(study)}
    assert found["BSODH"].rebuilds == 3
    assert found["FCOH (paper)"].rebuilds == 6
    assert any(
        "the batches of BSODH (2,000 rows) are cut there" in note for note in EXPERIMENT.show(study).notes
    )
    long = replace(study, data=replace(study.data, setting=SETTINGS["mnist"]))
    assert model.batches_fed(long, 2_000) == 10
    assert model.batches_fed(long, 100) == 200


def test_runs_that_diverged_have_no_time(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="mnist", runs=2)
    rows = {"train_seconds": 0.5, "encode_seconds": 0.01, "updates[paper]": 14.0}
    study.add("table-time", "FCOH[paper]", 32, 0, 600, **rows)
    study.add("table-time", "FCOH[paper]", 32, 1, 100, diverged_rows=100.0)
    for run in (0, 1):
        study.add("table-time", "HCOH[paper]", 32, run, 100, diverged_rows=100.0)
    section = EXPERIMENT.show(study)
    assert section.sheets[0].rows[0][:2] == ("FCOH (paper)", "0.5\n1 of 2 runs")
    assert section.finding.endswith("No time, since every run diverged: HCOH.")
    (figure,) = section.figures.values()
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["FCOH (paper) (1 of 2 runs)"]


def test_the_gate_is_asked_on_one_thread_within_the_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, news, bars = [], [], []
    count = gate.gated_rebuilds

    def looked(*arguments: Any, **more: Any) -> int:
        threads.append(max((pool["num_threads"] for pool in threadpool_info()), default=1))
        return count(*arguments, **more)

    @contextmanager
    def watching(what: str, jobs: int, rows: int) -> Iterator[Callable[[JobProgress], None]]:
        bars.append((what, jobs, rows))
        yield lambda one: news.append((what, one))

    monkeypatch.setattr(gate, "gated_rebuilds", looked)
    study = small_study(tmp_path, name="mnist", runs=2, checkpoints=(-1,))
    with threadpool_limits(2):
        EXPERIMENT.measure(replace(study, methods=("MIHash",), watching=watching))
    assert threads == [1, 1]
    assert ("MIHash's gate: ", 2, 1_200) in bars
    asked = [one for what, one in news if what == "MIHash's gate: "]
    assert sum(one.rows for one in asked) == 1_200
    assert sum(one.done for one in asked) == 2


def test_the_finding_is_made_of_the_times() -> None:
    found = [
        Time("FCOH (paper)", "FCOH", 2.0, 0.1, 200, 200),
        Time("HCOH", "HCOH", 1.0, 0.1, 20_000, 20_000),
        Time("MIHash", "MIHash", 8.0, 0.1, 80, 19_900),
        Time("Mine", "", 0.001, 0.1, 0, 0),
    ]
    text = finding(found)
    assert text.startswith("FCOH (paper) learns the stream in 2 s.")
    assert "Slower: MIHash (4.0 x). Faster: HCOH (0.50 x)." in text
    assert "200 times, MIHash's 80 times" in text
    assert "more; in the paper, fewer" in text
    assert text.endswith("Least time in total, of 3 of the paper's 8 methods: MIHash, 16 s.")
    lost = Time("OKH", "OKH", 1.0, 0.1, 10, 10, "2 of 3 runs")
    assert finding([*found, lost]).endswith("Without the runs that diverged: OKH (2 of 3 runs).")
    assert finding(found[1:]) == "FCOH is not timed."
    assert finding([]) == "Nothing is measured yet."
