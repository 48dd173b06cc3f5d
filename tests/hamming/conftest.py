"""`engine`: the three ways to compute the same thing, each given to every test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from hashstream.hamming import _kernel, _twin


@pytest.fixture(params=["vector C", "portable C", "NumPy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`_kernel` with its vector paths, without them, or `_twin`; also as the engine of the public functions."""
    chosen = _twin if request.param == "NumPy" else _kernel
    if chosen is _kernel and not _kernel.available():
        pytest.skip("installed without a C compiler")
    monkeypatch.setattr(_kernel, "portable", request.param == "portable C")
    monkeypatch.setattr("hashstream.hamming._search.engine", chosen)
    monkeypatch.setattr("hashstream.hamming._parts.engine", chosen)
    monkeypatch.setattr("hashstream.hamming._rank.engine", chosen)
    monkeypatch.setattr("hashstream.hamming._weighted.engine", chosen)
    return chosen


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
