"""The model depends neither on the thread that learns it nor on the number of BLAS threads, nor does a replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import hashstream as hs

REPLAY = """
import json, sys, warnings
from threadpoolctl import threadpool_limits
import hashstream as hs

threadpool_limits(int(sys.argv[2]), user_api="blas")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with hs.HashTable.open(sys.argv[1], mode="read") as table:
        print(json.dumps([[str(one.message) for one in caught], table.check(), table.hasher.n_seen_]))
"""

HASHERS = {
    "FCOH": hs.FCOH(100, random_state=0),
    "RidgeHash": hs.RidgeHash(100, random_state=0),
    "SketchHash": hs.SketchHash(100, sketch_size=200, random_state=0),
}


@pytest.mark.parametrize(("name", "where"), [("FCOH", "main"), *((name, "worker") for name in HASHERS)])
def test_another_process_replays_the_same_bits(name: str, where: str, tmp_path: Path) -> None:
    """With three BLAS threads here and one there, from a checkpoint that is some batches old."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 900)), rng.integers(0, 6, 600)

    def write(table: hs.HashTable) -> None:
        for start in range(0, 600, 200):
            table.ingest(range(start, start + 200), X[start : start + 200], y[start : start + 200])

    with (
        threadpool_limits(3, user_api="blas"),
        hs.HashTable.open(tmp_path / "t", hasher=HASHERS[name], sample_size=10) as table,
    ):
        if where == "main":
            write(table)
        else:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(write, table).result()
        assert table._storage._since_checkpoint >= 200, "there is nothing to replay"
        replayed = subprocess.run(
            [sys.executable, "-c", REPLAY, str(tmp_path / "t"), "1"],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            check=True,
        )
    warned, found, seen = json.loads(replayed.stdout)
    assert warned == []
    assert found == {"batches": 3, "rows": 600, "codes": 600}
    assert seen == 600


def test_a_table_learns_as_its_hasher_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 300)).astype(np.float32), rng.integers(0, 5, 400)
    alone = hs.FCOH(32, random_state=0)
    with hs.HashTable.open(tmp_path / "t", hasher=hs.FCOH(32, random_state=0)) as table:
        for start in range(0, 400, 200):
            alone.partial_fit(X[start : start + 200], y[start : start + 200])
            table.ingest(range(start, start + 200), X[start : start + 200], y[start : start + 200])
        assert table.hasher.projection_.tobytes() == alone.projection_.tobytes()
