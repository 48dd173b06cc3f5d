"""Killed at fail-points and at any moment, and without power: 20 seeds of `make crash`, which has more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.table import faulty_disk
from tests.table.fingerprints import fingerprint
from tests.table.table_worlds import rows

import hashstream as hs
from hashstream.table import HashTable, Never
from hashstream.table.storage.folder import failpoints

ROOT = Path(__file__).parents[2]
SEEDS = 20


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `tests/run_crash.py` found, in processes of its own: it forks."""
    if not hasattr(os, "fork"):
        pytest.skip("children are forked, which this system cannot do")
    path = tmp_path_factory.mktemp("crash") / "figures.json"
    losses = 0 if faulty_disk.problem() else 2
    command = [sys.executable, str(ROOT / "tests" / "run_crash.py"), "--json", str(path)]
    done = subprocess.run(
        [
            *command,
            "--kills",
            str(SEEDS),
            "--losses",
            str(losses),
            "--points",
            "4",
            "--damage",
            "0",
            "--interrupts",
            "0",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert path.exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    assert done.returncode == (1 if found["kills"]["failures"] or found["losses"]["failures"] else 0), (
        done.stdout
    )
    return found


def test_what_was_acknowledged_survives_kills_and_the_rest_is_whole_or_absent(
    figures: dict[str, Any],
) -> None:
    kills = figures["kills"]
    assert kills["failures"] == []
    assert kills["seeds"] == SEEDS
    assert sum(kills["kills"].values()) > 2 * SEEDS
    assert kills["acknowledged"] > 20 * SEEDS
    assert kills["whole"] > 0
    assert kills["undone"] > 0
    assert kills["snapshots"] > 0
    assert kills["forks"] > 10
    assert kills["threads"] > SEEDS
    assert kills["reads"] > 10


def test_every_fail_point_has_killed(figures: dict[str, Any]) -> None:
    kills = figures["kills"]["kills"]
    assert [name for name in failpoints.NAMES if not kills.get(name)] == []
    assert kills["any moment"] > SEEDS // 2


@pytest.mark.skipif(bool(faulty_disk.problem()), reason=faulty_disk.problem())
def test_what_was_acknowledged_survives_power_losses(figures: dict[str, Any]) -> None:
    losses = figures["losses"]
    assert losses["failures"] == []
    assert losses["older"] == 0  # of durability="full"
    assert all(losses["losses"][kind] > 20 for kind in ("nothing", "all", "some"))
    assert losses["whole"] > 0
    assert losses["undone"] > 0


def test_a_reader_goes_past_feedback_that_a_checkpoint_has_deleted(tmp_path: Path) -> None:
    """The model then comes from the checkpoint, since what it learned from is not there any more."""
    rng, ids = np.random.default_rng(0), np.arange(60)
    X, y = rows(rng, 60)
    with HashTable.open(tmp_path, hs.FCOH(16, random_state=0), policy=Never(), sample_size=0) as table:
        table.ingest(ids, X, y)
        with HashTable.open(tmp_path, mode="read") as reader:
            table.label(ids[:20], (y[:20] + 1) % 4)
            table.flush()
            table.label(ids[20:30], (y[20:30] + 1) % 4)
            table.ingest([100], X[:1], y[:1])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert reader.reload()
            assert fingerprint(reader, X[:5]) == fingerprint(table, X[:5])
