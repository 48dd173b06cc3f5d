"""A slice of the model fuzzer: `tests/fuzz/models.py` runs as many cases as one likes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.fuzz import models
from tests.fuzz.model_files import corpus, opened, sealed
from tests.fuzz.model_mutations import mutated

import hashstream as hs
from hashstream.hashers.storage import from_bytes


def test_a_slice_of_the_cases() -> None:
    counts = models.run(count=300, seed=7)
    assert not counts.problems, "\n".join(counts.problems)
    assert counts.cases == counts.refused + counts.worked == 300
    assert counts.refused > 100
    assert counts.worked > 30


def test_the_corpus_covers_every_method_and_map() -> None:
    files = corpus()
    assert {opened(raw).name for raw in files} == set(hs.methods())
    text = " ".join(str(opened(raw).card) for raw in files)
    assert all(f"'{name}'" in text for name in ("CenterUnit", "RBFAnchors", "OKHKernel"))
    for raw in files:
        from_bytes(sealed(opened(raw)), "a file sealed again")


def test_a_case_is_always_the_same() -> None:
    raw = corpus()[0]
    for seed in range(20):
        assert mutated(raw, np.random.default_rng(seed)) == mutated(raw, np.random.default_rng(seed))


def test_faults_are_found(monkeypatch, tmp_path) -> None:
    """A child that dies, hangs or takes too much memory is a problem, and the cases after it are still tried."""
    script = tmp_path / "child.py"
    script.write_text(
        f"""
import os, sys, time
import numpy as np

sys.path.insert(0, {str(Path(models.__file__).parents[2])!r})
from tests.fuzz import models

plain = models.use, models.mutated
faults = [lambda: os.kill(os.getpid(), 11), lambda: time.sleep(60), lambda: np.ones(1 << 31)]

def try_case(files, seed, case, path):
    models.use, models.mutated = plain
    if case < 3:
        models.use, models.mutated = lambda model, rng: faults[case](), lambda raw, rng: (raw, "nothing")
    return tried(files, seed, case, path)

tried, models.try_case = models.try_case, try_case
models.main()
"""
    )
    monkeypatch.setattr(models, "__file__", str(script))
    monkeypatch.setattr(models, "TIMEOUT", 2.0)
    counts = models.run(count=4, seed=0)
    assert counts.cases == 4
    assert [problem[:14] for problem in counts.problems] == [f"seed 0, case {case}" for case in range(3)]
    for told, problem in zip(("died", "hung", "MemoryError"), counts.problems, strict=True):
        assert told in problem
