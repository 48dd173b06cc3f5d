"""An install without compiled kernels works, and says once that it is slow. `make dist` tries real installs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hashstream as hs
from hashstream import _native

SEARCH = """
import numpy as np, hashstream as hs
codes = np.random.default_rng(0).integers(0, 256, (100, 4), np.uint8)
"""
USES = {
    "a search": "hs.hamming.topk(codes, codes, 2)",
    "encoding": "hs.LSH(n_bits=8, random_state=0).fit(np.eye(8)).transform(np.eye(8))",
    "learning": "hs.MIHash(n_bits=8, random_state=0).partial_fit(np.eye(8), np.arange(8) % 2)",
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as it is installed without a compiler."""
    folder = tmp_path_factory.mktemp("bare")
    without = shutil.ignore_patterns("_kernels*", "__pycache__")
    shutil.copytree(Path(hs.__file__).parent, folder / "hashstream", ignore=without)
    return folder


def said_by(folder: Path, program: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        env={"PYTHONPATH": str(folder), "PATH": "", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


@pytest.mark.parametrize("use", sorted(USES))
def test_the_first_use_of_a_twin_warns_once(bare: Path, use: str) -> None:
    said = said_by(bare, SEARCH + 2 * f"{USES[use]}\n")
    assert said.count("times as long") == 1
    assert "NumPy (installed without a C compiler)" in said


def test_twins_that_were_asked_for_do_not(bare: Path) -> None:
    assert "times as long" not in said_by(bare, SEARCH + USES["a search"], HASHSTREAM_NATIVE="0")


@pytest.mark.skipif(_native.lib is None, reason="installed without a C compiler")
def test_nor_do_kernels() -> None:
    assert "times as long" not in said_by(Path(hs.__file__).parents[1], SEARCH + "\n".join(USES.values()))
