"""What a process imports that opens a table, adds to it and searches: this is most of the time of a restart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hashstream as hs

PROGRAM = """
import sys
import numpy as np
from hashstream.table import HashTable

with HashTable.open(sys.argv[1]) as table:
    X = np.random.default_rng(1).standard_normal((40, 12)).astype(np.float32)
    table.add(np.arange(1000, 1040), X)
    assert table.search(X[:1], k=1).distances.tolist() == [[0]]
    assert len(table.search(X, k=3).ids) == 40
print(*sorted({"sklearn", "scipy", "pandas"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("method", "imported"), [("PosteriorHash", ""), ("FCOH", ""), ("RidgeHash", "scipy")]
)
def test_opening_and_searching_imports_little(method: str, imported: str, tmp_path: Path) -> None:
    """RidgeHash solves its sums again when it is opened."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 12)).astype(np.float32), rng.integers(0, 3, 300)
    hasher = hs.methods()[method](n_bits=64, random_state=0)
    with hs.HashTable.open(tmp_path / "t", hasher=hasher) as table:
        table.ingest(np.arange(300), X, y)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "t")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) <= {imported}
