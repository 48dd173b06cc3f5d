"""An empty folder to be in, and a table in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli_table.commands import X, Y, table


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty current folder, no data folder, and room to print."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HASHSTREAM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


@pytest.fixture
def digits(here: Path) -> Path:
    """A table with the first 1,000 digits, ids 0 to 999, whose codes are of four versions."""
    np.savez(here / "first.npz", x=X[:1000], y=Y[:1000])
    table("create", "t", "--bits", 32)
    table("ingest", "t", "first.npz", "--batch", 300, "--no-refresh")
    return here / "t"
