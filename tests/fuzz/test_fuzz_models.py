"""A slice of the model fuzzer: `tests/fuzz/models.py` runs as many cases as one likes."""

from __future__ import annotations

import numpy as np
import pytest
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


@pytest.mark.parametrize(
    ("fault", "told"),
    [("os.kill(os.getpid(), 11)", "died"), ("time.sleep(60)", "hung"), ("np.ones(1 << 31)", "Error")],
)
def test_faults_are_found(monkeypatch, tmp_path, fault: str, told: str) -> None:
    """A child that dies, hangs or takes too much memory is a problem, and the cases after it are still tried."""
    script = tmp_path / "child.py"
    script.write_text(
        "import os, sys, time\nimport numpy as np\n"
        f"sys.path.insert(0, {str(models.__file__.rpartition('/tests/')[0])!r})\n"
        "from tests.fuzz import models\n"
        "plain = models.try_case\n"
        "def faulty(files, seed, case, path):\n"
        f"    if case == 1:\n        try:\n            {fault}\n"
        "        except MemoryError as error:\n            return f'problem {error!r}'\n"
        "    return plain(files, seed, case, path)\n"
        "models.try_case = faulty\nmodels.main()\n"
    )
    monkeypatch.setattr(models, "__file__", str(script))
    monkeypatch.setattr(models, "TIMEOUT", 2.0)
    counts = models.run(count=3, seed=0)
    assert counts.cases == 3
    assert len(counts.problems) == 1
    assert "seed 0, case 1" in counts.problems[0]
    assert told in counts.problems[0]
