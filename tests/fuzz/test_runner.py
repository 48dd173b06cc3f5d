"""The runner of the fuzzers finds what it is there to find."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz import runner

FAULTY = """
import os, time
import numpy as np
from tests.fuzz import runner

def try_case(seed, case, folder):
    if case == 0:
        os.kill(os.getpid(), 11)
    if case == 1:
        time.sleep(60)
    if case == 2:
        try:
            np.ones(1 << 31)
        except MemoryError as error:
            return f"problem {error!r}"
    if case == 3:
        return "problem of another kind"
    return ["refused", "worked"][case % 2]

runner.main(__name__, None, try_case, lambda: None)
"""


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A child that dies, hangs or takes too much memory is a problem, and the cases after it are still tried."""
    (tmp_path / "faulty_fuzzer.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(runner, "TIMEOUT", 2.0)
    counts = runner.run("faulty_fuzzer", count=8, seed=0)
    assert (counts.cases, counts.refused, counts.worked) == (8, 2, 2)
    assert [problem[:14] for problem in counts.problems] == [f"seed 0, case {case}" for case in range(4)]
    for told, problem in zip(("died", "hung", "MemoryError", "another kind"), counts.problems, strict=True):
        assert told in problem
