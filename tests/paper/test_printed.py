"""The paper's figures: whole, consistent with each other, and with the margins that its text claims."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from hashstream.paper import printed
from hashstream.paper.printed import BITS, CLAIMED, METHODS, SECONDS, TABLES, best_baseline, improvement

DATASETS = ("cifar10", "places205", "mnist")


def headline(dataset: str) -> str:
    return "mAP@1000" if dataset == "places205" else "mAP"


def test_every_table_is_whole() -> None:
    assert set(TABLES) == set(SECONDS) == set(DATASETS)
    for dataset in DATASETS:
        assert set(TABLES[dataset]) == {headline(dataset), "precision@H2"}
        for rows in TABLES[dataset].values():
            assert set(rows) == set(METHODS)
            lengths = {name: len(row) for name, row in rows.items()}
            assert lengths.pop("SketchHash") == 4
            assert set(lengths.values()) == {len(BITS)}
            assert all(0 < value < 1 for row in rows.values() for value in row)


@pytest.mark.parametrize("dataset", DATASETS)
def test_claimed_margins_follow_from_the_tables(dataset: str) -> None:
    for metric, rows in TABLES[dataset].items():
        margin, (claimed, _) = printed.margin(dataset, metric, BITS), CLAIMED[dataset, metric]
        if (dataset, metric) == ("places205", "precision@H2"):
            # The paper underlines BSODH at 64 bits, where OKH is the second best; so was the claim computed.
            assert margin == pytest.approx(12.11, abs=0.005)
            second = [
                rows["BSODH"][i] if n == 64 else best_baseline(dataset, metric, n) for i, n in enumerate(BITS)
            ]
            margin = improvement(rows["FCOH"], second)
        assert margin == pytest.approx(claimed, abs=0.005)


def test_seconds_of_tables_are_whole_numbers_of_rebuilds() -> None:
    """The paper's cost model: rebuilds times the time for one, with rebuilds = stream / batch."""
    one = {"mnist": 0.04, "cifar10": 0.16, "places205": 0.25}
    batch = {"OKH": 2, "AdaptHash": 2, "SketchHash": 50, "OSH": 1, "HCOH": 1}
    batches = {
        "mnist": {"BSODH": 2_000, "FCOH": 100},
        "cifar10": {"BSODH": 2_000, "FCOH": 100},
        "places205": {"BSODH": 5_000, "FCOH": 1_000},
    }
    gated = {"mnist": 613, "cifar10": 645, "places205": 1_749}
    for dataset, rows in SECONDS.items():
        stream = 100_000 if dataset == "places205" else 20_000
        for method, (_, table) in rows.items():
            rebuilds = table / one[dataset]
            if method == "MIHash":
                assert rebuilds == pytest.approx(gated[dataset])
            else:
                assert rebuilds == pytest.approx(stream / {**batch, **batches[dataset]}[method])


def test_lookup_finds_all_kinds_of_figures_and_nothing_else() -> None:
    value = printed.printed
    assert value("cifar10", "BSODH", "precision@H2", 128) == 0.602
    assert value("mnist", "SketchHash", "mAP", 48) == 0.369
    assert value("mnist", "FCOH", "mAP", 64, 2_000) == 0.689
    assert value("places205", "FCOH lambda1=0", "mAP@1000", 32) == 0.099
    assert value("cifar10", "MIHash", "hash function seconds", 32) == 120.10
    for nothing in (
        ("mnist", "SketchHash", "mAP", 64),
        ("mnist", "FCOH", "mAP", 24),
        ("mnist", "FCOH", "mAP@1000", 32),
        ("places205", "FCOH", "mAP", 32),
        ("digits", "FCOH", "mAP", 32),
        ("mnist", "LSH", "mAP", 32),
        ("mnist", "FCOH_S", "mAP", 64),
        ("mnist", "FCOH_S", "precision@H2", 32),
        ("mnist", "FCOH", "hash table seconds", 64),
        ("mnist", "FCOH", "mAP", 64, 4_000),
        ("mnist", "FCOH", "precision@H2", 64, 2_000),
        ("", "FCOH", "mAP", 32),
        ("digits", "FCOH", "hash table seconds", 32),
    ):
        assert value(*nothing) is None, nothing


def test_ablations_lie_below_the_whole_method() -> None:
    for dataset in DATASETS:
        whole = printed.printed(dataset, "FCOH", headline(dataset), 32)
        assert whole is not None
        for part in ("FCOH_S", "FCOH_C", "FCOH lambda1=0", "FCOH lambda2=0"):
            value = printed.printed(dataset, part, headline(dataset), 32)
            assert value is not None
            assert value < whole


def test_every_figure_is_the_one_of_the_paper_s_tables() -> None:
    """Against a transcription of the tables that was made apart from ours."""
    golden = os.environ.get("HASHSTREAM_GOLDEN")
    if not golden:
        pytest.skip("HASHSTREAM_GOLDEN is not set: the transcription of the paper's tables is not at hand")
    path = Path(golden).parent / "paper" / "tables.csv"
    if not path.is_file():
        pytest.skip("there is no transcription of the paper's tables next to HASHSTREAM_GOLDEN")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 300
    seen = set()
    for row in rows:
        metric = row["metric"].removeprefix("variants ")
        n_train = int(row["n_train"]) if row["n_train"] else None
        ours = printed.printed(row["dataset"], row["method"], metric, int(row["bits"]), n_train)
        assert ours == float(row["value"]), row
        seen.add((row["dataset"], row["method"], metric, row["bits"]))
    count = sum(len(row) for tables in TABLES.values() for rows_ in tables.values() for row in rows_.values())
    count += 2 * sum(map(len, SECONDS.values()))
    count += sum(map(len, printed.VARIANTS.values()))
    assert len(seen) == count  # and none of ours is missing there
