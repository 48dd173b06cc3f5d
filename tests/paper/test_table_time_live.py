"""A live table under each policy: what is counted and answered, against codes made in one go; rows, and the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from small_studies import small_study
from threadpoolctl import threadpool_info, threadpool_limits

from hashstream import datasets, evaluate
from hashstream.evaluate import JobProgress, average_precision
from hashstream.evaluate.protocols import SETTINGS, Setting
from hashstream.hashers import FCOH, DivergenceError
from hashstream.paper.experiments.table_time import live_section
from hashstream.paper.experiments.table_time import live_table as live
from hashstream.paper.experiments.table_time.experiment import EXPERIMENT
from hashstream.paper.study import Value

COURSE = live.Plan(1_500, 100)


@pytest.fixture(scope="module")
def digits() -> evaluate.PreparedDataset:
    X, y = load_digits(return_X_y=True)
    return evaluate.PreparedDataset(
        "digits", datasets.centred_unit(X.astype(np.float32)), y, SETTINGS["digits"]
    )


def make() -> FCOH:
    return FCOH(32, random_state=0)


@pytest.fixture(scope="module")
def found(digits: evaluate.PreparedDataset) -> dict[str, dict[int, dict[str, float]]]:
    return {policy: live.run_policy(make, policy, digits, 0, COURSE) for policy in live.POLICIES}


def one_go(data: evaluate.PreparedDataset, until: int) -> tuple[FCOH, np.ndarray]:
    """A hasher that learned the first rows of the stream in the same batches, and the order of insertion."""
    split, hasher = data.split(0), make()
    for part in COURSE.parts():
        if part.start < until:
            hasher.partial_fit(data.X[split.stream[part]], data.y[split.stream[part]])
    rest = split.retrieval[~np.isin(split.retrieval, split.stream[:until])]
    return hasher, np.concatenate([split.stream[:100], rest, split.stream[100:until]])


@pytest.mark.parametrize("until", COURSE.checkpoints)
def test_eager_answers_as_codes_made_in_one_go(
    found: dict[str, dict[int, dict[str, float]]], digits: evaluate.PreparedDataset, until: int
) -> None:
    hasher, order = one_go(digits, until)
    queries = live.some_queries(digits.split(0).queries, digits.y)
    X, y = digits.X, digits.y
    scores = evaluate.retrieval(
        hasher.transform(X[queries]), y[queries], hasher.transform(X[order]), y[order], ties="paper"
    )
    assert found["Eager"][until]["mAP"] == pytest.approx(scores["mAP"], abs=1e-12)


def test_eager_s_codes_are_those_of_the_current_functions(
    monkeypatch: pytest.MonkeyPatch, digits: evaluate.PreparedDataset
) -> None:
    seen: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def answers(table: Any, data: evaluate.PreparedDataset, queries: np.ndarray, measure: str) -> float:
        rows = data.split(0).retrieval
        assert len(table) == len(rows)
        held = table.get(rows, features=False)
        seen.append((held.codes, table.hasher.transform(data.X[rows]), held.versions))
        return 0.0

    monkeypatch.setattr(live, "answers", answers)
    live.run_policy(make, "Eager", digits, 0, COURSE)
    assert len(seen) == 5
    for codes, expected, versions in seen:
        np.testing.assert_array_equal(codes, expected)
        assert len(set(versions.tolist())) == 1


def test_who_refreshes_more_re_encodes_more_codes(found: dict[str, dict[int, dict[str, float]]]) -> None:
    end = {policy: figures[1_500] for policy, figures in found.items()}
    items = end["Eager"]["items"]
    assert {figures["items"] for figures in end.values()} == {items}
    recoded = {policy: figures["recoded_rows"] for policy, figures in end.items()}
    assert recoded["Eager"] == 14 * (items - 100)  # all but the batch, after every batch but the first
    assert recoded["Every(7)"] == recoded["Projected(7)"] == 2 * (items - 100)
    assert recoded["Never"] == 0
    assert recoded["Every(7)"] < recoded["Gated"] <= recoded["Eager"]
    assert 0 < recoded["Lazy"] <= recoded["Eager"]
    assert all(figures["seconds"] > figures["recode_seconds"] >= 0 for figures in end.values())
    assert all(figures["learn_seconds"] > 0 < figures["rebuild_seconds"] for figures in end.values())
    assert found["Never"][1_500]["mAP"] < found["Eager"][1_500]["mAP"]


def test_lazy_rests_while_queries_are_asked(
    monkeypatch: pytest.MonkeyPatch, digits: evaluate.PreparedDataset
) -> None:
    counts: list[tuple[int, int]] = []
    recoded, opened = [0], live.HashTable.open

    def counted(*args: Any, on_commit: Any, **options: Any) -> Any:
        def count(commit: Any) -> None:
            recoded[0] += commit.recoded
            on_commit(commit)

        return opened(*args, on_commit=count, **options)

    def answers(table: Any, data: evaluate.PreparedDataset, queries: np.ndarray, measure: str) -> float:
        before = recoded[0]
        time.sleep(0.02)  # 1,600 codes take a fraction of a millisecond
        counts.append((before, recoded[0]))
        return 0.0

    monkeypatch.setattr(live, "answers", answers)
    monkeypatch.setattr(live.HashTable, "open", counted)
    figures = live.run_policy(make, "Lazy", digits, 0, COURSE)[1_500]
    assert len(counts) == 5
    assert all(before == after for before, after in counts)
    assert figures["recoded_rows"] == counts[-1][1]


def test_average_precision_is_that_of_retrieval() -> None:
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 256, (400, 16), np.uint8), rng.integers(0, 5, 400)
    queries, asked = rng.integers(0, 256, (8, 16), np.uint8), rng.integers(0, 6, 8)  # one label nobody has
    far = np.unpackbits(queries[:, None] ^ codes, axis=2).sum(axis=2)
    hits = labels[np.argsort(far, axis=1, kind="stable")] == asked[:, None]
    scores = evaluate.retrieval(queries, asked, codes, labels, at=20, ties="paper")
    assert (asked == 5).any()
    assert np.nanmean(average_precision(hits)) == pytest.approx(scores["mAP"])
    assert np.nanmean(average_precision(hits[:, :20])) == pytest.approx(scores["mAP@20"])


def test_only_the_first_answers_count_where_that_is_the_measure(digits: evaluate.PreparedDataset) -> None:
    hasher, order = one_go(digits, 1_500)
    X, y = digits.X, digits.y
    queries = live.some_queries(digits.split(0).queries, y)
    scores = evaluate.retrieval(
        hasher.transform(X[queries]), y[queries], hasher.transform(X[order]), y[order], at=50, ties="paper"
    )
    found = live.run_policy(make, "Eager", digits, 0, COURSE, measure="mAP@50")
    assert found[1_500]["mAP@50"] == pytest.approx(scores["mAP@50"], abs=1e-12)


def test_queries_are_of_all_classes_alike(digits: evaluate.PreparedDataset) -> None:
    queries = digits.split(0).queries
    some = live.some_queries(queries, digits.y)
    assert len(set(some.tolist())) == 100
    assert set(some) < set(queries)
    assert np.unique(digits.y[some], return_counts=True)[1].tolist() == [10] * 10
    assert sorted(live.some_queries(queries[:7], digits.y)) == sorted(queries[:7])


# ---- rows and report


def test_nothing_is_run_twice_and_what_is_missing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, threads = [], set()
    run_policy = live.run_policy

    def counted(make: Any, policy: str, *arguments: Any, **more: Any) -> Any:
        ran.append((make.keywords["random_state"], policy))
        threads.add(max((pool["num_threads"] for pool in threadpool_info()), default=1))
        return run_policy(make, policy, *arguments, **more)

    monkeypatch.setattr(live, "run_policy", counted)
    study = replace(small_study(tmp_path, name="mnist"), methods=("HCOH", "LSH"))
    with threadpool_limits(2):
        live.measure(study)
    assert ran == [(0, policy) for policy in live.POLICIES]
    assert threads == {1}
    text = study.results.path.read_text()
    live.measure(study)
    assert study.results.path.read_text() == text
    assert len(ran) == 6

    lines = text.splitlines(keepends=True)
    study.results.path.write_text("".join(line for line in lines if "[Gated]" not in line))
    again = replace(study, results=evaluate.Results(study.results.path), scale=replace(study.scale, runs=2))
    live.measure(again)
    assert ran[6:] == [(0, "Gated"), *((1, policy) for policy in live.POLICIES)]


def test_the_bar_gets_to_its_end_also_where_a_method_diverges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*arguments: Any, progress: Callable[[int], None], **more: Any) -> None:
        progress(200)
        raise DivergenceError("too long a step")

    news: list[JobProgress] = []
    bars: list[tuple[str, int, int]] = []

    @contextmanager
    def watching(what: str, jobs: int, rows: int) -> Iterator[Callable[[JobProgress], None]]:
        bars.append((what, jobs, rows))
        yield news.append

    monkeypatch.setattr(live, "run_policy", lost)
    study = replace(small_study(tmp_path, name="mnist"), methods=("HCOH",), watching=watching)
    live.measure(study)
    assert bars == [("a live table: ", 6, 3_600)]
    assert sum(one.rows for one in news) == 3_600
    assert sum(one.done for one in news) == 6
    assert not study.results.rows

    study.add("table-time", "HCOH[paper]", 32, 0, 200, diverged_rows=200.0)
    live.measure(study)
    assert len(bars) == 1  # it is known by now


def test_the_report_has_a_sheet_of_policies_and_a_picture(tmp_path: Path) -> None:
    study = replace(
        small_study(tmp_path, name="mnist", checkpoints=(-1,)), methods=("FCOH", "HCOH", "MIHash")
    )
    assert len(EXPERIMENT.show(study).sheets) == 2
    EXPERIMENT.measure(study)
    section = EXPERIMENT.show(study)
    model, policies = section.sheets[2:]
    titles = ["FCOH (auto)", "FCOH (paper)", "HCOH", "MIHash"]
    assert [row[:3] for row in model.rows] == [(title, "100", "4") for title in titles]
    assert [row[0] for row in policies.rows] == [f"{t}, {p}" for t in titles for p in live.POLICIES]
    assert policies.caption == "A live table of 950 items under each policy"
    made = {row[0]: row[1] for row in policies.rows}
    assert (made["HCOH, Eager"], made["HCOH, Never"]) == ("4.5", "0.0")  # 5 x (950 - 100) / 950
    assert list(section.figures) == ["table-time", "table-time-policies"]
    axes = section.figures["table-time-policies"].axes
    assert [one.get_title(loc="left") for one in axes] == titles
    assert "times the seconds of the model" in section.finding
    assert set(live_section.NOTES) < set(section.notes)


def kept(
    title: str, policy: str, total: float, recoding: float, recoded: float, mean: float
) -> live_section.Kept:
    end = Value((mean - 0.1 * (policy != "Eager"),))
    course = live.Plan(1_100, 100)
    return live_section.Kept(
        title, policy, course, total, 1.0, 0.5, recoding, recoded, 100, recoding / 5, end, Value((mean,))
    )


def test_the_finding_is_made_of_what_was_kept(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    found = [
        kept("A", "Eager", 7.0, 5.5, 1_000, 0.8),
        kept("A", "Gated", 4.0, 2.0, 400, 0.79),
        kept("B", "Eager", 7.0, 4.5, 1_000, 0.7),
        kept("B", "Gated", 2.5, 1.0, 200, 0.71),
    ]
    text = live_section.finding(study, found)
    assert (
        "takes 0.90 to 1.10 times the seconds of the model; 6.00 is expected" in text
    )  # 1 + (1,100 - 100) / 2 / 100
    assert text.endswith(
        "for 2 methods, mean over checkpoints: Gated 20% to 40% of the re-encoding, 25% to 50% of the table's seconds, "
        "mAP -0.010 to +0.010 (-0.110 to -0.090 at the end)."
    )
    assert live_section.finding(study, found[1:2]) == ""


def test_figures_of_several_runs_are_medians_and_the_ratio_is_of_one_run(tmp_path: Path) -> None:
    study = replace(small_study(tmp_path, name="mnist", runs=3), methods=("HCOH",))
    for run, (once, again) in enumerate([(1.0, 5.0), (2.0, 12.0), (4.0, 21.0)]):  # 5 rebuilds
        figures = (40.0, 2.0, once, again, 4_250.0, 950.0)
        for n in (200, 300, 400, 500, 600):
            study.add("table-time", "HCOH[paper]", 32, run, n, **{"policy_mAP[Eager]": 0.1 * run + n / 1_000})
        rows = {live.metric(f, "Eager"): v for f, v in zip(live.FIGURES, figures, strict=True)}
        study.add("table-time", "HCOH[paper]", 32, run, 600, **rows)
    (one,) = live_section.kept(study)
    assert (one.rebuild, one.recoding, one.table) == (2.0, 12.0, 38.0)
    assert one.ratio == pytest.approx(1.05)  # of 1, 1.2 and 1.05
    assert one.end.runs == pytest.approx((0.6, 0.7, 0.8))
    assert one.mean.runs == pytest.approx((0.4, 0.5, 0.6))


def test_a_stream_of_one_batch_rebuilds_nothing(tmp_path: Path) -> None:
    study = small_study(tmp_path, name="mnist")
    setting = Setting(per_class=10, stream=60, every=60)
    study = replace(study, methods=("HCOH",), data=replace(study.data, setting=setting))
    live.measure(study)
    found = live_section.kept(study)
    assert [k.recoded for k in found] == [0] * 6
    assert live_section.finding(study, found) == ""
    (sheet,) = live_section.sheets(study, found)
    assert len(sheet.rows) == 6


@pytest.mark.parametrize(
    ("stream", "rows", "expected"), [(20_000, 2_000, 2_000), (20_001, 1, 101), (350, None, 100)]
)
def test_batches_are_the_method_s_own_where_that_is_bearable(
    stream: int, rows: int | None, expected: int
) -> None:
    course = live.plan(stream, rows)
    assert course.rows == expected
    parts = list(course.parts())
    assert len(parts) == course.batches <= 200
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert parts[-1].stop == stream == course.checkpoints[-1]
    assert set(course.checkpoints) <= {part.stop for part in parts}
