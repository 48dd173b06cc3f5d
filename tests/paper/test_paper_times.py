"""table-time: the gate's count against brute force, the paper's model of rebuilds, and ratios made of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_studies import blobs, small_study

from hashstream import LSH, datasets
from hashstream.hashers import MIHash
from hashstream.paper import times
from hashstream.paper.printed import METHODS, SECONDS
from hashstream.paper.times import EXPERIMENT, Time, gated_rebuilds, rows_between_rebuilds


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
    study = small_study(tmp_path, name="mnist", looks=(-1,))
    study = type(study)(
        **{**vars(study), "methods": ("FCOH", "MIHash", "HCOH"), "also": {"Mine": LSH}, "workers": 2}
    )
    EXPERIMENT.measure(study)
    text = study.results.path.read_text()
    EXPERIMENT.measure(study)
    assert study.results.path.read_text() == text

    found = {t.title: t for t in times.times(study)}
    assert set(found) == {"FCOH (auto)", "FCOH (paper)", "HCOH", "MIHash", "Mine"}
    assert (found["FCOH (paper)"].rebuilds, found["HCOH"].rebuilds, found["Mine"].rebuilds) == (6, 600, 0)
    hasher = MIHash.from_paper("mnist", 32, random_state=0)
    split = study.field.split(0)
    X, y = study.field.X[split.stream], study.field.y[split.stream]
    assert found["MIHash"].rebuilds == gated_rebuilds(hasher, X, y, every=100)
    assert all(t.functions > 0 and t.rebuild > 0 for t in found.values())

    section = EXPERIMENT.show(study)
    functions, tables = section.sheets
    rows = {row[0]: row for row in functions.rows}
    assert rows["HCOH"][3:] == ("4.01", "2.4")  # the paper's seconds, and over its FCOH
    assert functions.columns[2] == "ours / FCOH (paper)"
    assert rows["FCOH (paper)"][2] == "1"
    assert {row[0]: row[1] for row in tables.rows}["HCOH"] == "600"
    assert list(section.figures) == ["table-time"]


def test_the_finding_is_made_of_the_times() -> None:
    found = [
        Time("FCOH (paper)", "FCOH", 2.0, 0.1, 200, 200),
        Time("HCOH", "HCOH", 1.0, 0.1, 20_000, 20_000),
        Time("MIHash", "MIHash", 8.0, 0.1, 80, 19_900),
        Time("Mine", "", 0.001, 0.1, 0, 0),
    ]
    text = times.finding(found)
    assert text.startswith("FCOH (paper) learns the stream in 2 s.")
    assert "Slower: MIHash (4.0 x). Faster: HCOH (0.50 x)." in text
    assert "200 times, MIHash's 80 times" in text
    assert "more, where the paper has fewer" in text
    assert text.endswith("Least time in total: MIHash, 16 s.")
    assert times.finding(found[1:]) == "Nothing is measured yet."
