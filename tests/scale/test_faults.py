"""Some rounds of tests/run_cluster_crash.py, each with a kill of another kind; see there for all of them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / "run_cluster_crash.py"
STORIES = (
    "driver",
    "search",
    "adopt",
)  # the others need more time, or have their likes in test_faults_local.py

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc"),
]


def test_clusters_are_right_after_kills_of_drivers_and_shards(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    # Searches that rest leave the processor to what is killed and starts again.
    command = [sys.executable, str(RUN), "--rounds", "3", "--stories", ",".join(STORIES)]
    command += ["--rest", "0.05", "--json", str(figures)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    found = json.loads(figures.read_text())
    assert set(found["rounds"]) == set(STORIES)
    assert sum(found["kills"].values()) >= len(STORIES)
    assert found["answered"] > 0
    assert (found["wrong"], found["failed"], found["failures"]) == (0, 0, [])
