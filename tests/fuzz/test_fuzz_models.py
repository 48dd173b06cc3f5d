"""A slice of the model fuzzer: `tests/fuzz/models.py` runs as many cases as one likes."""

from __future__ import annotations

import numpy as np
from tests.fuzz import models
from tests.fuzz.model_files import corpus, opened, sealed
from tests.fuzz.model_mutations import mutated

import hashstream as hs
from hashstream.hashers.serialization import from_bytes


def test_a_slice_of_the_cases() -> None:
    counts = models.run(count=300, seed=7)
    assert not counts.problems, "\n".join(counts.problems)
    assert counts.cases == counts.refused + counts.worked == 300
    assert counts.refused > 100
    assert counts.worked > 30


def test_the_corpus_covers_every_method_and_map() -> None:
    files = corpus()
    assert {opened(raw).name for raw in files} == set(hs.methods(variants=True))
    text = " ".join(str(opened(raw).card) for raw in files)
    assert all(f"'{name}'" in text for name in ("CenterUnit", "RBFAnchors", "GaussianMap"))
    for raw in files:
        from_bytes(sealed(opened(raw)), "a file sealed again")


def test_a_case_is_always_the_same() -> None:
    raw = corpus()[0]
    for seed in range(20):
        assert mutated(raw, np.random.default_rng(seed)) == mutated(raw, np.random.default_rng(seed))
