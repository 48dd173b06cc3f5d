"""A short run of the kernels' tests on a build that stops at the first byte read or written out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[1] / "run_asan.py"


def test_no_access_out_of_bounds():
    sys.path.insert(0, str(RUNNER.parent))
    try:
        import run_asan
    finally:
        sys.path.remove(str(RUNNER.parent))
    if os.environ.get("LD_PRELOAD"):
        pytest.skip("already running on the sanitized build, or on another preloaded library")
    if run_asan.problem():
        pytest.skip(run_asan.problem())
    names = ("test_hamming_engines.py", "test_hamming_mask.py", "test_hamming_multi.py")
    ran = subprocess.run(
        [
            sys.executable,
            str(RUNNER),
            *(str(Path(__file__).parent / name) for name in names),
            "-k",
            "every_width or any_length or places or long_codes or few_codes or given_up or slots or costs_are",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    assert " passed" in ran.stdout
