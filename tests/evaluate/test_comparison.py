"""The table of a comparison: which cells it has, what diverged, and which reference figures belong to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import odd_hashers as odd
import pytest

from hashstream import evaluate
from hashstream.evaluate import protocols, tuning
from hashstream.evaluate.reference_code import REFERENCE

METRICS = protocols.Paper().metrics()


def write(results: evaluate.Results, job: evaluate.Job, dataset: str, values: dict[int, float]) -> None:
    for n, value in values.items():
        checkpoint = protocols.Checkpoint(n, dict.fromkeys(METRICS, value), "paper")
        results.append(checkpoint.rows(**job.columns(dataset)))


def test_cells_are_means_over_runs_and_absent_ones_are_none(tmp_path: Path) -> None:
    results = evaluate.Results(tmp_path / "results.csv")
    whole = [evaluate.Job("LSH", odd.Moving, 32, run) for run in (0, 1)]
    ended = evaluate.Job("M", odd.Moving, 32, 0)
    write(results, whole[0], "mnist", {2_000: 0.2, 20_000: 0.4})
    write(results, whole[1], "mnist", {2_000: 0.4, 20_000: 0.6})
    diverged = {**ended.columns("mnist"), "n_train": 100, "metric": "diverged_rows", "value": 100.0}
    results.append([diverged])
    compared = evaluate.compare(
        [*whole, ended],
        "mnist",
        [2_000, 20_000],
        results,
        protocol=protocols.Paper(),
        ties="paper",
        runs=2,
    )
    shown = [(2_000, "mAP"), (20_000, "mAP"), (20_000, "precision@H2"), (20_000, "train_seconds")]
    of_runs = [(20_000, "AUC of mAP"), (20_000, "AUC of precision@K")]
    assert list(compared.columns) == [*shown, *of_runs]
    assert compared.n_whole == 2
    first, second = compared.rows
    assert (first.method, first.bits, first.diverged) == ("LSH", 32, ())
    assert [cell.mean for cell in first.cells if cell] == pytest.approx([0.3, 0.5, 0.5, 0.5, 0.4, 0.5])
    assert {cell.runs for cell in first.cells if cell} == {2}
    assert first.reference == REFERENCE["mnist", "LSH", 32]
    assert (second.cells, second.diverged, second.reference) == ((None,) * 6, (100,), {})


def test_reference_figures_are_of_the_papers_rule_and_protocol_only(tmp_path: Path) -> None:
    results, job = evaluate.Results(tmp_path / "results.csv"), evaluate.Job("LSH", odd.Moving, 32, 0)
    for dataset, ties, protocol, known in (
        ("mnist", "paper", protocols.Paper(), True),
        ("mnist", "aware", protocols.Paper(), False),
        ("mnist", "paper", protocols.LabelNoise(), False),
        ("digits", "paper", protocols.Paper(), False),
    ):
        (row,) = evaluate.compare([job], dataset, [2_000], results, protocol=protocol, ties=ties, runs=1).rows
        assert bool(row.reference) == known


def test_the_share_of_queries_that_other_streams_had() -> None:
    setting = protocols.Setting(per_class=10, stream=300, every=100)
    data = evaluate.PreparedDataset("blobs", np.zeros((600, 2), np.float32), np.arange(600) % 5, setting)
    shares = [tuning.share_of_queries_seen(data, runs) for runs in (1, 2, 3)]
    assert shares == pytest.approx([0.5, 0.5, 0.75])
