"""table-storage: the count against blocks that are really there, the literal equations against loops over pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_studies import small_study

from hashstream import _native, evaluate
from hashstream._machine import size
from hashstream.paper import Study, pair_memory
from hashstream.paper.experiments import table_storage
from hashstream.paper.experiments.table_storage import EXPERIMENT
from hashstream.paper.pair_memory import (
    class_wise_gradient,
    count,
    full_gradient,
    lean_gradient,
    peak_bytes,
)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6))
@settings(deadline=None, max_examples=50)
def test_count_is_of_the_blocks_themselves(sizes: list[int]) -> None:
    y = np.repeat(np.arange(len(sizes)), sizes)
    same = y[:, None] == y
    full = same.size
    own = [same[y == c][:, y == c].size for c in range(len(sizes))]
    across = [same[y == c][:, y != c].size for c in range(len(sizes))]
    found = count(sizes)
    assert found["across"] == pytest.approx(max(across) / full)
    assert found["one"] == pytest.approx(max(own + across) / full)
    assert found["both"] == pytest.approx(max(a + b for a, b in zip(own, across, strict=True)) / full)
    assert found["across"] <= 0.25 + 1e-12  # the paper's claim, as the paper counts
    assert (found["one"] > 0.25 + 1e-12) == (max(sizes) > sum(sizes) / 2)


def test_both_equations_are_the_same_gradient() -> None:
    rng = np.random.default_rng(0)
    X, W, y = rng.standard_normal((9, 4)), rng.standard_normal((4, 3)), np.array([0, 0, 1, 2, 1, 0, 2, 2, 2])
    B = np.where(X @ W > 0, 1.0, -1.0)
    expected = np.zeros_like(W)
    for i in range(9):
        for j in range(9):
            sign, weight = (1, pair_memory.LAMBDA1) if y[i] == y[j] else (-1, pair_memory.LAMBDA2)
            expected += 2 * weight * (X[i] @ W @ B[j] - sign * 3) * np.outer(X[i], B[j])
    np.testing.assert_allclose(full_gradient(X, y, W), expected, atol=1e-12)
    np.testing.assert_allclose(lean_gradient(X, y, W), expected, atol=1e-12)
    np.testing.assert_allclose(class_wise_gradient(X, y, W), expected, atol=1e-12)


def test_peak_bytes_sees_what_is_allocated_and_freed() -> None:
    kept = np.ones(50_000)

    def call() -> None:
        a = np.ones(100_000)
        del a
        np.ones(30_000)

    assert 800_000 <= peak_bytes(call) < 820_000
    assert len(kept) == 50_000


@pytest.mark.parametrize("shares", [(500, 500), (900, 100), (100,) * 10])
def test_measured_bytes_are_those_of_the_counted_blocks(shares: tuple[int, ...]) -> None:
    n, rng = 1000, np.random.default_rng(0)
    X, W, y = (
        rng.standard_normal((n, 2)),
        rng.standard_normal((2, 4)),
        np.repeat(np.arange(len(shares)), shares),
    )
    blocks = 8 * n**2 * count(shares)["one"]
    assert blocks <= peak_bytes(lambda: class_wise_gradient(X, y, W)) <= blocks + 25 * n * 8
    full = peak_bytes(lambda: full_gradient(X, y, W))
    assert 16 * n**2 <= full <= 17.1 * n**2 + 25 * n * 8  # S, the products, and which pairs are of one class
    lean = peak_bytes(lambda: lean_gradient(X, y, W))
    assert 8 * n**2 <= lean <= 8 * n**2 + 35 * n * 8  # the products alone


def test_the_experiment_counts_once_and_finds_where_the_claim_fails(tmp_path: Path) -> None:
    study = small_study(tmp_path, runs=2)
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text

    section = EXPERIMENT.show(study)
    counted, streamed, whole = section.sheets
    rows = {row[0]: row[1:] for row in counted.rows}
    assert rows["2 equal classes"][:3] == ("75.0 %", "75.0 %", "50.0 %")
    assert rows["1 class"][:3] == ("100.0 %", "0.0 %", "0.0 %")
    one, both = section.finding.split("With both blocks")
    assert "90 : 10" in one
    assert "2 equal classes" not in one
    assert "2 equal classes" in both

    splits = [study.data.split(run) for run in range(2)]
    shares = []
    for split in splits:
        y = study.data.y[split.stream]
        sizes = [np.unique(y[i : i + 100], return_counts=True)[1] for i in range(0, 600, 100)]
        shares.append([max(n * (100 - n)) / 1e4 for n in sizes])
    mean, worst = 1 - np.mean(shares), 1 - np.mean([max(each) for each in shares])
    assert streamed.rows[0][:2] == ("100", f"{100 * mean:.1f} % / {100 * worst:.1f} %")
    assert [row[0] for row in whole.rows] == ["100"]
    assert counted.columns[4:] == (
        "measured, compared with the products alone",
        "measured, compared with S, products and mask",
    )
    lean, full = (float(cell.removesuffix(" %")) for cell in rows["10 equal classes"][3:])
    assert lean < full
    ours, all_pairs = (
        study.values(
            table_storage.STREAM, f"{what}_step_bytes", bits=32, n_train=100, protocol="table-storage"
        )
        for what in ("fcoh", "lean")
    )
    assert ours is not None
    assert all_pairs is not None
    than = "more" if ours.mean > all_pairs.mean else "less"
    assert f"FCOH here needs {size(ours.mean)} for it, {than} than all pairs at once." in section.finding
    assert section.verdict == "holds in part"


def test_only_a_compiled_kernel_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(study: Study) -> float:
        EXPERIMENT.measure(study)
        at = {"bits": 32, "n_train": 100, "protocol": "table-storage"}
        value = study.values(table_storage.STREAM, "fcoh_kernel_bytes", **at)
        assert value is not None
        assert "of which the kernel (estimated)" in EXPERIMENT.show(study).sheets[-1].columns
        return value.mean

    if _native.status() == "C":
        assert kernel(small_study(tmp_path / "c")) > 0
    monkeypatch.setattr(table_storage, "_native", SimpleNamespace(lib=None))
    assert kernel(small_study(tmp_path / "numpy")) == 0


def test_rows_of_before_get_what_they_lack(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    EXPERIMENT.measure(study)
    lines = study.results.path.read_text().splitlines(keepends=True)
    new = ("lean_bytes", "lean_step_bytes", "fcoh_kernel_bytes")
    old = [line for line in lines if not any(f",{metric}," in line for metric in new)]
    study.results.path.write_text("".join(old))
    again = replace(study, results=evaluate.Results(study.results.path), _found={}, _read=[0])
    EXPERIMENT.measure(again)
    then = study.results.path.read_text().splitlines(keepends=True)
    assert then[: len(old)] == old
    assert len(then) == len(lines)


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    section = EXPERIMENT.show(small_study(tmp_path))
    assert section.finding == "Nothing is measured yet."
    assert section.sheets == ()
