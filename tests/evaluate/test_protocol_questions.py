"""Protocols other than the paper's: against what each promises, computed slowly."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_hashers import Moving
from recorder import SEED, Recorder, mean_ap, rows_of, run_stream

from hashstream import BSODH, LSH, datasets, evaluate
from hashstream.evaluate import protocols
from hashstream.evaluate.job import run_job
from hashstream.evaluate.protocols import (
    Bursts,
    ClassIncremental,
    Drift,
    LabelNoise,
    Paper,
    Protocol,
    SlowDrift,
    UnseenClasses,
    Validation,
)

EVERY = [
    Paper(), UnseenClasses(), ClassIncremental(), Bursts(), Drift(), SlowDrift(), LabelNoise(), Validation()
]  # fmt: skip
SECONDS = ("train_seconds", "encode_seconds")


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.kind)
def test_checkpoints_have_what_is_promised_whichever_are_left_out(
    protocol: Protocol, data: protocols.PreparedDataset
) -> None:
    points = protocol.points(data)
    _, whole = run_stream(protocol, data)
    assert tuple(checkpoint.n_train for checkpoint in whole) == points
    for checkpoint in whole:
        assert set(protocol.metrics()) <= set(checkpoint.scores)
        assert all(np.isfinite(value) for value in checkpoint.scores.values())
    _, last = run_stream(protocol, data, points[-1:])
    for name, value in last[0].scores.items():
        assert name in SECONDS or value == whole[-1].scores[name]
    figures = [name for name in protocol.metrics() if name not in SECONDS]
    assert len(points) == 1 or any(whole[0].scores[name] != whole[-1].scores[name] for name in figures)
    assert {metric for _, metric in protocol.highlights(points)} <= set().union(*(at.scores for at in whole))


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.kind)
def test_the_seed_decides(protocol: Protocol, data: protocols.PreparedDataset) -> None:
    first, again, other = (protocol.task(data, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


@pytest.mark.parametrize(
    "protocol",
    [one for one in EVERY if not isinstance(one, SlowDrift)],  # which see `test_slow_drift` for
    ids=lambda protocol: protocol.kind,
)
def test_queries_are_never_learned_from(protocol: Protocol, data: protocols.PreparedDataset) -> None:
    hasher, _ = run_stream(protocol, data)
    learned = rows_of(data, hasher.stream[0])
    assert len(set(learned)) == len(learned)
    assert not set(learned) & set(data.split(SEED).queries)
    if not isinstance(protocol, LabelNoise):
        np.testing.assert_array_equal(data.y[learned], hasher.stream[1])


def test_unseen_classes(data: protocols.PreparedDataset) -> None:
    protocol = UnseenClasses()
    hasher, checkpoints = run_stream(protocol, data)
    seen = set(hasher.stream[1])
    assert len(seen) == 7  # a quarter of ten, rounded up, is left out
    split = data.split(SEED)
    expected = [row for row in split.retrieval if data.y[row] in seen]
    np.testing.assert_array_equal(rows_of(data, hasher.stream[0]), expected[: checkpoints[-1].n_train])
    database = data.X[split.retrieval], data.y[split.retrieval]
    for who, belongs in (("seen", True), ("unseen", False)):
        rows = [row for row in split.queries if (data.y[row] in seen) is belongs]
        queries = data.X[rows], data.y[rows]
        assert checkpoints[-1].scores[f"{who} mAP"] == pytest.approx(mean_ap(hasher, queries, database))
    assert {len(set(protocol.task(data, seed).y)) for seed in range(5)} == {7}
    assert len({frozenset(protocol.task(data, seed).y) for seed in range(5)}) > 1


@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_no_choice_of_unseen_classes_runs_out_of_rows(data: protocols.PreparedDataset, share: float) -> None:
    protocol = UnseenClasses(share)
    last = protocol.points(data)[-1]
    lengths = [len(protocol.task(data, seed).y) for seed in range(20)]
    assert last <= min(lengths)
    assert all(len(set(protocol.task(data, seed).y)) == 10 - round(10 * share) for seed in range(3))


def test_classes_arrive_in_turn(data: protocols.PreparedDataset) -> None:
    protocol = ClassIncremental()
    points = protocol.points(data)
    hasher, checkpoints = run_stream(protocol, data)
    y = hasher.stream[1]
    stages = [y[a:b] for a, b in itertools.pairwise((0, *points))]
    assert len(stages) == 6  # as many as the setting has checkpoints
    for i, j in itertools.combinations(range(6), 2):
        assert not set(stages[i]) & set(stages[j])
    assert set(y) == set(data.y)
    sizes = np.unique(y, return_counts=True)[1]
    assert set(sizes) == {52}  # rows of the smallest class that are not queries
    assert all(len(set(stage[:20])) == len(set(stage)) for stage in stages)  # mixed within a stage
    split = data.split(SEED)
    X, labels = data.X[split.retrieval], data.y[split.retrieval]
    for at, checkpoint in enumerate(checkpoints):
        replay = Recorder()
        for rows in hasher.learned:  # up to this checkpoint
            if sum(len(p[1]) for p in replay.learned) < checkpoint.n_train:
                replay.partial_fit(*rows)
        come = set(np.concatenate(stages[: at + 1]))
        database = X[np.isin(labels, list(come))], labels[np.isin(labels, list(come))]

        def ask(classes: set[str], against: Any, replay: Recorder = replay) -> float:
            rows = [row for row in split.queries if data.y[row] in classes]
            return mean_ap(replay, (data.X[rows], data.y[rows]), against)

        new = set(stages[at])
        assert checkpoint.scores["mAP"] == pytest.approx(ask(come, database))
        assert checkpoint.scores["new mAP"] == pytest.approx(ask(new, database))
        assert ("old mAP" in checkpoint.scores) == (at > 0)
        if at:
            assert checkpoint.scores["old mAP"] == pytest.approx(ask(come - new, database))
        stage_scores = [name for name in checkpoint.scores if name.startswith("stage ")]
        assert stage_scores == [f"stage {i + 1} mAP" for i in range(at + 1)]
        assert checkpoint.scores["stage 1 mAP"] == pytest.approx(ask(set(stages[0]), (X, labels)))


def test_forgetting_is_the_fall_from_the_best_checkpoint() -> None:
    curves = {
        "stage 1 mAP": {10: 0.9, 20: 0.95, 30: 0.5},
        "stage 2 mAP": {20: 0.6, 30: 0.8},
        "stage 3 mAP": {30: 0.1},
    }
    found = ClassIncremental().run_metrics(curves, [10, 20, 30])
    assert found == {"forgetting": pytest.approx(((0.95 - 0.5) + (0.6 - 0.8)) / 2)}


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_drift(data: protocols.PreparedDataset, share: float) -> None:
    protocol = Drift(share)
    hasher, checkpoints = run_stream(protocol, data)
    split, change = data.split(SEED), 300
    X, y = hasher.stream
    np.testing.assert_array_equal(X[:change], data.X[split.stream[:change]])
    np.testing.assert_array_equal(y, data.y[split.stream])
    source = protocol._source(14, SEED)
    assert sorted(source) == list(range(14))
    assert (source != np.arange(14)).sum() == 14 * share
    np.testing.assert_array_equal(X[change:], data.X[split.stream[change:]][:, source])
    before, after = data.X[split.stream[change:]], X[change:]
    np.testing.assert_allclose(before @ before.T, after @ after.T, rtol=1e-4, atol=1e-4)  # as hard as it was
    worlds = [
        [(features[rows], data.y[rows]) for rows in (split.queries, split.retrieval)]
        for features in (data.X, data.X[:, source])
    ]
    assert checkpoints[-1].scores["mAP"] == pytest.approx(mean_ap(hasher, *worlds[1]))
    at_change = Recorder()
    for piece in hasher.learned[:3]:
        at_change.partial_fit(*piece)
    (checkpoint,) = (checkpoint for checkpoint in checkpoints if "moved mAP" in checkpoint.scores)
    assert checkpoint.n_train == change
    assert checkpoint.scores["mAP"] == pytest.approx(mean_ap(at_change, *worlds[0]))
    assert checkpoint.scores["moved mAP"] == pytest.approx(mean_ap(at_change, *worlds[1]))


def test_recovery_is_measured_in_small_steps(data: protocols.PreparedDataset) -> None:
    setting = protocols.Setting(per_class=8, stream=1600, every=400)
    points = Drift().points(replace(data, setting=setting))
    assert points == (400, 800, 900, 1000, 1100, 1200, 1600)
    assert Drift().highlights(points)[0] == (800, "mAP")
    assert Drift().cuts(data) == data.setting.checkpoints  # no batch is cut


def test_small_steps_do_not_change_what_is_learned(data: protocols.PreparedDataset) -> None:
    """Large batches would be cut by checkpoints after the change."""
    job = evaluate.Job("BSODH", BSODH, 12, 0)
    found = {}
    for points in (Drift().points(data), data.setting.checkpoints):
        rows = run_job(job, data, Drift(), points, "paper", lambda _: None)
        found[points] = {row.n_train: row.scores["mAP"] for row in rows}
    whole, usual = found.values()
    assert len(whole) == len(usual) + 3
    assert {n: whole[n] for n in usual} == usual


@pytest.mark.parametrize(
    ("curve", "rows"),
    [
        ({22: 0.3, 24: 0.4, 27: 0.5, 30: 0.6, 40: 1.0}, 18.75),  # 0.95 lies 35/40 of the way from 0.6 to 1.0
        ({22: 0.3, 24: 0.9, 27: 1.0, 30: 0.6, 40: 1.0}, 5.5),  # the first time, half-way from 24 to 27
        ({22: 0.3, 24: 0.4, 27: 0.5, 30: 0.95, 40: 0.1}, 10.0),
        ({22: 0.3, 24: 0.4, 27: 0.5, 30: 0.6, 40: 0.94}, np.nan),
    ],
)
def test_recovery(curve: dict[int, float], rows: float) -> None:
    curve, points = {10: 0.5, 20: 1.0, **curve}, [10, 20, 22, 24, 27, 30, 40]
    found = Drift().run_metrics({"mAP": curve, "moved mAP": {20: 0.2}}, points)
    assert found["recovery_rows"] == pytest.approx(rows, nan_ok=True)
    unmoved = Drift().run_metrics({"mAP": curve, "moved mAP": {20: 0.97}}, points)
    assert unmoved["recovery_rows"] == 0


@pytest.mark.parametrize("rate", [0.0, 0.2, 1.0])
def test_label_noise(data: protocols.PreparedDataset, rate: float) -> None:
    paper, noisy = Paper().task(data, SEED), LabelNoise(rate).task(data, SEED)
    np.testing.assert_array_equal(noisy.X, paper.X)
    assert (noisy.y != paper.y).sum() == round(rate * 600)
    assert set(noisy.y) <= set(data.y)
    if rate == 1.0:  # every other class equally likely: 600 rows over 90 pairs
        pairs = list(zip(paper.y, noisy.y, strict=True))
        assert len(set(pairs)) == 90
        assert max(pairs.count(pair) for pair in set(pairs)) < 25


def test_wrong_labels_are_only_learned_from(data: protocols.PreparedDataset, tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    jobs = evaluate.jobs({"Moving": Moving}, bits=[12], runs=1)  # learns nothing from labels
    for protocol in (Paper(), LabelNoise(0.5)):
        evaluate.run(jobs, data, results, protocol=protocol)
    values: dict[str, list[float]] = {"paper": [], "label-noise:0.5": []}
    for row in results.rows:
        if row["metric"] not in SECONDS:
            values[row["protocol"]].append(row["value"])
    assert values["paper"] == values["label-noise:0.5"] != []


def test_validation_touches_the_stream_alone(data: protocols.PreparedDataset) -> None:
    hasher, (checkpoint,) = run_stream(Validation(), data)
    split = data.split(SEED)
    learned = rows_of(data, hasher.stream[0])
    database, queries = (rows_of(data, X) for X in hasher.encoded)
    assert set(learned) | set(database) | set(queries) <= set(split.stream)
    np.testing.assert_array_equal(database, learned)
    assert list(learned) == [row for row in split.stream if row in set(learned)]  # in the stream's order
    assert not set(queries) & set(learned)
    counts = dict(zip(*np.unique(data.y[queries], return_counts=True), strict=True))
    assert set(counts.values()) == {6}  # a tenth of 600, of each of ten classes
    assert checkpoint.n_train == len(learned) == 540
    expected = mean_ap(hasher, (data.X[queries], data.y[queries]), (data.X[database], data.y[database]))
    assert checkpoint.scores["mAP"] == pytest.approx(expected)


def test_validation_leaves_half_of_a_rare_class_to_be_found() -> None:
    y = np.repeat(["often", "rare"], [490, 22])
    X = np.arange(512.0)[:, None] + np.zeros(3)
    data = protocols.PreparedDataset("lopsided", X, y, protocols.Setting(per_class=10, stream=200, every=100))
    for seed in range(5):
        task = Validation().task(data, seed)
        in_stream = (y[data.split(seed).stream] == "rare").sum()
        assert (task.y == "rare").sum() >= in_stream // 2 >= 1
        assert len(task.y) == Validation().points(data)[0] == 180


def test_named() -> None:
    for kind, protocol in protocols.PROTOCOLS.items():
        assert protocols.named(kind) is protocol
        assert protocol.name == kind
        assert protocol.question.endswith("?")
    assert protocols.named("drift:0.25") == Drift(0.25)
    assert protocols.named("drift:0.25").name == "drift:0.25"
    assert protocols.named("drift:1") == Drift()
    assert protocols.named("bursts:4").name == "bursts:4"
    assert protocols.named("bursts:10").name == "bursts"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("peper", "there is no protocol 'peper': choose from paper, unseen-classes"),
        ("paper:2", "paper takes no number"),
        ("drift:fast", "'fast' is not a number"),
        ("drift:0", "share of features"),
        ("drift:nan", "share of features"),
        ("slow-drift:0", "quarter turns has to be above 0, not 0"),
        ("slow-drift:inf", "quarter turns has to be above 0, not inf"),
        ("bursts:0", "a whole number from 1, not 0"),
        ("bursts:2.5", "a whole number from 1, not 2.5"),
        ("bursts:nan", "a whole number from 1, not nan"),
        ("bursts:inf", "a whole number from 1, not inf"),
        ("label-noise:1.5", "0 to 1, not 1.5"),
        ("unseen-classes:1", "between 0 and 1, not 1"),
    ],
)
def test_names_of_no_protocol(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        protocols.named(text)


def test_data_sets_that_are_too_small_for_a_question(data: protocols.PreparedDataset) -> None:
    with pytest.raises(ValueError, match="10 classes, which leaves 1 to learn"):
        UnseenClasses(0.9).points(data)
    short = protocols.PreparedDataset(
        "short", data.X, data.y, protocols.Setting(per_class=8, stream=9, every=9)
    )
    with pytest.raises(ValueError, match="a stream of 9 rows is too short for 10 classes"):
        ClassIncremental().points(short)
    with pytest.raises(ValueError, match="at least two checkpoints"):
        Drift().task(short, 0)
    with pytest.raises(ValueError, match="before"):
        ClassIncremental().task(data, 0).judge(Recorder(), 10)


def test_metrics_of_whole_runs_only(data: protocols.PreparedDataset, tmp_path: Path) -> None:
    """A run cut in the middle and continued says the same as one in a single go, and says nothing before its end."""
    jobs = evaluate.jobs({"Moving": Moving}, bits=[12], runs=2)
    for protocol in (Paper(), ClassIncremental(), Drift(), SlowDrift()):
        points = protocol.points(data)
        whole = evaluate.Results(tmp_path / protocol.kind / "whole.csv")
        evaluate.run(jobs, data, whole, protocol=protocol)
        found = evaluate.summarise_runs(whole, "letters", protocol, points, "paper")
        assert [s.runs for s in found] == [2] * len(found) != []
        lines = whole.path.read_text().splitlines(keepends=True)
        cut = evaluate.Results(tmp_path / protocol.kind / "cut.csv")
        cut.path.write_text("".join(lines[: int(0.7 * len(lines))]))
        cut = evaluate.Results(cut.path)
        assert {s.runs for s in evaluate.summarise_runs(cut, "letters", protocol, points, "paper")} == {1}
        evaluate.run(jobs, data, cut, protocol=protocol)
        again = evaluate.summarise_runs(cut, "letters", protocol, points, "paper")
        assert str(again) == str(found)  # NaN is not equal to NaN
        assert evaluate.summarise_runs(whole, "letters", protocol, points, "aware") == []


def test_areas_under_the_papers_curves(tmp_path: Path) -> None:
    data = evaluate.PreparedDataset.of(datasets.load("digits"))
    results = evaluate.Results(tmp_path / "results.csv")
    evaluate.run(evaluate.jobs({"LSH": LSH}, bits=[16], runs=1), data, results, points=[500, 1500])
    values = {(row["n_train"], row["metric"]): row["value"] for row in results.rows}
    areas = {
        s.metric: s.mean for s in evaluate.summarise_runs(results, "digits", Paper(), [500, 1500], "paper")
    }
    at_end = [values[1500, f"precision@{k}[paper]"] for k in (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)]
    assert areas == {
        "AUC of mAP": pytest.approx(np.mean([values[500, "mAP[paper]"], values[1500, "mAP[paper]"]])),
        "AUC of precision@K": pytest.approx(np.mean(at_end)),
    }


def test_runs_without_a_value_are_counted_and_left_out(tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    columns = {"dataset": "d", "protocol": "p", "method": "M", "bits": 8, "n_train": 10}
    for run, value in enumerate((100.0, np.nan, 300.0)):
        results.append([{**columns, "run": run, "metric": "recovery_rows", "value": value}])
        results.append([{**columns, "run": run, "metric": "late_rows", "value": np.nan}])
    read = evaluate.Results(results.path)
    never, found = evaluate.summarise(read, "d", ["recovery_rows", "late_rows"], "paper", "p")
    assert (found.mean, found.runs, found.missing) == (200, 3, 1)
    assert str(found) == "200 ± 141 (2 of 3)"
    assert str(never) == "never"
