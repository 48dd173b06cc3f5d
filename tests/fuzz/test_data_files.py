"""A slice of the fuzzers, small enough for every run of the tests."""

from __future__ import annotations

import pytest
from tests.fuzz import data_files
from tests.fuzz.data_files import KINDS, run, valid


def test_a_few_hundred_files() -> None:
    """Those that are parsed in this process, which are fast."""
    counts = run(count=400, seed=0, kinds=("npy", "npz", "csv", "tsv"))
    assert counts.problems == []
    assert counts.cases == 400
    assert counts.refused > 100
    assert counts.worked > 20


def test_a_few_files_that_a_process_is_started_for() -> None:
    counts = run(count=9, seed=0, kinds=("parquet", "mat", "mat73"))
    assert counts.problems == []
    assert counts.cases == 9


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_the_same_each_time(kind: str, tmp_path) -> None:
    assert len({len(raw) for raw in valid(kind)}) > 0
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        data_files.write(tmp_path / name / "file", kind, data_files.random.Random("7"), whole=False)
    assert (tmp_path / "a" / "file").read_bytes() == (tmp_path / "b" / "file").read_bytes()
