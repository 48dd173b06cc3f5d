"""What docs/datasets.md shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

from hashstream import datasets

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def test_the_examples_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted >= 10
    assert result.failed == 0


def test_every_name_has_its_line() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == list(datasets.CATALOGUE)
    for line, entry in zip(lines, datasets.CATALOGUE.values(), strict=True):
        assert f"x {entry.features:,}, {entry.classes}" in line
        assert f"{entry.rows:,} x" in line or not entry.exact
